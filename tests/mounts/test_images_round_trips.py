"""On a mount of the `images` view, tifffile and numpy read what zarr-python reads from the store."""

import errno
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from builders.array_layouts import Layout, chunk_boxes, chunk_file, few_layouts, in_five, little
from builders.mounts import clear, zarrfuse

from zarrfuse.cli.demo_dataset import demo_image

Mounter = Callable[..., Path]
FEW = {layout.name: layout for layout in few_layouts()}
WITH_TIFF = [name for name, layout in FEW.items() if layout.has_tiff]


@dataclass(frozen=True)
class Shown:
    """Arrays that zarr-python wrote into a folder, and where that is mounted."""

    arrays: Mapping[str, "zarr.Array[Any]"]
    point: Path

    def file(self, name: str, ending: str) -> Path:
        """The file of a whole array."""
        return self.point / name / f"{name.rpartition('/')[2]}.{ending}"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A mount of one or two arrays of each kind, for all tests that only look at it."""
    base = tmp_path_factory.mktemp("pictured")
    arrays = {name: layout.write(base / "store") for name, layout in FEW.items()}
    (base / "mnt").mkdir()
    zarrfuse("mount", base / "store", base / "mnt", "--view", "images", "--cache-size", "20K")
    yield Shown(arrays, base / "mnt")
    clear(base / "mnt")


def assert_same(found: Any, expected: Any) -> None:
    """The same elements in the same order and shape, but for dimensions of one."""
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype.newbyteorder("=")
    assert in_five(found.shape) == in_five(expected.shape)
    assert little(found).tobytes() == little(expected).tobytes()


def as_in_tiff(values: Any) -> Any:
    """TIFF readers show truth values as 0 and 1."""
    return values.astype(np.uint8) if values.dtype == bool else values


@pytest.mark.parametrize("name", FEW)
def test_numpy_loads_the_array(shown: Shown, name: str) -> None:
    assert_same(np.load(shown.file(name, "npy")), shown.arrays[name][...])


@pytest.mark.parametrize("name", [name for name in FEW if 0 not in FEW[name].shape])
def test_numpy_maps_the_array(shown: Shown, name: str) -> None:
    expected = little(np.asarray(shown.arrays[name][...]))
    mapped = np.load(shown.file(name, "npy"), mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    assert mapped.shape == expected.shape
    chance = Random(name)
    for _ in range(20):
        index = tuple(chance.randrange(size) for size in expected.shape)
        assert mapped[index].tobytes() == expected[index].tobytes()
    assert_same(np.array(mapped), expected)


@pytest.mark.parametrize("name", WITH_TIFF)
def test_tifffile_reads_the_array(shown: Shown, name: str) -> None:
    found = tifffile.imread(shown.file(name, "tiff"))
    assert_same(found, as_in_tiff(np.asarray(shown.arrays[name][...])))


@pytest.mark.parametrize("name", WITH_TIFF)
def test_tifffile_reads_each_chunk(shown: Shown, name: str) -> None:
    array = shown.arrays[name]
    values = as_in_tiff(np.asarray(array[...]))
    for coords, box in chunk_boxes(array):
        found = tifffile.imread(shown.point / name / chunk_file(coords))
        assert_same(found.reshape(values[box].shape), values[box])  # axes beyond five are merged


def test_every_size_is_that_of_the_file(shown: Shown) -> None:
    for folder, _, names in os.walk(shown.point):
        for name in names:
            path = Path(folder, name)
            assert path.stat().st_size == len(path.read_bytes()), path


def test_threads_that_read_at_random_get_the_same_bytes(shown: Shown) -> None:
    files = [shown.file(name, "npy") for name in FEW]
    files += [shown.file(name, "tiff") for name in WITH_TIFF]
    expected = {path: path.read_bytes() for path in files}
    wrong: list[str] = []

    def read(number: int) -> None:
        chance = Random(number)
        for path in chance.sample(files, len(files)):
            data = expected[path]
            with path.open("rb", buffering=0) as file:
                for _ in range(10):
                    offset = chance.randrange(len(data))
                    size = chance.choice((1, 100, 5000))
                    if os.pread(file.fileno(), size, offset) != data[offset : offset + size]:
                        wrong.append(f"{path} {offset} {size}")

    threads = [threading.Thread(target=read, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_demo_dataset_is_read_pixel_for_pixel(demo: Path, mounted: Mounter) -> None:
    point = mounted(demo, "--view", "images")
    image = demo_image()
    for name in ("zstd", "raw", "strips", "header", "checksum"):
        folder = point / "cells.zarr" / name
        expected = image if name in ("zstd", "raw", "strips") else (image >> 8).astype(np.uint8)
        assert_same(tifffile.imread(folder / f"{name}.tiff"), expected)
        assert_same(np.load(folder / f"{name}.npy", mmap_mode="r"), expected)
        assert_same(tifffile.imread(folder / "c/1/2.tiff"), expected[512:, 1024:])


def test_of_a_corrupt_chunk_only_its_own_pages_fail(tmp_path: Path, mounted: Mounter) -> None:
    # A row is as long as a page of the kernel's cache, and begins with one. Rows 2 and 3 cannot be read.
    row = mmap.PAGESIZE // 2
    layout = Layout("a", "uint16", (8, row), (2, row), {"compressors": None})
    values = np.asarray(layout.write(tmp_path / "store")[...])
    stored = tmp_path / "store/a/c/1/0"
    stored.write_bytes(stored.read_bytes()[:-1])
    point = mounted(tmp_path / "store", "--view", "images")
    with (point / "a/a.npy").open("rb", buffering=0) as file:
        head = os.fstat(file.fileno()).st_size - values.nbytes
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        assert not head % mmap.PAGESIZE
        for row_number in range(8):
            offset = row_number * mmap.PAGESIZE + head
            if row_number in (2, 3):
                with pytest.raises(OSError) as failed:
                    os.pread(file.fileno(), 64, offset)
                assert failed.value.errno == errno.EIO
            else:
                expected = values.tobytes()[offset - head :][:64]
                assert os.pread(file.fileno(), 64, offset) == expected
    with pytest.raises(OSError) as failed:
        (point / "a/c/1/0.tiff").read_bytes()
    assert failed.value.errno == errno.EIO
    assert_same(tifffile.imread(point / "a/c/2/0.tiff"), values[4:6])


def test_chunks_written_while_mounted_are_read(tmp_path: Path, mounted: Mounter) -> None:
    layout = Layout("a", "uint16", (50, 70), (20, 30), {"fill_value": 9})
    array = layout.write(tmp_path / "store")
    point = mounted(tmp_path / "store", "--view", "images", "--cache-ttl", "0")
    for number in range(3):
        if number:
            array[...] = number
        values = np.asarray(array[...])
        assert_same(np.load(point / "a/a.npy"), values)
        assert_same(np.array(np.load(point / "a/a.npy", mmap_mode="r")), values)
        assert_same(tifffile.imread(point / "a/a.tiff"), values)
        assert_same(tifffile.imread(point / "a/c/1/2.tiff"), values[20:40, 60:])
