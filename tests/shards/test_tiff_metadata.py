"""The distance of pixels that a TIFF file states, and its unit as OME-NGFF spells it."""

import io

import numpy as np
import pytest
import tifffile

from zarrfuse.shards.tiff import read_tiff


def imagej_scale(unit: str) -> dict[str, tuple[float, str]]:
    """The scale of a stack of ImageJ with this unit."""
    file = io.BytesIO()
    tifffile.imwrite(
        file,
        np.zeros((2, 8, 8), np.uint8),
        photometric="minisblack",
        description=f"ImageJ=1.53t\nimages=2\nslices=2\nunit={unit}\nspacing=2.0\n".encode(
            "latin-1"
        ),
        metadata=None,
        resolution=(4, 4),
    )
    file.seek(0)
    (array,) = read_tiff("a.tif", file)
    return array.scale


@pytest.mark.parametrize(
    ("written", "unit"),
    [
        ("um", "micrometer"),
        ("micron", "micrometer"),
        (r"\u00B5m", "micrometer"),
        (r"\u00b5m", "micrometer"),
        ("in", "inch"),
        ("Å", "angstrom"),
        ("furlong", "furlong"),
    ],
)
def test_units_of_imagej_are_those_of_ome_ngff(written: str, unit: str) -> None:
    assert imagej_scale(written) == {"x": (0.25, unit), "y": (0.25, unit), "z": (2.0, unit)}


def test_a_size_in_pixels_is_none() -> None:
    assert imagej_scale("pixel") == {}
