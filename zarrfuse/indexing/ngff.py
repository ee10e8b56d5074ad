"""OME-NGFF 0.5 metadata of an image whose levels are arrays.

Source: OME-NGFF 0.5, multiscales and omero metadata. Used by `dataset`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zarrfuse.indexing.grid import NGFF_ORDER, GridError
from zarrfuse.shards.ome_xml import channel_names
from zarrfuse.spec.axes import KINDS, unit_of

_COLOURS = ("FFFFFF", "00FF00", "FF00FF", "00FFFF", "FFFF00", "FF0000", "0000FF")


def check_dimensions(names: Sequence[str]) -> None:
    """Raises `GridError` if these are no dimensions of an OME-NGFF image."""
    order = [name for name in NGFF_ORDER if name in names]
    if order != list(names) or order[-2:] != ["y", "x"]:
        raise GridError(
            f"OME-NGFF takes the dimensions t, c, z, y and x in this order, and these are "
            f"{','.join(names)}: rename those of files with --dims, and fields in the --pattern"
        )


def image_document(
    name: str,
    names: Sequence[str],
    shapes: Sequence[Sequence[int]],
    scale: Mapping[str, tuple[float, str]],
    attributes: Mapping[str, Any],
    data_type: str,
) -> dict[str, Any]:
    """The `zarr.json` of the group of an image; its levels are the arrays "0", "1" and so on.

    `shapes`: of the levels; `scale`: see `FileArray`; `attributes`: of the first file, for its channels.
    """
    axes = [dict(_axis(axis, scale)) for axis in names]
    datasets = []
    for level, shape in enumerate(shapes):
        steps = [
            scale.get(axis, (1.0, ""))[0] * (full / length)
            for axis, full, length in zip(names, shapes[0], shape, strict=True)
        ]
        transformation = {"type": "scale", "scale": steps}
        datasets.append({"path": str(level), "coordinateTransformations": [transformation]})
    ome: dict[str, Any] = {
        "version": "0.5",
        "multiscales": [{"name": name, "axes": axes, "datasets": datasets}],
    }
    channels = list(channel_names(attributes.get("ome_xml", "")))
    if "c" in names and len(channels) == shapes[0][list(names).index("c")]:
        ome["omero"] = {"channels": [_shown(*it, data_type) for it in enumerate(channels)]}
    return {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}


def _axis(name: str, scale: Mapping[str, tuple[float, str]]) -> Iterator[tuple[str, str]]:
    kind = KINDS[name]
    yield "name", name
    yield "type", kind
    unit = unit_of(scale.get(name, (1.0, ""))[1], kind)
    if unit is not None:
        yield "unit", unit


def _shown(number: int, label: str, data_type: str) -> dict[str, Any]:
    kind, bits = data_type.rstrip("0123456789"), data_type.lstrip("uintfloacmpx")
    high = 2 ** (int(bits) - (kind == "int")) - 1 if kind in ("int", "uint") else 1
    return {
        "label": label or f"channel {number}",
        "color": _COLOURS[number % len(_COLOURS)],
        "active": True,
        "window": {"min": 0, "max": high, "start": 0, "end": high},
    }
