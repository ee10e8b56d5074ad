"""What the tests of the `images` view share: the whole matrix of layouts, written once."""

from collections.abc import Iterator

import pytest
from builders.images_view import ALL, Written, images

from zarrfuse.stores.local.store import LocalStore


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """The whole matrix; not to be changed."""
    folder = tmp_path_factory.mktemp("written")
    arrays = {name: layout.write(folder) for name, layout in ALL.items()}
    store = LocalStore(str(folder))
    yield Written(folder, arrays, images(store))
    store.close()
