"""Stored bytes that never come hold up the reads that want them, and no others."""

import errno
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.fake_stores import ForwardingStore
from builders.images_view import images
from builders.mounts import wait_for
from builders.readers import read_range
from builders.views import opened

from zarrfuse.stores.base import Reader, Store
from zarrfuse.stores.local.store import LocalStore


class _Hanging(ForwardingStore):
    """Chunks are never at hand, and those of `a` hang."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.go_on = threading.Event()
        self.hanging = 0

    def open(self, key: str, *, wait: bool = True) -> Reader:
        if "/c/" in key:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "cold")
            if key.startswith("a/"):
                self.hanging += 1
                self.go_on.wait(60)
        return super().open(key, wait=wait)


def test_chunks_that_hang_do_not_hold_up_those_of_another_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarrfuse.views.images.stored_bytes._MOST_READS", 4)
    values = np.arange(16, dtype="u1")
    for name in "ab":
        made = zarr.create_array(tmp_path / name, shape=(16,), chunks=(1,), dtype="u1")
        made[...] = values
    store = _Hanging(LocalStore(str(tmp_path)))
    root = images(store)
    found: dict[str, bytes] = {}

    def read_all(name: str) -> None:
        with opened(root, f"{name}/{name}.npy") as reader:
            found[name] = read_range(reader, reader.size - 16, 16)

    threads = {name: threading.Thread(target=read_all, args=[name], daemon=True) for name in "ab"}
    try:
        threads["a"].start()
        wait_for(lambda: store.hanging >= 4)
        threads["b"].start()
        threads["b"].join(30)
        assert found == {"b": values.tobytes()}
    finally:
        store.go_on.set()
    threads["a"].join(30)
    assert found["a"] == values.tobytes()
