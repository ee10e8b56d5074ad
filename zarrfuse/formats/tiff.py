"""TIFF files of whole arrays or chunks: the bytes around the elements.

Owns which types TIFF has, which description for readers a file has, and the positions of its pages. Used by
the `images` view. It must not know stores or arrays, only shape, type and picture.

    head      file header, first IFD, description
    pixels    all elements in C order, contiguous and uncompressed
    tail      IFDs of the other pages
    again     a copy of the last plane, if `imagej` must not find the pages contiguous

tifffile writes the IFDs into a file object that keeps them and skips the pixels. It is imported with the
first header.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from zarrfuse.formats import imagej
from zarrfuse.formats.envelope import PAGE, Envelope
from zarrfuse.formats.image_metadata import CREATOR, ome_metadata, stacked
from zarrfuse.spec.ome import Picture

_TYPES: Final = frozenset(
    [
        *("bool", "uint8", "uint16", "uint32", "int8", "int16", "int32"),
        *("float16", "float32", "float64"),
    ]
)
_CLASSIC_BYTES: Final = 1 << 32
_IFD_BYTES: Final = 256  # at most, of a page that is not the first, in a classic file

_MOST_PAGES: Final = 1 << 18
"""With more pages only the first has an IFD, which takes about 200 bytes. tifffile and ImageJ find the
others by the description."""

_LARGE_STRIP: Final = 1 << 28
_STRIP_BYTES: Final = 1 << 26
_MOST_STRIPS: Final = 1 << 18
"""In BigTIFF, planes of more than 256 MiB have strips of about 64 MiB: some readers read a whole strip at
once. ImageJ reads contiguous strips as one. Each strip costs 16 bytes of an IFD; if all pages together had
more than `_MOST_STRIPS`, strips are larger."""

_MOST_MADE: Final = 64
"""With more IFDs than this, the size of all is computed from that of some."""

_Shown: TypeAlias = tuple[tuple[int, ...], Picture, str]
"""Shape and picture of a stack of images, and its name."""


def tiff_problem(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str | None:
    """Why there is no TIFF of such an array or chunk, as a clause; None if there is one.

    TIFF has 64-bit integers and complex numbers, but readers refuse or misread them.
    """
    if dtype.name not in _TYPES:
        return f"{dtype.name} has no type in TIFF that readers know"
    if 0 in shape:
        return "it has no elements"
    if any(length >= 1 << 31 for length in shape[-3:]):
        return f"an axis of {max(shape[-3:])} elements is longer than readers of TIFF take"
    return None


def array_tiff(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    picture: Picture,
    name: str,
    *,
    align: int | None = PAGE,
) -> Envelope:
    """An array, or a chunk, as a TIFF file: the same bytes for the same arguments.

    The pixels begin at a multiple of `align` bytes; None: right after the header.

    Below 4 GiB it is a classic TIFF that plain ImageJ opens as a hyperstack. With types that ImageJ does
    not have, and as BigTIFF from 4 GiB on, it has OME-XML. float16 has neither, but tifffile knows its
    shape. The time does not depend on the number of pages; making the tail takes 5 us for each. Raises
    `ValueError` if there is a `tiff_problem`.
    """
    _check(shape, dtype)
    if dtype == np.bool_ and picture.display_range is None:  # else 1 of 255 looks as black as 0
        picture = replace(picture, display_range=(0.0, 1.0))
    image_shape, image = stacked(shape, picture)
    pages = _Pages.of(image_shape, dtype, samples=image.samples, align=align)
    stack = imagej.hyperstack(image_shape, pages.dtype, image)
    if stack is not None and stack.is_zct and pages.width == 1:
        stack = None  # with two descriptions, tifffile takes such pages for the rows of one
    if stack is not None and pages.fits_classic(pages.page_bytes if stack.is_zct else 0):
        return _imagej_tiff(pages, stack, (image_shape, image, name))
    if pages.dtype == np.float16 or pages.count > _MOST_PAGES:
        return _shaped_tiff(pages, shape)
    return _written(pages, pages.count, _ome_xml(pages, image_shape, image, name))


def _imagej_tiff(pages: "_Pages", stack: imagej.Hyperstack, shown: _Shown) -> Envelope:
    """A file with the metadata of ImageJ.

    If channels come before slices, it has OME-XML, too: Bio-Formats ignores `order=`, and would take
    channels for slices.
    """
    from tifffile import imagej_metadata_tag  # noqa: PLC0415

    shape, image, name = shown
    count = pages.count
    if count > _MOST_PAGES:
        count = 1
        if stack.is_zct or (image.samples and pages.dtype.itemsize > 1):
            stack = imagej.Hyperstack(frames=stack.planes)
    description = imagej.description(stack, pages.dtype, image)
    extra = imagej_metadata_tag(imagej.tags(stack, pages.dtype, image), "<")
    resolution = imagej.resolution(image)
    if not stack.is_zct:
        return _written(pages, count, description.encode("ascii"), extra, resolution=resolution)
    xml = _ome_xml(pages, shape, image, name)
    return _written(pages, count, xml, extra, resolution=resolution, second=description)


def _shaped_tiff(pages: "_Pages", shape: tuple[int, ...]) -> Envelope:
    """A file with a description for tifffile, which other readers ignore."""
    described: dict[str, Any] = {"shape": list(shape)}
    image = "YXS"[: 3 if pages.samples > 1 else 2]
    if len(shape) >= len(image):  # without axes, it misreads the shape (1, 1, 1, 1, 1)
        described["axes"] = "Q" * (len(shape) - len(image)) + image
    count = pages.count
    if count > _MOST_PAGES:
        described["truncated"] = True
        count = 1
    return _written(pages, count, json.dumps(described).encode("ascii"))


def _check(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    problem = tiff_problem(shape, dtype)
    if problem is not None:
        raise ValueError(problem)


@dataclass(frozen=True, slots=True)
class _Pages:
    """All planes: `count` of them, of `height` x `width` pixels of `samples` elements.

    The first begins at a multiple of `align` bytes; None: where tifffile puts it.
    """

    count: int
    height: int
    width: int
    samples: int
    dtype: np.dtype[Any]
    align: int | None

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        *,
        samples: bool,
        align: int | None,
    ) -> "_Pages":
        """The pages of an array; booleans, a byte each in Zarr, become uint8."""
        split = len(shape) - (3 if samples else 2)
        height, width = shape[split : split + 2]
        stored = np.dtype(np.uint8) if dtype == np.bool_ else dtype.newbyteorder("<")
        count, depth = prod(shape[:split]), shape[-1] if samples else 1
        return cls(count, height, width, depth, stored, align)

    @property
    def page_bytes(self) -> int:
        return self.height * self.width * self.samples * self.dtype.itemsize

    @property
    def page_shape(self) -> tuple[int, ...]:
        plane = (self.height, self.width)
        return (*plane, self.samples) if self.samples > 1 else plane

    def rows_per_strip(self, ifds: int) -> int | None:
        """Rows per strip in BigTIFF, if so many pages have an IFD; None: all rows."""
        if self.page_bytes <= _LARGE_STRIP:
            return None
        most = max(1, _MOST_STRIPS // ifds)
        return max(1, _STRIP_BYTES * self.height // self.page_bytes, -(-self.height // most))

    def fits_classic(self, more_bytes: int) -> bool:
        """Whether 32-bit offsets suffice, with space for IFDs, colours and `more_bytes`."""
        around = more_bytes + self.count * _IFD_BYTES + (1 << 20)
        return self.count * self.page_bytes + around < _CLASSIC_BYTES


def _ome_xml(pages: _Pages, shape: tuple[int, ...], image: Picture, name: str) -> bytes:
    from tifffile import OmeXml  # noqa: PLC0415

    metadata = ome_metadata(shape, pages.dtype, image, name)
    stored = (pages.count, 1, 1, pages.height, pages.width, pages.samples)
    xml = OmeXml(**metadata)
    xml.addimage(dtype=pages.dtype, shape=shape, storedshape=stored, **metadata)
    declared: str = xml.tostring(declaration=True)
    return declared.encode()


def _written(
    pages: _Pages,
    count: int,
    described: bytes,
    extra: Sequence[Any] = (),
    *,
    resolution: tuple[float, float] | None = None,
    second: str | None = None,
) -> Envelope:
    """The file of all pages, with IFDs for the first `count`.

    With a `second` description, that of ImageJ, the pixels of the last page are at the end of the file. Of
    two tags ImageDescription, ImageJ uses the one that begins with its name, and other readers the first;
    libtiff warns of the second.
    """
    again = second is not None
    bigtiff = not pages.fits_classic(len(described) + (pages.page_bytes if again else 0))
    tags: dict[str, Any] = {
        "dtype": pages.dtype,
        "photometric": "rgb" if pages.samples > 2 else "minisblack",
        "planarconfig": "contig" if pages.samples > 1 else None,
        "rowsperstrip": pages.rows_per_strip(count) if bigtiff else None,
        "resolution": resolution,
        "resolutionunit": "none",
        "returnoffset": True,
    }
    first: dict[str, Any] = {"description": described, "extratags": extra, "software": CREATOR}
    write = partial(_write, pages, bigtiff, tags, first, second)
    if count <= _MOST_MADE:
        head, tail = write(count)
        return Envelope(head, len(tail), lambda: tail, pages.page_bytes if again else 0)
    # All IFDs but the first have one size, and the size of 16 of them keeps the alignment.
    some = _MOST_MADE // 2 + count % 16
    head, tail = write(some)
    of_16 = len(write(some + 16)[1]) - len(tail)
    size = len(tail) + (count - some) // 16 * of_16
    return Envelope(head, size, lambda: write(count)[1], pages.page_bytes if again else 0)


def _write(
    pages: _Pages,
    bigtiff: bool,
    tags: dict[str, Any],
    first: dict[str, Any],
    second: str | None,
    count: int,
) -> tuple[bytes, bytes]:
    """The bytes before and after the pixels, with IFDs of `count` pages; see `_written`."""
    from tifffile import TiffWriter  # noqa: PLC0415

    again = second is not None
    # tifffile writes its own metadata as a second description, which is overwritten in place.
    metadata = {"room": " " * len(second)} if second else None
    contiguous = count - 1 if again else count
    shape = (contiguous, *pages.page_shape) if contiguous > 1 else pages.page_shape
    pixels_size = pages.count * pages.page_bytes
    file = _Extents()
    target: Any = file  # not an IO[bytes], which is not needed
    writer: Any  # its types do not permit shared keyword arguments
    with TiffWriter(target, bigtiff=bigtiff, byteorder="<", ome=False, shaped=again) as writer:
        start, _ = writer.write(shape=shape, metadata=metadata, align=pages.align, **tags, **first)
        writer.filehandle.seek(start + pixels_size)
        end = 0
        if second is not None:
            writer.overwrite_description(second)
            end, _ = writer.write(shape=pages.page_shape, metadata=None, software=False, **tags)
    return file.between(0, start), file.between(start + pixels_size, end or file.end)


class _Extents(io.RawIOBase):
    """A sparse file: only written bytes take memory."""

    def __init__(self) -> None:
        self._position = 0
        self._extents: list[tuple[int, bytes]] = []
        self.end = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.end}[whence]
        self._position = origin + offset
        return self._position

    def write(self, data: Any) -> int:
        extent = bytes(data)
        self._extents.append((self._position, extent))
        self._position += len(extent)
        self.end = max(self.end, self._position)
        return len(extent)

    def between(self, start: int, stop: int) -> bytes:
        """The bytes of a range; zeros where nothing was written."""
        result = bytearray(max(0, stop - start))
        for position, extent in self._extents:
            low, high = max(start, position), min(stop, position + len(extent))
            if low < high:
                result[low - start : high - start] = extent[low - position : high - position]
        return bytes(result)
