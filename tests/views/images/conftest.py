"""The whole matrix of layouts, written once; arrays opened through a decoder; pictures as planned."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from builders.images_view import ALL, Written, images
from decoded_arrays import Opener

from zarrfuse.spec.ome import Picture
from zarrfuse.stores.base import Store
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.opening import open_store
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView
from zarrfuse.views.images.decode import DecodedArray, Decoder
from zarrfuse.views.images.render import Plan, plan
from zarrfuse.views.images.stored_bytes import ArrayFiles


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """The whole matrix; not to be changed."""
    folder = tmp_path_factory.mktemp("written")
    arrays = {name: layout.write(folder) for name, layout in ALL.items()}
    store = LocalStore(str(folder))
    yield Written(folder, arrays, images(store))
    store.close()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The paths of the coarser levels that each picture is planned with."""
    found: list[list[str]] = []

    def plan_(picture: Picture, whole: DecodedArray, levels: Sequence[DecodedArray]) -> Plan:
        found.append([level.path for level in levels])
        return plan(picture, whole, levels)

    monkeypatch.setattr("zarrfuse.views.images.arrays.plan", plan_)
    return found


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens the array at the root of a source; `decoders` are closed at the end."""
    decoders: list[Decoder] = []

    def open_array(
        source: Path | Store, path: str = "", *, cache_bytes: int = 1 << 24, ttl_s: float = 0.0
    ) -> DecodedArray:
        store = open_store(str(source)) if isinstance(source, Path) else source
        view = ChunksView(store, ttl_s)
        decoder = Decoder(view, ByteCache(cache_bytes))
        decoders.append(decoder)
        folder: ChunksFolder = view.root
        for name in path.split("/") if path else ():
            folder = folder.child(name)
        loaded = folder.loaded()
        assert loaded is not None
        return decoder.array(ArrayFiles(view, folder, loaded))

    yield open_array
    for decoder in decoders:
        decoder.close()
