"""What only folders have: symlinks, special files, permissions, and things that change under a mount."""

import errno
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import zarrfuse
from zarrfuse.errors import Denied, NotFound, SourceError, ZarrfuseError, errno_of
from zarrfuse.stores.base import Kind, opened, read
from zarrfuse.stores.local.store import LocalStore

INSIDE = b"inside the store"
OUTSIDE = b"outside the store"


@pytest.fixture
def root(tmp_path):
    """A store's folder with a file `data/v1/a`, and a folder `outside` next to it."""
    root = tmp_path / "store"
    (root / "data/v1").mkdir(parents=True)
    (root / "data/v1/a").write_bytes(INSIDE)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(OUTSIDE)
    return root


@pytest.fixture
def store(root):
    store = LocalStore(str(root))
    yield store
    store.close()


@pytest.fixture
def following(root):
    store = LocalStore(str(root), follow_symlinks=True)
    yield store
    store.close()


def entry_of(store, key):
    """The entry, which listing and stat must agree on, but for the access that they are."""
    folder, _, name = key.rpartition("/")
    entry = store.stat(key)
    assert replace(store.list(folder)[name], atime_ns=entry.atime_ns) == entry
    return entry


def assert_is_not_there(store, key):
    folder, _, name = key.rpartition("/")
    assert name not in store.list(folder)
    for ask in (store.stat, store.open):
        with pytest.raises(NotFound):
            ask(key)


def assert_is_denied(store, key):
    entry = entry_of(store, key)
    assert entry.denied
    assert entry.size == 0
    with pytest.raises(Denied) as caught:
        store.open(key)
    assert errno_of(caught.value) == errno.EACCES


# --- the source


def test_source_that_is_missing_or_a_file_is_refused_by_name(root):
    with pytest.raises(SourceError, match="none does not exist"):
        LocalStore(str(root / "none"))
    with pytest.raises(SourceError, match="a is not a folder"):
        LocalStore(str(root / "data/v1/a"))


def test_root_may_itself_be_a_symlink(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    (root / "absolute").symlink_to(tmp_path / "alias/data/v1/a")
    store = LocalStore(str(tmp_path / "alias"))
    assert read(store, "data/v1/a") == INSIDE
    assert read(store, "absolute") == INSIDE
    store.close()


# --- symlinks inside


@pytest.mark.parametrize("target", ["data/v1/a", "./data/../data/v1/a"])
def test_symlink_to_a_file_inside_is_that_file(store, root, target):
    (root / "link").symlink_to(target)
    entry = entry_of(store, "link")
    assert (entry.kind, entry.size, entry.denied) == (Kind.FILE, len(INSIDE), False)
    assert entry.mtime_ns == store.stat("data/v1/a").mtime_ns
    assert read(store, "link") == INSIDE


def test_symlink_to_a_file_inside_is_a_link_for_who_does_not_follow(store, root):
    for name, text, told in (
        ("link", "data/v1/a", "data/v1/a"),
        ("data/v1/up", ".././../data/v1/a", ".././../data/v1/a"),
        ("data/absolute", str(root / "data/v1/a"), "v1/a"),
        ("data/around", f"../../{root.name}/data/v1/a", "v1/a"),
    ):
        (root / name).symlink_to(text)
        folder, _, last = name.rpartition("/")
        entry = store.stat(name, follow=False)
        assert (entry.kind, entry.denied) == (Kind.LINK, False)
        assert entry.identity == (root / name).lstat().st_ino
        listed = {each.name: each for each in store.scan(folder, follow=False)}
        assert replace(listed[last], atime_ns=entry.atime_ns) == entry
        assert store.readlink(name) == told


def test_symlink_up_and_down_inside_reads(store, root):
    (root / "data/v1/up").symlink_to("../../data/v1/a")
    assert entry_of(store, "data/v1/up").kind is Kind.FILE
    assert read(store, "data/v1/up") == INSIDE


def test_symlink_to_a_folder_inside_is_a_relative_link(store, root):
    (root / "current").symlink_to("data/v1")
    (root / "data/back").symlink_to("..")
    (root / "data/itself").symlink_to(".")
    for key, target in {"current": "data/v1", "data/back": "..", "data/itself": "."}.items():
        assert entry_of(store, key).kind is Kind.LINK
        text = store.readlink(key)
        assert not os.path.isabs(text)
        assert os.path.normpath(text) == target


def test_absolute_symlinks_inside_work(store, root):
    (root / "data/file").symlink_to(root / "data/v1/a")
    (root / "data/folder").symlink_to(root / "data/v1")
    (root / "data/top").symlink_to(root)
    assert entry_of(store, "data/file").kind is Kind.FILE
    assert read(store, "data/file") == INSIDE
    assert entry_of(store, "data/folder").kind is Kind.LINK
    assert store.readlink("data/folder") == "v1"
    assert store.readlink("data/top") == ".."


def test_keys_through_a_symlinked_folder_read(store, root):
    (root / "relative").symlink_to("data/v1")
    (root / "absolute").symlink_to(root / "data/v1")
    for folder in ("relative", "absolute"):
        assert read(store, f"{folder}/a") == INSIDE
        assert set(store.list(folder)) == {"a"}
        assert store.stat(f"{folder}/a").size == len(INSIDE)


@pytest.mark.parametrize("absolute", [False, True])
def test_symlink_found_through_a_symlinked_folder_is_what_its_listing_says(store, root, absolute):
    (root / "data/v1/sub").mkdir()
    (root / "data/v1/link").symlink_to("sub")
    (root / "through").symlink_to(root / "data/v1" if absolute else "data/v1")
    assert entry_of(store, "through/link").kind is Kind.LINK


def test_chain_of_symlinks_inside_reads(store, root):
    (root / "one").symlink_to("data/two")
    (root / "data/two").symlink_to(root / "three")
    (root / "three").symlink_to("data/v1/a")
    for key in ("one", "data/two", "three"):
        assert entry_of(store, key).kind is Kind.FILE
        assert read(store, key) == INSIDE


def test_dangling_relative_symlink_inside_is_a_link(store, root):
    (root / "data/dangling").symlink_to("../not/there")
    entry = entry_of(store, "data/dangling")
    assert (entry.kind, entry.denied) == (Kind.LINK, False)
    assert store.readlink("data/dangling") == "../not/there"
    with pytest.raises(NotFound):
        store.open("data/dangling")


def test_symlinks_in_a_circle_are_shown_and_end(store, root):
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert entry_of(store, "a").kind is Kind.LINK
    with pytest.raises(OSError) as caught:
        store.open("a")
    assert errno_of(caught.value) == errno.ELOOP


def test_readlink_never_leads_out(store, root, tmp_path):
    (root / "out").symlink_to("../outside")
    with pytest.raises(Denied):
        store.readlink("out")


# --- symlinks that lead out


@pytest.mark.parametrize("absolute", [False, True])
def test_symlink_to_a_file_outside_is_shown_and_denied(store, root, tmp_path, absolute):
    (root / "out").symlink_to(tmp_path / "outside/secret" if absolute else "../outside/secret")
    assert_is_denied(store, "out")


@pytest.mark.parametrize("absolute", [False, True])
def test_symlink_to_a_folder_outside_is_shown_and_denied(store, root, tmp_path, absolute):
    (root / "out").symlink_to(tmp_path / "outside" if absolute else "../outside")
    entry = entry_of(store, "out")
    assert entry.denied
    for ask in (store.open, store.list):
        with pytest.raises(Denied):
            ask("out")
    for ask in (store.stat, store.open):
        with pytest.raises(Denied):
            ask("out/secret")


def test_nothing_is_told_of_what_a_symlink_outside_leads_to(store, root, tmp_path):
    os.mkfifo(tmp_path / "outside/fifo")
    for name in ("outside", "outside/secret", "outside/fifo", "outside/nothing"):
        (root / name.replace("/", "-")).symlink_to(tmp_path / name)
    shown = {(entry.kind, entry.size, entry.denied) for entry in store.list("").values()}
    assert shown == {(Kind.FOLDER, 0, False), (Kind.FILE, 0, True)}
    assert len(store.list("")) == 5


def test_a_file_that_a_symlink_outside_leads_to_is_not_the_one_that_was_opened(
    store, root, tmp_path
):
    with opened(store, "data/v1/a") as reader:
        assert store.is_still("data/v1/a", reader)
        (root / "data/v1/a").rename(tmp_path / "outside/a")
        (root / "data/v1/a").symlink_to(tmp_path / "outside/a")
        assert not store.is_still("data/v1/a", reader)


def test_what_is_not_at_hand_is_not_compared_without_waiting(store, root):
    (root / "link").symlink_to(root / "data/v1/a")  # which has to be followed step by step
    with opened(store, "link") as reader:
        assert store.is_still("link", reader)
        with pytest.raises(BlockingIOError):
            store.is_still("link", reader, wait=False)


def test_chain_that_ends_outside_is_denied(store, root, tmp_path):
    (root / "one").symlink_to("two")
    (root / "two").symlink_to(tmp_path / "outside/secret")
    assert_is_denied(store, "one")
    assert_is_denied(store, "two")


def test_sibling_folder_with_the_root_s_name_in_front_is_outside(store, root, tmp_path):
    (tmp_path / "store-2").mkdir()
    (tmp_path / "store-2/secret").write_bytes(OUTSIDE)
    (root / "out").symlink_to(tmp_path / "store-2/secret")
    assert_is_denied(store, "out")


@pytest.mark.parametrize("target", ["/not/there", "../not/there", "data/../../not/there"])
def test_dangling_symlink_that_leads_out_is_denied(store, root, target):
    (root / "out").symlink_to(target)
    entry = entry_of(store, "out")
    assert entry.denied
    assert entry.kind is Kind.FILE


def test_dangling_symlink_that_climbs_behind_another_symlink_is_denied(store, root):
    (root / "data/v1/top").symlink_to("../..")  # the root; the text of `out` alone stays inside
    (root / "data/v1/out").symlink_to("top/../not-there")
    assert entry_of(store, "data/v1/out").denied


def test_magic_link_of_proc_is_denied(store, root):
    (root / "out").symlink_to("/proc/self/root")
    (root / "fd").symlink_to("/proc/self/cwd")
    for key in ("out", "fd"):
        assert entry_of(store, key).denied
        with pytest.raises(Denied):
            store.open(f"{key}/etc/passwd")


def test_way_that_is_too_long_to_be_walked_is_no_way_inside(store, root):
    folder = root / ("long" * 50)
    folder.mkdir()
    (folder / "up").symlink_to("..")
    (folder / "out").symlink_to("./" * 2000 + "up/../secret")  # not too long for who follows it
    assert store.stat(f"{folder.name}/out", follow=False).denied


def test_who_does_not_follow_is_denied_what_leads_out(store, root, tmp_path):
    (root / "out").symlink_to(tmp_path / "outside/secret")
    (root / "data/out").symlink_to("../../outside/none")
    for key in ("out", "data/out"):
        assert store.stat(key, follow=False).denied


def test_symlinks_outside_are_followed_when_asked_by_all(following, root, tmp_path):
    (root / "file").symlink_to(tmp_path / "outside/secret")
    (root / "inside").symlink_to("data/v1/a")
    assert following.stat("file", follow=False).size == len(OUTSIDE)
    assert following.stat("inside", follow=False).kind is Kind.LINK


def test_symlinks_outside_are_followed_when_asked(following, root, tmp_path):
    (root / "file").symlink_to(tmp_path / "outside/secret")
    (root / "folder").symlink_to("../outside")
    entry = entry_of(following, "file")
    assert (entry.kind, entry.size, entry.denied) == (Kind.FILE, len(OUTSIDE), False)
    assert read(following, "file") == OUTSIDE
    entry = entry_of(following, "folder")
    assert (entry.kind, entry.denied) == (Kind.FOLDER, False)
    assert set(following.list("folder")) == {"secret"}
    assert read(following, "folder/secret") == OUTSIDE


def test_without_waiting_nothing_leads_out_either(store, root, tmp_path):
    (root / "out").symlink_to(tmp_path / "outside/secret")
    with pytest.raises((BlockingIOError, Denied)):
        store.open("out", wait=False)
    with pytest.raises((BlockingIOError, Denied, NotFound)):
        store.open("../outside/secret", wait=False)


# --- changes between two calls


def test_folder_swapped_for_a_symlink_after_listing_does_not_leak(store, root, tmp_path):
    (root / "data/v1/secret").write_bytes(INSIDE)
    assert "secret" in store.list("data/v1")
    shutil.rmtree(root / "data/v1")
    (root / "data/v1").symlink_to(tmp_path / "outside")
    for _ in range(2):
        with pytest.raises(ZarrfuseError):
            store.open("data/v1/secret")
        with pytest.raises(ZarrfuseError):
            store.list("data/v1")
        with pytest.raises((ZarrfuseError, BlockingIOError)):
            store.open("data/v1/secret", wait=False)


def test_file_swapped_for_a_symlink_after_listing_does_not_leak(store, root, tmp_path):
    assert not store.stat("data/v1/a").denied
    (root / "data/v1/a").unlink()
    (root / "data/v1/a").symlink_to(tmp_path / "outside/secret")
    assert_is_denied(store, "data/v1/a")


@pytest.mark.timeout(20)
def test_file_swapped_for_a_fifo_after_listing_does_not_hang(store, root):
    assert "a" in store.list("data/v1")
    (root / "data/v1/a").unlink()
    os.mkfifo(root / "data/v1/a")
    for wait in (True, False):
        with pytest.raises((NotFound, BlockingIOError)):
            store.open("data/v1/a", wait=wait)


def test_open_file_replaced_by_a_folder_reads_on(store, root):
    with opened(store, "data/v1/a") as reader:
        (root / "data/v1/a").unlink()
        (root / "data/v1/a").mkdir()
        buffer = bytearray(reader.size)
        reader.readinto(memoryview(buffer), 0)
        assert buffer == INSIDE
    with pytest.raises(NotFound):
        store.open("data/v1/a")


def test_new_changed_and_deleted_files_are_seen(store, root):
    assert set(store.list("")) == {"data"}
    (root / "new").write_bytes(b"1")
    assert store.stat("new").size == 1
    (root / "new").write_bytes(b"12345")
    assert store.list("")["new"].size == 5
    (root / "new").unlink()
    assert_is_not_there(store, "new")
    assert not store.permanent


@pytest.mark.parametrize("first", ["a key", "a new key", "the root"])
def test_root_that_is_deleted_and_made_anew_is_followed(store, root, first):
    (root / "old").write_bytes(b"old")
    assert store.stat("old").size == 3
    shutil.rmtree(root)
    with pytest.raises(NotFound):
        store.stat("old")
    root.mkdir()
    (root / "new").write_bytes(b"newer")
    if first == "the root":
        assert set(store.list("")) == {"new"}
    elif first == "a key":
        with pytest.raises(NotFound):
            store.stat("old")
    assert store.stat("new").size == 5
    assert set(store.list("")) == {"new"}
    assert store.stat("").mtime_ns == root.stat().st_mtime_ns


def test_root_that_is_moved_is_still_read(store, root, tmp_path):
    (root / "kept").write_bytes(b"kept")
    root.rename(tmp_path / "moved")
    assert store.stat("kept").size == 4


def test_symlink_that_goes_while_it_is_listed_is_left_out(store, root, monkeypatch):
    (root / "data/dangling").symlink_to("nowhere")
    real = store._open

    def lose_and_open(key, flags, **options):
        if key == "data/dangling":
            (root / key).unlink(missing_ok=True)
        return real(key, flags, **options)

    monkeypatch.setattr(store, "_open", lose_and_open)
    assert set(store.list("data")) == {"v1"}


# --- what is no file


@pytest.mark.timeout(20)
def test_fifo_is_not_there_and_opening_it_does_not_hang(store, root):
    os.mkfifo(root / "fifo")
    assert_is_not_there(store, "fifo")


@pytest.mark.timeout(20)
def test_symlink_to_a_fifo_is_not_there(store, root):
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to("fifo")
    assert_is_not_there(store, "link")


def test_socket_is_not_there(store, root, monkeypatch):
    monkeypatch.chdir(root)  # the path of a socket may have 108 bytes
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        assert_is_not_there(store, "socket")


def test_device_is_not_there(store, root):
    try:
        os.mknod(root / "null", 0o600 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices can be made by root alone")
    assert_is_not_there(store, "null")


def test_symlink_to_a_device_is_no_way_to_it(store, root):
    (root / "null").symlink_to("/dev/null")
    with pytest.raises((NotFound, Denied)):
        store.open("null")


# --- permissions


AS_ANOTHER_USER = """
import os, sys
from zarrfuse.errors import errno_of
from zarrfuse.stores.local.store import LocalStore
store = LocalStore(sys.argv[1])
os.setegid(65534)
os.seteuid(65534)
for ask in (store.open, store.list):
    key = sys.argv[2] if ask == store.open else sys.argv[3]
    try:
        ask(key)
    except Exception as error:
        print(type(error).__name__, errno_of(error))
    else:
        print("no error")
try:
    store.stat(sys.argv[3] + "/x")
except Exception as error:
    print(type(error).__name__, errno_of(error))
print(store.stat(sys.argv[2]).size)
"""


def test_what_the_user_may_not_read_is_denied(root):
    if os.geteuid() != 0:
        pytest.skip("another user can be tried by root alone")
    (root / "private").write_bytes(b"12345")
    (root / "private").chmod(0o600)
    (root / "closed").mkdir(mode=0o700)
    (root / "closed/x").write_bytes(b"")
    root.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER, str(root), "private", "closed"],
        cwd=Path(zarrfuse.__path__[0]).parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    denied = f"Denied {errno.EACCES}"
    assert done.stdout.splitlines() == [denied, denied, denied, "5"]


# --- names


def test_names_up_to_255_bytes(store, root):
    for name in ("n" * 255, "é" * 127, "\n\t\x7f *?\"'", "-rf", os.fsdecode(b"\xff\xfe" * 100)):
        (root / name).write_bytes(name.encode(errors="surrogateescape"))
        assert entry_of(store, name).kind is Kind.FILE
        assert read(store, name) == name.encode(errors="surrogateescape")


@pytest.mark.parametrize("key", ["n" * 256, "é" * 128, "data/" + "n" * 256, "x/" * 2100 + "x"])
def test_too_long_name_says_so(store, key):
    for ask in (store.stat, store.open):
        with pytest.raises((OSError, ZarrfuseError)) as caught:
            ask(key)
        assert errno_of(caught.value) == errno.ENAMETOOLONG


@pytest.mark.parametrize("ask", ["stat", "open"])
def test_file_in_the_middle_of_a_key_is_not_found(store, root, ask):
    (root / "link").symlink_to("data/v1/a")
    for key in ("data/v1/a/0", "data/v1/a/0/1", "link/0"):
        with pytest.raises(NotFound) as caught:
            getattr(store, ask)(key)
        assert errno_of(caught.value) == errno.ENOENT


# --- where the kernel lacks openat2


def test_symlinks_and_denials_are_the_same_without_openat2(root, tmp_path, monkeypatch):
    from zarrfuse.stores.local import beneath

    monkeypatch.setattr(beneath, "OPENAT2", False)
    (root / "link").symlink_to("data/v1/a")
    (root / "absolute").symlink_to(root / "data/v1/a")
    (root / "out").symlink_to("../outside/secret")
    (root / "folder").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "fifo")
    store = LocalStore(str(root))
    for key in ("data/v1/a", "link", "absolute"):
        assert read(store, key) == INSIDE
        with pytest.raises(BlockingIOError):
            store.open(key, wait=False)
    for key in ("out", "folder/secret", "../outside/secret"):
        with pytest.raises((Denied, NotFound)):
            store.open(key)
    assert entry_of(store, "out").denied
    assert_is_not_there(store, "fifo")
    assert set(store.list("data")) == {"v1"}
    store.close()
