"""Views of folders in which chunks of one, two or three parts are written."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from builders.documents import array, concat_parts
from builders.folders import stored_files, write_keys

from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.chunks.storing import IsFill
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView

HEAD_AND_TAIL = [concat_parts((".head", 2), "", (".tail", 3))]
MTIME_NS = 1_600_000_000_123_456_789


@contextmanager
def opened(
    root: Path, keys: Mapping[str, bytes], fill: IsFill | None = None, *, is_last: bool = True
) -> Iterator[ChunksFolder]:
    """The root of a view of a folder of these keys. It would never look at a document again."""
    root.mkdir(exist_ok=True)
    write_keys(root, keys)
    store = WritableLocalStore(str(root))
    commits = Commits(store)
    yield ChunksView(store, math.inf, commits, fill).root
    commits.close()
    store.close()
    if is_last:
        assert not (root / OWN_NAME).exists()


def files(root: Path) -> dict[str, bytes]:
    """All stored files but documents."""
    return {key: data for key, data in stored_files(root).items() if not key.endswith("zarr.json")}


ARRAY = {"zarr.json": array(transformers=HEAD_AND_TAIL)}
CHUNK = {"c/0/0.head": b"ab", "c/0/0": b"cd", "c/0/0.tail": b"efg"}
