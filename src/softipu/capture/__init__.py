"""Module and sample inputs in, Step out."""

from softipu.capture.capture import capture
from softipu.capture.context import capturing, current, enter_block, mark_loss

__all__ = ["capture", "capturing", "current", "enter_block", "mark_loss"]
