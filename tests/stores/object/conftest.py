"""A store on a bucket of its own."""

import pytest


@pytest.fixture
def store(bucket):
    store = bucket.store()
    yield store
    store.close()
