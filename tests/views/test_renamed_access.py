"""A file that is renamed keeps its owner and mode, also where the rename copies it."""

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group, v2_keys
from builders.folders import owner_and_mode, write_keys
from builders.views import folder_at

from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view

OWNER, OTHER = 12345, 12346
IN_PARTS = array((4,), transformers=[concat_parts((".head", 2), "")])
DOCUMENT = array(keys=v2_keys())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableLocalStore]:
    """A folder of root's that everybody may read."""
    opened = WritableLocalStore(str(tmp_path))
    yield opened
    opened.close()
    assert not (tmp_path / OWN_NAME).exists()


@pytest.fixture
def commits(store: WritableLocalStore) -> Iterator[Commits]:
    opened = Commits(store)
    yield opened
    opened.close()


def view_of(
    name: str, commits: Commits, public: Mapping[str, bytes], private: Mapping[str, bytes]
) -> Folder:
    """A view of these files, of which some can be read by their owner alone."""
    root = Path(commits.store.root.path)  # type: ignore[attr-defined]
    write_keys(root, {**public, **private})
    for key in private:
        (root / key).chmod(0o600)
        os.chown(root / key, OWNER, OWNER)
    return open_view(name, commits.store, math.inf, commits=commits)


def move(root: Folder, old: str, new: str) -> None:
    folder, _, name = old.rpartition("/")
    to, _, new_name = new.rpartition("/")
    folder_at(root, folder).rename(name, folder_at(root, to), new_name, replace=True)


PRIVATE = (OWNER, OWNER, 0o600)


@pytest.mark.parametrize("replaced", [{}, {"c/1.head": b"xx", "c/1": b"yy"}], ids=["new", "old"])
@pytest.mark.parametrize(
    ("private", "old"),
    [({"c/0.head": b"ab", "c/0": b"cd"}, "c/0"), ({"c/tmp": b"abcd"}, "c/tmp")],
    ids=["chunk", "file"],
)
def test_what_becomes_a_chunk_in_parts_stays_private(
    private: Mapping[str, bytes],
    old: str,
    replaced: Mapping[str, bytes],
    commits: Commits,
    tmp_path: Path,
) -> None:
    root = view_of("chunks", commits, {"zarr.json": IN_PARTS, **replaced}, private)
    move(root, old, "c/1")
    assert owner_and_mode(tmp_path / "c/1.head") == PRIVATE
    assert owner_and_mode(tmp_path / "c/1") == PRIVATE


@pytest.mark.parametrize("new", ["saved", "b/c/0"])
def test_a_chunk_in_parts_that_becomes_one_file_stays_private(
    new: str, commits: Commits, tmp_path: Path
) -> None:
    public = {
        "zarr.json": group(),
        "a/zarr.json": IN_PARTS,
        "b/zarr.json": array((4,)),
        new: b"old",
    }
    private = {"a/c/0.head": b"ab", "a/c/0": b"cd"}
    move(view_of("chunks", commits, public, private), "a/c/0", new)
    assert owner_and_mode(tmp_path / new) == PRIVATE


def test_of_parts_of_several_owners_each_may_do_what_he_may_with_all(
    commits: Commits, tmp_path: Path
) -> None:
    private = {"c/0.head": b"ab", "c/0": b"cd"}
    root = view_of("chunks", commits, {"zarr.json": IN_PARTS}, private)
    os.chown(tmp_path / "c/0", OTHER, OTHER)
    (tmp_path / "c/0").chmod(0o644)
    (tmp_path / "c/0.head").chmod(0o640)
    move(root, "c/0", "saved")
    assert owner_and_mode(tmp_path / "saved") == (OWNER, OWNER, 0o440)


@pytest.mark.parametrize("new", ["a/copy.json", "b/zarr.json"])
def test_a_document_that_is_copied_stays_private(
    new: str, commits: Commits, tmp_path: Path
) -> None:
    public = {"zarr.json": group(), "b/zarr.json": array()}
    move(view_of("plain", commits, public, {"a/zarr.json": DOCUMENT}), "a/zarr.json", new)
    assert owner_and_mode(tmp_path / new) == PRIVATE


def test_a_file_that_becomes_a_document_stays_private(commits: Commits, tmp_path: Path) -> None:
    public = {"zarr.json": group(), "a/zarr.json": DOCUMENT}
    move(view_of("plain", commits, public, {"a/new": DOCUMENT}), "a/new", "a/zarr.json")
    assert owner_and_mode(tmp_path / "a/zarr.json") == PRIVATE


@pytest.mark.parametrize(
    ("private", "old"),
    [({"a/0.0": b"abcd"}, "a/c/0/0"), ({"a/tmp": b"abcd"}, "a/tmp")],
    ids=["chunk", "file"],
)
def test_what_has_a_name_without_a_file_for_a_while_stays_private(
    private: Mapping[str, bytes], old: str, commits: Commits, tmp_path: Path
) -> None:
    public = {"zarr.json": group(), "a/zarr.json": DOCUMENT, "a/0.1": b"old"}
    root = view_of("plain", commits, public, private)
    move(root, old, "a/c/0/x")
    move(root, "a/c/0/x", "a/c/0/1")
    assert owner_and_mode(tmp_path / "a/0.1") == PRIVATE
