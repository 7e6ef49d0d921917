"""What one op does: FLOPs, bytes, matrix products, vector arithmetic. One file per op family; what it costs is not said here.

An op without a rule is an UnknownOpError, never a zero.
"""

from softipu.ops.registry import known_ops, work_of
from softipu.ops.work import Contraction, VectorOp, Work

__all__ = ["Contraction", "VectorOp", "Work", "known_ops", "work_of"]
