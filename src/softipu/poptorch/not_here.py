"""What asking for a name of PopTorch's private modules that only its compiler has is answered with."""

from typing import Callable, NoReturn


def refusing(module: str) -> Callable[[str], NoReturn]:
    """A module's ``__getattr__``: AttributeError that names what was asked for, and says why it is not there."""

    def refuse(name: str) -> NoReturn:
        raise AttributeError(
            f"poptorch.{module}.{name}: the software IPU has no such name. It is private to PopTorch's compiler, or belongs to another "
            "version; programs that run on both use the public names of poptorch."
        )

    return refuse
