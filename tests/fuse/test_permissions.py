"""A mount by root that others may use shows each of them what the stored files let them have."""

import os
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, default_keys, group
from builders.folders import write_keys, zip_folder
from builders.mounts import clear, wait_for, zarrfuse
from builders.other_users import as_stranger

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")

NOBODY = 65534
OWNER, GROUP = 12345, 12346
PARTS = concat_parts(("", 2), (".b", 2))
LEVEL = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}]}
AXES = [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
PYRAMID = {"ome": {"version": "0.5", "multiscales": [{"axes": AXES, "datasets": [LEVEL]}]}}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every user may enter: pytest's are root's only."""
    with tempfile.TemporaryDirectory(prefix="zarrfuse-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
        clear(Path(name))


@pytest.fixture(scope="module")
def store(folder: Path) -> Path:
    """Files that all, or only their owner, may read."""
    root = folder / "store"
    root.mkdir()
    write_keys(
        root,
        {
            "zarr.json": group(),
            "public.txt": b"public",
            "secret.txt": b"secret",
            "owned.txt": b"owned",
            "private/secret.txt": b"secret",
            "private/a/zarr.json": array(),
            "merged/zarr.json": array(transformers=[PARTS]),
            "merged/c/0/0": b"ab",
            "merged/c/0/0.b": b"cd",
            "merged/c/0/1": b"ab",
            "merged/c/0/1.b": b"cd",
            "mixed/zarr.json": array(transformers=[PARTS]),
            "mixed/c/0/0": b"ab",
            "mixed/c/0/0.b": b"cd",
            "nested/zarr.json": array(transformers=[concat_parts(("", 2), ("_own/b", 2))]),
            "nested/c/0/0": b"ab",
            "nested/c/0/0_own/b": b"cd",
            "flat/zarr.json": array(keys=default_keys(".")),
            "flat/c.0.0": b"abcd",
            "flat/c.0.1": b"abcd",
            "hidden/zarr.json": array(),
            "hidden/c/0/0": b"abcd",
            "pyramid/zarr.json": group(attributes=PYRAMID),
            "pyramid/0/zarr.json": array((32, 32), (16, 16), dimension_names=["y", "x"]),
        },
    )
    for key in ("secret.txt", "merged/c/0/0.b", "flat/c.0.0", "hidden/zarr.json"):
        (root / key).chmod(0o600)
    for key in ("private", "nested/c/0/0_own", "pyramid/0"):
        (root / key).chmod(0o700)
    (root / "private/secret.txt").chmod(0o644)
    (root / "link.txt").symlink_to("private/secret.txt")
    for key in ("owned.txt", "mixed/c/0/0"):
        os.chown(root / key, OWNER, GROUP)
    (root / "mixed/c/0/0.b").chmod(0o640)
    (root / "owned.txt").chmod(0o640)
    return root


@pytest.fixture(scope="module")
def point(store: Path) -> Path:
    """A mount by root of all views."""
    mountpoint = store.parent / "all"
    mountpoint.mkdir()
    zarrfuse("mount", store, mountpoint, "--view", "all", "--allow-other")
    return mountpoint


def by_nobody(*command: object) -> str:
    """What goes wrong when another user runs a program; empty if it goes well."""
    done = subprocess.run(
        [*map(str, command)],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert bool(done.returncode) == bool(done.stderr), done
    return done.stderr.decode().strip().rpartition(": ")[2]


PUBLIC = [
    "raw/public.txt",
    "raw/link.txt/../public.txt",
    "raw/merged/c/0/0",
    "chunks/merged/c/0/1",
    "chunks/merged/zarr.json",
    "plain/merged/zarr.json",
    "plain/merged/c/0/1",
    "plain/flat/c/0/1",
    "images/merged/merged.tiff",
    "images/merged/c/0/1.tiff",
    "images/merged/c/1/1.tiff",
    "images/flat/c/0/1.tiff",
    ".zarrfuse/info/chunks/merged/zarr.json",
]
PRIVATE = [
    "raw/secret.txt",
    "raw/private/secret.txt",
    "raw/link.txt",
    "raw/owned.txt",
    "raw/merged/c/0/0.b",
    "chunks/merged/c/0/0",
    "chunks/nested/c/0/0",
    "chunks/hidden/zarr.json",
    "chunks/private/a/zarr.json",
    "plain/merged/c/0/0",
    "plain/nested/c/0/0",
    "plain/flat/c/0/0",
    "plain/hidden/zarr.json",
    "images/merged/c/0/0.tiff",
    "images/flat/c/0/0.tiff",
    "images/hidden/hidden.tiff",
    "images/hidden/hidden.npy",
    "images/hidden/hidden.png",
    "images/hidden/c/0/0.tiff",
    "images/hidden/c/1/1.tiff",
    "images/pyramid/pyramid.ome.tiff",
    ".zarrfuse/status.json",
    ".zarrfuse/info/chunks/.nodes",
    ".zarrfuse/info/chunks/hidden/zarr.json",
    ".zarrfuse/info/chunks/merged/c/0/0",
]


@pytest.mark.parametrize("name", [name for name in PUBLIC if ".." not in name])
def test_what_all_may_read_others_read(point: Path, name: str) -> None:
    assert by_nobody("cat", point / name) == ""


@pytest.mark.parametrize("name", PRIVATE)
def test_what_only_its_owner_may_read_others_do_not(point: Path, name: str) -> None:
    assert by_nobody("cat", point / name) == "Permission denied"
    (point / name).read_bytes()  # it is there


@pytest.mark.parametrize("view", ["raw", "chunks", "plain", "images", ".zarrfuse/info/raw"])
def test_private_folder_is_not_entered_by_others(point: Path, view: str) -> None:
    assert by_nobody("ls", point / view) == ""
    assert by_nobody("ls", point / view / "private") == "Permission denied"
    assert by_nobody("stat", point / view / "private/secret.txt") == "Permission denied"
    os.listdir(point / view / "private")


def test_files_and_folders_have_the_owner_and_mode_of_what_is_stored(
    store: Path, point: Path
) -> None:
    for name in ("public.txt", "secret.txt", "owned.txt", "private", "private/secret.txt"):
        stored, shown = (store / name).stat(), (point / "raw" / name).stat()
        assert (shown.st_uid, shown.st_gid) == (stored.st_uid, stored.st_gid)
        assert shown.st_mode == stored.st_mode & ~0o222  # the mount is read-only
    listed = {found.name: found for found in os.scandir(point / "raw")}
    assert listed["owned.txt"].stat().st_uid == OWNER
    assert (point / "raw/owned.txt").stat().st_gid == GROUP


def test_merged_chunk_permits_what_all_parts_do(point: Path) -> None:
    assert stat.S_IMODE((point / "chunks/merged/c/0/0").stat().st_mode) == 0o400
    assert stat.S_IMODE((point / "chunks/merged/c/0/1").stat().st_mode) == 0o444
    status = (point / "chunks/mixed/c/0/0").stat()  # its other part is somebody else's
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o440)
    assert by_nobody("cat", point / "chunks/mixed/c/0/0") == "Permission denied"


def test_zip_has_the_owner_and_mode_of_its_file(store: Path, folder: Path) -> None:
    file, mountpoint = folder / "store.zip", folder / "zip"
    zip_folder(store, file)
    os.chown(file, OWNER, GROUP)
    file.chmod(0o640)
    mountpoint.mkdir()
    zarrfuse("mount", file, mountpoint, "--allow-other")
    status = (mountpoint / "public.txt").stat()
    assert (status.st_uid, status.st_gid) == (OWNER, GROUP)
    assert stat.S_IMODE(status.st_mode) == 0o440
    assert stat.S_IMODE((mountpoint / "merged").stat().st_mode) == 0o550
    assert by_nobody("ls", mountpoint) == "Permission denied"


@pytest.fixture(scope="module")
def writable(folder: Path) -> Path:
    """A mount by root, read-write, of a folder that belongs to somebody else; its store is beside."""
    store, mountpoint = folder / "written", folder / "writable"
    store.mkdir()
    mountpoint.mkdir()
    write_keys(store, {"zarr.json": array(), "c/0/0": b"abcd", "file": b"file", "c/1/1": b"abcd"})
    write_keys(store, {"parts/zarr.json": array(transformers=[PARTS])})
    for path in (store, *store.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    (store / "private").write_bytes(b"root's")
    (store / "private").chmod(0o600)
    zarrfuse("mount", store, mountpoint, "--view", "chunks", "--allow-other", "--read-write")
    return mountpoint


WRITE = """
import os, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
os.write(fd, b"efgh")
told = os.fstat(fd)
os.utime(fd, ns=(1, 1))  # only its owner may
os.close(fd)
print(told.st_uid, told.st_gid, oct(told.st_mode))
"""


@pytest.mark.parametrize("name", ["c/0/0", "c/0/1", "parts/c/0/0", "parts/c/0/0", "file", "new"])
def test_other_users_write_what_is_theirs_and_it_stays_theirs(writable: Path, name: str) -> None:
    (writable.parent / "written/parts/c/0").mkdir(parents=True, exist_ok=True)
    for path in (writable.parent / "written/parts").rglob("*"):
        os.chown(path, NOBODY, NOBODY)
    done = subprocess.run(
        [sys.executable, "-c", WRITE, writable / name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", f"{NOBODY} {NOBODY} 0o100644\n")
    status = (writable / name).stat()
    assert (status.st_uid, status.st_gid) == (NOBODY, NOBODY)
    assert (writable.parent / "written" / name).stat().st_uid == NOBODY
    assert (writable / name).read_bytes()[:4] == b"efgh"


def test_other_users_do_not_write_what_is_not_theirs(writable: Path) -> None:
    assert by_nobody("tee", writable / "private") == "Permission denied"
    assert by_nobody("cat", writable / "private") == "Permission denied"


def test_what_becomes_private_while_it_is_known_is_not_opened(writable: Path) -> None:
    stored = writable.parent / "written/c/1/1"
    os.chown(stored, 0, 0)
    wait_for(lambda: by_nobody("cat", writable / "c/1/1") == "")
    stored.chmod(0o600)
    assert by_nobody("cat", writable / "c/1/1") == "Permission denied"


AS_THEM = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
READ_AND_WRITE = f"""
"$2" -c "$3" mount theirs mnt --read-write
{AS_THEM} sh -c '
  cat mnt/own mnt/roots
  echo more >> mnt/own
  echo more >> mnt/roots || echo "not written"
  cat mnt/private || echo "not read"
  echo replaced > mnt/new
  echo efgh > mnt/c/0/0
  stat -c "%U %a" mnt/new
' || true
fusermount3 -u mnt
"""


READ_ONLY = f"""
"$2" -c "$3" mount named mnt
{AS_THEM} sh -c '
  cat mnt/by-acl
  cat mnt/private || echo "not read"
  echo new > mnt/by-acl || echo "not written"
' || true
fusermount3 -u mnt
"""


def test_user_whom_only_an_acl_admits_reads_through_a_mount_of_their_own(folder: Path) -> None:
    store, mountpoint = folder / "named", folder / "mnt"
    store.mkdir()
    mountpoint.mkdir(exist_ok=True)
    os.chown(mountpoint, NOBODY, NOBODY)
    write_keys(store, {"by-acl": b"read\n", "private": b"private"})
    for path in store.iterdir():
        path.chmod(0o600)
    everyone = 0xFFFFFFFF
    owner, user, group, mask, others = 0x01, 0x02, 0x04, 0x10, 0x20
    entries = [(owner, 6, everyone), (user, 4, NOBODY), (group, 0, everyone), (mask, 4, everyone)]
    packed = b"".join(struct.pack("<HHI", *entry) for entry in [*entries, (others, 0, everyone)])
    os.setxattr(store / "by-acl", "system.posix_acl_access", struct.pack("<I", 2) + packed)
    done = as_stranger(folder, READ_ONLY)
    assert done.stdout == "read\nnot read\nnot written\n", done.stderr


def test_ordinary_user_has_through_a_mount_what_a_disk_permits(folder: Path) -> None:
    store, mountpoint = folder / "theirs", folder / "mnt"
    store.mkdir()
    mountpoint.mkdir(exist_ok=True)
    write_keys(store, {"zarr.json": array((4, 5), (2, 5)), "c/0/0": b"abcd", "own": b"own "})
    write_keys(store, {"roots": b"root's\n", "private": b"private"})
    for path in (mountpoint, store, *store.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    (store / "own").chmod(0o600)
    os.chown(store / "roots", 0, 0)
    os.chown(store / "private", 0, 0)
    (store / "private").chmod(0o600)
    os.chown(store / "c/0/0", OWNER, GROUP)
    (store / "c/0/0").chmod(0o666)
    done = as_stranger(folder, READ_AND_WRITE)
    assert done.stdout == "own root's\nnot written\nnot read\nnobody 644\n", done.stderr
    assert (store / "own").read_bytes() == b"own more\n"
    replaced = (store / "c/0/0").stat()  # another owner and group: neither can be kept
    assert (replaced.st_uid, replaced.st_gid) == (NOBODY, NOBODY)
    assert stat.S_IMODE(replaced.st_mode) == 0o666
