"""Text that is meant to break out of a TIFF's description: names, units and labels with all that hurts."""

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
import tifffile
from builders.documents import array, group
from builders.fake_stores import MemoryStore
from builders.images_view import images
from builders.views import content_of, folder_at
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

OME = "{http://www.openmicroscopy.org/Schemas/OME/2016-06}"
PIECES = [
    *("]]>", "<!--", "-->", "<![CDATA[", "<?xml?>", "&", "&amp;", "&#0;", "<", ">", '"', "'"),
    *("\0", "\x01", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u202e", "\ufffe", "\uffff", "\ufeff"),
    *("\ud800", "\udfff", "\udc80", "\ud83d", "\U0001f600", "\U0010ffff", "\u00b5", "e\u0301"),
    *("\n", "\r", "\r\n", "\t", " ", "\nimages=7", "\nImageJ=9", "\nunit=inch", "\\u000aimages=7"),
    *(
        "ImageJ=1.11a\n",
        '{"shape": [1]}',
        "<OME xmlns='x'>",
        "</Image>",
        '" Name="',
        "%n",
        "x" * 999,
    ),
]
nasty = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=4).map("".join)
# What a store may have as the name of a file: bytes that are no UTF-8 are surrogates U+DC80 to U+DCFF.
names = nasty.map(
    lambda text: re.sub("[/\0\ud800-\udc7f\udd00-\udfff]", "", text)[:60] or "n"
).filter(lambda name: name not in (".", ".."))
IMAGEJ_LINE = re.compile(
    r"ImageJ=1\.11a|(images|channels|slices|frames)=\d+|hyperstack=true|mode=(composite|color|grayscale)"
    r"|order=zct|[yz]?unit=([A-Za-z]{1,4}|\\u00[a-f0-9]{2}m?|pixel)|loop=false"
    r"|(xorigin|yorigin|spacing|finterval|min|max)=-?[0-9.e+-]+"
)


def pyramid(name: str, unit: str, label: str, axis: str, *, old: bool) -> bytes:
    """A group of one level, `s0`, in the words of OME-NGFF 0.4 or 0.5."""
    axes = [
        {"name": axis, "type": "channel"},
        {"name": "y", "type": "space", "unit": unit},
        {"name": axis, "type": axis, "unit": unit},
    ]
    scale = [{"type": "scale", "scale": [1.0, 0.5, 0.5]}]
    datasets = [{"path": "s0", "coordinateTransformations": scale}]
    channels = [{"label": label, "color": color} for color in ("FF0000", label)]
    told = {
        "version": "0.4" if old else label,
        "multiscales": [{"name": name, "version": "0.4", "axes": axes, "datasets": datasets}],
        "omero": {"channels": channels, "name": label},
    }
    return group(attributes=told if old else {"ome": told})


def tiffs(keys: dict[str, bytes], folders: list[str]) -> Iterator[tuple[str, bytes]]:
    """Every TIFF file of these folders, whole."""
    root = images(MemoryStore(keys))
    for path in folders:
        folder = folder_at(root, path)
        for name in folder.list():
            if name.endswith((".tiff", ".tif")):
                yield name, content_of(folder, name)


def judged(data: bytes, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The descriptions of the first page. Fails for what tifffile warns of, and if one is broken."""
    caplog.clear()
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        series = file.series[0]
        assert series.asarray().size == 2 * 64 * 64
        texts = [tag.value for tag in file.pages[0].tags.values() if tag.code == 270]
        whole_ome = file.ome_metadata
    assert [record.getMessage() for record in caplog.records] == []
    assert texts
    for text in texts:
        if text.startswith("ImageJ="):
            lines = text.splitlines()
            assert [line for line in lines if not IMAGEJ_LINE.fullmatch(line)] == []
            keys = [line.partition("=")[0] for line in lines]
            assert len(set(keys)) == len(keys)
            assert "images=2" in lines
        elif text.startswith("{"):
            assert json.loads(text)["shape"] == [2, 64, 64]
        else:
            root = ElementTree.fromstring((whole_ome or text).encode())
            assert root.tag == f"{OME}OME"
            [image] = root.findall(f"{OME}Image")
            assert len(image.findall(f"{OME}Pixels")) == 1
            assert image.get("Name")
    return texts


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(array_name=names, name=nasty, unit=nasty, label=nasty, axis=nasty, old=st.booleans())
@example("a\nimages=7", "]]>\nimages=7", "um\nimages=7", "\nimages=7", "y\nimages=7", False)
@example("<&>\"'", "<&>\"']]>", "<&>\"'", "<&>\"'\ud800\0", "<&>\"'", True)
@example("\udcff", "\ud800", "\ud800", "\ud800", "\ud800", False)
def test_every_description_is_well_formed_and_says_no_more_than_it_should(
    caplog: pytest.LogCaptureFixture,
    array_name: str,
    name: str,
    unit: str,
    label: str,
    axis: str,
    old: bool,
) -> None:
    told: dict[str, Any] = {"attributes": {"label": label, "units": unit}}
    alone = array([2, 64, 64], [2, 64, 64], dimension_names=[axis, label, None], **told)
    keys = {
        "zarr.json": group(attributes={label: unit}),
        f"{array_name}/zarr.json": pyramid(name, unit, label, axis, old=old),
        f"{array_name}/s0/zarr.json": alone,
        f"b/{array_name}/zarr.json": array([2, 64, 64], [2, 64, 64], data_type="float64"),
    }
    folders = [array_name, f"{array_name}/s0", f"b/{array_name}"]
    kinds = set()
    count = 0
    with caplog.at_level(logging.WARNING):
        for _, data in tiffs(keys, folders):
            count += 1
            kinds |= {text[:5] for text in judged(data, caplog)}
    assert count >= 3
    assert "<?xml" in kinds
    assert "Image" in kinds


def test_what_can_be_said_is_said(caplog: pytest.LogCaptureFixture) -> None:
    keys = {
        "a/zarr.json": pyramid("n", "um", '<DAPI> & "co"\n]]>\'', "c", old=False),
        "a/s0/zarr.json": array([2, 64, 64], [2, 64, 64]),
    }
    [data] = [data for name, data in tiffs(keys, ["a"]) if name.endswith(".ome.tiff")]
    [xml] = judged(data, caplog)
    names = [channel.get("Name") for channel in ElementTree.fromstring(xml).iter(f"{OME}Channel")]
    assert names == ['<DAPI> & "co" ]]>\''] * 2
