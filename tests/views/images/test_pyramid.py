"""`G.ome.tiff` is read as the arrays of the pyramid, whatever bytes are asked for in whatever order."""

import errno
import io
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import tifffile
from builders.readers import read_all
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from zarrfuse.errors import Corrupt
from zarrfuse.formats.ome_tiff import Layout
from zarrfuse.spec.axes import Axis
from zarrfuse.spec.ome import Channel, Picture
from zarrfuse.stores.base import Reader
from zarrfuse.stores.cache import ByteCache
from zarrfuse.views.images import lazy_bytes, pyramid
from zarrfuse.views.images.pyramid import pyramid_file, pyramid_problem, pyramid_size

OME = "{http://www.openmicroscopy.org/Schemas/OME/2016-06}"
TYPES = ["bool", "u1", "u2", "u4", "i1", "i2", "i4", "f4", "f8"]


class Held:
    """An array in memory behind what is used of `images.decode.DecodedArray`."""

    path = "held"
    capacity_bytes = 256 << 20

    def __init__(self, elements: np.ndarray, unit_shape: tuple[int, ...] | None = None) -> None:
        self._elements = elements
        self.shape = elements.shape
        self.dtype = elements.dtype
        self.unit_shape = unit_shape or elements.shape
        self.boxes: list[tuple[slice, ...]] = []
        self.asked: list[tuple[tuple[int, ...], tuple[int, ...], Callable[[], bool]]] = []

    def readinto(self, out: np.ndarray, box: tuple[slice, ...], *, wait: bool = True) -> None:
        assert len(box) == len(self.shape)
        for part, length in zip(box, self.shape, strict=True):
            assert 0 <= part.start < part.stop <= length
            assert part.step in (None, 1)
        self.boxes.append(box)
        assert out.shape == self._elements[box].shape
        out[...] = self._elements[box]

    def decode_ahead(
        self, low: tuple[int, ...], high: tuple[int, ...], is_wanted: Callable[[], bool]
    ) -> None:
        self.asked.append((low, high, is_wanted))


def picture(letters: str, *, samples: bool = False, channels: Sequence[Channel] = ()) -> Picture:
    kinds = {"T": "time", "C": "channel", "S": "sample", "": "other"}
    axes = tuple(
        Axis(letter.lower(), kinds.get(letter, "space"), letter, None, None, None)
        for letter in letters
    )
    return Picture(axes, tuple(channels), None, samples)


def levels(
    shape: tuple[int, ...], letters: str, dtype: str = "u2", count: int = 3, *, halve: str = "YX"
) -> list[np.ndarray]:
    """Levels of different numbers, so that no level or plane can be taken for another."""
    random = np.random.default_rng(5)
    made = []
    for _ in range(count):
        if dtype == "bool":
            made.append(random.integers(0, 2, shape).astype(bool))
        else:
            made.append(random.integers(0, 120, shape).astype(dtype))
        shape = tuple(
            max(length // 2, 1) if letter in halve else length
            for length, letter in zip(shape, letters, strict=True)
        )
    return made


def opened(
    arrays: Sequence[np.ndarray], letters: str, unit: tuple[int, ...] | None = None
) -> Reader:
    held = [Held(array, unit if index == 0 else None) for index, array in enumerate(arrays)]
    return pyramid_file(
        picture(letters, samples=letters.endswith("S")), held, "pyramid", 7, ahead=False
    )


def read_back(data: bytes) -> list[np.ndarray]:
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        assert tif.is_ome
        (series,) = tif.series
        return [level.asarray() for level in series.levels]


@pytest.mark.parametrize("dtype", TYPES)
def test_every_level_reads_as_its_array_in_each_type(dtype: str) -> None:
    arrays = levels((300, 401), "YX", dtype)
    back = read_back(read_all(opened(arrays, "YX")))
    assert len(back) == 3
    for array, read in zip(arrays, back, strict=True):
        assert read.dtype == (np.uint8 if dtype == "bool" else array.dtype)
        np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize(
    ("letters", "shape", "order"),
    [
        ("YX", (150, 140), "XYCZT"),
        ("ZYX", (3, 150, 140), "XYCZT"),
        ("CYX", (3, 150, 140), "XYCZT"),
        ("TCZYX", (2, 3, 4, 150, 140), "XYZCT"),
        ("TZCYX", (2, 3, 4, 150, 140), "XYCZT"),
        ("CZTYX", (2, 3, 4, 150, 140), "XYTZC"),
        ("ZTYX", (3, 4, 150, 140), "XYCTZ"),
        ("YXS", (150, 140, 3), "XYCZT"),
        ("ZYXS", (2, 150, 140, 4), "XYCZT"),
        ("CYXS", (2, 150, 140, 3), "XYCZT"),
    ],
)
def test_axes_and_order_of_planes_are_those_of_the_array(
    letters: str, shape: tuple[int, ...], order: str
) -> None:
    arrays = levels(shape, letters, "u1")
    data = read_all(opened(arrays, letters))
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        (series,) = tif.series
        assert series.axes == letters
        assert len(series.levels) == 3
        for array, level in zip(arrays, series.levels, strict=True):
            assert level.axes == letters
            np.testing.assert_array_equal(level.asarray(), array)
        planes = int(np.prod(shape[: letters.index("Y")]))
        assert len(tif.pages) == planes
        assert all(len(page.subifds) == 2 for page in map(tif.pages.get, range(planes)))
        assert tif.pages[0].is_tiled
        pixels = ElementTree.fromstring(tif.ome_metadata).find(f"{OME}Image/{OME}Pixels")
    letters_of_planes = "".join(letter for letter in order if letter in letters)
    assert pixels.get("DimensionOrder").startswith("XY")
    said = "".join(letter for letter in pixels.get("DimensionOrder") if letter in letters)
    assert said == letters_of_planes


def test_an_axis_of_one_element_that_means_nothing_to_an_image_is_left_out() -> None:
    arrays = [array[None] for array in levels((2, 150, 140), "CYX")]
    held = [Held(array) for array in arrays]
    data = read_all(pyramid_file(picture_of_letters("", "C", "Y", "X"), held, "g", 0, ahead=False))
    for array, read in zip(arrays, read_back(data), strict=True):
        np.testing.assert_array_equal(read, array[0])


def picture_of_letters(*letters: str) -> Picture:
    axes = tuple(Axis("", "other", letter, None, None, None) for letter in letters)
    return Picture(axes, (), None, False)


def test_a_volume_that_shrinks_in_depth_too_shows_the_nearest_plane() -> None:
    arrays = levels((9, 150, 140), "ZYX", halve="ZYX")
    assert [len(array) for array in arrays] == [9, 4, 2]
    back = read_back(read_all(opened(arrays, "ZYX")))
    for array, read in zip(arrays, back, strict=True):
        assert len(read) == 9
        centres = (np.arange(9) + 0.5) * len(array) / 9
        np.testing.assert_array_equal(read, array[centres.astype(int)])


def test_planes_of_several_axes_are_chosen_along_each() -> None:
    arrays = levels((4, 3, 6, 150, 140), "TCZYX", halve="TZYX", count=2)
    _, read = read_back(read_all(opened(arrays, "TCZYX")))
    t, z = np.arange(4) // 2, np.arange(6) // 2
    np.testing.assert_array_equal(read, arrays[1][t][:, :, z])


def test_shared_planes_take_their_room_once() -> None:
    thin = levels((8, 600, 600), "ZYX", halve="ZYX", count=2)
    thick = levels((8, 600, 600), "ZYX", count=2)
    sizes = [
        pyramid_size(picture("ZYX"), [Held(array, (8, 128, 128)) for array in arrays], "g")
        for arrays in (thin, thick)
    ]
    tiles_of_a_plane = 3 * 3 * 128 * 128 * 2
    assert sizes[1] - sizes[0] == 4 * tiles_of_a_plane


def test_levels_that_shrink_in_depth_only_are_left_out() -> None:
    arrays = levels((8, 300, 200), "ZYX", halve="Z", count=2)
    arrays.append(arrays[1][:, ::2, ::2].copy())
    back = read_back(read_all(opened(arrays, "ZYX")))
    assert [read.shape for read in back] == [(8, 300, 200), (8, 150, 100)]
    np.testing.assert_array_equal(back[1], arrays[2][np.arange(8) // 2])


def test_a_pyramid_of_one_level_is_a_tiled_image() -> None:
    arrays = levels((150, 140), "YX", count=1)
    (read,) = read_back(read_all(opened(arrays, "YX")))
    np.testing.assert_array_equal(read, arrays[0])


@pytest.mark.parametrize("side", [16, 128, 256])
def test_images_that_are_exactly_one_tile_or_smaller(side: int) -> None:
    arrays = levels((2, side, side), "CYX", count=2)
    for array, read in zip(
        arrays, read_back(read_all(opened(arrays, "CYX", (1, side, side)))), strict=True
    ):
        np.testing.assert_array_equal(read, array)


ranges = st.tuples(st.floats(0, 1), st.integers(1, 300_000))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(["YX", "CYX", "TZYX", "YXS"]),
    st.integers(1, 300),
    st.integers(1, 300),
    st.sampled_from(TYPES),
    st.integers(1, 200),
    st.lists(ranges, min_size=1, max_size=8),
)
def test_any_range_is_that_slice_of_the_whole_and_the_whole_is_the_arrays(
    letters: str, height: int, width: int, dtype: str, chunk: int, asked: list[tuple[float, int]]
) -> None:
    lengths = {"Y": height, "X": width, "S": 3}
    shape = tuple(lengths.get(letter, 2) for letter in letters)
    arrays = levels(shape, letters, dtype)
    reader = opened(arrays, letters, (chunk,) * len(shape))
    data = read_all(reader)
    assert len(data) == reader.size
    for place, size in asked:
        offset = int(place * (reader.size - 1))
        count = min(size, reader.size - offset)
        buffer = bytearray(b"\xaa" * count)
        reader.readinto(memoryview(buffer), offset)
        assert buffer == data[offset : offset + count]
    back = read_back(data)
    kept = [arrays[0]]
    for array in arrays[1:]:
        if array.shape != kept[-1].shape:
            kept.append(array)
    assert len(back) == len(kept)
    for array, read in zip(kept, back, strict=True):
        np.testing.assert_array_equal(read.reshape(array.shape), array)


def test_what_lies_outside_of_the_image_in_its_last_tiles_is_zero() -> None:
    data = read_all(opened([np.full((130, 150), 9, "u1")], "YX", (128, 128)))
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        page = tif.pages[0]
        starts = page.dataoffsets
        tiles = [np.frombuffer(data, "u1", 128 * 128, at).reshape(128, 128) for at in starts]
    assert len(tiles) == 4
    expected = np.zeros((256, 256), "u1")
    expected[:130, :150] = 9
    for (row, column), tile in zip(product((0, 128), (0, 128)), tiles, strict=True):
        np.testing.assert_array_equal(tile, expected[row : row + 128, column : column + 128])


def test_a_range_touches_only_the_boxes_of_its_tiles() -> None:
    array = Held(levels((4, 1024, 1024), "ZYX", count=1)[0], (1, 128, 128))
    reader = pyramid_file(picture("ZYX"), [array], "g", 0, ahead=False)
    tile = 128 * 128 * 2
    pixels = reader.size - 4 * 64 * tile
    reader.readinto(memoryview(bytearray(2 * tile)), pixels + (64 + 8) * tile)
    assert array.boxes == [
        (slice(1, 2), slice(128, 256), slice(0, 128)),
        (slice(1, 2), slice(128, 256), slice(128, 256)),
    ]
    array.boxes.clear()
    reader.readinto(memoryview(bytearray(10)), pixels + 3 * 256 + 250)
    assert array.boxes == [(slice(0, 1), slice(3, 5), slice(0, 128))]


def test_opening_it_in_a_reader_decodes_nothing() -> None:
    held = [Held(array) for array in levels((30, 300, 200), "ZYX")]
    reader = pyramid_file(picture("ZYX"), held, "g", 0, ahead=False)
    with tifffile.TiffFile(AsFile(reader)) as tif:
        (series,) = tif.series
        assert series.shape == (30, 300, 200)
        assert len(series.levels) == 3
        assert all(page.dataoffsets for page in tif.pages)
    assert not any(array.boxes for array in held)


class AsFile(io.RawIOBase):
    """A reader as a file of Python, read in pages as the kernel reads it."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self._reader = reader
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._reader.size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        first = self._position // 4096 * 4096
        end = min(self._position + len(buffer), self._reader.size)
        last = min(-(-end // 4096) * 4096, self._reader.size)
        pages = bytearray(max(last - first, 0))
        if pages:
            self._reader.readinto(memoryview(pages), first)
        count = max(end - self._position, 0)
        buffer[:count] = pages[self._position - first :][:count]
        self._position += count
        return count


def test_a_header_is_not_made_where_nobody_may_wait() -> None:
    # A name of its own, since headers are kept.
    held = [Held(array) for array in levels((300, 200), "YX")]
    reader = pyramid_file(picture("YX"), held, "not made yet", 0, ahead=False)
    buffer = bytearray(100)
    with pytest.raises(BlockingIOError) as raised:
        reader.readinto(memoryview(buffer), 0, wait=False)
    assert raised.value.errno == errno.EAGAIN
    reader.readinto(memoryview(buffer), 0)
    again = bytearray(100)
    other = pyramid_file(picture("YX"), held, "not made yet", 0, ahead=False)
    other.readinto(memoryview(again), 0, wait=False)
    assert again == buffer
    assert buffer[:2] == b"II"


def test_headers_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(layout: Layout) -> bytes:
        made.append(layout.tiles)
        return b"II header"

    monkeypatch.setattr(pyramid, "pyramid_header", counted)
    monkeypatch.setattr(lazy_bytes, "_kept", ByteCache(10_000))  # room for one
    held = [Held(np.full((200, 100), 7, "u1"))]
    one, again, other = (
        pyramid_file(picture("YX"), held, name, 0, ahead=False) for name in ("one", "one", "other")
    )
    for count, reader in enumerate((one, again, other, other, one, again), 1):
        buffer = bytearray(b"x" * 12)
        reader.readinto(memoryview(buffer), 0)
        assert buffer == b"II header\0\0\0"
        assert len(made) == {1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3}[count]


def test_a_header_that_several_ask_for_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def slow(layout: Layout) -> bytes:
        made.append(layout)
        time.sleep(0.05)
        return b"header"

    monkeypatch.setattr(pyramid, "pyramid_header", slow)
    held = [Held(np.full((200, 100), 7, "u1"))]
    readers = [pyramid_file(picture("YX"), held, "once", 0, ahead=False) for _ in range(8)]
    buffers = [bytearray(6) for _ in readers]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda r, b: r.readinto(memoryview(b), 0), readers, buffers))
    assert buffers == [b"header"] * 8
    assert len(made) == 1


def test_pixels_that_are_not_at_hand_make_the_file_so() -> None:
    class NotAtHand(Held):
        def readinto(self, out: np.ndarray, box: tuple[slice, ...], *, wait: bool = True) -> None:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "not decoded")
            super().readinto(out, box)

    array = NotAtHand(np.full((300, 200), 7, "u1"))
    reader = pyramid_file(picture("YX"), [array], "g", 0, ahead=False)
    at = reader.size - reader.size // 4
    with pytest.raises(BlockingIOError):
        reader.readinto(memoryview(bytearray(10)), at, wait=False)
    reader.readinto(memoryview(bytearray(10)), at)


def test_a_broken_chunk_breaks_only_what_lies_on_it() -> None:
    class Damaged(Held):
        def readinto(self, out: np.ndarray, box: tuple[slice, ...], *, wait: bool = True) -> None:
            if box[0].start < 128 <= box[1].start:
                raise Corrupt("held: chunk c/0/1: no gzip")
            super().readinto(out, box)

    array = Damaged(np.full((256, 256), 7, "u1"), (128, 128))
    reader = pyramid_file(picture("YX"), [array], "g", 0, ahead=False)
    tile = 128 * 128
    pixels = reader.size - 4 * tile
    for index in (0, 2, 3):
        buffer = bytearray(tile)
        reader.readinto(memoryview(buffer), pixels + index * tile)
        assert buffer == bytes([7]) * tile
    with pytest.raises(Corrupt, match="c/0/1"):
        reader.readinto(memoryview(bytearray(tile)), pixels + tile)


def test_many_threads_may_read_one_file() -> None:
    arrays = levels((2, 500, 400), "CYX")
    reader = opened(arrays, "CYX", (1, 128, 128))
    data = read_all(reader)
    wrong: list[int] = []

    def read(first: int) -> None:
        for offset in range(first * 1000, reader.size, 40_000):
            buffer = bytearray(min(30_000, reader.size - offset))
            reader.readinto(memoryview(buffer), offset)
            if buffer != data[offset : offset + len(buffer)]:
                wrong.append(offset)

    threads = [threading.Thread(target=read, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_size_and_time_are_told_before_anything_is_read() -> None:
    held = [Held(array) for array in levels((300, 200), "YX")]
    reader = pyramid_file(picture("YX"), held, "g", 77, ahead=False)
    assert reader.size == pyramid_size(picture("YX"), held, "g")
    assert reader.mtime_ns == 77
    reader.close()
    assert not any(array.boxes for array in held)


def test_what_has_no_file_says_why_and_is_refused() -> None:
    held = [Held(np.zeros((300, 200), "u8"))]
    problem = pyramid_problem(picture("YX"), held)
    assert problem == "uint64 has no type in OME-TIFF that readers know"
    for call in (
        lambda: pyramid_size(picture("YX"), held, "g"),
        lambda: pyramid_file(picture("YX"), held, "g", 0, ahead=False),
    ):
        with pytest.raises(ValueError, match="uint64"):
            call()
    assert pyramid_problem(picture("YX"), []) == "it has no levels"


def in_order(reader: Reader, start: int, stop: int, step: int = 131_072) -> None:
    for offset in range(start, stop, step):
        reader.readinto(memoryview(bytearray(min(step, stop - offset))), offset)


def test_reading_in_order_has_the_next_tiles_decoded_ahead() -> None:
    array = Held(np.zeros((2, 4096, 4096), "u2"), (1, 256, 256))
    reader = pyramid_file(picture("CYX"), [array], "g", 0, ahead=True)
    start = reader.size - 2 * 4096 * 4096 * 2
    in_order(reader, start, start + (2 << 20))
    assert not array.asked
    in_order(reader, start + (2 << 20), start + (4 << 20))
    # A row of tiles has 2 MiB, and 12 MiB behind the first 3 are asked for.
    rows = [((0, y, 0), (1, y + 256, 8192)) for y in range(512, 1792, 256)]
    begin, end = ((0, 256, 4096), (1, 512, 8192)), ((0, 1792, 0), (1, 2048, 4096))
    assert [(low, high) for low, high, _ in array.asked] == [begin, *rows, end]
    assert all(is_wanted() for *_, is_wanted in array.asked)
    before = len(array.asked)
    in_order(reader, start + (4 << 20), start + (8 << 20))
    assert len(array.asked) == before
    in_order(reader, start + (8 << 20), start + (12 << 20))
    assert len(array.asked) > before
    in_order(reader, start + (12 << 20), reader.size)
    assert array.asked[-1][1] == (2, 4096, 8192)


def test_what_was_asked_for_is_not_wanted_after_a_jump_or_when_it_is_closed() -> None:
    array = Held(np.zeros((2, 4096, 4096), "u2"), (1, 256, 256))
    reader = pyramid_file(picture("CYX"), [array], "g", 0, ahead=True)
    start = reader.size - 2 * 4096 * 4096 * 2
    for leave in (lambda: in_order(reader, reader.size - 100, reader.size), reader.close):
        array.asked.clear()
        in_order(reader, start, start + (4 << 20))
        assert array.asked
        assert all(is_wanted() for *_, is_wanted in array.asked)
        leave()
        assert not any(is_wanted() for *_, is_wanted in array.asked)


def test_single_tiles_and_slow_arrays_are_not_read_ahead() -> None:
    array = Held(np.zeros((2, 4096, 4096), "u2"), (1, 256, 256))
    for ahead in (True, False):
        reader = pyramid_file(picture("CYX"), [array], "g", 0, ahead=ahead)
        start = reader.size - 2 * 4096 * 4096 * 2
        tile = 256 * 256 * 2
        for index in range(0, 512, 17):
            in_order(reader, start + index * tile, start + (index + 1) * tile, 4096)
        if not ahead:
            in_order(reader, start, reader.size)
    assert not array.asked


def test_reading_ahead_in_samples_and_deep_chunks_stays_in_the_array_and_in_the_cache() -> None:
    array = Held(np.zeros((4, 1500, 1500, 3), "u2"), (4, 300, 300, 3))
    array.capacity_bytes = 24 << 20
    reader = pyramid_file(picture("ZYXS", samples=True), [array], "g", 0, ahead=True)
    start = reader.size - 4 * 5 * 5 * 320 * 320 * 6
    for offset in range(start, reader.size, 4096):
        in_order(reader, offset, offset + 4096)
        if array.asked:
            break
    # A third of the cache for chunks of four planes, and the rest of the first tile and the last.
    extents = [(high[1] - low[1]) * (high[2] - low[2]) * 6 for low, high, _ in array.asked]
    assert 0 < sum(extents) < (24 << 20) // 12 + 2 * 320 * 320 * 6
    in_order(reader, 0, reader.size)
    furthest = (4, 1500, 1500, 6)
    for low, high, _ in array.asked:
        assert low[-1] == 0
        assert high[-1] == 6
        assert all(0 <= a < b <= n for a, b, n in zip(low, high, furthest, strict=True))
