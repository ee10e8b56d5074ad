"""How long what was decoded is believed, and how much of it is kept."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from builders.documents import array
from builders.fake_stores import ForwardingStore
from builders.folders import write_keys
from decoded_arrays import Opener, random_values

from zarrfuse.errors import Stale
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images.decode import DecodedArray, Decoder
from zarrfuse.views.images.stored_bytes import ArrayFiles
from zarrfuse.views.images.zarr_array import ZarrArray


def test_a_chunk_written_anew_is_seen(tmp_path: Path, opened: Opener) -> None:
    for name, options in {"a": {"chunks": (2,)}, "s": {"chunks": (1,), "shards": (2,)}}.items():
        stored = zarr.create_array(tmp_path / name, shape=(6,), dtype="u1", **options)
        decoded = opened(tmp_path / name)
        assert decoded.read((slice(0, 6),)).tolist() == [0] * 6
        stored[2:4] = 5  # appears
        assert decoded.read((slice(0, 6),)).tolist() == [0, 0, 5, 5, 0, 0]
        time.sleep(0.02)  # another time
        stored[2:4] = 7  # changes
        assert decoded.read((slice(0, 6),)).tolist() == [0, 0, 7, 7, 0, 0]
        (tmp_path / name / "c" / "1").unlink()
        assert decoded.read((slice(0, 6),)).tolist() == [0] * 6


def test_what_is_stored_is_believed_for_as_long_as_asked(tmp_path: Path, opened: Opener) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="u1")
    stored[:2] = 1
    decoded = opened(tmp_path / "a", ttl_s=60)
    assert decoded.read((slice(0, 4),)).tolist() == [1, 1, 0, 0]
    time.sleep(0.02)
    stored[...] = 9
    assert decoded.read((slice(0, 4),)).tolist() == [1, 1, 0, 0]


def test_a_document_that_has_changed_is_stale(tmp_path: Path, opened: Opener) -> None:
    write_keys(tmp_path, {"zarr.json": array((4,)), "c/0": b"12"})
    decoded = opened(tmp_path)
    (tmp_path / "zarr.json").write_bytes(array((6,)))
    with pytest.raises(Stale, match="the root array changed"):
        decoded.read((slice(0, 2),))


def test_a_chunk_larger_than_the_cache_is_decoded_once_while_it_is_read(
    tmp_path: Path, opened: Opener
) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(100, 100), chunks=(100, 100), dtype="u1")
    stored[...] = values = random_values((100, 100), "u1")
    decoded = opened(tmp_path / "a", cache_bytes=5000)
    for row in range(100):
        assert np.array_equal(decoded.read((slice(row, row + 1), slice(0, 100)))[0], values[row])
    assert decoded.blocks._cache.status()["misses"] == 1


def test_the_same_array_is_given_as_long_as_its_document_is_the_same(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": array((4,))})
    view = ChunksView(LocalStore(str(tmp_path)), 0.0)
    decoder = Decoder(view, ByteCache(100))

    def now() -> DecodedArray:
        folder = view.root
        loaded = folder.loaded()
        assert loaded is not None
        return decoder.array(ArrayFiles(view, folder, loaded))

    first = now()
    assert now() is first
    (tmp_path / "zarr.json").write_bytes(array((6,)))
    assert now().shape == (6,)
    decoder.close()


def test_of_a_store_that_cannot_change_nothing_is_looked_at_again(
    tmp_path: Path, opened: Opener
) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="u1")
    stored[...] = 3

    class Permanent(ForwardingStore):
        looked_at = 0

        def before(self, call: str, key: str, wait: bool) -> None:
            self.looked_at += key.startswith("c/")

    store = Permanent(LocalStore(str(tmp_path / "a")))
    store.permanent = True
    decoded = opened(store, ttl_s=0.0)
    assert decoded.read((slice(0, 4),)).tolist() == [3] * 4
    looked_at = store.looked_at
    assert decoded.read((slice(0, 4),)).tolist() == [3] * 4
    assert store.looked_at == looked_at > 0


def test_what_is_stored_is_looked_at_again_when_its_time_has_come(
    tmp_path: Path, opened: Opener
) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="u1")
    stored[...] = 3
    blocks = opened(tmp_path / "a", ttl_s=50.0).blocks
    blocks.bring([(0,)], lambda unit, block: None)
    now = time.monotonic()
    assert blocks.at_hand((0,), now) is blocks.at_hand((0,), now + 40) is not None
    assert blocks.at_hand((0,), now + 60) is None
    assert blocks.current((0,), now + 60, wait=True) is not None
    assert blocks.at_hand((0,), now + 100) is not None  # believed once more


def test_of_chunks_that_were_decoded_together_each_may_be_written_anew(
    tmp_path: Path, opened: Opener
) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(6,), chunks=(2,), dtype="u1")
    stored[...] = 3
    decoded = opened(tmp_path / "a")
    assert decoded.read((slice(0, 6),)).tolist() == [3] * 6
    for chunk in (1, 2, 0):
        time.sleep(0.02)  # another time
        stored[2 * chunk : 2 * chunk + 2] = value = 5 + chunk
        assert set(decoded.read((slice(2 * chunk, 2 * chunk + 2),)).tolist()) == {value}


def test_what_was_read_last_is_kept(
    tmp_path: Path, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarrfuse.views.images.blocks._TOUCHED_S", -1.0)
    monkeypatch.setattr("zarrfuse.views.images.blocks._BLOCK_BYTES", 1)
    stored = zarr.create_array(tmp_path / "a", shape=(300,), chunks=(100,), dtype="u1")
    stored[...] = 3
    decoded = opened(tmp_path / "a", cache_bytes=250, ttl_s=60)
    for chunk in (0, 1, 0, 2, 0):
        decoded.read((slice(100 * chunk, 100 * chunk + 100),))
    status = decoded.blocks._cache.status()
    assert (status["misses"], status["hits"]) == (3, 2)


def test_what_is_being_decoded_is_bounded_in_bytes(
    tmp_path: Path, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(100,), chunks=(50,), dtype="u2")
    stored[...] = 3
    decoded = opened(tmp_path / "a")
    budget = decoded.blocks._shared.budget
    taken: list[int] = []
    decode = ZarrArray.decode

    def watched(zarr_array: ZarrArray, *arguments: Any, alone: bool) -> Any:
        taken.append(budget.taken_bytes)
        return decode(zarr_array, *arguments, alone=alone)

    monkeypatch.setattr(ZarrArray, "decode", watched)
    decoded.read((slice(0, 100),))
    assert (taken, budget.taken_bytes) == ([200], 0)


def test_only_so_many_arrays_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zarrfuse.views.images.decode._ARRAYS_KEPT", 2)
    write_keys(tmp_path, {f"{name}/zarr.json": array((4,)) for name in "abc"})
    view = ChunksView(LocalStore(str(tmp_path)), 0.0)
    decoder = Decoder(view, ByteCache(100))
    folders = [view.root.child(name) for name in "abc"]
    arrays = [decoder.array(ArrayFiles(view, folder, folder.loaded())) for folder in folders]
    assert decoder.array(ArrayFiles(view, folders[2], folders[2].loaded())) is arrays[2]
    assert decoder.array(ArrayFiles(view, folders[0], folders[0].loaded())) is not arrays[0]
    decoder.close()
    with pytest.raises(RuntimeError):
        decoder.shared.threads.submit(print)
