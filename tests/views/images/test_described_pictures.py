"""What metadata say of pictures stands in every file of the view, from the document to the pixel."""

import io
import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import tifffile
from builders.documents import array, group
from builders.fake_stores import ForwardingStore, MemoryStore
from builders.readers import read_range
from builders.views import content_of, folder_at, opened, view_of
from imagecodecs import png_decode
from numcodecs import Zstd

from zarrfuse.formats.png import png_size
from zarrfuse.stores.cache import ByteCache
from zarrfuse.views.base import Folder

OME = "{http://www.openmicroscopy.org/Schemas/OME/2016-06}"
SIDE = 256
LABELS = ("nuclei", "membrane")
COLOURS = ("FF8000", "0000FF")
WINDOWS = ((100, 1100), (0, 2000))
SCALE = [1.0, 2.0, 0.5, 0.25]
ORIGIN = [0.0, 10.0, 30.0, -20.0]


view = partial(view_of, "images", ttl_s=float("inf"), root_name="root")


def levels() -> list["np.ndarray[Any, Any]"]:
    """Two levels of (c, z, y, x) whose pixels differ, so that it is seen which one was read."""
    fine = np.arange(2 * 3 * SIDE * SIDE, dtype="u2").reshape(2, 3, SIDE, SIDE) % 1999
    return [fine, fine[:, :, ::2, ::2] // 2]


def json_of(value: object) -> bytes:
    return json.dumps(value).encode()


def attributes(version: str) -> dict[str, Any]:
    kinds = {"c": "channel"}
    axes = [
        {"name": name, "type": kinds.get(name, "space")}
        | ({} if name in kinds else {"unit": "micrometer"})
        for name in "czyx"
    ]
    datasets = [
        {
            "path": f"s{level}",
            "coordinateTransformations": [
                {"type": "scale", "scale": [1.0, 2.0, 0.5 * 2**level, 0.25 * 2**level]},
                {"type": "translation", "translation": ORIGIN},
            ],
        }
        for level in range(2)
    ]
    channels = [
        {
            "label": label,
            "color": color,
            "active": True,
            "window": {"min": 0, "max": 65535, "start": start, "end": end},
        }
        for label, color, (start, end) in zip(LABELS, COLOURS, WINDOWS, strict=True)
    ]
    multiscale = {"version": version, "name": "embryo", "axes": axes, "datasets": datasets}
    of_all = {"multiscales": [multiscale]}
    said = {**of_all, "omero": {"channels": channels}}
    return said if version == "0.4" else {"ome": {"version": version, **said}}


LITTLE = [{"name": "bytes", "configuration": {"endian": "little"}}]


def of_v3(group_members: Mapping[str, Any], **members: Any) -> dict[str, bytes]:
    keys = {"g/zarr.json": group(**group_members)}
    for level, pixels in enumerate(levels()):
        chunk = (1, 1, 64, 64)
        keys[f"g/s{level}/zarr.json"] = array(
            pixels.shape, chunk, data_type="uint16", codecs=LITTLE, **members
        )
        for at in np.ndindex(2, 3, pixels.shape[2] // 64, pixels.shape[3] // 64):
            c, z, y, x = at
            box = pixels[c, z, y * 64 : y * 64 + 64, x * 64 : x * 64 + 64]
            keys[f"g/s{level}/c/{c}/{z}/{y}/{x}"] = box.tobytes()
    return keys


def of_v2() -> dict[str, bytes]:
    keys = {
        "g/.zgroup": b'{\n  "zarr_format":2}\n',
        "g/.zattrs": json_of(attributes("0.4")),
    }
    for level, pixels in enumerate(levels()):
        document = {
            **{"zarr_format": 2, "shape": pixels.shape, "chunks": (1, 1, 64, 64), "dtype": ">u2"},
            **{"compressor": None, "fill_value": 0, "order": "C", "filters": None},
            "dimension_separator": "/",
        }
        keys[f"g/s{level}/.zarray"] = json_of(document)
        for at in np.ndindex(2, 3, pixels.shape[2] // 64, pixels.shape[3] // 64):
            c, z, y, x = at
            box = pixels[c, z, y * 64 : y * 64 + 64, x * 64 : x * 64 + 64]
            keys[f"g/s{level}/{c}/{z}/{y}/{x}"] = box.astype(">u2").tobytes()
    return keys


MULTISCALE = {
    "name": "example.multiscale-arrays",
    "must_understand": False,
    "configuration": {"multiscale": {"datasets": ["s0", "s1"]}},
}


def pyramids() -> dict[str, dict[str, bytes]]:
    """The same pyramid in the three ways to describe one."""
    named = {"dimension_names": list("czyx")}
    return {
        "OME-NGFF 0.4": of_v2(),
        "OME-NGFF 0.5": of_v3({"attributes": attributes("0.5")}),
        "example.multiscale-arrays": of_v3({"extensions": [MULTISCALE]}, **named),
    }


def xml_of(file: tifffile.TiffFile) -> ElementTree.Element:
    assert file.ome_metadata is not None
    pixels = ElementTree.fromstring(file.ome_metadata).find(f"{OME}Image/{OME}Pixels")
    assert pixels is not None
    return pixels


@pytest.mark.parametrize("kind", pyramids())
def test_a_pyramid_is_tiled_with_its_levels_in_subifds(kind: str) -> None:
    data = content_of(view(pyramids()[kind]), "g/g.ome.tiff")
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        assert len(file.pages) == 6
        for page in file.pages:
            assert page.is_tiled
            assert len(page.subifds) == 1
            assert page.pages[0].is_tiled
        (series,) = file.series
        assert series.axes == "CZYX"
        for level, pixels in zip(series.levels, levels(), strict=True):
            assert np.array_equal(level.asarray(), pixels)


@pytest.mark.parametrize("kind", ["OME-NGFF 0.4", "OME-NGFF 0.5"])
@pytest.mark.parametrize("path", ["g/g.ome.tiff"])
def test_names_colours_sizes_and_origin_stand_in_the_xml(kind: str, path: str) -> None:
    with tifffile.TiffFile(io.BytesIO(content_of(view(pyramids()[kind]), path))) as file:
        pixels = xml_of(file)
        assert '<Image ID="Image:0" Name="embryo">' in (file.ome_metadata or "")
    channels = pixels.findall(f"{OME}Channel")
    assert [channel.get("Name") for channel in channels] == list(LABELS)
    colours = [f"{int(channel.get('Color', '0')) & 0xFFFFFFFF:08X}" for channel in channels]
    assert colours == [f"{colour}FF" for colour in COLOURS]
    assert [float(pixels.get(f"PhysicalSize{axis}", "nan")) for axis in "XYZ"] == SCALE[:0:-1]
    assert {pixels.get(f"PhysicalSize{axis}Unit", "µm") for axis in "XYZ"} == {"µm"}
    planes = {
        (int(plane.get("TheC", -1)), int(plane.get("TheZ", -1))): plane
        for plane in pixels.findall(f"{OME}Plane")
    }
    assert planes.keys() == {(c, z) for c in range(2) for z in range(3)}
    for (_, z), plane in planes.items():
        found = [float(plane.get(f"Position{axis}", "nan")) for axis in "XYZ"]
        assert found == [-20.0, 30.0, 10.0 + 2 * z]
        assert {plane.get(f"Position{axis}Unit") for axis in "XYZ"} == {"µm"}


@pytest.mark.parametrize("kind", ["OME-NGFF 0.4", "OME-NGFF 0.5"])
def test_imagej_is_told_of_axes_sizes_colours_and_windows(kind: str) -> None:
    data = content_of(view(pyramids()[kind]), "g/s0/s0.tiff")
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        told = file.imagej_metadata
        x_pixels, x_unit = file.pages[0].tags["XResolution"].value
        y_pixels, y_unit = file.pages[0].tags["YResolution"].value
    assert told is not None
    assert (told["channels"], told["slices"], told["hyperstack"]) == (2, 3, True)
    assert told["spacing"] == 2.0
    assert (x_pixels / x_unit, y_pixels / y_unit) == (4.0, 2.0)
    assert list(told["Ranges"]) == [float(value) for window in WINDOWS for value in window]
    brightest = [bytes(table[:, 255]).hex().upper() for table in told["LUTs"]]
    assert brightest == list(COLOURS)


def test_imagej_is_told_of_axes_by_dimension_names_and_of_the_range_by_statistics() -> None:
    statistics = {
        "name": "example.array-statistics",
        "configuration": {"min": 5, "max": 1500},
        "must_understand": False,
    }
    names = {"dimension_names": list("czyx"), "extensions": [statistics]}
    root = view(of_v3({"extensions": [MULTISCALE]}, **names))
    with tifffile.TiffFile(io.BytesIO(content_of(root, "g/s0/s0.tiff"))) as file:
        told = file.imagej_metadata
    assert told is not None
    assert (told["channels"], told["slices"]) == (2, 3)
    assert list(told["Ranges"]) == [5.0, 1500.0] * 2
    picture = png_of(root, "g/s0/s0.png")
    middle = levels()[0][:, 1].astype(float)
    bright = ((middle - 5) / 1495).clip(0, 1)
    assert np.abs(picture[..., 0] - bright[0] * 255).max() <= 1
    assert np.abs(picture[..., 1] - bright[1] * 255).max() <= 1


def png_of(root: Folder, path: str) -> "np.ndarray[Any, Any]":
    picture = png_decode(content_of(root, path))
    assert picture.dtype == np.uint8
    return picture.astype(float)


@pytest.mark.parametrize("kind", ["OME-NGFF 0.4", "OME-NGFF 0.5"])
def test_a_png_shows_the_middle_plane_in_the_colours_and_windows_of_omero(kind: str) -> None:
    pixels = png_of(view(pyramids()[kind]), "g/s0/s0.png")
    expected = np.zeros((SIDE, SIDE, 3))
    for plane, (low, high), colour in zip(levels()[0][:, 1], WINDOWS, COLOURS, strict=True):
        bright = ((plane.astype(float) - low) / (high - low)).clip(0, 1)
        expected += bright[..., None] * np.array(list(bytes.fromhex(colour)))
    assert np.abs(pixels - expected.clip(0, 255)).max() <= 1


class ReadChunks(ForwardingStore):
    """Takes down which chunks are read."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        super().__init__(MemoryStore(keys))
        self.read: set[str] = set()

    def before(self, call: str, key: str, wait: bool) -> None:
        """Take it down."""
        if call == "readinto" and "/c/" in key:
            self.read.add(key)


def large(
    shapes: Mapping[str, tuple[int, ...]], chunk: tuple[int, ...], slow: Sequence[str] = ()
) -> ReadChunks:
    """Levels of uint16 below `g` whose chunks are all stored, and all the same; some are `slow`."""
    values = np.random.default_rng(1).integers(0, 4000, chunk[-2:]).astype("<u2")
    stored = Zstd(level=1).encode(np.broadcast_to(values, chunk).tobytes())
    codecs = [*LITTLE, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
    datasets = {"multiscale": {"datasets": list(shapes)}}
    extension = {**MULTISCALE, "configuration": datasets}
    tiers = {"name": "example.tiered-storage", "configuration": {"slow-arrays": list(slow)}}
    extensions = [extension, *([{**tiers, "must_understand": False}] if slow else [])]
    keys = {"g/zarr.json": group(extensions=extensions)}
    for name, shape in shapes.items():
        keys[f"g/{name}/zarr.json"] = array(
            shape, chunk, data_type="uint16", codecs=codecs, dimension_names=list("zyx")
        )
        for at in np.ndindex(*(-(-n // c) for n, c in zip(shape, chunk, strict=True))):
            keys[f"g/{name}/c/{'/'.join(map(str, at))}"] = stored
    return ReadChunks(keys)


@pytest.mark.parametrize("chunk", [(1, 1024, 1024), (4, 512, 1024)])
def test_a_png_of_an_array_without_levels_decodes_64_mib_of_chunks(chunk: tuple[int, ...]) -> None:
    store = large({"a": (8, 8192, 12288)}, chunk)
    cache = ByteCache(1 << 30)
    root = view(store, cache=cache)
    size = folder_at(root, "g/a").lookup("a.png").size
    assert not store.read
    picture = png_of(root, "g/a/a.png")
    height, width = picture.shape
    assert max(height, width) == 1024
    assert size == png_size(width, height, 1)
    decoded = len(store.read) * int(np.prod(chunk)) * 2
    assert 32 << 20 < decoded <= 64 << 20
    assert cache.status()["bytes"] == decoded
    assert {key.split("/")[3] for key in store.read} == {str(4 // chunk[0])}


def test_a_png_is_made_of_the_coarsest_level_that_is_large_enough() -> None:
    shapes = {f"s{n}": (2, 4096 >> n, 4096 >> n) for n in range(5)}
    store = large(shapes, (1, 256, 256))
    root = view(store)
    for level, source, side in (
        *((0, "s2", 1024), (1, "s2", 1024), (2, "s2", 1024)),
        *((3, "s3", 512), (4, "s4", 256)),
    ):
        store.read.clear()
        root = view(store)
        picture = png_of(root, f"g/s{level}/s{level}.png")
        assert picture.shape == (side, side)
        assert {key.split("/")[1] for key in store.read} == {source}
        assert len(store.read) == (side // 256) ** 2


def test_levels_on_slow_storage_are_in_no_picture_and_not_read_ahead() -> None:
    shapes = {f"s{n}": (2, 2048 >> n, 2048 >> n) for n in range(3)}
    store = large(shapes, (1, 256, 256), slow=["s1"])
    root = view(store)
    assert "s1.png" not in folder_at(root, "g/s1").list()
    assert png_of(root, "g/s0/s0.png").shape == (1024, 1024)
    assert {key.split("/")[1] for key in store.read} == {"s0"}
    store.read.clear()
    assert png_of(root, "g/s2/s2.png").shape == (512, 512)
    assert {key.split("/")[1] for key in store.read} == {"s2"}
    store.read.clear()
    with opened(root, "g/g.ome.tiff") as reader:
        half = reader.size // 2
        for at in range(0, half, 128 << 10):
            read_range(reader, at, min(128 << 10, half - at))
        time.sleep(0.3)
        kept = set(store.read)
    tiles = 2 * sum((shape[1] // 256) ** 2 for shape in shapes.values())
    assert len(kept) <= tiles // 2 + 8


def test_the_offset_of_an_array_without_units_is_its_origin() -> None:
    offset = {"name": "example.offset", "configuration": {"offset": [0, 1, 10, -20]}}
    members = {"dimension_names": list("czyx"), "extensions": [offset]}
    root = view(of_v3({"extensions": [MULTISCALE]}, **members))
    with tifffile.TiffFile(io.BytesIO(content_of(root, "g/g.ome.tiff"))) as file:
        planes = xml_of(file).findall(f"{OME}Plane")
    for plane in planes:
        found = [float(plane.get(f"Position{axis}", "nan")) for axis in "XYZ"]
        assert found == [20.0, -10.0, int(plane.get("TheZ", -1)) - 1.0]
        assert {plane.get(f"Position{axis}Unit") for axis in "XYZ"} == {"reference frame"}
    assert len(planes) == 6


def test_of_two_pyramids_each_has_its_file() -> None:
    said = attributes("0.5")
    (both,) = said["ome"]["multiscales"]
    coarse = {**both, "datasets": both["datasets"][1:]}
    said["ome"]["multiscales"] = [both, coarse]
    root = view(of_v3({"attributes": said}))
    files = [name for name in folder_at(root, "g").list() if name.endswith(".ome.tiff")]
    assert sorted(files) == ["g.1.ome.tiff", "g.ome.tiff"]
    for name, expected in (("g", levels()), ("g.1", levels()[1:])):
        with tifffile.TiffFile(io.BytesIO(content_of(root, f"g/{name}.ome.tiff"))) as file:
            found = [level.asarray() for level in file.series[0].levels]
        assert [level.shape for level in found] == [level.shape for level in expected]
        assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


def test_the_first_seven_active_channels_are_shown() -> None:
    document = array((9, 4, 4), (1, 4, 4), dimension_names=list("cyx"))
    channels = [
        {"color": "FFFFFF" if index in (0, 8) else "000040", "window": {"start": 0, "end": 10}}
        | ({"active": False} if index == 0 else {})
        for index in range(9)
    ]
    multiscales = [{"axes": [{"name": name} for name in "cyx"], "datasets": [{"path": "a"}]}]
    said = {"ome": {"version": "0.5", "multiscales": multiscales, "omero": {"channels": channels}}}
    keys = {"g/zarr.json": group(attributes=said), "g/a/zarr.json": document}
    keys |= {f"g/a/c/{index}/0/0": bytes([5]) * 16 for index in range(9)}
    picture = png_of(view(keys), "g/a/a.png")
    # Seven times half of 0x40; neither the first, which is not active, nor the ninth.
    assert np.unique(picture.reshape(-1, 3), axis=0).tolist() == [[0, 0, 7 * 32]]
