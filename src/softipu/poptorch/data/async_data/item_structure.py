"""The tensors of one item of a dataset, and how they hang together: so that only tensors have to cross between processes."""

from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch

from softipu.poptorch.inputs.custom_parser import ICustomArgParser, find_parser

ALLOWED = (
    "AsynchronousDataAccessor takes items that are one tensor, a flat list or tuple of tensors, a dictionary of tensors, "
    "or a type registered with poptorch.registerCustomArgParser."
)


class ItemStructure(NamedTuple):
    """What an item is apart from its tensors.

    Attributes:
        item_type: type of the item.
        keys: of a dictionary, in its order.
        n_tensors: number of tensors.
        parser: the registered parser of the item's type.
        original: the first item, which such a parser needs to make another.
    """

    item_type: type
    keys: Tuple[Any, ...]
    n_tensors: int
    parser: Optional[ICustomArgParser] = None
    original: Optional[Any] = None

    def tensors_of(self, item: Any) -> List[torch.Tensor]:
        """Tensors of an item that must be like the first one.

        Raises:
            AssertionError: another type, other keys, another number of tensors, or something that is no tensor.
        """
        kind = type(item)
        assert kind is self.item_type, (
            f"An item of the dataset is of type {kind.__name__}, the first one was of type {self.item_type.__name__}. "
            "All items must be alike, because they share their buffers."
        )
        if self.keys:
            assert len(item) == len(self.keys) and all(key in item for key in self.keys), (
                f"An item of the dataset has the keys {list(item)}, the first one had {list(self.keys)}. All items need the same keys."
            )
        tensors = _taken_apart(item, self.keys, self.parser)
        assert len(tensors) == self.n_tensors, f"An item of the dataset has {len(tensors)} tensors, the first one had {self.n_tensors}."
        return _checked(tensors, self.keys)

    def item_of(self, tensors: Sequence[torch.Tensor]) -> Any:
        """An item like the first one, with these tensors (a mapping of any type becomes a dictionary)."""
        if self.parser is not None:
            return self.parser.reconstruct(self.original, iter(tensors))
        if issubclass(self.item_type, torch.Tensor):
            return tensors[0]
        if self.keys:
            return dict(zip(self.keys, tensors))
        # A named tuple takes its fields one by one.
        build: Callable[..., Any] = self.item_type
        return build(*tensors) if hasattr(self.item_type, "_fields") else build(tensors)


def structure_of(item: Any) -> ItemStructure:
    """Structure that an item, the first of its dataset, has.

    Raises:
        AssertionError: the item holds something that is no tensor, or nothing.
    """
    parser = find_parser(type(item))
    keys = tuple(item) if parser is None and isinstance(item, Mapping) else ()
    tensors = _checked(_taken_apart(item, keys, parser), keys)
    assert tensors, f"An item of the dataset ({type(item).__name__}) holds no tensor. {ALLOWED}"
    return ItemStructure(type(item), keys, len(tensors), parser, item if parser is not None else None)


def _taken_apart(item: Any, keys: Tuple[Any, ...], parser: Optional[ICustomArgParser]) -> List[Any]:
    if parser is not None:
        return list(parser.yieldTensors(item))
    if isinstance(item, torch.Tensor):
        return [item]
    if keys:
        return [item[key] for key in keys]
    assert isinstance(item, (list, tuple)), f"An item of the dataset is of type {type(item).__name__}. {ALLOWED}"
    return list(item)


def _checked(tensors: Iterable[Any], keys: Tuple[Any, ...]) -> List[torch.Tensor]:
    checked = []
    for index, tensor in enumerate(tensors):
        place = f"under the key {keys[index]!r}" if keys else f"at index {index}"
        assert isinstance(tensor, torch.Tensor), (
            f"An item of the dataset holds an object of type {type(tensor).__name__} {place}, which is not a torch tensor. {ALLOWED}"
        )
        assert tensor.layout == torch.strided and tensor.device.type == "cpu", (
            f"An item of the dataset holds a tensor of layout {tensor.layout} on device {tensor.device} {place}; "
            "only dense tensors on the CPU can be put into shared memory."
        )
        checked.append(tensor)
    return checked
