"""A store on a bucket of its own."""

import threading

import pytest

from zarrfuse.stores.object.store import ObjectStore


@pytest.fixture
def store(bucket):
    store = bucket.store()
    yield store
    store.close()


@pytest.fixture
def put(tmp_path):
    """Stores bytes under a key of a store."""

    def put(store: ObjectStore, key: str, data: bytes, **options: bool) -> None:
        with open(tmp_path / f"source {threading.get_ident()}", "w+b") as file:
            file.write(data)
            file.flush()
            store.put(key, file.fileno(), 0, len(data), **options)

    return put
