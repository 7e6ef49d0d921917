"""Ops that PopTorch refuses to compile, in its words: a program that uses one must not pass here and fail on the machine."""

from typing import Optional

from torch.fx import Node

from softipu.capture.user_code import Line, refusal
from softipu.errors import CaptureError
from softipu.graph.effects import overload_of

_NO_MODE = ("upsample_linear1d", "upsample_trilinear3d")
_OTHER_MODES = (
    "use mode='nearest', or for images [N, C, H, W] 'bilinear' or 'bicubic' with align_corners=False; "
    "or resample on the host before the step."
)


def refused(node: Node, line: Optional[Line]) -> Optional[CaptureError]:
    """The error for a captured op that PopTorch does not compile; None for all others."""
    op = overload_of(node)
    name = "" if op is None else op._schema.name.split("::")[-1]
    if name in _NO_MODE:
        return refusal(f"Unsupported upsample mode aten::{name}: currently only 'nearest' is supported.", _OTHER_MODES, line)
    if name == "upsample_bicubic2d" and len(node.args) > 2 and node.args[2]:
        return refusal("Only support align_corners=False for bicubic upsampling.", _OTHER_MODES, line)
    return None
