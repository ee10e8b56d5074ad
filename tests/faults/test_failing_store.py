"""A store that raises anything at all, at any call: an errno of the table, and the mount stays up."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from builders.documents import array
from builders.folders import write_files
from builders.mounts import Daemon, serving
from daemons import errno_when, fake
from errors_raised import BASE, ODD, OS_ERRORS, OURS, RAISED, UNEXPECTED

from zarrfuse.errors import errno_of

DATA = b"fine" * 1000
COMMON = [*OS_ERRORS, *OURS, *UNEXPECTED]
UNCOMMON = [*ODD, *BASE]
DOCUMENT = b'{"zarr_format": 3, "node_type": "group"}'


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a name for each thing that can go wrong."""
    folder = tmp_path_factory.mktemp("failing")
    files = {"fine/file": DATA, "file": DATA}
    for name in RAISED:
        files |= {f"{call}!{name}": DATA for call in ("stat", "open", "readinto", "close")}
        files |= {f"chunks/c/0/{call}!{name}": DATA for call in ("stat", "open", "readinto")}
        files[f"scan!{name}/file"] = DATA
        files[f"scanned!{name}/file"] = DATA
        for call in ("stat", "open", "readinto"):
            node = f"document!{call}!{name}"
            files |= {f"{node}/zarr.json": DOCUMENT, f"{node}/c/0/0": DATA, f"{node}/child/f": DATA}
    write_files(folder, files)
    for name in RAISED:
        (folder / f"readlink!{name}").symlink_to("fine")
    return folder


class Restarted:
    """One daemon for many cases; a case that ends it does not spoil the others."""

    def __init__(self, folder: Path, source: Path, **spec: str) -> None:
        self._folder = folder
        self._source = source
        self._spec = spec
        self._stack = ExitStack()
        self._current: Daemon | None = None
        self._count = 0

    def daemon(self) -> Daemon:
        """A daemon that runs."""
        if self._current is None or errno_when((self._current.mountpoint / "file").read_bytes):
            self._stack.close()
            self._count += 1
            options = ("--cache-ttl", "0", "--xattrs")
            name = f"{self._spec['store']}{self._count}"
            self._current = self._stack.enter_context(
                serving(self._folder, self._source, *options, command=fake(**self._spec), name=name)
            )
        return self._current

    def close(self) -> None:
        """Unmount."""
        self._stack.close()


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Iterator[Restarted]:
    """See `Restarted`."""
    holder = Restarted(tmp_path_factory.mktemp("mount"), source, store="failing")
    yield holder
    holder.close()


@pytest.fixture
def failing(restarted: Restarted) -> Daemon:
    """The mount."""
    return restarted.daemon()


def expected(name: str) -> int:
    """What the table says."""
    if name in ODD or name in BASE:
        return errno.EIO
    error = RAISED[name]()
    return errno_of(error)


def assert_still_up(daemon: Daemon) -> None:
    """It answers, and its other files can be read."""
    assert daemon.process.poll() is None, daemon.text()[-3000:]
    assert (daemon.mountpoint / "file").read_bytes() == DATA
    assert (daemon.mountpoint / "fine/file").read_bytes() == DATA
    assert daemon.is_up()
    assert daemon.status()["open_files"] <= 1


def calls(mount: Path, name: str) -> dict[str, Callable[[], object]]:
    """A system call that comes to each call of the store."""
    return {
        "stat": lambda: os.stat(mount / f"stat!{name}"),
        "open": (mount / f"open!{name}").read_bytes,
        "readinto": (mount / f"readinto!{name}").read_bytes,
        "scan": lambda: os.listdir(mount / f"scan!{name}"),
        "scanned": lambda: os.listdir(mount / f"scanned!{name}"),
        "readlink": lambda: os.readlink(mount / f"readlink!{name}"),
    }


@pytest.mark.parametrize("name", [*COMMON, *UNCOMMON])
def test_whatever_a_store_raises_is_an_errno_of_the_table(failing: Daemon, name: str) -> None:
    got = {call: errno_when(function) for call, function in calls(failing.mountpoint, name).items()}
    assert got == dict.fromkeys(got, expected(name))
    assert_still_up(failing)


@pytest.mark.parametrize("name", [*COMMON, *UNCOMMON])
def test_a_reader_that_fails_to_close_harms_nothing(failing: Daemon, name: str) -> None:
    for _ in range(2):
        assert (failing.mountpoint / f"close!{name}").read_bytes() == DATA
    assert_still_up(failing)


@pytest.mark.parametrize("name", [*COMMON, *UNCOMMON])
def test_a_document_that_cannot_be_read_leaves_its_folder_listed(
    failing: Daemon, name: str
) -> None:
    for call in ("open", "readinto"):
        node = failing.mountpoint / f"document!{call}!{name}"
        assert sorted(os.listdir(node)) == ["c", "child", "zarr.json"]
        assert errno_when((node / "c/0/0").read_bytes) == errno.ENOTSUP
        assert errno_when((node / "zarr.json").read_bytes) == expected(name)
        assert failing.info(f"document!{call}!{name}/zarr.json")["error"]
    try:
        names = os.listdir(failing.mountpoint / f"document!stat!{name}")
    except OSError as error:
        assert error.errno == expected(name)
    else:
        assert sorted(names) == ["c", "child", "zarr.json"]
    assert_still_up(failing)


def test_attributes_of_what_fails_are_an_error_and_no_more(failing: Daemon) -> None:
    for name in [*UNEXPECTED, *ODD, *BASE]:
        path = failing.mountpoint / f"document!readinto!{name}"
        try:
            os.listxattr(path)
        except OSError as error:
            assert error.errno == expected(name)
    assert_still_up(failing)


def test_statfs_of_a_store_that_cannot_tell_is_an_error(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source, command=fake(store="failing-space")) as daemon:
        for name in RAISED:
            source.with_name(f"{source.name}.space").write_text(name)
            assert errno_when(lambda: os.statvfs(daemon.mountpoint)) == expected(name), name
        assert_still_up(daemon)


def test_the_unexpected_is_logged_once_with_its_traceback(tmp_path: Path) -> None:
    names = ("open!ValueError", "open!EIO", "open!Stale", "readinto!KeyError")
    source = tmp_path / "source"
    write_files(source, dict.fromkeys(("file", "fine/file", *names), DATA))
    with serving(tmp_path, source, command=fake(store="failing")) as daemon:
        for _ in range(3):
            for name in names:
                assert errno_when((daemon.mountpoint / name).read_bytes) == expected(
                    name.partition("!")[2]
                )
        log = daemon.text()
        assert log.count("Traceback") == 2
        assert log.count("ValueError: not ours") == 1
        assert log.count("KeyError: 'not ours'") == 1
        assert daemon.status()["last_errors"]


def test_an_error_that_comes_and_goes_leaves_the_node_loaded_again(tmp_path: Path) -> None:
    """A document that could not be read once is read again."""
    source = tmp_path / "source"
    write_files(source, {"a/zarr.json": array((8, 8)), "a/c/0/0": b"abcd"})
    gone = tmp_path / "gone"
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        (source / "a/zarr.json").rename(gone)
        (source / "a/zarr.json").symlink_to("/proc/self/environ")  # leads out: EACCES
        assert errno_when((daemon.mountpoint / "a/c/0/0").read_bytes) == errno.ENOTSUP
        (source / "a/zarr.json").unlink()
        gone.rename(source / "a/zarr.json")
        assert (daemon.mountpoint / "a/c/0/0").read_bytes() == b"abcd"


@pytest.mark.parametrize("name", ["ValueError", "EIO", "UnicodeDecodeError", "MemoryError"])
def test_a_failure_of_the_store_is_not_taken_for_a_fault_of_the_document(
    tmp_path: Path, name: str
) -> None:
    """The node is asked again once the store answers."""
    here = Path(__file__).parent
    code = f"""
import sys
sys.path[:0] = [{str(here)!r}, {str(here.parent)!r}]
from errors_raised import RAISED
from builders.fake_stores import FailingStore, MemoryStore
from zarrfuse.views.chunks.view import ChunksView
failing = [True]
def rule(call, key):
    return RAISED[{name!r}]() if call == "readinto" and failing and key == "zarr.json" else None
files = {{"zarr.json": {array((8, 8))!r}, "c/0/0": b"abcd"}}
root = ChunksView(FailingStore(MemoryStore(files), rule), 0).root
try:
    root.child("c").child("0").open("0")
except Exception as error:
    pass
failing.clear()
assert root.child("c").child("0").open("0").size == 4
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
