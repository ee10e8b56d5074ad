"""Which files and folders count as those of the user alone: every step of the path, as sshd has it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.other_users import OWNER, STRANGER, public_folder

from zarrfuse.errors import SourceDenied, SourceError
from zarrfuse.stores.trust import check_trusted, fault_of

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in the sticky folder of temporary files."""
    with public_folder() as folder:
        (folder / "a/b").mkdir(parents=True)
        (folder / "a/b/file").write_bytes(b"")
        yield folder


def faults(path: Path) -> str | None:
    return fault_of(str(path))


def test_what_is_of_the_user_or_of_root_is_trusted(folder: Path) -> None:
    assert faults(folder / "a/b") is None
    assert faults(folder / "a/b/file") is None
    assert faults(Path("/")) is None
    assert faults(Path("/usr/bin/env")) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o775, 0o702, 0o720])
@pytest.mark.parametrize("name", ["a", "a/b", "a/b/file"])
def test_what_others_or_the_group_may_write_is_not(folder: Path, name: str, mode: int) -> None:
    (folder / name).chmod(mode)
    assert faults(folder / "a/b/file") == f"{folder}/{name} can be written by others"


def test_names_in_a_sticky_folder_are_trusted_and_the_folder_is_not(folder: Path) -> None:
    (folder / "a").chmod(0o1777)
    assert faults(folder / "a/b/file") is None
    assert faults(folder / "a") == f"{folder}/a can be written by others"
    assert fault_of(str(folder / "a"), may_be_sticky=True) is None


def test_a_sticky_file_is_as_any_other(folder: Path) -> None:
    (folder / "a/b/file").chmod(0o1666)
    assert fault_of(str(folder / "a/b/file"), may_be_sticky=True) is not None


@only_root
@pytest.mark.parametrize("name", ["a", "a/b", "a/b/file"])
def test_what_belongs_to_another_user_is_not(folder: Path, name: str) -> None:
    os.chown(folder / name, OWNER, OWNER)
    (folder / name).chmod(0o700)
    assert faults(folder / "a/b/file") == f"{folder}/{name} belongs to another user"


class TestSymlinks:
    def test_both_the_way_to_it_and_its_target_are_checked(self, folder: Path) -> None:
        (folder / "link").symlink_to("a/b")
        assert faults(folder / "link/file") is None
        (folder / "a").chmod(0o777)
        assert faults(folder / "link/file") == f"{folder}/a can be written by others"

    def test_one_in_a_folder_of_others_is_not_trusted(self, folder: Path) -> None:
        (folder / "theirs").mkdir()
        (folder / "theirs/link").symlink_to(folder / "a/b")
        (folder / "theirs").chmod(0o777)
        assert faults(folder / "theirs/link") == f"{folder}/theirs can be written by others"

    @only_root
    def test_one_of_another_user_in_a_sticky_folder_is_not_trusted(self, folder: Path) -> None:
        (folder / "all").mkdir()
        (folder / "all").chmod(0o1777)
        (folder / "all/link").symlink_to(folder / "a/b")
        os.chown(folder / "all/link", STRANGER, STRANGER, follow_symlinks=False)
        assert faults(folder / "all/link/file") == f"{folder}/all/link belongs to another user"

    @pytest.mark.parametrize("target", [".", "../all", "/{}/all/"])
    def test_one_to_a_sticky_folder_is_that_folder(self, folder: Path, target: str) -> None:
        (folder / "all").mkdir()
        (folder / "all/link").symlink_to(target.format(str(folder)[1:]))
        (folder / "all").chmod(0o1777)
        assert faults(folder / "all/link") == f"{folder}/all can be written by others"

    def test_one_that_leads_to_itself_or_nowhere_is_none(self, folder: Path) -> None:
        (folder / "loop").symlink_to("loop")
        (folder / "nowhere").symlink_to("nothing")
        for name in ("loop", "nowhere"):
            with pytest.raises(OSError, match=name if name == "loop" else "nothing"):
                faults(folder / name)


def test_the_sentence_names_the_path_and_the_reason(folder: Path) -> None:
    with pytest.raises(SourceError, match=f"the log {folder}/no: No such file or directory"):
        check_trusted(str(folder / "no"), "log")
    (folder / "a").chmod(0o777)
    said = f"the log {folder}/a/b is not trusted, because {folder}/a can be written by others"
    with pytest.raises(SourceDenied, match=said):
        check_trusted(str(folder / "a/b"), "log")
