"""Finds the user's own line in a traceback, and says what an IPU cannot do there."""

import linecache
import os
import sys
import sysconfig
import traceback
from types import FrameType, TracebackType
from typing import NamedTuple, Optional

from softipu.capture._torch_private import DataDependentOutputException, DynamicOutputShapeException
from softipu.errors import CaptureError

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PLUGIN = os.path.join(os.path.dirname(_OURS), "lightning_ipu")
_LIBRARIES = tuple({sysconfig.get_paths()[key] for key in ("purelib", "platlib", "stdlib")})
# PopTorch's words, which programs look for.
_MASK = (
    "Operations using aten::nonzero are unsupported because the output shape is determined by the tensor values. The IPU cannot support "
    "dynamic output shapes. "
    "Indexing using boolean or byte tensor masks is unsupported because it would produce dynamic output shapes based on the mask "
    "values. The IPU cannot support dynamic output shapes. "
)
_NOT_TRACEABLE = "trying to get value out of a tracing tensor"


class Line(NamedTuple):
    """A line of the user's code."""

    file: str
    number: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


def is_user_file(file: str) -> bool:
    """Whether ``file`` is neither Python's, nor a library's, nor ours."""
    path = os.path.abspath(file)
    return not (file.startswith("<") or path.startswith((_OURS + os.sep, _PLUGIN + os.sep)) or path.startswith(_LIBRARIES))


def line_of(tb: Optional[TracebackType]) -> Optional[Line]:
    """Innermost line of the user's code in a traceback; None if there is none."""
    found = None
    for frame in traceback.extract_tb(tb):
        if is_user_file(frame.filename):
            found = Line(frame.filename, frame.lineno or 0, (frame.line or "").strip())
    return found


def calling_line() -> Optional[Line]:
    """Innermost line of the user's code on the current stack."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_user_file(file):
            return Line(file, frame.f_lineno, linecache.getline(file, frame.f_lineno).strip())
        frame = frame.f_back
    return None


def refusal(what: str, instead: str, line: Optional[Line]) -> CaptureError:
    """The error for something that an IPU cannot do."""
    where = f"\n  {line}\n    {line.code}" if line else ""
    return CaptureError(f"{what}{where}\nInstead: {instead}", location=str(line) if line else "")


def explain(error: BaseException) -> Optional[CaptureError]:
    """A CaptureError for an error that means "an IPU cannot do this"; None for the user's own errors."""
    line = line_of(error.__traceback__)
    text = str(error)
    if isinstance(error, DataDependentOutputException) or _NOT_TRACEABLE in text or "cannot be converted to Scalar" in text:
        return refusal(
            "The step reads the value of a tensor on the host (a Python branch on a tensor, .item(), int(), float(), bool(), tolist()), "
            "but an IPU's program is compiled before any value exists.",
            "keep the choice on the device (torch.where, masks, poptorch.cond, poptorch.for_loop), or return the tensor and read it "
            "after the step.",
            line,
        )
    if isinstance(error, DynamicOutputShapeException):
        is_mask = any(name in text for name in ("aten.index.Tensor", "aten.nonzero.default"))  # 2.0.1 and newer versions
        return refusal(
            f"{_MASK if is_mask else ''}The step makes a tensor whose shape depends on data ({error}), but an IPU's program has fixed "
            "shapes "
            "(boolean-mask indexing, nonzero, masked_select, unique, bincount without minlength, repeat_interleave with a tensor).",
            "use torch.where or multiply by the mask, give one_hot num_classes and bincount minlength, or do it on the host before "
            "the step.",
            line,
        )
    if ".numpy() is not supported for tensor subclasses" in text or ".tolist() is not supported for tensor subclasses" in text:
        return refusal(
            "The step turns a tensor into a NumPy array or a list, but its values live on the IPU while the step runs.",
            "return the tensor from the step and convert it on the host.",
            line,
        )
    return None
