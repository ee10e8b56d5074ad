"""zarr-python's own tests of a store, run on `PlainStore`.

The suite expects a store that writes, and fills it through itself. So the `store` fixtures here give
a store whose `set` writes into the folder behind it, as the suite's own `set` does; everything that
is then read and listed is read and listed by `PlainStore` as it is. The stores that a test opens by
itself are not changed. Under `zarr.json` the suite stores bytes that are no metadata, which a plain
view must refuse: a document of a group is stored in their place. What is overridden says why.
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

from zarrfuse.plain_store import PlainStore

DOCUMENT = json.dumps({"attributes": {}, "zarr_format": 3, "node_type": "group"}, indent=2).encode()
"""A group as zarr-python writes it; the plain view has nothing to change in it."""

if_suite_reads_documents = pytest.mark.skipif(
    not hasattr(StoreTests, "test_get_json"), reason="not in the suite of this zarr-python"
)


class TestPlainStore(StoreTests[PlainStore, cpu.Buffer]):
    """See the module."""

    store_cls = PlainStore
    buffer_cls = cpu.Buffer

    async def set(self, store: PlainStore, key: str, value: Buffer) -> None:
        """Write a file into the folder behind the store; under `zarr.json`, a document."""
        path = Path(store.source) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(DOCUMENT if path.name == "zarr.json" else value.to_bytes())

    async def get(self, store: PlainStore, key: str) -> Buffer:
        """Read a file of the folder behind the store."""
        return self.buffer_cls.from_bytes((Path(store.source) / key).read_bytes())

    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        """An empty folder."""
        return {"source": str(tmp_path), "read_only": True}

    @pytest.fixture
    def store(self, open_kwargs: dict[str, Any]) -> PlainStore:
        """An open store whose `set` writes into the folder behind it."""
        store = asyncio.run(self.store_cls.open(**open_kwargs))
        store.set = partial(self.set, store)  # type: ignore[method-assign]
        return store

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> PlainStore:
        """The same, not open."""
        store = self.store_cls(**store_kwargs)
        store.set = partial(self.set, store)  # type: ignore[method-assign]
        return store

    # -- asked for by the suite: it has no such test of its own ------------------------------

    def test_store_repr(self, store: PlainStore) -> None:
        assert str(store) == f"zarrfuse://{store.source}"
        assert repr(store) == f"PlainStore({store.source!r})"

    def test_store_supports_writes(self, store: PlainStore) -> None:
        assert not store.supports_writes
        assert not store.supports_deletes

    def test_store_supports_listing(self, store: PlainStore) -> None:
        assert store.supports_listing

    # -- read-only: the suite asserts that a store writes ------------------------------------

    def test_store_read_only(self, store: PlainStore) -> None:
        """The suite: a store may be written unless told otherwise. This one never."""
        assert store.read_only
        with pytest.raises(AttributeError):
            store.read_only = False  # type: ignore[misc]

    @pytest.mark.parametrize("read_only", [True, False])
    async def test_store_open_read_only(self, open_kwargs: dict[str, Any], read_only: bool) -> None:
        """The suite opens for writing too, which is refused here with a sentence."""
        if read_only:
            await super().test_store_open_read_only(open_kwargs, read_only)
        else:
            with pytest.raises(NotImplementedError, match="zarrfuse does not write yet"):
                await self.store_cls.open(**{**open_kwargs, "read_only": False})

    @pytest.mark.parametrize("key", ["zarr.json", "c/0", "foo/c/0.0", "foo/0/0"])
    @pytest.mark.parametrize("data", [b"\x01\x02\x03\x04", b""])
    async def test_set(self, store_kwargs: dict[str, Any], key: str, data: bytes) -> None:
        """The suite writes; here nothing may be written."""
        store = await self.store_cls.open(**store_kwargs)
        with pytest.raises(ValueError, match="read-only"):
            await store.set(key, self.buffer_cls.from_bytes(data))
        assert not await store.exists(key)

    async def test_set_many(self, store_kwargs: dict[str, Any]) -> None:
        """The suite writes; here nothing may be written."""
        store = await self.store_cls.open(**store_kwargs)
        keys = ["zarr.json", "c/0", "foo/c/0.0"]
        with pytest.raises(ValueError, match="read-only"):
            await store._set_many([(key, self.buffer_cls.from_bytes(b"bar")) for key in keys])
        assert await store.is_empty("")

    async def test_clear(self, store: PlainStore) -> None:
        """The suite empties a store; this one deletes nothing."""
        await self.set(store, "key", self.buffer_cls.from_bytes(b"something"))
        with pytest.raises(NotImplementedError):
            await store.clear()
        assert await store.exists("key")

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
