"""Members of a group who store in one folder that all of them may write, whoever of them comes first."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.commits import commits_of, store_bytes
from builders.other_users import DONE, OWNER, STRANGER, as_user, public_folder

from zarrfuse.errors import Denied
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local import own_folder

GROUP = 54321


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder that a group may write, without setgid."""
    with public_folder() as folder:
        root = folder / "data"
        root.mkdir()
        os.chown(root, OWNER, GROUP)
        root.chmod(0o775)
        yield root


@pytest.mark.parametrize("first", [0, OWNER])
def test_members_store_together_where_new_files_do_not_get_the_group_of_their_folder(
    data: Path, first: int
) -> None:
    def be_killed() -> None:
        commits_of(data).spool()

    def store() -> None:
        commits = commits_of(data)
        commits.recover()
        store_bytes(commits, "a", {"a.0": b"1", "a.1": b"2"})
        commits.close()

    assert as_user(first, be_killed, groups=[GROUP]) == DONE
    own = (data / OWN_NAME).stat()
    assert (own.st_uid, own.st_gid, own.st_mode & 0o7777) == (first, GROUP, 0o2770)
    assert as_user(STRANGER, store, groups=[GROUP]) == DONE
    assert sorted(path.name for path in data.iterdir()) == ["a.0", "a.1"]


def test_who_owns_the_folder_and_is_not_in_its_group_keeps_the_workspace_to_himself(
    data: Path,
) -> None:
    assert as_user(OWNER, lambda: commits_of(data).spool()) == DONE
    own = (data / OWN_NAME).stat()
    assert (own.st_gid, own.st_mode & 0o7777) == (OWNER, 0o700)


@pytest.mark.parametrize(("name", "group"), [("", GROUP), ("", OWNER), ("lock", GROUP)])
def test_who_comes_while_another_member_is_letting_the_group_in_waits_for_it(
    data: Path, name: str, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between `mkdir` or `open`, and `chown` and `chmod`."""
    own = data / OWN_NAME
    own.mkdir(mode=0o700)
    os.chown(own, OWNER, group)
    half_made = own / name
    if name:
        os.chown(own, OWNER, GROUP)
        own.chmod(0o2770)
        half_made.touch(mode=0o600)
        os.chown(half_made, OWNER, GROUP)
    waiting, let_in = os.pipe(), os.pipe()

    def wait(seconds: float) -> None:
        os.write(waiting[1], b"1")
        os.read(let_in[0], 1)

    def store() -> None:
        monkeypatch.setattr(own_folder.time, "sleep", wait)
        commits = commits_of(data)
        commits.recover()
        store_bytes(commits, "a", {"a.0": b"1", "a.1": b"2"})
        commits.close()

    def let_the_group_in() -> None:
        if os.read(waiting[0], 1):
            os.chown(half_made, OWNER, GROUP)
            half_made.chmod(0o660 if name else 0o2770)
            os.write(let_in[1], b"1")

    thread = threading.Thread(target=let_the_group_in)
    thread.start()
    assert as_user(STRANGER, store, groups=[GROUP]) == DONE
    for fd in (waiting[1], let_in[1], let_in[0]):
        os.close(fd)
    thread.join()
    os.close(waiting[0])
    assert sorted(path.name for path in data.iterdir()) == ["a.0", "a.1"]


def test_who_is_not_let_in_is_told_so(data: Path) -> None:
    own = data / OWN_NAME
    own.mkdir()
    os.chown(own, OWNER, GROUP)
    own.chmod(0o2770)
    (own / "lock").touch(mode=0o600)
    os.chown(own / "lock", OWNER, GROUP)

    def refused() -> None:
        with pytest.raises(Denied, match=f"{own}/lock may not be used by this user"):
            commits_of(data).spool()

    assert as_user(STRANGER, refused, groups=[GROUP]) == DONE
