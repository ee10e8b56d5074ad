"""What a chunk's TIFF says of it as a picture: pixel size, unit and axes of its array."""

import io
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tifffile
from builders.documents import array, group
from builders.fake_stores import MemoryStore
from builders.views import content_of

from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view

AXES = [
    {"name": "t", "type": "time", "unit": "millisecond"},
    {"name": "c", "type": "channel"},
    {"name": "z", "type": "space", "unit": "micrometer"},
    {"name": "y", "type": "space", "unit": "micrometer"},
    {"name": "x", "type": "space", "unit": "micrometer"},
]
SCALE = [250.0, 1.0, 2.0, 0.5, 0.25]
SHAPE = (4, 2, 6, 8, 10)


def image(chunk_shape: tuple[int, ...], **members: Any) -> Folder:
    """The array `p/s0` of the pyramid `p`, of which one chunk is stored."""
    transformations = [
        {"type": "scale", "scale": SCALE},
        {"type": "translation", "translation": [0.0, 0.0, 5.0, 7.0, 9.0]},
    ]
    datasets = [{"path": "s0", "coordinateTransformations": transformations}]
    multiscales = [{"axes": AXES, "datasets": datasets}]
    channels = [{"label": name, "color": color} for name, color in (("a", "FF0000"), ("b", "0F0"))]
    ome = {"version": "0.5", "multiscales": multiscales, "omero": {"channels": channels}}
    keys: Mapping[str, bytes] = {
        "p/zarr.json": group(attributes={"ome": ome}),
        "p/s0/zarr.json": array(SHAPE, chunk_shape, **members),
    }
    return open_view("images", MemoryStore(keys), 60, root_name="root")


def chunk(root: Folder, key: str = "0/0/0/0/0") -> tifffile.TiffFile:
    return tifffile.TiffFile(io.BytesIO(content_of(root, f"p/s0/c/{key}.tiff")))


def pixels_per_unit(file: tifffile.TiffFile) -> tuple[float, float]:
    page = file.pages[0]
    assert isinstance(page, tifffile.TiffPage)
    return page.resolution


def test_a_chunk_has_the_pixel_size_and_unit_of_its_array() -> None:
    with chunk(image((1, 1, 3, 8, 10))) as file:
        told = file.imagej_metadata
        assert told is not None
        assert pixels_per_unit(file) == (4.0, 2.0)
        assert (told["unit"], told["spacing"]) == (r"\u00b5m", 2.0)  # as in Java
        assert (file.series[0].axes, file.series[0].shape) == ("ZYX", (3, 8, 10))


def test_frames_of_a_chunk_have_the_interval_of_its_array() -> None:
    with chunk(image((2, 2, 3, 8, 10))) as file:
        told = file.imagej_metadata
        assert told is not None
        assert (told["frames"], told["channels"], told["slices"]) == (2, 2, 3)
        assert told["finterval"] == 0.25
        assert file.ome_metadata is not None
        assert 'PhysicalSizeX="0.25"' in file.ome_metadata


def test_types_that_imagej_lacks_have_it_in_ome_xml() -> None:
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    with chunk(image((1, 1, 3, 8, 10), data_type="float64", codecs=codecs)) as file:
        assert file.ome_metadata is not None
        assert 'PhysicalSizeX="0.25"' in file.ome_metadata
        assert 'PhysicalSizeXUnit="\u00b5m"' in file.ome_metadata
        assert file.series[0].axes == "ZYX"


def test_no_chunk_says_that_it_lies_where_the_array_begins() -> None:
    with chunk(image((1, 1, 3, 8, 10)), "0/0/1/0/0") as file:
        assert "origin" not in file.pages[0].description  # type: ignore[union-attr]
    with chunk(image((1, 1, 3, 8, 10), data_type="float64", codecs=["bytes"])) as file:
        assert file.ome_metadata is not None
        assert "PositionX" not in file.ome_metadata


def test_dimension_names_alone_are_the_axes_of_a_chunk() -> None:
    document = array((4, 6, 8), (2, 6, 8), dimension_names=["time", "y", "x"])
    root = open_view("images", MemoryStore({"zarr.json": document}), 60, root_name="root")
    with tifffile.TiffFile(io.BytesIO(content_of(root, "c/0/0/0.tiff"))) as file:
        assert file.series[0].axes == "TYX"


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
def test_every_chunk_with_channels_before_slices_has_its_own_pixels(dtype: str) -> None:
    """The last plane stands twice in the file of such a chunk."""
    shape, chunks = (3, 5, 6, 7), (2, 3, 6, 4)
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    names = list("czyx")
    keys = {
        "zarr.json": array(shape, chunks, data_type=dtype, codecs=codecs, dimension_names=names)
    }
    boxes = {}
    for c, z, x in np.ndindex(2, 2, 2):
        box = values[c * 2 : c * 2 + 2, z * 3 : z * 3 + 3, :, x * 4 : x * 4 + 4]
        padded = np.zeros(chunks, dtype)
        padded[tuple(map(slice, box.shape))] = box
        keys[f"c/{c}/{z}/0/{x}"] = padded.tobytes()
        boxes[f"c/{c}/{z}/0/{x}.tiff"] = box
    root = open_view("images", MemoryStore(keys), 60, root_name="root")
    for path, box in boxes.items():
        found = tifffile.imread(io.BytesIO(content_of(root, path)))
        assert found.astype(dtype).tobytes() == box.tobytes(), path


def test_chunks_with_some_samples_of_a_pixel_are_planes_without_a_size() -> None:
    names = ["y", "x", "rgb"]
    document = json.loads(array((6, 8, 3), (6, 8, 1), dimension_names=names))
    data = struct.pack("48B", *range(48))
    keys = {"zarr.json": json.dumps(document).encode(), "c/0/0/1": data}
    root = open_view("images", MemoryStore(keys), 60, root_name="root")
    found = tifffile.imread(io.BytesIO(content_of(root, "c/0/0/1.tiff")))
    assert found.tobytes() == data
