"""Memory that a program frees stays with the process.

A step frees what it made and the next step asks for the same again. glibc gives large blocks back to the system at once, and every
page that comes again costs a fault and is filled with zeros: a tenth of the time of a step of BERT-Base.
"""

import ctypes
import functools
import os
import platform

VARIABLE = "SOFTIPU_KEEP_FREED_MEMORY"
# Of <malloc.h>.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_NEVER = 2**31 - 1
_TOP_PAD_BYTES = 64 * 2**20


@functools.lru_cache(maxsize=None)
def keep_freed_memory() -> bool:
    """Tells the C library to keep freed memory for this process; returns whether it does.

    Only glibc can; SOFTIPU_KEEP_FREED_MEMORY=0 leaves it alone. Holds for the rest of the process.
    """
    if os.environ.get(VARIABLE, "1") == "0" or platform.libc_ver()[0] != "glibc":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _NEVER), (_M_TOP_PAD, _TOP_PAD_BYTES))
    return all(mallopt(name, value) == 1 for name, value in settings)
