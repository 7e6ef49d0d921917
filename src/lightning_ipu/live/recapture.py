"""How code deep within a step that is being captured asks for another attempt."""

from typing import Any, FrozenSet


class Recapture(BaseException):
    """The capture has to start again with some names treated otherwise. Not an Exception: nothing on the way may handle it.

    Args:
        live: keys of numbers that are to be live, and scopes whose float, int and math are to take live numbers.
        fixed: keys of numbers that are to be plain.
    """

    def __init__(self, *, live: FrozenSet[Any] = frozenset(), fixed: FrozenSet[Any] = frozenset()) -> None:
        super().__init__()
        self.live, self.fixed = live, fixed
