"""Nothing outside of a local store is changed through a symlink, and what is inside is changed there."""

import errno
import os
import threading
from contextlib import suppress

import pytest
from builders.stores import put_bytes
from local_changes import CHANGES, OUTSIDE, below, write

from zarrfuse.errors import Denied, Exists, NotFound, ZarrfuseError, errno_of
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import Kind, read
from zarrfuse.stores.local.writing import WritableLocalStore


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["secret", "new", "folder"])
def test_nothing_is_changed_through_a_symlinked_folder_that_leads_out(
    store, root, tmp_path, change, name
):
    (tmp_path / "outside/folder").mkdir()
    before = os.stat(tmp_path / "outside/secret")
    (root / "out").symlink_to("../outside")
    (root / "absolute").symlink_to(tmp_path / "outside")
    for key in (f"out/{name}", f"absolute/{name}"):
        with pytest.raises(Denied) as caught:
            CHANGES[change](store, key)
        assert errno_of(caught.value) == errno.EACCES
    assert below(tmp_path / "outside") == {"secret", "folder"}
    assert (tmp_path / "outside/secret").read_bytes() == OUTSIDE
    assert os.stat(tmp_path / "outside/secret").st_mtime_ns == before.st_mtime_ns
    assert (root / "data/a").read_bytes() == b"inside"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "key", ["..", ".", "../new", "../outside/secret", "data/../../outside/new"]
)
def test_nothing_is_changed_by_a_key_that_climbs_out(store, root, tmp_path, change, key):
    if key == "." and change in ("sync_folder", "set_mtime"):
        CHANGES[change](store, key)  # the root itself
        return
    with pytest.raises(ZarrfuseError):
        CHANGES[change](store, key)
    assert below(tmp_path / "outside") == {"secret"}
    assert (tmp_path / "outside/secret").read_bytes() == OUTSIDE
    assert below(root) == {"data", "data/a"}


def test_file_behind_a_symlink_that_leads_out_is_not_edited(store, root, tmp_path):
    (root / "out").symlink_to("../outside/secret")
    for create in (False, True):
        with pytest.raises(Denied):
            store.edit("out", create=create)
    with pytest.raises(Exists):
        store.edit("out", create=True, exclusive=True)
    with pytest.raises(Denied):
        store.change("out", Change(mtime_ns=1))
    assert (tmp_path / "outside/secret").read_bytes() == OUTSIDE


def test_symlink_that_leads_out_is_deleted_renamed_and_replaced_as_itself(store, root, tmp_path):
    (root / "out").symlink_to("../outside/secret")
    store.rename("out", "moved")
    store.link("moved", "second")
    assert (root / "moved").is_symlink()
    put_bytes(store, "moved", b"put")
    assert (root / "moved").read_bytes() == b"put"
    assert not (root / "moved").is_symlink()
    store.remove("second")
    assert below(root) == {"data", "data/a", "moved"}
    assert (tmp_path / "outside/secret").read_bytes() == OUTSIDE


@pytest.mark.parametrize("text", ["a", "none", "../data/./a", "link", "a/below", "."])
def test_symlink_that_stays_inside_is_made_as_it_was_asked_for(store, root, text):
    store.symlink("data/link", text)
    assert os.readlink(root / "data/link") == text
    assert store.readlink("data/link") == text
    assert store.stat("data/link", follow=False).kind is Kind.LINK
    with pytest.raises(Exists):
        store.symlink("data/link", text)
    with pytest.raises(NotFound):
        store.symlink("none/link", text)


@pytest.mark.parametrize(
    "text",
    ["../outside", "../none", "data/../../outside/secret", "top/../outside/secret", "/", "/none"],
)
def test_symlink_that_would_lead_out_is_not_made(store, root, text):
    (root / "data/top").symlink_to("..")
    (root / "top").symlink_to(".")
    with pytest.raises(Denied) as caught:
        store.symlink("link", text)
    assert errno_of(caught.value) == errno.EACCES
    if not os.path.isabs(text):
        with pytest.raises(Denied):
            store.symlink("data/link", f"top/{text}")
    assert below(root) == {"data", "data/a", "data/top", "top"}


def test_symlink_is_not_made_by_way_of_what_leads_out(store, root):
    (root / "absolute").symlink_to(root)  # inside, but only as a path of the machine
    with pytest.raises(Denied):
        store.symlink("link", "absolute/data/a")


def test_who_does_not_follow_changes_the_symlink_and_not_what_it_leads_to(store, root):
    (root / "link").symlink_to("data/a")
    before = (root / "data/a").stat()
    store.change("link", Change(mtime_ns=10**18, atime_ns=10**18 + 1), follow=False)
    found = (root / "link").lstat()
    assert (found.st_mtime_ns, found.st_atime_ns) == (10**18, 10**18 + 1)
    assert (root / "data/a").stat() == before


def test_symlink_to_a_file_inside_is_edited_where_it_leads(store, root):
    (root / "link").symlink_to("data/a")
    write(store, "link", b"edited")
    assert (root / "data/a").read_bytes() == b"edited"
    store.change("link", Change(mtime_ns=10**18))
    assert os.stat(root / "data/a").st_mtime_ns == 10**18
    assert (root / "link").is_symlink()


def test_names_below_a_symlinked_folder_inside_are_changed(store, root):
    (root / "link").symlink_to("data")
    store.make_folder("link/b")
    write(store, "link/b/new", b"new", create=True)
    put_bytes(store, "link/b/put", b"put")
    store.rename("link/a", "link/b/a")
    assert below(root / "data") == {"b", "b/new", "b/put", "b/a"}


def test_symlink_to_nothing_is_neither_written_nor_waited_for(store, root, tmp_path):
    (root / "dangling").symlink_to("data/none")
    (root / "out").symlink_to("../outside/none")
    for key in ("dangling", "out"):
        with pytest.raises((Exists, Denied, NotFound)):
            store.edit(key, create=True)
    assert below(tmp_path / "outside") == {"secret"}
    assert below(root) == {"data", "data/a", "dangling", "out"}


def test_fifo_is_neither_opened_nor_waited_for(store, root):
    os.mkfifo(root / "fifo")
    for options in ({}, {"write": False}, {"create": True}):
        with pytest.raises((NotFound, Exists)):
            store.edit("fifo", **options)
    put_bytes(store, "fifo", b"a file now")
    assert read(store, "fifo") == b"a file now"


def test_swapping_a_folder_for_a_symlink_out_meanwhile_gains_nothing(store, root, tmp_path):
    (root / "real").mkdir()
    os.symlink("real", root / "swapped")
    stop = threading.Event()

    def swap_links() -> None:
        while not stop.is_set():
            for target in ("real", "../outside"):
                os.symlink(target, root / "next")
                os.rename(root / "next", root / "swapped")

    thread = threading.Thread(target=swap_links)
    thread.start()
    try:
        for number in range(300):
            for change in ("put", "edit", "make_folder"):
                with suppress(Denied, NotFound):
                    CHANGES[change](store, f"swapped/{change}-{number}")
    finally:
        stop.set()
        thread.join()
    assert below(tmp_path / "outside") == {"secret"}


def test_following_symlinks_writes_where_they_lead(root, tmp_path):
    (root / "out").symlink_to("../outside")
    store = WritableLocalStore(str(root), follow_symlinks=True)
    put_bytes(store, "out/put", b"put")
    write(store, "out/secret", b"edited")
    store.close()
    assert (tmp_path / "outside/put").read_bytes() == b"put"
    assert (tmp_path / "outside/secret").read_bytes() == b"edited"
