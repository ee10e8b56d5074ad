"""The version stands in four files, and is the same in each."""

import re
import tomllib
from pathlib import Path

import zarrfuse

REPOSITORY = Path(__file__).parents[2]


def found(pattern: str, name: str) -> str:
    match = re.search(pattern, (REPOSITORY / name).read_text(), re.MULTILINE)
    assert match, name
    return match[1]


def test_all_packages_are_of_this_version() -> None:
    versions = {
        "pyproject.toml": tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"][
            "version"
        ],
        "the recipe": found(r'^  version: "(.+)"$', "packaging/conda/recipe.yaml"),
        "the .deb": found(r"^zarrfuse \((.+)\)", "packaging/debian/changelog"),
    }
    assert versions == dict.fromkeys(versions, zarrfuse.__version__)
