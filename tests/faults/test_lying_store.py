"""Stores that tell of names, sizes and kinds that are not so: no crash, and nothing cut short."""

import errno
import os
from collections.abc import Iterator

import pytest
from builders.mounts import Daemon, drop_caches, serving, wait_for
from daemons import errno_when, fake
from serve_fake import DATA, LIES, OPENED_AS


@pytest.fixture(scope="module", params=["raw", "chunks"])
def lying(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Daemon]:
    """The mount of a store that lies."""
    folder = tmp_path_factory.mktemp("lying")
    (folder / "source").mkdir()
    with serving(
        folder, folder / "source", "--view", request.param, command=fake(store="lying")
    ) as daemon:
        yield daemon


@pytest.mark.parametrize("folder", [folder for folder in LIES if folder != "sizes"])
def test_a_name_that_cannot_be_shown_hides_no_other(lying: Daemon, folder: str) -> None:
    path = lying.mountpoint / folder
    names = os.listdir(path)
    assert "true" in names
    for name in names:
        assert name
        assert "/" not in name
        assert name not in (".", "..")
        errno_when(lambda name=name: os.stat(path / name))
        errno_when(lambda name=name: (path / name).read_bytes())
        errno_when(lambda name=name: os.listdir(path / name))
        errno_when(lambda name=name: os.readlink(path / name))
    assert (path / "true").read_bytes() == DATA
    assert lying.is_up()


@pytest.mark.parametrize("folder", ["escaped-surrogate", "long", "controls"])
def test_odd_names_that_can_be_shown_are_looked_up(lying: Daemon, folder: str) -> None:
    for entry in LIES[folder]:
        if len(os.fsencode(entry.name)) <= 255:
            assert (lying.mountpoint / folder / entry.name).stat().st_size == entry.size


@pytest.mark.parametrize("name", OPENED_AS)
def test_a_file_of_another_size_is_never_cut_short_in_silence(lying: Daemon, name: str) -> None:
    """All that is there now, or an error; what is behind the end is not made up."""
    path = lying.mountpoint / "sizes" / name
    try:
        data = path.read_bytes()
    except OSError as error:
        assert error.errno in (errno.EIO, errno.ESTALE)
    else:
        size = OPENED_AS[name]
        assert data == (DATA[:size] if 0 <= size < len(DATA) else DATA)
        assert size >= 0
    assert lying.is_up()


def test_listing_lies_leaks_no_lookups(lying: Daemon) -> None:
    """What the kernel refused of a listing, it never gives back."""
    for folder in LIES:
        with os.scandir(lying.mountpoint / folder) as entries:
            while True:
                try:
                    if next(entries, None) is None:
                        break
                except OSError:
                    break

    def few() -> bool:
        drop_caches()
        return lying.status()["kernel_lookups"] <= 4

    wait_for(few, 3)


def test_nothing_of_it_is_a_fault(lying: Daemon) -> None:
    assert "Traceback" not in lying.text(), lying.text()
