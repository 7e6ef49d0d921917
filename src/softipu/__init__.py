"""The software IPU: captures a step, transforms it, runs it on the CPU, prices it and plans it."""
