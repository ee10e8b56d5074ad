"""Every command of the README, run in the order it stands there, in an empty folder."""

import re
from pathlib import Path

from pages import options_of, shell_in

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text()
SH_BLOCKS = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_each_command_works_in_an_empty_folder(tmp_path: Path) -> None:
    two_commands = "make demo\nmake test\n"
    assert two_commands in SH_BLOCKS
    with shell_in(tmp_path) as run:
        for block in SH_BLOCKS:
            if block != two_commands:
                run(block)


def test_listings_are_what_a_mount_of_the_demo_shows(tmp_path: Path, demo: Path, mounted) -> None:
    folder = tmp_path / "shown"
    folder.mkdir()
    (folder / "data").symlink_to(demo)
    (folder / "mnt").symlink_to(mounted(demo))
    consoles = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert consoles
    with shell_in(folder) as run:
        for command, shown in consoles:
            assert run(command) == shown


def test_options_are_those_of_the_command() -> None:
    options = set(re.findall(r"`(--[a-z-]+)", README))
    table = set(re.findall(r"^\| `(--[a-z-]+)", README, re.MULTILINE)) | {"--verbose"}
    assert options_of("mount") - {"--help", "--version"} <= table | options
