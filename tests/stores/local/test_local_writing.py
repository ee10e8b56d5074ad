"""What only folders have when they are written: modes, users, other file systems, roots made anew."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from builders.stores import put_bytes
from local_changes import CHANGES, below, write

import zarrfuse
from zarrfuse.errors import (
    Elsewhere,
    Exists,
    Invalid,
    NotFound,
    NotSupported,
    SourceError,
    errno_of,
)
from zarrfuse.stores.base import OWN_NAME, Kind, read
from zarrfuse.stores.local import new_file
from zarrfuse.stores.local import writing as local_writing
from zarrfuse.stores.local.file import LocalFile
from zarrfuse.stores.local.writing import WritableLocalStore


@pytest.fixture
def umask():
    """Sets the umask of this process for the test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


# -- folders that are looked up once


def test_folder_that_is_made_anew_meanwhile_is_found_again(store, root):
    with store.same_folders():
        write(store, "data/b", b"before", create=True)
        shutil.rmtree(root / "data")
        (root / "data").mkdir()
        with pytest.raises(NotFound):
            store.rename("data/b", "data/c")
        write(store, "data/b", b"after", create=True)
        store.sync_folder("data")
    assert (root / "data/b").read_bytes() == b"after"


def test_folders_are_looked_up_once_in_a_block_of_one_thread(store, root, monkeypatch):
    looked_up: list[str] = []
    open_ = store._open
    monkeypatch.setattr(
        store._folders, "_open", lambda key, *flags: (looked_up.append(key), open_(key, *flags))[1]
    )
    before = os.listdir("/proc/self/fd")
    with store.same_folders():
        for name in ("a", "b", "c"):
            store.rename(f"data/{name}", f"data/{chr(ord(name) + 1)}")
            with store.same_folders():  # as part of something larger
                store.sync_folder("data")
        other = threading.Thread(target=store.rename, args=("data/d", "data/e"))
        other.start()
        other.join()
    assert looked_up == ["data"] * 4  # to change, and to sync; the other thread, twice
    assert os.listdir("/proc/self/fd") == before
    assert (root / "data/e").read_bytes() == b"inside"


def test_no_more_folders_are_kept_open_than_a_process_can_spare(store, root):
    for number in range(100):
        (root / f"data/{number}").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with store.same_folders():
        for number in range(100):
            store.make_folder(f"data/{number}/made")
            store.remove_folder(f"data/{number}/made")
        assert len(os.listdir("/proc/self/fd")) < before + 50
    assert len(os.listdir("/proc/self/fd")) == before


# -- modes and users


@pytest.mark.parametrize(("mask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_new_files_and_folders_have_the_modes_that_the_umask_leaves(
    store, root, umask, mask, file, folder
):
    umask(mask)
    store.edit("edited", create=True).close()
    put_bytes(store, "put", b"")
    store.make_folder("folder")
    modes = {
        name: stat.S_IMODE((root / name).stat().st_mode) for name in ("edited", "put", "folder")
    }
    assert modes == {"edited": file, "put": file, "folder": folder}


def test_file_that_is_replaced_hands_its_mode_on(store, root, umask):
    umask(0o022)
    (root / "data/a").chmod(0o640)
    put_bytes(store, "data/a", b"put")
    assert stat.S_IMODE((root / "data/a").stat().st_mode) == 0o640
    store.make_folder(f"{OWN_NAME}/w")
    part = f"{OWN_NAME}/w/part"
    put_bytes(store, part, b"part")
    assert stat.S_IMODE((root / part).stat().st_mode) == 0o600
    store.dress(part, "data/a")
    store.remove("data/a")  # as when parts are moved
    store.rename(part, "data/a")
    assert stat.S_IMODE((root / "data/a").stat().st_mode) == 0o640
    write(store, "other", b"", create=True)
    store.rename("other", "data/a")  # a program's own rename is its own affair
    assert stat.S_IMODE((root / "data/a").stat().st_mode) == 0o644


AS_NOBODY = """
import os, sys
from zarrfuse.errors import errno_of
from zarrfuse.stores.access import Change
from zarrfuse.stores.local.writing import WritableLocalStore
store = WritableLocalStore(sys.argv[1])
source = os.open("/proc/self/exe", os.O_RDONLY)
os.setegid(65534)
os.seteuid(65534)
for change in (
    lambda: store.edit("data/a"),
    lambda: store.edit("data/new", create=True),
    lambda: store.put("data/a", source, 0, 1),
    lambda: store.remove("data/a"),
    lambda: store.rename("data/a", "data/b"),
    lambda: store.link("data/a", "data/b"),
    lambda: store.make_folder("data/folder"),
    lambda: store.change("data/a", Change(mtime_ns=1)),
):
    try:
        change()
    except Exception as error:
        print(type(error).__name__, errno_of(error))
    else:
        print("changed")
"""


def test_what_the_user_may_not_write_is_denied(root):
    if os.geteuid() != 0:
        pytest.skip("another user can be tried by root alone")
    root.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(root)],
        cwd=Path(zarrfuse.__path__[0]).parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"Denied {errno.EACCES}"] * 8
    assert below(root) == {"data", "data/a"}


# -- what the file system cannot do


@pytest.fixture
def without_renameat2(monkeypatch):
    monkeypatch.setattr(local_writing, "_renameat2", None)


def test_rename_that_must_not_replace_works_without_the_system_call(store, root, without_renameat2):
    store.rename("data/a", "data/b", replace=False)
    assert below(root) == {"data", "data/b"}
    write(store, "c", b"c", create=True)
    with pytest.raises(Exists):
        store.rename("c", "data/b", replace=False)
    with pytest.raises(Exists):
        store.rename("c", "data", replace=False)
    with pytest.raises(NotFound):
        store.rename("none", "new", replace=False)
    assert read(store, "data/b") == b"inside"
    assert read(store, "c") == b"c"


def test_folder_is_renamed_to_a_new_name_without_the_system_call(store, root, without_renameat2):
    store.make_folder("empty")
    with pytest.raises(Exists):
        store.rename("data", "empty", replace=False)
    with pytest.raises(Invalid):
        store.rename("data", "data/in", replace=False)
    store.rename("data", "empty/data", replace=False)
    assert below(root) == {"empty", "empty/data", "empty/data/a"}


def test_bytes_are_copied_where_the_kernel_does_not(store, tmp_path, monkeypatch):
    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, "no")

    monkeypatch.setattr(local_writing.os, "copy_file_range", refuse)
    monkeypatch.setattr(new_file, "_COPIED_AT_ONCE", 1_000)
    data = os.urandom(12_345)
    put_bytes(store, "key", data)
    assert read(store, "key") == data


def test_bytes_are_copied_to_the_end_when_each_call_does_some(store, monkeypatch):
    copy, write_at, read_at = os.copy_file_range, os.pwrite, os.pread
    monkeypatch.setattr(
        local_writing.os,
        "copy_file_range",
        lambda source, target, count, at, to: (
            copy(source, target, min(count, 700), at, to) if at < 5_000 else 0
        ),
    )
    monkeypatch.setattr(
        local_writing.os, "pread", lambda fd, count, at: read_at(fd, min(count, 900), at)
    )
    monkeypatch.setattr(
        local_writing.os, "pwrite", lambda fd, data, at: write_at(fd, data[:800], at)
    )
    data = os.urandom(12_345)
    put_bytes(store, "key", data)
    assert read(store, "key") == data


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG])
@pytest.mark.parametrize("call", ["copy_file_range", "fsync", "rename"])
def test_disk_that_fails_a_put_leaves_the_old_bytes_and_nothing_else(
    store, root, monkeypatch, code, call
):
    def fail(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(local_writing.os, call, fail)
        with pytest.raises(OSError) as caught:
            put_bytes(store, "data/a", b"new bytes")
    assert errno_of(caught.value) == code
    assert read(store, "data/a") == b"inside"
    assert list((root / OWN_NAME).iterdir()) == []


def test_file_that_takes_no_more_bytes_says_so(tmp_path, monkeypatch):
    file = LocalFile(os.open(tmp_path / "full", os.O_RDWR | os.O_CREAT), "full")
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError) as caught:
        file.write(b"data", 0)
    assert caught.value.errno == errno.ENOSPC
    file.close()


def test_file_is_written_to_the_end_when_each_call_writes_some(tmp_path, monkeypatch):
    file = LocalFile(os.open(tmp_path / "some", os.O_RDWR | os.O_CREAT), "some")
    write_at = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write_at(fd, data[:3], at))
    file.write(b"0123456789", 5)
    file.close()
    assert (tmp_path / "some").read_bytes() == bytes(5) + b"0123456789"


def test_folder_that_cannot_be_synced_is_passed_over_and_one_that_fails_is_not(store, monkeypatch):
    codes = [errno.EINVAL, errno.EIO]

    def fail(_: int) -> None:
        code = codes.pop(0)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(local_writing.os, "fsync", fail)
    store.sync_folder("data")
    with pytest.raises(OSError) as caught:
        store.sync_folder("data")
    assert caught.value.errno == errno.EIO


def test_file_system_that_has_no_second_names_says_so(store, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(local_writing.os, "link", fail)
    with pytest.raises(NotSupported):
        store.link("data/a", "data/b")


@pytest.fixture
def other_file_system(root):
    """A folder of the store that lies on another file system than the rest of it."""
    shared = Path("/dev/shm")
    if shared.stat().st_dev == root.stat().st_dev:
        pytest.fail("/dev/shm and the folder of the tests lie on one file system")
    folder = shared / f"zarrfuse-test-{os.getpid()}"
    folder.mkdir()
    (root / "other").symlink_to(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def following(root):
    store = WritableLocalStore(str(root), follow_symlinks=True)
    yield store
    store.close()


def test_put_onto_another_file_system_is_whole_and_leaves_nothing_else(
    following, other_file_system
):
    for data in (b"first", b"second"):
        put_bytes(following, "other/key", data)
        assert read(following, "other/key") == data
    with pytest.raises(Exists):
        put_bytes(following, "other/key", b"third", new=True)
    put_bytes(following, "other/new", b"new", new=True)
    assert below(other_file_system) == {"key", "new"}


@pytest.mark.parametrize("replace", [True, False])
def test_own_file_is_moved_onto_another_file_system_and_a_programs_is_not(
    following, root, other_file_system, replace
):
    (root / OWN_NAME).mkdir()
    put_bytes(following, f"{OWN_NAME}/spool", b"bytes")
    os.utime(root / OWN_NAME / "spool", ns=(10**18, 10**18))
    following.rename(f"{OWN_NAME}/spool", "other/key", replace=replace)
    assert (other_file_system / "key").read_bytes() == b"bytes"
    assert (other_file_system / "key").stat().st_mtime_ns == 10**18
    assert not (root / OWN_NAME / "spool").exists()
    assert below(other_file_system) == {"key"}
    with pytest.raises(Elsewhere) as caught:
        following.rename("data/a", "other/a", replace=replace)
    assert errno_of(caught.value) == errno.EXDEV


# -- the root


def test_source_that_is_missing_or_a_file_is_refused(root):
    for source in ("none", "data/a"):
        with pytest.raises(SourceError):
            WritableLocalStore(str(root / source))


def test_root_that_was_deleted_and_made_anew_is_followed(store, root):
    store.edit("before", create=True).close()
    shutil.rmtree(root)
    root.mkdir()
    store.edit("edited", create=True).close()
    put_bytes(store, "put", b"put")
    store.make_folder("folder")
    store.rename("put", "folder/put")
    assert below(root) == {"edited", "folder", "folder/put"}
    shutil.rmtree(root)
    root.mkdir()
    put_bytes(store, "put", b"put")
    assert below(root) == {"put"}


def test_root_that_was_deleted_takes_nothing(store, root):
    shutil.rmtree(root)
    for change in ("edit", "put", "make_folder"):
        with pytest.raises(NotFound):
            CHANGES[change](store, "new")


# -- the folder of our own


@pytest.mark.parametrize("deleted_before", ["open", "create"])
def test_own_folder_that_another_process_deletes_meanwhile_is_made_again(
    store, root, monkeypatch, deleted_before
):
    deleted = []

    def delete() -> None:
        if len(deleted) < 3:
            deleted.append(OWN_NAME)
            os.rmdir(root / OWN_NAME)

    def opened(path: bytes, flags: int) -> int:
        if deleted_before == "open":
            delete()
        return open_(path, flags)

    def created(folder: int, name: str, flags: int) -> int:
        if deleted_before == "create":
            delete()
        return create(folder, name, flags)

    open_, create = store.own.open, local_writing.new_file
    monkeypatch.setattr(store.own, "open", opened)
    monkeypatch.setattr(local_writing, "new_file", created)
    put_bytes(store, "key", b"bytes")
    assert len(deleted) == 3
    assert read(store, "key") == b"bytes"


def test_own_folder_is_hidden_at_the_root_only(store, root):
    (root / OWN_NAME).mkdir()
    (root / "data" / OWN_NAME).mkdir()
    assert set(store.list("")) == {"data"}
    assert store.list("data")[OWN_NAME].kind is Kind.FOLDER


def test_readers_tell_their_descriptors(store, root):
    reader, file = store.open("data/a"), store.edit("data/a", write=False)
    assert os.pread(reader.fileno(), 6, 0) == os.pread(file.fileno(), 6, 0) == b"inside"
    reader.close()
    file.close()
