"""The plug-ins for zarr-python: the chunk key encoding `suffix` and the codec `packbits`.

zarr-python finds them by the entry points `zarr.chunk_key_encoding` and `zarr.codecs`. They are thin
adapters of `spec.chunk_keys` and `packbits`. For wrong metadata they raise `ValueError`, as zarr-python
expects.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Self

from zarr.abc.codec import ArrayBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.chunk_key_encodings import ChunkKeyEncoding

from zarrfuse.errors import MetadataError
from zarrfuse.spec.chunk_keys import SuffixEncoding, parse_chunk_key_encoding
from zarrfuse.zarr_python.packbits import Packing, PaddingEncoding, check_configuration


@dataclass(frozen=True, init=False)
class SuffixChunkKeyEncoding(ChunkKeyEncoding):
    """The `suffix` chunk key encoding: `c/1/2.tiff`.

    `base_encoding`: an object or a name, as in metadata, or an encoding of zarr-python; by default
    `default` with `/`. Raises `ValueError` for wrong arguments.
    """

    name: ClassVar[str] = "suffix"
    encoding: SuffixEncoding

    def __init__(
        self, suffix: str, base_encoding: Mapping[str, Any] | str | ChunkKeyEncoding | None = None
    ) -> None:
        configuration: dict[str, Any] = {"suffix": suffix}
        if isinstance(base_encoding, ChunkKeyEncoding):
            configuration["base_encoding"] = base_encoding.to_dict()
        elif base_encoding is not None:
            configuration["base_encoding"] = base_encoding
        self._parse({"name": self.name, "configuration": configuration})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the object of a `zarr.json`, with either spelling of `base_encoding`."""
        encoding = cls.__new__(cls)
        encoding._parse(data)
        return encoding

    def _parse(self, data: Mapping[str, Any]) -> None:
        try:
            encoding = parse_chunk_key_encoding(data)
        except MetadataError as error:
            raise ValueError(str(error)) from error
        if not isinstance(encoding, SuffixEncoding):
            raise ValueError(f"chunk_key_encoding: name: must be 'suffix', not {encoding.name!r}")
        object.__setattr__(self, "encoding", encoding)

    def to_dict(self) -> dict[str, Any]:
        """The object for a `zarr.json`, always with the base, as `base_encoding`."""
        return self.encoding.to_json()

    def encode_chunk_key(self, chunk_coords: tuple[int, ...]) -> str:
        """The key of the chunk at `chunk_coords`."""
        return self.encoding.encode(chunk_coords)

    def decode_chunk_key(self, chunk_key: str) -> tuple[int, ...]:
        """The coordinates of the chunk under `chunk_key`. Raises `ValueError` if it is not a chunk key.

        zarr-python does not pass the number of dimensions, so the largest that fits is taken.
        """
        for ndim in range(len(re.findall("[0-9]+", chunk_key)), -1, -1):
            coords = self.encoding.decode(chunk_key, ndim)
            if coords is not None:
                return coords
        raise ValueError(f"{chunk_key!r} is not the key of a chunk")


@dataclass(frozen=True, kw_only=True)
class PackBitsCodec(ArrayBytesCodec):
    """The `packbits` codec: elements of any number of bits, packed without gaps.

    Source: packbits codec (zarr-extensions, `codecs/packbits`). Raises `ValueError` that names the wrong
    member of the configuration, for some only when the data type is known.
    """

    is_fixed_size = True

    padding_encoding: PaddingEncoding = "none"
    first_bit: int | None = None
    last_bit: int | None = None

    def __post_init__(self) -> None:
        check_configuration(self.padding_encoding, self.first_bit, self.last_bit)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the object of a `zarr.json`; it may have no configuration."""
        configuration = data.get("configuration", {})
        if not isinstance(configuration, Mapping):
            raise ValueError(f"packbits: configuration: must be an object, not {configuration!r}")
        unknown = configuration.keys() - {"padding_encoding", "first_bit", "last_bit"}
        if unknown:
            raise ValueError(f"packbits: {min(unknown)}: is not a member of its configuration")
        return cls(**configuration)

    def to_dict(self) -> dict[str, Any]:
        """The object for a `zarr.json`."""
        bits = {"first_bit": self.first_bit, "last_bit": self.last_bit}
        configuration = {name: bit for name, bit in bits.items() if bit is not None}
        return {
            "name": "packbits",
            "configuration": {"padding_encoding": self.padding_encoding, **configuration},
        }

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raises `ValueError` if elements of this data type cannot be packed, or lack these bits."""
        self._packing(dtype)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """The encoded bytes of a chunk of so many bytes."""
        packing = self._packing(chunk_spec.dtype)
        return packing.encoded_size(input_byte_length // packing.dtype.itemsize)

    def _packing(self, dtype: Any) -> Packing:
        return Packing(
            dtype.to_native_dtype(), self.first_bit, self.last_bit, self.padding_encoding
        )

    # zarr-python before 3.2 awaits `_single`; its newer pipelines call `_sync` if it is there.

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        packed = self._packing(chunk_spec.dtype).encode(chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_bytes(packed.data)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        packed = chunk_data.as_numpy_array().view("u1")
        elements = self._packing(chunk_spec.dtype).decode(packed, prod(chunk_spec.shape))
        return chunk_spec.prototype.nd_buffer.from_numpy_array(elements.reshape(chunk_spec.shape))

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)
