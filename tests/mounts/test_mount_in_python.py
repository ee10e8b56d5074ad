"""`zarrfuse.mount` serves a source or a store object for as long as a block lasts."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from builders.documents import group
from builders.folders import write_keys
from builders.mounts import ENVIRONMENT, clear, wait_for
from builders.processes import assert_ended, open_files, processes_about
from builders.zarr_stores import KINDS, filled, write_image
from zarr.storage import MemoryStore, WrapperStore

import zarrfuse
from zarrfuse.errors import MountError
from zarrfuse.mounts import kernel_mounts

IMAGE = np.array([[10 * row + column for column in range(8)] for row in range(1, 5)], "uint8")
CHUNK = IMAGE[:2, :4].tobytes()


@pytest.fixture
def image() -> MemoryStore:
    store = MemoryStore()
    write_image(store)
    return store


def is_mounted(point: Path) -> bool:
    return kernel_mounts.mount_at(str(point)) is not None


def test_a_store_in_memory_is_a_mount(image: MemoryStore, mountpoint: Path) -> None:
    with zarrfuse.mount(image, mountpoint) as point:
        assert point == mountpoint
        assert sorted(os.listdir(point)) == ["a", "b", "zarr.json"]
        assert (point / "a/c/0/0").read_bytes() == CHUNK
        done = subprocess.run(["cat", point / "a/c/0/0"], capture_output=True, check=True)
        assert done.stdout == CHUNK
        assert kernel_mounts.mount_at(str(point)).type == "fuse.zarrfuse"
    assert not is_mounted(mountpoint)
    assert_ended(mountpoint)
    assert os.listdir(mountpoint) == []


@pytest.mark.parametrize("view", ["chunks", "plain"])
@pytest.mark.parametrize("kind", KINDS)
def test_zarr_reads_what_it_wrote_into_any_store(
    kind: str, view: str, tmp_path: Path, mountpoint: Path
) -> None:
    if kind == "zip":
        store = zarr.storage.ZipStore(tmp_path / "image.zip", mode="w")
        write_image(store)
        store.close()
        store = zarr.storage.ZipStore(tmp_path / "image.zip")
    else:
        store = KINDS[kind]({}, tmp_path)
        write_image(store)
    with zarrfuse.mount(store, mountpoint, view=view) as point:
        root = zarr.open_group(point, mode="r")
        assert sorted(root.keys()) == ["a", "b"]
        assert (root["a"][:] == IMAGE).all()
        done = subprocess.run(["cat", point / "a/c/0/0"], capture_output=True, check=True)
        assert done.stdout == CHUNK


def test_images_are_rendered(image: MemoryStore, mountpoint: Path) -> None:
    import tifffile

    with zarrfuse.mount(image, mountpoint, view="images", formats=["tiff"]) as point:
        assert (tifffile.imread(point / "a/a.tiff") == IMAGE).all()
        assert not list(point.rglob("*.npy"))


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_root_that_has_no_name_is_named_array(mountpoint: Path, wrapped: bool) -> None:
    """A store in memory has a number for a name, and others have that of their class."""
    store = MemoryStore()
    zarr.create_array(store, data=IMAGE)
    given = WrapperStore(store) if wrapped else store
    with zarrfuse.mount(given, mountpoint, view="images", formats=["tiff"]) as point:
        assert [path.name for path in point.glob("*.tiff")] == ["array.tiff"]


def test_a_folder_is_mounted_by_its_path(tmp_path: Path, mountpoint: Path) -> None:
    write_keys(tmp_path / "store", {"zarr.json": group(), "file": b"content"})
    with zarrfuse.mount(tmp_path / "store", mountpoint, view="raw") as point:
        assert (point / "file").read_bytes() == b"content"
    with zarrfuse.mount(str(tmp_path / "store"), str(mountpoint), view="raw") as point:
        assert (point / "file").read_bytes() == b"content"
    assert not is_mounted(mountpoint)


def test_an_icechunk_session_is_a_mount(tmp_path: Path, mountpoint: Path) -> None:
    icechunk.set_logs_filter("error")
    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(tmp_path / "repository"))
    )
    session = repository.writable_session("main")
    write_image(session.store)
    with zarrfuse.mount(session.store, mountpoint) as point:
        assert (point / "a/c/0/0").read_bytes() == CHUNK, "not committed yet"
    session.commit("image")
    with zarrfuse.mount(repository.readonly_session("main").store, mountpoint) as point:
        assert (zarr.open_array(point / "a", mode="r")[:] == IMAGE).all()


def test_what_the_program_writes_is_seen(image: MemoryStore, mountpoint: Path) -> None:
    with zarrfuse.mount(image, mountpoint, view="raw", cache_ttl=0) as point:
        assert not (point / "new").exists()
        filled(image, {"new": b"1"})
        assert (point / "new").read_bytes() == b"1"
        filled(image, {"new": b"22"})
        assert (point / "new").read_bytes() == b"22"


def test_many_threads_of_the_program_read_the_mount(image: MemoryStore, mountpoint: Path) -> None:
    with zarrfuse.mount(image, mountpoint) as point:
        seen: list[bytes] = []
        threads = [
            threading.Thread(
                target=lambda: seen.extend((point / "a/c/0/0").read_bytes() for _ in range(20))
            )
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == [CHUNK] * 160


def test_a_body_that_raises_unmounts(image: MemoryStore, mountpoint: Path) -> None:
    with pytest.raises(ZeroDivisionError), zarrfuse.mount(image, mountpoint):
        1 / 0  # noqa: B018
    assert not is_mounted(mountpoint)
    assert_ended(mountpoint)


def test_a_mount_in_use_is_detached_with_a_warning(image: MemoryStore, mountpoint: Path) -> None:
    with (
        pytest.warns(UserWarning, match=r"busy.* It is detached") as warned,
        zarrfuse.mount(image, mountpoint) as point,
    ):
        held = (point / "zarr.json").open("rb")
    assert warned[0].filename == __file__
    held.close()
    assert not is_mounted(mountpoint)
    assert_ended(mountpoint)


def test_somebody_else_may_unmount(image: MemoryStore, mountpoint: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with zarrfuse.mount(image, mountpoint):
            kernel_mounts.unmount(str(mountpoint))
    assert_ended(mountpoint)


def test_a_mount_that_fails_says_why_and_leaves_nothing(
    image: MemoryStore, tmp_path: Path, mountpoint: Path
) -> None:
    before = open_files(), set(threading.enumerate())
    with pytest.raises(MountError, match="there is no mountpoint"):
        zarrfuse.mount(image, tmp_path / "nothing").__enter__()
    with pytest.raises(MountError, match="does not exist"):
        zarrfuse.mount(tmp_path / "nothing", mountpoint).__enter__()
    (mountpoint / "file").touch()
    with pytest.raises(MountError, match="is not empty"):
        zarrfuse.mount(image, mountpoint).__enter__()
    assert set(threading.enumerate()) == before[1]
    assert open_files().keys() <= before[0].keys()


def test_what_is_no_source_is_refused(mountpoint: Path) -> None:
    with pytest.raises(TypeError, match="42 is neither a path"):
        zarrfuse.mount(42, mountpoint).__enter__()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the view 'all-of-it' is not one of chunks"):
        zarrfuse.mount("x", mountpoint, view="all-of-it")
    with pytest.raises(ValueError, match="the format 'jpeg' is not one of tiff"):
        zarrfuse.mount("x", mountpoint, formats=["jpeg"])


def test_a_store_without_zarr_is_mounted_with_a_warning(mountpoint: Path) -> None:
    store = filled(MemoryStore(), {"file": b""})
    with (
        pytest.warns(UserWarning, match=r"memory://.*Zarr") as warned,
        zarrfuse.mount(store, mountpoint) as point,
    ):
        assert os.listdir(point) == ["file"]
    assert warned[0].filename == __file__


def test_a_mount_can_be_made_again_and_beside_others(image: MemoryStore, tmp_path: Path) -> None:
    before = open_files()
    points = [tmp_path / "mnt0", tmp_path / "mnt1"]
    for point in points:
        point.mkdir()
    try:
        for _ in range(2):
            with zarrfuse.mount(image, points[0]), zarrfuse.mount(image, points[1], view="plain"):
                for point in points:
                    assert (point / "a/c/0/0").read_bytes() == CHUNK
    finally:
        clear(tmp_path)
    assert open_files().keys() <= before.keys()


class Slow(WrapperStore):
    """Reads wait until a test ends them."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.begun = threading.Event()

    async def get(self, key: str, *arguments: Any, **named: Any) -> Any:
        if key == "a/c/0/0":
            import asyncio

            self.begun.set()
            await asyncio.sleep(1000)
        return await super().get(key, *arguments, **named)


def test_a_store_that_hangs_does_not_keep_the_block(image: MemoryStore, mountpoint: Path) -> None:
    store = Slow(image)
    with (
        pytest.warns(UserWarning, match="It is detached"),
        zarrfuse.mount(store, mountpoint) as point,
    ):
        reading = subprocess.Popen(
            ["cat", point / "a/c/0/0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert store.begun.wait(30)
        assert (point / "a/zarr.json").stat().st_size, "the rest of the mount stays usable"
    assert reading.communicate()[0] == b""
    assert reading.returncode == 1


PROGRAM = """
    import sys, time
    import numpy as np, zarr, zarrfuse
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(store, shape=(4,), chunks=(2,), dtype="u1")
    array[:] = [1, 2, 3, 4]
    with zarrfuse.mount(store, sys.argv[1], view="plain") as point:
        print(zarr.open_array(point, mode="r")[:].sum(), flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def program(tmp_path: Path, mountpoint: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program without `if __name__ == "__main__"`, in the body of its mount."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    with subprocess.Popen(
        [sys.executable, script, mountpoint],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as running:
        assert running.stdout.readline() == b"10\n"
        yield running
        running.kill()


def test_a_program_needs_no_guard_of_its_main_module(
    program: subprocess.Popen[bytes], mountpoint: Path
) -> None:
    assert is_mounted(mountpoint)
    program.communicate(b"")
    assert program.returncode == 0
    assert not is_mounted(mountpoint)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_program_is_killed_the_mount_goes(
    program: subprocess.Popen[bytes], mountpoint: Path, number: signal.Signals
) -> None:
    program.send_signal(number)
    program.wait()
    wait_for(lambda: not is_mounted(mountpoint))
    assert_ended(mountpoint)


def test_ctrl_c_is_for_the_program(program: subprocess.Popen[bytes], mountpoint: Path) -> None:
    [daemon] = processes_about(mountpoint).keys() - {program.pid}
    assert os.getsid(daemon) == daemon
    program.send_signal(signal.SIGINT)
    program.wait()
    assert not is_mounted(mountpoint)


def test_importing_zarrfuse_imports_nothing_heavy() -> None:
    code = (
        "import sys, zarrfuse; zarrfuse.mount('x', 'y')\n"
        "assert not {'zarr', 'numpy', 'trio', 'pyfuse3', 'obstore'} & {*sys.modules}, [*sys.modules]\n"
        "import zarrfuse.mounts.daemon; assert callable(zarrfuse.mount)"
    )
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True)


def test_the_url_of_a_store_is_shown_without_its_secrets(
    image: MemoryStore, mountpoint: Path
) -> None:
    class Signed(WrapperStore[MemoryStore]):
        def __str__(self) -> str:
            return "<FsspecStore(HTTPFileSystem, https://user:pass@host/a?sig=secret)>"

    with zarrfuse.mount(Signed(image), mountpoint) as point:
        rows = Path("/proc/mounts").read_text().splitlines()
        (row,) = (row for row in rows if f" {point} " in row)
        assert "https://host/a" in row
        assert "secret" not in row and "pass" not in row


def test_owner_and_modes_are_shown_as_asked(image: MemoryStore, mountpoint: Path) -> None:
    with zarrfuse.mount(image, mountpoint, uid=1, gid=2, umask=0o027, fmask=0o137) as point:
        folder, file = (point / "a").stat(), (point / "zarr.json").stat()
    assert (folder.st_uid, folder.st_gid, folder.st_mode & 0o7777) == (1, 2, 0o550)
    assert (file.st_uid, file.st_gid, file.st_mode & 0o7777) == (1, 2, 0o440)


@pytest.mark.parametrize("given", [{"uid": -1}, {"gid": 2**32 - 1}, {"umask": 0o1000}])
def test_a_number_that_is_none_is_refused(
    image: MemoryStore, mountpoint: Path, given: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="is not between 0 and"):
        zarrfuse.mount(image, mountpoint, **given)
