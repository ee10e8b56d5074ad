"""Owner and modes that a mount shows in place of the stored ones: `--uid`, `--umask` and so on."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.documents import group
from builders.folders import write_keys
from builders.mounts import clear, mounting, zarrfuse
from builders.other_users import DENIED, DONE, OWNER, STRANGER, as_user, public_folder

OTHERS = ("--view", "raw", "--allow-other")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that all users can reach, with a store of root."""
    with public_folder() as folder:
        (folder / "store").mkdir()
        write_keys(
            folder / "store",
            {"zarr.json": group(), "public": b"x", "secret": b"s", "private/file": b"p"},
        )
        (folder / "store/secret").chmod(0o600)
        (folder / "store/private").chmod(0o700)
        yield folder
        clear(folder / "mnt")


def modes(point: Path) -> dict[str, str]:
    """Mode, owner and group of each name, as stat(1) prints them."""
    names = [".", "public", "secret", "private", "private/file"]
    done = subprocess.run(
        ["stat", "-c", "%a %u %g", *names], cwd=point, capture_output=True, text=True, check=True
    )
    return dict(zip(names, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize(
    ("options", "file", "folder_"),
    [
        (["--umask", "022"], "555", "555"),
        (["--umask", "077"], "500", "500"),
        (["--umask", "022", "--fmask", "133"], "444", "555"),
        (["-o", "fmask=0137,dmask=027"], "440", "550"),
        (["--umask", "022", "--read-write"], "755", "755"),
    ],
)
def test_masks_are_those_of_all_files_and_folders(
    folder: Path, options: list[str], file: str, folder_: str
) -> None:
    with mounting(folder / "store", folder / "mnt", *OTHERS, *options) as point:
        assert modes(point) == {
            ".": f"{folder_} 0 0",
            "public": f"{file} 0 0",
            "secret": f"{file} 0 0",
            "private": f"{folder_} 0 0",
            "private/file": f"{file} 0 0",
        }


def test_the_owner_is_shown_by_number_and_by_name(folder: Path) -> None:
    with mounting(
        folder / "store", folder / "mnt", *OTHERS, "-o", f"uid={OWNER},gid=nogroup"
    ) as point:
        assert modes(point)["secret"] == f"400 {OWNER} {STRANGER}"
        assert as_user(OWNER, (point / "secret").read_bytes) == DONE
        assert as_user(OWNER, (point / "private/file").read_bytes) == DONE
        assert as_user(STRANGER, (point / "secret").read_bytes) == DENIED
        assert as_user(STRANGER, (point / "private/file").read_bytes) == DENIED
        assert as_user(STRANGER, (point / "public").read_bytes) == DONE


def test_what_is_shown_is_what_the_kernel_checks(folder: Path) -> None:
    with mounting(folder / "store", folder / "mnt", *OTHERS, "--umask", "027") as point:
        assert as_user(STRANGER, (point / "public").read_bytes) == DENIED
        assert as_user(STRANGER, lambda: os.listdir(point)) == DENIED


def test_what_is_written_keeps_what_is_stored(folder: Path) -> None:
    """As with vfat, a mode that nobody would see is not stored."""
    options = (*OTHERS, "--read-write", "--uid", OWNER, "--umask", "022")
    with mounting(folder / "store", folder / "mnt", *options) as point:
        assert as_user(OWNER, lambda: (point / "secret").write_bytes(b"t")) == DONE
        (point / "public").chmod(0o640)
        assert modes(point)["public"] == f"755 {OWNER} 0"
    stored = {name: (folder / "store" / name).stat() for name in ("secret", "public")}
    assert (folder / "store/secret").read_bytes() == b"t"
    assert (stored["secret"].st_uid, stored["secret"].st_mode & 0o777) == (0, 0o600)
    assert stored["public"].st_mode & 0o777 == 0o644


def test_a_symlink_that_leads_out_stays_closed(folder: Path) -> None:
    (folder / "outside").write_bytes(b"o")
    (folder / "store/link").symlink_to(folder / "outside")
    with mounting(folder / "store", folder / "mnt", *OTHERS, "--umask", "0") as point:
        assert (point / "link").lstat().st_mode & 0o777 == 0
        assert as_user(STRANGER, (point / "link").read_bytes) == DENIED


def test_control_files_stay_private(folder: Path) -> None:
    with mounting(folder / "store", folder / "mnt", *OTHERS, "--umask", "0") as point:
        assert as_user(STRANGER, (point / "public").read_bytes) == DONE
        assert as_user(STRANGER, (point / ".zarrfuse/status.json").read_bytes) == DENIED


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("umask=9", "9 is no octal number such as 022"),
        ("fmask=7777", "7777 is no octal number"),
        ("uid=nobody-here", "there is no nobody-here"),
        ("gid=4294967295", "there is no 4294967295"),
        ("gid=", "there is no empty name"),
    ],
)
def test_what_is_none_is_refused(folder: Path, option: str, said: str) -> None:
    (folder / "mnt").mkdir()
    done = zarrfuse("mount", folder / "store", folder / "mnt", "-o", option, check=False)
    assert done.returncode == 2
    assert said in done.stderr
