"""Folders that are listed while something else happens: no name twice, none left out in silence."""

import errno
import os
from pathlib import Path

import pytest
from builders.mounts import serving, wait_for
from daemons import fake

COUNT = 4500


def folder_of(tmp_path: Path, name: str) -> Path:
    """A source with a large folder."""
    folder = tmp_path / "source" / name
    folder.mkdir(parents=True)
    for index in range(COUNT):
        (folder / f"{index:05}").touch()
    return folder


def names_by(descriptor: int) -> list[str]:
    """What an open folder lists."""
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries]


def test_a_name_that_is_looked_up_meanwhile_is_listed_once(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "hang")
    command = fake(store="hanging", call="scanned")
    with serving(tmp_path, folder.parent, command=command) as daemon:
        path = daemon.mountpoint / "hang"
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            wait_for((tmp_path / "source.gate.waiting").exists)
            for name in os.listdir(folder):
                assert os.stat(name, dir_fd=descriptor).st_size == 0
            (tmp_path / "source.gate").touch()
            names = names_by(descriptor)
            assert len(names) == len(set(names))
            assert len(names) == COUNT
            assert len(os.listdir(path)) == COUNT
        finally:
            os.close(descriptor)


def outcomes_of_three(path: Path) -> list[int]:
    """The errno, or the number of names, that each of three listers gets."""
    descriptors = []
    outcomes = []
    try:
        for _ in range(3):
            try:
                descriptors.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
            except OSError as error:
                outcomes.append(error.errno or 0)
        for descriptor in descriptors:
            try:
                outcomes.append(len(names_by(descriptor)))
            except OSError as error:
                outcomes.append(error.errno or 0)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return outcomes


@pytest.mark.parametrize("name", ["EIO", "KeyError", "Panic"])
def test_a_listing_that_fails_at_its_end_fails_for_all_who_wait(tmp_path: Path, name: str) -> None:
    """None of them may take what was found until then for the whole folder."""
    folder = folder_of(tmp_path, f"scanned!{name}")
    with serving(tmp_path, folder.parent, command=fake(store="failing")) as daemon:
        path = daemon.mountpoint / folder.name
        for _ in range(2):
            with pytest.raises(OSError) as caught:
                os.listdir(path)
            assert caught.value.errno == errno.EIO
        assert daemon.is_up()


def test_listers_of_one_folder_all_learn_that_it_failed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "scanned!EIO")
    command = fake(store="failing")
    with serving(tmp_path, folder.parent, command=command) as daemon:
        outcomes = outcomes_of_three(daemon.mountpoint / folder.name)
        assert set(outcomes) == {errno.EIO}
        assert daemon.is_up()


def test_a_listing_nobody_waits_for_any_more_is_made_again(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "hang")
    with serving(tmp_path, folder.parent, command=fake(store="hanging", call="scanned")) as daemon:
        path = daemon.mountpoint / "hang"
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        (tmp_path / "source.gate").touch()
        assert len(os.listdir(path)) == COUNT
        wait_for(lambda: daemon.status()["open_folders"] == 0)


def test_listers_of_a_listing_that_times_out_are_all_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "hang")
    command = fake(store="hanging", call="scanned")
    with serving(tmp_path, folder.parent, "--timeout", "0.5", command=command) as daemon:
        assert set(outcomes_of_three(daemon.mountpoint / "hang")) == {errno.ETIMEDOUT}
        assert daemon.is_up()
