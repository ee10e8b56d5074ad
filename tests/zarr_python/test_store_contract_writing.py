"""zarr-python's own tests of a store, run on a `PlainStore` that is opened to be written.

All that the suite stores is stored by the store itself. What is overridden, here and in `store_suite`,
says why.
"""

import pytest
from store_suite import DOCUMENT, StoreTestsWithDocuments

from zarrfuse.zarr_python.store import PlainStore


class TestWritablePlainStore(StoreTestsWithDocuments):
    """See the module."""

    read_only = False

    def test_store_repr(self, store: PlainStore) -> None:
        """Asked for by the suite: it has no such test of its own."""
        assert str(store) == f"zarrfuse://{store.source}"
        assert repr(store) == f"PlainStore({store.source!r}, read_only=False)"

    @pytest.mark.parametrize("key", ["zarr.json", "c/0", "foo/c/0.0", "foo/0/0"])
    @pytest.mark.parametrize("data", [b"\x01\x02\x03\x04", b""])
    async def test_set(self, store: PlainStore, key: str, data: bytes) -> None:
        """The suite: with bytes that are no metadata for a document."""
        data = DOCUMENT if key == "zarr.json" else data
        await store.set(key, self.buffer_cls.from_bytes(data))
        assert (await self.get(store, key)).to_bytes() == data

    async def test_set_many(self, store: PlainStore) -> None:
        """The suite: as above."""
        values = {"zarr.json": DOCUMENT, "c/0": b"c/0", "foo/c/0.0": b"foo/c/0.0", "foo/0/0": b""}
        buffers = {key: self.buffer_cls.from_bytes(data) for key, data in values.items()}
        await store._set_many(buffers.items())
        for key, data in values.items():
            assert (await self.get(store, key)).to_bytes() == data
