"""Time stamps of the last call, as PopTorch's performance counters give them."""

import time
from typing import Dict, List, Tuple

EVENTS = ("input", "input_complete", "output", "output_complete")


class CallTimes:
    """When the last call took its inputs, computed and returned; seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._stamps: Dict[str, float] = {}

    def start(self) -> None:
        self._stamps = {"input": time.perf_counter()}

    def input_complete(self) -> None:
        self._stamps["input_complete"] = time.perf_counter()

    def output_start(self) -> None:
        self._stamps["output"] = time.perf_counter()

    def stop(self) -> None:
        self._stamps["output_complete"] = time.perf_counter()

    def forget(self) -> None:
        """The call transferred nothing."""
        self._stamps = {}

    def counters(self, n_inputs: int, n_outputs: int, n_read: int, n_returned: int) -> Dict[str, List[List[float]]]:
        """One list per tensor, one stamp per micro-batch that was read or returned.

        Software moves a whole host batch at once, so the stamps of one list are equal. Empty lists before the first call, and
        after one that transferred nothing.
        """
        sizes = {"input": (n_inputs, n_read), "input_complete": (n_inputs, n_read)}
        sizes.update({"output": (n_outputs, n_returned), "output_complete": (n_outputs, n_returned)})
        if not self._stamps:
            return {event: [[] for _ in range(max(n_tensors, 1))] for event, (n_tensors, _) in sizes.items()}
        return {event: [[self._stamps[event]] * n for _ in range(n_tensors)] for event, (n_tensors, n) in sizes.items()}

    def latency(self, first: str, last: str) -> Tuple[float, float, float]:
        """(min, max, average) seconds from ``first`` to ``last``; zeros before the first call."""
        seconds = self._stamps[last] - self._stamps[first] if self._stamps else 0.0
        return (seconds, seconds, seconds)
