"""Workspaces that other users have put into a folder that all may write: what the command does."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_keys
from builders.journals import leave_journal
from builders.mounts import Daemon, zarrfuse
from builders.other_users import DONE, STRANGER, as_user, public_folder

CHUNK = {"c/0/0.a": b"ol", "c/0/0.b": b"d"}
LEFT = {"c/0/0.a": b"xx", "c/0/0.b": b"x"}


@pytest.fixture
def data() -> Iterator[Path]:
    """Root's folder, in which everybody may make names, with a journal of a stranger's."""
    with public_folder() as folder:
        data = folder / "data"
        members = array((4, 4), transformers=[concat_parts((".a", 2), ".b")])
        write_keys(data, {"zarr.json": members} | CHUNK)
        data.chmod(0o1777)
        assert as_user(STRANGER, lambda: leave_journal(data, "c/0/0", LEFT)) == DONE
        yield data


def stored(data: Path) -> dict[str, bytes]:
    return {key: (data / key).read_bytes() for key in CHUNK}


def test_check_repair_refuses_them_and_says_why(data: Path) -> None:
    before = sorted(data.rglob("*"))
    done = zarrfuse("check", data, "--repair", check=False)
    assert done.returncode == 2
    assert f"zarrfuse: {data}/.zarrfuse belongs to user {STRANGER}, not to user 0" in done.stderr
    assert sorted(data.rglob("*")) == before
    assert stored(data) == CHUNK


def test_a_mount_that_writes_is_refused_and_one_that_reads_shows_what_is_stored(
    data: Path, tmp_path: Path, served: Callable[..., Daemon]
) -> None:
    point = tmp_path / "refused"
    point.mkdir()
    for how in ((), ("--foreground",)):
        done = zarrfuse("mount", data, point, "--read-write", *how, check=False)
        assert done.returncode != 0
        assert f"{data}/.zarrfuse belongs to user {STRANGER}" in done.stderr
        assert "Traceback" not in done.stderr
        assert not os.path.ismount(point)
    mount = served(data)
    assert (mount.mountpoint / "c/0/0").read_bytes() == b"old"
    said = [line for line in mount.text().splitlines() if "WARNING" in line]
    assert len(said) == 1
    assert f"{data}/.zarrfuse belongs to user {STRANGER}" in said[0]
    assert stored(data) == CHUNK


def test_a_mount_follows_no_symlink_in_the_place_of_its_source(
    data: Path, served: Callable[..., Daemon]
) -> None:
    (data / ".zarrfuse").rename(data.parent / "away")
    secret = data.parent / "secret"
    write_keys(secret, {"zarr.json": (data / "zarr.json").read_bytes(), "c/0/0.a": b"se"})
    point = served(data, "--read-write", "--cache-ttl", "0").mountpoint
    assert (point / "c/0/0").read_bytes() == b"old"
    for path in sorted(data.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    data.rmdir()
    data.symlink_to(secret)
    for name in ("zarr.json", "c/0/0", "c"):
        with pytest.raises(FileNotFoundError):
            os.stat(point / name)
    with pytest.raises(OSError, match="No such file"):
        (point / "new").write_bytes(b"")
    assert sorted(path.name for path in secret.iterdir()) == ["c", "zarr.json"]
