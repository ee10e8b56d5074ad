"""The file of a pyramid, and what the pictures of its arrays take of it."""

import io
import json
import os
from collections.abc import Mapping
from math import inf
from pathlib import Path

import numpy as np
import pytest
import tifffile
from builders.documents import array, group
from builders.fake_stores import ForwardingStore, MemoryStore
from builders.folders import write_keys
from builders.views import content_of, folder_at
from small_images import SIDE, entries_of, pyramid_keys, view

from zarrfuse.errors import NotSupported
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.images.framed import last_of


def test_a_pyramid_is_an_ome_tiff_of_its_group() -> None:
    root = view(pyramid_keys())
    files = entries_of(root)
    assert "g/g.ome.tiff" in files
    with tifffile.TiffFile(io.BytesIO(content_of(root, "g/g.ome.tiff"))) as file:
        assert file.is_ome
        levels = file.series[0].levels
        assert [level.shape for level in levels] == [(64, 64), (32, 32)]
        assert [np.unique(level.asarray()).tolist() for level in levels] == [[1], [2]]
    assert folder_at(root, "g").facts(None).to_json()["renderings"] == {
        "g.ome.tiff": files["g/g.ome.tiff"].size
    }


def test_a_pyramid_that_is_none_says_why() -> None:
    keys = pyramid_keys()
    del keys["g/s1/zarr.json"]
    root = view(keys)
    assert sorted(folder_at(root, "g").list()) == ["s0", "zarr.json"]
    assert "s1" in folder_at(root, "g").facts(None).to_json()["renderings"]["g.ome.tiff"]


class WatchedStore(ForwardingStore):
    """Takes down of which folders the documents are asked for."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        super().__init__(MemoryStore(keys))
        self.asked: set[str] = set()

    def before(self, call: str, key: str, wait: bool) -> None:
        """Take it down."""
        folder, _, name = key.rpartition("/")
        if name == "zarr.json":
            self.asked.add(folder)


def test_a_pyramid_is_as_old_as_the_newest_of_its_documents(tmp_path: Path) -> None:
    write_keys(tmp_path, pyramid_keys())  # the last one is the newest
    newest = os.stat(tmp_path / "g/s1/zarr.json").st_mtime_ns
    assert os.stat(tmp_path / "g/zarr.json").st_mtime_ns < newest
    assert folder_at(view(LocalStore(str(tmp_path))), "g").lookup("g.ome.tiff").mtime_ns == newest


def test_a_pyramid_with_a_level_that_nobody_could_decode_is_refused() -> None:
    keys = pyramid_keys()
    document = json.loads(keys["g/s1/zarr.json"])
    del document["fill_value"]
    folder = folder_at(view({**keys, "g/s1/zarr.json": json.dumps(document).encode()}), "g")
    assert folder.lookup("g.ome.tiff").size
    with pytest.raises(NotSupported, match="fill_value: is missing"):
        folder.open("g.ome.tiff")


def test_a_pyramid_whose_name_is_too_long_for_a_file_says_so() -> None:
    name = "g" * 250
    keys = {key.replace("g/", f"{name}/", 1): data for key, data in pyramid_keys().items()}
    folder = folder_at(view(keys), name)
    assert f"{name}.ome.tiff" not in folder.list()
    assert (
        "its name would have 259 bytes"
        in folder.facts(None).to_json()["renderings"][f"{name}.ome.tiff"]
    )


def test_levels_are_looked_at_when_their_group_is() -> None:
    store = WatchedStore({"zarr.json": group(), **pyramid_keys()})
    root = view(store, inf)
    root.list()
    root.lookup("g")
    assert store.asked == {""}
    folder_at(root, "g").lookup("s0")
    assert store.asked == {"", "g"}
    folder_at(root, "g").list()
    assert store.asked == {"", "g", "g/s0", "g/s1"}


def test_the_picture_of_an_array_takes_the_pyramid_around_it() -> None:
    root = view(pyramid_keys())
    with tifffile.TiffFile(io.BytesIO(content_of(root, "g/s1/s1.tiff"))) as file:
        xres, _ = file.pages[0].tags["XResolution"].value
        metadata = file.imagej_metadata
    assert xres
    assert metadata is not None
    assert metadata["unit"].lower() in ("um", "µm", "micron", "\\u00b5m", "micrometer")


@pytest.mark.parametrize("shape", [(5, 4, 6), (2, 5, 4, 6), (5, 1, 6), (3, 4, 1), (3, 1, 1)])
def test_the_last_plane_of_an_array(shape: tuple[int, ...]) -> None:
    elements = np.arange(np.prod(shape)).reshape(shape)
    plane = elements[(-1,) * (len(shape) - 2)]
    assert (elements[last_of(shape, plane.size)].ravel() == plane.ravel()).all()


def test_slices_behind_channels_are_read_as_they_are() -> None:
    axes = ["t", "c", "z", "y", "x"]
    shape = (2, 3, 4, 16, 16)
    data = np.arange(np.prod(shape), dtype=np.uint16).reshape(shape)
    document = array(
        shape,
        shape,
        data_type="uint16",
        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
        dimension_names=axes,
    )
    root = view({"a/zarr.json": document, "a/c/0/0/0/0/0": data.tobytes()})
    with tifffile.TiffFile(io.BytesIO(content_of(root, "a/a.tiff"))) as file:
        pages = np.stack([page.asarray() for page in file.pages])
    assert np.array_equal(np.sort(pages.ravel()), np.sort(data.ravel()))
    assert np.array_equal(tifffile.imread(io.BytesIO(content_of(root, "a/a.tiff"))), data)


def test_a_picture_is_planned_with_the_coarser_levels_there_are_now(
    planned: list[list[str]], tmp_path: Path
) -> None:
    keys = pyramid_keys()
    write_keys(tmp_path, keys)
    folder = folder_at(view(LocalStore(str(tmp_path))), "g/s0")
    folder.lookup("s0.png")
    folder.lookup("s0.png")
    (tmp_path / "g/s1/zarr.json").unlink()
    folder.lookup("s0.png")
    (tmp_path / "g/s1/zarr.json").write_bytes(keys["g/s1/zarr.json"])
    folder.lookup("s0.png")
    document = json.loads(keys["g/s1/zarr.json"])
    del document["fill_value"]  # nobody can decode it
    (tmp_path / "g/s1/zarr.json").write_text(json.dumps(document))
    folder.lookup("s0.png")
    assert planned == [["g/s1"], [], ["g/s1"], []]


def test_a_file_is_made_anew_when_the_pyramid_around_its_array_says_something_else(
    tmp_path: Path,
) -> None:
    write_keys(tmp_path, pyramid_keys())
    folder = folder_at(view(LocalStore(str(tmp_path))), "g/s0")

    def header() -> bytes:
        reader = folder.open("s0.tiff")
        buffer = bytearray(reader.size - SIDE * SIDE)
        reader.readinto(memoryview(buffer), 0)
        reader.close()
        return bytes(buffer)

    assert b"unit=" in header()
    (tmp_path / "g/zarr.json").write_bytes(group())
    assert b"unit=" not in header()
