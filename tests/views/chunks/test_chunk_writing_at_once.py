"""Chunks that are written while others read, or that cannot be stored: old or new, never half."""

import errno
import math
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts
from builders.readers import read_range
from builders.view_writing import create, link, put, remove, rename
from builders.views import content_of, folder_at
from writable_chunks import ARRAY, CHUNK, files, opened

from zarrfuse.errors import Denied, IsAFolder, NotFound, errno_of
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.view import ChunksView


def test_nobody_sees_a_chunk_half_old_half_new(tmp_path: Path) -> None:
    """Two writers with stores of their own, as two processes have, a reader in the same and one that
    only reads."""
    parts = [concat_parts((".a", 10), "", (".b", 10))]
    root = tmp_path / "store"
    versions = [bytes([number]) * (30 + number) for number in range(40)]
    failures: list[BaseException] = []
    with opened(root, {"zarr.json": array((4,), transformers=parts)}) as first:
        put(first, "c/0", versions[0])
        done = threading.Event()

        def writing(view: Folder, every: int) -> None:
            for version in versions[every::2]:
                put(view, "c/0", version)

        def reading(view: Folder) -> None:
            while True:
                last = done.is_set()
                folder = folder_at(view, "c")
                assert folder.lookup("0").size in {len(version) for version in versions}
                reader = folder.open("0")
                assert read_range(reader, 0, reader.size) in versions
                reader.close()
                if last:
                    return

        def guarded(call: Callable[..., None], *arguments: Any) -> None:
            try:
                call(*arguments)
            except BaseException as error:
                failures.append(error)

        with opened(root, {}, is_last=False) as second:
            read_only = ChunksView(LocalStore(str(root)), math.inf).root
            readers = [
                threading.Thread(target=guarded, args=(reading, view))
                for view in (first, second, read_only)
            ]
            writers = [
                threading.Thread(target=guarded, args=(writing, view, every))
                for every, view in enumerate((first, second))
            ]
            for thread in (*readers, *writers):
                thread.start()
            for thread in writers:
                thread.join()
            done.set()
            for thread in readers:
                thread.join()
        assert failures == []
        assert content_of(first, "c/0") in versions[-2:]


def test_deleting_while_storing_leaves_all_or_nothing(tmp_path: Path) -> None:
    parts = [concat_parts((".a", 2), "/in/b", ("/c", 2))]
    with opened(tmp_path / "store", {"zarr.json": array((4,), transformers=parts)}) as root:
        failures: list[BaseException] = []

        def deleting() -> None:
            for _ in range(50):
                try:
                    remove(root, "c/0")
                except (NotFound, IsAFolder):
                    pass
                except BaseException as error:
                    failures.append(error)

        thread = threading.Thread(target=deleting)
        thread.start()
        for _ in range(50):
            put(root, "c/0", b"123456")
            try:
                reader = folder_at(root, "c").open("0")
            except NotFound:
                continue
            assert read_range(reader, 0, reader.size) == b"123456"
            reader.close()
        thread.join()
        assert failures == []
        assert set(files(tmp_path / "store")) in (set(), {"c/0.a", "c/0/in/b", "c/0/c"})


def test_what_zarrfuse_keeps_of_its_own_cannot_be_written(view: Any) -> None:
    root = view({"x": b"", "d/y": b""})
    refused: list[Callable[[], object]] = [
        lambda: create(root, f"{OWN_NAME}/z"),
        lambda: rename(root, "x", OWN_NAME),
        lambda: rename(root, "d", OWN_NAME),
        lambda: link(root, "x", f"{OWN_NAME}/z"),
        lambda: root.make_folder(OWN_NAME),
    ]
    for call in refused:
        with pytest.raises(Denied):
            call()


def test_a_chunk_whose_folder_leads_out_of_the_store(view: Any, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "tail").write_bytes(b"theirs")
    document = array((4,), transformers=[concat_parts("", (".d/tail", 2))])
    root = view({"zarr.json": document, "c/0": b"mine"})
    (tmp_path / "store/c/0.d").symlink_to(tmp_path / "outside")
    with pytest.raises(Denied):
        put(root, "c/0", b"12345")
    assert (tmp_path / "outside" / "tail").read_bytes() == b"theirs"
    assert (tmp_path / "store/c/0").read_bytes() == b"mine"
    remove(root, "c/0")
    assert (tmp_path / "outside" / "tail").read_bytes() == b"theirs"


def test_a_full_disk_leaves_the_old_chunk(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    writer = create(root, "c/0/0")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        with pytest.raises(OSError, match="too large") as raised:
            writer.write(bytes(10_000), 0)
        assert errno_of(raised.value) == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    writer.close()
    assert stored() == CHUNK
