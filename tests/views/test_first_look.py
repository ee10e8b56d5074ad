"""Whether a store holds any Zarr: found soon, or given up."""

from collections.abc import Iterator

import pytest
from builders.documents import array, v2_array
from builders.fake_stores import ForwardingStore, MemoryStore

from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.first_look import LARGEST_READ, MOST_NAMES, first_look


class Counted(ForwardingStore):
    """Counts the names that are asked for; `endless`: each folder has another one in it."""

    def __init__(self, store: MemoryStore, *, endless: bool = False) -> None:
        super().__init__(store)
        self.names = 0
        self._endless = endless

    def scan(self, folder: str) -> Iterator[Entry]:
        entries = (
            super().scan(folder) if not self._endless else iter([Entry("d", Kind.FOLDER, 0, 0)])
        )
        for entry in entries:
            self.names += 1
            yield entry


DOCUMENTS = {"zarr.json": array(), ".zarray": v2_array(), ".zgroup": b'{"zarr_format": 2}'}


@pytest.mark.parametrize("path", ["", "a/", "a/b/c/d/"])
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_node_anywhere_is_something(path: str, document: str) -> None:
    keys = {f"{path}{document}": DOCUMENTS[document], "x/notes.txt": b""}
    assert first_look(MemoryStore(keys)) is None


def test_a_store_without_a_document_holds_nothing() -> None:
    assert (
        first_look(MemoryStore({"a/b/notes.txt": b""})) == "there is no Zarr array or group in it"
    )


def test_a_root_that_is_broken_is_named_with_its_reason() -> None:
    problem = first_look(MemoryStore({"zarr.json": b"{", "a/zarr.json": array()}))
    assert problem is not None
    assert "its root is not loaded: zarr.json" in problem


def test_a_large_document_is_not_read() -> None:
    assert first_look(MemoryStore({"zarr.json": b"{" * (LARGEST_READ + 1)})) is None


def test_of_many_names_only_some_are_looked_at() -> None:
    store = Counted(MemoryStore({f"{n}.txt": b"" for n in range(3 * MOST_NAMES)}))
    assert first_look(store) is None
    assert store.names <= MOST_NAMES + 1


def test_folders_without_end_are_given_up() -> None:
    assert first_look(Counted(MemoryStore({}), endless=True)) is None


def test_what_a_store_raises_is_for_who_looks_there() -> None:
    class Failing(ForwardingStore):
        def scan(self, folder: str) -> Iterator[Entry]:
            raise RuntimeError("it does not answer")

    assert first_look(Failing(MemoryStore({}))) is None
