"""Writing in the `raw` view: every file is the stored one, on both kinds of stores."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group
from builders.folders import write_keys
from builders.readers import read_range
from builders.view_writing import create, open_to_write, put
from builders.views import content_of

from zarrfuse.errors import (
    Denied,
    Elsewhere,
    Exists,
    IsAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    ReadOnly,
    errno_of,
)
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import OWN_NAME, Kind, Writer
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.raw.view import RawFolder

MTIME_NS = 1_600_000_000_000_000_000
KEYS = {
    "zarr.json": group(),
    "README.txt": b"read me",
    "a/zarr.json": array(transformers=[concat_parts("", ".index")]),
    "a/c/0/0": b"main",
    "a/c/0/0.index": b"index",
}


class WholeStore(WritableLocalStore):
    """A folder whose files are stored whole, as objects are."""

    in_place = False

    def edit(self, key: str, **options: bool) -> Writer:  # type: ignore[override]
        """Refused, as by a store of objects."""
        raise NotSupported(f"{key} can only be stored whole")


def in_place(store: Path) -> Commits:
    return Commits(WritableLocalStore(str(store)))


def of_objects(store: Path) -> Commits:
    return Commits(WholeStore(str(store)))


def stored_whole(store: Path) -> Commits:
    return Commits(WritableLocalStore(str(store)), in_place=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_keys(tmp_path / "store", KEYS)
    return tmp_path / "store"


@pytest.fixture(params=[in_place, of_objects, stored_whole])
def commits(request: pytest.FixtureRequest, folder: Path) -> Iterator[Commits]:
    commits = request.param(folder)
    yield commits
    commits.close()
    commits.store.close()


@pytest.fixture
def root(commits: Commits) -> RawFolder:
    return RawFolder(commits.store, commits=commits)


@pytest.fixture
def live(folder: Path) -> Iterator[RawFolder]:
    """The root of a view in which files are changed in place."""
    commits = in_place(folder)
    yield RawFolder(commits.store, commits=commits)
    commits.close()
    commits.store.close()


@pytest.fixture(params=[of_objects, stored_whole])
def copying(request: pytest.FixtureRequest, folder: Path) -> Iterator[RawFolder]:
    """The root of a view in which files are stored whole."""
    commits = request.param(folder)
    yield RawFolder(commits.store, commits=commits)
    commits.close()
    commits.store.close()


# --- all stores


def test_new_file_is_stored_byte_for_byte(root, folder):
    put(root.child("a").child("c"), "1", b"not split, whatever the array says")
    assert (folder / "a/c/1").read_bytes() == b"not split, whatever the array says"
    assert root.child("a").child("c").lookup("1").size == 34


def test_documents_and_parts_are_files_like_others(root, folder):
    put(root, "zarr.json", b"{")
    put(root.child("a").child("c").child("0"), "0.index", b"longer than before")
    assert (folder / "zarr.json").read_bytes() == b"{"
    assert (folder / "a/c/0/0.index").read_bytes() == b"longer than before"
    assert (folder / "a/c/0/0").read_bytes() == b"main"


def test_creating_empties_a_file_that_is_there(root, folder):
    put(root, "README.txt", b"x")
    assert (folder / "README.txt").read_bytes() == b"x"


def test_empty_file_is_stored(root, folder):
    writer = create(root, "empty")
    writer.store()
    writer.close()
    assert (folder / "empty").read_bytes() == b""


def test_exclusive_creation_refuses_a_file_that_is_there(root, folder):
    with pytest.raises(Exists) as caught:
        root.create("README.txt", exclusive=True)
    assert errno_of(caught.value) == errno.EEXIST
    put(root, "new", b"new", exclusive=True)
    assert (folder / "README.txt").read_bytes() == b"read me"
    assert (folder / "new").read_bytes() == b"new"


def test_file_is_changed_at_any_offset(root, folder):
    writer = open_to_write(root, "README.txt")
    assert read_range(writer, 0, writer.size) == b"read me"
    writer.write(b"R", 0)
    writer.write(b"!", 9)
    assert writer.size == 10
    assert read_range(writer, 0, 10) == b"Read me\0\0!"
    writer.truncate(4)
    writer.truncate(6)
    writer.store(sync=True)
    writer.close()
    assert (folder / "README.txt").read_bytes() == b"Read\0\0"


def test_file_is_opened_empty_if_asked_so(root, folder):
    writer = open_to_write(root, "README.txt", truncate=True)
    assert writer.size == 0
    writer.store()
    writer.close()
    assert (folder / "README.txt").read_bytes() == b""


def test_what_is_not_there_or_a_folder_is_not_written(root):
    with pytest.raises(NotFound):
        root.write("none")
    with pytest.raises((Exists, IsAFolder)):
        root.create("a")
    with pytest.raises(IsAFolder):
        root.write("a")


def test_time_of_a_writer_is_stored(root, folder):
    writer = create(root, "new")
    writer.write(b"new", 0)
    writer.change(Change(MTIME_NS))
    assert writer.mtime_ns == MTIME_NS
    writer.store()
    writer.close()
    assert (folder / "new").stat().st_mtime_ns == MTIME_NS


def test_files_and_folders_are_renamed_linked_and_removed(root, folder):
    a = root.child("a")
    assert root.rename("README.txt", a, "moved")
    with pytest.raises(Exists):
        a.rename("moved", root, "zarr.json", replace=False)
    a.link("moved", root, "second")
    with pytest.raises(Exists):
        a.link("moved", root, "zarr.json")
    a.remove("moved")
    assert (folder / "second").read_bytes() == b"read me"
    assert not (folder / "a/moved").exists()
    root.make_folder("new")
    with pytest.raises(Exists):
        root.make_folder("new")
    root.rename("second", root.child("new"), "file")
    with pytest.raises(NotEmpty):
        root.remove_folder("new")
    root.child("new").change("file", Change(mtime_ns=MTIME_NS))
    assert root.child("new").lookup("file").mtime_ns == MTIME_NS
    root.child("new").sync()
    root.child("new").remove("file")
    root.remove_folder("new")
    assert set(root.list()) == {"zarr.json", "a"}


def test_own_folder_is_neither_listed_nor_written(root, folder):
    put(root, "new", b"new")
    (folder / OWN_NAME).mkdir(exist_ok=True)
    assert OWN_NAME not in root.list()
    own = root.child(OWN_NAME)
    for refused in (
        lambda: root.create(OWN_NAME),
        lambda: own.create("x"),
        lambda: own.write("x"),
        lambda: root.make_folder(OWN_NAME),
        lambda: root.remove_folder(OWN_NAME),
        lambda: root.rename(OWN_NAME, root, "mine"),
        lambda: root.rename("new", own, "x"),
        lambda: root.link("new", own, "x"),
        lambda: own.remove("lock"),
        lambda: root.change(OWN_NAME, Change(mtime_ns=1)),
    ):
        with pytest.raises(Denied):
            refused()


def test_other_views_are_elsewhere(root, tmp_path):
    (tmp_path / "other").mkdir()
    store = WritableLocalStore(str(tmp_path / "other"))
    other = RawFolder(store, commits=Commits(store))
    with pytest.raises(Elsewhere) as caught:
        root.rename("README.txt", other, "README.txt")
    assert errno_of(caught.value) == errno.EXDEV
    with pytest.raises(Elsewhere):
        root.link("README.txt", other, "README.txt")
    store.close()


def test_view_without_commits_is_read_only(folder):
    store = WritableLocalStore(str(folder))
    root = RawFolder(store)
    for refused in (
        lambda: root.create("x"),
        lambda: root.write("README.txt"),
        lambda: root.remove("README.txt"),
        lambda: root.rename("README.txt", root, "x"),
        lambda: root.link("README.txt", root, "x"),
        lambda: root.make_folder("x"),
        lambda: root.remove_folder("a"),
        lambda: root.change("README.txt", Change(mtime_ns=1)),
        lambda: root.child("a").create("x"),
    ):
        with pytest.raises(ReadOnly):
            refused()
    root.sync()
    assert content_of(root, "README.txt") == b"read me"
    store.close()


# --- in place


def test_file_that_is_written_in_place_is_shared_and_live(live, folder):
    writer, reader = open_to_write(live, "README.txt"), live.open("README.txt")
    assert (writer.is_live, writer.changed) == (True, False)
    assert reader.is_live
    writer.write(b", please", 7)
    assert not writer.changed
    assert reader.size == 15
    assert read_range(reader, 0, 15) == b"read me, please"
    assert (folder / "README.txt").read_bytes() == b"read me, please"
    assert not writer.store()
    writer.close()
    reader.close()


def test_file_made_in_place_is_there_at_once(live):
    writer = create(live, "new", exclusive=True)
    assert live.lookup("new").size == 0
    with pytest.raises(Exists):
        live.create("new", exclusive=True)
    writer.close()


def test_reading_opens_files_only(live):
    with pytest.raises(NotFound):
        live.open("a")
    with pytest.raises(NotFound):
        live.open("none")


# --- stored whole


def test_file_that_is_stored_whole_is_as_before_until_then(copying):
    writer, reader = open_to_write(copying, "README.txt"), copying.open("README.txt")
    assert (writer.is_live, writer.changed) == (False, False)
    writer.write(b"READ", 0)
    assert writer.changed
    assert content_of(copying, "README.txt") == b"read me"
    assert writer.store()
    assert not writer.changed
    assert content_of(copying, "README.txt") == b"READ me"
    assert read_range(reader, 0, 7) == b"read me"
    writer.close()
    reader.close()


def test_new_file_that_is_stored_whole_is_there_once_it_is_stored(copying):
    writer = create(copying, "new")
    with pytest.raises(NotFound):
        copying.lookup("new")
    writer.write(b"new", 0)
    writer.store()
    assert copying.lookup("new").kind is Kind.FILE
    writer.close()


def test_of_two_exclusive_makers_the_first_to_store_has_made_it(copying):
    first, second = (create(copying, "new", exclusive=True) for _ in range(2))
    first.write(b"first", 0)
    second.write(b"second", 0)
    first.store()
    with pytest.raises(Exists):
        second.store()
    first.write(b"F", 0)
    first.store()
    assert content_of(copying, "new") == b"First"
    first.close()
    second.close()


def test_file_that_is_not_stored_is_lost(copying):
    writer = create(copying, "new")
    writer.write(b"new", 0)
    writer.close()
    with pytest.raises(NotFound):
        copying.lookup("new")
