"""Runs a command, and says what it and all processes that it started took: `accounted.py COMMAND...`.

Prints JSON: seconds until the command ended, and of all processes the CPU time, the bytes asked of files
and pipes (`rchar` of proc(5)) and the bytes that came from the disk. Used by `indexing`, as a process of
its own: processes that outlive the command, such as a fork server, become children of this one, which
waits for them; the kernel adds to a process what the children it has waited for took.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None)


def _read_bytes() -> tuple[int, int]:
    """(bytes asked for, bytes from the disk) of this process and its former children."""
    lines = Path("/proc/self/io").read_text().splitlines()
    found = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    return found["rchar"], found["read_bytes"]


def _end_with_parent() -> None:
    """If the benchmark is interrupted, the command must not go on writing into what is deleted."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> int:
    """Run the command; its return code."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asked_before, from_disk_before = _read_bytes()
    begun = time.perf_counter()
    done = subprocess.run(
        sys.argv[1:], stdout=subprocess.DEVNULL, check=False, preexec_fn=_end_with_parent
    )
    seconds = time.perf_counter() - begun
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    asked, from_disk = _read_bytes()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu_s": used.ru_utime + used.ru_stime,
                "asked_bytes": asked - asked_before,
                "disk_bytes": from_disk - from_disk_before,
            }
        )
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
