"""Any range, any listing and any lookup of merged chunks, whatever the layout."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, default_keys, v2_keys
from builders.folders import write_keys
from builders.readers import read_clipped
from builders.views import FOREVER
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sampling import examples

from zarrfuse.errors import Corrupt, Denied, NotFound
from zarrfuse.stores.base import Kind
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.view import ChunksView

few = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """(transformers of an array of one dimension, the parts of its chunk c/0 in order)."""
    suffixes = st.lists(
        st.sampled_from(["", ".a", ".b", ".tiff", ".d/a", ".d/b", ".e/f/g", "-x", "_"]),
        min_size=1,
        max_size=24,
        unique=True,
    )
    stack = draw(
        st.one_of(
            st.lists(suffixes, min_size=1, max_size=1),
            st.just([["", ".i"], [".x", ".y", ".z"]]),
            st.just([[".i", ".j"], ["", ".x"]]),
            st.just([[f".{index}x" for index in range(20)]]),
        )
    )
    stored = [""]
    for suffixes_ in stack:
        stored = [before + suffix for before in stored for suffix in suffixes_]
    data = {suffix: draw(st.binary(max_size=30)) for suffix in stored}
    transformers = [concat_parts(*suffixes_) for suffixes_ in stack]
    if len(stack) == 1:
        transformers = [
            concat_parts(*[(s, len(data[s])) if draw(st.booleans()) else s for s in stack[0]])
        ]
    return transformers, data


@few
@given(layouts(), st.lists(st.tuples(st.integers(0, 600), st.integers(0, 600)), max_size=8))
def test_any_range_of_a_merged_file_is_that_slice_of_the_parts(
    layout: tuple[list[dict[str, Any]], dict[str, bytes]], ranges: Sequence[tuple[int, int]]
) -> None:
    transformers, parts = layout
    with tempfile.TemporaryDirectory() as folder:
        write_keys(
            Path(folder),
            {
                "zarr.json": array([4], transformers=transformers),
                **{f"c/0{suffix}": data for suffix, data in parts.items()},
            },
        )
        store = LocalStore(folder)
        chunks = ChunksView(store, FOREVER).root.child("c")
        whole = b"".join(parts.values())
        assert chunks.list()["0"].size == len(whole)
        reader = chunks.open("0")
        assert reader.size == len(whole)
        for offset, size in [(0, len(whole)), *ranges]:
            assert read_clipped(reader, offset, size) == whole[offset : offset + size]
            try:
                at_hand = read_clipped(reader, offset, size, wait=False)
            except BlockingIOError:
                continue
            assert at_hand == whole[offset : offset + size]
        reader.close()
        store.close()


NAMES = ["0", "1", "2", "01", "c", "0.i", "1.i", "2.i", "0.i.i", "0.x", "0.d", "1.d", "i", "x"]
KINDS = ["file", "folder", "link to a file", "link to a folder", "link outside", "dangling", "fifo"]
CONFIGURATIONS = [
    [concat_parts("", ".i")],
    [concat_parts(".i", ".x")],
    [concat_parts("/i", "/x")],
    [concat_parts("", ".d/i", ".d/x")],
    [concat_parts("", ".i"), concat_parts(".x", "")],
    [],
]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from(CONFIGURATIONS),
    st.sampled_from([default_keys(), v2_keys()]),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(KINDS), max_size=8),
    st.dictionaries(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["i", "x", "0"])),
        st.sampled_from(KINDS),
        max_size=6,
    ),
)
def test_what_is_listed_can_be_looked_up_and_nothing_else(
    transformers: Sequence[Mapping[str, Any]],
    keys: Mapping[str, Any],
    kinds: Mapping[str, str],
    below: Mapping[tuple[str, str], str],
) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base, "store")
        (root / "c").mkdir(parents=True)
        (root / "zarr.json").write_bytes(array([4], keys=keys, transformers=transformers))
        folder = root if keys["name"] == "v2" else root / "c"
        (root / "target.txt").write_bytes(b"target")
        (root / "elsewhere").mkdir()
        for name, kind in kinds.items():
            if not os.path.lexists(folder / name):
                make(folder / name, kind, root)
        for (name, inner), kind in below.items():
            if kinds.get(name) == "folder" and (folder / name).is_dir():
                make(folder / name / inner, kind, root)
        store = LocalStore(str(root))
        view = ChunksView(store, FOREVER).root
        shown = view if keys["name"] == "v2" else view.child("c")
        assert_agrees(shown)
        for name in kinds:
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                assert_agrees(shown.child(name))
        store.close()


def make(path: Path, kind: str, root: Path) -> None:
    if kind == "file":
        path.write_bytes(path.name.encode())
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to a file":
        path.symlink_to(root / "target.txt")
    elif kind == "link to a folder":
        path.symlink_to(root / "elsewhere")
    elif kind == "link outside":
        path.symlink_to("/etc/passwd")
    elif kind == "dangling":
        path.symlink_to("nothing")
    else:
        os.mkfifo(path)


def assert_agrees(folder: Folder) -> None:
    listed = folder.list()
    for name in {*NAMES, *listed, "zarr.json", "target.txt", "elsewhere"}:
        try:
            entry = folder.lookup(name)
        except NotFound:
            assert name not in listed, f"{name} is listed and not found"
            if folder.path == "" or name not in ("zarr.json", "target.txt", "elsewhere"):
                with pytest.raises(NotFound):
                    folder.open(name)
        else:
            assert name in listed
            assert entry == replace(listed[name], atime_ns=entry.atime_ns), name
            if entry.kind is Kind.FILE:
                with contextlib.suppress(Denied, Corrupt):
                    folder.open(name).close()


@few
@given(
    st.sampled_from(CONFIGURATIONS),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["file", "folder"]), max_size=8),
)
def test_without_waiting_the_answer_is_the_same_or_there_is_none(
    transformers: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        (root / "c").mkdir()
        (root / "zarr.json").write_bytes(array([4], transformers=transformers))
        for name, kind in kinds.items():
            make(root / "c" / name, kind, root)
        store = LocalStore(base)
        for name in NAMES:
            chunks = ChunksView(store, FOREVER).root.child("c")
            at_once = outcome(lambda chunks=chunks, name=name: chunks.lookup(name, wait=False))
            waited = outcome(lambda chunks=chunks, name=name: chunks.lookup(name))
            assert at_once in (waited, "BlockingIOError")
            warm = outcome(lambda chunks=chunks, name=name: chunks.lookup(name, wait=False))
            assert warm in (waited, "BlockingIOError")

            def opened(wait: bool, chunks: Folder = chunks, name: str = name) -> tuple[int, int]:
                reader = chunks.open(name, wait=wait)
                reader.close()
                return reader.size, reader.mtime_ns

            waited = outcome(lambda opened=opened: opened(True))
            assert outcome(lambda opened=opened: opened(False)) in (waited, "BlockingIOError")
        store.close()


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception as error:
        return type(error).__name__
