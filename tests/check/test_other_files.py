"""What lies in a store beside documents and chunks: links, other people's files, what fails."""

import os
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, default_keys, group, suffix_keys, v2_array
from builders.fake_stores import ForwardingStore, MemoryStore
from builders.folders import write_keys
from corpus import OTHER_RULES, STORE

from zarrfuse.check import Finding, findings
from zarrfuse.check.survey import Survey
from zarrfuse.errors import SourceError
from zarrfuse.stores.base import Store
from zarrfuse.stores.local.store import LocalStore

SYMLINKS = OTHER_RULES[1]


def told(source: Path, **options: Any) -> list[tuple[str, str, str, tuple[str, str]]]:
    return [(f.level, f.path, f.member, tuple(f.rule)) for f in findings(str(source), **options)]


def all_of(store: Store) -> list[Finding]:
    return list(Survey(store).findings(deep=True))


# -- nothing is said of


def test_the_demo_dataset_has_nothing_wrong_with_it(demo: Path) -> None:
    assert told(demo, deep=True) == []


def test_files_that_belong_to_no_node_are_fine(tmp_path: Path) -> None:
    keys = {
        "README.txt": b"",
        "OME/METADATA.ome.xml": b"",
        "zarr.json": group(),
        "c/0/1": b"x",
        "a/zarr.json": array(),
        "a/thumbnail.png": b"",
        "a/notes/0/c.txt": b"",
        "a/c/0/0": b"1234",
        "b/.zarray": v2_array(),
        "b/.zattrs": b"{}",
        "b/notes/x": b"",
    }
    write_keys(tmp_path, keys)
    assert told(tmp_path, deep=True) == []


def test_zarr_v2_reserves_no_names(tmp_path: Path) -> None:
    """AnnData has groups such as `__categories`."""
    zgroup = b'{"zarr_format": 2}'
    write_keys(
        tmp_path, {".zgroup": zgroup, "__categories/.zgroup": zgroup, "__a/.zarray": v2_array()}
    )
    assert told(tmp_path, deep=True) == []


def test_empty_folders_of_chunks_are_fine(tmp_path: Path) -> None:
    """LocalStore of zarr-python leaves them behind when an array shrinks."""
    write_keys(tmp_path, {"zarr.json": array()})
    for folder in ("c/0", "c/7", "c/x/y", "0"):
        (tmp_path / folder).mkdir(parents=True)
    assert told(tmp_path) == []


@pytest.mark.parametrize(
    ("document", "keys"),
    [
        (array(keys=suffix_keys(".tiff")), ["c/0/0.tiff"]),
        (array(keys=suffix_keys(".2d/0.tiff")), ["c/0/0.2d/0.tiff", "c/1/1.2d/0.tiff"]),
        (array(keys=default_keys(".")), ["c.0.0"]),
        (array(shape=()), ["c"]),
        (array(shape=(), keys=suffix_keys("/x")), ["c/x"]),
    ],
)
def test_chunks_under_any_encoding_are_found(
    tmp_path: Path, document: bytes, keys: list[str]
) -> None:
    size = 1 if b'"shape": []' in document else 4
    write_keys(tmp_path, {"zarr.json": document, **dict.fromkeys(keys, b"1" * size)})
    survey = Survey(MemoryStore({"zarr.json": document, **dict.fromkeys(keys, b"1" * size)}))
    assert told(tmp_path) == []
    assert list(survey.findings(deep=True)) == []
    assert survey.chunks == len(keys)


@pytest.mark.parametrize(
    "parts", [[("/x", 1), ("/y/z", 3)], [".d/x", ("", 1)], [("", 2), (".x", 1), ("0/x", 1)]]
)
def test_parts_in_folders_of_their_own_are_found(tmp_path: Path, parts: Any) -> None:
    keys = {"zarr.json": array(transformers=[concat_parts(*parts)])}
    for chunk in ("c/0/0", "c/1/1"):
        left = 4
        for part in parts:
            suffix, size = (part, 3) if isinstance(part, str) else part
            keys[f"{chunk}{suffix}"] = b"1" * size
            left -= size
        assert left == 0
    write_keys(tmp_path, keys)
    assert told(tmp_path, deep=True) == []


def test_a_folder_of_more_names_than_are_sorted_is_looked_at_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarrfuse.check.walk._SORTED_NAMES", 3)
    names = {f"c/0/{n}": b"12" for n in range(9)}
    keys = {"zarr.json": array(shape=(2, 18), chunk_shape=(2, 2)), **names, "c/0/9": b"1234"}
    for n in range(9):
        keys[f"x{n}"] = b""
    write_keys(tmp_path, keys)
    assert sorted(path for _, path, _, _ in told(tmp_path)) == sorted([*names, "c/0/9"])


# -- links


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """An array with a chunk that is a link, to be made."""
    write_keys(
        tmp_path / "data", {"zarr.json": group(), "a/zarr.json": array(), "a/c/0/0": b"1234"}
    )
    (tmp_path / "outside").write_bytes(b"1234")
    return tmp_path / "data"


def test_a_link_to_a_file_inside_is_that_file(linked: Path) -> None:
    (linked / "a/c/0/1").symlink_to("0")
    assert told(linked, deep=True) == []


def test_a_chunk_that_leads_out_of_the_store_is_told_of(linked: Path) -> None:
    (linked / "a/c/0/1").symlink_to("../../../../outside")
    assert told(linked, deep=True) == [("error", "a/c/0/1", "", SYMLINKS)]


def test_a_document_that_leads_out_of_the_store_is_told_of(linked: Path) -> None:
    (linked / "b").mkdir()
    (linked / "b/zarr.json").symlink_to("../../outside")
    assert told(linked) == [("error", "b/zarr.json", "", SYMLINKS)]


def test_a_folder_that_leads_out_of_the_store_is_told_of(linked: Path) -> None:
    (linked / "b").symlink_to(linked.parent)
    assert told(linked) == [("warning", "b", "", SYMLINKS)]


@pytest.mark.parametrize("target", ["nothing", "."])
def test_a_link_to_nothing_or_to_a_folder_is_no_chunk(linked: Path, target: str) -> None:
    (linked / "a/c/0/1").symlink_to(target)
    assert told(linked, deep=True) == [("error", "a/c/0/1", "", SYMLINKS)]


# -- what fails


def test_a_folder_that_cannot_be_listed_is_told_of(tmp_path: Path) -> None:
    class Store(ForwardingStore):
        def before(self, method: str, key: str, wait: bool) -> None:
            if method == "scan" and key == "a/c/0":
                raise PermissionError(13, "no")

    keys = {"zarr.json": group(), "a/zarr.json": array(), "a/c/0/0": b"1234", "a/c/1/1": b"1"}
    [first, second] = all_of(Store(MemoryStore(keys)))
    assert (first.path, first.rule) == ("a/c/0", STORE)
    assert "PermissionError" in first.problem
    assert second.path == "a/c/1/1"


def test_a_folder_that_fails_while_it_is_listed_is_told_of() -> None:
    class Store(ForwardingStore):
        def before(self, method: str, key: str, wait: bool) -> None:
            if method == "stat" and key.startswith("a/"):
                raise OSError(5, "Input/output error")

    parts = array(transformers=[concat_parts("", ("/x", 1))])
    keys = {"zarr.json": group(), "a/zarr.json": parts, "a/c/0/0/x": b"1", "b/zarr.json": b"{}"}
    found = all_of(Store(MemoryStore(keys)))
    assert [(f.path, tuple(f.rule)) for f in found[:1]] == [("a/c/0", STORE)]
    assert found[-1].path == "b/zarr.json"


def test_a_document_that_cannot_be_read_is_told_of() -> None:
    class Store(ForwardingStore):
        def before(self, method: str, key: str, wait: bool) -> None:
            if method == "readinto" and key == "a/zarr.json":
                raise OSError(5, "Input/output error")

    keys = {"zarr.json": group(), "a/zarr.json": array(), "b/zarr.json": b"{}"}
    [first, *_] = all_of(Store(MemoryStore(keys)))
    assert (first.path, tuple(first.rule)) == ("a/zarr.json", STORE)


@pytest.mark.parametrize("when", ["open", "readinto"])
def test_a_chunk_that_cannot_be_read_is_told_of_and_others_are_read(when: str) -> None:
    class Panic(BaseException):
        """As a library in Rust raises."""

    class Store(ForwardingStore):
        def before(self, method: str, key: str, wait: bool) -> None:
            if method == when and key == "c/0/0":
                raise Panic

    document = array(codecs=["bytes", "crc32c"])
    chunks = {"c/0/0": b"12345678", "c/1/1": b"12345678"}
    [first, second] = all_of(Store(MemoryStore({"zarr.json": document, **chunks})))
    assert (first.path, tuple(first.rule)) == ("c/0/0", STORE)
    assert (second.path, second.rule.document) == ("c/1/1", "crc32c codec")


def test_a_chunk_that_changes_meanwhile_is_told_of(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": array(codecs=["bytes", "crc32c"]), "c/0/0": b"12345678"})
    survey = Survey(LocalStore(str(tmp_path)))
    assert list(survey.shallow()) == []
    real_open = LocalStore.open

    def open_shorter(self: LocalStore, key: str, *, wait: bool = True) -> Any:
        if key == "c/0/0":
            os.truncate(tmp_path / key, 3)
        return real_open(self, key, wait=wait)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "open", open_shorter)
        [finding] = survey.deep()
    assert "3 now" in finding.problem


def test_the_root_that_cannot_be_listed_is_an_exception(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        list(findings(str(tmp_path / "nothing")))


def test_names_that_are_not_text_or_move_the_cursor_stay_in_their_line(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": array()})
    (tmp_path / "c/0").mkdir(parents=True)
    for name in (b"\xff", b"\x1b[2J\n"):
        with open(os.path.join(os.fsencode(tmp_path / "c/0"), name), "wb"):
            pass
    lines = [finding.line() for finding in findings(str(tmp_path))]
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
