"""zarr-python's own tests of a store, run on a `PlainStore` that is only read.

The suite expects a store that writes, and fills it through itself. So the fixtures here give a store
whose `set` writes into the folder behind it, as the suite's own `set` does; everything that is then
read and listed is read and listed by `PlainStore` as it is. The stores that a test opens by itself are
not changed. What is overridden, here and in `store_suite`, says why.
"""

import pytest
from store_suite import StoreTestsWithDocuments
from zarr.core.buffer import Buffer

from zarrfuse.zarr_python.store import PlainStore


class TestPlainStore(StoreTestsWithDocuments):
    """See the module."""

    read_only = True

    async def set_in(self, store: PlainStore, key: str, value: Buffer) -> None:
        """Write a file into the folder behind the store."""
        await self.set(store, key, value)

    def test_store_repr(self, store: PlainStore) -> None:
        """Asked for by the suite: it has no such test of its own."""
        assert str(store) == f"zarrfuse://{store.source}"
        assert repr(store) == f"PlainStore({store.source!r})"

    # -- read-only: the suite asserts that a store writes ------------------------------------

    def test_store_read_only(self, store: PlainStore) -> None:
        """The suite: a store may be written unless told otherwise. This one is told."""
        assert store.read_only
        with pytest.raises(AttributeError):
            store.read_only = False  # type: ignore[misc]

    @pytest.mark.parametrize("key", ["zarr.json", "c/0", "foo/c/0.0", "foo/0/0"])
    @pytest.mark.parametrize("data", [b"\x01\x02\x03\x04", b""])
    async def test_set(self, store_kwargs: dict[str, object], key: str, data: bytes) -> None:
        """The suite writes; here nothing may be written."""
        store = await self.store_cls.open(**store_kwargs)
        with pytest.raises(ValueError, match="read-only"):
            await store.set(key, self.buffer_cls.from_bytes(data))
        assert not await store.exists(key)

    async def test_set_many(self, store_kwargs: dict[str, object]) -> None:
        """The suite writes; here nothing may be written."""
        store = await self.store_cls.open(**store_kwargs)
        keys = ["zarr.json", "c/0", "foo/c/0.0"]
        with pytest.raises(ValueError, match="read-only"):
            await store._set_many([(key, self.buffer_cls.from_bytes(b"bar")) for key in keys])
        assert await store.is_empty("")

    async def test_set_if_not_exists(self, store: PlainStore) -> None:
        """The suite writes; here nothing may be written."""
        with pytest.raises(ValueError, match="read-only"):
            await store.set_if_not_exists("k", self.buffer_cls.from_bytes(b"0000"))
        assert not await store.exists("k")

    def test_set_sync(self, store: PlainStore) -> None:
        """The suite writes; here nothing may be written."""
        with pytest.raises(ValueError, match="read-only"):
            store.set_sync("key", self.buffer_cls.from_bytes(b"bar"))

    def test_delete_sync(self, store: PlainStore) -> None:
        """The suite deletes; here nothing may be deleted."""
        with pytest.raises(ValueError, match="read-only"):
            store.delete_sync("key")

    def test_delete_sync_missing(self, store: PlainStore) -> None:
        """The suite: nothing happens. Here it may not be asked."""
        with pytest.raises(ValueError, match="read-only"):
            store.delete_sync("missing")

    async def test_clear(self, store: PlainStore) -> None:
        """The suite empties a store; this one deletes nothing."""
        await self.set(store, "key", self.buffer_cls.from_bytes(b"something"))
        with pytest.raises(NotImplementedError):
            await store.clear()
        with pytest.raises(ValueError, match="read-only"):
            await store.delete_dir("")
        assert await store.exists("key")
