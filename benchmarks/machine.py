"""What a run was measured on: the kernel, the hardware and the versions of programs, in one line."""

import os
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.systems import Failed, run


def machine(folder: Path) -> str:
    """What it was measured on, in one line."""
    cpu = _in_file("/proc/cpuinfo", r"model name\s*: (.+)") or platform.machine()
    total = int(_in_file("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0) / 2**20
    file_system = run(["findmnt", "-n", "-o", "FSTYPE", "-T", str(folder)]).strip()
    return ", ".join(
        [
            f"Linux {platform.release()}",
            f"{os.cpu_count()} x {cpu}",
            f"{total:.0f} GiB of memory",
            f"data on {file_system}",
            f"Python {platform.python_version()}",
            f"pyfuse3 {version('pyfuse3')}",
            f"libfuse {_fuse_version()}",
            _first_line(["bindfs", "--version"]),
        ]
    )


def _in_file(path: str, pattern: str) -> str | None:
    found = re.search(pattern, Path(path).read_text())
    return found[1] if found else None


def _fuse_version() -> str:
    """Of the libfuse that pyfuse3 is linked to."""
    code = (
        "import pyfuse3, ctypes, re\n"
        "path = re.search(r'\\S+libfuse3\\S+', open('/proc/self/maps').read())[0]\n"
        "say = ctypes.CDLL(path).fuse_pkgversion\n"
        "say.restype = ctypes.c_char_p\n"
        "print(say().decode())\n"
    )
    try:
        return run([sys.executable, "-c", code]).strip()
    except Failed:
        return "unknown"


def _first_line(command: list[str]) -> str:
    return run(command).splitlines()[0]
