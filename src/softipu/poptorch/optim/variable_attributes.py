"""Which attributes of an optimizer the device may see change after compiling."""

from typing import List


class VariableAttributes:
    """What ``optimizer.variable_attrs`` is: arguments given to the constructor are variable, the others constant.

    On an IPU a constant costs no memory and no transfer. The software IPU lets both change.
    """

    def __init__(self, variable_attributes: List[str], allowed_attributes: List[str]) -> None:
        self._variable_attributes = variable_attributes
        self._allowed_attributes = allowed_attributes

    def isConstant(self, attr: str) -> bool:
        """Whether the attribute is a constant of the compiled program."""
        return attr not in self._variable_attributes

    def markAsConstant(self, attr: str) -> None:
        """Makes it a constant. AssertionError: the optimizer has no such attribute."""
        self._check(attr)
        self._variable_attributes = [name for name in self._variable_attributes if name != attr]

    def markAsVariable(self, attr: str) -> None:
        """Lets it change after compiling. AssertionError: the optimizer has no such attribute."""
        self._check(attr)
        if attr not in self._variable_attributes:
            self._variable_attributes = [*self._variable_attributes, attr]

    def _check(self, attr: str) -> None:
        assert attr in self._allowed_attributes, f"Unknown attribute {attr}, allowed values: {self._allowed_attributes}"
