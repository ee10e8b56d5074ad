"""The filters of HDF5 datasets and the codecs of Zarr arrays that make the same bytes.

Used by `hdf5`, which reads files, and by `exporting`, which writes them. It must not know h5py, or files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from zarrfuse.shards.layout import Json

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
BZIP2, BLOSC, ZSTD = 307, 32001, 32015
_SZIP: Final = 4
_LZF: Final = 32000
_LZ4: Final = 32004
_BITSHUFFLE: Final = 32008
_LAST_OF_LIBRARY: Final = 255
"""Filters with larger numbers are not part of the HDF5 library."""

# Filters whose chunks no codec of zarr-python or imagecodecs decodes.
_WITHOUT_CODEC: Final[Mapping[int, str]] = {
    5: "nbit",
    6: "scaleoffset",
    305: "lzo",
    32013: "zfp",
    32017: "sz",
    32018: "fcidecomp",
    32019: "jpeg",
    32024: "sz3",
    32026: "blosc2",
    32028: "sperr",
    32033: "htj2k",
}
_COMPRESSORS: Final = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLES: Final = ("noshuffle", "shuffle", "bitshuffle")
_ZSTD_LEVEL: Final = 3
_BZIP2_LEVEL: Final = 9
_DEFLATE_LEVEL: Final = 6
_BLOSC_DEFAULTS: Final = (2, 2, 0, 0, 5, 1, 0)
"""Versions of filter and format, bytes of an element and of a chunk, level, shuffle, compressor."""


class NoCodec(Exception):
    """A pipeline of filters without equal codecs; the message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of the pipeline of a dataset: its number, and its parameters."""

    number: int
    values: tuple[int, ...] = ()

    @property
    def needs_plug_in(self) -> bool:
        """Whether readers decode it only with a plug-in, such as the package hdf5plugin."""
        return self.number > _LAST_OF_LIBRARY


def rewriting(filters: Sequence[Filter]) -> str:
    """What writes a dataset with these filters again, with one that has a codec.

    h5repack knows no filters but those of the HDF5 library, and leaves datasets with others out.
    """
    others = {each.number for each in filters if each.needs_plug_in}
    if not others:
        return "h5repack -f GZIP=5"
    package = "h5py" if others == {_LZF} else "h5py and the package hdf5plugin"
    return f"{package}, compression='gzip'"


# -- filters -> codecs


def codecs_of(filters: Sequence[Filter], itemsize: int, endian: str | None) -> list[dict[str, Any]]:
    """The codecs that decode chunks of elements with `itemsize` bytes. `endian`: their order, if any.

    Raises:
        NoCodec: A filter has no equal codec.
    """
    codecs = [{"name": "bytes", **({"configuration": {"endian": endian}} if endian else {})}]
    for position, each in enumerate(filters):
        make = _CODECS.get(each.number)
        if make is None:
            name = _WITHOUT_CODEC.get(each.number, "that is not known")
            raise NoCodec(f"has the filter {name} ({each.number}), which is no Zarr codec")
        if each.number == SHUFFLE and position:
            # HDF5 leaves the bytes behind the last whole element, which numcodecs does not take.
            raise NoCodec("has the filter shuffle behind another, which is no Zarr codec")
        codec = make(each.values, itemsize)
        if codec is not None:
            codecs.append(codec)
        if each.number == _BITSHUFFLE:
            if position or endian == "big":
                which = "behind another" if position else "of elements that are big-endian"
                raise NoCodec(f"has the filter bitshuffle {which}, which is no Zarr codec")
            codecs = codecs[1:]  # it makes bytes of elements
    return codecs


def _codec(name: str, **configuration: Any) -> dict[str, Any]:
    # zarr-python reads codecs of numcodecs only with a configuration, even an empty one.
    return {"name": name, "configuration": configuration}


def _first(values: Sequence[int], default: int) -> int:
    return values[0] if values else default


def _deflate_codec(values: Sequence[int], _: int) -> dict[str, Any]:
    return _codec("numcodecs.zlib", level=_first(values, _DEFLATE_LEVEL))


def _shuffle_codec(values: Sequence[int], itemsize: int) -> dict[str, Any] | None:
    elementsize = _first(values, itemsize)
    return _codec("numcodecs.shuffle", elementsize=elementsize) if elementsize > 1 else None


def _fletcher32_codec(_: Sequence[int], __: int) -> dict[str, Any]:
    return _codec("numcodecs.fletcher32")


def _bzip2_codec(values: Sequence[int], _: int) -> dict[str, Any]:
    return _codec("numcodecs.bz2", level=_first(values, _BZIP2_LEVEL))


def _zstd_codec(values: Sequence[int], _: int) -> dict[str, Any]:
    level = _first(values, _ZSTD_LEVEL)
    # Levels below 0 are stored as unsigned numbers.
    return _codec("zstd", level=level - (1 << 32) if level >= 1 << 31 else level, checksum=False)


def _blosc_codec(values: Sequence[int], itemsize: int) -> dict[str, Any]:
    typesize, _, level, shuffle, compressor = (*values, *_BLOSC_DEFAULTS[len(values) :])[2:7]
    if level > 9 or shuffle >= len(_SHUFFLES) or compressor >= len(_COMPRESSORS):
        raise NoCodec(f"has the filter blosc with the parameters {list(values)}")
    return _codec(
        "blosc",
        cname=_COMPRESSORS[compressor],
        clevel=level,
        shuffle=_SHUFFLES[shuffle],
        typesize=typesize or itemsize,
        blocksize=0,
    )


def _szip_codec(values: Sequence[int], _: int) -> dict[str, Any]:
    if len(values) != 4:
        raise NoCodec(f"has the filter szip with the parameters {list(values)}")
    mask, block, bits, scanline = values
    return _codec(
        "imagecodecs_szip",
        options_mask=mask,
        pixels_per_block=block,
        bits_per_pixel=bits,
        pixels_per_scanline=scanline,
        header=True,
    )


def _lzf_codec(_: Sequence[int], __: int) -> dict[str, Any]:
    return _codec("imagecodecs_lzf", header=False)


def _lz4_codec(_: Sequence[int], __: int) -> dict[str, Any]:
    return _codec("imagecodecs_lz4h5")


def _bitshuffle_codec(values: Sequence[int], itemsize: int) -> dict[str, Any]:
    elementsize, blocksize, compressor = (*values, *(0,) * 5)[2:5]
    if compressor or elementsize != itemsize:
        raise NoCodec("has the filter bitshuffle (32008) with compression, which is no Zarr codec")
    return _codec("imagecodecs_bitshuffle", blocksize=blocksize)


_MadeCodec: TypeAlias = Callable[[Sequence[int], int], dict[str, Any] | None]
_CODECS: Final[Mapping[int, _MadeCodec]] = {
    DEFLATE: _deflate_codec,
    SHUFFLE: _shuffle_codec,
    FLETCHER32: _fletcher32_codec,
    BZIP2: _bzip2_codec,
    BLOSC: _blosc_codec,
    ZSTD: _zstd_codec,
    _SZIP: _szip_codec,
    _LZF: _lzf_codec,
    _LZ4: _lz4_codec,
    _BITSHUFFLE: _bitshuffle_codec,
}


# -- codecs -> filters


def filters_of(codecs: Sequence[Json], itemsize: int) -> tuple[Filter, ...] | None:
    """The filters of a dataset whose chunks may be inner chunks of these codecs, unchanged.

    `codecs`: all codecs of an inner chunk, with `bytes`; `itemsize`: the bytes of an element. None: no
    dataset has such chunks, so they have to be encoded anew.
    """
    if not codecs or codecs[0].get("name") != "bytes":
        return None
    filters = []
    for position, codec in enumerate(codecs[1:]):
        make = _FILTERS.get(str(codec.get("name")))
        if make is None:
            return None
        made = make(codec.get("configuration") or {}, itemsize)
        if made is None or (made.number == SHUFFLE and position):
            return None
        filters.append(made)
    return tuple(filters)


def _deflate(configuration: Json, _: int) -> Filter:
    level = configuration.get("level", _DEFLATE_LEVEL)
    return Filter(DEFLATE, (level if level in range(10) else _DEFLATE_LEVEL,))


def _shuffle(configuration: Json, itemsize: int) -> Filter | None:
    # HDF5 shuffles by the size of an element, whatever the parameter says.
    same = configuration.get("elementsize", 4) == itemsize
    return Filter(SHUFFLE, (itemsize,)) if same and itemsize > 1 else None


def _fletcher32(_: Json, __: int) -> Filter:
    return Filter(FLETCHER32)


def _bzip2(configuration: Json, _: int) -> Filter:
    level = configuration.get("level", _BZIP2_LEVEL)
    return Filter(BZIP2, (level if level in range(1, 10) else _BZIP2_LEVEL,))


def _zstd(configuration: Json, _: int) -> Filter:
    return Filter(ZSTD, (configuration.get("level", _ZSTD_LEVEL) % (1 << 32),))


_MadeFilter: TypeAlias = Callable[[Json, int], Filter | None]
_FILTERS: Final[Mapping[str, _MadeFilter]] = {
    "numcodecs.zlib": _deflate,
    "numcodecs.shuffle": _shuffle,
    "numcodecs.fletcher32": _fletcher32,
    "numcodecs.bz2": _bzip2,
    "zstd": _zstd,
    "numcodecs.zstd": _zstd,
}
