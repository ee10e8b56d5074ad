"""What a TIFF file says beyond pixels: the attributes of an array, and the distance of its pixels.

Used by `tiff`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import tifffile

from zarrfuse.shards.ome_xml import pixels_of
from zarrfuse.spec.axes import unit_of

_APERIO_STEP = re.compile(r"\|\s*MPP\s*=\s*([0-9.]+)")  # in µm
_ESCAPED_MICRO = re.compile(r"\\u00[bB]5")  # ImageJ escapes the sign as Java does
_DESCRIPTIVE = ("software", "datetime", "artist", "copyright")


def attributes_of(tiff: tifffile.TiffFile, page: Any) -> dict[str, Any]:
    """Attributes for a `zarr.json`, of the first page.

    `ome_xml`: the text of an OME-TIFF. `imagej`: the metadata of ImageJ. `geotiff`: consolidated GeoTIFF
    tags. `tiff`: description (if it is none of these), photometric interpretation, resolution, who wrote
    it, and which images of the file are left out: labels, thumbnails.
    """
    found: dict[str, Any] = {}
    if tiff.ome_metadata is not None:
        found["ome_xml"] = tiff.ome_metadata
    if tiff.imagej_metadata is not None:
        found["imagej"] = _json(tiff.imagej_metadata)
    if page.is_geotiff and page.geotiff_tags is not None:
        found["geotiff"] = _json(page.geotiff_tags)
    if 42112 in page.tags:
        found["gdal_metadata"] = _json(page.tags[42112].value)
    described: dict[str, Any] = {"photometric": getattr(page.photometric, "name", "").lower()}
    if page.description and not found.keys() & {"ome_xml", "imagej"} and not page.is_shaped:
        described["description"] = page.description
    for name in _DESCRIPTIVE:
        value = _text(page, name)
        if value:
            described[name] = value
    resolution = _resolution(page)
    if resolution is not None and resolution[2] != "none":
        described["resolution"] = {"x": resolution[0], "y": resolution[1], "unit": resolution[2]}
    if len(tiff.series) > 1:
        described["left_out"] = [
            f"{series.name or series.kind} {'x'.join(map(str, series.shape))}"
            for series in tiff.series[1:]
        ]
    found["tiff"] = described
    return found


def scale_of(
    tiff: tifffile.TiffFile, page: Any, axes: Sequence[str]
) -> dict[str, tuple[float, str]]:
    """The distance of pixels along axes, with its unit: of OME-XML, ImageJ, Aperio, or per cm."""
    if tiff.ome_metadata is not None:
        found = dict(_ome_scale(tiff.ome_metadata))
    elif tiff.is_svs:
        stated = _APERIO_STEP.search(page.description)
        step = _positive(stated[1]) if stated is not None else None
        found = {} if step is None else dict.fromkeys("xy", (step, "micrometer"))
    elif tiff.imagej_metadata is not None:
        found = dict(_imagej_scale(tiff.imagej_metadata, page))
    else:
        found = {}
        resolution = _resolution(page)
        # A resolution per inch is that of a print; most programs write some number.
        if resolution is not None and resolution[2] == "centimeter":
            per_x, per_y, _ = resolution
            found = {"x": (1e4 / per_x, "micrometer"), "y": (1e4 / per_y, "micrometer")}
    return {axis: scale for axis, scale in found.items() if axis in axes}


def _unit(text: str) -> str:
    """A unit as OME-NGFF spells it; as it is, if it is not known."""
    return unit_of(_ESCAPED_MICRO.sub("\u00b5", text)) or text


def _ome_scale(xml: str) -> Iterator[tuple[str, tuple[float, str]]]:
    pixels = pixels_of(xml)
    if pixels is None:
        return
    members = {
        "x": "PhysicalSizeX",
        "y": "PhysicalSizeY",
        "z": "PhysicalSizeZ",
        "t": "TimeIncrement",
    }
    for axis, member in members.items():
        size = _positive(pixels.get(member))
        if size is not None:
            unit = pixels.get(f"{member}Unit", "s" if axis == "t" else "µm")
            yield axis, (size, _unit(unit))


def _imagej_scale(
    metadata: Mapping[str, Any], page: Any
) -> Iterator[tuple[str, tuple[float, str]]]:
    unit = _unit(str(metadata.get("unit", "")))
    resolution = _resolution(page)
    if unit and unit != "pixel":
        if resolution is not None:
            yield "x", (1 / resolution[0], unit)
            yield "y", (1 / resolution[1], unit)
        spacing = _positive(metadata.get("spacing"))
        if spacing is not None:
            yield "z", (spacing, unit)
    interval = _positive(metadata.get("finterval"))
    if interval is not None:
        yield "t", (interval, _unit(str(metadata.get("tunit", "s"))))


def _resolution(page: Any) -> tuple[float, float, str] | None:
    """(pixels per unit along x, along y, unit); None if a tag is missing or not positive."""
    found = []
    for name in ("XResolution", "YResolution"):
        value = page.tags.valueof(name)
        number = _positive(value[0] / value[1] if value and value[1] else None)
        if number is None:
            return None
        found.append(number)
    unit = page.tags.valueof("ResolutionUnit", 2)
    return found[0], found[1], {1: "none", 2: "inch", 3: "centimeter"}.get(int(unit), "none")


def _positive(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 < number < float("inf") else None


def _text(page: Any, name: str) -> str:
    tag = {"software": 305, "datetime": 306, "artist": 315, "copyright": 33432}[name]
    value = page.tags.valueof(tag)
    return value.strip() if isinstance(value, str) else ""


def _json(value: Any) -> Any:
    """`value` as JSON has it; what JSON lacks (bytes) as text."""
    return json.loads(json.dumps(value, default=_plain), parse_constant=str)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
