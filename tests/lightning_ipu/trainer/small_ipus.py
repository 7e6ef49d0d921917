"""A machine with few tiles, so that tiny models overflow it."""

from dataclasses import replace

from softipu.hardware import find_system


def system(n_tiles):
    """A Bow POD16 whose chips have ``n_tiles`` tiles."""
    pod = find_system("bow-pod16")
    return replace(pod, name=f"pod16 of {n_tiles} tiles", ipu=replace(pod.ipu, n_tiles=n_tiles))
