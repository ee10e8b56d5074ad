"""zarr-python's own tests of a store, for stores that understand what is stored in them.

Under `zarr.json` the suite stores bytes that are no metadata, which a plain view must refuse. So here
a document of a group is stored in their place: by the suite itself, and by the stores of its fixtures.
What is overridden is what compares those bytes.
"""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.core.sync import sync
from zarr.testing.store import StoreTests

from zarrfuse.zarr_python.store import PlainStore

DOCUMENT = json.dumps({"attributes": {}, "zarr_format": 3, "node_type": "group"}, indent=2).encode()
"""A group as zarr-python writes it; the plain view has nothing to change in it."""

if_suite_reads_documents = pytest.mark.skipif(
    not hasattr(StoreTests, "test_get_json"), reason="not in the suite of this zarr-python"
)


class StoreTestsWithDocuments(StoreTests[PlainStore, cpu.Buffer]):
    """See the module."""

    store_cls = PlainStore
    buffer_cls = cpu.Buffer
    read_only = True

    def stored(self, key: str, value: Buffer) -> Buffer:
        """What is stored under a key in place of a value."""
        is_document = key.rpartition("/")[2] == "zarr.json"
        return self.buffer_cls.from_bytes(DOCUMENT) if is_document else value

    async def set(self, store: PlainStore, key: str, value: Buffer) -> None:
        """Write a file into the folder behind the store."""
        path = Path(store.source) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.stored(key, value).to_bytes())

    async def get(self, store: PlainStore, key: str) -> Buffer:
        """Read a file of the folder behind the store."""
        return self.buffer_cls.from_bytes((Path(store.source) / key).read_bytes())

    async def set_in(self, store: PlainStore, key: str, value: Buffer) -> None:
        """What `set` of the stores of the fixtures does."""
        await type(store).set(store, key, self.stored(key, value))

    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        """An empty folder."""
        return {"source": str(tmp_path), "read_only": self.read_only}

    @pytest.fixture
    def store(self, open_kwargs: dict[str, Any]) -> PlainStore:
        """An open store."""
        store = asyncio.run(self.store_cls.open(**open_kwargs))
        store.set = partial(self.set_in, store)  # type: ignore[method-assign]
        return store

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> PlainStore:
        """The same, not open."""
        store = self.store_cls(**store_kwargs)
        store.set = partial(self.set_in, store)  # type: ignore[method-assign]
        return store

    # -- asked for by the suite: it has no such test of its own ------------------------------

    def test_store_supports_writes(self, store: PlainStore) -> None:
        assert store.supports_writes == store.supports_deletes == (not self.read_only)

    def test_store_supports_listing(self, store: PlainStore) -> None:
        assert store.supports_listing

    # -- `zarr.json`: the suite expects the bytes back that are no metadata ------------------

    @if_suite_reads_documents
    async def test_get_bytes(self, store: PlainStore) -> None:
        """The suite: with `hello world` for a document."""
        await self.set(store, "zarr.json", self.buffer_cls.from_bytes(DOCUMENT))
        prototype = default_buffer_prototype()
        assert await store._get_bytes("zarr.json", prototype=prototype) == DOCUMENT
        with pytest.raises(FileNotFoundError):
            await store._get_bytes("nonexistent_key", prototype=prototype)

    @if_suite_reads_documents
    def test_get_bytes_sync(self, store: PlainStore) -> None:
        """The suite: with `hello world` for a document."""
        sync(self.set(store, "zarr.json", self.buffer_cls.from_bytes(DOCUMENT)))
        prototype = default_buffer_prototype()
        assert store._get_bytes_sync("zarr.json", prototype=prototype) == DOCUMENT

    @if_suite_reads_documents
    async def test_get_json(self, store: PlainStore) -> None:
        """The suite: with `{"foo": "bar"}` for a document."""
        await self.set(store, "zarr.json", self.buffer_cls.from_bytes(DOCUMENT))
        prototype = default_buffer_prototype()
        assert await store._get_json("zarr.json", prototype=prototype) == json.loads(DOCUMENT)

    @if_suite_reads_documents
    def test_get_json_sync(self, store: PlainStore) -> None:
        """The suite: with `{"foo": "bar"}` for a document."""
        sync(self.set(store, "zarr.json", self.buffer_cls.from_bytes(DOCUMENT)))
        prototype = default_buffer_prototype()
        assert store._get_json_sync("zarr.json", prototype=prototype) == json.loads(DOCUMENT)
