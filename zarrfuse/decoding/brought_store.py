"""The stored bytes of one job as a store of zarr-python.

Used by `worker`, in its process. It reads nothing: a key that came without bytes counts as absent, and is
noted as missing.
"""

from collections.abc import AsyncIterator, Iterable

import msgspec
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.api.asynchronous import create_array
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import MemoryStore

from zarrfuse.decoding.messages import Bytes, Wanted

_WITHOUT_ATTRIBUTES = msgspec.json.Decoder(dict[str, msgspec.Raw])


class BroughtStore(Store):
    """The files of one array.

    `brought`: the bytes of each range, None for one that is not stored. `missing`: the other ranges that
    were asked for.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = False

    def __init__(self, brought: dict[Wanted, Bytes | None]) -> None:
        super().__init__(read_only=True)
        self.brought = brought
        self.missing: dict[Wanted, None] = {}

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """See `zarr.abc.store.Store`."""
        if key == ".zattrs":  # decoding needs no attributes
            return None
        found = self._found(_wanted(key, byte_range))
        if found is None:
            return None
        data = _without_attributes(found) if key == "zarr.json" else found.data
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def _found(self, wanted: Wanted) -> Bytes | None:
        if wanted in self.brought:
            return self.brought[wanted]
        whole = Wanted(wanted.key)
        if whole not in self.brought:
            self.missing[wanted] = None
            return None
        found = self.brought[whole]
        return None if found is None else found[slice(*wanted.span(len(found)))]

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """See `zarr.abc.store.Store`."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """See `zarr.abc.store.Store`."""
        return await self.get(key) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Nothing is stored here."""
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        """Nothing is stored here."""
        raise NotImplementedError

    def list(self) -> AsyncIterator[str]:
        """Nobody knows what there is."""
        raise NotImplementedError

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Nobody knows what there is."""
        raise NotImplementedError

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Nobody knows what there is."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def _wanted(key: str, byte_range: ByteRequest | None) -> Wanted:
    match byte_range:
        case None:
            return Wanted(key)
        case RangeByteRequest(start, stop):
            return Wanted(key, start, stop)
        case OffsetByteRequest(start):
            return Wanted(key, start)
        case SuffixByteRequest(count):
            return Wanted(key, -count)
    raise TypeError(f"Unexpected byte_range, got {byte_range}.")


def _without_attributes(document: Bytes) -> bytes:
    """The document of an array without attributes, which may be large and are not needed."""
    text = document.tobytes()
    try:
        members = _WITHOUT_ATTRIBUTES.decode(text)
    except msgspec.DecodeError:  # zarr-python reads more than JSON
        return text
    members.pop("attributes", None)
    return msgspec.json.encode(members)


async def decode_something() -> None:
    """Decode small chunks, which imports the usual codecs and allocates their memory."""
    for codec in (ZstdCodec(), GzipCodec(), BloscCodec(), Crc32cCodec()):
        array = await create_array(
            MemoryStore(), shape=(64,), chunks=(4,), shards=(32,), dtype="u2", compressors=[codec]
        )
        await array.setitem(slice(None), 1)
        await array.getitem(slice(None))
