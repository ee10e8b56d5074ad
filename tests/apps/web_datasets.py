"""An image with labels and a plate, in OME-NGFF 0.4 and 0.5, as public servers have them.

Written with zarr-python, without consolidated metadata: only the documents of OME-NGFF say what there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from zarrfuse.cli.demo_dataset import demo_image

VERSIONS = ("0.4", "0.5")
WELLS = ("A/1", "B/2")
SPACING_UM = 0.325


@dataclass(frozen=True)
class WebImages:
    """Stores of one version, and the levels of each pyramid by its path below `folder`."""

    folder: Path
    levels: Mapping[str, tuple[np.ndarray, ...]]


def write_web_images(folder: Path, version: str) -> WebImages:
    """Write `image.zarr` and `plate.zarr` below a folder."""
    picture = demo_image()
    intensity = np.stack([picture[100:228, 300:460], picture[500:628, 700:860]])
    objects = (intensity[0] > 9000).astype(np.uint8) * 3
    levels = {
        "image.zarr": _pyramid(folder / "image.zarr", version, intensity, "cyx"),
        "image.zarr/labels/nuclei": _pyramid(
            folder / "image.zarr/labels/nuclei",
            version,
            objects,
            "yx",
            {"image-label": {"version": version, "source": {"image": "../../"}}},
        ),
    }
    _group(folder / "image.zarr/labels", version, {"labels": ["nuclei"]})
    for number, well in enumerate(WELLS):
        path = f"plate.zarr/{well}/0"
        field = picture[200 * number : 200 * number + 96, 400:500]
        levels[path] = _pyramid(folder / path, version, field, "yx")
        images = {"images": [{"path": "0"}], "version": version}
        _group(folder / f"plate.zarr/{well}", version, {"well": images})
        _group(folder / f"plate.zarr/{well[0]}", version, {})
    _group(
        folder / "plate.zarr",
        version,
        {
            "plate": {
                "version": version,
                "rows": [{"name": "A"}, {"name": "B"}],
                "columns": [{"name": "1"}, {"name": "2"}],
                "wells": [
                    {"path": well, "rowIndex": number, "columnIndex": number}
                    for number, well in enumerate(WELLS)
                ],
            }
        },
    )
    return WebImages(folder, levels)


def _pyramid(
    path: Path,
    version: str,
    pixels: np.ndarray,
    axes: str,
    attributes: Mapping[str, Any] | None = None,
) -> tuple[np.ndarray, ...]:
    """Two levels, the second of every second row and column."""
    levels = (pixels, np.ascontiguousarray(pixels[..., ::2, ::2]))
    datasets = [
        {
            "path": str(number),
            "coordinateTransformations": [
                {
                    "type": "scale",
                    "scale": [1.0 if axis == "c" else SPACING_UM * 2**number for axis in axes],
                }
            ],
        }
        for number in range(len(levels))
    ]
    named = [
        {"name": "c", "type": "channel"}
        if axis == "c"
        else {"name": axis, "type": "space", "unit": "micrometer"}
        for axis in axes
    ]
    multiscale = {"name": path.name, "axes": named, "datasets": datasets}
    if version == "0.4":
        multiscale["version"] = version
    _group(path, version, {"multiscales": [multiscale], **(attributes or {})})
    for number, level in enumerate(levels):
        options = {"chunk_key_encoding": {"name": "v2", "separator": "/"}}
        made = zarr.create_array(
            path,
            name=str(number),
            shape=level.shape,
            dtype=level.dtype,
            chunks=(1, 50, 64)[-level.ndim :],
            zarr_format=2 if version == "0.4" else 3,
            **(options if version == "0.4" else {"dimension_names": tuple(axes)}),
        )
        made[...] = level
    return levels


def _group(path: Path, version: str, attributes: Mapping[str, Any]) -> None:
    """In 0.5 the metadata of OME-NGFF are in the member `ome`, with one version for all."""
    if version == "0.4":
        zarr.create_group(path, zarr_format=2, attributes=dict(attributes))
    else:
        named = {"ome": {"version": version, **attributes}} if attributes else {}
        zarr.create_group(path, zarr_format=3, attributes=named)
