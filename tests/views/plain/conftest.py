"""A `plain` view that can be written, and the stores to be closed after the test."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from builders.folders import write_keys
from builders.views import FOREVER
from disks import Disk

from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.choice import open_view


@pytest.fixture
def stores() -> Iterator[list[Commits]]:
    opened: list[Commits] = []
    yield opened
    for commits in opened:
        commits.close()
        commits.store.close()


@pytest.fixture
def disk(tmp_path: Path, stores: list[Commits]) -> Any:
    """Makes a disk of these keys."""

    def made(keys: Mapping[str, bytes]) -> Disk:
        write_keys(tmp_path, keys)
        store = WritableLocalStore(str(tmp_path))
        stores.append(Commits(store))
        return Disk(tmp_path, open_view("plain", store, FOREVER, commits=stores[-1]))

    return made
