"""Which files the `images` view shows of an array, of which size and time, and what lies beside."""

import io
import json
import os
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from builders.documents import (
    array,
    concat_parts,
    default_keys,
    group,
    suffix_keys,
    v2_array,
    v2_keys,
)
from builders.fake_stores import MemoryStore
from builders.folders import write_keys
from builders.views import content_of, folder_at
from small_images import CHUNKS, WHOLE, entries_of, image, view

from zarrfuse.errors import Corrupt, Denied, NotFound
from zarrfuse.formats.segments import Rendered
from zarrfuse.stores.base import Kind
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.images.chunk_files import ChunkFiles
from zarrfuse.views.source import root_name


@pytest.mark.parametrize(
    "keys, stored",
    [
        (default_keys(), "c/0/1"),
        (default_keys("."), "c.0.1"),
        (v2_keys("."), "0.1"),
        (v2_keys("/"), "0/1"),
        (suffix_keys(".raw"), "c/0/1.raw"),
        (suffix_keys("/data.raw"), "c/0/1/data.raw"),
        (suffix_keys(".d/data.raw", v2_keys(".")), "0.1.d/data.raw"),
    ],
)
def test_every_chunk_of_the_grid_is_a_tiff_whatever_its_key(
    keys: dict[str, Any], stored: str
) -> None:
    document = array(keys=keys, fill_value=7)
    root = view({"a/zarr.json": document, f"a/{stored}": b"\1\2\3\4", "a/notes.txt": b"n"})
    assert sorted(entries_of(root)) == sorted([*WHOLE, *CHUNKS, "a/notes.txt", "a/zarr.json"])
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]
    assert image(root, "a/c/1/0.tiff").tolist() == [[7, 7], [7, 7]]
    assert image(root, "a/a.tiff").tolist() == [[7, 7, 1, 2], [7, 7, 3, 4], [7] * 4, [7] * 4]
    whole = np.load(io.BytesIO(content_of(root, "a/a.npy")))
    assert whole.tolist() == image(root, "a/a.tiff").tolist()
    assert content_of(root, "a/zarr.json") == document


def test_a_chunk_is_cropped_to_its_array() -> None:
    keys = {"zarr.json": array((3, 5)), "c/1/2": b"\1\2\3\4", "c/0/0": b"\5\6\7\x08"}
    root = view(keys)
    assert image(root, "c/0/0.tiff").tolist() == [[5, 6], [7, 8]]
    assert image(root, "c/1/2.tiff").ravel().tolist() == [1]
    assert (
        folder_at(root, "c/1").lookup("2.tiff").size < folder_at(root, "c/0").lookup("0.tiff").size
    )


def test_leading_dimensions_are_the_pages_of_a_chunk() -> None:
    data = bytes(range(12))
    root = view({"zarr.json": array((3, 2, 2), (3, 2, 2)), "c/0/0/0": data})
    with tifffile.TiffFile(io.BytesIO(content_of(root, "c/0/0/0.tiff"))) as file:
        assert len(file.pages) == 3
        assert [page.asarray().tobytes() for page in file.pages] == [data[:4], data[4:8], data[8:]]


def test_a_scalar_is_one_chunk() -> None:
    root = view({"a/zarr.json": array((), ()), "a/c": b"\x05"})
    assert sorted(folder_at(root, "a").list()) == ["a.npy", "a.tiff", "c.tiff", "zarr.json"]
    assert np.load(io.BytesIO(content_of(root, "a/a.npy"))) == 5
    assert image(root, "a/c.tiff") == 5
    facts = folder_at(root, "a").facts("c.tiff").to_json()
    assert (facts["key"], facts["stored_key"], facts["chunk_coords"]) == ("c.tiff", "c", [])


def test_the_name_of_the_root_is_that_of_its_source() -> None:
    root = view({"zarr.json": array(), "c/0/0": bytes(4)})
    assert {"root.tiff", "root.npy", "root.png"} < root.list().keys()


@pytest.mark.parametrize(
    "source, name",
    [
        ("/data/cells.zarr", "cells"),
        ("/data/cells.zarr.zip", "cells"),
        ("/data/cells.ozx", "cells"),
        ("/data/cells", "cells"),
        ("/data/cells.ome.zarr", "cells"),
        ("/data/cells.ome.zarr.zip", "cells"),
        ("/data/cells.ome", "cells.ome"),
        ("/data/.zarr", ".zarr"),
        ("/data/.ome.zarr", ".ome.zarr"),
    ],
)
def test_a_source_is_called_without_its_endings(source: str, name: str) -> None:
    assert root_name(source) == name


@pytest.mark.parametrize("name", ["exp05", "exp05.zarr", "exp05.ome.zarr"])
def test_a_node_is_called_without_its_endings(name: str) -> None:
    axes = [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    scale = [{"type": "scale", "scale": [1, 1]}]
    datasets = [{"path": "s0.zarr", "coordinateTransformations": scale}]
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    keys = {
        f"{name}/zarr.json": group(attributes={"ome": ome}),
        f"{name}/s0.zarr/zarr.json": array(),
    }
    root = view(keys)
    assert folder_at(root, name).list().keys() == {"zarr.json", "s0.zarr", "exp05.ome.tiff"}
    shown = {"zarr.json", "c", "s0.tiff", "s0.npy", "s0.png"}
    assert folder_at(root, f"{name}/s0.zarr").list().keys() == shown


# -- times


def test_a_chunk_is_as_old_as_what_is_stored_and_others_as_their_node(tmp_path: Path) -> None:
    keys = {"a/c/0/0": bytes(4), "a/zarr.json": array(), "a/c/1/1": bytes(4)}
    write_keys(tmp_path, keys)
    root = view(LocalStore(str(tmp_path)))
    files = entries_of(root)

    def stored(key: str) -> int:
        return os.stat(tmp_path / key).st_mtime_ns

    assert files["a/c/0/0.tiff"].mtime_ns == stored("a/c/0/0")
    assert files["a/c/1/1.tiff"].mtime_ns == stored("a/c/1/1")
    for path in ("a/c/0/1.tiff", "a/c/1/0.tiff", *WHOLE):
        assert files[path].mtime_ns == stored("a/zarr.json")


def test_what_is_decoded_lasts_only_where_chunks_do() -> None:
    keys = {"a/zarr.json": array(), "a/c/0/0": bytes(4)}
    for permanent, ttl_s, lasting in ((False, 1, False), (True, 1, True), (False, inf, True)):
        root = view(MemoryStore(keys, permanent=permanent), ttl_s)
        for path in (*WHOLE, *CHUNKS):
            folder, _, name = path.rpartition("/")
            reader = folder_at(root, folder).open(name)
            assert isinstance(reader, Rendered)
            assert reader.lasting is lasting
            reader.close()


def test_a_chunk_that_is_written_anew_is_seen(tmp_path: Path) -> None:
    write_keys(tmp_path, {"a/zarr.json": array(fill_value=9), "a/c/0/0": b"\1\2\3\4"})
    root = view(LocalStore(str(tmp_path)))
    assert image(root, "a/c/0/0.tiff").tolist() == [[1, 2], [3, 4]]
    assert image(root, "a/a.tiff")[0].tolist() == [1, 2, 9, 9]
    (tmp_path / "a/c/0/0").write_bytes(b"\4\3\2\1")
    (tmp_path / "a/c/0/1").write_bytes(b"\5\5\5\5")
    assert image(root, "a/c/0/0.tiff").tolist() == [[4, 3], [2, 1]]
    assert image(root, "a/a.tiff")[0].tolist() == [4, 3, 5, 5]
    (tmp_path / "a/c/0/0").unlink()
    assert image(root, "a/a.tiff")[0].tolist() == [9, 9, 5, 5]


# -- what lies beside


def test_stored_files_win_over_renderings_and_chunks_over_stored_files() -> None:
    root = view(
        {
            "a/zarr.json": array(),
            "a/a.tiff": b"mine",
            "a/a.npy/x": b"a folder",
            "a/c/0/0.tiff": b"no chunk, since keys have no suffix",
            "a/c/0/notes.txt": b"beside",
        }
    )
    assert content_of(root, "a/a.tiff") == b"mine"
    assert folder_at(root, "a").lookup("a.npy").kind is Kind.FOLDER
    assert content_of(root, "a/a.npy/x") == b"a folder"
    assert image(root, "a/c/0/0.tiff").tolist() == [[0, 0], [0, 0]]
    assert content_of(root, "a/c/0/notes.txt") == b"beside"
    assert sorted(folder_at(root, "a/c/0").list()) == ["0.tiff", "1.tiff", "notes.txt"]
    assert sorted(folder_at(root, "a").list()) == ["a.npy", "a.png", "a.tiff", "c", "zarr.json"]


def test_of_one_name_there_is_one_file() -> None:
    stored = view({"a/zarr.json": array((), ()), "a/c.tiff": b"mine"})
    assert sorted(e.name for e in folder_at(stored, "a").scan()) == [
        *("a.npy", "a.tiff", "c.tiff", "zarr.json")
    ]
    assert content_of(stored, "a/c.tiff") == b"mine"
    called_c = view({"c/zarr.json": array((), ()), "c/c": b"\x05"})
    assert sorted(e.name for e in folder_at(called_c, "c").scan()) == [
        "c.npy",
        "c.tiff",
        "zarr.json",
    ]
    assert entries_of(called_c).keys() == {"c/c.npy", "c/c.tiff", "c/zarr.json"}
    assert image(called_c, "c/c.tiff") == 5


def test_parts_are_hidden_and_what_is_no_chunk_is_shown() -> None:
    transformers = [concat_parts("", ".index")]
    root = view(
        {
            "a/zarr.json": array(keys=v2_keys("/"), transformers=transformers),
            "a/0/1": b"\1\2",
            "a/0/1.index": b"\3\4",
            "a/1/0": b"\1\2",
            "a/7/0": b"outside the grid",
            "README.txt": b"hello",
        }
    )
    assert sorted(folder_at(root, "a").list()) == [
        "7",
        "a.npy",
        "a.png",
        "a.tiff",
        "c",
        "zarr.json",
    ]
    assert content_of(root, "README.txt") == b"hello"
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]
    for hidden in ("0", "1"):
        with pytest.raises(NotFound):
            folder_at(root, "a").lookup(hidden)
    with pytest.raises(Corrupt, match=r"a: chunk 1/0: part `\.index` is missing"):
        content_of(root, "a/c/1/0.tiff")


@pytest.mark.parametrize("name", ["2.tiff", "00.tiff", "0", "0.tif", "-1.tiff", ".tiff", "c"])
def test_what_is_no_chunk_of_the_grid_is_not_there(name: str) -> None:
    root = view({"zarr.json": array(), "c/0/0": bytes(4)})
    with pytest.raises(NotFound):
        folder_at(root, "c/0").lookup(name)
    with pytest.raises(NotFound):
        folder_at(root, "c/0").open(name)


def test_what_leads_out_of_the_store_is_shown_and_denied(tmp_path: Path) -> None:
    write_keys(tmp_path / "out", {"chunk": bytes(4), "folder/0": bytes(4)})
    store = tmp_path / "store"
    write_keys(store, {"zarr.json": array((6, 4)), "c/0/0": bytes(4)})
    (store / "c/0/1").symlink_to(tmp_path / "out/chunk")
    (store / "c/2").symlink_to(tmp_path / "out/folder")
    root = view(LocalStore(str(store)))
    assert folder_at(root, "c/0").list()["1.tiff"].denied
    assert folder_at(root, "c/0").lookup("1.tiff").denied
    with pytest.raises(Denied):
        folder_at(root, "c/0").open("1.tiff")
    assert folder_at(root, "c").list()["2"].denied
    assert folder_at(root, "c").lookup("2").denied


def test_an_array_whose_chunks_lead_out_of_the_store_can_be_listed(tmp_path: Path) -> None:
    write_keys(tmp_path / "out", {"0/0": bytes(4)})
    store = tmp_path / "store"
    write_keys(store, {"zarr.json": array()})
    (store / "c").symlink_to(tmp_path / "out")
    root = view(LocalStore(str(store)))
    listed = root.list()
    assert {"root.tiff", "root.npy", "zarr.json"} < listed.keys()
    assert listed["c"].denied
    assert root.lookup("c").denied
    with pytest.raises(Denied):
        content_of(root, "root.npy")


def test_a_link_leads_to_where_its_goal_is_shown(tmp_path: Path) -> None:
    write_keys(tmp_path, {"a/zarr.json": array(keys=v2_keys("/")), "a/0/0": bytes(4), "d/x": b"x"})
    (tmp_path / "a/link").symlink_to("../d")
    (tmp_path / "a/0/link").symlink_to("../../d")
    (tmp_path / "a/moved").symlink_to("0")
    root = view(LocalStore(str(tmp_path)))
    assert folder_at(root, "a").readlink("link") == "../d"
    assert folder_at(root, "a").readlink("moved") == "c/0"
    assert folder_at(root, "a/c/0").lookup("link").kind is Kind.LINK
    assert folder_at(root, "a/c/0").readlink("link") == "../../../d"


# -- large grids


@pytest.mark.parametrize("keys, key", [(default_keys(), "c/5/7"), (default_keys("."), "c.5.7")])
@pytest.mark.parametrize("large", [0, 1])
def test_of_a_huge_grid_what_is_stored_is_listed_and_all_is_there(
    keys: dict[str, Any], key: str, large: int
) -> None:
    shape = [10, 10]
    shape[large] = 10**9
    store = MemoryStore({"zarr.json": array(shape, (1, 1), keys=keys), key: b"\x05"})
    root = view(store)
    names = [
        ["5"] if large == 0 else [str(n) for n in range(10)],
        ["7.tiff"] if large == 1 else [f"{n}.tiff" for n in range(10)],
    ]
    assert sorted(folder_at(root, "c").list()) == names[0]
    assert sorted(folder_at(root, "c/5").list()) == names[1]
    far = [0, 0]
    far[large] = 987_654_321
    assert image(root, f"c/{far[0]}/{far[1]}.tiff") == 0
    assert image(root, "c/5/7.tiff") == 5
    far[large] = 10**9
    with pytest.raises(NotFound):
        content_of(root, f"c/{far[0]}/{far[1]}.tiff")


def test_sizes_of_many_chunks_are_not_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 1000
    keys = {"zarr.json": array((count,), (1,)), **{f"c/{n}": b"x" for n in range(0, count, 2)}}
    asked = []
    compute = ChunkFiles._rendered_size

    def rendered_size(files: ChunkFiles, *arguments: Any) -> int:
        asked.append(arguments)
        return compute(files, *arguments)

    folder = folder_at(view(keys, inf), "c")
    folder.lookup("0.tiff")
    monkeypatch.setattr(ChunkFiles, "_rendered_size", rendered_size)
    assert len(folder.list()) == count
    assert len(asked) <= 2


def test_sizes_in_a_listing_are_those_of_files_at_the_edge_too() -> None:
    for stored in ({}, {"a/c/2/1": bytes(4), "a/c/0/1": bytes(4)}):
        files = entries_of(view({"a/zarr.json": array((5, 3)), **stored}))
        sizes = [files[f"a/c/{y}/{x}.tiff"].size for y, x in ((0, 0), (0, 1), (2, 0), (2, 1))]
        assert len(set(sizes)) > 1
        assert sizes[0] == max(sizes)


def test_a_folder_called_like_a_chunk_is_a_folder() -> None:
    for keys, name in ((v2_keys("."), "0.0"), (default_keys("."), "c.0.0")):
        files = entries_of(view({"a/zarr.json": array(keys=keys), f"a/{name}/x": b"1"}))
        assert sorted(files) == sorted(["a/zarr.json", f"a/{name}/x", *WHOLE, *CHUNKS])


# -- Zarr v2


@pytest.mark.parametrize("separator", [".", "/"])
def test_arrays_of_zarr_v2_are_shown(separator: str) -> None:
    document = {**json.loads(v2_array(separator=separator)), "compressor": None}
    keys = {"a/.zarray": json.dumps(document).encode(), f"a/0{separator}1": b"\1\2\3\4"}
    root = view(keys)
    assert sorted(entries_of(root)) == sorted([*WHOLE, *CHUNKS, "a/.zarray"])
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]


def test_an_array_that_plain_keeps_as_zarr_v2_is_shown() -> None:
    filters = [{"id": "delta", "dtype": "|u1"}]
    document = {**json.loads(v2_array()), "compressor": None, "filters": filters}
    root = view({"a/.zarray": json.dumps(document).encode(), "a/0.1": b"\1\1\1\1"})
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]
    assert "kept_as_v2" not in folder_at(root, "a").facts(None).to_json()
