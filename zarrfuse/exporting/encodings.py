"""The encodings of inner chunks that are tiles of files of other formats, too.

Owns which chains of codecs these are, and encodes with them. Used by `plan` and `tiles`. It must not know
files, or their formats.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zarrfuse.errors import MetadataError
from zarrfuse.shards.layout import Refused
from zarrfuse.spec.members import shown
from zarrfuse.spec.names import Extension
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.plain_v2 import as_v3

Compression: TypeAlias = Literal["none", "zstd", "deflate", "lzma", "lzw", "packbits"]

COMPRESSIONS: Final[tuple[Compression, ...]] = ("none", "zstd", "deflate", "lzma")
"""Those that are offered; LZW and PackBits are only kept."""

_OF_CODECS: Final[Mapping[str, Compression]] = {
    **dict.fromkeys(("zstd", "numcodecs.zstd"), "zstd"),
    "numcodecs.zlib": "deflate",
    "numcodecs.lzma": "lzma",
    "imagecodecs_lzw": "lzw",
    "imagecodecs_packbits": "packbits",
}
_IN_V3: Final = {"zlib": "numcodecs.zlib", "lzma": "numcodecs.lzma"}
"""Names in Zarr v3 of codecs of Zarr v2 that `plain_v2` does not translate."""
_DELTA: Final = "imagecodecs_delta"
_XZ: Final = 1
"""The container format of LZMA in numcodecs: .xz, which TIFF has, too."""

_WRITTEN: Final[Mapping[str, Extension | None]] = {
    "none": None,
    "zstd": Extension("zstd", {"level": 3, "checksum": False}),
    "deflate": Extension("numcodecs.zlib", {"level": 6}),
    "lzma": Extension("numcodecs.lzma", {"format": _XZ, "check": -1, "preset": 6, "filters": None}),
}


@dataclass(frozen=True)
class Encoding:
    """How inner chunks are encoded: bytes in some order, perhaps as differences along x, compressed.

    `compressor` and `delta`: the codecs, as they are in the metadata; `delta` is before `bytes`.
    """

    compression: Compression
    big_endian: bool = False
    compressor: Extension | None = None
    delta: Extension | None = None

    def codecs(self, dtype: np.dtype[Any]) -> list[dict[str, Any]]:
        """The codecs of an inner chunk of Zarr v3, as JSON."""
        order = {"endian": "big" if self.big_endian else "little"} if dtype.itemsize > 1 else {}
        chain = [self.delta, Extension("bytes", order), self.compressor]
        return [
            {
                "name": codec.name,
                **({"configuration": dict(codec.configuration)} if codec.configuration else {}),
            }
            for codec in chain
            if codec is not None
        ]

    def encoder(self) -> Callable[[NDArray[Any]], bytes]:
        """Encodes inner chunks. Raises `Refused` if a package is missing."""
        compress = _compressor(self.compression, self.compressor)
        order: Literal["<", ">"] = ">" if self.big_endian else "<"

        def encode(chunk: NDArray[Any]) -> bytes:
            if self.delta is not None:
                chunk = _differences(chunk, self.delta)
            ordered = np.ascontiguousarray(chunk, chunk.dtype.newbyteorder(order))
            return compress(ordered.view(np.uint8).reshape(-1))

        return encode


def new_encoding(compression: str) -> Encoding:
    """The encoding with which inner chunks are encoded anew."""
    for known in COMPRESSIONS:
        if known == compression:
            return Encoding(known, compressor=_WRITTEN[known])
    raise Refused(f"{compression} is not one of {', '.join(COMPRESSIONS)}")


def encoding_of(
    codecs: Sequence[Extension], dtype: np.dtype[Any], x_axis: int, ndim: int
) -> Encoding | str:
    """The encoding of inner chunks with `codecs`; a clause that says why there is none.

    `x_axis`: the axis of a row of pixels, along which differences may be.
    """
    chain = list(codecs)
    delta = chain.pop(0) if chain and chain[0].name == _DELTA else None
    if delta is not None and not _is_of_rows(delta, dtype, x_axis, ndim):
        return "its differences are not along rows"
    if not chain or chain[0].name != "bytes":
        return (
            f"the codec {shown(chain[0].name)} is not known in such files"
            if chain
            else "it has no bytes"
        )
    big_endian = dtype.itemsize > 1 and chain[0].configuration.get("endian") == "big"
    if len(chain) == 1:
        if delta is not None:
            return "its differences are not compressed"
        return Encoding("none", big_endian)
    compressor = chain[1]
    compression = _OF_CODECS.get(compressor.name)
    if compression is None or len(chain) > 2:
        other = compressor if compression is None else chain[2]
        return f"the codec {shown(other.name)} is not known in such files"
    if compression == "lzma" and compressor.configuration.get("format", _XZ) != _XZ:
        return "its LZMA is not in the format .xz"
    if delta is not None and compression == "packbits":
        return "TIFF has no differences in PackBits"
    if compression == "packbits":
        compressor = Extension(compressor.name, {})  # rows matter to the encoder alone
    return Encoding(compression, big_endian, compressor, delta)


def in_v3(node: ArrayNode) -> ArrayNode:
    """A node of Zarr v2 or v3 as one of Zarr v3; its codecs are those that `encoding_of` knows, or others.

    Raises `MetadataError` if Zarr v3 has no such data type, fill value or attributes.
    """
    if node.zarr_format == 3:
        return node
    try:
        translated = as_v3(node)
    except MetadataError:
        # The codecs alone may have no equivalent: what they decode to has.
        translated = as_v3(replace(node, codecs=()))
        assert isinstance(translated, ArrayNode)
        filters = [codec for codec in node.codecs if codec.name == _DELTA]
        others = [codec for codec in node.codecs if codec.name != _DELTA]
        codecs = (
            *(_of_v2(codec) for codec in filters),
            *translated.codecs,
            *(_of_v2(codec) for codec in others),
        )
        return replace(translated, codecs=codecs)
    assert isinstance(translated, ArrayNode)
    return translated


def _of_v2(codec: Extension) -> Extension:
    """A codec of Zarr v2 under its name in Zarr v3; members of null are left out."""
    members = {
        name: value
        for name, value in codec.configuration.items()
        if name != "id" and (value is not None or codec.name in _IN_V3)
    }
    return Extension(_IN_V3.get(codec.name, codec.name), members)


def _is_of_rows(delta: Extension, dtype: np.dtype[Any], x_axis: int, ndim: int) -> bool:
    axis = delta.configuration.get("axis", -1)
    return (
        delta.configuration.keys() <= {"axis", "dist"}
        and isinstance(axis, int)
        and axis % ndim == x_axis
        and delta.configuration.get("dist", 1) == 1
        and dtype.kind in "iu"
    )


def _differences(chunk: NDArray[Any], delta: Extension) -> NDArray[Any]:
    axis = delta.configuration.get("axis", -1)
    first = np.take(chunk, [0], axis)
    with np.errstate(over="ignore"):
        return np.concatenate((first, np.diff(chunk, axis=axis)), axis)


def _compressor(
    compression: Compression, codec: Extension | None
) -> Callable[[NDArray[np.uint8]], bytes]:
    members = {} if codec is None else dict(codec.configuration)
    if compression == "none":
        return lambda data: data.tobytes()
    if compression == "zstd":
        from numcodecs.zstd import Zstd  # noqa: PLC0415

        zstd = Zstd(level=members.get("level", 3), checksum=bool(members.get("checksum", False)))
        return lambda data: bytes(zstd.encode(data))
    if compression == "deflate":
        from numcodecs.zlib import Zlib  # noqa: PLC0415

        zlib = Zlib(level=members.get("level", 1))
        return lambda data: bytes(zlib.encode(data))
    if compression == "lzma":
        from numcodecs.lzma import LZMA  # noqa: PLC0415

        lzma = LZMA(**members)
        return lambda data: bytes(lzma.encode(data))
    try:
        import imagecodecs  # noqa: PLC0415
    except ImportError as error:
        raise Refused(
            f"to encode {compression}, the package imagecodecs is needed: pip install 'zarrfuse[codecs]'"
        ) from error
    encode = imagecodecs.lzw_encode if compression == "lzw" else imagecodecs.packbits_encode
    return lambda data: bytes(encode(data.tobytes()))
