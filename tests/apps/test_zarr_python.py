"""zarr-python refuses these arrays as they are stored, and reads them through the `plain` view.

With the plug-in it knows `packbits` and `suffix`; the parts of a chunk it knows in no way. Without
is a process of its own, which finds no entry points of ours.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from stored_arrays import CORE, DEMO, PACKED, Region, StoredArrays

Mounted = Callable[..., Path]

NO_SUFFIX = "Chunk key encoding 'suffix' not found"
NO_TRANSFORMERS = "Arrays with storage transformers are not supported"
NO_EXTENSIONS = r"disallowed extra fields:\s*\['extensions'\]"
NO_PACKBITS = "Unknown codec: 'packbits'"

WITHOUT_PLUGIN = """
import importlib.metadata as metadata, json, sys

others = metadata.EntryPoints(
    point
    for package in metadata.distributions()
    for point in package.entry_points
    if not point.value.startswith("zarrfuse.")
)
metadata.entry_points = others.select
import zarr

array = zarr.open_array(sys.argv[1], mode="r")
for (top, bottom), (left, right) in json.loads(sys.argv[2]):
    sys.stdout.buffer.write(array[top:bottom, left:right].tobytes())
"""


class Refused(Exception):
    """What zarr-python says, in a process of its own, of an array that it does not read."""


def read_without_plugin(array: Path, regions: tuple[Region, ...]) -> bytes:
    """The pixels of some regions, one behind the other. Raises `Refused`."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PLUGIN, array, json.dumps(regions)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise Refused(done.stderr.decode())
    return done.stdout


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (f"{DEMO}/zstd", NO_SUFFIX),
        (f"{DEMO}/raw", NO_SUFFIX),
        (f"{DEMO}/strips", NO_SUFFIX),
        (f"{DEMO}/header", NO_TRANSFORMERS),
        (f"{DEMO}/checksum", NO_TRANSFORMERS),
        ("crc32c", NO_TRANSFORMERS),
        ("header", NO_TRANSFORMERS),
        ("all-suffixed", NO_TRANSFORMERS),
        ("extended", NO_EXTENSIONS),
        (PACKED, NO_PACKBITS),
    ],
)
def test_an_array_is_refused_as_it_is_stored(stored: StoredArrays, name: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        read_without_plugin(stored.folder / name, stored.regions(name))


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
    for name in CORE:
        read = read_without_plugin(mount / name, stored.regions(name))
        assert read == b"".join(pixels.tobytes() for pixels in stored.expected(name)), name
    with pytest.raises(Refused, match=NO_PACKBITS):
        read_without_plugin(mount / PACKED, stored.regions(PACKED))


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
