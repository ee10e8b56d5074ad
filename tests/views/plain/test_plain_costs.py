"""How many calls of the store the `plain` view makes, and which it does not wait for."""

import errno

import pytest
from builders.documents import array, suffix_keys, v2_keys
from builders.fake_stores import MTIME_NS, ForwardingStore, MemoryStore
from builders.views import FOREVER, content_of, folder_at
from core_documents import others, view

from zarrfuse.stores.base import Kind, Store
from zarrfuse.views.choice import open_view
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain import nodes as plain_nodes
from zarrfuse.views.plain.nodes import refusal


class Counted(ForwardingStore):
    """Counts calls; what is asked without waiting is not at hand if `cold`."""

    def __init__(self, inner: Store, *, cold: bool = False) -> None:
        super().__init__(inner)
        self.calls: list[tuple[str, str]] = []
        self._cold = cold

    def before(self, call: str, key: str, wait: bool) -> None:
        if self._cold and not wait:
            raise BlockingIOError(errno.EAGAIN, "not at hand")
        if call not in ("scanned", "close", "readinto"):
            self.calls.append((call, key))


def test_listing_a_chunk_folder_looks_into_no_other() -> None:
    keys = {f"c/{z}/{y}/{x}.bin": b"1" for z in range(3) for y in range(3) for x in range(3)}
    store = Counted(MemoryStore({"zarr.json": array((6, 6, 6), keys=suffix_keys(".bin")), **keys}))
    root = open_view("plain", store, FOREVER)
    assert list(folder_at(root, "c/1").list()) == ["0", "1", "2"]
    assert [key for call, key in store.calls if call == "scan"] == ["c/1"]
    assert [key for call, key in store.calls if call == "open"] == ["zarr.json"]


def test_a_folder_of_many_chunks_costs_no_call_for_each() -> None:
    many = 100_000
    keys = {f"c/0/{x}.bin": b"1" for x in range(many)}
    document = array((2, 2 * many), keys=suffix_keys(".bin"))
    store = Counted(MemoryStore({"zarr.json": document, **keys}))
    root = open_view("plain", store, FOREVER)
    assert len(folder_at(root, "c/0").list()) == many
    assert len(store.calls) < 20


def test_a_tree_of_flat_keys_is_listed_with_two_listings() -> None:
    keys = {f"{y}.{x}": b"1" for y in range(50) for x in range(50)}
    store = Counted(MemoryStore({"zarr.json": array((100, 100), keys=v2_keys()), **keys}))
    root = open_view("plain", store, FOREVER)
    assert len(others(root)) == 2500
    assert [key for call, key in store.calls if call == "scan"] == ["", ""]


def test_a_chunk_under_a_flat_key_is_found_without_a_listing() -> None:
    store = Counted(MemoryStore({"zarr.json": array(keys=v2_keys()), "1.0": b"chunk"}))
    root = open_view("plain", store, FOREVER)
    assert root.lookup("c").kind is root.child("c").lookup("1").kind is Kind.FOLDER
    assert content_of(root, "c/1/0") == b"chunk"
    assert "scan" not in {call for call, _ in store.calls}


def test_what_is_not_at_hand_is_not_waited_for() -> None:
    keys = {"a/zarr.json": array(keys=v2_keys()), "a/1.0": b"chunk"}
    root = open_view("plain", Counted(MemoryStore(keys), cold=True), 0)
    for path in ("a/zarr.json", "a/c", "a/c/1", "a/c/1/0", "a/1.0"):
        folder, _, name = path.rpartition("/")
        with pytest.raises(BlockingIOError):
            folder_at(root, folder).lookup(name, wait=False)
        with pytest.raises(BlockingIOError):
            folder_at(root, folder).open(name, wait=False)


def test_who_must_not_wait_does_not_judge_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its document may be 64 MiB of fill value. Here it is asked for while a thread is at it."""
    root = view({"zarr.json": array(), "c/0/0": b"1234"}, FOREVER)
    judged = []

    def judging(loaded: Loaded) -> str | None:
        judged.append(loaded)
        with pytest.raises(BlockingIOError):
            root.lookup("c", wait=False)
        return refusal(loaded)

    monkeypatch.setattr(plain_nodes, "refusal", judging)
    assert root.lookup("c") == root.lookup("c", wait=False)
    assert len(judged) == 1


def test_a_document_that_was_written_is_at_hand() -> None:
    root = view({"a/zarr.json": array()}, FOREVER).child("a")
    with pytest.raises(BlockingIOError):
        root.lookup("zarr.json", wait=False)
    entry = root.lookup("zarr.json")
    assert root.lookup("zarr.json", wait=False) == entry
    assert entry.mtime_ns == MTIME_NS
