"""What the tests of real programs share: a desktop, a folder for screenshots, expected pixels."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from desktop import Desktop
from stored_arrays import StoredArrays, write_arrays

from zarrfuse.dataset import CHUNK, demo_image


@pytest.fixture
def desktop(tmp_path: Path, mounted: Callable[..., Path]) -> Iterator[Desktop]:
    """A screen of 1280 x 800 pixels that nobody sees.

    Asks for `mounted` so that programs end before what they look at is unmounted.
    """
    with Desktop(tmp_path / "home") as screen:
        yield screen


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """Where screenshots stay: $ZARRFUSE_ARTIFACTS, or `artifacts` at the root of the repository."""
    folder = os.environ.get("ZARRFUSE_ARTIFACTS") or Path(__file__).parents[2] / "artifacts"
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
