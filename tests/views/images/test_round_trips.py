"""Every file of the `images` view holds the pixels that zarr-python reads from the same store.

In process, through the readers of the view: what a mount adds is in `tests/mounts`.
"""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
from builders.array_layouts import OTHER_TYPES, TIFF_TYPES, chunk_boxes, chunk_file
from builders.documents import array
from builders.fake_stores import MemoryStore
from builders.images_view import (
    ALL,
    Written,
    assert_npy,
    assert_tiff,
    images,
    paths,
    pyramid,
    rendering,
)
from builders.views import FOREVER, content_of, folder_at

from zarrfuse.cli.demo_dataset import demo_image
from zarrfuse.errors import NotFound, NotSupported
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.choice import open_view

# That other programs may not know all of these codecs.
pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")

WITH_TIFF = [name for name, layout in ALL.items() if layout.has_tiff]


@pytest.mark.parametrize("name", ALL)
def test_numpy_reads_what_zarr_python_reads(written: Written, name: str) -> None:
    assert_npy(content_of(written.root, rendering(name, "npy")), written.arrays[name][...])


@pytest.mark.parametrize("name", WITH_TIFF)
def test_tifffile_reads_what_zarr_python_reads(written: Written, name: str) -> None:
    assert_tiff(content_of(written.root, rendering(name, "tiff")), written.arrays[name][...])


@pytest.mark.parametrize("name", WITH_TIFF)
def test_each_chunk_file_is_the_crop_of_its_chunk(written: Written, name: str) -> None:
    array = written.arrays[name]
    values = np.asarray(array[...])
    for coords, box in chunk_boxes(array):
        assert_tiff(content_of(written.root, f"{name}/{chunk_file(coords)}"), values[box])


@pytest.mark.parametrize("name", WITH_TIFF)
def test_a_chunk_folder_lists_every_chunk_of_the_grid(written: Written, name: str) -> None:
    files = {f"{name}/{chunk_file(coords)}" for coords, _ in chunk_boxes(written.arrays[name])}
    assert files <= set(paths(folder_at(written.root, name)))


@pytest.mark.parametrize("name", [name for name in ALL if name not in WITH_TIFF])
def test_what_tiff_has_no_type_or_no_pixels_for_is_shown_as_npy_only(
    written: Written, name: str
) -> None:
    shown = set(paths(folder_at(written.root, name)))
    assert rendering(name, "npy") in shown
    assert not [path for path in shown if path.endswith((".tiff", ".png"))]
    with pytest.raises(NotFound):
        folder_at(written.root, name).lookup(rendering(name, "tiff").rpartition("/")[2])


CORE = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "r8", "r24"),
)
"""Zarr v3 core specification, Core data types."""


@pytest.mark.parametrize("data_type", CORE)
def test_of_every_core_type_facts_say_which_files_there_are_and_why_not_others(
    data_type: str,
) -> None:
    fill = {"c": [0.0, 0.0], "r": [0] * (int(data_type[1:]) // 8 if data_type[0] == "r" else 0)}
    value = False if data_type == "bool" else fill.get(data_type[0], 0)
    bits = {"endian": "little"}
    document = array(
        data_type=data_type,
        fill_value=value,
        codecs=[{"name": "bytes", "configuration": bits}],
    )
    root = images(MemoryStore({"a/zarr.json": document}))
    shown = set(folder_at(root, "a").list())
    told = folder_at(root, "a").facts(None).to_json()["renderings"]
    if data_type in TIFF_TYPES:
        assert shown == {"a.tiff", "a.npy", "a.png", "c", "zarr.json"}
        assert all(isinstance(size, int) for size in told.values())
    else:
        assert shown == {"a.npy", "zarr.json"}
        assert isinstance(told.pop("a.npy"), int)
        assert told.keys() == {"a.tiff", "a.png", "c"}
        assert all(isinstance(why, str) and why for why in told.values())
    for name in sorted(shown - {"c"}):
        if data_type[0] == "r" and name == "a.npy":  # which zarr-python does not know
            with pytest.raises(NotSupported):
                content_of(root, f"a/{name}")
        else:
            content_of(root, f"a/{name}")


def test_chunks_that_are_tiff_in_parts_hold_the_same_pixels(demo: Path) -> None:
    store = LocalStore(str(demo))
    root = images(store)
    image = demo_image()
    expected = {
        **dict.fromkeys(("zstd", "raw", "strips"), image),
        **dict.fromkeys(("header", "checksum"), (image >> 8).astype(np.uint8)),
    }
    for name, pixels in expected.items():
        path = f"cells.zarr/{name}"
        assert_tiff(content_of(root, rendering(path, "tiff")), pixels)
        assert_npy(content_of(root, rendering(path, "npy")), pixels)
        for row, column in np.ndindex(2, 3):
            crop = pixels[row * 512 :, column * 512 :][:512, :512]
            assert_tiff(content_of(root, f"{path}/c/{row}/{column}.tiff"), crop)
    chunks = open_view("chunks", store, FOREVER)
    stored = content_of(chunks, "cells.zarr/zstd/c/0/1.tiff")
    assert content_of(root, "cells.zarr/zstd/c/0/1.tiff") == stored
    store.close()


def test_a_pyramid_holds_the_pixels_of_its_levels(tmp_path: Path) -> None:
    levels = pyramid(tmp_path)
    store = LocalStore(str(tmp_path))
    data = content_of(images(store), "p/p.ome.tiff")
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        found = [level.asarray() for level in file.series[0].levels]
    assert len(found) == len(levels)
    for one, values in zip(found, levels, strict=True):
        np.testing.assert_array_equal(one, values)
    store.close()


def test_documents_are_as_they_are_stored(written: Written) -> None:
    shown = content_of(written.root, "v3/uint16/zarr.json")
    assert shown == (written.folder / "v3/uint16/zarr.json").read_bytes()
    assert json.loads(content_of(written.root, "v2/uint16/.zarray"))["zarr_format"] == 2


def test_every_type_is_in_the_matrix() -> None:
    types = {np.dtype(layout.dtype).newbyteorder("=") for layout in ALL.values()}
    assert types >= {np.dtype(name) for name in (*TIFF_TYPES, *OTHER_TYPES)}
