"""Keys as long as the kernel takes a path: nothing is made that could not be found again."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.view_writing import create

from zarrfuse.errors import NameTooLong, errno_of
from zarrfuse.stores.base import Kind
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view

LONGEST = 4095


def key(size: int) -> str:
    """A key of so many bytes, whose last name has 100."""
    names, rest = divmod(size - 100, 101)
    return "/".join(["x" * 100] * names + (["y" * (rest - 1)] if rest > 1 else []) + ["z" * 100])


@pytest.fixture(params=["raw", "chunks", "plain"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Folder]:
    store = WritableLocalStore(str(tmp_path))
    commits = Commits(store)
    yield open_view(request.param, store, 0.0, commits=commits)
    commits.close()
    store.close()


def above(root: Folder, path: str) -> tuple[Folder, str]:
    """The folder of a path, made, and the last name."""
    *folders, last = path.split("/")
    for name in folders:
        if name not in root.list():
            root.make_folder(name)
        root = root.child(name)
    return root, last


@pytest.mark.parametrize("size", [LONGEST - 10, LONGEST - 9, LONGEST - 1, LONGEST])
def test_folder_of_the_longest_keys_is_one_like_any_other(root: Folder, size: int) -> None:
    path = key(size)
    assert len(path) in (size, size - 1)  # a name of no bytes is left out
    folder, name = above(root, path)
    folder.make_folder(name)
    assert folder.lookup(name).kind is Kind.FOLDER
    assert folder.child(name).list() == {}
    folder.remove_folder(name)
    assert folder.list() == {}


@pytest.mark.parametrize("size", [LONGEST + 2, LONGEST + 10])
def test_what_would_have_a_longer_key_is_not_made(root: Folder, size: int) -> None:
    folder, name = above(root, key(size))
    makes: list[Callable[[], object]] = [
        lambda: folder.make_folder(name),
        lambda: create(folder, name, exclusive=True).store(),
    ]
    for make in makes:
        with pytest.raises((NameTooLong, OSError)) as caught:
            make()
        assert errno_of(caught.value) == errno.ENAMETOOLONG
    assert folder.list() == {}


def test_store_makes_no_key_that_it_does_not_find(tmp_path: Path) -> None:
    store = WritableLocalStore(str(tmp_path))
    path = key(LONGEST + 5)
    above_, _, _ = path.rpartition("/")
    names = above_.split("/")
    for depth in range(1, len(names) + 1):
        store.make_folder("/".join(names[:depth]))
    store.edit("file", create=True).close()
    with (tmp_path / "file").open("rb") as source:
        makes: list[Callable[[], object]] = [
            lambda: store.make_folder(path),
            lambda: store.edit(path, create=True),
            lambda: store.put(path, source.fileno(), 0, 0),
            lambda: store.rename("file", path),
            lambda: store.rename(names[0], path),
            lambda: store.link("file", path),
        ]
        for make in makes:
            with pytest.raises(NameTooLong) as caught:
                make()
            assert errno_of(caught.value) == errno.ENAMETOOLONG
    assert list(store.scan(above_)) == []
    assert (tmp_path / "file").exists()
    store.close()
    assert os.listdir(tmp_path) != []
