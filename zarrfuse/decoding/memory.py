"""Sets how the C library keeps freed memory, and tells how much memory is available.

`settle` is called once, before the first thread, by `mounts` and by `worker`. By default every chunk is
mapped anew and cleared by the kernel, which is a tenth of the time of decoding, and each thread has a heap
of its own that the others cannot use.
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
    """Keep freed memory for the next chunk. Does nothing if the C library is not glibc."""
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


def available_bytes(root: Path = Path("/")) -> float:
    """The memory that this process may still use, in bytes: of the machine, and of its cgroups (version 2).

    Infinite if the files below `root` do not say.
    """
    machine = _number(r"^MemAvailable: +([0-9]+) kB", root / "proc/meminfo")
    found = inf if machine is None else machine << 10
    own = re.search(r"^0::/(.*)$", _text(root / "proc/self/cgroup"), re.MULTILINE)
    if own is not None:
        top = root / "sys/fs/cgroup"
        folder = top / own[1]
        for group in (folder, *folder.parents[: len(Path(own[1]).parts)]):
            found = min(found, _available_in(group))
    return found


def _available_in(group: Path) -> float:
    """The memory that a cgroup may still use. Its page cache counts as free."""
    most, taken = (_number(r"^([0-9]+)$", group / f"memory.{name}") for name in ("max", "current"))
    if most is None or taken is None:
        return inf
    cached = (
        _number(rf"^{name}_file ([0-9]+)$", group / "memory.stat")
        for name in ("active", "inactive")
    )
    return max(0, most - taken + sum(number or 0 for number in cached))


def _number(pattern: str, path: Path) -> int | None:
    found = re.search(pattern, _text(path), re.MULTILINE)
    return None if found is None else int(found[1])


def _text(path: Path) -> str:
    """The text of a file; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
