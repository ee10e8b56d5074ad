"""TIFF files of large arrays: BigTIFF, planes, strips, and sizes that are known before."""

import io
from math import prod
from typing import BinaryIO

import numpy as np
import pytest
import tifffile
from pictures import picture
from tiff_pictures import RGB, made

from zarrfuse.formats.envelope import Envelope
from zarrfuse.formats.tiff import array_tiff

pytestmark = pytest.mark.usefixtures("no_complaints")

GIB = 1 << 30
SIDE_OF_2_60 = 1 << 30


# -- large arrays


class Sparse(io.RawIOBase):
    """A file whose pixels are all zero, except some bytes."""

    def __init__(self, around: Envelope, pixels_size: int, known: dict[int, bytes]) -> None:
        self._around = around
        self._tail = around.tail
        self._behind = len(around.head) + pixels_size
        self._size = around.size(pixels_size)
        self._known = known
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + [0, self._position, self._size][whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: bytearray) -> int:
        size = max(0, min(len(buffer), self._size - self._position))
        stop = self._position + size
        buffer[:size] = bytes(size)
        head, tail = (0, self._around.head), (self._behind, self._tail)
        pixels = [(len(self._around.head) + at, data) for at, data in self._known.items()]
        for start, data in (head, tail, *pixels):
            low, high = max(start, self._position), min(stop, start + len(data))
            if low < high:
                buffer[low - self._position : high - self._position] = data[
                    low - start : high - start
                ]
        self._position = stop
        return size


def opened(around: Envelope, pixels_size: int, known: dict[int, bytes]) -> tifffile.TiffFile:
    file: BinaryIO = io.BufferedReader(Sparse(around, pixels_size, known))
    return tifffile.TiffFile(file, name="sparse.tiff", size=around.size(pixels_size))


def test_large_array_is_a_bigtiff_with_an_ifd_for_each_plane() -> None:
    shape, plane_size = (2048, 4096, 4096), 4096 * 4096 * 2
    around = array_tiff(shape, np.dtype("uint16"), picture("ZYX", scaled=True), "cells")

    assert around.again == 0
    known = {2047 * plane_size: (77).to_bytes(2, "little")}
    with opened(around, 64 * GIB, known) as file:
        assert file.is_bigtiff
        (series,) = file.series
        assert (series.kind, series.axes, series.shape) == ("ome", "ZYX", shape)
        assert len(file.pages) == 2048
        last = file.pages[2047].asarray()
    assert last[0, 0] == 77
    assert not last.ravel()[1:].any()


def test_each_of_many_planes_has_an_ifd() -> None:
    planes = 100_000
    small = array_tiff((planes, 8, 8), np.dtype("uint16"), picture("TYX"), "a")
    large = array_tiff((planes, 256, 256), np.dtype("uint16"), picture("TYX"), "a")

    with opened(small, planes * 128, {}) as file:
        assert not file.is_bigtiff
        assert len(file.pages) == planes
    with opened(large, planes << 17, {}) as file:
        assert file.is_bigtiff
        assert len(file.pages) == planes


@pytest.mark.parametrize("letters", ["TYX", "CZYX"])
def test_more_planes_than_have_an_ifd_are_told_by_the_description(letters: str) -> None:
    planes = 1 << 19
    shape = (planes, 2, 2) if letters == "TYX" else (2, planes // 2, 2, 2)

    array, content = made(shape, "uint16", picture(letters))

    assert len(content) < array.nbytes + 5000
    read = tifffile.imread(io.BytesIO(content))
    assert np.array_equal(read.reshape(shape), array)


@pytest.mark.parametrize("letters", ["YX", "TYX", "TCZYX", "YXS"])
def test_pixels_of_a_whole_array_begin_at_a_page(letters: str) -> None:
    shape = (2, 3, 4, 5, 6)[: len(letters)] if letters[-1] != "S" else (5, 6, 3)
    assert not len(array_tiff(shape, np.dtype("u1"), picture(letters), "a").head) % 4096


def test_booleans_are_seen_in_imagej() -> None:
    _, content = made((5, 6), "bool", picture("YX"))
    with tifffile.TiffFile(io.BytesIO(content)) as file:
        assert (file.imagej_metadata["min"], file.imagej_metadata["max"]) == (0.0, 1.0)


def test_many_planes_of_types_that_imagej_lacks_take_little_besides_the_pixels() -> None:
    array, content = made((1 << 19, 1, 2), "float64", picture("TYX"))
    assert len(content) < array.nbytes + 10_000
    read = tifffile.imread(io.BytesIO(content))
    assert np.array_equal(read.reshape(array.shape), array)


def test_header_and_tail_count_towards_four_gib() -> None:
    for planes in (65535, 65536):
        around = array_tiff((planes, 128, 256), np.dtype("uint16"), picture("ZYX"), "a")
        pixels_size = planes * 128 * 256 * 2
        assert pixels_size <= 4 * GIB
        with opened(around, pixels_size, {}) as file:
            assert file.is_bigtiff
    near = array_tiff((60000, 128, 256), np.dtype("uint16"), picture("ZYX"), "a")
    assert near.head.startswith(b"II*\0")


@pytest.mark.parametrize(
    ("shape", "letters"),
    [
        ((100_000, 1, 42_920), "TYX"),  # the IFDs of the pages are too much
        ((2, 2, 30_000, 34_000), "CZYX"),  # the last plane once more is too much
        ((2, 2, 25_000, 34_000), "CZYX"),  # it is not
    ],
)
def test_offsets_of_32_bits_reach_the_end_of_the_file(shape: tuple[int, ...], letters: str) -> None:
    around = array_tiff(shape, np.dtype("uint8"), picture(letters), "a")
    assert prod(shape) < 4 * GIB
    assert around.head.startswith(b"II+\0") or around.size(prod(shape)) < 4 * GIB
    with opened(around, prod(shape), {}) as file:
        assert len(file.pages) == prod(shape[:-2])


def test_large_planes_of_a_classic_tiff_are_one_strip() -> None:
    shape = (20_000, 20_000)
    with opened(array_tiff(shape, np.dtype("uint8"), picture("YX"), "a"), prod(shape), {}) as file:
        assert not file.is_bigtiff
        assert len(file.pages[0].dataoffsets) == 1


def test_a_row_that_is_larger_than_a_strip_is_one() -> None:
    shape = (6, 1 << 30)
    with opened(array_tiff(shape, np.dtype("uint8"), picture("YX"), "a"), prod(shape), {}) as file:
        assert file.pages[0].rowsperstrip == 1


@pytest.mark.parametrize(("planes", "side"), [(3, 1 << 15), (63, 1 << 13), (4092, 1 << 10)])
def test_planes_of_any_size_are_a_hyperstack_up_to_four_gib(planes: int, side: int) -> None:
    dtype = np.dtype("uint8")
    told = picture("TYX", scaled=True)

    around = array_tiff((planes, side, side), dtype, told, "a")
    one_more = array_tiff((4 * GIB // side**2, side, side), dtype, told, "a")

    with opened(around, planes * side**2, {}) as file:
        assert not file.is_bigtiff
        assert file.imagej_metadata is not None
        assert file.imagej_metadata["frames"] == planes
        assert len(file.pages) == planes
    with opened(one_more, 4 * GIB, {}) as file:
        assert file.is_bigtiff
        assert file.is_ome


def test_large_planes_are_in_strips() -> None:
    around = array_tiff((70000, 70000), np.dtype("uint8"), picture("YX"), "a")

    with opened(around, 70000 * 70000, {69999 * 70000: b"\7"}) as file:
        page = file.pages[0]
        assert page.is_contiguous
        assert page.dataoffsets[0] == len(around.head)
        assert max(page.databytecounts) <= 1 << 26
        assert sum(page.databytecounts) == 70000 * 70000


def test_channels_before_slices_are_no_hyperstack_from_four_gib() -> None:
    shape = (3, 100, 4096, 4096)

    around = array_tiff(shape, np.dtype("uint16"), picture("CZYX", channels=RGB), "a")

    assert around.again == 0
    with opened(around, prod(shape) * 2, {}) as file:
        assert file.series[0].axes == "CZYX"


# -- sizes


@pytest.mark.parametrize("letters", ["ZYX", "CZYX", "ZYXS"])
@pytest.mark.parametrize("planes", [1, 2, 3, 63, 64, 65, 66, 80, 81, 1023])
@pytest.mark.parametrize("width", [3, 8])
def test_the_size_is_known_without_making_the_tail(letters: str, planes: int, width: int) -> None:
    lengths = {"C": 3, "Z": planes, "Y": 5, "X": width, "S": 3}
    shape = tuple(lengths[letter] for letter in letters)
    around = array_tiff(shape, np.dtype("uint8"), picture(letters), "a")
    assert around.tail_size == len(around.make_tail())


@pytest.mark.parametrize("planes", [65, 72, 300])
def test_the_size_is_known_of_large_planes(planes: int) -> None:
    around = array_tiff((planes, 1 << 15, 1 << 15), np.dtype("uint16"), picture("ZYX"), "a")
    assert around.head.startswith(b"II+\0")
    assert around.tail_size == len(around.make_tail())


def test_strips_of_all_planes_are_not_too_many_to_be_told() -> None:
    for shape in ((SIDE_OF_2_60, SIDE_OF_2_60), (1 << 18, 1 << 20, 1 << 20)):
        around = array_tiff(shape, np.dtype("uint8"), picture("ZYX"[-len(shape) :]), "a")
        assert len(around.head) + around.tail_size < 128 << 20


def test_the_pixels_of_a_huge_plane_are_one_run_of_strips() -> None:
    plane = SIDE_OF_2_60 * SIDE_OF_2_60
    around = array_tiff((SIDE_OF_2_60,) * 2, np.dtype("uint8"), picture("YX"), "a")
    with opened(around, plane, {}) as file:
        page = file.pages[0]
        assert page.shape == (SIDE_OF_2_60,) * 2
        assert page.is_contiguous
        assert page.dataoffsets[0] == len(around.head)
        assert sum(page.databytecounts) == plane
