"""Host tensors as the device takes them: dtypes, layout, micro-batches, and what was changed in place on the way back."""

from typing import List, Sequence, Tuple

import torch

from softipu.errors import Error
from softipu.poptorch.log import logger
from softipu.runtime import BatchShape

_INT32 = torch.iinfo(torch.int32)
_NARROWED = {torch.float64: torch.float32, torch.bfloat16: torch.float32}


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` in the form the device computes with: float64 and bfloat16 as float32, contiguous, without history.

    int64 stays as it is (the software IPU indexes with it) but must fit into the device's int32.

    Raises:
        Error: no elements, or an integer that does not fit into int32.
    """
    if tensor.numel() == 0:
        raise Error(
            f"Zero-sized tensors are unsupported (Got shape {list(tensor.shape)}). Leave the input out, or give it at least one element."
        )
    if tensor.dtype == torch.int64:
        low, high = (int(v) for v in torch.aminmax(tensor.detach()))
        if low < _INT32.min or high > _INT32.max:
            raise Error(
                f"An int64 input holds values from {low} to {high}, but the device computes in int32 ({_INT32.min} to {_INT32.max})."
            )
    result = tensor.detach() if tensor.requires_grad else tensor
    if result.dtype in _NARROWED:
        result = result.to(_NARROWED[result.dtype])
    return result if result.is_contiguous() else result.contiguous()


def warn_about(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
    """Says once per compilation what is done to unusual inputs."""
    for name, tensor in zip(names, tensors):
        if tensor.requires_grad:
            logger.warning(
                "Input tensor has requires_grad=True set. This tensor will be detached because backward pass via inputs is not supported. "
                "It is input %s.",
                name,
            )
        if not tensor.is_contiguous():
            logger.warning("Input %s is not contiguous; it is copied on every call.", name)


def write_back(changed: Sequence[int], given: Sequence[torch.Tensor], used: Sequence[torch.Tensor]) -> None:
    """Copies what the step changed in place into the caller's tensors where those were converted."""
    with torch.no_grad():
        for i in changed:
            if used[i].data_ptr() != given[i].data_ptr() or used[i].dtype != given[i].dtype:
                given[i].copy_(used[i])


def micro_batch(tensors: Sequence[torch.Tensor], names: Sequence[str], shape: BatchShape) -> List[torch.Tensor]:
    """The first micro-batch of host batches [rows, ...].

    Raises:
        AssertionError: the rows do not divide by device iterations x accumulation x input groups.
    """
    first = []
    for name, tensor in zip(names, tensors):
        if tensor.dim() == 0:
            first.append(tensor)
            continue
        rows = tensor.shape[0]
        assert rows % shape.n_slices == 0, (
            f"Invalid batch dimension: In the input {name}, the batch dimension ({rows}) must be a multiple of "
            f"Options.deviceIterations({shape.n_iterations}) * Options.replicationFactor({shape.n_replicas}) / input group size"
            f"({shape.input_group_size}) * Options.Training.gradientAccumulation({shape.n_accumulated}) = {shape.n_slices}, "
            "because it is used to calculate the micro batch of each replica."
        )
        first.append(tensor.narrow(0, 0, rows // shape.n_slices))
    return first


def on_host(tensors: Sequence[torch.Tensor], dtypes: Sequence[torch.dtype]) -> Tuple[torch.Tensor, ...]:
    """Outputs in the dtypes that a device returns: int64 as int32, float64 as float32."""
    narrow = {torch.int64: torch.int32, torch.float64: torch.float32}
    return tuple(t.to(narrow[d]) if d in narrow else t for t, d in zip(tensors, dtypes))
