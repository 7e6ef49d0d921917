"""User classes as inputs and outputs of a model: ``ICustomArgParser`` and ``registerCustomArgParser``."""

from typing import Any, Dict, Iterator, Optional

import torch

from softipu.errors import Error


class ICustomArgParser:
    """Takes a user's structure apart into tensors and puts it together again.

    Both methods must go through the tensors in the same order, whatever the values.
    """

    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Every tensor of ``struct``, one after another."""
        raise NotImplementedError(f"{type(self).__name__} must define yieldTensors(struct)")

    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """A structure like ``original_structure`` with the tensors that the iterator gives."""
        raise NotImplementedError(f"{type(self).__name__} must define reconstruct(original_structure, tensor_iterator)")


_parsers: Dict[type, ICustomArgParser] = {}


def registerCustomArgParser(arg_type: type, parser: Optional[ICustomArgParser]) -> None:
    """Use ``parser`` for values of this class and its subclasses; None forgets it.

    Raises:
        Error: neither a parser nor None.
    """
    if parser is None:
        _parsers.pop(arg_type, None)
    elif isinstance(parser, ICustomArgParser):
        _parsers[arg_type] = parser
    else:
        raise Error(
            f"registerCustomArgParser({arg_type!r}, ...) needs an instance of a subclass of poptorch.ICustomArgParser, or None, "
            f"given {parser!r}"
        )


def find_parser(kind: type) -> Optional[ICustomArgParser]:
    """The parser of a class, or of the nearest class that it derives from."""
    return next((_parsers[parent] for parent in kind.__mro__ if parent in _parsers), None)
