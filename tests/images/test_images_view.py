"""What the `images` view shows: names, sizes, and which bytes are passed on, made or refused."""

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from datasets import (
    array,
    concat_parts,
    default_keys,
    group,
    suffix_keys,
    v2_array,
    v2_keys,
    write_keys,
)
from fakes import ForwardingStore, MemoryStore
from reading import folder_at as at
from reading import view_of
from reading import whole as content

from zarrfuse.errors import Corrupt, Denied, NotFound, NotSupported
from zarrfuse.formats.segments import Rendered
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.ome import Picture
from zarrfuse.stores.base import Entry, Kind, Store
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view
from zarrfuse.views.source import root_name
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images.chunk_files import ChunkFiles, StoredTiffs
from zarrfuse.views.images.decode import DecodedArray
from zarrfuse.views.images.framed import last_of
from zarrfuse.views.images.pixels import Pixels
from zarrfuse.views.images.pyramid import pyramid_file
from zarrfuse.views.images.render import Plan, plan
from zarrfuse.views.plain.chunks import PlainChunks

TIFF = b"II*\0 and what else is in a TIFF file"


view = partial(view_of, "images", root_name="root")


def image(root: Folder, path: str) -> Any:
    return tifffile.imread(io.BytesIO(content(root, path)))


def tree(folder: Folder) -> dict[str, Entry]:
    """Every file by its path; each name is looked up and opened, too."""
    found: dict[str, Entry] = {}
    for name, entry in folder.list().items():
        assert folder.lookup(name) == entry
        if entry.kind is Kind.FOLDER:
            found |= tree(folder.child(name))
            continue
        found[f"{folder.path}/{name}" if folder.path else name] = entry
        if not entry.denied:
            reader = folder.open(name)
            assert (reader.size, reader.mtime_ns) == (entry.size, entry.mtime_ns)
            reader.close()
    return found


WHOLE = ["a/a.npy", "a/a.png", "a/a.tiff"]
CHUNKS = ["a/c/0/0.tiff", "a/c/0/1.tiff", "a/c/1/0.tiff", "a/c/1/1.tiff"]


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
    assert sorted(tree(root)) == sorted([*WHOLE, *CHUNKS, "a/notes.txt", "a/zarr.json"])
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]
    assert image(root, "a/c/1/0.tiff").tolist() == [[7, 7], [7, 7]]
    assert image(root, "a/a.tiff").tolist() == [[7, 7, 1, 2], [7, 7, 3, 4], [7] * 4, [7] * 4]
    whole = np.load(io.BytesIO(content(root, "a/a.npy")))
    assert whole.tolist() == image(root, "a/a.tiff").tolist()
    assert content(root, "a/zarr.json") == document


def test_a_chunk_is_cropped_to_its_array() -> None:
    keys = {"zarr.json": array((3, 5)), "c/1/2": b"\1\2\3\4", "c/0/0": b"\5\6\7\x08"}
    root = view(keys)
    assert image(root, "c/0/0.tiff").tolist() == [[5, 6], [7, 8]]
    assert image(root, "c/1/2.tiff").ravel().tolist() == [1]
    assert at(root, "c/1").lookup("2.tiff").size < at(root, "c/0").lookup("0.tiff").size


def test_leading_dimensions_are_the_pages_of_a_chunk() -> None:
    data = bytes(range(12))
    root = view({"zarr.json": array((3, 2, 2), (3, 2, 2)), "c/0/0/0": data})
    with tifffile.TiffFile(io.BytesIO(content(root, "c/0/0/0.tiff"))) as file:
        assert len(file.pages) == 3
        assert [page.asarray().tobytes() for page in file.pages] == [data[:4], data[4:8], data[8:]]


def test_a_scalar_is_one_chunk() -> None:
    root = view({"a/zarr.json": array((), ()), "a/c": b"\x05"})
    assert sorted(at(root, "a").list()) == ["a.npy", "a.tiff", "c.tiff", "zarr.json"]
    assert np.load(io.BytesIO(content(root, "a/a.npy"))) == 5
    assert image(root, "a/c.tiff") == 5
    facts = at(root, "a").facts("c.tiff").to_json()
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
    assert at(root, name).list().keys() == {"zarr.json", "s0.zarr", "exp05.ome.tiff"}
    shown = {"zarr.json", "c", "s0.tiff", "s0.npy", "s0.png"}
    assert at(root, f"{name}/s0.zarr").list().keys() == shown


# -- times


def test_a_chunk_is_as_old_as_what_is_stored_and_others_as_their_node(tmp_path: Path) -> None:
    keys = {"a/c/0/0": bytes(4), "a/zarr.json": array(), "a/c/1/1": bytes(4)}
    write_keys(tmp_path, keys)
    root = view(LocalStore(str(tmp_path)))
    files = tree(root)

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
            reader = at(root, folder).open(name)
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
    assert content(root, "a/a.tiff") == b"mine"
    assert at(root, "a").lookup("a.npy").kind is Kind.FOLDER
    assert content(root, "a/a.npy/x") == b"a folder"
    assert image(root, "a/c/0/0.tiff").tolist() == [[0, 0], [0, 0]]
    assert content(root, "a/c/0/notes.txt") == b"beside"
    assert sorted(at(root, "a/c/0").list()) == ["0.tiff", "1.tiff", "notes.txt"]
    assert sorted(at(root, "a").list()) == ["a.npy", "a.png", "a.tiff", "c", "zarr.json"]


def test_of_one_name_there_is_one_file() -> None:
    stored = view({"a/zarr.json": array((), ()), "a/c.tiff": b"mine"})
    assert sorted(e.name for e in at(stored, "a").scan()) == [
        *("a.npy", "a.tiff", "c.tiff", "zarr.json")
    ]
    assert content(stored, "a/c.tiff") == b"mine"
    called_c = view({"c/zarr.json": array((), ()), "c/c": b"\x05"})
    assert sorted(e.name for e in at(called_c, "c").scan()) == ["c.npy", "c.tiff", "zarr.json"]
    assert tree(called_c).keys() == {"c/c.npy", "c/c.tiff", "c/zarr.json"}
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
    assert sorted(at(root, "a").list()) == ["7", "a.npy", "a.png", "a.tiff", "c", "zarr.json"]
    assert content(root, "README.txt") == b"hello"
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]
    for hidden in ("0", "1"):
        with pytest.raises(NotFound):
            at(root, "a").lookup(hidden)
    with pytest.raises(Corrupt, match=r"a: chunk 1/0: part `\.index` is missing"):
        content(root, "a/c/1/0.tiff")


@pytest.mark.parametrize("name", ["2.tiff", "00.tiff", "0", "0.tif", "-1.tiff", ".tiff", "c"])
def test_what_is_no_chunk_of_the_grid_is_not_there(name: str) -> None:
    root = view({"zarr.json": array(), "c/0/0": bytes(4)})
    with pytest.raises(NotFound):
        at(root, "c/0").lookup(name)
    with pytest.raises(NotFound):
        at(root, "c/0").open(name)


def test_what_leads_out_of_the_store_is_shown_and_denied(tmp_path: Path) -> None:
    write_keys(tmp_path / "out", {"chunk": bytes(4), "folder/0": bytes(4)})
    store = tmp_path / "store"
    write_keys(store, {"zarr.json": array((6, 4)), "c/0/0": bytes(4)})
    (store / "c/0/1").symlink_to(tmp_path / "out/chunk")
    (store / "c/2").symlink_to(tmp_path / "out/folder")
    root = view(LocalStore(str(store)))
    assert at(root, "c/0").list()["1.tiff"].denied
    assert at(root, "c/0").lookup("1.tiff").denied
    with pytest.raises(Denied):
        at(root, "c/0").open("1.tiff")
    assert at(root, "c").list()["2"].denied
    assert at(root, "c").lookup("2").denied


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
        content(root, "root.npy")


def test_a_link_leads_to_where_its_goal_is_shown(tmp_path: Path) -> None:
    write_keys(tmp_path, {"a/zarr.json": array(keys=v2_keys("/")), "a/0/0": bytes(4), "d/x": b"x"})
    (tmp_path / "a/link").symlink_to("../d")
    (tmp_path / "a/0/link").symlink_to("../../d")
    (tmp_path / "a/moved").symlink_to("0")
    root = view(LocalStore(str(tmp_path)))
    assert at(root, "a").readlink("link") == "../d"
    assert at(root, "a").readlink("moved") == "c/0"
    assert at(root, "a/c/0").lookup("link").kind is Kind.LINK
    assert at(root, "a/c/0").readlink("link") == "../../../d"


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
    assert sorted(at(root, "c").list()) == names[0]
    assert sorted(at(root, "c/5").list()) == names[1]
    far = [0, 0]
    far[large] = 987_654_321
    assert image(root, f"c/{far[0]}/{far[1]}.tiff") == 0
    assert image(root, "c/5/7.tiff") == 5
    far[large] = 10**9
    with pytest.raises(NotFound):
        content(root, f"c/{far[0]}/{far[1]}.tiff")


def test_sizes_of_many_chunks_are_not_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 1000
    keys = {"zarr.json": array((count,), (1,)), **{f"c/{n}": b"x" for n in range(0, count, 2)}}
    asked = []
    compute = ChunkFiles._rendered_size

    def rendered_size(files: ChunkFiles, *arguments: Any) -> int:
        asked.append(arguments)
        return compute(files, *arguments)

    folder = at(view(keys, inf), "c")
    folder.lookup("0.tiff")
    monkeypatch.setattr(ChunkFiles, "_rendered_size", rendered_size)
    assert len(folder.list()) == count
    assert len(asked) <= 2


def test_sizes_in_a_listing_are_those_of_files_at_the_edge_too() -> None:
    for stored in ({}, {"a/c/2/1": bytes(4), "a/c/0/1": bytes(4)}):
        files = tree(view({"a/zarr.json": array((5, 3)), **stored}))
        sizes = [files[f"a/c/{y}/{x}.tiff"].size for y, x in ((0, 0), (0, 1), (2, 0), (2, 1))]
        assert len(set(sizes)) > 1
        assert sizes[0] == max(sizes)


def test_a_folder_called_like_a_chunk_is_a_folder() -> None:
    for keys, name in ((v2_keys("."), "0.0"), (default_keys("."), "c.0.0")):
        files = tree(view({"a/zarr.json": array(keys=keys), f"a/{name}/x": b"1"}))
        assert sorted(files) == sorted(["a/zarr.json", f"a/{name}/x", *WHOLE, *CHUNKS])


# -- chunks that are TIFF files already


@pytest.mark.parametrize("suffix", [".tiff", ".tif", ".TIFF", "/data.Tif"])
@pytest.mark.parametrize("magic", [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"])
def test_stored_tiff_files_are_passed_on_as_they_are(suffix: str, magic: bytes) -> None:
    stored = magic + b"any codec, any size"
    keys = suffix_keys(suffix)
    root = view({"a/zarr.json": array(keys=keys, fill_value=7), f"a/c/0/1{suffix}": stored})
    assert sorted(name for name in tree(root) if "/c/" in name) == CHUNKS
    assert content(root, "a/c/0/1.tiff") == stored
    assert at(root, "a/c/0").list()["1.tiff"].size == len(stored)
    assert image(root, "a/c/0/0.tiff").tolist() == [[7, 7], [7, 7]]


def test_the_parts_of_a_stored_tiff_are_merged() -> None:
    document = array(keys=suffix_keys(".tiff"), transformers=[concat_parts("", ".index")])
    keys = {"a/zarr.json": document, "a/c/0/0.tiff": TIFF, "a/c/0/0.tiff.index": b"index"}
    root = view({**keys, "a/c/0/1.tiff": TIFF})
    assert content(root, "a/c/0/0.tiff") == TIFF + b"index"
    assert at(root, "a/c/0").lookup("0.tiff").size == len(TIFF) + 5
    at(root, "a/c/0").open("1.tiff").close()  # as in the other views, reading says it
    with pytest.raises(Corrupt, match="index` is missing"):
        content(root, "a/c/0/1.tiff")


def test_a_suffix_alone_makes_no_tiff() -> None:
    root = view({"a/zarr.json": array(keys=suffix_keys(".tiff")), "a/c/0/1.tiff": b"\1\2\3\4"})
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]


def test_among_stored_tiff_files_one_that_is_none_cannot_be_read() -> None:
    document = array(keys=suffix_keys(".tiff"))
    root = view(
        {
            "a/zarr.json": document,
            "a/c/0/0.tiff": TIFF,
            "a/c/0/1.tiff": b"1234",
            "a/c/1/1.tiff": b"",
        }
    )
    assert content(root, "a/c/0/0.tiff") == TIFF
    with pytest.raises(Corrupt, match=r"a: chunk c/0/1: is no TIFF file"):
        content(root, "a/c/0/1.tiff")
    with pytest.raises(Corrupt, match=r"a: chunk c/1/1: is no TIFF file"):
        content(root, "a/c/1/1.tiff")


def test_a_first_chunk_is_still_looked_for_where_there_was_none(tmp_path: Path) -> None:
    write_keys(tmp_path, {"a/zarr.json": array(keys=suffix_keys(".tiff"))})
    root = view(LocalStore(str(tmp_path)))
    assert image(root, "a/c/0/0.tiff").tolist() == [[0, 0], [0, 0]]
    write_keys(tmp_path, {"a/c/0/0.tiff": TIFF})
    assert content(root, "a/c/0/0.tiff") == TIFF


def test_where_no_stored_chunk_can_be_read_its_key_tells() -> None:
    document = array(keys=suffix_keys(".tiff"), transformers=[concat_parts("", ".index")])
    stored = view({"zarr.json": document, "c/0/0.tiff": TIFF})
    assert at(stored, "c/0").lookup("0.tiff").size == len(TIFF)
    with pytest.raises(Corrupt, match="index` is missing"):
        content(stored, "c/0/0.tiff")


@pytest.mark.parametrize("broken, passed_on", [(15, True), (16, False)])
def test_few_broken_chunks_are_looked_at_until_one_tells(broken: int, passed_on: bool) -> None:
    document = array((20,), (1,), keys=suffix_keys(".tiff"), transformers=[concat_parts("", ".i")])
    keys = {f"c/{n:02}.tiff".replace("/0", "/"): TIFF for n in range(broken)}
    keys |= {f"c/{broken}.tiff": b"", f"c/{broken}.tiff.i": b"\7"}  # is no TIFF file
    root = view({"zarr.json": document, **keys}, inf)
    # The chunk that is none decides that none is; behind too many broken ones, the keys decide.
    size = at(root, "c").lookup(f"{broken}.tiff").size
    assert (size > 1) is passed_on


def test_an_empty_chunk_does_not_tell_what_the_others_are() -> None:
    document = array(keys=suffix_keys(".tiff"))  # perhaps it is just being written
    root = view({"a/zarr.json": document, "a/c/0/0.tiff": b"", "a/c/0/1.tiff": TIFF}, inf)
    assert at(root, "a/c/0").list()["1.tiff"].size == len(TIFF)
    assert content(root, "a/c/0/1.tiff") == TIFF


def test_what_a_search_for_stored_chunks_came_to_is_believed_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = 100.0
    monkeypatch.setattr("zarrfuse.views.images.chunk_files.time.monotonic", lambda: seconds)
    searched: list[float] = []

    def some(_: Any) -> Iterator[tuple[int, ...]]:
        searched.append(seconds)
        return iter(())

    monkeypatch.setattr(PlainChunks, "some", some)
    store = MemoryStore({"zarr.json": array(keys=suffix_keys(".tiff"))}, permanent=True)
    files = StoredTiffs(
        PlainChunks(chunks := ChunksView(store, inf), chunks.root, node_of(chunks)),
        node_of(chunks),
        5.0,
        "a",
    )
    with pytest.raises(BlockingIOError):
        files.are_tiff(wait=False)
    assert [files.are_tiff(), files.are_tiff(), files.are_tiff(wait=False)] == [False] * 3
    seconds = 106.0
    assert not files.are_tiff()
    assert searched == [100.0, 106.0]


def node_of(chunks: ChunksView) -> ArrayNode:
    loaded = chunks.root.loaded()
    assert loaded is not None
    assert isinstance(loaded.node, ArrayNode)
    return loaded.node


# -- what cannot be shown


def test_a_node_that_must_not_be_loaded_is_as_in_chunks() -> None:
    document = array(mystery=1)
    root = view({"a/zarr.json": document, "a/c/0/0": bytes(4), "a/b/zarr.json": array()})
    assert sorted(at(root, "a").list()) == ["b", "c", "zarr.json"]
    assert content(root, "a/zarr.json") == document
    with pytest.raises(NotSupported, match="mystery"):
        content(root, "a/c/0/0")
    assert "b.tiff" in at(root, "a/b").list()


def test_an_array_that_nobody_could_decode_is_listed_and_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    document = json.loads(array())
    del document["fill_value"]
    root = view({"a/zarr.json": json.dumps(document).encode(), "a/c/0/0": bytes(4)})
    for path in (*WHOLE, *CHUNKS):
        folder, _, name = path.rpartition("/")
        assert at(root, folder).list()[name].size > 0
        with pytest.raises(NotSupported, match="fill_value: is missing"):
            at(root, folder).open(name)
    assert "fill_value" in at(root, "a").facts(None).to_json()["not_decoded"]
    assert "not decoded: a/zarr.json: fill_value: is missing" in caplog.text


def test_stored_tiff_files_are_passed_on_whether_they_can_be_decoded_or_not() -> None:
    document = json.loads(array(keys=suffix_keys(".tiff"), codecs=[{"name": "unheard.of"}]))
    del document["fill_value"]
    root = view({"a/zarr.json": json.dumps(document).encode(), "a/c/0/0.tiff": TIFF})
    assert content(root, "a/c/0/0.tiff") == TIFF
    with pytest.raises(NotSupported):
        at(root, "a/c/0").open("1.tiff")


def test_an_unknown_codec_is_told_of_when_a_file_is_opened() -> None:
    codecs = [{"name": "bytes"}, {"name": "unheard.of"}]
    root = view({"a/zarr.json": array(codecs=codecs), "a/c/0/0": bytes(4)})
    for path in (*WHOLE, "a/c/0/0.tiff"):
        folder, _, name = path.rpartition("/")
        assert at(root, folder).lookup(name).size > 0
        with pytest.raises(NotSupported, match=r"unheard\.of"):
            at(root, folder).open(name)
    assert "unheard.of" in at(root, "a").facts(None).to_json()["not_decoded"]


def test_unknown_codecs_are_not_looked_for_in_the_event_loop() -> None:
    codecs = [{"name": "bytes"}, {"name": "unheard.of"}]
    folder = at(view({"a/zarr.json": array(codecs=codecs)}, inf), "a")
    folder.list()
    with pytest.raises(BlockingIOError):
        folder.open("a.npy", wait=False)


def test_a_type_that_tiff_lacks_has_only_npy_and_facts_say_so() -> None:
    document = array(data_type="complex64", fill_value=[0.0, 0.0])
    root = view({"a/zarr.json": document, "a/c/0/0": bytes(32)})
    assert sorted(at(root, "a").list()) == ["a.npy", "zarr.json"]
    with pytest.raises(NotFound):
        at(root, "a").lookup("c")
    told = at(root, "a").facts(None).to_json()["renderings"]
    assert isinstance(told["a.npy"], int)
    assert "complex64" in told["c"]
    assert "complex64" in told["a.tiff"]
    assert isinstance(told["a.png"], str)


def test_elements_without_a_size_have_no_rendering() -> None:
    root = view(
        {"a/zarr.json": array(data_type="string", fill_value="", codecs=[{"name": "vlen-utf8"}])}
    )
    assert sorted(at(root, "a").list()) == ["zarr.json"]
    told = at(root, "a").facts(None).to_json()["renderings"]
    assert told.keys() == {"c", "a.tiff", "a.npy", "a.png"}
    assert all("string" in reason for reason in told.values())


def test_an_array_without_elements_is_a_numpy_file() -> None:
    root = view({"a/zarr.json": array((0, 4))})
    assert sorted(at(root, "a").list()) == ["a.npy", "zarr.json"]
    assert np.load(io.BytesIO(content(root, "a/a.npy"))).shape == (0, 4)


def test_an_array_larger_than_any_file_says_so() -> None:
    root = view({"a/zarr.json": array((10**10, 10**10), (10**10, 10**10))})
    assert "zarr.json" in at(root, "a").list()
    assert not [name for name in at(root, "a").list() if name in ("a.npy", "a.tiff", "c")]
    assert (
        "more bytes than a file can" in at(root, "a").facts(None).to_json()["renderings"]["a.npy"]
    )


@pytest.mark.parametrize(
    "formats, names",
    [
        (("tiff",), ["a.tiff", "c", "zarr.json"]),
        (("npy",), ["a.npy", "zarr.json"]),
        (("png",), ["a.png", "zarr.json"]),
        (("ome",), ["zarr.json"]),
    ],
)
def test_fewer_formats_are_shown(formats: tuple[str, ...], names: list[str]) -> None:
    root = view({"a/zarr.json": array(), "a/c/0/0": bytes(4)}, formats=formats)
    assert sorted(at(root, "a").list()) == names
    assert set(at(root, "a").facts(None).to_json().get("renderings", {})) <= {*names, "c/0/0.tiff"}


def test_a_name_too_long_for_a_file_is_left_out() -> None:
    name = "n" * 252
    root = view({f"{name}/zarr.json": array()})
    assert sorted(at(root, name).list()) == ["c", "zarr.json"]
    assert "more than 255" in at(root, name).facts(None).to_json()["renderings"][f"{name}.npy"]


# -- Zarr v2


@pytest.mark.parametrize("separator", [".", "/"])
def test_arrays_of_zarr_v2_are_shown(separator: str) -> None:
    document = {**json.loads(v2_array(separator=separator)), "compressor": None}
    keys = {"a/.zarray": json.dumps(document).encode(), f"a/0{separator}1": b"\1\2\3\4"}
    root = view(keys)
    assert sorted(tree(root)) == sorted([*WHOLE, *CHUNKS, "a/.zarray"])
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]


def test_an_array_that_plain_keeps_as_zarr_v2_is_shown() -> None:
    filters = [{"id": "delta", "dtype": "|u1"}]
    document = {**json.loads(v2_array()), "compressor": None, "filters": filters}
    root = view({"a/.zarray": json.dumps(document).encode(), "a/0.1": b"\1\1\1\1"})
    assert image(root, "a/c/0/1.tiff").tolist() == [[1, 2], [3, 4]]
    assert "kept_as_v2" not in at(root, "a").facts(None).to_json()


# -- pyramids

SIDE = 64


def pyramid(**members: Any) -> dict[str, bytes]:
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


def test_a_pyramid_is_an_ome_tiff_of_its_group() -> None:
    root = view(pyramid())
    files = tree(root)
    assert "g/g.ome.tiff" in files
    with tifffile.TiffFile(io.BytesIO(content(root, "g/g.ome.tiff"))) as file:
        assert file.is_ome
        levels = file.series[0].levels
        assert [level.shape for level in levels] == [(64, 64), (32, 32)]
        assert [np.unique(level.asarray()).tolist() for level in levels] == [[1], [2]]
    assert at(root, "g").facts(None).to_json()["renderings"] == {
        "g.ome.tiff": files["g/g.ome.tiff"].size
    }


def test_a_pyramid_that_is_none_says_why() -> None:
    keys = pyramid()
    del keys["g/s1/zarr.json"]
    root = view(keys)
    assert sorted(at(root, "g").list()) == ["s0", "zarr.json"]
    assert "s1" in at(root, "g").facts(None).to_json()["renderings"]["g.ome.tiff"]


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
    write_keys(tmp_path, pyramid())  # the last one is the newest
    newest = os.stat(tmp_path / "g/s1/zarr.json").st_mtime_ns
    assert os.stat(tmp_path / "g/zarr.json").st_mtime_ns < newest
    assert at(view(LocalStore(str(tmp_path))), "g").lookup("g.ome.tiff").mtime_ns == newest


def test_a_pyramid_with_a_level_that_nobody_could_decode_is_refused() -> None:
    keys = pyramid()
    document = json.loads(keys["g/s1/zarr.json"])
    del document["fill_value"]
    folder = at(view({**keys, "g/s1/zarr.json": json.dumps(document).encode()}), "g")
    assert folder.lookup("g.ome.tiff").size
    with pytest.raises(NotSupported, match="fill_value: is missing"):
        folder.open("g.ome.tiff")


def test_a_pyramid_whose_name_is_too_long_for_a_file_says_so() -> None:
    name = "g" * 250
    keys = {key.replace("g/", f"{name}/", 1): data for key, data in pyramid().items()}
    folder = at(view(keys), name)
    assert f"{name}.ome.tiff" not in folder.list()
    assert (
        "its name would have 259 bytes"
        in folder.facts(None).to_json()["renderings"][f"{name}.ome.tiff"]
    )


def test_levels_are_looked_at_when_their_group_is() -> None:
    store = WatchedStore({"zarr.json": group(), **pyramid()})
    root = view(store, inf)
    root.list()
    root.lookup("g")
    assert store.asked == {""}
    at(root, "g").lookup("s0")
    assert store.asked == {"", "g"}
    at(root, "g").list()
    assert store.asked == {"", "g", "g/s0", "g/s1"}


def test_the_picture_of_an_array_takes_the_pyramid_around_it() -> None:
    root = view(pyramid())
    with tifffile.TiffFile(io.BytesIO(content(root, "g/s1/s1.tiff"))) as file:
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
    with tifffile.TiffFile(io.BytesIO(content(root, "a/a.tiff"))) as file:
        pages = np.stack([page.asarray() for page in file.pages])
    assert np.array_equal(np.sort(pages.ravel()), np.sort(data.ravel()))
    assert np.array_equal(tifffile.imread(io.BytesIO(content(root, "a/a.tiff"))), data)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The paths of the coarser levels that each picture is planned with."""
    found: list[list[str]] = []

    def plan_(picture: Picture, whole: DecodedArray, levels: Sequence[DecodedArray]) -> Plan:
        found.append([level.path for level in levels])
        return plan(picture, whole, levels)

    monkeypatch.setattr("zarrfuse.views.images.arrays.plan", plan_)
    return found


def test_a_picture_is_planned_with_the_coarser_levels_there_are_now(
    planned: list[list[str]], tmp_path: Path
) -> None:
    keys = pyramid()
    write_keys(tmp_path, keys)
    folder = at(view(LocalStore(str(tmp_path))), "g/s0")
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
    write_keys(tmp_path, pyramid())
    folder = at(view(LocalStore(str(tmp_path))), "g/s0")

    def header() -> bytes:
        reader = folder.open("s0.tiff")
        buffer = bytearray(reader.size - SIDE * SIDE)
        reader.readinto(memoryview(buffer), 0)
        reader.close()
        return bytes(buffer)

    assert b"unit=" in header()
    (tmp_path / "g/zarr.json").write_bytes(group())
    assert b"unit=" not in header()


# -- slow storage


def test_nothing_is_decoded_ahead_on_slow_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead: list[bool] = []
    monkeypatch.setattr(
        "zarrfuse.views.images.arrays.Pixels",
        lambda *arguments, **options: (
            ahead.append(options["ahead"]) or Pixels(*arguments, **options)
        ),
    )
    for keys in ({"a/zarr.json": array()}, slow()):
        at(view(keys), "a").open("a.npy").close()
    assert ahead == [True, False]


def test_no_picture_is_made_of_a_level_on_slow_storage(planned: list[list[str]]) -> None:
    keys = pyramid()
    tiers = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["s1"]}}
    document = json.loads(keys["g/zarr.json"])
    document["extensions"] = [{**tiers, "must_understand": False}]
    keys["g/zarr.json"] = json.dumps(document).encode()
    at(view(keys), "g/s0").lookup("s0.png")
    assert planned == [[]]


def test_no_pyramid_with_a_level_on_slow_storage_is_decoded_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead: list[bool] = []
    monkeypatch.setattr(
        "zarrfuse.views.images.groups.pyramid_file",
        lambda *arguments, **options: (
            ahead.append(options["ahead"]) or pyramid_file(*arguments, **options)
        ),
    )
    tiers = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["s1"]}}
    for extensions in ({}, {"extensions": [{**tiers, "must_understand": False}]}):
        keys = pyramid()
        document = json.loads(keys["g/zarr.json"])
        keys["g/zarr.json"] = json.dumps({**document, **extensions}).encode()
        at(view(keys), "g").open("g.ome.tiff").close()
    assert ahead == [True, False]


def slow(**options: Any) -> dict[str, bytes]:
    tiers = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["a"]}}
    return {
        "zarr.json": group(extensions=[{**tiers, "must_understand": False}]),
        "a/zarr.json": array(**options),
    }


def test_an_array_on_slow_storage_has_no_picture_and_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = view({**slow(), "a/c/0/0": bytes(4)})
    assert sorted(at(root, "a").list()) == ["a.npy", "a.tiff", "c", "zarr.json"]
    assert "slow" in at(root, "a").facts(None).to_json()["renderings"]["a.png"]
    assert not caplog.records
    at(root, "a").open("a.npy").close()
    assert "is on slow storage" in caplog.text


def test_no_chunk_on_slow_storage_is_looked_at_to_list_it(caplog: pytest.LogCaptureFixture) -> None:
    root = view({**slow(keys=suffix_keys(".tiff")), "a/c/0/0.tiff": TIFF})
    assert at(root, "a/c/0").list()["0.tiff"].size == len(TIFF)
    assert not caplog.records
    assert content(root, "a/c/0/0.tiff") == TIFF
    assert "is on slow storage" in caplog.text


# -- facts, all views, the event loop


def test_facts_of_a_chunk() -> None:
    root = view({"a/zarr.json": array(keys=v2_keys()), "a/0.1": bytes(4)})
    stored = at(root, "a/c/0").facts("1.tiff").to_json()
    expected = {"view": "images", "path": "a/c/0/1.tiff", "node": "a", "kind": "file"}
    expected |= {"key": "c/0/1.tiff", "stored_key": "0.1", "chunk_coords": [0, 1], "stored_size": 4}
    assert stored.items() >= {**expected, "size": at(root, "a/c/0").lookup("1.tiff").size}.items()
    absent = at(root, "a/c/1").facts("1.tiff").to_json()
    assert (absent["stored_key"], absent["chunk_coords"]) == ("1.1", [1, 1])
    assert "stored_size" not in absent
    assert absent["shape"] == [4, 4]
    with pytest.raises(NotFound):
        at(root, "a/c/1").facts("2.tiff").to_json()


def test_facts_of_renderings_and_nodes() -> None:
    root = view({"a/zarr.json": array(), "a/notes.txt": b"n"})
    folder = at(root, "a")
    told = folder.facts("a.tiff").to_json()
    assert (told["path"], told["node"], told["shape"]) == ("a/a.tiff", "a", [4, 4])
    assert told["size"] == folder.lookup("a.tiff").size
    sizes = {name: folder.lookup(name).size for name in ("a.tiff", "a.npy", "a.png")}
    sizes["c/0/0.tiff"] = at(folder, "c/0").lookup("0.tiff").size
    assert (
        folder.facts(None).to_json()["renderings"]
        == folder.facts("zarr.json").to_json()["renderings"]
        == sizes
    )
    assert folder.facts("notes.txt").to_json()["size"] == 1
    assert folder.facts("c").to_json()["kind"] == "folder"
    assert root.facts("a").to_json() == {"view": "images", "path": "a", "kind": "folder"}


def test_all_views_have_images_among_them() -> None:
    keys = {"zarr.json": array(), "c/0/0": b"\1\2\3\4"}
    root = open_view("all", MemoryStore(keys), 0, root_name="demo")
    assert sorted(root.list()) == ["chunks", "images", "plain", "raw"]
    assert "demo.tiff" in root.child("images").list()
    assert image(root, "images/c/0/0.tiff").tolist() == [[1, 2], [3, 4]]
    assert at(root, "images").facts("demo.npy").to_json()["path"] == "images/demo.npy"


class ColdOnce(ForwardingStore):
    """Has everything at hand, but says who asked while it must not wait."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.waited = False

    def before(self, call: str, key: str, wait: bool) -> None:
        """Listings are never asked for from the event loop."""
        self.waited = self.waited or wait


def test_nothing_is_made_in_the_event_loop_and_then_all_is_at_hand() -> None:
    store = ColdOnce(MemoryStore({"a/zarr.json": array(), "a/c/0/0": bytes(4)}))
    root = view(store, inf)
    folder = at(root, "a")
    with pytest.raises(BlockingIOError):
        folder.lookup("a.tiff", wait=False)
    for name in ("a.tiff", "a.npy", "a.png", "c"):
        folder.lookup(name)
    chunks = at(root, "a/c/0")
    chunks.lookup("0.tiff")
    store.waited = False
    for name in ("a.tiff", "a.npy", "a.png", "c"):
        folder.lookup(name, wait=False)
    assert chunks.lookup("0.tiff", wait=False).size
    with pytest.raises(BlockingIOError):
        folder.open("a.tiff", wait=False)  # whether it can be decoded has yet to be found out
    folder.open("a.npy").close()
    store.waited = False
    reader = folder.open("a.tiff", wait=False)
    buffer = memoryview(bytearray(8))
    reader.readinto(buffer, 0, wait=False)  # the header
    with pytest.raises(BlockingIOError):
        reader.readinto(buffer, reader.size - 16, wait=False)
    assert not store.waited


def test_no_header_is_made_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zarrfuse.views.images.framed._KEPT", 0)
    root = view({"a/zarr.json": array((5, 4))}, inf)
    folder, chunks = at(root, "a"), at(root, "a/c/2")
    folder.list()
    folder.open("a.tiff").close()
    reader = folder.open("a.tiff", wait=False)
    with pytest.raises(BlockingIOError):
        reader.readinto(memoryview(bytearray(8)), 0, wait=False)  # a large one is not kept
    reader.close()
    assert tifffile.imread(io.BytesIO(content(root, "a/a.tiff"))).shape == (5, 4)
    at(root, "a/c/0").lookup("0.tiff")
    with pytest.raises(NotFound):
        chunks.lookup("9.tiff")
    with pytest.raises(BlockingIOError):
        chunks.lookup("0.tiff", wait=False)  # one at the edge has a header of its own
    assert chunks.lookup("0.tiff") == chunks.lookup("0.tiff", wait=False)


def test_one_error_of_a_library_costs_one_file(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr("zarrfuse.views.images.arrays.array_tiff", fails)
    root = view({"a/zarr.json": array()})
    assert sorted(at(root, "a").list()) == ["a.npy", "a.png", "c", "zarr.json"]
    assert caplog.text.count("a: no a.tiff: RuntimeError: out of ideas") == 1
