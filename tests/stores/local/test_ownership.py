"""Whose a file is after root, or somebody else, has stored it anew."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.folders import owner_and_mode

from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.spool import Target

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

OWNER, GROUP, OTHER = 12345, 12346, 12347
ACL, DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that belongs to somebody, with a file that is shared by a group."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o640)
    for path in (tmp_path, tmp_path / "file"):
        os.chown(path, OWNER, GROUP)
    return tmp_path


@pytest.fixture
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A file with the bytes to be stored."""
    path = tmp_path_factory.mktemp("source") / "bytes"
    path.write_bytes(b"newbytes")
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def acl(*entries: tuple[int, int, int]) -> bytes:
    """An ACL as the kernel has it: pairs of tag, permissions and id."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def put(store: WritableLocalStore, key: str, source: int) -> None:
    store.put(key, source, 0, 3)


def renamed(store: WritableLocalStore, key: str, source: int) -> None:
    """By a temporary file, as chunks are stored."""
    if not os.path.isdir(f"{store.root.path}/{OWN_NAME}/w"):
        for folder in (OWN_NAME, f"{OWN_NAME}/w"):
            os.mkdir(f"{store.root.path}/{folder}", 0o700)
    store.put(f"{OWN_NAME}/w/0", source, 0, 3)
    store.dress(f"{OWN_NAME}/w/0", key)
    store.rename(f"{OWN_NAME}/w/0", key)


def committed(store: WritableLocalStore, key: str, source: int) -> None:
    commits = Commits(store)
    spool = commits.spool()
    os.write(spool.fd, b"new")
    commits.store_spool(key, [Target(key, 0, 3)], spool)
    spool.close()
    commits.close()


def committed_in_parts(store: WritableLocalStore, key: str, source: int) -> None:
    commits = Commits(store)
    spool = commits.spool()
    os.write(spool.fd, b"newbytes")
    commits.store_spool(key, [Target(key, 0, 3), Target(f"{key}.b", 3, 8)], spool)
    spool.close()
    commits.close()


WAYS = [put, renamed, committed, committed_in_parts]


@pytest.mark.parametrize("way", WAYS)
def test_file_that_is_replaced_hands_its_owner_group_and_mode_on(store, root, source, way):
    way(store, "file", source)
    assert (root / "file").read_bytes() == b"new"
    assert owner_and_mode(root / "file") == (OWNER, GROUP, 0o640)


@pytest.mark.parametrize("way", WAYS)
def test_new_file_belongs_to_who_owns_its_folder(store, root, source, way):
    before = os.umask(0o027)
    try:
        way(store, "new", source)
    finally:
        os.umask(before)
    assert owner_and_mode(root / "new") == (OWNER, GROUP, 0o640)


def test_file_and_folder_that_are_made_belong_to_who_owns_the_folder_above(store, root):
    store.edit("made", create=True).close()
    store.make_folder("folder")
    store.make_folder("folder/below")
    for name in ("made", "folder", "folder/below"):
        assert owner_and_mode(root / name)[:2] == (OWNER, GROUP)


def test_file_that_is_there_keeps_its_owner_when_it_is_edited_linked_or_moved(store, root):
    store.edit("file", create=True).close()
    store.link("file", "second")
    store.change("file", Change(mtime_ns=1))
    store.rename("second", "third")
    assert owner_and_mode(root / "file") == owner_and_mode(root / "third") == (OWNER, GROUP, 0o640)


def test_setuid_is_not_handed_on_to_other_bytes(store, root, source):
    os.chown(root / "file", 0, 0)
    (root / "file").chmod(0o6755)
    put(store, "file", source)
    assert owner_and_mode(root / "file") == (0, 0, 0o755)


def test_symlink_is_replaced_and_what_it_leads_to_is_left_alone(store, root, source):
    outside = root / "outside"
    outside.write_bytes(b"outside")
    outside.chmod(0o600)
    (root / "link").symlink_to("outside")
    renamed(store, "link", source)
    assert owner_and_mode(root / "link")[:2] == (OWNER, GROUP)
    assert owner_and_mode(outside) == (0, 0, 0o600)


def test_file_that_was_linked_in_the_place_of_another_keeps_what_it_has(store, root):
    (root / "source").write_bytes(b"source")
    (root / "source").chmod(0o600)
    commits = Commits(store)
    commits.store_file("file", [Target("file", 0, 6)], "source", keep=True)
    commits.close()
    assert owner_and_mode(root / "source") == owner_and_mode(root / "file") == (0, 0, 0o600)


def test_acl_of_a_file_that_is_replaced_is_handed_on(store, root, source):
    given = acl((1, 6, 2**32 - 1), (2, 4, OTHER), (4, 0, 2**32 - 1), (16, 4, 2**32 - 1))
    given += struct.pack("<HHI", 32, 0, 2**32 - 1)
    try:
        os.setxattr(root / "file", ACL, given)
    except OSError:
        pytest.skip("this file system has no ACLs")
    renamed(store, "file", source)
    assert os.getxattr(root / "file", ACL) == given
    assert owner_and_mode(root / "file") == (OWNER, GROUP, 0o640)


def test_new_file_has_the_default_acl_of_its_folder(store, root, source):
    everybody = 2**32 - 1
    default = acl((1, 7, everybody), (2, 7, OTHER), (4, 5, everybody), (16, 7, everybody))
    default += struct.pack("<HHI", 32, 0, everybody)
    (root / "folder").mkdir()
    try:
        os.setxattr(root / "folder", DEFAULT_ACL, default)
    except OSError:
        pytest.skip("this file system has no ACLs")
    (root / "folder/by_kernel").touch(0o666)
    renamed(store, "folder/new", source)
    assert os.getxattr(root / "folder/new", ACL) == os.getxattr(root / "folder/by_kernel", ACL)
    assert owner_and_mode(root / "folder/new")[2] == owner_and_mode(root / "folder/by_kernel")[2]


AS_SOMEBODY = f"""
import os, sys
from zarrfuse.stores.local.writing import WritableLocalStore
store = WritableLocalStore(sys.argv[1])
source = os.open("/proc/self/exe", os.O_RDONLY)
os.setgroups([{GROUP}])
os.setegid({OTHER})
os.seteuid({OTHER})
for name in ("file", "foreign", "new"):
    store.put("shared/" + name, source, 0, 1)
"""


def test_who_is_not_root_keeps_the_group_if_it_is_one_of_theirs_else_gives_it_no_more(root):
    root.chmod(0o1777)
    shared = root / "shared"
    shared.mkdir()
    os.chown(shared, OWNER, GROUP)
    shared.chmod(0o2777)
    (root / "file").rename(shared / "file")
    (shared / "foreign").write_bytes(b"foreign")
    os.chown(shared / "foreign", OWNER, OWNER)
    (shared / "foreign").chmod(0o664)
    subprocess.run([sys.executable, "-c", AS_SOMEBODY, root], check=True, umask=0o027)
    assert owner_and_mode(shared / "file") == (OTHER, GROUP, 0o640)
    assert owner_and_mode(shared / "foreign") == (OTHER, OTHER, 0o644)
    assert owner_and_mode(shared / "new") == (OTHER, GROUP, 0o640)  # setgid


def test_file_and_folder_have_the_mode_and_owner_that_they_are_given(store, root):
    store.edit("made", create=True, given=Access(0o4751, OTHER, GROUP)).close()
    store.make_folder("folder", Access(0o1773, OTHER, GROUP))
    assert owner_and_mode(root / "made") == (OTHER, GROUP, 0o4751)
    assert owner_and_mode(root / "folder") == (OTHER, GROUP, 0o1773)


def test_symlink_belongs_to_who_it_is_given(store, root):
    store.symlink("link", "file", Access(0o777, OTHER, GROUP))
    assert owner_and_mode(root / "link") == (OTHER, GROUP, 0o777)
    assert owner_and_mode(root / "file") == (OWNER, GROUP, 0o640)
    store.change("link", Change(uid=OWNER), follow=False)
    assert owner_and_mode(root / "link") == (OWNER, GROUP, 0o777)


def test_default_acl_counts_in_the_place_of_the_umask(store, root):
    everybody = 2**32 - 1
    default = acl((1, 7, everybody), (2, 7, OTHER), (4, 5, everybody), (16, 7, everybody))
    default += struct.pack("<HHI", 32, 0, everybody)
    try:
        os.setxattr(root, DEFAULT_ACL, default)
    except OSError:
        pytest.skip("this file system has no ACLs")
    (root / "by_kernel").touch(0o666)
    for name, mode in (("shared", 0o644), ("private", 0o600)):
        store.edit(name, create=True, given=Access(mode, OWNER, GROUP)).close()
    assert os.getxattr(root / "shared", ACL) == os.getxattr(root / "by_kernel", ACL)
    assert owner_and_mode(root / "shared") == (OWNER, GROUP, 0o660)
    assert owner_and_mode(root / "private") == (OWNER, GROUP, 0o600)  # the mask of its ACL


AS_SOMEBODY_FOR_OTHERS = f"""
import os, sys
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.local.writing import WritableLocalStore
os.chmod(sys.argv[1], 0o1777)
store = WritableLocalStore(sys.argv[1])
os.setgroups([])
os.setegid({OTHER})
os.seteuid({OTHER})
store.edit("made", create=True, given=Access(0o6775, {OWNER}, {GROUP})).close()
store.make_folder("folder", Access(0o2770, {OWNER}, {GROUP}))
"""


def test_who_is_not_root_gives_others_no_setuid_file_of_their_own(root):
    subprocess.run([sys.executable, "-c", AS_SOMEBODY_FOR_OTHERS, root], check=True)
    assert owner_and_mode(root / "made") == (OTHER, OTHER, 0o755)
    assert owner_and_mode(root / "folder") == (OTHER, OTHER, 0o700)
