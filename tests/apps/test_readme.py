"""Every command of the README, run in the order it stands there, in an empty folder."""

import re
from pathlib import Path

from builders.pages import REPOSITORY, blocks, follow, options_of, shell_in

README = (REPOSITORY / "README.md").read_text()


def test_each_command_works_in_an_empty_folder(tmp_path: Path) -> None:
    with shell_in(tmp_path) as run:
        follow(blocks("README.md", "sh"), run)


def test_listings_are_what_a_mount_of_the_demo_shows(tmp_path: Path, demo: Path, mounted) -> None:
    folder = tmp_path / "shown"
    folder.mkdir()
    (folder / "data").symlink_to(demo)
    (folder / "mnt").symlink_to(mounted(demo))
    with shell_in(folder) as run:
        follow(blocks("README.md", "console"), run)


def test_options_are_those_of_the_command() -> None:
    options = set(re.findall(r"`(--[a-z-]+)", README))
    table = set(re.findall(r"^\| `(--[a-z-]+)", README, re.MULTILINE)) | {"--verbose"}
    assert options_of("mount") - {"--help", "--version"} <= table | options
