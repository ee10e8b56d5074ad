"""How the C library keeps memory while chunks are decoded, and how much of it there is.

`settle` is used once, before the first thread, by `daemon` and by `worker`. Chunks come and go by the
megabyte. As it is, each of them is mapped anew and cleared by the kernel, a tenth of the time of
decoding, and each thread has a heap of its own, of which none gives back what another could use.
"""

import ctypes
import re
from math import inf
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_KEPT_BYTES = 64 << 20
_LARGEST_IN_HEAP_BYTES = 32 << 20  # the most that glibc takes
_HEAPS = 2


def settle() -> None:
    """Keep freed memory for the next chunk. Does nothing where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_IN_HEAP_BYTES)
        mallopt(_M_ARENA_MAX, _HEAPS)


def give_back() -> None:
    """Give all freed memory back to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def available_bytes() -> float:
    """The memory that may still be taken on this machine; without limit where it does not tell."""
    try:
        told = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return inf
    found = re.search(r"^MemAvailable: +([0-9]+) kB", told, re.MULTILINE)
    return inf if found is None else int(found[1]) << 10
