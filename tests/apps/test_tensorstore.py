"""tensorstore refuses these arrays as they are stored, and reads them through the `plain` view."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorstore
from stored_arrays import CORE, DEMO, PACKED, Region, StoredArrays

Mounted = Callable[..., Path]

NO_SUFFIX = 'Expected one of "default", "v2", but received: "suffix"'
NO_TRANSFORMERS = "No storage transformers supported"


def opened(array: Path) -> tensorstore.TensorStore:
    """An array of Zarr v3. Raises `ValueError` where tensorstore refuses it."""
    store = {"driver": "file", "path": f"{array}/"}
    return tensorstore.open({"driver": "zarr3", "kvstore": store}, read=True).result()


def read(array: tensorstore.TensorStore, region: Region) -> np.ndarray:
    """The pixels of a region."""
    (top, bottom), (left, right) = region
    return array[top:bottom, left:right].read().result()


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
        ("extended", 'Unsupported metadata field "extensions"'),
        (PACKED, '"packbits" is not registered'),
    ],
)
def test_an_array_is_refused_as_it_is_stored(stored: StoredArrays, name: str, says: str) -> None:
    with pytest.raises(ValueError) as refusal:
        opened(stored.folder / name)
    assert says in str(refusal.value)


def test_arrays_of_the_plain_view_are_read_pixel_for_pixel(
    stored: StoredArrays, mounted: Mounted
) -> None:
    mount = mounted(stored.folder, "--view", "plain")
    for name in CORE:
        array = opened(mount / name)
        assert array.shape == stored.pixels[name].shape
        for region, pixels in zip(stored.regions(name), stored.expected(name), strict=True):
            np.testing.assert_array_equal(read(array, region), pixels, err_msg=name)


def test_a_codec_that_it_lacks_is_refused_in_the_plain_view_too(
    stored: StoredArrays, mounted: Mounted
) -> None:
    mount = mounted(stored.folder, "--view", "plain")
    with pytest.raises(ValueError, match='"packbits" is not registered'):
        opened(mount / PACKED)
