"""The root of a store that is moved, deleted, made anew, or replaced by a symlink meanwhile."""

import errno
import os
import shutil

import pytest

from zarrfuse.errors import Denied, NotFound, errno_of
from zarrfuse.stores.base import Kind, read
from zarrfuse.stores.local import beneath
from zarrfuse.stores.local.store import LocalStore

STRANGER = 65534


@pytest.fixture(params=[True, False], ids=["openat2", "without openat2"])
def root(request, tmp_path, monkeypatch):
    """A folder `data/store` with a file, and one `outside` with others."""
    monkeypatch.setattr(beneath, "OPENAT2", request.param)
    root = tmp_path / "data/store"
    root.mkdir(parents=True)
    (root / "a").write_bytes(b"inside")
    (tmp_path / "outside/store").mkdir(parents=True)
    for folder in ("outside", "outside/store"):
        (tmp_path / folder / "a").write_bytes(b"the secret")
        (tmp_path / folder / "secret").write_bytes(b"the secret")
    return root


def assert_is_gone(store):
    """Nothing is found, and nothing is made. Of the root there is what was opened: a mount answers."""
    assert store.stat("").kind is Kind.FOLDER
    with pytest.raises(NotFound):
        store.list("")
    for ask in (store.stat, store.open, store.list, store.edit):
        for key in ("a", "secret"):
            with pytest.raises(NotFound) as caught:
                ask(key)
            assert errno_of(caught.value) == errno.ENOENT
    for change in (
        lambda: store.edit("new", create=True),
        lambda: store.put("new", 0, 0, 0),
        lambda: store.make_folder("new"),
        lambda: store.remove("a"),
        lambda: store.rename("a", "b"),
    ):
        with pytest.raises(NotFound):
            change()


def test_symlink_in_the_place_of_a_deleted_root_is_not_followed(store, root, tmp_path):
    shutil.rmtree(root)
    root.symlink_to(tmp_path / "outside")
    for _ in range(2):
        assert_is_gone(store)
    root.unlink()
    root.mkdir()
    (root / "a").write_bytes(b"anew")
    assert read(store, "a") == b"anew"


def test_symlink_above_a_deleted_root_is_not_followed(store, root, tmp_path):
    shutil.rmtree(root.parent)
    root.parent.symlink_to(tmp_path / "outside")
    assert read(LocalStore(str(root)), "a") == b"the secret"  # who opens it now
    assert_is_gone(store)


def test_root_that_somebody_else_made_anew_is_not_followed(store, root):
    shutil.rmtree(root)
    root.mkdir()
    (root / "a").write_bytes(b"theirs")
    os.chown(root, STRANGER, STRANGER)
    assert_is_gone(store)
    os.chown(root, os.getuid(), os.getgid())
    assert read(store, "a") == b"theirs"


def test_root_at_a_path_that_had_symlinks_is_followed_where_they_led(root, tmp_path):
    (tmp_path / "alias").symlink_to(root.parent)
    store = LocalStore(str(tmp_path / "alias/store"))
    shutil.rmtree(root)
    (tmp_path / "alias").unlink()
    (tmp_path / "alias").symlink_to(tmp_path / "outside")
    with pytest.raises(NotFound):
        store.stat("secret")
    root.mkdir()
    (root / "a").write_bytes(b"anew")
    assert read(store, "a") == b"anew"
    store.close()


@pytest.fixture
def moved(root, tmp_path):
    """Does `mv store elsewhere; ln -s outside store`, as its owner may; where it is now."""
    (root / "folder").mkdir()
    (root / "folder/a").write_bytes(b"inside")
    (root / "folder/back").symlink_to("..")
    (root / "relative").symlink_to("folder/a")
    (root / "absolute").symlink_to(root / "a")
    (root / "elsewhere").symlink_to(tmp_path / "elsewhere/folder")
    (root / "new").symlink_to("secret")  # there is none

    def move():
        root.rename(tmp_path / "elsewhere")
        root.symlink_to(tmp_path / "outside")

    return move


def test_links_of_a_root_that_was_moved_lead_nowhere_else(store, root, moved, tmp_path):
    moved()
    shown = {name: (entry.kind, entry.size, entry.denied) for name, entry in store.list("").items()}
    assert shown == {
        "a": (Kind.FILE, 6, False),
        "folder": (Kind.FOLDER, 0, False),
        "relative": (Kind.FILE, 6, False),
        "absolute": (Kind.FILE, 0, True),  # into the folder that is there now
        "elsewhere": (Kind.LINK, len(str(tmp_path / "elsewhere/folder")), False),
        "new": (Kind.LINK, len("secret"), False),
    }
    assert read(store, "relative") == b"inside"
    assert store.readlink("elsewhere") == "folder"
    assert store.readlink("folder/back") == ".."
    assert store.readlink("new") == "secret"
    for ask in (store.open, store.readlink):
        with pytest.raises(Denied):
            ask("absolute")
    with pytest.raises(NotFound):
        store.open("new")


def test_changes_of_a_root_that_was_moved_are_made_in_it(store, root, moved, tmp_path):
    moved()
    with open("/proc/self/exe", "rb") as source:
        store.put("put", source.fileno(), 0, 10)
    store.edit("edited", create=True).close()
    store.make_folder("made")
    store.rename("a", "renamed")
    now = {path.name for path in (tmp_path / "elsewhere").iterdir()}
    assert {"put", "edited", "made", "renamed", ".zarrfuse"} <= now
    assert sorted(os.listdir(tmp_path / "outside")) == ["a", "secret", "store"]
