"""The facts of the `images` view, and that it makes nothing in the event loop."""

import io
from math import inf
from typing import Any

import pytest
import tifffile
from builders.documents import array, v2_keys
from builders.fake_stores import ForwardingStore, MemoryStore
from builders.views import content_of, folder_at
from small_images import image, view

from zarrfuse.errors import NotFound
from zarrfuse.stores.base import Store
from zarrfuse.views.choice import open_view


def test_facts_of_a_chunk() -> None:
    root = view({"a/zarr.json": array(keys=v2_keys()), "a/0.1": bytes(4)})
    stored = folder_at(root, "a/c/0").facts("1.tiff").to_json()
    expected = {"view": "images", "path": "a/c/0/1.tiff", "node": "a", "kind": "file"}
    expected |= {"key": "c/0/1.tiff", "stored_key": "0.1", "chunk_coords": [0, 1], "stored_size": 4}
    assert (
        stored.items()
        >= {**expected, "size": folder_at(root, "a/c/0").lookup("1.tiff").size}.items()
    )
    absent = folder_at(root, "a/c/1").facts("1.tiff").to_json()
    assert (absent["stored_key"], absent["chunk_coords"]) == ("1.1", [1, 1])
    assert "stored_size" not in absent
    assert absent["shape"] == [4, 4]
    with pytest.raises(NotFound):
        folder_at(root, "a/c/1").facts("2.tiff").to_json()


def test_facts_of_renderings_and_nodes() -> None:
    root = view({"a/zarr.json": array(), "a/notes.txt": b"n"})
    folder = folder_at(root, "a")
    told = folder.facts("a.tiff").to_json()
    assert (told["path"], told["node"], told["shape"]) == ("a/a.tiff", "a", [4, 4])
    assert told["size"] == folder.lookup("a.tiff").size
    sizes = {name: folder.lookup(name).size for name in ("a.tiff", "a.npy", "a.png")}
    sizes["c/0/0.tiff"] = folder_at(folder, "c/0").lookup("0.tiff").size
    assert (
        folder.facts(None).to_json()["renderings"]
        == folder.facts("zarr.json").to_json()["renderings"]
        == sizes
    )
    assert folder.facts("notes.txt").to_json()["size"] == 1
    assert folder.facts("c").to_json()["kind"] == "folder"
    assert root.facts("a").to_json() == {"view": "images", "path": "a", "kind": "folder"}


def test_all_views_have_images_among_them() -> None:
    keys = {"zarr.json": array(), "c/0/0": b"\1\2\3\4"}
    root = open_view("all", MemoryStore(keys), 0, root_name="demo")
    assert sorted(root.list()) == ["chunks", "images", "plain", "raw"]
    assert "demo.tiff" in root.child("images").list()
    assert image(root, "images/c/0/0.tiff").tolist() == [[1, 2], [3, 4]]
    assert folder_at(root, "images").facts("demo.npy").to_json()["path"] == "images/demo.npy"


class ColdOnce(ForwardingStore):
    """Has everything at hand, but says who asked while it must not wait."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.waited = False

    def before(self, call: str, key: str, wait: bool) -> None:
        """Listings are never asked for from the event loop."""
        self.waited = self.waited or wait


def test_nothing_is_made_in_the_event_loop_and_then_all_is_at_hand() -> None:
    store = ColdOnce(MemoryStore({"a/zarr.json": array(), "a/c/0/0": bytes(4)}))
    root = view(store, inf)
    folder = folder_at(root, "a")
    with pytest.raises(BlockingIOError):
        folder.lookup("a.tiff", wait=False)
    for name in ("a.tiff", "a.npy", "a.png", "c"):
        folder.lookup(name)
    chunks = folder_at(root, "a/c/0")
    chunks.lookup("0.tiff")
    store.waited = False
    for name in ("a.tiff", "a.npy", "a.png", "c"):
        folder.lookup(name, wait=False)
    assert chunks.lookup("0.tiff", wait=False).size
    with pytest.raises(BlockingIOError):
        folder.open("a.tiff", wait=False)  # whether it can be decoded has yet to be found out
    folder.open("a.npy").close()
    store.waited = False
    reader = folder.open("a.tiff", wait=False)
    buffer = memoryview(bytearray(8))
    reader.readinto(buffer, 0, wait=False)  # the header
    with pytest.raises(BlockingIOError):
        reader.readinto(buffer, reader.size - 16, wait=False)
    assert not store.waited


def test_no_header_is_made_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zarrfuse.views.images.framed._KEPT", 0)
    root = view({"a/zarr.json": array((5, 4))}, inf)
    folder, chunks = folder_at(root, "a"), folder_at(root, "a/c/2")
    folder.list()
    folder.open("a.tiff").close()
    reader = folder.open("a.tiff", wait=False)
    with pytest.raises(BlockingIOError):
        reader.readinto(memoryview(bytearray(8)), 0, wait=False)  # a large one is not kept
    reader.close()
    assert tifffile.imread(io.BytesIO(content_of(root, "a/a.tiff"))).shape == (5, 4)
    folder_at(root, "a/c/0").lookup("0.tiff")
    with pytest.raises(NotFound):
        chunks.lookup("9.tiff")
    with pytest.raises(BlockingIOError):
        chunks.lookup("0.tiff", wait=False)  # one at the edge has a header of its own
    assert chunks.lookup("0.tiff") == chunks.lookup("0.tiff", wait=False)


def test_one_error_of_a_library_costs_one_file(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr("zarrfuse.views.images.arrays.array_tiff", fails)
    root = view({"a/zarr.json": array()})
    assert sorted(folder_at(root, "a").list()) == ["a.npy", "a.png", "c", "zarr.json"]
    assert caplog.text.count("a: no a.tiff: RuntimeError: out of ideas") == 1
