"""Very many openers at once, and very many names that are looked up and forgotten."""

import errno
import os
import resource
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_files
from builders.mounts import Daemon, drop_caches, serving, wait_for
from daemons import fake
from sampling import is_thorough

THOROUGH = is_thorough()
OPENERS = 2000 if THOROUGH else 150
FOLDERS, FILES = (10, 34_000) if THOROUGH else (4, 2500)  # in three rounds 10^6
DATA = bytes(100)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many files, and chunks in two parts."""
    folder = tmp_path_factory.mktemp("openers") / "source"
    parts = [concat_parts((".a", len(DATA)), "")]
    document = array(shape=[2 * OPENERS, 2], transformers=parts)
    write_files(folder, {"p/zarr.json": document})
    for n in range(OPENERS):
        write_files(folder, {f"files/{n}": DATA, f"p/c/{n}/0": DATA, f"p/c/{n}/0.a": DATA})
    return folder


def opened_at_once(path_of: Callable[[int], Path], expected: bytes) -> Counter[int]:
    """How often each errno was told to openers, all of whom have their file open before one closes it."""
    told: Counter[int] = Counter()
    together = threading.Barrier(OPENERS)

    def open_and_read(number: int) -> None:
        fd, code = -1, 0
        together.wait()
        try:
            fd = os.open(path_of(number), os.O_RDONLY)
            code = 0 if os.pread(fd, 1000, 0) == expected else -1
        except OSError as error:
            code = error.errno or -1
        together.wait()
        told[code] += 1
        if fd >= 0:
            os.close(fd)

    threads = [threading.Thread(target=open_and_read, args=(n,)) for n in range(OPENERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def assert_all_read(daemon: Daemon) -> None:
    """Each way of opening, one after the other; the same descriptors are open afterwards."""
    point, before = daemon.mountpoint, daemon.descriptors()
    assert opened_at_once(lambda n: point / f"files/{n}", DATA) == {0: OPENERS}
    assert opened_at_once(lambda n: point / "files/7", DATA) == {0: OPENERS}
    assert opened_at_once(lambda n: point / f"p/c/{n}/0", DATA * 2) == {0: OPENERS}
    assert opened_at_once(lambda n: point / "p/c/7/0", DATA * 2) == {0: OPENERS}
    # The kernel tells of closed files later than `close` returns.
    wait_for(lambda: daemon.descriptors() <= before + 2 and daemon.status()["open_files"] <= 1)


def test_all_openers_read_at_once(tmp_path: Path, source: Path):
    with serving(tmp_path, source) as daemon:
        assert_all_read(daemon)
        assert daemon.status()["errors"] == {}


def test_openers_beyond_the_descriptors_are_emfile_and_none_is_lost(tmp_path: Path, source: Path):
    limit = OPENERS // 2
    with serving(tmp_path, source) as daemon:
        _, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (limit, hard))
        told = opened_at_once(lambda n: daemon.mountpoint / f"files/{n}", DATA)
        assert set(told) == {0, errno.EMFILE}
        assert told[0] > limit // 2
        wait_for(lambda: daemon.descriptors() < limit // 2)
        assert daemon.status()["errors"] == {"EMFILE": told[errno.EMFILE]}
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        assert_all_read(daemon)


def resident_mib(daemon: Daemon) -> float:
    """The memory that it has now."""
    pages = Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


@pytest.mark.timeout(300)
def test_names_that_are_forgotten_leave_no_memory(tmp_path: Path):
    (tmp_path / "source").mkdir()
    command = fake(store="memory", folders=FOLDERS, files=FILES)
    with serving(tmp_path, tmp_path / "source", command=command, given_up_s=300) as daemon:

        def forgotten() -> bool:
            drop_caches()
            return daemon.status()["kernel_lookups"] <= 2

        after = []
        for _ in range(3):
            for folder in range(FOLDERS):
                for file in range(FILES):
                    os.stat(f"{daemon.mountpoint}/{folder}/{file}")
            wait_for(forgotten)
            after.append(resident_mib(daemon))
        # Python keeps blocks of 1 MiB that are nearly free: up to 10 bytes for each name of a round. The
        # smallest object takes 16, a node some hundred.
        later_names = (len(after) - 1) * FOLDERS * FILES
        assert after[-1] < after[0] + 5 + 16 * later_names / (1 << 20)
