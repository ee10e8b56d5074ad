"""Attributes of pictures as programs write them, and nodes that have them."""

import copy
import json
from collections.abc import Callable
from typing import Any

from builders.nodes import array_of, v2_array_of

from zarrfuse.spec.node import ArrayNode, GroupNode
from zarrfuse.spec.node_v2 import parse_v2_group
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.ome import Picture, Pyramid, pyramids_of

MU = "micrometer"


def space(name: str, unit: str | None = MU) -> dict[str, Any]:
    return {"name": name, "type": "space"} | ({} if unit is None else {"unit": unit})


def scaled(path: str, *scale: float) -> dict[str, Any]:
    return {"path": path, "coordinateTransformations": [{"type": "scale", "scale": list(scale)}]}


def window(start: float, end: float, low: float, high: float) -> dict[str, float]:
    return {"start": start, "end": end, "min": low, "max": high}


IDR: dict[str, Any] = {  # image 6001240 of IDR, OME-NGFF 0.4
    "multiscales": [
        {
            "axes": [{"name": "c", "type": "channel"}, space("z"), space("y"), space("x")],
            "datasets": [
                scaled("0", 1.0, 0.5002025531914894, 0.3603981534640209, 0.3603981534640209),
                scaled("1", 1.0, 0.5002025531914894, 0.7207963069280418, 0.7207963069280418),
                scaled("2", 1.0, 0.5002025531914894, 1.4415926138560835, 1.4415926138560835),
            ],
            "version": "0.4",
        }
    ],
    "omero": {
        "channels": [
            {
                "active": True,
                "coefficient": 1.0,
                "color": "0000FF",
                "family": "linear",
                "inverted": False,
                "label": "LaminB1",
                "window": window(0.0, 1500.0, 0.0, 65535.0),
            },
            {
                "active": True,
                "coefficient": 1.0,
                "color": "FFFF00",
                "family": "linear",
                "inverted": False,
                "label": "Dapi",
                "window": window(0.0, 1500.0, 0.0, 65535.0),
            },
        ],
        "id": 1,
        "rdefs": {"defaultT": 0, "defaultZ": 118, "model": "color"},
        "version": "0.4",
    },
}
IDR_FIRST: dict[str, Any] = {  # OME-NGFF 0.1, as the first pictures of IDR were published
    "multiscales": [{"datasets": [{"path": "0"}, {"path": "1"}], "version": "0.1"}],
    "omero": {
        "channels": [
            {
                "active": False,
                "color": "FF0000",
                "label": "Cy3",
                "window": {"end": 1500.0, "max": 65535.0, "min": 0.0, "start": 0.0},
            }
        ],
        "rdefs": {"model": "color"},
        "version": "0.1",
    },
}
NAMED_AXES: dict[str, Any] = {  # OME-NGFF 0.3
    "multiscales": [
        {
            "version": "0.3",
            "name": "example",
            "datasets": [{"path": "0"}, {"path": "1"}],
            "axes": ["t", "c", "z", "y", "x"],
            "type": "gaussian",
            "metadata": {"method": "skimage.transform.pyramid_gaussian", "args": "[true]"},
        }
    ],
}
BIOFORMATS2RAW: dict[str, Any] = {  # and NGFF-Converter, which runs it: the group `0` of a file
    "multiscales": [
        {
            "metadata": {
                "method": "loci.common.image.SimpleImageScaler",
                "version": "Bio-Formats 7.1.0",
            },
            "axes": [
                {"name": "t", "type": "time"},
                {"name": "c", "type": "channel"},
                space("z", None),
                space("y"),
                space("x"),
            ],
            "name": "image 1",
            "datasets": [
                scaled("0", 1.0, 1.0, 1.0, 0.325, 0.325),
                scaled("1", 1.0, 1.0, 1.0, 0.65, 0.65),
            ],
            "version": "0.4",
        }
    ],
    "omero": {
        "channels": [
            {
                "color": "808080",
                "coefficient": 1,
                "active": True,
                "label": "Channel 0",
                "window": window(12.0, 240.0, 12.0, 240.0),
                "family": "linear",
                "inverted": False,
            }
        ],
        "rdefs": {"defaultT": 0, "model": "greyscale", "defaultZ": 0},
    },
}
OME_ZARR_PY: dict[str, Any] = {  # `write_image` with OME-NGFF 0.5, into Zarr v3
    "ome": {
        "version": "0.5",
        "multiscales": [
            {
                "datasets": [scaled("0", 0.5, 0.2, 0.2), scaled("1", 0.5, 0.4, 0.4)],
                "name": "/",
                "axes": [space("z"), space("y"), space("x")],
                "metadata": {"method": "ome_zarr.scale.Scaler", "version": "0.11.1"},
            }
        ],
        "omero": {
            "channels": [
                {
                    "color": "00FFFF",
                    "window": {"start": 0, "end": 20},
                    "label": "random",
                    "active": True,
                }
            ]
        },
    }
}
NGFF_ZARR: dict[str, Any] = {  # translations, since pixels of coarser levels have other centres
    "ome": {
        "version": "0.5",
        "multiscales": [
            {
                "axes": [space("y"), space("x")],
                "datasets": [
                    {
                        "path": "scale0/image",
                        "coordinateTransformations": [
                            {"scale": [0.5, 0.25], "type": "scale"},
                            {"translation": [10.0, -3.0], "type": "translation"},
                        ],
                    },
                    {
                        "path": "scale1/image",
                        "coordinateTransformations": [
                            {"scale": [1.0, 0.5], "type": "scale"},
                            {"translation": [10.25, -2.875], "type": "translation"},
                        ],
                    },
                ],
                "name": "image",
                "@type": "ngff:Image",
            }
        ],
    }
}


def v3_group(attributes: Any, **members: Any) -> GroupNode:
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes, **members}
    node = parse_v3(json.dumps(document).encode())
    assert isinstance(node, GroupNode)
    return node


def v2_group(attributes: Any) -> GroupNode:
    return parse_v2_group(b'{"zarr_format": 2}', json.dumps(attributes).encode())


def v2_array(attributes: Any, *shape: int) -> ArrayNode:
    return v2_array_of(*shape, attributes=json.dumps(attributes).encode())


def only_pyramid(attributes: Any) -> Pyramid:
    (found,) = pyramids_of(v3_group(attributes))
    assert found.problem is None
    return found


def letters(picture: Picture) -> str:
    return "".join(axis.letter or "-" for axis in picture.axes)


def scale(*values: Any) -> dict[str, Any]:
    return {"type": "scale", "scale": list(values)}


def move(*values: Any) -> dict[str, Any]:
    return {"type": "translation", "translation": list(values)}


def changed(value: Any, way: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    whole = copy.deepcopy(value)
    holder = whole
    for key in way[:-1]:
        holder = holder[key]
    change(holder, way[-1])
    return whole


def with_value(attributes: Any, *way: Any, value: Any) -> Any:
    return changed(attributes, way, lambda holder, key: holder.__setitem__(key, value))


NODE = array_of(2, 9, 9, 9)
