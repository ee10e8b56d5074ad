"""What the tests of real mounts share: no process outlives them, and stores made by code."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from datasets import write_keys
from processes import assert_ended


@pytest.fixture(scope="module", autouse=True)
def no_process_left_by_a_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails after a module if a process of its shared mounts goes on living."""
    base = tmp_path_factory.getbasetemp()
    before = set(base.iterdir())
    yield
    for path in set(base.iterdir()) - before:
        assert_ended(path)


@pytest.fixture(autouse=True)
def no_process_left(tmp_path: Path) -> Iterator[None]:
    """Fails a test after which a process with its folder in the command line goes on living."""
    yield
    assert_ended(tmp_path)


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[Mapping[str, bytes]], Path]:
    """`stored(keys)` writes the folder `tmp_path / "store"` of these keys; its path."""

    def write(keys: Mapping[str, bytes]) -> Path:
        root = tmp_path / "store"
        root.mkdir(exist_ok=True)
        write_keys(root, keys)
        return root

    return write
