"""Where in the user's model an op comes from."""

from dataclasses import dataclass
from typing import Hashable, Optional

from torch.fx import Node

KEY = "origin"


@dataclass(frozen=True)
class Origin:
    """The module whose forward called an op, and whether the op is of the backward pass of that call.

    Attributes:
        module: path from the captured module, "" for itself.
        backward: of the gradient of the call.
        block: what the capture's caller called the block that the op belongs to, None outside all blocks.
        run: forward ops between two module boundaries have the same number, counted from 0, and so have their backward ops.
    """

    module: str = ""
    backward: bool = False
    run: int = 0
    block: Optional[Hashable] = None

    def inside(self, path: str) -> bool:
        """Whether the op is of the module at ``path`` or of one in it; every op is inside ""."""
        return not path or self.module == path or self.module.startswith(path + ".")


def origin_of(node: Node) -> Origin:
    """The origin that capture wrote; a node that a pass added without one takes that of its first argument."""
    seen = node
    while KEY not in seen.meta and seen.all_input_nodes:
        seen = seen.all_input_nodes[0]
    found: Origin = seen.meta.get(KEY, Origin())
    return found
