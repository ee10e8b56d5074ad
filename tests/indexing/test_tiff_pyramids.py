"""Files with smaller levels become a group with the levels "0", "1" and so on, whoever wrote them."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from builders.mounts import zarrfuse as command
from builders.tiff_files import RGB, by_gdal, by_tifffile, by_vips, pixels

import zarrfuse
from zarrfuse.check.survey import Survey
from zarrfuse.stores.opening import open_store

Write = Callable[[Path, int], None]


def in_subifds(shape: tuple[int, ...], **options: Any) -> Write:
    """A file of tifffile whose levels are SubIFDs, as Bio-Formats writes them."""
    of_all = {"tile": (32, 48), "photometric": "minisblack", "compression": "zstd"}

    def write(path: Path, seed: int) -> None:
        data = pixels(shape, "uint16", seed)
        with tifffile.TiffWriter(path, ome="ome" in path.name, bigtiff=True) as tiff:
            tiff.write(data, subifds=2, **of_all, **options)
            for step in (2, 4):
                tiff.write(data[..., ::step, ::step], subfiletype=1, **of_all)

    return write


def with_overviews(*options: str) -> Write:
    """A file of GDAL; its overviews are pages."""
    whole = by_gdal((200, 300), "uint16", "TILED=YES", "BLOCKXSIZE=48", "BLOCKYSIZE=32", *options)

    def write(path: Path, seed: int) -> None:
        whole(path, seed)
        subprocess.run(["gdaladdo", "-q", path, "2", "4"], check=True)

    return write


def cloud_optimized(path: Path, seed: int) -> None:
    source = path.with_name(".source.tif")
    by_tifffile((600, 500))(source, seed)
    options = ("-co", "BLOCKSIZE=128", "-co", "COMPRESS=DEFLATE")
    subprocess.run(["gdal_translate", "-q", "-of", "COG", *options, source, path], check=True)
    source.unlink()


def slide(path: Path, seed: int) -> None:
    """A file in the style of Aperio: levels are pages, and so are thumbnail, label and macro."""
    data = pixels((400, 500, 3), "uint8", seed)
    tiled: Any = {"photometric": "rgb", "compression": "jpeg", "metadata": None, "tile": (128, 128)}
    strip: Any = {"photometric": "rgb", "compression": "jpeg", "metadata": None, "rowsperstrip": 99}
    head = "Aperio Image Library v11.2.1\n"
    with tifffile.TiffWriter(path) as tiff:
        title = "500x400 [0,0 500x400] (128x128) JPEG/RGB Q=70|AppMag = 20|MPP = 0.499"
        tiff.write(data, description=head + title, **tiled)
        tiff.write(data[::5, ::5].copy(), description=head + "thumbnail", **strip)
        tiff.write(data[::2, ::2].copy(), description=head + "500x400 -> 250x200", **tiled)
        for kind, number in (("label", 1), ("macro", 9)):
            tiff.write(data[:50, :60], description=head + kind, subfiletype=number, **strip)


VIPS = ("--pyramid", "--tile", "--tile-width", "64", "--tile-height", "64")
FILES: dict[str, Write] = {
    "subifds": in_subifds((200, 300)),
    "overviews": with_overviews("COMPRESS=LZW"),
    "cloud-optimized": cloud_optimized,
    "vips-pages": by_vips((200, 300), "uint16", *VIPS, "--compression", "deflate"),
    "vips-subifds": by_vips((200, 300), "uint16", *VIPS, "--subifd"),
    "vips-colours": by_vips((200, 300, 3), "uint8", *VIPS, "--subifd", "--compression", "zstd"),
    "vips-jpeg": by_vips((200, 300, 3), "uint8", *VIPS, "--compression", "jpeg"),
    "slide": slide,
}


def indexed(tmp_path: Path, write: Write, name: str = "t{}.tif") -> tuple[Path, Path]:
    """(folder of two files, dataset)."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(2):
        write(folder / name.format(number), number)
    return folder, Path(zarrfuse.index(folder, jobs=1))


def in_front(levels: np.ndarray) -> np.ndarray:
    """Samples as channels."""
    return np.moveaxis(levels, -1, 0) if levels.shape[-1] == 3 else levels


@pytest.mark.parametrize("name", FILES)
def test_each_level_is_an_array_of_an_ome_ngff_image(tmp_path: Path, name: str) -> None:
    folder, dataset = indexed(tmp_path, FILES[name])
    group = zarr.open_group(zarrfuse.open_store(dataset), mode="r")
    for number in range(2):
        with tifffile.TiffFile(folder / f"t{number}.tif") as tiff:
            levels = [in_front(level.asarray()) for level in tiff.series[0].levels]
        assert len(levels) >= 2
        assert sorted(group.array_keys()) == [str(level) for level in range(len(levels))]
        for level, expected in enumerate(levels):
            np.testing.assert_array_equal(group[str(level)][number], expected)
    (multiscale,) = group.attrs["ome"]["multiscales"]
    names = [axis["name"] for axis in multiscale["axes"]]
    assert names == (["t", "c", "y", "x"] if levels[0].ndim == 3 else ["t", "y", "x"])
    steps = [it["coordinateTransformations"][0]["scale"] for it in multiscale["datasets"]]
    for step, expected in zip(steps, levels, strict=True):
        assert step[-1] / steps[0][-1] == levels[0].shape[-1] / expected.shape[-1]
        assert step[-2] / steps[0][-2] == levels[0].shape[-2] / expected.shape[-2]
        assert step[:-2] == [1.0] * (len(names) - 2)
    assert not list(Survey(open_store(str(dataset))).findings(deep=True))


def test_pages_of_overviews_are_no_stack_of_images(tmp_path: Path) -> None:
    _, dataset = indexed(tmp_path, with_overviews())
    group = zarr.open_group(zarrfuse.open_store(dataset), mode="r")
    assert {key: array.shape for key, array in group.arrays()} == {
        "0": (2, 200, 300),
        "1": (2, 100, 150),
        "2": (2, 50, 75),
    }


def test_a_mask_of_gdal_is_no_second_page(tmp_path: Path) -> None:
    def write(path: Path, seed: int) -> None:
        source = path.with_name(".source.tif")
        by_tifffile((64, 96, 3), "uint8", **RGB)(source, seed)
        internal = ("--config", "GDAL_TIFF_INTERNAL_MASK", "YES", "-mask", "1")
        bands = ("-b", "1", "-b", "2", "-b", "3")
        subprocess.run(["gdal_translate", "-q", *bands, *internal, source, path], check=True)
        source.unlink()

    folder, dataset = indexed(tmp_path, write)
    array = zarr.open_array(zarrfuse.open_store(dataset), mode="r")
    np.testing.assert_array_equal(array[1], tifffile.imread(folder / "t1.tif", key=0))


def test_label_and_macro_of_a_slide_are_left_out_and_its_scale_is_kept(tmp_path: Path) -> None:
    _, dataset = indexed(tmp_path, slide)
    group = zarr.open_group(zarrfuse.open_store(dataset), mode="r")
    assert sorted(group.array_keys()) == ["0", "1"]
    (multiscale,) = group.attrs["ome"]["multiscales"]
    steps = [it["coordinateTransformations"][0]["scale"] for it in multiscale["datasets"]]
    assert steps == [[1.0, 1.0, 0.499, 0.499], [1.0, 1.0, 0.998, 0.998]]
    assert multiscale["axes"][-1] == {"name": "x", "type": "space", "unit": "micrometer"}


def test_channels_and_scales_of_ome_xml_are_those_of_the_image(tmp_path: Path) -> None:
    metadata = {
        "axes": "CYX",
        "PhysicalSizeX": 0.5,
        "PhysicalSizeXUnit": "µm",
        "PhysicalSizeY": 250,
        "PhysicalSizeYUnit": "nm",
        "Channel": {"Name": ["DAPI", "GFP"]},
    }
    write = in_subifds((2, 200, 300), metadata=metadata)
    _, dataset = indexed(tmp_path, write, "t{}.ome.tif")
    ome = zarr.open_group(zarrfuse.open_store(dataset), mode="r").attrs["ome"]
    (multiscale,) = ome["multiscales"]
    steps = [it["coordinateTransformations"][0]["scale"] for it in multiscale["datasets"]]
    assert steps == [[1, 1, 250, 0.5], [1, 1, 500, 1], [1, 1, 1000, 2]]
    assert [axis.get("unit") for axis in multiscale["axes"]] == [
        None,
        None,
        "nanometer",
        "micrometer",
    ]
    assert [channel["label"] for channel in ome["omero"]["channels"]] == ["DAPI", "GFP"]


@pytest.mark.filterwarnings("ignore:.*OME series is missing")
def test_planes_that_an_ome_tiff_lacks_are_the_fill_value(tmp_path: Path) -> None:
    def write(path: Path, seed: int) -> None:
        in_subifds((3, 200, 300), metadata={"axes": "ZYX"})(path, seed)
        content = path.read_bytes().replace(b'SizeZ="3"', b'SizeZ="4"')
        path.write_bytes(content.replace(b'PlaneCount="3"', b'PlaneCount="2"'))

    folder, dataset = indexed(tmp_path, write, "t{}.ome.tif")
    group = zarr.open_group(zarrfuse.open_store(dataset), mode="r")
    with tifffile.TiffFile(folder / "t1.ome.tif") as tiff:
        for level, series in enumerate(tiff.series[0].levels):
            np.testing.assert_array_equal(group[str(level)][1], series.asarray())
    assert group["0"].shape == (2, 4, 200, 300)
    assert not group["0"][1, 2:].any()


def test_colours_are_the_dimension_c_in_front_with_ngff(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    by_tifffile((70, 100, 3), "uint8", tile=(32, 48), **RGB)(folder / "t0.tif", 0)
    dataset = zarrfuse.index(folder, jobs=1, ngff=True)
    array = zarr.open_array(zarrfuse.open_store(dataset), mode="r", path="0")
    assert array.metadata.dimension_names == ("c", "y", "x")
    np.testing.assert_array_equal(array[...], np.moveaxis(pixels((70, 100, 3), "uint8"), -1, 0))


def test_parts_of_an_ome_tiff_in_several_files_are_pages_of_each(tmp_path: Path) -> None:
    """The OME-XML of each names the other files, which are not read for it."""
    folder = tmp_path / "files"
    folder.mkdir()
    data = pixels((4, 70, 100))
    names = [f"a{number}.ome.tif" for number in range(2)]
    planes = "".join(
        f'<TiffData IFD="{z % 2}" FirstZ="{z}" PlaneCount="1"><UUID FileName="{names[z // 2]}">'
        f"urn:uuid:00000000-0000-0000-0000-00000000000{z // 2}</UUID></TiffData>"
        for z in range(4)
    )
    for number, name in enumerate(names):
        xml = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
            f'UUID="urn:uuid:00000000-0000-0000-0000-00000000000{number}">'
            '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint16" '
            'SizeX="100" SizeY="70" SizeC="1" SizeZ="4" SizeT="1">'
            f'<Channel ID="Channel:0:0" SamplesPerPixel="1"/>{planes}</Pixels></Image></OME>'
        )
        tifffile.imwrite(
            folder / name,
            data[2 * number : 2 * number + 2],
            description=xml.encode(),
            photometric="minisblack",
            metadata=None,
        )
    array = zarr.open_array(zarrfuse.open_store(zarrfuse.index(folder, jobs=1)), mode="r")
    assert array.metadata.dimension_names == ("a", "page", "y", "x")
    np.testing.assert_array_equal(array[...], data.reshape(2, 2, 70, 100))


def test_info_and_check_understand_an_indexed_pyramid(tmp_path: Path) -> None:
    _, dataset = indexed(tmp_path, in_subifds((200, 300)))
    told = command("info", dataset).stdout
    assert "shape 2x200x300, uint16" in told
    assert "shape 2x50x75, uint16" in told
    assert command("check", "--deep", dataset, check=False).returncode == 0
