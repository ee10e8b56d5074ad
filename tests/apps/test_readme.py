"""Every command of the README, run in the order it stands there, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

from builders.mounts import clear

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text()
SH_BLOCKS = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_each_command_works_in_an_empty_folder(tmp_path: Path) -> None:
    two_commands = "make demo\nmake test\n"
    assert two_commands in SH_BLOCKS
    blocks = [block for block in SH_BLOCKS if block != two_commands]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    try:
        for block in blocks:
            done = subprocess.run(
                ["sh", "-eux", "-c", block],
                check=False,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=100,
            )
            assert done.returncode == 0, done.stderr
    finally:
        clear(tmp_path)


def test_listings_are_what_a_mount_of_the_demo_shows(tmp_path: Path, demo: Path, mounted) -> None:
    folder = tmp_path / "shown"
    folder.mkdir()
    (folder / "data").symlink_to(demo)
    (folder / "mnt").symlink_to(mounted(demo))
    consoles = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert consoles
    for command, shown in consoles:
        done = subprocess.run(
            command, shell=True, check=True, cwd=folder, capture_output=True, text=True
        )
        assert done.stdout == shown


def test_options_are_those_of_the_command() -> None:
    options = set(re.findall(r"`(--[a-z-]+)", README))
    told = subprocess.run(
        [sys.executable, "-m", "zarrfuse", "mount", "--help"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    ).stdout
    of_mount = set(re.findall(r"--[a-z-]+", told)) - {"--help"}
    table = set(re.findall(r"^\| `(--[a-z-]+)", README, re.MULTILINE)) | {"--verbose"}
    assert of_mount - {"--version"} <= table | options
