"""What a pass is."""

from typing import ClassVar, Protocol

from torch.fx import GraphModule


class GraphPass(Protocol):
    """A frozen dataclass whose fields are its options."""

    name: ClassVar[str]

    def run(self, graph_module: GraphModule) -> bool:
        """Changes the graph in place; returns whether it did."""
        ...
