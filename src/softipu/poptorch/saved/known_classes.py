"""Classes by name, among those that the program has imported already.

A file names a class; it must not be able to import a module, because importing runs code.
"""

import sys
from typing import Any


class UnknownClass(Exception):
    """No such class has been imported; the message says which and what to do."""


def class_name(cls: type) -> str:
    """``module:qualified.name`` of a class.

    Raises:
        UnknownClass: the class cannot be found again by its name.
    """
    name = f"{cls.__module__}:{cls.__qualname__}"
    if "<locals>" in name:
        raise UnknownClass(
            f"the class {cls.__qualname__} is defined inside a function, so a file cannot name it; define it at module level"
        )
    if find_class(name) is not cls:
        raise UnknownClass(f"the name {name} stands for another class by now")
    return name


def find_class(name: str) -> type:
    """The class of a name that ``class_name`` gave.

    Raises:
        UnknownClass: its module is not imported, or has no such class.
    """
    module_name, _, qualified = name.partition(":")
    module: Any = sys.modules.get(module_name)
    if module is None:
        raise UnknownClass(f"the class {qualified} is in the module {module_name}, which is not imported; import it first")
    found: Any = module
    for part in qualified.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    if not isinstance(found, type):
        raise UnknownClass(f"the module {module_name} has no class {qualified}")
    return found
