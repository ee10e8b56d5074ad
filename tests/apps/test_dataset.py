"""The demonstration dataset, judged by other people's readers: zarr-python, tifffile, libtiff.

The parts are merged here by plain concatenation, so that no code of a mount takes part.
"""

import io
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr
from builders.folders import files_below

from zarrfuse.cli.demo_dataset import CHUNK, demo_image, write_demo

ARRAYS = ["zstd", "raw", "strips", "header", "checksum"]
TIFF_ARRAYS = ["zstd", "raw", "strips"]
KEYS = [(row, column) for row in range(2) for column in range(3)]


def expected(name: str) -> np.ndarray:
    """The pixels of the array `name`."""
    image = demo_image()
    return (image >> 8).astype(np.uint8) if name in ("header", "checksum") else image


def merged_chunk(array: Path, row: int, column: int) -> bytes:
    """One chunk: what the array's metadata lists as its parts, concatenated, sizes checked."""
    metadata = json.loads((array / "zarr.json").read_text())
    key = f"c/{row}/{column}"
    encoding = metadata["chunk_key_encoding"]
    if encoding["name"] == "suffix":
        key += encoding["configuration"]["suffix"]
    (transformer,) = metadata["storage_transformers"]
    chunk = b""
    for part in transformer["configuration"]["parts"]:
        data = (array / (key + part["key_suffix"])).read_bytes()
        assert len(data) == part.get("size", len(data))
        chunk += data
    return chunk


@pytest.mark.parametrize("name", ARRAYS)
def test_zarr_reads_the_picture_from_merged_chunks(demo: Path, tmp_path: Path, name: str) -> None:
    array = demo / "cells.zarr" / name
    metadata = json.loads((array / "zarr.json").read_text())
    del metadata["storage_transformers"]
    metadata["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/"}}
    (tmp_path / "zarr.json").write_text(json.dumps(metadata))
    for row, column in KEYS:
        chunk = tmp_path / "c" / str(row) / str(column)
        chunk.parent.mkdir(parents=True, exist_ok=True)
        chunk.write_bytes(merged_chunk(array, row, column))

    read = zarr.open_array(tmp_path, mode="r")

    assert read.metadata.dimension_names == ("y", "x")
    np.testing.assert_array_equal(read[:], expected(name))


@pytest.mark.parametrize("name", TIFF_ARRAYS)
def test_tifffile_reads_each_merged_chunk_pixel_for_pixel(demo: Path, name: str) -> None:
    image = demo_image()
    for row, column in KEYS:
        chunk = merged_chunk(demo / "cells.zarr" / name, row, column)
        pixels = image[row * CHUNK :, column * CHUNK :][:CHUNK, :CHUNK]
        np.testing.assert_array_equal(tifffile.imread(io.BytesIO(chunk)), pixels)


@pytest.mark.parametrize("name", TIFF_ARRAYS)
def test_libtiff_reads_a_merged_chunk_without_complaint(
    demo: Path, tmp_path: Path, name: str
) -> None:
    assert shutil.which("tiffinfo"), "install libtiff-tools"
    file = tmp_path / "1.tiff"
    file.write_bytes(merged_chunk(demo / "cells.zarr" / name, 0, 1))
    done = subprocess.run(["tiffinfo", "-D", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Image Width: 512 Image Length: 512" in done.stdout


def test_shard_header_is_text_of_64_bytes(demo: Path) -> None:
    for row, column in KEYS:
        header = (demo / f"cells.zarr/header/c/{row}/{column}.header").read_bytes()
        assert len(header) == 64
        assert header.startswith(f"zarrfuse demo, chunk c/{row}/{column}".encode("ascii"))


def test_group_is_read_by_zarr(demo: Path) -> None:
    group = zarr.open_group(demo / "cells.zarr", mode="r")
    (image,) = group.attrs["ome"]["multiscales"]
    assert [axis["name"] for axis in image["axes"]] == ["y", "x"]
    assert (demo / "cells.zarr" / image["datasets"][0]["path"] / "zarr.json").is_file()


def test_dataset_is_the_same_bytes_each_time_and_small(demo: Path, tmp_path: Path) -> None:
    write_demo(tmp_path / "again")
    again = files_below(tmp_path / "again")
    assert again == files_below(demo)
    assert sum(map(len, again.values())) < 10_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_writing_again_leaves_the_dataset_as_it_is(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    (tmp_path / "demo" / "note.txt").write_text("mine")
    write_demo(str(tmp_path / "demo"))
    assert (tmp_path / "demo" / "note.txt").read_text() == "mine"


def test_two_writers_at_once_leave_one_whole_dataset(demo: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write_demo, [tmp_path / "demo"] * 2))
    assert files_below(tmp_path) == {
        f"demo/{name}": data for name, data in files_below(demo).items()
    }


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    write_demo(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.txt", "cells.zarr"]


def test_a_folder_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("my own data\n")
    with pytest.raises(FileExistsError, match="exists and is not"):
        write_demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.txt"]


def test_writing_needs_neither_imagecodecs_nor_zarr(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['imagecodecs'] = sys.modules['zarr'] = None\n"
        "from zarrfuse.cli.demo_dataset import write_demo; write_demo(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "demo"], check=True)
    assert (tmp_path / "demo" / "cells.zarr").is_dir()


def test_importing_the_module_loads_nothing_heavy() -> None:
    program = (
        "import sys, zarrfuse.cli.demo_dataset\n"
        "assert not {'numpy', 'tifffile', 'numcodecs', 'google_crc32c'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
