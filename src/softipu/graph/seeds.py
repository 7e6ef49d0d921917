"""Seeds of many independent random streams from one."""

_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, near 2^64 / golden ratio: neighbouring counters give unrelated seeds
_MASK = (1 << 63) - 1


def mix(seed: int, number: int) -> int:
    """A seed for stream ``number`` of ``seed``: splitmix64's finaliser, in 63 bits."""
    z = (seed + (number + 1) * _MULTIPLIER) & ((1 << 64) - 1)
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & ((1 << 64) - 1)
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & ((1 << 64) - 1)
    return (z ^ (z >> 31)) & _MASK
