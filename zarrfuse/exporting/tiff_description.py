"""What an exported TIFF file says of its pixels: axes, sizes and positions as OME-XML, and a resolution.

Used by `tiff`. It must not know the bytes of files. tifffile makes the OME-XML.
"""

from dataclasses import replace
from math import prod
from uuid import NAMESPACE_URL, uuid5

from zarrfuse.exporting.plan import Plan
from zarrfuse.exporting.source import Coords
from zarrfuse.exporting.tiff_ifds import Described
from zarrfuse.formats.image_metadata import ome_metadata, plane_resolution, stacked
from zarrfuse.spec.axes import Axis
from zarrfuse.spec.ome import Picture

_TYPES = frozenset(
    [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32)]
    + ["float32", "float64", "complex64", "complex128"]
)
"""Those of OME-XML (schema 2016-06, PixelType)."""
_SAYS_NOTHING = frozenset({"axes", "Name", "Creator", "UUID"})


def described(plan: Plan, coords: Coords, shape: Coords, title: str) -> Described:
    """What the file at `coords`, of this shape, says; nothing if only its width and height are known."""
    picture = _picture_of_file(plan, coords, shape)
    stack, picture = stacked(shape, picture)
    metadata = ome_metadata(stack, plan.dtype, picture, title)
    per_cm = plane_resolution(metadata)
    split = len(stack) - 2 - plan.samples
    pages = prod(stack[:split])
    if plan.dtype.name not in _TYPES or (pages == 1 and metadata.keys() <= _SAYS_NOTHING):
        return Described(None, per_cm)
    from tifffile import OmeXml  # noqa: PLC0415

    # Files of the same shape are different ones.
    metadata["UUID"] = str(uuid5(NAMESPACE_URL, repr((metadata, coords))))
    xml = OmeXml(**metadata)
    samples = stack[-1] if plan.samples else 1
    height, width = stack[split : split + 2]
    stored = (pages, 1, 1, height, width, samples)
    xml.addimage(dtype=plan.dtype, shape=stack, storedshape=stored, **metadata)
    text: str = xml.tostring(declaration=True)
    return Described(text.encode(), per_cm)


def _picture_of_file(plan: Plan, coords: Coords, shape: Coords) -> Picture:
    """The picture of a file: its position, and its channels, are those of a part of the array."""
    starts = [at * length for at, length in zip(coords, plan.chunk_shape, strict=True)]
    axes = tuple(_moved(axis, start) for axis, start in zip(plan.picture.axes, starts, strict=True))
    channels = plan.picture.channels
    for axis, start, length in zip(axes, starts, shape, strict=True):
        if axis.letter == "C" and channels:
            channels = channels[start : start + length]
    return replace(plan.picture, axes=axes, channels=channels)


def _moved(axis: Axis, start: int) -> Axis:
    if not start:
        return axis
    if axis.scale is None or axis.unit is None:
        return replace(axis, origin=None)
    return replace(axis, origin=(axis.origin or 0.0) + start * axis.scale)
