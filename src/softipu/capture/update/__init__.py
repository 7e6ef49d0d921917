"""The update of a training step: from an optimizer object to a graph, its inputs and its state."""

from softipu.capture.update.build import Input, Update, build_update, hyper_values
from softipu.capture.update.spec import GroupSpec, OptimizerSpec, read_optimizer
from softipu.capture.update.state import carry_state, export_state, import_state, new_state

__all__ = [
    "GroupSpec",
    "Input",
    "OptimizerSpec",
    "Update",
    "build_update",
    "carry_state",
    "export_state",
    "hyper_values",
    "import_state",
    "new_state",
    "read_optimizer",
]
