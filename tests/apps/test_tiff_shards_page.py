"""The commands of `docs/tiff-shards.md`, run in the order they stand there; its options and its picture."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from builders.mounts import clear

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tiff-shards.md").read_text()
BLOCKS = re.findall(r"^```(sh|console)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    clear(tmp_path)


def run(text: str, folder: Path) -> str:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-eu", "-c", text],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, (text, done.stderr)
    return done.stdout


def test_each_command_of_the_page_works_and_shows_what_it_says(folder: Path) -> None:
    assert len(BLOCKS) >= 8
    for kind, block in BLOCKS:
        if kind == "sh":
            run(block, folder)
            continue
        for command, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
            assert run(command, folder) == shown


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tiff_shards", DOCS / "tiff_shards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_what_its_script_draws() -> None:
    drawn = script().picture()
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert (DOCS / "tiff-shards.svg").read_text() == drawn
    assert "(tiff-shards.svg)" in PAGE


def test_the_options_of_the_page_are_those_of_the_commands() -> None:
    told = ""
    for command in ("index", "export", "check", "mount"):
        told += subprocess.run(
            [sys.executable, "-m", "zarrfuse", command, "--help"],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"COLUMNS": "200"},
        ).stdout
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE.replace("--time-style", "")))
    assert named <= set(re.findall(r"--[a-z-]+", told))
