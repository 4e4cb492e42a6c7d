"""Memory that goes back to the system, by glibc's malloc; with another C library all stays as it is."""

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
OWN_MAPPING = 512 << 10
"""Bytes from which a block is mapped by itself, and unmapped when freed; RocksDB makes memtables of blocks of 1 MiB.
glibc's own bound rises to the size of what was freed last, up to 32 MiB: then they lie among everything else, and what
a memtable held stays with the process for ever."""
KEPT_ON_TOP = 8 << 20
"""Bytes free at the end of the heap that stay: giving back less would only fetch it again."""


def give_back() -> bool:
    """For this process, from now on → whether it took. An operator's own settings stay."""
    if any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, OWN_MAPPING) and mallopt(_M_TRIM_THRESHOLD, KEPT_ON_TOP))
