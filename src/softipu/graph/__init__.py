"""Steps as torch.fx graphs of ATen ops, and what can be asked of their nodes."""

from softipu.graph.step import Role, Step, Value

__all__ = ["Role", "Step", "Value"]
