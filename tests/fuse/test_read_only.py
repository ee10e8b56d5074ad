"""Nothing on a mount can be changed: every attempt is EROFS."""

import errno
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_keys
from builders.mounts import clear, zarrfuse

OPERATIONS: dict[str, Callable[[Path, Path], object]] = {
    "create": lambda file, folder: os.open(folder / "new", os.O_CREAT | os.O_WRONLY),
    "create exclusively": lambda file, folder: os.open(folder / "new", os.O_CREAT | os.O_EXCL),
    "open for writing": lambda file, folder: os.open(file, os.O_WRONLY),
    "open for reading and writing": lambda file, folder: os.open(file, os.O_RDWR),
    "open truncating": lambda file, folder: os.open(file, os.O_WRONLY | os.O_TRUNC),
    "open truncating for reading": lambda file, folder: os.open(file, os.O_RDONLY | os.O_TRUNC),
    "open for appending": lambda file, folder: os.open(file, os.O_WRONLY | os.O_APPEND),
    "truncate": lambda file, folder: os.truncate(file, 0),
    "mkdir": lambda file, folder: os.mkdir(folder / "new"),
    "rmdir": lambda file, folder: os.rmdir(folder),
    "unlink": lambda file, folder: os.unlink(file),
    "rename a file": lambda file, folder: os.rename(file, folder / "new"),
    "rename a folder": lambda file, folder: os.rename(folder, folder.parent / "new"),
    "replace": lambda file, folder: os.replace(file, folder.parent / "zarr.json"),
    "link": lambda file, folder: os.link(file, folder / "new"),
    "symlink": lambda file, folder: os.symlink("anywhere", folder / "new"),
    "chmod": lambda file, folder: os.chmod(file, 0o600),
    "chmod a folder": lambda file, folder: os.chmod(folder, 0o700),
    "chown": lambda file, folder: os.chown(file, 1, 1),
    "utime": lambda file, folder: os.utime(file),
    "utime of a folder": lambda file, folder: os.utime(folder, (1, 1)),
    "set an attribute": lambda file, folder: os.setxattr(file, "user.x", b"1"),
    "set an attribute of a folder": lambda file, folder: os.setxattr(folder, "user.x", b"1"),
    "remove an attribute": lambda file, folder: os.removexattr(file, "user.zarr.shape"),
    "make a FIFO": lambda file, folder: os.mkfifo(folder / "new"),
    "make a socket": lambda file, folder: socket.socket(socket.AF_UNIX).bind(str(folder / "new")),
}


@pytest.fixture(scope="module", params=["--xattrs", "-v"], ids=["with xattrs", "without"])
def shown(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    base = tmp_path_factory.mktemp("ro")
    write_keys(
        base / "store",
        {
            "zarr.json": array([4], transformers=[concat_parts("", ".i")]),
            "c/0": b"1",
            "c/0.i": b"2",
        },
    )
    (base / "mnt").mkdir()
    zarrfuse("mount", base / "store", base / "mnt", request.param)
    yield base / "mnt"
    clear(base / "mnt")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_writing_is_refused_as_read_only(shown: Path, operation: str) -> None:
    with pytest.raises(OSError) as raised:
        OPERATIONS[operation](shown / "c/0", shown / "c")
    assert raised.value.errno == errno.EROFS
    assert (shown / "c/0").read_bytes() == b"12"
    assert sorted(os.listdir(shown / "c")) == ["0"]


@pytest.mark.parametrize("name", [".zarrfuse/status.json", ".zarrfuse/info/c/0"])
def test_control_files_cannot_be_written_either(shown: Path, name: str) -> None:
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC):
        with pytest.raises(OSError) as raised:
            os.open(shown / name, flags)
        assert raised.value.errno == errno.EROFS
    with pytest.raises(OSError) as raised:
        os.unlink(shown / name)
    assert raised.value.errno == errno.EROFS


def test_access_says_that_nothing_may_be_written(shown: Path) -> None:
    for name in ("c", "c/0"):
        assert os.access(shown / name, os.R_OK)
        assert not os.access(shown / name, os.W_OK)
    assert not os.access(shown / "c/0", os.X_OK)
    assert os.access(shown / "c", os.X_OK)


@pytest.mark.parametrize(
    "flag", ["O_CREAT", "O_APPEND", "O_NONBLOCK", "O_NOATIME", "O_NOFOLLOW", "O_DIRECT", "O_SYNC"]
)
def test_a_flag_that_writes_nothing_is_no_obstacle_to_reading(shown: Path, flag: str) -> None:
    fd = os.open(shown / "c/0", os.O_RDONLY | getattr(os, flag))
    os.close(fd)


def test_writing_shells_say_read_only(shown: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'echo x > "$1/c/0"', "sh", shown], capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "Read-only file system" in done.stderr
