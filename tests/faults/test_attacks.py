"""Programs that try to get out of the mount, or to break it with calls nobody makes."""

import array as arrays
import ctypes
import errno
import fcntl
import json
import mmap
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_files
from builders.mounts import Daemon, drop_caches, serving, wait_for
from daemons import errno_when, fake

SECRET = b"secret: not to be read through the mount"
DATA = bytes(range(256)) * 512
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with everything that could lead out of it, and a secret beside it."""
    base = tmp_path_factory.mktemp("attacks")
    (base / "outside/below").mkdir(parents=True)
    (base / "outside/secret").write_bytes(SECRET)
    (base / "outside/below/secret").write_bytes(SECRET)
    folder = base / "source"
    write_files(folder, {"a/zarr.json": array((8, 8)), "a/c/0/0": DATA, "file": DATA})
    links = {
        "absolute": base / "outside/secret",
        "relative": "../outside/secret",
        "folder": "../outside",
        "through": "a/../../outside/secret",
        "chain": "relative",
        "chain-folder": "folder/below",
        "proc-root": "/proc/self/root/etc/passwd",
        "proc-cwd": "/proc/self/cwd",
        "etc": "/etc",
        "slash": "/",
        "above": "..",
        "dangling": "/nonexistent/file",
        "dangling-relative": "../nonexistent",
        "loop": "loop",
    }
    for name, target in links.items():
        (folder / f"link-{name}").symlink_to(target)
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
    with suppress(PermissionError):
        os.mknod(folder / "memory", 0o600 | 0o020000, os.makedev(1, 1))
    return folder


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Iterator[Daemon]:
    """The mount of it."""
    with serving(tmp_path_factory.mktemp("mount"), source, "--xattrs") as daemon:
        yield daemon
        assert daemon.is_up()
        assert "Traceback" not in daemon.text(), daemon.text()


@pytest.fixture(autouse=True)
def still_up(mount: Daemon) -> Iterator[None]:
    """Whatever was tried, the mount answers."""
    yield
    assert (mount.mountpoint / "file").read_bytes() == DATA


LINKS = [
    "absolute",
    "relative",
    "folder",
    "through",
    "chain",
    "chain-folder",
    "proc-root",
    "proc-cwd",
    "etc",
    "slash",
    "above",
    "dangling",
    "dangling-relative",
    "loop",
]


@pytest.mark.parametrize("name", LINKS)
def test_no_symlink_leads_out(mount: Daemon, source: Path, name: str) -> None:
    path = mount.mountpoint / f"link-{name}"
    refused = (
        errno.EACCES,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.EINVAL,
        errno.EISDIR,
    )
    for function in (
        path.read_bytes,
        lambda: os.listdir(path),
        (path / "secret").read_bytes,
        (path / "passwd").read_bytes,
        (path / "outside/secret").read_bytes,
        (path / "secret").stat,
        (path / ".." / ".." / "outside/secret").read_bytes,
    ):
        assert errno_when(function) in refused
    with suppress(OSError):
        assert not os.readlink(path).startswith(("/", ".."))
    with suppress(OSError):
        told = (mount.mountpoint / f".zarrfuse/info/link-{name}").read_bytes()
        assert b"secret:" not in told
    info = mount.mountpoint / f".zarrfuse/info/link-{name}"
    for below in ("secret", "passwd", "below/secret", "outside/secret"):
        assert errno_when((info / below).read_bytes) in refused


def test_special_files_are_not_there(mount: Daemon) -> None:
    for name in ("fifo", "socket", "memory"):
        assert name not in os.listdir(mount.mountpoint)
        assert errno_when((mount.mountpoint / name).read_bytes) == errno.ENOENT
        info = mount.mountpoint / ".zarrfuse/info" / name
        assert errno_when(info.read_bytes) == errno.ENOENT


@pytest.mark.parametrize(
    "path",
    [
        ".zarrfuse/../../outside/secret",
        ".zarrfuse/info/../../../outside/secret",
        ".zarrfuse/info/../../etc/passwd",
        ".zarrfuse/info/%2e%2e/outside/secret",
        ".zarrfuse/info/.zarrfuse/info/file",
        ".zarrfuse/status.json/x",
        "a/c/0/0/../../../../../outside/secret",
        "a/c/0/0/x",
        "a/%2e%2e/file",
        "a\\..\\file",
        "file/",
        "file/.",
        "a//c/./0/1",
        "a/c/0/00",
        "a/c/0/0 ",
        "a/c/0/-1",
        "a/c/0/\u0660",
        "a/c/0/0.tail",
        "con",
        "-rf",
        "*",
        "~",
        "$(id)",
        "a\nb",
        "\x01\x02\x7f",
        "\udcff\udcfe",
        "x" * 255,
        "é" * 127,
        "/".join(["x" * 200] * 19),
    ],
)
def test_no_path_leads_to_what_is_not_there(mount: Daemon, path: str) -> None:
    full = f"{mount.mountpoint}/{path}"
    refused = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENAMETOOLONG)
    assert errno_when(lambda: os.open(full, os.O_RDONLY)) in refused
    assert errno_when(lambda: os.stat(full)) in refused


def test_names_and_paths_that_are_too_long_are_told_so(mount: Daemon) -> None:
    for length in (256, 300, 1024, 2000):
        code = errno_when(lambda length=length: os.stat(mount.mountpoint / ("x" * length)))
        assert code in (errno.ENAMETOOLONG, errno.ENOENT)
    long = "/".join(["x" * 100] * 60)
    assert errno_when(lambda: os.stat(f"{mount.mountpoint}/{long}")) == errno.ENAMETOOLONG


def test_a_tree_deeper_than_any_path_is_walked_or_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    name = "d" * 200
    descriptor = os.open(source, os.O_RDONLY)
    for _ in range(60):  # 12,000 characters
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    try:
        with serving(tmp_path, source) as daemon:
            descriptor = os.open(daemon.mountpoint, os.O_RDONLY)
            depth = 0
            with suppress(OSError):
                while depth < 60:
                    below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
                    os.close(descriptor)
                    descriptor = below
                    depth += 1
            os.close(descriptor)
            assert depth >= 4096 // 201 - 1
            assert daemon.is_up()
            assert "Traceback" not in daemon.text()
    finally:
        subprocess.run(["rm", "-rf", source], check=True)


@pytest.mark.parametrize(
    "offset", [len(DATA), len(DATA) - 1, 1 << 31, 1 << 32, 1 << 62, (1 << 63) - 4097]
)
def test_reads_behind_the_end_bring_nothing(mount: Daemon, offset: int) -> None:
    for name in ("file", "a/c/0/0"):
        descriptor = os.open(mount.mountpoint / name, os.O_RDONLY)
        try:
            assert os.pread(descriptor, 4096, offset) == DATA[offset:]
            assert os.lseek(descriptor, 0, os.SEEK_END) == len(DATA)
            assert os.lseek(descriptor, 0, os.SEEK_DATA) == 0
        finally:
            os.close(descriptor)
    descriptor = os.open(mount.mountpoint / ".zarrfuse/status.json", os.O_RDONLY)
    try:
        if offset > len(DATA):
            assert os.pread(descriptor, 4096, offset) == b""
    finally:
        os.close(descriptor)


def _write_shared(descriptor: int) -> None:
    mmap.mmap(descriptor, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


WRITES: dict[str, Callable[[Path], object]] = {
    "open for writing": lambda m: os.open(m / "file", os.O_WRONLY),
    "open for both": lambda m: os.open(m / "file", os.O_RDWR),
    "truncate at open": lambda m: os.open(m / "file", os.O_RDONLY | os.O_TRUNC),
    "create": lambda m: os.open(m / "new", os.O_CREAT | os.O_WRONLY),
    "create in control": lambda m: os.open(m / ".zarrfuse/new", os.O_CREAT | os.O_WRONLY),
    "write control": lambda m: os.open(m / ".zarrfuse/status.json", os.O_WRONLY),
    "temporary": lambda m: os.open(m, os.O_TMPFILE | os.O_RDWR),
    "truncate": lambda m: os.truncate(m / "file", 0),
    "mkdir": lambda m: os.mkdir(m / "new"),
    "mknod": lambda m: os.mknod(m / "new"),
    "mkfifo": lambda m: os.mkfifo(m / "new"),
    "symlink": lambda m: os.symlink("file", m / "new"),
    "link": lambda m: os.link(m / "file", m / "new"),
    "rename": lambda m: os.rename(m / "file", m / "new"),
    "unlink": lambda m: os.unlink(m / "file"),
    "rmdir": lambda m: os.rmdir(m / "a"),
    "chmod": lambda m: os.chmod(m / "file", 0o777),
    "chown": lambda m: os.chown(m / "file", 0, 0),
    "utime": lambda m: os.utime(m / "file"),
    "setxattr": lambda m: os.setxattr(m / "file", "user.x", b"1"),
    "removexattr": lambda m: os.removexattr(m / "file", "user.zarr.shape"),
}


@pytest.mark.parametrize("name", WRITES)
def test_nothing_can_be_written(mount: Daemon, name: str) -> None:
    got = errno_when(lambda: WRITES[name](mount.mountpoint))
    assert got in (errno.EROFS, errno.EOPNOTSUPP, errno.EEXIST, errno.EACCES)


def test_every_way_of_reading_gives_the_same_bytes(mount: Daemon, tmp_path: Path) -> None:
    path = mount.mountpoint / "a/c/0/0"
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
            with mmap.mmap(descriptor, 0, flags, mmap.PROT_READ) as mapped:
                assert mapped[:] == DATA
        assert errno_when(lambda: _write_shared(descriptor)) in (errno.EACCES, errno.EPERM)
        receiving, sending = os.pipe()
        try:
            assert os.splice(descriptor, sending, 4096, offset_src=512) == 4096
            assert os.read(receiving, 4096) == DATA[512:4608]
            assert os.sendfile(sending, descriptor, 100, 4096) == 4096
            assert os.read(receiving, 4096) == DATA[100:4196]
        finally:
            os.close(receiving)
            os.close(sending)
        copy = os.open(tmp_path / "copy", os.O_CREAT | os.O_WRONLY)
        with suppress(OSError):  # between file systems since Linux 5.19 only for some
            assert os.copy_file_range(descriptor, copy, 5000, 0, 0) > 0
            assert (tmp_path / "copy").read_bytes() == DATA[:5000]
        os.close(copy)
        buffers = [bytearray(10), bytearray(0), bytearray(4086)]
        assert os.preadv(descriptor, buffers, 256) == 4096
        assert b"".join(buffers) == DATA[256:4352]
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(descriptor, 0, 1 << 40, os.POSIX_FADV_WILLNEED)
        with mmap.mmap(-1, 1 << 20) as aligned:
            direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
            assert os.preadv(direct, [aligned], 0) == len(DATA)
            assert aligned[: len(DATA)] == DATA
            os.close(direct)
    finally:
        os.close(descriptor)


def test_calls_that_make_no_sense_are_refused(mount: Daemon) -> None:
    descriptor = os.open(mount.mountpoint / "file", os.O_RDONLY)
    folder = os.open(mount.mountpoint / "a", os.O_RDONLY)
    try:
        for number in (0x5401, 0x541B, 0x6601, 0x8008_6601, 0xC020_660B, 0x4004_9409):
            for target in (descriptor, folder):
                with suppress(OSError):
                    fcntl.ioctl(target, number, arrays.array("Q", [0] * 16))
        assert errno_when(lambda: os.posix_fallocate(descriptor, 0, 10))
        assert errno_when(lambda: os.ftruncate(descriptor, 0))
        assert errno_when(lambda: os.write(descriptor, b"x")) == errno.EBADF
        for call in (os.fsync, os.fdatasync):
            for target in (descriptor, folder):
                assert errno_when(lambda call=call, target=target: call(target)) in (
                    0,
                    errno.EROFS,
                    errno.ENOSYS,
                )
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_UN)
        assert errno_when(lambda: os.read(folder, 10)) == errno.EISDIR
        assert errno_when(lambda: os.listdir(descriptor)) == errno.ENOTDIR
        os.lseek(folder, 1 << 40, os.SEEK_SET)
        os.listdir(folder)
        watch = LIBC.inotify_init1(os.O_NONBLOCK)
        assert watch >= 0
        everything = ctypes.c_uint32(0xFFF)
        path = os.fsencode(mount.mountpoint / "a")
        assert LIBC.inotify_add_watch(watch, path, everything) >= 0
        (mount.mountpoint / "a/zarr.json").read_bytes()
        assert os.read(watch, 4096)
        os.close(watch)
    finally:
        os.close(descriptor)
        os.close(folder)


def test_attributes_of_odd_names_are_refused(mount: Daemon) -> None:
    path = mount.mountpoint / "a/c/0/0"
    for name in ("user.zarr.", "user.zarr.none", "user." + "x" * 200, "trusted.x", "security.x"):
        assert errno_when(lambda name=name: os.getxattr(path, name))
    assert os.listxattr(path)
    assert errno_when(lambda: os.getxattr(mount.mountpoint / ".zarrfuse", "user.zarr.shape"))
    buffer = ctypes.create_string_buffer(1)
    target = os.fsencode(path)
    assert LIBC.getxattr(target, b"user.zarr.shape", buffer, ctypes.c_size_t(1)) == -1
    assert ctypes.get_errno() == errno.ERANGE


class FileHandle(ctypes.Structure):
    """`struct file_handle` of name_to_handle_at(2)."""

    _fields_ = (
        ("bytes", ctypes.c_uint),
        ("type", ctypes.c_int),
        ("handle", ctypes.c_ubyte * 128),
    )


def handle_of(path: Path) -> FileHandle:
    """The handle of a path, or a skip."""
    handle = FileHandle(bytes=128)
    mount_id = ctypes.c_int()
    name = os.fsencode(path)
    if LIBC.name_to_handle_at(-100, name, ctypes.byref(handle), ctypes.byref(mount_id), 0):
        pytest.skip(f"no file handles here: {os.strerror(ctypes.get_errno())}")
    return handle


def open_handle(descriptor: int, handle: FileHandle) -> int:
    """open_by_handle_at(2)."""
    opened: int = LIBC.open_by_handle_at(descriptor, ctypes.byref(handle), os.O_RDONLY)
    if opened < 0:
        raise OSError(code := ctypes.get_errno(), os.strerror(code))
    return opened


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may open handles")
def test_handles_of_names_that_were_forgotten_are_stale(tmp_path: Path, source: Path) -> None:
    """As an NFS server uses them. None of it may confuse the counts of what is in use."""
    with serving(tmp_path, source) as daemon:
        above = os.open(daemon.mountpoint, os.O_RDONLY)
        try:
            handles = [
                handle_of(daemon.mountpoint / name) for name in ("a", "file", "a/c/0/0", "a/c")
            ]
            for _ in range(3):
                for handle in handles:
                    with suppress(OSError):
                        os.close(open_handle(above, handle))
                drop_caches()
            for handle in handles:
                for position in range(handle.bytes):
                    forged = FileHandle.from_buffer_copy(handle)
                    forged.handle[position] ^= 0x55
                    got = errno_when(lambda forged=forged: os.close(open_handle(above, forged)))
                    assert got in (0, errno.ESTALE, errno.EINVAL, errno.ENOENT, errno.EIO)
            for name in ("a/c/0/0", "file"):
                assert (daemon.mountpoint / name).read_bytes() == DATA
            assert sorted(os.listdir(daemon.mountpoint / "a")) == ["c", "zarr.json"]
        finally:
            os.close(above)

        def forgotten() -> bool:
            drop_caches()
            return 0 <= daemon.status()["kernel_lookups"] <= 4

        wait_for(forgotten)
        assert "Traceback" not in daemon.text(), daemon.text()


def test_names_that_are_not_utf_8_are_files_like_others(tmp_path: Path) -> None:
    source = os.fsencode(tmp_path / "source")
    os.makedirs(source + b"/\xff\xfe")
    with open(source + b"/\xff\xfe/\xe4", "wb") as file:
        file.write(DATA)
    os.symlink("/etc/passwd", source + b"/\xfflink")
    with serving(tmp_path, tmp_path / "source", "--xattrs") as daemon:
        root = os.fsencode(daemon.mountpoint)
        assert set(os.listdir(root)) == {b"\xff\xfe", b"\xfflink"}
        with open(root + b"/\xff\xfe/\xe4", "rb") as file:
            assert file.read() == DATA
        assert errno_when(lambda: os.open(root + b"/\xfflink", os.O_RDONLY)) == errno.EACCES
        assert errno_when(lambda: os.listdir(root + b"/\xfflink"))
        assert daemon.is_up()  # the error that was just kept has such a name in it
        assert os.listxattr(root + b"/\xff\xfe/\xe4")
        with open(root + b"/.zarrfuse/info/\xff\xfe/\xe4", "rb") as file:
            assert json.loads(file.read())["size"] == len(DATA)
        assert "Traceback" not in daemon.text()


def test_lines_in_names_make_no_lines_in_the_log(tmp_path: Path) -> None:
    source = tmp_path / "source"
    name = "a\n2000-01-01 00:00:00,000 ERROR forged"
    document = array((8, 8), transformers=[concat_parts("", ".b")])
    write_files(source, {f"{name}/zarr.json": document, f"{name}/c/0/0": DATA})
    write_files(source, {"b\nERROR forged/zarr.json": b"{"})
    with serving(tmp_path, source) as daemon:
        assert errno_when((daemon.mountpoint / name / "c/0/0").read_bytes) == errno.EIO
        os.listdir(daemon.mountpoint / "b\nERROR forged")
        errno_when((daemon.mountpoint / "b\nERROR forged/x").read_bytes)
        wait_for(lambda: "is missing" in daemon.text())
        assert not [line for line in daemon.text().splitlines() if line.startswith("ERROR")]
        assert not [line for line in daemon.text().splitlines() if line.startswith("2000-")]


def test_a_kernel_that_interrupts_requests_does_no_harm(tmp_path: Path, source: Path) -> None:
    """Readers that are killed while they wait, many at a time."""
    delays = {"readinto": 0.02, "open": 0.01, "scan": 0.01}
    with serving(tmp_path, source, command=fake(store="slow", delays=delays)) as daemon:
        for _ in range(5):
            readers = [
                subprocess.Popen(
                    ["cat", "file", "a/c/0/0", "a/zarr.json"],
                    cwd=daemon.mountpoint,
                    stdout=subprocess.DEVNULL,
                )
                for _ in range(6)
            ]
            for reader in readers:
                reader.kill()
            for reader in readers:
                reader.wait(20)
        wait_for(lambda: daemon.status()["open_files"] <= 1)
        assert (daemon.mountpoint / "file").read_bytes() == DATA
        assert "Traceback" not in daemon.text()
