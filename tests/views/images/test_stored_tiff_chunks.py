"""Chunks that are TIFF files already are passed on as they are stored."""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, suffix_keys
from builders.fake_stores import MemoryStore
from builders.folders import write_keys
from builders.views import content_of, folder_at
from small_images import CHUNKS, TIFF, entries_of, image, view

from zarrfuse import caching
from zarrfuse.errors import Corrupt
from zarrfuse.spec.node import ArrayNode
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images.chunk_files import StoredTiffs
from zarrfuse.views.plain.chunks import PlainChunks


@pytest.mark.parametrize("suffix", [".tiff", ".tif", ".TIFF", "/data.Tif"])
@pytest.mark.parametrize("magic", [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"])
def test_stored_tiff_files_are_passed_on_as_they_are(suffix: str, magic: bytes) -> None:
    stored = magic + b"any codec, any size"
    keys = suffix_keys(suffix)
    root = view({"a/zarr.json": array(keys=keys, fill_value=7), f"a/c/0/1{suffix}": stored})
    assert sorted(name for name in entries_of(root) if "/c/" in name) == CHUNKS
    assert content_of(root, "a/c/0/1.tiff") == stored
    assert folder_at(root, "a/c/0").list()["1.tiff"].size == len(stored)
    assert image(root, "a/c/0/0.tiff").tolist() == [[7, 7], [7, 7]]


def test_the_parts_of_a_stored_tiff_are_merged() -> None:
    document = array(keys=suffix_keys(".tiff"), transformers=[concat_parts("", ".index")])
    keys = {"a/zarr.json": document, "a/c/0/0.tiff": TIFF, "a/c/0/0.tiff.index": b"index"}
    root = view({**keys, "a/c/0/1.tiff": TIFF})
    assert content_of(root, "a/c/0/0.tiff") == TIFF + b"index"
    assert folder_at(root, "a/c/0").lookup("0.tiff").size == len(TIFF) + 5
    folder_at(root, "a/c/0").open("1.tiff").close()  # as in the other views, reading says it
    with pytest.raises(Corrupt, match="index` is missing"):
        content_of(root, "a/c/0/1.tiff")


def test_a_suffix_alone_makes_no_tiff() -> None:
    root = view({"a/zarr.json": array(keys=suffix_keys(".tiff")), "a/c/0/1.tiff": b"\1\2\3\4"})
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]


def test_among_stored_tiff_files_one_that_is_none_cannot_be_read() -> None:
    document = array(keys=suffix_keys(".tiff"))
    root = view(
        {
            "a/zarr.json": document,
            "a/c/0/0.tiff": TIFF,
            "a/c/0/1.tiff": b"1234",
            "a/c/1/1.tiff": b"",
        }
    )
    assert content_of(root, "a/c/0/0.tiff") == TIFF
    with pytest.raises(Corrupt, match=r"a: chunk c/0/1: is no TIFF file"):
        content_of(root, "a/c/0/1.tiff")
    with pytest.raises(Corrupt, match=r"a: chunk c/1/1: is no TIFF file"):
        content_of(root, "a/c/1/1.tiff")


def test_a_first_chunk_is_still_looked_for_where_there_was_none(tmp_path: Path) -> None:
    write_keys(tmp_path, {"a/zarr.json": array(keys=suffix_keys(".tiff"))})
    root = view(LocalStore(str(tmp_path)))
    assert image(root, "a/c/0/0.tiff").tolist() == [[0, 0], [0, 0]]
    write_keys(tmp_path, {"a/c/0/0.tiff": TIFF})
    assert content_of(root, "a/c/0/0.tiff") == TIFF


def test_where_no_stored_chunk_can_be_read_its_key_tells() -> None:
    document = array(keys=suffix_keys(".tiff"), transformers=[concat_parts("", ".index")])
    stored = view({"zarr.json": document, "c/0/0.tiff": TIFF})
    assert folder_at(stored, "c/0").lookup("0.tiff").size == len(TIFF)
    with pytest.raises(Corrupt, match="index` is missing"):
        content_of(stored, "c/0/0.tiff")


@pytest.mark.parametrize("broken, passed_on", [(15, True), (16, False)])
def test_few_broken_chunks_are_looked_at_until_one_tells(broken: int, passed_on: bool) -> None:
    document = array((20,), (1,), keys=suffix_keys(".tiff"), transformers=[concat_parts("", ".i")])
    keys = {f"c/{n:02}.tiff".replace("/0", "/"): TIFF for n in range(broken)}
    keys |= {f"c/{broken}.tiff": b"", f"c/{broken}.tiff.i": b"\7"}  # is no TIFF file
    root = view({"zarr.json": document, **keys}, inf)
    # The chunk that is none decides that none is; behind too many broken ones, the keys decide.
    size = folder_at(root, "c").lookup(f"{broken}.tiff").size
    assert (size > 1) is passed_on


def test_an_empty_chunk_does_not_tell_what_the_others_are() -> None:
    document = array(keys=suffix_keys(".tiff"))  # perhaps it is just being written
    root = view({"a/zarr.json": document, "a/c/0/0.tiff": b"", "a/c/0/1.tiff": TIFF}, inf)
    assert folder_at(root, "a/c/0").list()["1.tiff"].size == len(TIFF)
    assert content_of(root, "a/c/0/1.tiff") == TIFF


def test_what_a_search_for_stored_chunks_came_to_is_believed_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = 0

    def some(_: Any) -> Iterator[tuple[int, ...]]:
        nonlocal searches
        searches += 1
        return iter(())

    monkeypatch.setattr(PlainChunks, "some", some)
    store = MemoryStore({"zarr.json": array(keys=suffix_keys(".tiff"))}, permanent=True)
    files = StoredTiffs(
        PlainChunks(chunks := ChunksView(store, inf), chunks.root, node_of(chunks)),
        node_of(chunks),
        inf,
        "a",
    )
    with pytest.raises(BlockingIOError):
        files.are_tiff(wait=False)
    assert [files.are_tiff(), files.are_tiff(), files.are_tiff(wait=False)] == [False] * 3
    assert searches == 1
    caching.clear()
    assert not files.are_tiff()
    assert searches == 2


def node_of(chunks: ChunksView) -> ArrayNode:
    loaded = chunks.root.loaded()
    assert loaded is not None
    assert isinstance(loaded.node, ArrayNode)
    return loaded.node
