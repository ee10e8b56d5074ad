"""Names that are swapped for others while programs use them never lead out, and never hang."""

import errno
import os
import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from builders.documents import array
from builders.folders import write_files
from builders.mounts import drop_caches, serving

from zarrfuse.errors import ZarrfuseError
from zarrfuse.stores.local.store import LocalStore

SECRET = b"secret: not to be read through the mount"
DATA = bytes(range(256)) * 512


def test_swapping_a_folder_for_a_symlink_never_leads_out(tmp_path: Path) -> None:
    """Between any check and any use of a path."""
    source, outside = tmp_path / "source", tmp_path / "outside"
    write_files(source, {"s/below/f": DATA, "s/below/zarr.json": b"{}"})
    write_files(
        outside, {"below/f": SECRET, "below/only-outside": SECRET, "below/zarr.json": SECRET}
    )
    (outside / "below/link-outside").symlink_to("/outside-link-text")
    ended = threading.Event()

    def swap() -> None:
        kept, link = source / "kept", source / "s"
        while not ended.is_set():
            link.rename(kept)
            link.symlink_to(outside)
            link.unlink()
            kept.rename(link)

    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        swapping = threading.Thread(target=swap)
        swapping.start()
        seen: set[str] = set()
        texts = b""
        folder = daemon.mountpoint / "s/below"
        try:
            for _ in range(1500):
                with suppress(OSError):
                    assert SECRET not in (folder / "f").read_bytes()
                with suppress(OSError):
                    assert SECRET not in (folder / "zarr.json").read_bytes()
                with suppress(OSError):
                    seen |= set(os.listdir(folder))
                with suppress(OSError):
                    seen.add(os.readlink(folder / "link-outside"))
                with suppress(OSError):
                    texts += (daemon.mountpoint / ".zarrfuse/info/s/below/f").read_bytes()[:500]
        finally:
            ended.set()
            swapping.join()
        assert seen <= {"f", "zarr.json"}
        assert SECRET not in texts
        assert daemon.is_up()
        assert "Traceback" not in daemon.text()


def test_swapping_a_file_for_something_else_never_hangs(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_files(source, {"a/zarr.json": array((8, 8)), "a/c/0/0": DATA})
    (tmp_path / "secret").write_bytes(SECRET)
    path = source / "a/c/0/0"
    ended = threading.Event()

    def swap() -> None:
        rng = random.Random(1)
        other = path.with_name("other")
        while not ended.is_set():
            what = rng.randrange(5)
            with suppress(OSError):
                if what == 0:
                    os.mkfifo(other)
                elif what == 1:
                    other.symlink_to(tmp_path / "secret")
                elif what == 2:
                    other.symlink_to("/dev/zero")
                elif what == 3:
                    other.symlink_to("0")
                else:
                    other.write_bytes(DATA)
                other.rename(path)

    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        swapping = threading.Thread(target=swap)
        swapping.start()
        allowed = {
            errno.EACCES,
            errno.ENOENT,
            errno.ELOOP,
            errno.ESTALE,
            errno.EIO,
            errno.EINVAL,
            errno.EAGAIN,
        }
        read = 0
        try:
            for _ in range(2000):
                try:
                    data = (daemon.mountpoint / "a/c/0/0").read_bytes()
                except OSError as error:
                    assert error.errno in allowed, error
                else:
                    assert DATA.startswith(data) and SECRET not in data
                    read += bool(data)
        finally:
            ended.set()
            swapping.join()
        assert read
        assert daemon.is_up()
        assert "Traceback" not in daemon.text()


def test_a_link_that_changes_never_hands_out_a_way_out(tmp_path: Path) -> None:
    """What was looked up as a link inside, and leads out when it is read."""
    source = tmp_path / "source"
    write_files(source, {"inside/f": DATA})
    link = source / "link"
    for target in ("/nonexistent/secret", "../nonexistent", "/etc/passwd", "../outside"):
        link.unlink(missing_ok=True)
        link.symlink_to("inside")
        with serving(tmp_path, source, "--cache-ttl", "600") as daemon:
            assert os.readlink(daemon.mountpoint / "link") == "inside"
            (source / "other").symlink_to(target)
            (source / "other").rename(link)
            fresh = os.open(daemon.mountpoint, os.O_RDONLY)
            try:
                drop_caches()
                with suppress(OSError):
                    text = os.readlink("link", dir_fd=fresh)
                    assert not text.startswith(("/", "..")), text
            finally:
                os.close(fresh)


@pytest.mark.parametrize("target", ["/nonexistent/secret", "../nonexistent", "inside/../../x"])
def test_the_text_of_a_dangling_link_never_leads_out(tmp_path: Path, target: str) -> None:
    """Whoever is told it follows it, with rights of his own, and there may be something by then."""
    (tmp_path / "source/inside").mkdir(parents=True)
    (tmp_path / "source/link").symlink_to(target)
    store = LocalStore(str(tmp_path / "source"))
    try:
        with pytest.raises(ZarrfuseError) as caught:
            store.readlink("link")
        assert caught.value.errno in (errno.EACCES, errno.ENOENT)
    finally:
        store.close()
