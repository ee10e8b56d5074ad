"""Files that no shard expresses, as real programs write them: one sentence that says what would help."""

import subprocess
from pathlib import Path

import pytest
import tifffile
from builders.tiff_files import LAYOUTS, RGB, TILES, Write, by_libtiff, packed, pixels

import zarrfuse
from zarrfuse.errors import ZarrfuseError
from zarrfuse.shards.layout import Refused
from zarrfuse.shards.tiff import read_tiff


def refusal_of(path: Path) -> str:
    with path.open("rb") as file, pytest.raises(Refused) as refusal:
        read_tiff(path.name, file)
    assert str(refusal.value).startswith(f"{path.name}: ")
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def ccitt(path: Path, seed: int) -> None:
    """A fax."""
    source = path.with_name("source")
    tifffile.imwrite(source, pixels((64, 96), "uint8", seed) % 2 == 0, photometric="minisblack")
    subprocess.run(["tiffcp", "-c", "g4", source, path], check=True, capture_output=True)
    source.unlink()


def packed_colours(path: Path, seed: int) -> None:
    """RGB of 12 bits."""
    source = path.with_name("source")
    data = pixels((70, 100, 3), "uint16", seed) % (1 << 12)
    tifffile.imwrite(source, data, photometric="rgb", metadata=None)
    subprocess.run(["gdal_translate", "-q", "-co", "NBITS=12", source, path], check=True)
    source.unlink()


def two_compressions(path: Path, seed: int) -> None:
    """Two pages."""
    with tifffile.TiffWriter(path) as tiff:
        for compression in ("zstd", "deflate"):
            tiff.write(
                pixels((70, 100), "uint16", seed),
                compression=compression,
                photometric="minisblack",
                metadata={"axes": "YX"},
                **TILES,
            )


def subsampled(path: Path, seed: int) -> None:
    """YCbCr with half the colours, uncompressed: libtiff decodes only the JPEG."""
    tifffile.imwrite(path, pixels((64, 64, 3), "uint8", seed), photometric="rgb", metadata=None)
    with tifffile.TiffFile(path, mode="r+b") as tiff:
        tiff.pages[0].tags[262].overwrite(6)


def ndpi(path: Path, seed: int) -> None:
    """With the tags of Hamamatsu's whole-slide images."""
    extra = [(65420, "I", 1, 1, False), (271, "s", 0, "Hamamatsu", False)]
    tifffile.imwrite(path, pixels((64, 64), "uint8", seed), extratags=extra, metadata=None)


def pages_of_other_bits(path: Path, seed: int) -> None:
    """A page of 12 bits behind one of 10."""
    pages = []
    for bits in (10, 12):
        pages.append(path.with_name(f"{bits}.tif"))
        packed(bits)(pages[-1], seed)
    subprocess.run(["tiffcp", "-c", "none", *pages, path], check=True, capture_output=True)
    for page in pages:
        page.unlink()


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (ndpi, "is an NDPI file, whose tiles are no files of JPEG: write it anew"),
        (pages_of_other_bits, "page 1 has the bitspersample 12, and page 0 has not"),
        (ccitt, "its compression CCITTFAX4 (4) has no Zarr codec: write it anew"),
        (packed(11), "pixels of 11 bits are packed"),
        (packed_colours, "pixels of 12 bits are packed"),
        (
            by_libtiff((70, 100), "uint16", "-f", "lsb2msb", "-c", "lzw"),
            "its bits are in reverse order: write it anew with tiffcp -f msb2lsb",
        ),
        (
            by_libtiff((70, 100), "uint16", "-c", "zip", "-r", "16"),
            "its last strip has 6 rows and the others 16, and a shard needs equal ones: write it "
            "anew in tiles, for example: tiffcp -t",
        ),
        (by_libtiff((70, 100, 3), "uint8", "-c", "jpeg", "-r", "16"), "its last strip has 6 rows"),
        (by_libtiff((70, 100), "uint8", "-c", "packbits", "-r", "16"), "its last strip has 6 rows"),
    ],
)
def test_a_refusal_says_what_would_help(tmp_path: Path, write: Write, says: str) -> None:
    write(tmp_path / "a.tif", 0)
    assert says in refusal_of(tmp_path / "a.tif")


@pytest.mark.parametrize("name", ["pages", "imagej", "imagej-one-ifd", "ome", "strips", "bigtiff"])
@pytest.mark.parametrize("part", [0.2, 0.6, 0.97])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, name: str, part: float) -> None:
    LAYOUTS[name](tmp_path / "a.tif", 0)
    content = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(content[: int(len(content) * part)])
    assert "cut off" in refusal_of(tmp_path / "a.tif")


def test_pages_that_a_file_was_cut_off_behind_are_missed(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        for seed in range(3):
            tiff.write(pixels((70, 100), "uint16", seed), photometric="minisblack", metadata=None)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        end = tiff.pages[2].offset
    content = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(content[:end])
    assert f"is cut off: page 2 would be beyond its {end} bytes" in refusal_of(tmp_path / "a.tif")


def test_nothing_is_written_for_a_folder_with_a_refused_file(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    LAYOUTS["strips"](folder / "f0.tif", 0)
    ccitt(folder / "f1.tif", 1)
    with pytest.raises(
        ZarrfuseError, match=r"nothing was written\. f1\.tif: its compression CCITT"
    ):
        zarrfuse.index(folder, jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("none-uint16-predictor1-<", "zstd-uint16-predictor1-<", "the codecs"),
        ("none-uint16-predictor1-<", "none-uint16-predictor1->", "the codecs"),
        ("none-uint16-predictor1-<", "none-int16-predictor1-<", "the data type"),
        ("zstd-uint16-predictor1-<", "strips-zstd", "tiles or strips of"),
        ("jpeg-gdal", "jpeg-gdal-own-tables", "the codecs"),
        ("geotiff-nodata", "none-float32-predictor1-<", "the no-data value"),
        ("rgb", "rgb-planar", "the dimensions"),
    ],
)
def test_files_that_differ_are_refused_with_what_differs(
    tmp_path: Path, first: str, second: str, says: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    LAYOUTS[first](folder / "f0.tif", 0)
    LAYOUTS[second](folder / "f1.tif", 0)
    with pytest.raises(ZarrfuseError) as refusal:
        zarrfuse.index(folder, jobs=1)
    assert "f1.tif and f0.tif cannot be chunks of one array" in str(refusal.value)
    assert f"the first has {says}" in str(refusal.value)
    assert len(str(refusal.value)) < 1000


def test_files_with_different_tables_of_jpeg_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number, quality in enumerate((90, 50)):
        tiles = ("-t", "-w", "48", "-l", "32")
        by_libtiff((64, 96, 3), "uint8", "-c", f"jpeg:{quality}", *tiles)(
            folder / f"f{number}.tif", 0
        )
    with pytest.raises(ZarrfuseError, match="cannot be chunks of one array"):
        zarrfuse.index(folder, jobs=1)


def test_pages_that_differ_in_compression_are_refused(tmp_path: Path) -> None:
    """tifffile takes them for two images; one of them would be left out."""
    two_compressions(tmp_path / "a.tif", 0)
    with (tmp_path / "a.tif").open("rb") as file, pytest.raises(Refused, match="page 1 has the"):
        read_tiff("a.tif", file)


def test_planes_of_an_ome_tiff_that_differ_in_compression_are_refused(tmp_path: Path) -> None:
    description = tmp_path / "description.tif"
    data = pixels((2, 70, 100), "uint16")
    tifffile.imwrite(description, data, ome=True, metadata={"axes": "ZYX"})
    with tifffile.TiffFile(description) as tiff:
        xml = tiff.ome_metadata.encode()
    with tifffile.TiffWriter(tmp_path / "a.ome.tif") as tiff:
        for plane, compression in zip(data, ("zstd", "deflate"), strict=True):
            tiff.write(
                plane,
                description=xml,
                compression=compression,
                photometric="minisblack",
                metadata=None,
                **TILES,
            )
            xml = None
    assert "page 1 has the compression" in refusal_of(tmp_path / "a.ome.tif")


def test_subsampled_colours_without_jpeg_are_refused(tmp_path: Path) -> None:
    subsampled(tmp_path / "a.tif", 0)
    assert "its colours are subsampled without JPEG" in refusal_of(tmp_path / "a.tif")


def test_colours_of_aperio_that_are_not_rgb_are_refused(tmp_path: Path) -> None:
    data = pixels((64, 96, 3), "uint8")
    tifffile.imwrite(tmp_path / "a.tif", data, compression=33003, **RGB, **TILES)
    assert "its colours are YCbCr in JPEG 2000" in refusal_of(tmp_path / "a.tif")


def test_compressed_strips_of_files_of_other_heights_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number, height in enumerate((32, 32, 16)):
        tifffile.imwrite(
            folder / f"y{number}.tif",
            pixels((height, 100, 3), "uint8"),
            compression="zstd",
            rowsperstrip=32,
            **RGB,
        )
    with pytest.raises(ZarrfuseError, match=r"tiles or strips of (16|32)x100x3, the second"):
        zarrfuse.index(folder, jobs=1)
