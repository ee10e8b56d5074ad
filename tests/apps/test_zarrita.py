"""zarrita.js fails on these arrays or reads them wrong as they are stored, not in the `plain` view.

It runs in node, over its own `FileSystemStore` on the mount: `zarrita/read.mjs`.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from stored_arrays import CORE, DEMO, PACKED, Region, StoredArrays
from zarrita_reader import NODE, READER

Mounted = Callable[..., Path]


class Refused(Exception):
    """What zarrita says of an array that it does not read."""


def read(array: Path, regions: tuple[Region, ...]) -> list[np.ndarray]:
    """The pixels of some regions. Raises `Refused`."""
    assert (READER.parent / "node_modules").is_dir(), "run .ci/setup test"
    done = subprocess.run(
        [NODE, READER, array, json.dumps(regions)], capture_output=True, timeout=60, check=False
    )
    if done.returncode:
        raise Refused(done.stderr.decode())
    line, _, data = done.stdout.partition(b"\n")
    dtype = np.dtype(json.loads(line)["dtype"]).newbyteorder("<")
    pixels = np.frombuffer(data, dtype)
    read = []
    for (top, bottom), (left, right) in regions:
        shape = (bottom - top, right - left)
        read.append(pixels[: shape[0] * shape[1]].reshape(shape))
        pixels = pixels[shape[0] * shape[1] :]
    assert not len(pixels)
    return read


@pytest.mark.parametrize("name", ["zstd", "raw", "strips"])
def test_keys_with_an_extension_are_refused_as_they_are_stored(
    stored: StoredArrays, name: str
) -> None:
    with pytest.raises(Refused, match="Unknown chunk key encoding: suffix"):
        read(stored.folder / DEMO / name, stored.regions(f"{DEMO}/{name}"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        # A part of the chunk is taken for all of it, and pixels for the index of a shard.
        (f"{DEMO}/header", "RangeError"),
        ("header", "RangeError"),
        (PACKED, "RangeError"),
        # The last bytes of the pixels are taken for the checksum.
        (f"{DEMO}/checksum", 'Failed to decode chunk via codec "zstd"'),
        ("crc32c", 'Failed to decode chunk via codec "zstd"'),
    ],
)
def test_parts_are_taken_for_chunks_that_are_broken(
    stored: StoredArrays, name: str, says: str
) -> None:
    with pytest.raises(Refused, match=says):
        read(stored.folder / name, stored.regions(name))


def test_chunks_of_which_no_part_has_their_own_key_are_silently_read_as_absent(
    stored: StoredArrays,
) -> None:
    (pixels,) = read(stored.folder / "all-suffixed", stored.regions("all-suffixed"))
    assert (stored.pixels["all-suffixed"] != 0).all()
    assert (pixels == 0).all()


def test_arrays_of_the_plain_view_are_read_pixel_for_pixel(
    stored: StoredArrays, mounted: Mounted
) -> None:
    mount = mounted(stored.folder, "--view", "plain")
    for name in CORE:
        read_regions = read(mount / name, stored.regions(name))
        for pixels, expected in zip(read_regions, stored.expected(name), strict=True):
            np.testing.assert_array_equal(pixels, expected, err_msg=name)


def test_a_codec_that_it_lacks_is_refused_in_the_plain_view_too(
    stored: StoredArrays, mounted: Mounted
) -> None:
    mount = mounted(stored.folder, "--view", "plain")
    with pytest.raises(Refused, match="packbits"):
        read(mount / PACKED, stored.regions(PACKED))
