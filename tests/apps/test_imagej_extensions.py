"""ImageJ without plug-ins believes what dimension names and generic extensions (ZEP 10) say."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from builders.documents import array, group
from builders.folders import write_keys

Macro = Callable[[str, Path], list[str]]
Mounter = Callable[..., Path]

DESCRIBE = """
open(getArgument());
getDimensions(width, height, channels, slices, frames);
print(width, height, channels, slices, frames, Stack.isHyperstack);
for (c = 1; c <= channels; c++) {
    if (channels > 1) Stack.setChannel(c);
    getMinAndMax(low, high);
    print(low, high);
}
if (channels * frames > 1) Stack.setPosition(channels, slices, frames); else setSlice(slices);
print(getPixel(3, 2));
"""


def write(folder: Path, names: str, shape: tuple[int, ...], dtype: str) -> "np.ndarray":
    """An array `a`, a level of `example.multiscale-arrays`, with a range of -5 to 1500."""
    values = (np.arange(np.prod(shape)) % 1801 - 300 * dtype.startswith("i")).astype(f"<{dtype}")
    values = values.reshape(shape)
    datasets = {"multiscale": {"datasets": ["a"]}}
    levels = {"name": "example.multiscale-arrays", "configuration": datasets}
    statistics = {"name": "example.array-statistics", "configuration": {"min": -5, "max": 1500}}
    document = array(
        shape,
        shape,
        data_type={"u2": "uint16", "i2": "int16", "f4": "float32"}[dtype],
        codecs=[{"name": "bytes", "configuration": {"endian": "big"}}],
        dimension_names=list(names),
        extensions=[{**statistics, "must_understand": False}],
    )
    key = "/".join(["a/c", *("0" for _ in shape)])
    write_keys(
        folder,
        {
            "zarr.json": group(extensions=[{**levels, "must_understand": False}]),
            "a/zarr.json": document,
            key: values.astype(f">{dtype}").tobytes(),
        },
    )
    return values


def test_axes_and_range_of_a_level_with_channels(
    tmp_path: Path, mounted: Mounter, macro: Macro
) -> None:
    values = write(tmp_path / "in", "tczyx", (2, 3, 4, 20, 30), "u2")
    point = mounted(tmp_path / "in", "--view", "images")
    size, *ranges, pixel = macro(DESCRIBE, point / "a/a.tiff")
    assert size == "30 20 3 4 2 1"
    assert ranges == ["-5 1500"] * 3
    assert float(pixel) == values[-1, -1, -1, 2, 3]


def test_range_of_a_stack(tmp_path: Path, mounted: Mounter, macro: Macro) -> None:
    for dtype in ("i2", "f4"):
        values = write(tmp_path / dtype, "zyx", (5, 20, 30), dtype)
        point = mounted(tmp_path / dtype, "--view", "images")
        size, shown, pixel = macro(DESCRIBE, point / "a/a.tiff")
        assert size.split()[:5] == ["30", "20", "1", "5", "1"]
        assert shown == "-5 1500"
        found = float(pixel) - (32768 if dtype == "i2" else 0)  # which it keeps as uint16
        assert found == values[-1, 2, 3]
