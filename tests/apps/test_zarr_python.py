"""zarr-python refuses these arrays as they are stored, and reads them through the `plain` view.

With the plug-in it knows `packbits` and `suffix`; the parts of a chunk it knows in no way. Without
is a process of its own, which finds no entry points of ours.
"""

import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from stored_arrays import CORE, DEMO, PACKED, StoredArrays

Mounted = Callable[..., Path]

NO_SUFFIX = "Chunk key encoding 'suffix' not found"
NO_TRANSFORMERS = "Arrays with storage transformers are not supported"
NO_EXTENSIONS = r"disallowed extra fields:\s*\['extensions'\]"
NO_PACKBITS = "Unknown codec: 'packbits'"

WITHOUT_PLUGIN = """
import importlib.metadata as metadata, pickle, sys

others = metadata.EntryPoints(
    point
    for package in metadata.distributions()
    for point in package.entry_points
    if not point.value.startswith("zarrfuse.")
)
metadata.entry_points = others.select
import zarr

found = {}
for path, regions in pickle.load(sys.stdin.buffer).items():
    try:
        array = zarr.open_array(path, mode="r")
        found[path] = [array[top:bottom, left:right] for (top, bottom), (left, right) in regions]
    except Exception as error:
        found[path] = f"{type(error).__name__}: {error}"
pickle.dump(found, sys.stdout.buffer)
"""


def read_without_plugin(folder: Path, stored: StoredArrays, names: Iterable[str]) -> dict[str, Any]:
    """The pixels of the regions of each array, or what zarr-python says of one that it does not read."""
    regions = {str(folder / name): stored.regions(name) for name in names}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PLUGIN],
        input=pickle.dumps(regions),
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    found = pickle.loads(done.stdout)
    return {name: found[str(folder / name)] for name in names}


REFUSED = {
    f"{DEMO}/zstd": NO_SUFFIX,
    f"{DEMO}/raw": NO_SUFFIX,
    f"{DEMO}/strips": NO_SUFFIX,
    f"{DEMO}/header": NO_TRANSFORMERS,
    f"{DEMO}/checksum": NO_TRANSFORMERS,
    "crc32c": NO_TRANSFORMERS,
    "header": NO_TRANSFORMERS,
    "all-suffixed": NO_TRANSFORMERS,
    "extended": NO_EXTENSIONS,
    PACKED: NO_PACKBITS,
}


def test_arrays_are_refused_as_they_are_stored(stored: StoredArrays) -> None:
    told = read_without_plugin(stored.folder, stored, REFUSED)
    for name, says in REFUSED.items():
        assert re.search(says, told[name]), name


@pytest.mark.parametrize("name", [*CORE, PACKED])
def test_the_plugin_does_not_make_it_read_an_array_as_it_is_stored(
    stored: StoredArrays, name: str
) -> None:
    says = NO_EXTENSIONS if name == "extended" else NO_TRANSFORMERS
    with pytest.raises((TypeError, ValueError), match=says):
        zarr.open_array(stored.folder / name, mode="r")


def test_arrays_of_the_plain_view_are_read_pixel_for_pixel_without_the_plugin(
    stored: StoredArrays, mounted: Mounted
) -> None:
    mount = mounted(stored.folder, "--view", "plain")
    read = read_without_plugin(mount, stored, (*CORE, PACKED))
    for name in CORE:
        np.testing.assert_equal(read[name], stored.expected(name), err_msg=name)
    assert re.search(NO_PACKBITS, read[PACKED])


def test_arrays_of_the_plain_view_are_read_pixel_for_pixel_with_the_plugin(
    stored: StoredArrays, mounted: Mounted
) -> None:
    mount = mounted(stored.folder, "--view", "plain")
    for name in (*CORE, PACKED):
        array = zarr.open_array(mount / name, mode="r")
        assert array.shape == stored.pixels[name].shape
        for region, pixels in zip(stored.regions(name), stored.expected(name), strict=True):
            (top, bottom), (left, right) = region
            np.testing.assert_array_equal(array[top:bottom, left:right], pixels, err_msg=name)


def test_a_group_of_the_plain_view_shows_its_arrays(stored: StoredArrays, mounted: Mounted) -> None:
    group = zarr.open_group(mounted(stored.folder, "--view", "plain") / DEMO, mode="r")
    assert sorted(name for name, _ in group.arrays()) == sorted(
        Path(name).name for name in CORE if name.startswith(DEMO)
    )
