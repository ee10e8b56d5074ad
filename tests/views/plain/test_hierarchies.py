"""A hierarchy of Zarr v2 is shown as Zarr v3, or stays as it is, all of it."""

import errno
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from builders.documents import array, group, v2_array
from builders.fake_stores import FailingStore, ForwardingStore, MemoryStore
from builders.folders import write_keys
from builders.views import FOREVER, content_of, folder_at, tree_of

from zarrfuse.errors import NotFound, NotSupported
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view
from zarrfuse.views.plain import hierarchies

GROUP = b'{"zarr_format": 2}'
ZLIB = v2_array().replace(b"zstd", b"zlib")


def view(keys: Mapping[str, bytes]) -> Folder:
    return open_view("plain", MemoryStore(keys), 0)


def zmetadata(keys: Mapping[str, bytes]) -> bytes:
    """The consolidated metadata of these documents."""
    documents = {key: json.loads(text) for key, text in keys.items()}
    return json.dumps({"zarr_consolidated_format": 1, "metadata": documents}).encode()


@pytest.mark.parametrize("deepest", ["a", "g/a", "g/no node/a"])
def test_one_array_that_stays_keeps_the_topmost_group_and_all_below_it(deepest: str) -> None:
    stored = {
        ".zgroup": GROUP,
        ".zattrs": b"{}",
        "g/.zgroup": GROUP,
        "other/.zarray": v2_array(),
        "other/0.1": b"chunk",
        f"{deepest}/.zarray": ZLIB,
        f"{deepest}/0.1": b"chunk",
    }
    root = view(stored)
    assert tree_of(root) == stored
    reason = f"the root group stays Zarr v2 as a whole: {deepest}/.zarray: the codec 'zlib' has"
    for path in ("", "g", "other"):
        assert folder_at(root, path).facts(None).to_json()["kept_as_v2"].startswith(reason)


def test_each_topmost_group_is_decided_for_itself() -> None:
    root = view(
        {
            "x.zarr/.zgroup": GROUP,
            "x.zarr/a/.zarray": ZLIB,
            "y.zarr/.zgroup": GROUP,
            "y.zarr/a/.zarray": v2_array(),
            "alone/.zarray": ZLIB,
            "v3/zarr.json": group(),
            "v3/g/.zgroup": GROUP,
            "v3/g/a/.zarray": ZLIB,
            "v3/a/.zarray": v2_array(),
        }
    )
    assert set(tree_of(root)) == {
        "x.zarr/.zgroup",
        "x.zarr/a/.zarray",
        "y.zarr/zarr.json",
        "y.zarr/a/zarr.json",
        "alone/.zarray",
        "v3/zarr.json",
        "v3/g/.zgroup",
        "v3/g/a/.zarray",
        "v3/a/zarr.json",
    }


def test_nodes_of_zarr_v3_and_nodes_that_nobody_reads_keep_no_group() -> None:
    root = view(
        {
            ".zgroup": GROUP,
            "v3/zarr.json": array(),
            "v3/below/.zarray": ZLIB,
            "broken/.zarray": b"{",
            "a/.zarray": v2_array(),
        }
    )
    assert json.loads(content_of(root, "zarr.json"))["zarr_format"] == 3
    assert "kept_as_v2" not in root.child("a").facts(None).to_json()


def test_attributes_that_are_no_object_keep_a_group_as_it_is() -> None:
    stored = {".zgroup": GROUP, "g/.zgroup": GROUP, "g/.zattrs": b"[]"}
    root = view(stored)
    assert tree_of(root) == stored
    assert "g/.zattrs: is not a JSON object" in root.facts(None).to_json()["kept_as_v2"]


# -- consolidated metadata


def test_consolidated_metadata_decide_and_are_shown_where_they_are_kept() -> None:
    documents = {".zgroup": GROUP, "g/.zgroup": GROUP, "g/a/.zarray": ZLIB, "g/a/.zattrs": b"{}"}
    stored = {"s/.zmetadata": zmetadata(documents)}
    stored |= {f"s/{key}": text for key, text in documents.items()}
    root = view(stored)
    assert tree_of(root) == stored
    assert (
        "s/g/a/.zarray: the codec 'zlib'"
        in folder_at(root, "s").facts(None).to_json()["kept_as_v2"]
    )


def test_consolidated_metadata_spare_the_nodes() -> None:
    class Looked(ForwardingStore):
        """Knows which folders were listed."""

        def __init__(self, keys: Mapping[str, bytes]) -> None:
            super().__init__(MemoryStore(keys))
            self.listed: list[str] = []

        def before(self, call: str, key: str, wait: bool) -> None:
            self.listed += [key] * (call == "scan")

    documents = {".zgroup": GROUP, "g/.zgroup": GROUP, "a/.zarray": v2_array()}
    store = Looked({**documents, ".zmetadata": zmetadata(documents)})
    root = open_view("plain", store, FOREVER)
    assert json.loads(content_of(root, "zarr.json"))["zarr_format"] == 3
    assert store.listed == []
    with pytest.raises(NotFound):
        root.lookup(".zmetadata")


@pytest.mark.parametrize(
    "broken",
    [b"{", b"[]", b"{}", b'{"zarr_consolidated_format": 2, "metadata": {}}', b"\xff"],
)
def test_consolidated_metadata_that_are_none_do_not_decide(broken: bytes) -> None:
    stored = {".zgroup": GROUP, ".zmetadata": broken, "a/.zarray": ZLIB}
    assert tree_of(view(stored)) == stored


def test_attributes_in_consolidated_metadata_count() -> None:
    documents = {".zgroup": GROUP, "a/.zarray": v2_array(), "a/.zattrs": b"[]"}
    stored = {**documents, ".zmetadata": zmetadata(documents)}
    assert tree_of(view(stored)) == stored


# -- bounds and faults


def test_a_hierarchy_of_too_many_names_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchies, "LARGEST_HIERARCHY", 20)
    small = {".zgroup": GROUP, **{f"{n}/.zarray": v2_array() for n in range(19)}}
    small |= {f"0/{n}.0": b"many chunks" for n in range(2)}
    assert "zarr.json" in view(small).list()
    large = {**small, "19/.zarray": v2_array()}
    assert tree_of(view(large)) == large
    told = view(large).facts(None).to_json()["kept_as_v2"]
    assert told.endswith("it has more than 20 names, and no .zmetadata")
    consolidated = {key: text for key, text in large.items() if key.endswith((".zgroup", "ray"))}
    assert "zarr.json" in view({**large, ".zmetadata": zmetadata(consolidated)}).list()


def test_a_group_that_cannot_be_looked_through_stays_as_it_is() -> None:
    stored = {".zgroup": GROUP, "a/.zarray": v2_array(), "g/.zgroup": GROUP}
    error = OSError(errno.EIO, "broken disk")
    store = FailingStore(
        MemoryStore(stored), lambda *asked: error if asked == ("scan", "g") else None
    )
    root = open_view("plain", store, FOREVER)
    assert content_of(root, ".zgroup") == GROUP
    assert "g cannot be looked at" in root.facts(None).to_json()["kept_as_v2"]


# -- what changes


def test_an_array_that_turns_up_later_and_stays_keeps_its_hierarchy_from_then_on(
    tmp_path: Path,
) -> None:
    write_keys(tmp_path, {".zgroup": GROUP, "a/.zarray": v2_array(), "a/0.1": b"chunk"})
    root = open_view("plain", LocalStore(tmp_path), 0)
    arrays = root.child("a")
    assert content_of(arrays, "zarr.json")
    assert content_of(arrays.child("c").child("0"), "1") == b"chunk"
    write_keys(tmp_path, {"b/.zarray": ZLIB})
    assert set(root.child("b").list()) == {".zarray"}
    assert set(root.list()) == {".zgroup", "a", "b"}
    assert content_of(arrays, "0.1") == b"chunk"


def test_chunks_below_c_of_an_array_that_stays_are_not_taken_for_absent() -> None:
    root = view({".zgroup": GROUP, "a/.zarray": v2_array(), "b/.zarray": ZLIB, "b/c": b"a file"})
    for asked in (root.child("a").lookup, root.child("a").open):  # a scalar has a chunk `c`
        with pytest.raises(NotSupported, match="the root group stays Zarr v2 as a whole: b/"):
            asked("c")
    assert content_of(root.child("b"), "c") == b"a file"
    with pytest.raises(NotFound):
        root.lookup("c")


def test_a_group_that_is_written_anew_is_decided_anew(tmp_path: Path) -> None:
    write_keys(tmp_path, {".zgroup": GROUP, "a/.zarray": ZLIB})
    root = open_view("plain", LocalStore(tmp_path), 0)
    assert ".zgroup" in root.list()
    write_keys(tmp_path, {"a/.zarray": v2_array(), ".zattrs": b'{"written": "anew"}'})
    assert "zarr.json" in root.list()
    assert "zarr.json" in root.child("a").list()
