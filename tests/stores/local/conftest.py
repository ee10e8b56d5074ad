"""A folder with a link out of it, and a store that writes to it."""

import pytest
from local_changes import OUTSIDE

from zarrfuse.stores.local.writing import WritableLocalStore


@pytest.fixture
def root(tmp_path):
    """A store's folder with a file `data/a`, and a folder `outside` next to it."""
    root = tmp_path / "store"
    (root / "data").mkdir(parents=True)
    (root / "data/a").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(OUTSIDE)
    return root


@pytest.fixture
def store(root):
    """A store that writes to the folder `root`."""
    store = WritableLocalStore(str(root))
    yield store
    store.close()
