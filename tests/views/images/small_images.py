"""Small arrays as the `images` view shows them."""

import io
from functools import partial
from typing import Any

import tifffile
from builders.documents import array, group
from builders.views import content_of, view_of

from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.base import Folder

TIFF = b"II*\0 and what else is in a TIFF file"
view = partial(view_of, "images", root_name="root")


def image(root: Folder, path: str) -> Any:
    return tifffile.imread(io.BytesIO(content_of(root, path)))


def entries_of(folder: Folder) -> dict[str, Entry]:
    """Every file by its path; each name is looked up and opened, too."""
    found: dict[str, Entry] = {}
    for name, entry in folder.list().items():
        assert folder.lookup(name) == entry
        if entry.kind is Kind.FOLDER:
            found |= entries_of(folder.child(name))
            continue
        found[f"{folder.path}/{name}" if folder.path else name] = entry
        if not entry.denied:
            reader = folder.open(name)
            assert (reader.size, reader.mtime_ns) == (entry.size, entry.mtime_ns)
            reader.close()
    return found


WHOLE = ["a/a.npy", "a/a.png", "a/a.tiff"]
CHUNKS = ["a/c/0/0.tiff", "a/c/0/1.tiff", "a/c/1/0.tiff", "a/c/1/1.tiff"]


SIDE = 64


def pyramid_keys(**members: Any) -> dict[str, bytes]:
    """A group `g` with an image `s0`, `s1` of two resolutions."""
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    datasets = [
        {
            "path": f"s{level}",
            "coordinateTransformations": [{"type": "scale", "scale": [2.0**level, 2.0**level]}],
        }
        for level in range(2)
    ]
    multiscales = [{"name": "cells", "axes": axes, "datasets": datasets, **members}]
    keys = {
        "g/zarr.json": group(attributes={"ome": {"version": "0.5", "multiscales": multiscales}})
    }
    for level in range(2):
        side = SIDE >> level
        keys[f"g/s{level}/zarr.json"] = array(
            (side, side), (16, 16), dimension_names=["y", "x"], fill_value=level + 1
        )
    return keys
