"""Packs numbers of any width into bytes and back, as the registered `packbits` codec has it.

Owns which bits of an element are kept, their order, and the byte with the padding. `plug_in` makes a codec
of zarr-python of it. It must not know zarr-python.

Bits are numbered from the least significant one, in an element and in an encoded byte: only so whole
elements are encoded as their little-endian bytes, which the specification requires. Hence `bool` with
`first_byte` is not what `numcodecs.packbits` writes, which begins at the most significant bit.

Source: packbits codec (zarr-extensions, `codecs/packbits`), Format and algorithm.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

PaddingEncoding = Literal["none", "first_byte", "last_byte"]
PADDING_ENCODINGS: tuple[PaddingEncoding, ...] = ("none", "first_byte", "last_byte")

Bytes = npt.NDArray[np.uint8]

_BLOCK = 8192
"""How many components are unpacked into bits at one time: with 64 bits each they are 512 KiB, and fit into
a cache.

A multiple of 8, so that every block but the last ends with a whole byte.
"""


def component_bits(dtype: np.dtype[Any]) -> int:
    """How many bits a component of an element has: a bool has 1, complex numbers two components.

    Raises `ValueError` for a data type that is not packed. `float16`, which the specification does
    not list, is packed like the other floats, as zarrs does it.
    """
    if dtype.kind == "b":
        return 1
    if dtype.kind not in "iufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise ValueError(f"packbits: elements of type {dtype} cannot be packed")
    return dtype.itemsize * 8 // _components(dtype)


def _components(dtype: np.dtype[Any]) -> int:
    return 2 if dtype.kind == "c" else 1


@dataclass(frozen=True, slots=True)
class Packing:
    """How the elements of one data type are packed.

    `first_bit` and `last_bit` (inclusive) are of each component; None: from the first, to the last.
    Raises `ValueError` that names the member for bits that the data type does not have, another
    `padding_encoding`, and a data type that is not packed.
    """

    dtype: np.dtype[Any]
    first_bit: int | None = None
    last_bit: int | None = None
    padding_encoding: PaddingEncoding = "none"

    def __post_init__(self) -> None:
        check_configuration(self.padding_encoding, self.first_bit, self.last_bit)
        last = component_bits(self.dtype) - 1
        for member, bit in (("first_bit", self.first_bit), ("last_bit", self.last_bit)):
            if bit is not None and bit > last:
                raise ValueError(
                    f"packbits: {member}: {bit} is more than {last}, the last bit of {self.dtype}"
                )

    def encoded_size(self, count: int) -> int:
        """The encoded bytes of `count` elements."""
        return -(-self._bits(count) // 8) + (self.padding_encoding != "none")

    def encode(self, array: npt.NDArray[Any]) -> Bytes:
        """The packed elements of an array of this data type, in C order."""
        first, stop = self._bit_range()
        stored = np.ascontiguousarray(array, self._stored_dtype()).reshape(-1)
        components = stored.view(np.uint8).reshape(-1, self._component_bytes())
        packed = np.empty(self.encoded_size(array.size), np.uint8)
        body = self._body(packed)
        if self._whole_bytes():
            body.reshape(-1, (stop - first) // 8)[:] = components[:, first // 8 : stop // 8]
        elif self.dtype.kind == "b":
            body[:] = np.packbits(components, bitorder="little")
        else:
            width = stop - first
            for start in range(0, len(components), _BLOCK):
                block = components[start : start + _BLOCK]
                bits = np.unpackbits(block.reshape(-1), bitorder="little")
                kept = bits.reshape(len(block), -1)[:, first:stop].reshape(-1)
                done = start * width // 8
                body[done : done + -(-kept.size // 8)] = np.packbits(kept, bitorder="little")
        if self.padding_encoding != "none":
            packed[self._padding_at()] = self._padding(array.size)
        return packed

    def decode(self, packed: Bytes, count: int) -> npt.NDArray[Any]:
        """Unpack `count` elements: one-dimensional and little-endian.

        Bits that were not kept are 0, those above a signed integer its sign. Raises `ValueError` for a
        wrong number of bytes, and for wrong padding.
        """
        if len(packed) != self.encoded_size(count):
            raise ValueError(
                f"packbits: a chunk has {len(packed)} bytes, not the {self.encoded_size(count)} that "
                f"{count} elements of {self.dtype} become"
            )
        if self.padding_encoding != "none":
            stored, padding = int(packed[self._padding_at()]), self._padding(count)
            if stored != padding:
                raise ValueError(
                    f"packbits: the {self.padding_encoding.replace('_', ' ')} of a chunk must be "
                    f"{padding}, the number of padding bits, not {stored}"
                )
        body = self._body(packed)
        if self.dtype.kind == "b":
            return np.unpackbits(body, count=count, bitorder="little").view(np.bool_)
        first, stop = self._bit_range()
        width, component_bytes = stop - first, self._component_bytes()
        if self._whole_bytes() and width == component_bytes * 8:
            return np.ascontiguousarray(body).view(self._stored_dtype())
        components = np.zeros((count * _components(self.dtype), component_bytes), np.uint8)
        if self._whole_bytes():
            components[:, first // 8 : stop // 8] = body.reshape(-1, width // 8)
        else:
            self._decode_bits(body, components, first, width)
        elements = components.reshape(-1).view(self._stored_dtype())
        if self.dtype.kind == "i":  # the last bit is the sign: shifting up and down extends it
            above = component_bytes * 8 - stop
            np.left_shift(elements, above, out=elements)
            np.right_shift(elements, above, out=elements)
        return elements

    @staticmethod
    def _decode_bits(body: Bytes, components: Bytes, first: int, width: int) -> None:
        bits = np.zeros((_BLOCK, components.shape[1] * 8), np.uint8)
        for start in range(0, len(components), _BLOCK):
            block = components[start : start + _BLOCK]
            done = start * width // 8
            kept = body[done : done + -(-len(block) * width // 8)]
            unpacked = np.unpackbits(kept, count=len(block) * width, bitorder="little")
            bits[: len(block), first : first + width] = unpacked.reshape(-1, width)
            whole = np.packbits(bits[: len(block)].reshape(-1), bitorder="little")
            block[:] = whole.reshape(block.shape)

    def _bit_range(self) -> tuple[int, int]:
        """The bits of a component that are kept: (first, last + 1)."""
        stop = component_bits(self.dtype) if self.last_bit is None else self.last_bit + 1
        return self.first_bit or 0, stop

    def _bits(self, count: int) -> int:
        first, stop = self._bit_range()
        return count * _components(self.dtype) * (stop - first)

    def _padding(self, count: int) -> int:
        return -self._bits(count) % 8

    def _padding_at(self) -> int:
        return 0 if self.padding_encoding == "first_byte" else -1

    def _body(self, packed: Bytes) -> Bytes:
        """The encoded bytes without the one with the padding."""
        if self.padding_encoding == "none":
            return packed
        return packed[1:] if self.padding_encoding == "first_byte" else packed[:-1]

    def _whole_bytes(self) -> bool:
        first, stop = self._bit_range()
        return first % 8 == 0 and stop % 8 == 0

    def _component_bytes(self) -> int:
        return self.dtype.itemsize // _components(self.dtype)

    def _stored_dtype(self) -> np.dtype[Any]:
        return self.dtype.newbyteorder("<")


def check_configuration(padding_encoding: object, first_bit: object, last_bit: object) -> None:
    """Raises `ValueError`, naming the member, for a configuration that no data type could have.

    Source: packbits codec, Configuration parameters.
    """
    if padding_encoding not in PADDING_ENCODINGS:
        raise ValueError(
            f"packbits: padding_encoding: must be one of {', '.join(PADDING_ENCODINGS)}, "
            f"not {padding_encoding!r}"
        )
    for member, bit in (("first_bit", first_bit), ("last_bit", last_bit)):
        if bit is not None and (not isinstance(bit, int) or isinstance(bit, bool) or bit < 0):
            raise ValueError(f"packbits: {member}: must be a bit's number or null, not {bit!r}")
    first = first_bit if isinstance(first_bit, int) else 0
    if isinstance(last_bit, int) and last_bit < first:
        raise ValueError(f"packbits: last_bit: {last_bit} is less than first_bit, {first}")
