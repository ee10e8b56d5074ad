"""What the tests of `zarrfuse.open_store` share: an array in parts, and its keys read."""

from builders.documents import array, concat_parts, group, suffix_keys
from zarr.abc.store import ByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import _collect_aiterator, sync

from zarrfuse.zarr_python.store import PlainStore

PARTS = {
    "zarr.json": group(),
    "a/zarr.json": array(
        keys=suffix_keys(".bin"), transformers=[concat_parts((".head", 1), "", (".tail", 1))]
    ),
    "a/c/0/0.bin.head": b"\1",
    "a/c/0/0.bin": b"\2\3",
    "a/c/0/0.bin.tail": b"\4",
    "a/c/1/1.bin.head": b"\5",
    "a/c/1/1.bin": b"\6\7",
    "a/c/1/1.bin.tail": b"\x08",
    "README.txt": b"read me",
}
"""Two chunks of four, each of three parts."""


def listed(found) -> list[str]:
    """What an async iterator yields, sorted."""
    return sorted(sync(_collect_aiterator(found)))


def read(store: PlainStore, key: str, byte_range: ByteRequest | None = None) -> bytes | None:
    """The bytes under a key, or None."""
    found = sync(store.get(key, default_buffer_prototype(), byte_range))
    return None if found is None else found.to_bytes()
