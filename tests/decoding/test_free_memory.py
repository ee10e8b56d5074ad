"""The memory that may still be taken is that of the machine, or of a cgroup that has less."""

from math import inf
from pathlib import Path

import pytest
from builders.folders import write_keys

from zarrfuse.decoding.memory import available_bytes

MACHINE = {"proc/meminfo": b"MemTotal: 9000 kB\nMemAvailable:    5000 kB\n"}


def group(folder: str, most: str, taken: int, cached: int = 0) -> dict[str, bytes]:
    """The files of a cgroup."""
    stat = f"anon 7\ninactive_anon 5\ninactive_file {cached}\nactive_file 100\n"
    return {
        f"sys/fs/cgroup/{folder}memory.max": f"{most}\n".encode(),
        f"sys/fs/cgroup/{folder}memory.current": f"{taken}\n".encode(),
        f"sys/fs/cgroup/{folder}memory.stat": stat.encode(),
    }


@pytest.mark.parametrize(
    "files, available",
    [
        ({}, inf),
        (MACHINE, 5000 << 10),
        ({**MACHINE, **group("", "9000", 1000)}, 5000 << 10),  # of which group is not told
        ({"proc/self/cgroup": b"4:memory:/x\n0::/\n", **group("", "9000", 1000)}, 8100),
        ({"proc/self/cgroup": b"0::/a/b\n", **MACHINE, **group("a/b/", "9000", 1000)}, 8100),
        ({"proc/self/cgroup": b"0::/a/b\n", **MACHINE, **group("a/", "9000", 1000, 500)}, 8600),
        ({"proc/self/cgroup": b"0::/a/b\n", **MACHINE, **group("a/b/", "max", 1)}, 5000 << 10),
        ({"proc/self/cgroup": b"0::/a/b\n", **group("a/b/", "9", 1000)}, 0),
    ],
)
def test_the_least_of_machine_and_cgroups_is_available(
    files: dict[str, bytes], available: float, tmp_path: Path
) -> None:
    write_keys(tmp_path, files)
    assert available_bytes(tmp_path) == available


def test_the_free_memory_of_this_machine_is_known() -> None:
    assert 0 < available_bytes() < inf
