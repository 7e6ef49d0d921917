"""Graph to graph: exact/ keeps every bit, inexact/ may change numerics."""

from softipu.passes.pipeline import run_passes

__all__ = ["run_passes"]
