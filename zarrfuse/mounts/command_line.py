"""Hides secrets in the command line of this process, which all users of a machine can read.

Used by `cli.mount`, before a daemon is made of the process. Environment variables need no hiding: only the
user of a process reads them.
"""

import ctypes
from collections.abc import Iterable

_ARG_START, _ARG_END = 48, 49  # fields of /proc/self/stat, from 1 (proc(5))


def hide(secrets: Iterable[str]) -> None:
    """Replace secrets by asterisks in `/proc/self/cmdline`."""
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()  # field 3 is the first of them
    start, end = int(fields[_ARG_START - 3]), int(fields[_ARG_END - 3])
    if not 0 < start < end:
        return
    line = ctypes.string_at(start, end - start)
    for secret in secrets:
        text = secret.encode("utf-8", "surrogateescape")
        at = line.find(text) if text else -1
        while at >= 0:
            ctypes.memset(start + at, ord("*"), len(text))
            at = line.find(text, at + len(text))
