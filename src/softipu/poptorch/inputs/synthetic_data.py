"""Options.enableSyntheticData: the device makes its inputs up."""

from typing import List, Sequence

import torch

from softipu.graph.seeds import mix


class SyntheticData:
    """Numbers in the shapes and types of a call's inputs: floats of a normal distribution, integers and bools that are 0.

    Args:
        seed: the same seed gives the same calls.
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._n_calls = seed, 0

    def instead_of(self, tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """New tensors; those given are not read."""
        generator = torch.Generator().manual_seed(mix(self._seed, self._n_calls))
        self._n_calls += 1
        made = []
        for tensor in tensors:
            values = torch.zeros(tensor.shape, dtype=tensor.dtype)
            made.append(values.normal_(generator=generator) if tensor.is_floating_point() else values)
        return made
