"""A view of a folder that can be written, and what is stored in the folder."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from builders.stores import local, zip_deflated, zip_stored
from viewers import Viewer, viewer
from writable_chunks import files, opened

from zarrfuse.views.chunks.storing import IsFill
from zarrfuse.views.chunks.view import ChunksFolder


@pytest.fixture
def view(tmp_path: Path) -> Iterator[Callable[..., ChunksFolder]]:
    """`view(keys)`: the root of a view of the folder `tmp_path / "store"`, which has these keys."""
    entered = []

    def of(keys: Mapping[str, bytes], fill: IsFill | None = None) -> ChunksFolder:
        entered.append(opened(tmp_path / "store", keys, fill))
        return entered[-1].__enter__()

    yield of
    for each in entered:
        each.__exit__(None, None, None)


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[], dict[str, bytes]]:
    """All stored files but documents, as they are."""
    return lambda: files(tmp_path / "store")


@pytest.fixture(params=[local, zip_stored, zip_deflated])
def on_every_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Viewer]:
    """`on_every_store(keys)`: the view's root over each kind of store of these keys."""
    yield from viewer(tmp_path / "store", request.param)


@pytest.fixture
def on_a_folder(tmp_path: Path) -> Iterator[Viewer]:
    """`on_a_folder(keys)`: the view's root over a folder of these keys, which is `tmp_path / "store"`."""
    yield from viewer(tmp_path / "store", local)
