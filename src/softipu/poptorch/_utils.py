"""PopTorch's private module of small functions, none of which means anything without its compiler."""

from softipu.poptorch.not_here import refusing

__getattr__ = refusing("_utils")
