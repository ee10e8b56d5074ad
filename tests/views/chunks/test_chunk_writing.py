"""Writing in the `chunks` view: chunks are split into their parts, whole or not at all."""

import errno
import json
import math
import os
import resource
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import zarr
from builders.documents import array, concat_parts, group, suffix_keys, v2_array, v2_keys
from builders.folders import write_keys
from builders.readers import read_range
from builders.view_writing import create, link, open_to_write, put, remove, rename
from builders.views import content_of, folder_at, is_there, names_in
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from zarr.core.buffer import Buffer
from zarr.storage import MemoryStore

from zarrfuse.decoding.fill_values import is_fill
from zarrfuse.errors import (
    Corrupt,
    Denied,
    Elsewhere,
    Exists,
    IsAFolder,
    NotAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    PartsDoNotFit,
    ReadOnly,
    errno_of,
)
from zarrfuse.spec.node import ArrayNode
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import OWN_NAME, Kind
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.storing import IsFill
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView

HEAD_AND_TAIL = [concat_parts((".head", 2), "", (".tail", 3))]
MTIME_NS = 1_600_000_000_123_456_789
BROKEN = array(codecs="none")


@contextmanager
def opened(
    root: Path, keys: Mapping[str, bytes], fill: IsFill | None = None, *, is_last: bool = True
) -> Iterator[ChunksFolder]:
    """The root of a view of a folder of these keys. It would never look at a document again."""
    root.mkdir(exist_ok=True)
    write_keys(root, keys)
    store = WritableLocalStore(str(root))
    commits = Commits(store)
    yield ChunksView(store, math.inf, commits, fill).root
    commits.close()
    store.close()
    if is_last:
        assert not (root / OWN_NAME).exists()


@pytest.fixture
def view(tmp_path: Path) -> Iterator[Callable[..., ChunksFolder]]:
    """`view(keys)`: such a root; the folder is `tmp_path / "store"`."""
    entered = []

    def of(keys: Mapping[str, bytes], fill: IsFill | None = None) -> ChunksFolder:
        entered.append(opened(tmp_path / "store", keys, fill))
        return entered[-1].__enter__()

    yield of
    for each in entered:
        each.__exit__(None, None, None)


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[], dict[str, bytes]]:
    """All stored files but documents, as they are."""
    return lambda: files(tmp_path / "store")


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and OWN_NAME not in path.parts and path.name != "zarr.json"
    }


# -- chunks are split


ARRAY = {"zarr.json": array(transformers=HEAD_AND_TAIL)}
CHUNK = {"c/0/0.head": b"ab", "c/0/0": b"cd", "c/0/0.tail": b"efg"}


def test_a_chunk_lands_in_its_parts(view: Any, stored: Any) -> None:
    root = view(ARRAY)
    put(root, "c/1/0", b"abCDEFGxyz")
    assert stored() == {"c/1/0.head": b"ab", "c/1/0": b"CDEFG", "c/1/0.tail": b"xyz"}
    assert content_of(root, "c/1/0") == b"abCDEFGxyz"
    assert names_in(root, "c/1") == {"0"}


@pytest.mark.parametrize(
    ("document", "key", "data", "expected"),
    [
        (array(), "c/0/1", b"chunk", {"c/0/1": b"chunk"}),
        (array(keys=v2_keys()), "0.1", b"chunk", {"0.1": b"chunk"}),
        (array(keys=suffix_keys(".tiff")), "c/0/1.tiff", b"II*", {"c/0/1.tiff": b"II*"}),
        (array(()), "c", b"x", {"c": b"x"}),
        (array((), transformers=[concat_parts(("", 1), ".t")]), "c", b"xyz", {"c": b"x", "c.t": b"yz"}),
        (array((4,), transformers=[concat_parts(".only")]), "c/0", b"xyz", {"c/0.only": b"xyz"}),
        (
            array((4,), transformers=[concat_parts("", ("/data.tiff", 1))], keys=v2_keys("/")),
            "0",
            b"",
            None,
        ),
        (
            array((4,), transformers=[concat_parts(("/head", 1), "/data.tiff")]),
            "c/1",
            b"xyz",
            {"c/1/head": b"x", "c/1/data.tiff": b"yz"},
        ),
        (
            array((4,), transformers=[concat_parts("", (".d/deep/tail", 1))]),
            "c/1",
            b"xyz",
            {"c/1": b"xy", "c/1.d/deep/tail": b"z"},
        ),
        (
            array((4,), transformers=[concat_parts((".a", 3), ".b"), concat_parts((".x", 1), ".y")]),
            "c/0",
            b"12345678",
            {"c/0.a.x": b"1", "c/0.a.y": b"23", "c/0.b.x": b"4", "c/0.b.y": b"5678"},
        ),
        (
            array((4,), transformers=[concat_parts(("", 0), ".rest")]),
            "c/0",
            b"",
            {"c/0": b"", "c/0.rest": b""},
        ),
    ],
)  # fmt: skip
def test_every_layout(
    view: Any,
    stored: Any,
    document: bytes,
    key: str,
    data: bytes,
    expected: dict[str, bytes] | None,
) -> None:
    root = view({"a/zarr.json": document})
    if expected is None:
        with pytest.raises(PartsDoNotFit):
            put(root, f"a/{key}", data)
        assert stored() == {}
        return
    put(root, f"a/{key}", data, sync=True)
    assert stored() == {f"a/{key}": value for key, value in expected.items()}
    assert content_of(root, f"a/{key}") == data
    remove(root, f"a/{key}")
    assert stored() == {}
    assert not is_there(root, f"a/{key}")
    put(root, f"a/{key}", data)
    assert content_of(root, f"a/{key}") == data


def test_a_chunk_of_zarr_v2(view: Any, stored: Any) -> None:
    root = view({".zarray": v2_array()})
    put(root, "0.1", b"chunk")
    put(root, "0.9", b"no chunk")
    assert {key: data for key, data in stored().items() if key != ".zarray"} == {
        "0.1": b"chunk",
        "0.9": b"no chunk",
    }
    with closing(create(root, "1.1")) as chunk:
        assert not chunk.is_live
    with closing(open_to_write(root, "0.9")) as ordinary:
        assert ordinary.is_live


def test_until_it_is_stored_others_see_the_old_chunk(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    writer = open_to_write(root, "c/0/0")
    assert (writer.is_live, writer.changed) == (False, False)
    writer.write(b"XY", 2)
    assert writer.changed
    assert read_range(writer, 0, writer.size) == b"abXYefg"
    assert content_of(root, "c/0/0") == b"abcdefg"
    assert stored() == CHUNK
    assert writer.store()
    assert content_of(root, "c/0/0") == b"abXYefg"
    assert not writer.store()
    writer.truncate(6)
    assert writer.store(sync=True)
    writer.close()
    assert stored() == {"c/0/0.head": b"ab", "c/0/0": b"X", "c/0/0.tail": b"Yef"}


def test_what_was_never_changed_is_not_stored(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    writer = open_to_write(root, "c/0/0")
    assert not writer.store()
    writer.close()
    assert stored() == CHUNK


def test_what_is_not_stored_is_lost(view: Any, stored: Any) -> None:
    root = view(ARRAY)
    writer = create(root, "c/0/0")
    writer.write(b"12345", 0)
    assert not is_there(root, "c/0/0")
    writer.close()
    assert stored() == {}


def test_bytes_that_do_not_fit_leave_the_old_chunk(view: Any, stored: Any) -> None:
    root = view({"a/zarr.json": ARRAY["zarr.json"], **{f"a/{key}": CHUNK[key] for key in CHUNK}})
    before = stored()
    for _ in range(2):
        writer = create(root, "a/c/0/0")
        writer.write(b"1234", 0)
        with pytest.raises(PartsDoNotFit, match=r"^a: chunk c/0/0: a chunk of 4 bytes") as raised:
            writer.store()
        assert errno_of(raised.value) == errno.EINVAL
        assert writer.changed
        writer.close()
    assert stored() == before


def test_what_did_not_fit_can_be_made_to_fit(view: Any, stored: Any) -> None:
    root = view(ARRAY)
    writer = create(root, "c/0/0")
    with pytest.raises(PartsDoNotFit):
        writer.store()
    writer.write(b"12345", 0)
    assert writer.store()
    writer.close()
    assert stored() == {"c/0/0.head": b"12", "c/0/0": b"", "c/0/0.tail": b"345"}


def test_two_parts_of_open_size_cannot_be_written(view: Any, stored: Any) -> None:
    root = view(
        {"zarr.json": array(transformers=[concat_parts("", ".t")]), "c/0/0": b"1", "c/0/0.t": b"2"}
    )
    before = stored()
    put(root, "c/0/0.tmp", b"x")
    refused: list[Callable[[], object]] = [
        lambda: create(root, "c/0/1"),
        lambda: open_to_write(root, "c/0/0"),
        lambda: open_to_write(root, "c/0/0", truncate=True),
        lambda: rename(root, "c/0/0.tmp", "c/0/1"),
        lambda: link(root, "c/0/0.tmp", "c/0/1"),
    ]
    for call in refused:
        with pytest.raises(NotSupported, match=r"the root array: 2 parts .* are of open size"):
            call()
    remove(root, "c/0/0.tmp")
    assert stored() == before
    remove(root, "c/0/0")  # which needs no splitting
    assert stored() == {}


def test_two_writers_the_last_to_store_wins(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    first, second = open_to_write(root, "c/0/0", truncate=True), create(root, "c/0/0")
    first.write(b"11111111", 0)
    second.write(b"222222222222", 0)
    second.store()
    first.store()
    assert stored() == {"c/0/0.head": b"11", "c/0/0": b"111", "c/0/0.tail": b"111"}
    second.write(b"3", 11)
    second.store()
    assert content_of(root, "c/0/0") == b"222222222223"
    first.close()
    second.close()


@pytest.mark.parametrize("count", [1, 3, 17, 100])
def test_a_reader_from_before_keeps_the_old_bytes(view: Any, count: int) -> None:
    parts = [(f".{number}", 1) for number in range(count - 1)]
    root = view({"zarr.json": array((4,), transformers=[concat_parts("", *parts)])})
    old, new = b"o" * (count + 4), b"n" * (count + 5)
    put(root, "c/0", old)
    reader = folder_at(root, "c").open("0")
    put(root, "c/0", new)
    assert read_range(reader, 0, reader.size) == old
    remove(root, "c/0")
    assert read_range(reader, 0, reader.size) == old
    reader.close()


def test_parts_that_may_not_all_be_held_open_are_opened_when_they_are_read(view: Any) -> None:
    parts = [(f".{number}", 1) for number in range(1200)]
    root = view({"zarr.json": array((4,), transformers=[concat_parts(*parts)])})
    data = os.urandom(1200)
    put(root, "c/0", data)
    assert content_of(root, "c/0") == data
    with pytest.raises(BlockingIOError):
        folder_at(root, "c").open("0", wait=False)


def test_the_time_that_was_set_is_that_of_all_parts(view: Any, tmp_path: Path) -> None:
    root = view(ARRAY)
    writer = create(root, "c/0/0")
    writer.write(b"123456", 0)
    writer.change(Change(MTIME_NS))
    writer.store()
    assert folder_at(root, "c/0").lookup("0").mtime_ns == MTIME_NS
    writer.change(Change(MTIME_NS + 5))
    writer.store()
    writer.close()
    assert {path.stat().st_mtime_ns for path in (tmp_path / "store/c/0").iterdir()} == {
        MTIME_NS + 5
    }
    folder_at(root, "c/0").change("0", Change(mtime_ns=MTIME_NS))
    assert {path.stat().st_mtime_ns for path in (tmp_path / "store/c/0").iterdir()} == {MTIME_NS}
    writer = open_to_write(root, "c/0/0")
    writer.change(Change(MTIME_NS + 7))
    writer.store()
    writer.close()
    assert folder_at(root, "c/0").lookup("0").mtime_ns == MTIME_NS + 7


def test_a_chunk_that_is_not_whole_can_only_be_written_anew(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "c/0/0": b"main", "c/0/0.tail": b"xyz"})
    writer = open_to_write(root, "c/0/0")
    with pytest.raises(Corrupt, match=r"part `.head` is missing"):
        writer.write(b"x", 0)
    writer.close()
    writer = open_to_write(root, "c/0/0", truncate=True)
    writer.write(b"abCDxyz", 0)
    writer.store()
    writer.close()
    assert stored() == {"c/0/0.head": b"ab", "c/0/0": b"CD", "c/0/0.tail": b"xyz"}


def test_exclusive_creation(view: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    with pytest.raises(Exists):
        create(root, "c/0/0", exclusive=True)
    with pytest.raises(Exists):
        create(root, "zarr.json", exclusive=True)
    first = create(root, "c/0/1", exclusive=True)
    second = create(root, "c/0/1", exclusive=True)  # nobody else sees the first one yet
    for writer in (first, second):
        writer.write(b"12345", 0)
    first.store()
    with pytest.raises(Exists):
        second.store()
    first.write(b"9", 0)
    first.store()
    for writer in (first, second):
        writer.close()
    with pytest.raises(Exists):
        create(root, "c/0/1", exclusive=True)
    assert content_of(root, "c/0/1") == b"92345"


def test_writing_what_is_not_there(view: Any) -> None:
    root = view(ARRAY)
    for path in ("c/0/0", "a/zarr.json", "README"):
        for truncate in (False, True):
            with pytest.raises(NotFound):
                open_to_write(root, path, truncate=truncate)
        with pytest.raises(NotFound):
            remove(root, path)


def test_a_folder_under_the_name_of_a_chunk(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "c/0/0/inside": b"x"})
    with pytest.raises(IsAFolder):
        create(root, "c/0/0")
    with pytest.raises(IsAFolder):
        remove(root, "c/0/0")
    put(root, "c/0/tmp", b"12345")
    with pytest.raises(IsAFolder):
        rename(root, "c/0/tmp", "c/0/0")
    assert stored() == {"c/0/0/inside": b"x", "c/0/tmp": b"12345"}


def test_what_else_lies_in_the_folder_of_a_chunk_stays(view: Any, stored: Any) -> None:
    document = array((4,), transformers=[concat_parts("/data.tiff")])
    root = view({"zarr.json": document, "c/0/data.tiff": b"x", "c/0/other": b"y"})
    remove(root, "c/0")
    assert stored() == {"c/0/other": b"y"}
    assert folder_at(root, "c").lookup("0").kind is Kind.FOLDER
    put(root, "c/0", b"again")
    assert stored() == {"c/0/data.tiff": b"again", "c/0/other": b"y"}


# -- hidden names


def test_a_part_by_its_own_name_cannot_be_written(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK, "other": b"12345"})
    before = stored()
    refused: list[Callable[[str], object]] = [
        lambda name: create(root, f"c/0/{name}"),
        lambda name: open_to_write(root, f"c/0/{name}"),
        lambda name: rename(root, "other", f"c/0/{name}"),
        lambda name: rename(root, "c/0/0", f"c/0/{name}"),
        lambda name: rename(root, "c/0", f"c/0/{name}"),
        lambda name: link(root, "other", f"c/0/{name}"),
        lambda name: folder_at(root, "c/0").make_folder(name),
    ]
    for call in refused:
        for name in ("0.head", "1.tail"):
            with pytest.raises(NotSupported, match=rf"^c/0/{name} is a part of the chunk c/0/"):
                call(name)
    for call in (
        lambda: remove(root, "c/0/0.head"),
        lambda: rename(root, "c/0/0.head", "c/0/x"),
        lambda: link(root, "c/0/0.head", "c/0/x"),
        lambda: folder_at(root, "c/0").change("0.head", Change(mtime_ns=MTIME_NS)),
    ):
        with pytest.raises(NotFound):
            call()
    assert stored() == before


def test_a_hidden_file_under_the_key_of_a_chunk_is_no_obstacle(view: Any, stored: Any) -> None:
    document = array((4,), transformers=[concat_parts((".a", 1), ".b")])
    root = view({"zarr.json": document, "c/0": b"stale"})
    assert names_in(root, "c") == set()
    put(root, "c/0", b"123")
    assert stored() == {"c/0": b"stale", "c/0.a": b"1", "c/0.b": b"23"}
    remove(root, "c/0")
    assert stored() == {"c/0": b"stale"}
    with pytest.raises(NotFound):
        remove(root, "c/0")
    with pytest.raises(NotEmpty):
        root.remove_folder("c")


# -- nodes that must not be loaded


def test_below_a_node_that_must_not_be_loaded_only_documents_are_written(
    view: Any, stored: Any
) -> None:
    root = view({"a/zarr.json": BROKEN, "a/c/0/0": b"x", "a/other": b"y", "tmp": b"z"})
    before = stored()
    refused: list[Callable[[], object]] = [
        lambda: create(root, "a/c/0/1"),
        lambda: create(root, "a/README"),
        lambda: open_to_write(root, "a/other"),
        lambda: open_to_write(root, "a/c/0/0", truncate=True),
        lambda: remove(root, "a/c/0/0"),
        lambda: rename(root, "tmp", "a/c/0/1"),
        lambda: rename(root, "a/other", "other"),
        lambda: link(root, "tmp", "a/tmp"),
        lambda: link(root, "a/other", "tmp2"),
        lambda: folder_at(root, "a").make_folder("d"),
    ]
    for call in refused:
        with pytest.raises(NotSupported, match=r"^a/zarr.json: codecs"):
            call()
    assert stored() == before
    put(root, "a/zarr.json", array())
    assert content_of(root, "a/c/0/0") == b"x"
    put(root, "a/c/0/1", b"new")
    put(root, "a/zarr.json", BROKEN)
    with pytest.raises(NotSupported):
        create(root, "a/c/1/1")
    remove(root, "a/zarr.json")
    put(root, "a/c/0/2", b"of no array")
    assert rename(root, "a", "b")


def test_below_a_group_that_must_not_be_loaded_files_are_written(view: Any, stored: Any) -> None:
    root = view({"zarr.json": group(wrong=1)})
    put(root, "README", b"x")
    assert stored() == {"README": b"x"}


# -- documents


def test_a_document_is_stored_whole_and_verbatim(view: Any, tmp_path: Path) -> None:
    root = view({"a/zarr.json": array()})
    writer = open_to_write(root, "a/zarr.json")
    assert not writer.is_live
    writer.truncate(0)
    writer.write(b"{ not JSON", 0)
    assert content_of(root, "a/zarr.json") == array()
    writer.store()
    writer.close()
    assert (tmp_path / "store/a/zarr.json").read_bytes() == b"{ not JSON"
    assert "error" in folder_at(root, "a").facts(None).to_json()


def test_a_document_is_seen_at_once(view: Any, tmp_path: Path) -> None:
    root = view({"zarr.json": group(), "a/zarr.json": array((1, 4))})
    chunks = folder_at(root, "a/c/0")  # which knows its nodes by now
    chunks.create("0").close()
    for length in (2, 3, 4, 5, 6, 7, 8, 9) * 3:
        put(root, "a/zarr.json", array((length, 4)))
        # As long as before, and, as if the clock had stood still, as old.
        os.utime(tmp_path / "store/a/zarr.json", ns=(MTIME_NS, MTIME_NS))
        loaded = folder_at(root, "a").loaded()
        assert loaded is not None
        assert isinstance(loaded.node, ArrayNode)
        assert loaded.node.shape == (length, 4)
        facts = chunks.parent.parent.loaded()
        assert facts is not None
        assert isinstance(facts.node, ArrayNode)
        assert facts.node.shape == (length, 4)


def test_what_is_a_chunk_changes_with_the_document(view: Any, stored: Any) -> None:
    root = view({})
    root.make_folder("a")
    folder = root.child("a")
    with closing(create(folder, "0.0")) as ordinary:
        assert ordinary.is_live
    put(root, "a/zarr.json", array(keys=v2_keys(), transformers=HEAD_AND_TAIL))
    put(root, "a/0.0", b"abCDxyz")
    writer = open_to_write(root, "a/0.0")
    writer.write(b"!", 2)
    put(root, "a/zarr.json", array(keys=v2_keys(), transformers=[concat_parts(("", 1), ".rest")]))
    writer.store()
    writer.close()
    assert stored() == {
        "a/0.0.head": b"ab",
        "a/0.0": b"a",
        "a/0.0.tail": b"xyz",
        "a/0.0.rest": b"b!Dxyz",
    }
    remove(root, "a/zarr.json")
    assert names_in(root, "a") == {"0.0.head", "0.0", "0.0.tail", "0.0.rest"}


def test_attributes_of_zarr_v2_are_seen_at_once(view: Any) -> None:
    root = view({".zarray": v2_array(), ".zattrs": b'{"a": 1}'})
    for number in range(10):
        put(root, ".zattrs", b'{"a": %d}' % number)
        loaded = root.loaded()
        assert loaded is not None
        assert loaded.node is not None
        assert loaded.node.attributes == {"a": number}
    remove(root, ".zattrs")
    loaded = root.loaded()
    assert loaded is not None
    assert loaded.node is not None
    assert loaded.node.attributes == {}


def test_what_is_inherited_and_referred_to_is_seen_at_once(view: Any) -> None:
    def tiered(*slow: str) -> bytes:
        configuration = {"slow-arrays": slow}
        return group(
            extensions=[{"name": "example.tiered-storage", "configuration": configuration}]
        )

    parent = {"name": "example.parent-ref", "configuration": {"reference": "../other"}}
    root = view(
        {
            "zarr.json": group(),
            "a/zarr.json": array(),
            "other/zarr.json": tiered("x"),
            "b/zarr.json": array(extensions=[parent]),
        }
    )
    a, b = folder_at(root, "a"), folder_at(root, "b")
    assert (a.tier(), b.tier()) == (None, None)
    put(root, "zarr.json", tiered("a"))
    assert a.tier() == "slow"
    put(root, "other/zarr.json", tiered("../b"))
    loaded = b.loaded()
    assert loaded is not None
    assert loaded.error is not None  # the path must lead below, so the reference is refused
    put(root, "zarr.json", group())
    assert a.tier() is None


def test_documents_are_renamed_and_linked(view: Any, tmp_path: Path) -> None:
    root = view({"c/0/0": b"x"})
    put(root, "zarr.1f.partial", array())
    link(root, "zarr.1f.partial", "zarr.json")
    assert root.loaded() is not None
    with pytest.raises(Exists):
        link(root, "zarr.1f.partial", "zarr.json")
    remove(root, "zarr.1f.partial")
    with pytest.raises(NotSupported, match=r"zarr.json is a document, which has one name"):
        link(root, "zarr.json", "copy.json")
    assert rename(root, "zarr.json", "zarr.json~")
    assert root.loaded() is None
    assert rename(root, "zarr.json~", "zarr.json")
    assert root.loaded() is not None


# -- names


def test_a_file_that_gets_the_name_of_a_chunk_is_split(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    put(root, "c/0/0.3f2a.partial", b"abCDEFxyz")
    folder_at(root, "c/0").change("0.3f2a.partial", Change(mtime_ns=MTIME_NS))
    assert not rename(root, "c/0/0.3f2a.partial", "c/0/0")
    assert stored() == {"c/0/0.head": b"ab", "c/0/0": b"CDEF", "c/0/0.tail": b"xyz"}
    assert folder_at(root, "c/0").lookup("0").mtime_ns == MTIME_NS
    put(root, "c/0/tmp", b"1234")
    with pytest.raises(PartsDoNotFit, match="the root array: chunk c/0/0: a chunk of 4 bytes"):
        rename(root, "c/0/tmp", "c/0/0")
    assert content_of(root, "c/0/tmp") == b"1234"
    assert content_of(root, "c/0/0") == b"abCDEFxyz"
    put(root, "c/0/other", b"123456")
    with pytest.raises(Exists):
        rename(root, "c/0/other", "c/0/0", replace=False)
    assert not rename(root, "c/0/other", "c/0/1", replace=False)
    assert stored()["c/0/1.head"] == b"12"


def test_a_file_that_becomes_a_chunk_of_one_part_is_the_same_file(
    view: Any, tmp_path: Path
) -> None:
    root = view({"zarr.json": array(), "c/0/0": b"old"})
    put(root, "c/0/tmp", b"new")
    inode = (tmp_path / "store/c/0/tmp").stat().st_ino
    assert rename(root, "c/0/tmp", "c/0/0")
    assert (tmp_path / "store/c/0/0").stat().st_ino == inode
    assert rename(root, "c/0/0", "c/0/0")
    assert content_of(root, "c/0/0") == b"new"


def test_a_chunk_in_parts_that_gets_another_name_is_copied(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK, "b/zarr.json": array((4,)), "b/c/1": b"old"})
    folder_at(root, "c/0").change("0", Change(mtime_ns=MTIME_NS))
    assert not rename(root, "c/0/0", "saved")
    assert stored() == {"saved": b"abcdefg", "b/c/1": b"old"}
    assert root.lookup("saved").mtime_ns == MTIME_NS
    assert not rename(root, "saved", "c/0/1")
    with pytest.raises(Exists):
        rename(root, "c/0/1", "b/c/1", replace=False)
    assert not rename(root, "c/0/1", "b/c/1")
    assert stored() == {"b/c/1": b"abcdefg"}
    assert rename(root, "b/c/1", "b/c/0")
    assert not rename(root, "b/c/0", "c/0/0")
    assert stored() == CHUNK
    put(root, "b/c/0", b"1234")
    with pytest.raises(PartsDoNotFit):
        rename(root, "b/c/0", "c/0/0")
    assert stored() == {**CHUNK, "b/c/0": b"1234"}


def test_a_chunk_that_does_not_fit_another_array_stays(view: Any, stored: Any) -> None:
    other = array((4,), transformers=[concat_parts(("", 1), (".b", 1))])
    root = view({**ARRAY, **CHUNK, "b/zarr.json": other})
    with pytest.raises(PartsDoNotFit, match=r"^b: chunk c/0: a chunk of 7 bytes"):
        rename(root, "c/0/0", "b/c/0")
    assert stored() == CHUNK


def test_a_chunk_that_is_not_whole_cannot_be_copied(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "c/0/0": b"main", "c/0/0.tail": b"xyz"})
    with pytest.raises(Corrupt):
        rename(root, "c/0/0", "c/0/1")
    assert stored() == {"c/0/0": b"main", "c/0/0.tail": b"xyz"}


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_chunk_in_parts_is_renamed_without_copying(
    view: Any, stored: Any, tmp_path: Path, is_replaced: bool
) -> None:
    old = {"c/0/1.head": b"ol", "c/0/1": b"d", "c/0/1.tail": b"old"} if is_replaced else {}
    root = view({**ARRAY, **CHUNK, **old})
    inodes = [(tmp_path / "store" / key).stat().st_ino for key in CHUNK]
    assert rename(root, "c/0/0", "c/0/1")
    moved = {key.replace("0/0", "0/1"): data for key, data in CHUNK.items()}
    assert stored() == moved
    assert [(tmp_path / "store" / key).stat().st_ino for key in moved] == inodes
    assert names_in(root, "c/0") == {"1"}


def test_a_chunk_in_parts_is_not_renamed_to_one_that_must_not_be_there(
    view: Any, stored: Any
) -> None:
    root = view({**ARRAY, **CHUNK, "c/0/1.tail": b"xyz"})
    before = stored()
    with pytest.raises(Exists):
        rename(root, "c/0/0", "c/0/1", replace=False)
    assert stored() == before


def test_a_part_in_a_folder_of_its_own_is_renamed(view: Any, tmp_path: Path) -> None:
    root = view(
        {"zarr.json": array((4,), transformers=[concat_parts("/data.tiff")]), "c/0/data.tiff": b"x"}
    )
    assert rename(root, "c/0", "c/1")
    assert names_in(root, "c") == {"1"}
    assert rename(root, "c/1", "other.tiff")
    assert files(tmp_path / "store") == {"other.tiff": b"x"}
    assert names_in(root, "c") == set()


def test_ordinary_files_are_renamed_and_linked(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "a": b"1", "b": b"2"})
    with pytest.raises(Exists):
        rename(root, "a", "b", replace=False)
    assert rename(root, "a", "b")
    link(root, "b", "c2")
    with pytest.raises(Exists):
        link(root, "b", "c2")
    assert stored() == {"b": b"1", "c2": b"1"}


def test_a_link_makes_a_chunk_that_must_be_new(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "tmp": b"1234567"})
    folder_at(root, "").make_folder("c")
    root.child("c").make_folder("0")
    link(root, "tmp", "c/0/0")
    with pytest.raises(Exists):
        link(root, "tmp", "c/0/0")
    remove(root, "tmp")
    assert stored() == {"c/0/0.head": b"12", "c/0/0": b"34", "c/0/0.tail": b"567"}
    with pytest.raises(NotSupported, match="c/0/0 is a chunk, which has one name"):
        link(root, "c/0/0", "copy")
    with pytest.raises(IsAFolder):
        link(root, "c", "d")


def test_folders(view: Any, stored: Any) -> None:
    root = view({"zarr.json": group(), "g/a/zarr.json": array(transformers=HEAD_AND_TAIL)})
    put(root, "g/a/c/0/0", b"1234567")
    known = folder_at(root, "g/a/c/0")
    assert set(known.list()) == {"0"}
    with pytest.raises(NotEmpty):
        root.remove_folder("g")
    with pytest.raises(NotAFolder):
        folder_at(root, "g/a").remove_folder("zarr.json")
    root.make_folder("h")
    with pytest.raises(Exists):
        root.make_folder("h")
    with pytest.raises(Exists):
        rename(root, "g", "h", replace=False)
    assert rename(root, "g", "h")
    assert content_of(root, "h/a/c/0/0") == b"1234567"
    assert folder_at(root, "g/a").loaded() is None
    with pytest.raises(NotAFolder):
        rename(root, "h", "zarr.json")
    with pytest.raises(NotAFolder):
        rename(root, "h/a", "h/a/c/0/0")
    root.make_folder("e")
    root.make_folder("f")
    folder_at(root, "f").make_folder("in")
    with pytest.raises(NotEmpty):
        rename(root, "e", "f")
    root.change("e", Change(mtime_ns=MTIME_NS))
    assert root.lookup("e").mtime_ns == MTIME_NS
    root.remove_folder("e")
    root.sync()
    folder_at(root, "h/a/c").sync()
    assert names_in(root) == {"zarr.json", "f", "h"}


def test_a_node_that_comes_under_the_name_of_another_is_seen_at_once(
    view: Any, tmp_path: Path
) -> None:
    root = view({"a/zarr.json": array((1, 4)), "b/zarr.json": array((2, 4))})
    for folder in ("a", "b"):
        os.utime(tmp_path / "store" / folder / "zarr.json", ns=(MTIME_NS, MTIME_NS))
    a = root.child("a")
    assert a.facts(None).to_json()["shape"] == [1, 4]
    assert rename(root, "a", "old")
    assert rename(root, "b", "a")
    assert a.facts(None).to_json()["shape"] == [2, 4]


def test_between_views_nothing_is_renamed(view: Any, tmp_path: Path) -> None:
    root = view({**ARRAY, "x": b""})
    other = ChunksView(LocalStore(str(tmp_path / "store")), 0).root
    with pytest.raises(Elsewhere):
        root.rename("x", other, "y")
    with pytest.raises(Elsewhere):
        root.link("x", other, "y")


def test_an_ordinary_file_is_shared_and_live(view: Any) -> None:
    root = view({"zarr.json": array(), "README": b"12345"})
    reader = root.open("README")
    with closing(open_to_write(root, "README")) as writer:
        assert writer.is_live
        writer.write(b"678", 5)
        assert reader.size == 8
        assert read_range(reader, 0, 8) == b"12345678"
    reader.close()


def test_a_view_without_commits_cannot_be_written(tmp_path: Path) -> None:
    write_keys(tmp_path, {**ARRAY, **CHUNK, "x": b""})
    store = LocalStore(str(tmp_path))
    root = ChunksView(store, 0).root
    refused: list[Callable[[], object]] = [
        lambda: create(root, "c/0/0"),
        lambda: open_to_write(root, "x"),
        lambda: remove(root, "x"),
        lambda: rename(root, "x", "y"),
        lambda: link(root, "x", "y"),
        lambda: root.make_folder("d"),
        lambda: root.remove_folder("c"),
        lambda: root.change("x", Change(mtime_ns=0)),
    ]
    for call in refused:
        with pytest.raises(ReadOnly):
            call()
    root.sync()
    store.close()


# -- empty chunks


SKIP = ["example.skip_empty_chunks"]
EMPTY: list[tuple[str, Any, Any]] = [
    ("uint8", 0, 1),
    ("int16", -7, 0),
    ("float32", math.nan, 0.0),
    ("float64", 2.5, math.nan),
]


def encoded(
    dtype: str, fill_value: Any, value: Any, transformers: Sequence[Any]
) -> dict[str, bytes]:
    """A document and a chunk compressed with zstd, as zarr-python writes them."""
    kept: dict[str, Buffer] = {}
    made = zarr.create_array(
        MemoryStore(kept),
        shape=(8,),
        chunks=(4,),
        dtype=dtype,
        fill_value=fill_value,
        config={"write_empty_chunks": True},
    )
    made[:4] = value
    document = json.loads(kept["zarr.json"].to_bytes())
    document |= {"storage_transformers": list(transformers), "extensions": SKIP}
    return {"zarr.json": json.dumps(document).encode(), "chunk": kept["c/0"].to_bytes()}


@pytest.mark.parametrize("transformers", [[], [concat_parts(("/head", 4), "/rest")]])
def test_deleting_an_empty_chunk_is_synced_as_storing_it_is(
    tmp_path: Path, transformers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = encoded("uint8", 0, 1, transformers)
    empty = encoded("uint8", 0, 0, transformers)["chunk"]
    seen: list[str] = []
    with opened(tmp_path / "store", {"zarr.json": full["zarr.json"]}, is_fill) as root:
        put(root, "c/0", full["chunk"])
        sync_folder = WritableLocalStore.sync_folder

        def noted(store: WritableLocalStore, key: str) -> None:
            sync_folder(store, key)
            if not (tmp_path / "store/c/0").exists():
                seen.append(key)

        monkeypatch.setattr(WritableLocalStore, "sync_folder", noted)
        put(root, "c/0", empty, sync=True)
    assert [key for key in seen if not key.startswith(OWN_NAME)][-1] == "c"


@pytest.mark.parametrize("transformers", [[], [concat_parts((".head", 4), "")]])
@pytest.mark.parametrize(("dtype", "fill_value", "other"), EMPTY)
def test_a_chunk_of_fill_values_is_deleted_rather_than_stored(
    view: Any, stored: Any, dtype: str, fill_value: Any, other: Any, transformers: Any
) -> None:
    full = encoded(dtype, fill_value, other, transformers)
    empty = encoded(dtype, fill_value, fill_value, transformers)["chunk"]
    root = view({"zarr.json": full["zarr.json"]}, is_fill)
    put(root, "c/0", empty)
    assert stored() == {}
    put(root, "c/0", full["chunk"])
    assert content_of(root, "c/0") == full["chunk"]
    writer = create(root, "c/0")
    writer.write(empty, 0)
    assert writer.store()
    assert not is_there(root, "c/0")
    writer.truncate(0)
    writer.write(full["chunk"], 0)
    assert writer.store()
    writer.close()
    assert content_of(root, "c/0") == full["chunk"]
    put(root, "tmp", empty)
    with pytest.raises(Exists):
        link(root, "tmp", "c/0")
    assert not rename(root, "tmp", "c/0")
    assert stored() == {}
    put(root, "tmp", empty)
    link(root, "tmp", "c/1")
    assert stored() == {"tmp": empty}


def test_what_cannot_be_decoded_is_stored_as_it_is(view: Any, stored: Any) -> None:
    root = view({"zarr.json": encoded("uint8", 0, 0, [])["zarr.json"]}, is_fill)
    put(root, "c/0", b"no zstd")
    assert stored() == {"c/0": b"no zstd"}


def test_other_arrays_keep_their_empty_chunks(view: Any, stored: Any) -> None:
    root = view({"zarr.json": array()}, is_fill)
    put(root, "c/0/0", bytes(4))
    assert stored() == {"c/0/0": bytes(4)}


# -- at once


def test_nobody_sees_a_chunk_half_old_half_new(tmp_path: Path) -> None:
    """Two writers with stores of their own, as two processes have, a reader in the same and one that
    only reads."""
    parts = [concat_parts((".a", 10), "", (".b", 10))]
    root = tmp_path / "store"
    versions = [bytes([number]) * (30 + number) for number in range(40)]
    failures: list[BaseException] = []
    with opened(root, {"zarr.json": array((4,), transformers=parts)}) as first:
        put(first, "c/0", versions[0])
        done = threading.Event()

        def writing(view: Folder, every: int) -> None:
            for version in versions[every::2]:
                put(view, "c/0", version)

        def reading(view: Folder) -> None:
            while True:
                last = done.is_set()
                folder = folder_at(view, "c")
                assert folder.lookup("0").size in {len(version) for version in versions}
                reader = folder.open("0")
                assert read_range(reader, 0, reader.size) in versions
                reader.close()
                if last:
                    return

        def guarded(call: Callable[..., None], *arguments: Any) -> None:
            try:
                call(*arguments)
            except BaseException as error:
                failures.append(error)

        with opened(root, {}, is_last=False) as second:
            read_only = ChunksView(LocalStore(str(root)), math.inf).root
            readers = [
                threading.Thread(target=guarded, args=(reading, view))
                for view in (first, second, read_only)
            ]
            writers = [
                threading.Thread(target=guarded, args=(writing, view, every))
                for every, view in enumerate((first, second))
            ]
            for thread in (*readers, *writers):
                thread.start()
            for thread in writers:
                thread.join()
            done.set()
            for thread in readers:
                thread.join()
        assert failures == []
        assert content_of(first, "c/0") in versions[-2:]


def test_deleting_while_storing_leaves_all_or_nothing(tmp_path: Path) -> None:
    parts = [concat_parts((".a", 2), "/in/b", ("/c", 2))]
    with opened(tmp_path / "store", {"zarr.json": array((4,), transformers=parts)}) as root:
        failures: list[BaseException] = []

        def deleting() -> None:
            for _ in range(50):
                try:
                    remove(root, "c/0")
                except (NotFound, IsAFolder):
                    pass
                except BaseException as error:
                    failures.append(error)

        thread = threading.Thread(target=deleting)
        thread.start()
        for _ in range(50):
            put(root, "c/0", b"123456")
            try:
                reader = folder_at(root, "c").open("0")
            except NotFound:
                continue
            assert read_range(reader, 0, reader.size) == b"123456"
            reader.close()
        thread.join()
        assert failures == []
        assert set(files(tmp_path / "store")) in (set(), {"c/0.a", "c/0/in/b", "c/0/c"})


def test_what_zarrfuse_keeps_of_its_own_cannot_be_written(view: Any) -> None:
    root = view({"x": b"", "d/y": b""})
    refused: list[Callable[[], object]] = [
        lambda: create(root, f"{OWN_NAME}/z"),
        lambda: rename(root, "x", OWN_NAME),
        lambda: rename(root, "d", OWN_NAME),
        lambda: link(root, "x", f"{OWN_NAME}/z"),
        lambda: root.make_folder(OWN_NAME),
    ]
    for call in refused:
        with pytest.raises(Denied):
            call()


def test_a_chunk_whose_folder_leads_out_of_the_store(view: Any, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "tail").write_bytes(b"theirs")
    document = array((4,), transformers=[concat_parts("", (".d/tail", 2))])
    root = view({"zarr.json": document, "c/0": b"mine"})
    (tmp_path / "store/c/0.d").symlink_to(tmp_path / "outside")
    with pytest.raises(Denied):
        put(root, "c/0", b"12345")
    assert (tmp_path / "outside" / "tail").read_bytes() == b"theirs"
    assert (tmp_path / "store/c/0").read_bytes() == b"mine"
    remove(root, "c/0")
    assert (tmp_path / "outside" / "tail").read_bytes() == b"theirs"


def test_a_full_disk_leaves_the_old_chunk(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    writer = create(root, "c/0/0")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        with pytest.raises(OSError, match="too large") as raised:
            writer.write(bytes(10_000), 0)
        assert errno_of(raised.value) == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    writer.close()
    assert stored() == CHUNK


# -- any layout


SUFFIXES = ["", ".a", ".b", "/in", ".d/in", ".d/also"]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[Any], int, int]:
    """Stacked transformers that can be written, and the sizes of two chunks that fit."""
    suffixes = draw(st.lists(st.sampled_from(SUFFIXES), min_size=1, max_size=4, unique=True))
    if "" in suffixes and "/in" in suffixes:
        suffixes.remove("/in")
    sizes = [draw(st.integers(0, 40)) for _ in suffixes]
    is_open = draw(st.booleans())
    at = draw(st.integers(0, len(suffixes) - 1))
    parts = [
        suffix if is_open and index == at else (suffix, size)
        for index, (suffix, size) in enumerate(zip(suffixes, sizes, strict=True))
    ]
    least = sum(part[1] for part in parts if isinstance(part, tuple))
    more = st.integers(0, 60) if is_open else st.just(0)
    return [concat_parts(*parts)], least + draw(more), least + draw(more)


@settings(max_examples=examples(60), deadline=None)
@given(layouts(), st.randoms(use_true_random=False))
def test_what_is_written_is_read_again(layout: tuple[list[Any], int, int], chance: Any) -> None:
    transformers, first, second = layout
    with tempfile.TemporaryDirectory() as base:
        document = array((4,), transformers=transformers)
        with opened(Path(base, "store"), {"zarr.json": document}) as root:
            for size in (first, second):
                data = chance.randbytes(size)
                put(root, "c/0", data)
                assert content_of(root, "c/0") == data
                parts = transformers[0]["configuration"]["parts"]
                kept = files(Path(base, "store"))
                assert b"".join(kept[f"c/0{part['key_suffix']}"] for part in parts) == data
                assert len(kept) == len(parts)
                assert names_in(root, "c") & {"0"}
            remove(root, "c/0")
            assert files(Path(base, "store")) == {}
            assert names_in(root, "c") == set()
