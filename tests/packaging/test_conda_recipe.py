"""The recipe for conda-forge can be built, and asks for what pyproject.toml asks for."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import rattler_build
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[2]
OTHER_NAMES = {"prometheus-client": "prometheus_client"}


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    """As rattler-build, which conda-forge uses, renders it."""
    path = REPOSITORY / "packaging/conda/recipe.yaml"
    [variant] = rattler_build.Stage0Recipe.from_file(path).render()
    return variant.recipe.to_dict()


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def wanted(requirements: list[str]) -> set[str]:
    """Requirements of Python packages as conda has them."""
    found = set()
    for requirement in map(Requirement, requirements):
        if requirement.name != "zarrfuse":
            bounds = ",".join(sorted(map(str, requirement.specifier), reverse=True))
            found.add(f"{OTHER_NAMES.get(requirement.name, requirement.name)} {bounds}")
    return found


def test_it_needs_what_the_wheel_needs(recipe: dict[str, Any], project: dict[str, Any]) -> None:
    run = set(recipe["requirements"]["run"])
    assert run - wanted(project["dependencies"]) == {"__linux", "python >=3.11", "libfuse3"}
    assert wanted(project["dependencies"]) <= run


def test_extras_have_the_bounds_of_the_wheel(
    recipe: dict[str, Any], project: dict[str, Any]
) -> None:
    all_of_users = ("object", "aws", "http", "codecs", "icechunk", "hdf5", "dask", "metrics")
    extras = [each for name in all_of_users for each in project["optional-dependencies"][name]]
    assert set(recipe["requirements"]["run_constraints"]) == wanted(extras)


def test_it_has_the_commands_of_the_wheel(recipe: dict[str, Any], project: dict[str, Any]) -> None:
    found = dict(each.split(" = ") for each in recipe["build"]["python"]["entry_points"])
    assert found == project["scripts"]
