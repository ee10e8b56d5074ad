"""What was written as Zarr v2 is read through the `plain` view as zarr-python reads it from the store."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import xarray as xr
import zarr
from numcodecs import Delta, Zlib, Zstd
from zarr.codecs import BytesCodec, ZstdCodec
from zarr.dtype import VariableLengthBytes, VariableLengthUTF8

import zarrfuse


@pytest.fixture(autouse=True)
def warned() -> Iterator[None]:
    """zarr-python warns of data types that Zarr v3 has not specified."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


TEXTS = [["", "a", "déjà"], ["b" * 300, "\0x", "€"]]
ENCODED = [[text.encode() for text in row] for row in TEXTS]
TIMES = [[0, 1, -1], [10**9, 7, -(2**63)]]
KINDS: dict[str, tuple[Any, Any]] = {
    "strings": (np.array(TEXTS, dtype=object), VariableLengthUTF8()),
    "bytes": (np.array(ENCODED, dtype=object), VariableLengthBytes()),
    "S300": (np.array(ENCODED, dtype="S300"), None),
    "<U300": (np.array(TEXTS, dtype="<U300"), None),
    ">U3": (np.array(TEXTS, dtype=">U3"), None),
    **{
        dtype: (np.array(TIMES).astype(dtype), None)
        for dtype in ("<M8[ns]", ">M8[10us]", "<M8[D]", "<m8[s]", "<m8")
    },
}


def written(folder: Path, name: str, values: Any, dtype: Any, zarr_format: Any) -> zarr.Array[Any]:
    """An array of several chunks, the last of which are not stored."""
    big = {"serializer": BytesCodec(endian="big")} if str(values.dtype)[0] == ">" else {}
    made = zarr.create_array(
        folder,
        name=name,
        shape=(4, 3),
        chunks=(2, 2),
        dtype=values.dtype if dtype is None else dtype,
        zarr_format=zarr_format,
        compressors=Zstd(level=1) if zarr_format == 2 else ZstdCodec(level=1),
        **(big if zarr_format == 3 else {}),
    )
    made[:2] = values
    return made


def said(document: bytes) -> dict[str, Any]:
    """What a `zarr.json` says; an empty configuration says nothing."""
    members = json.loads(document)
    for codec in members["codecs"]:
        if not codec.get("configuration"):
            codec.pop("configuration", None)
    return dict(members)


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_what_zarr_python_would_have_written_as_zarr_v3(
    kind: str, tmp_path: Path
) -> None:
    values, dtype = KINDS[kind]
    as_v2 = written(tmp_path / "v2", "a", values, dtype, 2)
    written(tmp_path / "v3", "a", values, dtype, 3)
    store = zarrfuse.open_store(tmp_path / "v2")
    shown = store.get_sync("a/zarr.json")
    assert shown is not None
    assert said(shown.to_bytes()) == said((tmp_path / "v3/a/zarr.json").read_bytes())
    for key in ("0/0", "0/1"):
        stored = (tmp_path / "v2/a" / key.replace("/", ".")).read_bytes()
        assert stored == (tmp_path / "v3/a/c" / key).read_bytes()
    found = zarr.open_array(store, path="a", mode="r")
    assert found.metadata.zarr_format == 3
    np.testing.assert_array_equal(found[...], as_v2[...])
    np.testing.assert_array_equal(found[:2], values)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "zarr_format, options",
    [
        (2, {"compressors": Zlib(level=1)}),
        (2, {"filters": [Delta("<i4", "<i2")], "compressors": Zstd(level=1)}),
        (3, {"compressors": Zstd(level=1)}),
    ],
    ids=["zlib", "delta", "zstd"],
)
def test_numbers_are_the_same_whether_their_array_stays_or_not(
    tmp_path: Path, zarr_format: int, options: dict[str, Any], order: Any
) -> None:
    values = np.arange(35, dtype="<i4").reshape(5, 7)
    made = zarr.create_group(tmp_path, zarr_format=2)
    made.create_array("a", shape=(5, 7), chunks=(2, 3), dtype="<i4", order=order, **options)
    made["a"][...] = values
    [(name, found)] = zarr.open_group(zarrfuse.open_store(tmp_path), mode="r").members()
    assert (name, found.metadata.zarr_format) == ("a", zarr_format)
    np.testing.assert_array_equal(found[...], values)


def dataset() -> xr.Dataset:
    """Variables of every type that xarray stores, most with something missing."""
    pixels = np.array([[1, np.nan, 3], [4, 5, 0]])
    grid = ("y", "x")
    return xr.Dataset(
        {
            "float": (grid, pixels),
            "marked": (grid, pixels, {}, {"_FillValue": -1.0}),
            "packed": (grid, pixels, {}, {"dtype": "i2", "_FillValue": -9, "scale_factor": 0.5}),
            "unsigned": (grid, pixels, {}, {"dtype": "u1", "_FillValue": 255}),
            "complex": (grid, pixels * 1j, {}, {"_FillValue": complex(0, 1)}),
            "whole": (grid, np.arange(6).reshape(2, 3)),
            "bool": ("y", np.array([True, False])),
            "text": ("y", np.array(["", "déjà"])),
            "object": ("y", np.array(["a", ""], dtype=object)),
            "bytes": ("y", np.array([b"a", b"bc"])),
            "scalar": ((), 1.5),
        },
        {"y": np.array(["2020-01-01", "NaT"], "M8[ns]"), "x": [10, 20, 30]},
        {"title": "of all types"},
    )


@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_xarray_reads_the_same(tmp_path: Path, zarr_format: Any, consolidated: bool) -> None:
    dataset().to_zarr(tmp_path / "s", zarr_format=zarr_format, consolidated=consolidated)
    expected = xr.open_zarr(tmp_path / "s", chunks=None).load()
    found = xr.open_zarr(zarrfuse.open_store(tmp_path / "s"), chunks=None).load()
    xr.testing.assert_identical(found, expected)
    assert {name: v.dtype for name, v in found.items()} == {
        name: v.dtype for name, v in expected.items()
    }


def test_xarray_reads_the_same_where_its_fill_value_keeps_the_store_as_it_is(
    tmp_path: Path,
) -> None:
    made = zarr.create_group(tmp_path, zarr_format=2)
    names = {"_ARRAY_DIMENSIONS": ["x"]}
    made.create_array("a", data=np.array(["", "b"]), attributes=names, fill_value="")
    expected = xr.open_zarr(tmp_path, chunks=None, consolidated=False)
    found = xr.open_zarr(zarrfuse.open_store(tmp_path), chunks=None, consolidated=False)
    xr.testing.assert_identical(found.load(), expected.load())


def test_a_dimension_named_twice_is_one_that_tensorstore_and_xarray_read(tmp_path: Path) -> None:
    made = zarr.create_group(tmp_path / "s", zarr_format=2)
    names = {"_ARRAY_DIMENSIONS": ["x", "x"]}
    made.create_array("a", data=np.eye(3), attributes=names, fill_value=None)
    store = zarrfuse.open_store(tmp_path / "s")
    shown = store.get_sync("a/zarr.json")
    assert shown is not None
    (tmp_path / "zarr.json").write_bytes(shown.to_bytes())
    kvstore = {"driver": "file", "path": f"{tmp_path}/"}
    opened = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
    assert list(opened.domain.labels) == ["x", ""]
    found = xr.open_zarr(store, chunks=None, consolidated=False)["a"]
    np.testing.assert_array_equal(found, np.eye(3))
