"""Arrays in every layout that zarr-python writes, with values that no other layout has.

Owns the matrix of the round trips: types, dimensions, chunk grids, codecs, both formats, keys, missing
chunks and fill values. What zarr-python reads back is what every other way of reading is held to.
"""

import math
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import zarr
from numcodecs import get_codec
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)
from zarr.codecs import numcodecs as registered

Shape = tuple[int, ...]
Box = tuple[slice, ...]

TIFF_TYPES = (
    *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
    *("float16", "float32", "float64"),
)
"""Types that TIFF has and its readers know."""
OTHER_TYPES = (
    *("int64", "uint64", "complex64", "complex128"),
    *("V1", "V3", "M8[s]", "m8[25us]", "U4", "S4"),
)
"""Types that only NPY has: `V3` are raw bits (`r24`)."""


@dataclass(frozen=True)
class Layout:
    """One array and how it is stored; `options` are those of `zarr.create_array`.

    `holes`: every other chunk is not written, and reads as the fill value.
    """

    name: str
    dtype: str
    shape: Shape
    chunks: Shape
    options: Mapping[str, Any] = field(default_factory=dict)
    holes: bool = False

    @property
    def has_tiff(self) -> bool:
        """Whether there is a TIFF of it: the type is one of TIFF's, and there are pixels."""
        return np.dtype(self.dtype).newbyteorder("=").name in TIFF_TYPES and 0 not in self.shape

    def write(self, store: Any) -> "zarr.Array[Any]":
        """Write it below `name` into a store of zarr-python; the array, opened anew.

        Anew, because its document holds less of a fill value than zarr-python has in memory.
        """
        with warnings.catch_warnings():  # that other programs may not read all of these types
            warnings.simplefilter("ignore")
            return self._written(store)

    def _written(self, store: Any) -> "zarr.Array[Any]":
        made = zarr.create_array(
            store,
            name=self.name,
            dtype=self.dtype,
            shape=self.shape,
            chunks=self.chunks,
            **self.options,
        )
        values = unlike_values(self.shape, self.dtype, self.name)
        if self.holes:
            for number, (_, box) in enumerate(chunk_boxes(made)):
                if number % 2:
                    made[box] = values[box]
        else:
            made[...] = values
        return zarr.open_array(store, path=self.name, mode="r+")


def unlike_values(shape: Shape, dtype: str, seed: str) -> Any:
    """Values that use every bit of their type: NaNs of all kinds, infinities and -0.0 among them."""
    kind = np.dtype(dtype)
    count = math.prod(shape)
    chance = np.random.default_rng(zlib.crc32(seed.encode()))
    if kind.kind == "b":
        return chance.integers(0, 2, shape).astype(kind)
    if kind.kind in "US":
        letters = chance.integers(ord("A"), ord("z"), (count, 4))
        return np.array(["".join(map(chr, row)) for row in letters], kind).reshape(shape)
    values = np.frombuffer(chance.bytes(count * kind.itemsize), kind).copy()
    if kind.kind in "fc":
        special = (-0.0, math.nan, math.inf, -math.inf, 1.5, -2.25)
        values[: len(special)] = special[:count]
    return values.reshape(shape)


def stored_grid(array: "zarr.Array[Any]") -> Shape:
    """The shape of what one key holds: of a shard, where there are shards."""
    return tuple(array.shards or array.chunks)


def chunk_boxes(array: "zarr.Array[Any]") -> Iterator[tuple[Shape, Box]]:
    """Coordinates and box of every chunk of the grid, cropped to the array."""
    grid = stored_grid(array)
    counts = [-(-size // step) for size, step in zip(array.shape, grid, strict=True)]
    for coords in product(*map(range, counts)):
        yield (
            coords,
            tuple(
                slice(at * step, min((at + 1) * step, size))
                for at, step, size in zip(coords, grid, array.shape, strict=True)
            ),
        )


def chunk_file(coords: Shape) -> str:
    """Where the `images` view shows the chunk, below the array."""
    return "/".join(("c", *map(str, coords))) + ".tiff"


def in_five(shape: Shape) -> Shape:
    """A shape as image readers tell it: without dimensions of one, the first of more than five as one."""
    lengths = tuple(length for length in shape if length != 1)
    return (math.prod(lengths[:-4]), *lengths[-4:]) if len(lengths) > 5 else lengths


def little(values: Any) -> Any:
    """The same values, their bytes in little-endian order: what the files of the view hold."""
    return np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).reshape(values.shape)


def layouts() -> tuple[Layout, ...]:
    """The whole matrix."""
    kinds = (_types, _dimensions, _grids, _codecs, _shards, _formats, _keys, _missing)
    with warnings.catch_warnings():  # that other programs may not know all of these codecs
        warnings.simplefilter("ignore")
        return tuple(layout for made in kinds for layout in made())


def few_layouts() -> tuple[Layout, ...]:
    """One or two of each kind: for what takes its time."""
    names = {
        *("v3/bool", "v3/int16", "v3/float16", "v3/complex64", "v3/uint64", "v2/>u2", "dims/0"),
        *("dims/1", "dims/3", "dims/4", "dims/6", "dims/rgb", "dims/zero-1", "grids/larger"),
        *("codecs/none", "codecs/gzip", "codecs/blosc-lz4-bitshuffle", "codecs/zstd"),
        *("codecs/transpose", "codecs/crc32c", "codecs/big", "shards/end", "shards/start"),
        *("shards/nested", "shards/holes", "formats/F", "formats/zlib", "formats/delta"),
        *("keys/v2-dot", "keys/suffix", "missing/nan", "missing/minus-zero", "missing/negative"),
    }
    few = tuple(layout for layout in layouts() if layout.name in names)
    assert {layout.name for layout in few} == names
    return few


V2: dict[str, Any] = {"zarr_format": 2}


def _types() -> Iterator[Layout]:
    for dtype in (*TIFF_TYPES, *OTHER_TYPES):
        yield Layout(f"v3/{_path(dtype)}", dtype, (5, 7), (2, 3))
        yield Layout(f"v2/{_path(dtype)}", dtype, (5, 7), (2, 3), V2)
    for dtype in (">i2", ">u2", ">i4", ">u4", ">i8", ">f2", ">f4", ">f8", ">c8", ">c16", ">M8[ms]"):
        yield Layout(f"v2/{_path(dtype)}", dtype, (5, 7), (2, 3), V2)


def _path(dtype: str) -> str:
    return dtype.replace("[", "-").rstrip("]")


def _dimensions() -> Iterator[Layout]:
    shape = (3, 2, 4, 3, 5, 6)
    chunks = (2, 2, 3, 2, 2, 4)
    for count in range(7):
        where = 6 - count
        yield Layout(f"dims/{count}", "uint16", shape[where:], chunks[where:])
        yield Layout(f"dims/{count}-v2", "uint8", shape[where:], chunks[where:], V2)
    yield Layout("dims/rgb", "uint8", (6, 9, 3), (4, 4, 3))
    yield Layout("dims/rgba", "uint16", (6, 9, 4), (4, 4, 4))
    yield Layout("dims/split-samples", "uint8", (6, 9, 3), (4, 4, 1))
    yield Layout("dims/stack-of-rgb", "uint8", (3, 6, 9, 3), (2, 4, 4, 2))
    named = {"dimension_names": ("c", "z", "y", "x")}
    yield Layout("dims/named", "uint16", (2, 3, 5, 7), (1, 2, 2, 4), named)
    unusual = {"dimension_names": ("x", "t", "y")}
    yield Layout("dims/named-otherwise", "uint16", (4, 3, 5), (3, 2, 2), unusual)
    yield Layout("dims/ones", "uint16", (1, 1, 5, 1, 7), (1, 1, 2, 1, 4))
    for number, empty in enumerate(((0,), (0, 4), (3, 0, 4), (4, 0))):
        yield Layout(f"dims/zero-{number}", "uint16", empty, (1,) * len(empty))


def _grids() -> Iterator[Layout]:
    for name, chunks in {
        "exact": (4, 6),
        "larger": (10, 50),
        "one-larger": (3, 50),
        "single": (1, 1),
        "rows": (1, 18),
        "columns": (12, 1),
        "whole": (12, 18),
        "uneven": (5, 7),
    }.items():
        yield Layout(f"grids/{name}", "int16", (12, 18), chunks)


def _codecs() -> Iterator[Layout]:
    def coded(name: str, **options: Any) -> Layout:
        return Layout(f"codecs/{name}", "int32", (13, 18), (5, 8), options)

    yield coded("none", compressors=None)
    yield coded("gzip", compressors=[GzipCodec(level=1)])
    yield coded("zstd", compressors=[ZstdCodec(level=5, checksum=True)])
    yield coded("crc32c", compressors=[Crc32cCodec()])
    yield coded("gzip-crc32c", compressors=[GzipCodec(level=1), Crc32cCodec()])
    yield coded("zstd-gzip", compressors=[ZstdCodec(), GzipCodec(level=1)])
    for cname, shuffle in (
        *product(("lz4", "zstd"), ("noshuffle", "shuffle", "bitshuffle")),
        *product(("lz4hc", "blosclz", "zlib"), ("shuffle",)),
    ):
        codec = BloscCodec(cname=cname, shuffle=shuffle, typesize=4)
        yield coded(f"blosc-{cname}-{shuffle}", compressors=[codec])
    yield coded("big", serializer=BytesCodec(endian="big"))
    yield coded("big-none", serializer=BytesCodec(endian="big"), compressors=None)
    yield coded("transpose", filters=[TransposeCodec(order=(1, 0))])
    big = BytesCodec(endian="big")
    yield coded("transpose-big", filters=[TransposeCodec(order=(1, 0))], serializer=big)
    yield Layout(
        "codecs/transpose-3d",
        "float32",
        (4, 5, 6),
        (3, 2, 4),
        {"filters": [TransposeCodec(order=(1, 2, 0))]},
    )
    yield coded("numcodecs-zlib", compressors=[registered.Zlib(level=1)])
    yield coded("numcodecs-delta", filters=[registered.Delta(dtype="<i4")])


def _shards() -> Iterator[Layout]:
    shape, chunks, shards = (13, 18), (2, 3), (6, 9)

    def located(name: str, location: str, **more: Any) -> Layout:
        options = {"shards": {"shape": shards, "index_location": location}, **more}
        return Layout(f"shards/{name}", "uint16", shape, chunks, options)

    yield located("end", "end")
    yield located("start", "start")
    yield located("plain", "end", compressors=None)
    yield located("transposed-inside", "end", filters=[TransposeCodec(order=(1, 0))])
    yield Layout("shards/3d", "float32", (5, 9, 10), (1, 2, 4), {"shards": (2, 4, 8)})
    yield Layout("shards/holes", "uint16", shape, chunks, {"shards": shards, "fill_value": 7}, True)

    def serialized(name: str, serializer: ShardingCodec, **options: Any) -> Layout:
        options = {"compressors": None, **options, "serializer": serializer}
        return Layout(f"shards/{name}", "uint16", shape, (8, 12), options)

    pixels = [BytesCodec(), ZstdCodec()]
    turned = [TransposeCodec(order=(1, 0)), *pixels]
    inner = ShardingCodec(chunk_shape=(2, 3), codecs=pixels, index_location="start")
    yield serialized("nested", ShardingCodec(chunk_shape=(4, 6), codecs=[inner]))
    yield serialized(
        "transposed",
        ShardingCodec(chunk_shape=(4, 4), codecs=turned),
        filters=[TransposeCodec(order=(1, 0))],
    )
    yield serialized(
        "packed", ShardingCodec(chunk_shape=(4, 6), codecs=pixels), compressors=[GzipCodec()]
    )
    unchecked = ShardingCodec(chunk_shape=(4, 6), codecs=pixels, index_codecs=[BytesCodec()])
    yield serialized("index-without-crc32c", unchecked)


def _formats() -> Iterator[Layout]:
    def stored(name: str, dtype: str = "<i4", **options: Any) -> Layout:
        return Layout(f"formats/{name}", dtype, (13, 18), (5, 8), {**V2, **options})

    def codec(name: str, **configuration: Any) -> Any:
        return get_codec({"id": name, **configuration})

    yield stored("C", order="C")
    yield stored("F", order="F")
    yield Layout("formats/F-3d", "<f4", (4, 5, 6), (3, 2, 4), {**V2, "order": "F"})
    yield stored("F-big", ">u2", order="F")
    yield stored("none", compressors=None)
    for name, configuration in {
        "zlib": {"level": 1},
        "gzip": {"level": 1},
        "bz2": {"level": 1},
        "lzma": {},
        "lz4": {},
        "zstd": {"level": 1},
        "blosc": {"cname": "lz4", "shuffle": 1},
    }.items():
        yield stored(name, compressors=codec(name, **configuration))
    yield stored("delta", "<u2", filters=[codec("delta", dtype="<u2")])
    yield stored("delta-big", ">i4", filters=[codec("delta", dtype=">i4")])
    yield stored("shuffle", filters=[codec("shuffle", elementsize=4)], compressors=None)
    yield stored("fletcher32", filters=[codec("fletcher32")])
    yield stored("null", fill_value=None)


def _keys() -> Iterator[Layout]:
    def named(name: str, keys: Mapping[str, Any], **options: Any) -> Layout:
        options = {"chunk_key_encoding": keys, **options}
        return Layout(f"keys/{name}", "uint16", (3, 5, 7), (2, 2, 3), options)

    for encoding, (mark, separator) in product(("default", "v2"), (("slash", "/"), ("dot", "."))):
        yield named(f"{encoding}-{mark}", {"name": encoding, "separator": separator})
    for mark, separator in (("slash", "/"), ("dot", ".")):
        yield named(f"format-2-{mark}", {"name": "v2", "separator": separator}, **V2)
        scalar = {"chunk_key_encoding": {"name": "v2", "separator": separator}}
        yield Layout(f"keys/scalar-{mark}", "uint16", (), (), scalar)
    suffix = {"name": "suffix", "configuration": {"suffix": ".zst"}}
    yield named("suffix", suffix)
    yield named("suffix-tiff", {"name": "suffix", "configuration": {"suffix": ".tiff"}})
    folder = {"suffix": "/data.bin", "base_encoding": {"name": "v2"}}
    yield named("suffix-folder", {"name": "suffix", "configuration": folder})


def _missing() -> Iterator[Layout]:
    def holed(name: str, dtype: str, fill: Any, **options: Any) -> Layout:
        options = {"fill_value": fill, **options}
        return Layout(f"missing/{name}", dtype, (5, 7), (2, 3), options, holes=True)

    floats: dict[str, float] = {
        "nan": math.nan,
        "minus-zero": -0.0,
        "inf": math.inf,
        "minus-inf": -math.inf,
        "negative": -5.25,
    }
    for name, fill in floats.items():
        yield holed(name, "float32", fill)
        yield holed(f"{name}-v2", ">f4", fill, **V2)
        yield holed(f"{name}-half", "float16", fill)
        yield holed(f"{name}-complex", "complex64", complex(fill, -fill))
    yield holed("negative-int", "int16", -300)
    yield holed("negative-int-v2", ">i4", -70_000, **V2)
    yield holed("most", "uint64", 2**64 - 1)
    yield holed("true", "bool", True)
    yield holed("no-fill-v2", "<u2", None, **V2)
    yield holed("bits", "V3", b"\1\2\3")
    yield holed("text", "U4", "fill")
    yield holed("transposed", "int16", -3, filters=[TransposeCodec(order=(1, 0))])
