"""TIFF files that were indexed, seen through mounts: still TIFF files, and an array for anything."""

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorstore
import tifffile
import zarr
from builders.tiff_files import LAYOUTS, RGB, Write, by_tifffile, pixels
from desktop import program

import zarrfuse

Mounted = Callable[..., Path]
Macro = Callable[[str, Path], list[str]]

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")

FOR_ALL_PROGRAMS = [
    "zstd-uint16-predictor1-<",
    "deflate-uint16-predictor2-<",
    "lzw-uint8-predictor2-<",
    "strips-libtiff",
    "libtiff-big-endian",
    "pages-zstd",
    "jpeg-gdal-ycbcr",
    "rgb-planar",
]


def run(name: str, *arguments: str | Path) -> str:
    """Run a tool that must succeed; what it printed."""
    done = subprocess.run(
        [program(name), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def indexed(
    folder: Path, write: Write, name: str = "f{}.tif", *, ngff: bool = False
) -> tuple[list[Path], Path]:
    """(two files, the dataset)."""
    folder.mkdir(parents=True)
    files = [folder / name.format(number) for number in range(2)]
    for number, file in enumerate(files):
        write(file, number)
    return files, Path(zarrfuse.index(folder, jobs=1, ngff=ngff))


def read_array(dataset: Path, component: str = "") -> np.ndarray:
    node = zarr.open_array(zarrfuse.open_store(dataset), mode="r", path=component)
    return np.asarray(node[...])


@pytest.mark.parametrize("name", FOR_ALL_PROGRAMS)
def test_a_chunk_of_a_mount_is_the_file_to_programs(
    tmp_path: Path, mounted: Mounted, name: str
) -> None:
    files, dataset = indexed(tmp_path / "files", LAYOUTS[name])
    before = [hashlib.sha256(file.read_bytes()).digest() for file in files]
    mount = mounted(dataset)
    for number, file in enumerate(files):
        (chunk,) = (mount / "c" / str(number)).rglob("*.tif")
        assert chunk.read_bytes().startswith(file.read_bytes())
        assert chunk.stat().st_size > file.stat().st_size
        np.testing.assert_array_equal(tifffile.imread(chunk), tifffile.imread(file))
        run("tiffinfo", "-D", chunk)
        if "Tile Width" not in run("tiffinfo", chunk):  # tiffcmp: "Can not read scanlines"
            run("tiffcmp", file, chunk)
        assert run("gdalinfo", "-checksum", chunk).count("Checksum=") >= 1
        checksums = [
            [line for line in run("gdalinfo", "-checksum", path).splitlines() if "Checksum" in line]
            for path in (file, chunk)
        ]
        assert checksums[0] == checksums[1]
        if name == "rgb-planar":  # vips: "tiled separate planes not supported"
            continue
        averages = [run("vips", "avg", path) for path in (file, chunk)]
        assert averages[0] == averages[1]
    assert [hashlib.sha256(file.read_bytes()).digest() for file in files] == before


@pytest.mark.parametrize(
    "name",
    [
        "none-uint16-predictor1-<",
        "none-float32-predictor1->",
        "zstd-uint16-predictor1-<",
        "strips-short-last",
        "pages-strips",
        "imagej-one-ifd",
        "rgb-planar",
        "volume-zstd",
        "gdal-sparse",
    ],
)
def test_tensorstore_reads_the_plain_view_of_uncompressed_and_zstd_files(
    tmp_path: Path, mounted: Mounted, name: str
) -> None:
    files, dataset = indexed(tmp_path / "files", LAYOUTS[name])
    mount = mounted(dataset, "--view", "plain")
    store = {"driver": "file", "path": f"{mount}/"}
    array = tensorstore.open({"driver": "zarr3", "kvstore": store}, read=True).result()
    for number, file in enumerate(files):
        expected = tifffile.imread(file)
        read = array[number].read().result()
        np.testing.assert_array_equal(read.reshape(expected.shape), expected)


def test_a_pyramid_is_an_ome_tiff_in_the_images_view(tmp_path: Path, mounted: Mounted) -> None:
    def write(path: Path, seed: int) -> None:
        data = pixels((256, 320), "uint16", seed)
        tiles = {"tile": (64, 64), "photometric": "minisblack", "compression": "zstd"}
        with tifffile.TiffWriter(path) as tiff:
            tiff.write(data, subifds=1, **tiles)
            tiff.write(data[::2, ::2], subfiletype=1, **tiles)

    _, dataset = indexed(tmp_path / "set/files", write, "t{}.tif")
    mount = mounted(dataset.parent, "--view", "images")
    with tifffile.TiffFile(mount / "files.zarr/files.ome.tiff") as tiff:
        assert tiff.is_ome
        for level, series in enumerate(tiff.series[0].levels):
            np.testing.assert_array_equal(series.asarray(), read_array(dataset, str(level)))


@pytest.mark.parametrize("name", ["rgb", "jpeg-gdal-ycbcr", "webp-rgb", "rgb-predictor"])
def test_colours_are_channels_of_an_ome_tiff_in_the_images_view(
    tmp_path: Path, mounted: Mounted, name: str
) -> None:
    files, dataset = indexed(tmp_path / "set/files", LAYOUTS[name], "t{}.tif", ngff=True)
    mount = mounted(dataset.parent, "--view", "images")
    read = tifffile.imread(mount / "files.zarr/files.ome.tiff")
    expected = np.stack([np.moveaxis(tifffile.imread(file), -1, 0) for file in files])
    if read.shape[-1] == 3:
        read = np.moveaxis(read, -1, -3)
    np.testing.assert_array_equal(read.reshape(expected.shape), expected)


def test_a_stack_that_imagej_saved(tmp_path: Path, macro: Macro) -> None:
    def write(path: Path, seed: int) -> None:
        source = path.with_name("source.tif")
        by_tifffile((6, 60, 90), "uint16", imagej=True, photometric=None)(source, seed)
        macro(
            "open(getArgument());"
            'run("Stack to Hyperstack...", "order=xyczt(default) channels=2 slices=3 frames=1 '
            'display=Grayscale");'
            f'saveAs("Tiff", "{path}"); close();',
            source,
        )
        source.unlink()

    files, dataset = indexed(tmp_path / "files", write)
    array = zarr.open_array(zarrfuse.open_store(dataset), mode="r")
    assert array.metadata.dimension_names == ("f", "z", "c", "y", "x")
    for number, file in enumerate(files):
        np.testing.assert_array_equal(array[number], tifffile.imread(file))


@pytest.mark.parametrize("compression", ["zlib", "LZW", "JPEG-2000", "Uncompressed"])
def test_pyramids_that_bioformats_wrote(tmp_path: Path, bioformats: Path, compression: str) -> None:
    source = tmp_path / "source.tif"
    by_tifffile((256, 320), "uint16")(source, 0)

    def write(path: Path, _: int) -> None:
        options = [
            "-tilex",
            "64",
            "-tiley",
            "64",
            "-pyramid-resolutions",
            "2",
            "-pyramid-scale",
            "2",
        ]
        tool = ["-Xmx256m", "-cp", bioformats, "loci.formats.tools.ImageConverter", "-no-upgrade"]
        run("java", *tool, *options, "-compression", compression, source, path)

    folder = tmp_path / "files"
    folder.mkdir()
    write(folder / "t0.ome.tif", 0)
    dataset = Path(zarrfuse.index(folder, jobs=1))
    with tifffile.TiffFile(folder / "t0.ome.tif") as tiff:
        levels = [level.asarray() for level in tiff.series[0].levels]
    assert len(levels) == 2
    for level, expected in enumerate(levels):
        np.testing.assert_array_equal(
            read_array(dataset, str(level)).reshape(expected.shape), expected
        )
    np.testing.assert_array_equal(levels[0], pixels((256, 320), "uint16"))


def test_rgb_that_imagej_saved(tmp_path: Path, macro: Macro) -> None:
    def write(path: Path, seed: int) -> None:
        source = path.with_name("source.tif")
        by_tifffile((60, 90, 3), "uint8", **RGB)(source, seed)
        macro(f'open(getArgument()); saveAs("Tiff", "{path}"); close();', source)
        source.unlink()

    files, dataset = indexed(tmp_path / "files", write)
    for number, file in enumerate(files):
        np.testing.assert_array_equal(read_array(dataset)[number], tifffile.imread(file))
