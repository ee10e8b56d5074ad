"""HDF5 files as shards: which are read, what they say, and why others are refused."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from builders.hdf5_arrays import pixels_of, read_file, store_array
from h5py import h5d, h5p, h5s, h5t, h5z

from zarrfuse.shards.hdf5 import read_hdf5
from zarrfuse.shards.layout import MISSING, Refused
from zarrfuse.shards.reading import read_arrays

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")

SHAPE = (21, 34)
PIXELS = np.random.default_rng(5).integers(0, 50, SHAPE).astype("<u2")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "img.h5"


def write(path: Path, data: Any = PIXELS, **members: Any) -> Any:
    """Write a file with the dataset `a`; its pixels as h5py reads them."""
    with h5py.File(path, "w") as file:
        return file.create_dataset("a", data=data, **members)[...]


def assert_same(path: Path, expected: np.ndarray) -> dict[str, Any]:
    """Compare zarr-python's pixels; the document."""
    folder = path.parent / "array"
    store_array(folder, path, read_file(path))
    found = pixels_of(folder)
    assert found.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, expected)
    return json.loads((folder / "zarr.json").read_bytes())


def codec_names(path: Path) -> list[str]:
    return [codec["name"] for codec in read_file(path).layout.codec_list()]


def refusal(path: Path, dataset: str | None = None) -> str:
    with pytest.raises(Refused) as error:
        read_file(path, dataset)
    return str(error.value)


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"compression": "gzip"}, ["numcodecs.zlib"]),
    ({"compression": "gzip", "shuffle": True}, ["numcodecs.shuffle", "numcodecs.zlib"]),
    ({"shuffle": True}, ["numcodecs.shuffle"]),
    ({"fletcher32": True}, ["numcodecs.fletcher32"]),
    (
        {"fletcher32": True, "shuffle": True, "compression": "gzip"},
        ["numcodecs.shuffle", "numcodecs.zlib", "numcodecs.fletcher32"],
    ),
    ({"compression": "lzf"}, ["imagecodecs_lzf"]),
    ({"compression": "lzf", "shuffle": True}, ["numcodecs.shuffle", "imagecodecs_lzf"]),
    ({"compression": "lzf", "fletcher32": True}, ["imagecodecs_lzf", "numcodecs.fletcher32"]),
    ({"compression": "szip"}, ["imagecodecs_szip"]),
    ({"compression": "szip", "compression_opts": ("ec", 16)}, ["imagecodecs_szip"]),
    (dict(hdf5plugin.LZ4()), ["imagecodecs_lz4h5"]),
    (dict(hdf5plugin.LZ4(nbytes=100)), ["imagecodecs_lz4h5"]),
    (dict(hdf5plugin.Bitshuffle(cname="none")), ["imagecodecs_bitshuffle"]),
    (dict(hdf5plugin.Bitshuffle(nelems=64, cname="none")), ["imagecodecs_bitshuffle"]),
    (
        {**hdf5plugin.Bitshuffle(cname="none"), "fletcher32": True},
        ["imagecodecs_bitshuffle", "numcodecs.fletcher32"],
    ),
    (dict(hdf5plugin.Zstd(clevel=-3)), ["zstd"]),
    (dict(hdf5plugin.BZip2()), ["numcodecs.bz2"]),
    *(
        (dict(hdf5plugin.Blosc(cname, 5, shuffle)), ["blosc"])
        for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
        for shuffle in (0, 1, 2)
    ),
]


@pytest.mark.parametrize(("filters", "codecs"), FILTERS)
def test_pixels_of_each_filter_are_those_of_h5py(
    path: Path, filters: dict[str, Any], codecs: list[str]
) -> None:
    pixels = np.full(SHAPE, 700, "<u2") + np.arange(34) // 8 * 300  # each chunk can be compressed
    assert_same(path, write(path, pixels, chunks=(8, 16), **filters))
    assert codec_names(path) == (
        codecs if "imagecodecs_bitshuffle" in codecs else ["bytes", *codecs]
    )


TYPES = [
    *(f"{order}{kind}" for order in "<>" for kind in ("i2", "u2", "i4", "u4", "i8", "u8")),
    *(f"{order}{kind}" for order in "<>" for kind in ("f2", "f4", "f8", "c8", "c16")),
    *("i1", "u1", "?"),
]


@pytest.mark.parametrize("data_type", TYPES)
def test_pixels_of_each_data_type_and_byte_order_are_those_of_h5py(
    path: Path, data_type: str
) -> None:
    pixels = (PIXELS % 7).astype(data_type)
    if pixels.dtype.kind == "c":
        pixels = (pixels + 3j * pixels[::-1]).astype(data_type)
    document = assert_same(
        path, write(path, pixels, chunks=(8, 16), compression="gzip", shuffle=True)
    )
    assert document["data_type"] == pixels.dtype.newbyteorder("=").name


@pytest.mark.parametrize(
    "filters", [{"compression": "lzf"}, {"compression": "szip"}, hdf5plugin.LZ4()]
)
@pytest.mark.parametrize("data_type", ["u1", "<i4", ">u4", "<f4", ">f8"])
def test_chunks_that_expand_much_are_those_of_h5py(
    path: Path, filters: Any, data_type: str
) -> None:
    pixels = np.arange(300 * 500).reshape(300, 500) // 20000
    assert_same(path, write(path, pixels.astype(data_type), chunks=(100, 500), **filters))


@pytest.mark.parametrize("data_type", ["?", "i1", "u2", "f4", "f8", "c8"])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000, 5000])
def test_bits_of_any_number_of_elements_are_unshuffled(
    path: Path, data_type: str, size: int
) -> None:
    pixels = np.random.default_rng(size).integers(0, 99, 2 * size).astype(data_type)
    assert_same(path, write(path, pixels, chunks=(size,), **hdf5plugin.Bitshuffle(cname="none")))


@pytest.mark.parametrize("members", [{}, {"fletcher32": True}])
@pytest.mark.parametrize("length", range(1, 10))
def test_checksums_of_any_number_of_bytes_agree(
    path: Path, members: dict[str, Any], length: int
) -> None:
    pixels = np.random.default_rng(length).integers(0, 256, 20).astype("u1")
    assert_same(path, write(path, pixels, chunks=(length,), **members))


def test_a_contiguous_dataset_is_one_inner_chunk(path: Path) -> None:
    assert_same(path, write(path))
    array = read_file(path)
    assert (array.layout.inner_shape, array.sizes.tolist()) == (SHAPE, [[PIXELS.nbytes]])


@pytest.mark.parametrize("members", [{}, {"chunks": (8, 16)}, {"chunks": (8, 16), "shuffle": True}])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("size", [512, 1024, 2048, 1 << 20])
def test_offsets_count_from_the_start_of_the_user_block(
    path: Path, members: dict[str, Any], libver: str, size: int
) -> None:
    with h5py.File(path, "w", userblock_size=size, libver=libver) as file:
        file.create_dataset("a", data=PIXELS, **members)
    assert_same(path, PIXELS)
    assert int(read_file(path).offsets.min()) > size


@pytest.mark.parametrize("size", [0, 512, 1024, 8192])
def test_hdf5_is_found_behind_a_user_block_whatever_the_name(path: Path, size: int) -> None:
    with h5py.File(path, "w", userblock_size=size) as file:
        file.create_dataset("a", data=PIXELS)
    data = path.read_bytes()
    with io.BytesIO(b"MATLAB 7.3 MAT-file".ljust(size)[:size] + data[size:]) as file:
        (array,) = read_arrays("img.mat", file)
    assert array.shape == SHAPE


@pytest.mark.parametrize("name", ["img.h5", "img.mat"])
def test_a_signature_elsewhere_is_no_hdf5(path: Path, name: str) -> None:
    write(path)
    with io.BytesIO(bytes(256) + path.read_bytes()) as file, pytest.raises(Refused) as error:
        read_arrays(name, file)
    assert str(error.value) == f"{name}: is neither a TIFF nor an HDF5 file"


@pytest.mark.parametrize("libver", ["earliest", "v110", "latest"])
@pytest.mark.parametrize("maxshape", [None, (None, 40), (None, None)])
def test_every_index_of_chunks_is_read(path: Path, libver: str, maxshape: Any) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("a", data=PIXELS, chunks=(4, 4), maxshape=maxshape)
    assert_same(path, PIXELS)


def test_missing_chunks_have_the_fill_value(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", SHAPE, "<u2", chunks=(8, 16), fillvalue=9)
        dataset[8:16, :16] = 4
        expected = dataset[...]
    assert assert_same(path, expected)["fill_value"] == 9
    array = read_file(path)
    assert (array.grid, int((array.offsets == MISSING).sum())) == ((3, 3), 8)


@pytest.mark.parametrize(
    ("data_type", "value", "stored"),
    [
        ("f4", np.nan, "NaN"),
        ("f8", -np.inf, "-Infinity"),
        ("c8", 1 + 2j, [1.0, 2.0]),
        ("?", True, True),
        (">i2", -3, -3),
    ],
)
def test_fill_values_are_written_as_zarr_writes_them(
    path: Path, data_type: str, value: Any, stored: Any
) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", SHAPE, data_type, chunks=(8, 16), fillvalue=value)
        expected = dataset[...]
    assert assert_same(path, expected)["fill_value"] == stored


@pytest.mark.parametrize("kind", [h5t.STD_U8BE, h5t.STD_U8LE, h5t.STD_I8BE, h5t.STD_I8LE])
def test_numbers_of_one_byte_have_no_order(path: Path, kind: Any) -> None:
    with h5py.File(path, "w") as file:
        h5d.create(file.id, b"a", kind, h5s.create_simple(SHAPE))
        file["a"][...] = PIXELS
    assert_same(path, PIXELS.astype("u1" if kind in (h5t.STD_U8BE, h5t.STD_U8LE) else "i1"))


@pytest.mark.parametrize(
    "members", [{}, {"chunks": (2, 2), "compression": "gzip", "shuffle": True}]
)
@pytest.mark.parametrize("data_type", ["S1", "S5", h5py.string_dtype("utf-8", 6)])
def test_strings_of_one_length_are_null_terminated_bytes(
    path: Path, members: dict[str, Any], data_type: Any
) -> None:
    texts = np.array([[b"a", b"", b"bc"], [b"\0a", b"\xc3\xa9", b"abcde"]]).astype("S5")
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", (3, 3), data_type, fillvalue=b"f", **members)
        dataset[:2] = texts.astype(dataset.dtype)
        expected = dataset[...]
    document = assert_same(path, expected)
    length = expected.dtype.itemsize
    assert document["data_type"] == {
        "name": "null_terminated_bytes",
        "configuration": {"length_bytes": length},
    }
    assert document["fill_value"] == "Zg=="


def test_characters_of_netcdf_are_strings(path: Path) -> None:
    kind = h5t.C_S1.copy()
    kind.set_size(1)
    assert kind.get_strpad() == h5t.STR_NULLTERM
    texts = np.array([b"a", b"", b"c"])
    with h5py.File(path, "w") as file:
        h5d.create(file.id, b"a", kind, h5s.create_simple((3,))).write(
            h5s.ALL, h5s.ALL, texts, kind
        )
        np.testing.assert_array_equal(file["a"], texts)
    assert_same(path, texts)


def test_chunks_larger_than_the_dataset(path: Path) -> None:
    assert_same(path, write(path, chunks=(32, 64), maxshape=(None, None)))


# -- what the file says


def test_labels_sizes_and_attributes_are_found(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("g/a", data=np.zeros((2, 3, 4), "u1"), chunks=(1, 2, 2))
        for dimension, label in zip(dataset.dims, "ZYX", strict=True):
            dimension.label = label
        dataset.attrs["element_size_um"] = [2.0, 0.5, 0.25]
        dataset.attrs.update(
            {"name": "cells", "gain": np.float32(1.5), "bytes": np.bytes_("é".encode())}
        )
        dataset.attrs["reference"] = dataset.ref
        dataset.attrs["not a number"] = np.nan
        file.attrs["made by"] = "a microscope"
    array = read_file(path)
    assert array.layout.axes == ("z", "y", "x")
    assert array.scale == {
        a: (s, "micrometer") for a, s in zip("zyx", [2.0, 0.5, 0.25], strict=True)
    }
    assert array.attributes == {
        "hdf5": {
            **{"made by": "a microscope", "name": "cells", "gain": 1.5, "bytes": "é"},
            "element_size_um": [2.0, 0.5, 0.25],
        }
    }


def test_dimensions_without_a_label_are_numbered(path: Path) -> None:
    write(path)
    assert read_file(path).layout.axes == ("dim_0", "dim_1")
    with h5py.File(path, "a") as file:
        file["a"].dims[1].label = "x"
    assert read_file(path).layout.axes == ("dim_0", "x")


def test_scales_of_dimensions_name_them_and_are_no_other_datasets(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", data=PIXELS)
        for at, name in enumerate(("lat", "lon")):
            scale = file.create_dataset(name, data=np.arange(SHAPE[at]))
            scale.make_scale()
            dataset.dims[at].attach_scale(scale)
    assert read_file(path).layout.axes == ("lat", "lon")


def test_the_axis_tags_of_ilastik_name_dimensions(path: Path) -> None:
    with h5py.File(path, "w") as file:
        tags = {"axes": [{"key": "y", "typeFlags": 2}, {"key": "x", "typeFlags": 2}]}
        file.create_dataset("a", data=PIXELS).attrs["axistags"] = json.dumps(tags)
    assert read_file(path).layout.axes == ("y", "x")


def test_names_and_texts_that_are_no_utf_8_have_replaced_characters(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(b"\xb5m", data=PIXELS)
        dataset.attrs.create(b"\xb5", b"\xb5m", dtype=h5py.string_dtype())
        dataset.attrs["of one length"] = np.bytes_(b"\xb5m")
        h5py.h5ds.set_label(dataset.id, 0, b"\xb5m")
        file.create_dataset("b", data=PIXELS)
    assert refusal(path) == "img.h5: holds 2 datasets (b, \ufffdm): choose one with --dataset"
    assert refusal(path, "\udcb5m") == "img.h5: holds no dataset \udcb5m; it has b, \ufffdm"
    with h5py.File(path, "a") as file:
        del file["b"]
    array = read_file(path)
    assert array.layout.axes == ("\ufffdm", "dim_1")
    assert array.attributes == {"hdf5": {"\ufffd": "\ufffdm", "of one length": "\ufffdm"}}


class Counted(io.FileIO):
    """A file that counts what is read of it."""

    read_bytes = 0

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        self.read_bytes += count
        return count


@pytest.mark.parametrize("members", [{}, {"chunks": (100, 100), "compression": "gzip"}])
def test_only_headers_are_read(path: Path, members: dict[str, Any]) -> None:
    write(path, np.random.default_rng(1).integers(0, 255, (1000, 1000)).astype("u1"), **members)
    with Counted(str(path)) as file:
        read_hdf5("img.h5", file)
        assert 0 < file.read_bytes < 40_000 < path.stat().st_size // 20


def test_an_error_of_the_file_is_not_taken_for_that_of_its_format(path: Path) -> None:
    write(path)

    class Failing(Counted):
        def readinto(self, buffer: Any) -> int:
            raise ConnectionResetError(104, "reset by peer")

    with Failing(str(path)) as file, pytest.raises(ConnectionResetError):
        read_hdf5("img.h5", file)


# -- which dataset


def test_one_of_several_datasets_is_to_be_chosen(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name in ("b", "a", "g/c"):
            file.create_dataset(name, data=PIXELS + len(name))
    assert refusal(path) == "img.h5: holds 3 datasets (a, b, g/c): choose one with --dataset"
    assert refusal(path, "d") == "img.h5: holds no dataset d; it has a, b, g/c"
    store_array(path.parent / "array", path, read_file(path, "/g/c"))
    np.testing.assert_array_equal(pixels_of(path.parent / "array"), PIXELS + 3)


def test_links_into_other_files_are_not_followed(path: Path) -> None:
    other = path.with_name("other.h5")
    write(other)
    with h5py.File(path, "w") as file:
        file["a"] = h5py.ExternalLink(str(other), "/a")
    assert refusal(path) == "img.h5: holds no dataset"
    reason = f"a is a link into another file, {other}: index that file instead"
    assert refusal(path, "a") == f"img.h5: {reason}"


def test_links_within_a_file_are_followed(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["g/h/a"] = PIXELS
        file["g/h/b"] = PIXELS + 1
        file["absolute"] = h5py.SoftLink("/g/h/b")
        file["group"] = h5py.SoftLink("g")
        file["g/relative"] = h5py.SoftLink("./h/b")
        file["g/chained"] = h5py.SoftLink("/group/relative")
        file["hard"] = file["g/h/b"]
        file["group of hard"] = file["g/h"]
    same = read_file(path, "g/h/b").offsets
    for name in ("absolute", "group/h/b", "g/relative", "g/chained", "hard", "/group of hard/b"):
        assert read_file(path, name).offsets == same
    assert read_file(path, "g/h/a").offsets != same


@pytest.mark.parametrize("name", ["dangling", "circle", "g", "a/b", "to group"])
def test_links_that_lead_to_no_dataset_are_refused(path: Path, name: str) -> None:
    with h5py.File(path, "w") as file:
        file["a"] = PIXELS
        file.create_group("g")
        file["dangling"] = h5py.SoftLink("/elsewhere")
        file["circle"] = h5py.SoftLink("/circle")
        file["to group"] = h5py.SoftLink("/g")
    assert refusal(path, name) == f"img.h5: holds no dataset {name}; it has a"


def test_a_soft_link_into_another_file_is_refused_without_opening_it(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["outside"] = h5py.ExternalLink("other.h5", "/g")
        file["a"] = h5py.SoftLink("/outside/a")
    assert (
        refusal(path, "a")
        == "img.h5: a is a link into another file, other.h5: index that file instead"
    )


# -- refused


Written = Callable[[h5py.File], object]


def compact(file: h5py.File) -> None:
    created = h5p.create(h5p.DATASET_CREATE)
    created.set_layout(h5d.COMPACT)
    h5d.create(file.id, b"a", h5t.STD_U8LE, h5s.create_simple((4,)), created)


def external(file: h5py.File) -> None:
    file.create_dataset("a", (4,), "u1", external=[("elsewhere.raw", 0, 4)])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((4,), "u1")
    layout[:] = h5py.VirtualSource("other.h5", "a", (4,))
    file.create_virtual_dataset("a", layout)


def strings(padding: int) -> Written:
    def written(file: h5py.File) -> None:
        kind = h5t.C_S1.copy()
        kind.set_size(4)
        kind.set_strpad(padding)
        h5d.create(file.id, b"a", kind, h5s.create_simple((4,)))

    return written


def bits(file: h5py.File) -> None:
    h5d.create(file.id, b"a", h5t.STD_B8LE, h5s.create_simple((4,)))


def time(file: h5py.File) -> None:
    h5d.create(file.id, b"a", h5t.UNIX_D32LE, h5s.create_simple((4,)))


def twelve_bits(file: h5py.File) -> None:
    kind = h5t.STD_U16LE.copy()
    kind.set_precision(12)
    h5d.create(file.id, b"a", kind, h5s.create_simple((4,)))


def unfiltered(**members: Any) -> Written:
    def written(file: h5py.File) -> None:
        dataset = file.create_dataset("a", (8,), "u1", chunks=(4,), **members)
        dataset.id.write_direct_chunk((4,), b"abcd", filter_mask=1)

    return written


def cut_short(file: h5py.File) -> None:
    file.create_dataset("a", (8,), "u2", chunks=(4,)).id.write_direct_chunk((4,), b"abcd")


def shuffled_twice(file: h5py.File) -> None:
    created = h5p.create(h5p.DATASET_CREATE)
    created.set_chunk((4,))
    created.set_deflate(1)
    created.set_filter(h5z.FILTER_SHUFFLE, h5z.FLAG_OPTIONAL, (2,))
    h5d.create(file.id, b"a", h5t.STD_U16LE, h5s.create_simple((4,)), created)


def with_filter(**members: Any) -> Written:
    return lambda file: file.create_dataset("a", data=PIXELS, chunks=(8, 16), **members)


def of_type(data_type: Any, shape: Any = (4,)) -> Written:
    return lambda file: file.create_dataset("a", shape, data_type)


REFUSED: dict[str, tuple[Written, str]] = {
    "compact": (compact, "the dataset a has a compact layout: write it again with h5repack"),
    "external": (external, "has its pixels in other files"),
    "virtual": (virtual, "has a virtual layout"),
    "by library": (with_filter(scaleoffset=0), "write it again with h5repack -f GZIP=5"),
    # h5repack leaves such datasets out.
    "by h5py": (unfiltered(compression="lzf"), "write it again with h5py, compression='gzip'"),
    "by plug-in": (with_filter(**hdf5plugin.Blosc2()), "h5py and the package hdf5plugin, comp"),
    "scaleoffset": (with_filter(scaleoffset=0), "has the filter scaleoffset (6)"),
    "blosc2": (with_filter(**hdf5plugin.Blosc2()), "has the filter blosc2 (32026)"),
    "bitshuffle": (with_filter(**hdf5plugin.Bitshuffle()), "bitshuffle (32008) with compression"),
    "bitshuffle of big-endian": (
        lambda file: file.create_dataset("a", (4,), ">u2", **hdf5plugin.Bitshuffle(cname="none")),
        "has the filter bitshuffle of elements that are big-endian, which is no Zarr codec",
    ),
    "shuffle": (shuffled_twice, "has the filter shuffle behind another"),
    "mask": (
        unfiltered(compression="gzip"),
        "1 chunks without some of its filters, the first of them 1:",
    ),
    "short": (cut_short, "has chunks of another size than that of their elements: it is damaged"),
    "vlen": (of_type(h5py.string_dtype()), "elements of the type string"),
    "terminated": (
        strings(h5t.STR_NULLTERM),
        "has strings that end at the first zero, and what is",
    ),
    "spaces": (strings(h5t.STR_SPACEPAD), "has strings filled with spaces, which would be part of"),
    "record": (of_type([("a", "u1"), ("b", "f4")]), "elements of the type compound"),
    "enum": (of_type(h5py.enum_dtype({"on": 3})), "elements of the type enum"),
    "wide bool": (of_type(h5py.enum_dtype({"FALSE": 0, "TRUE": 1}, "i2")), "type enum"),
    "time": (time, "elements of the type time (time), which is no Zarr data type"),
    "long double": (of_type(np.longdouble), "elements of the type float (float128)"),
    "field of bits": (bits, "elements of the type bitfield (uint8)"),
    "bits": (twelve_bits, "elements of the type integer (uint16)"),
    "scalar": (of_type("u1", ()), "has no dimensions or no elements"),
    "empty": (of_type("u1", (0, 3)), "has no dimensions or no elements"),
    "null": (lambda file: file.create_dataset("a", data=h5py.Empty("u1")), "no dimensions or"),
    "not written": (of_type("u1"), "the dataset a has no pixels yet"),
    "no dataset": (lambda file: file.create_group("g"), "img.h5: holds no dataset"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_says_why(path: Path, case: str) -> None:
    written, clause = REFUSED[case]
    with h5py.File(path, "w") as file:
        written(file)
    message = refusal(path)
    assert message.startswith("img.h5: ")
    assert clause in message


@pytest.mark.parametrize("kept", [0, 100, 3000])
def test_what_is_no_whole_hdf5_file_is_refused(path: Path, kept: int) -> None:
    write(path, chunks=(8, 16))
    path.write_bytes(path.read_bytes()[:kept])
    assert refusal(path).startswith("img.h5: cannot be read as HDF5: ")


def test_chunks_behind_the_end_of_a_file_are_refused(path: Path) -> None:
    write(path, chunks=(8, 16))
    offset = read_file(path).offsets[0, 0].tobytes()
    data = path.read_bytes()
    assert data.count(offset) == 1
    path.write_bytes(data.replace(offset, (1 << 40).to_bytes(8, "little")))
    assert refusal(path) == "img.h5: has chunks behind its end: it is damaged or not whole"


def test_more_chunks_than_have_an_index_are_refused(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("a", (1 << 30, 1 << 30), "u1", chunks=(1, 1))
    assert "has 1152921504606846976 chunks, more than" in refusal(path)
