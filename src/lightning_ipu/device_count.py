"""How many IPUs a program may use. No torch here: the command line asks too."""

from typing import Any

# Poplar attaches IPUs in powers of two; 64 make an IPU-POD64, the largest that one program drives.
ALLOWED = (1, 2, 4, 8, 16, 32, 64)


def parse(devices: Any) -> int:
    """The number of IPUs that ``Trainer(devices=...)`` asks for.

    Raises:
        ValueError: not a power of two from 1 to 64, or a list of device numbers.
    """
    count = int(devices) if isinstance(devices, str) and devices.strip().isdigit() else devices
    if isinstance(count, bool) or not isinstance(count, int) or count not in ALLOWED:
        hint = (
            " Which IPUs those are is the partition's choice, so give their number, not a list."
            if isinstance(devices, (list, tuple))
            else ""
        )
        raise ValueError(
            f"Trainer(accelerator='ipu', devices={devices!r}): IPUs come in powers of two. "
            f"Allowed: {', '.join(str(n) for n in ALLOWED)}, or 'auto' for 1.{hint}"
        )
    return count
