"""Mounts of ordinary users, by the set-uid fusermount3. `test_promises` has what others can do there."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.documents import group
from builders.folders import write_keys
from builders.mounts import clear
from builders.other_users import STRANGER, as_stranger, public_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a store of the stranger, and an empty mountpoint of theirs."""
    with public_folder() as folder:
        for name in ("store", "mnt"):
            (folder / name).mkdir()
            os.chown(folder / name, STRANGER, STRANGER)
        write_keys(folder / "store", {"zarr.json": group(), "public": b"x"})
        for path in (folder / "store").iterdir():
            os.chown(path, STRANGER, STRANGER)
        yield folder
        clear(folder / "mnt")


def test_the_user_can(folder: Path) -> None:
    who = f"setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups"
    done = as_stranger(
        folder,
        f'"$2" -c "$3" mount store mnt --view raw --read-write\n'
        f"{who} sh -c 'cat mnt/public; echo; echo x > mnt/new; ls mnt'",
    )
    assert done.stdout.split() == ["x", "new", "public", "zarr.json"], done.stderr


@pytest.mark.parametrize("option", ["--allow-other", "-o allow_other", "-o allow_root"])
def test_others_are_let_in_only_if_root_agrees(folder: Path, option: str) -> None:
    refused = as_stranger(
        folder,
        f'echo "# nothing" > fuse.conf; mount --bind fuse.conf /etc/fuse.conf\n'
        f'"$2" -c "$3" mount store mnt {option} || echo "exit code $?"',
    )
    assert refused.stdout == "exit code 1\n"
    assert "user_allow_other" in refused.stderr
    done = as_stranger(
        folder,
        f"echo user_allow_other > fuse.conf; mount --bind fuse.conf /etc/fuse.conf\n"
        f'"$2" -c "$3" mount store mnt --view raw {option}\ncat mnt/public',
    )
    assert done.stdout == "x", done.stderr
