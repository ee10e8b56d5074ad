"""Whether the pages of a TIFF file are all there, and as many as memory has room for.

tifffile takes a file that was cut off for one with fewer pages or planes, follows a chain of pages in
circles forever if it is longer than 100, and makes a list of as many planes as OME-XML says.
Used by `tiff`.
"""

import re
import struct
from collections.abc import Callable
from math import prod

import tifffile

from zarrfuse.shards.layout import Refused

_FOLLOWED = 100
"""So many pages tifffile follows and finds a circle."""
_MOST_PLANES = 1 << 22
_MOST_TAGS = 4096
_PIXELS = re.compile(r"<(?:\w+:)?Pixels\b[^>]*>")
_PLANES = re.compile(r"\bSize[ZCT]\s*=\s*[\"'](\d+)[\"']")


def check_pages(tiff: tifffile.TiffFile, fail: Callable[[str], Refused]) -> None:
    """Raises `fail` of a reason for a file whose list of pages is cut off, damaged, or too long."""
    if tiff.ome_metadata is not None:
        for pixels in _PIXELS.findall(tiff.ome_metadata):
            planes = prod(int(digits[:20]) for digits in _PLANES.findall(pixels))
            if planes > _MOST_PLANES:
                raise fail(
                    f"its OME-XML says {planes} planes: more than {_MOST_PLANES} are refused"
                )
    try:
        tiff.pages[_FOLLOWED - 1]  # so that tifffile follows no more
        count = _FOLLOWED
    except IndexError:
        count = len(tiff.pages)
    if not count:
        raise fail("has no image; perhaps it is cut off")
    seen = {tiff.pages[number].offset for number in range(count)} if count == _FOLLOWED else set()
    offset = tiff.pages[count - 1].offset
    while following := _following(tiff, offset, count, fail):
        if following in seen or count < _FOLLOWED:
            raise fail(f"its list of pages is damaged behind page {count - 1}")
        seen.add(following)
        offset, count = following, count + 1
    if count == 1:
        _check_imagej(tiff, fail)


def _check_imagej(tiff: tifffile.TiffFile, fail: Callable[[str], Refused]) -> None:
    """For a file of one page with ImageJ's description of more planes, which are behind the first one."""
    page = tiff.pages.first
    images = (tiff.imagej_metadata or {}).get("images", 1)
    if not isinstance(images, int) or images <= 1 or int(page.compression) != 1:
        return
    # Other programs copy the description of a stack to one plane of it: then nothing is behind the plane.
    is_imagej = page.is_contiguous and page.offset < page.dataoffsets[0]
    end = page.dataoffsets[0] + page.nbytes if is_imagej else tiff.filehandle.size
    size = tiff.filehandle.size
    if end != size and page.dataoffsets[0] + page.nbytes * images > size:
        raise fail(f"is cut off: its {images} planes reach beyond its {size} bytes")


def _following(
    tiff: tifffile.TiffFile, offset: int, number: int, fail: Callable[[str], Refused]
) -> int:
    """The offset of the page behind page `number` - 1, which is at `offset`; 0 behind the last one."""
    file, form = tiff.filehandle, tiff.tiff
    cut_off = fail(f"is cut off: page {number} would be beyond its {file.size} bytes")
    try:
        file.seek(offset)
        (tags,) = struct.unpack(form.tagnoformat, file.read(form.tagnosize))
        if tags > _MOST_TAGS:
            raise fail(f"page {number - 1} is damaged: it has {tags} tags")
        file.seek(offset + form.tagnosize + tags * form.tagsize)
        (following,) = struct.unpack(form.offsetformat, file.read(form.offsetsize))
    except struct.error as error:
        raise cut_off from error
    if following >= file.size:
        raise cut_off
    return int(following)
