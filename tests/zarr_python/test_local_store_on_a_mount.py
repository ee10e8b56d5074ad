"""zarr-python's own tests of a store, and of hierarchies, on a `LocalStore` in a read-write mount.

The suite puts bytes under `zarr.json` that are no metadata. In `raw` they are bytes like others. In
`chunks` and `plain` a node that nobody can read has no chunks, and `plain` refuses to show it; so there
a document of a group is put in their place. What is overridden says why.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from builders.hierarchies import Hierarchies
from builders.mounts import clear, zarrfuse
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore
from zarr.testing.store import StoreTests

DOCUMENT = json.dumps({"attributes": {}, "zarr_format": 3, "node_type": "group"}, indent=2).encode()
"""A group as zarr-python writes it; the plain view has nothing to change in it."""

_numbers = count()


def is_document(key: str) -> bool:
    """Whether a key is that of a document in which the suite puts what is none."""
    return key.rpartition("/")[2] == "zarr.json"


class DocumentsStore(LocalStore):
    """A `LocalStore` that puts a document of a group where it is given one that is none."""

    async def _set(self, key: str, value: Buffer, exclusive: bool = False) -> None:
        if is_document(key):
            value = cpu.Buffer.from_bytes(DOCUMENT)
        await super()._set(key, value, exclusive)


@pytest.fixture(scope="module")
def written_mounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """`written_mounts(view)` is a read-write mount of an empty folder, one for each view."""
    points: dict[str, Path] = {}

    def mount(view: str) -> Path:
        if view not in points:
            folder = tmp_path_factory.mktemp(f"written-{view}")
            (folder / "source").mkdir()
            (folder / "mnt").mkdir()
            points[view] = folder / "mnt"
            zarrfuse("mount", folder / "source", folder / "mnt", "--view", view, "--read-write")
        return points[view]

    yield mount
    for point in points.values():
        done = zarrfuse("unmount", point, check=False)
        clear(point)
        assert done.returncode == 0, done.stderr


class OnAMount(StoreTests[LocalStore, cpu.Buffer]):
    """The suite as zarr-python runs it on a `LocalStore`; each test has a folder of its own."""

    store_cls = LocalStore
    buffer_cls = cpu.Buffer
    view: str

    async def get(self, store: LocalStore, key: str) -> Buffer:
        return self.buffer_cls.from_bytes((store.root / key).read_bytes())

    async def set(self, store: LocalStore, key: str, value: Buffer) -> None:
        path = store.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value.to_bytes())

    @pytest.fixture
    def store_kwargs(self, written_mounts: Callable[[str], Path]) -> dict[str, Any]:
        """An empty folder."""
        root = written_mounts(self.view) / f"test{next(_numbers)}"
        root.mkdir()
        return {"root": str(root)}

    @pytest.fixture
    def store(self, open_kwargs: dict[str, Any]) -> LocalStore:
        """As the suite's own, which is a coroutine."""
        return asyncio.run(self.store_cls.open(**open_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> LocalStore:
        """As the suite's own, which is a coroutine."""
        return self.store_cls(**store_kwargs)

    # -- asked for by the suite: it has no such test of its own ------------------------------

    def test_store_repr(self, store: LocalStore) -> None:
        assert str(store) == f"file://{store.root.as_posix()}"

    def test_store_supports_writes(self, store: LocalStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: LocalStore) -> None:
        assert store.supports_listing


class TestRaw(OnAMount):
    """As in a folder: nothing is changed."""

    view = "raw"


class OfNodes(OnAMount):
    """The views that know what a document is."""

    store_cls = DocumentsStore

    async def set(self, store: LocalStore, key: str, value: Buffer) -> None:
        """With a document under the name of one."""
        if is_document(key):
            value = self.buffer_cls.from_bytes(DOCUMENT)
        await super().set(store, key, value)

    # -- the suite expects the bytes back that are no metadata -------------------------------

    @pytest.mark.parametrize("key", ["zarr.json", "c/0", "foo/c/0.0", "foo/0/0"])
    @pytest.mark.parametrize("data", [b"\x01\x02\x03\x04", b""])
    async def test_set(self, store: LocalStore, key: str, data: bytes) -> None:
        await store.set(key, self.buffer_cls.from_bytes(data))
        observed = await self.get(store, key)
        assert observed.to_bytes() == (DOCUMENT if is_document(key) else data)

    async def test_set_many(self, store: LocalStore) -> None:
        keys = ["zarr.json", "c/0", "foo/c/0.0", "foo/0/0"]
        given = {key: self.buffer_cls.from_bytes(key.encode()) for key in keys}
        await store._set_many(given.items())
        for key in keys:
            expected = DOCUMENT if is_document(key) else key.encode()
            assert (await self.get(store, key)).to_bytes() == expected

    async def test_get_bytes(self, store: LocalStore) -> None:
        await self.set(store, "zarr.json", self.buffer_cls.from_bytes(DOCUMENT))
        prototype = default_buffer_prototype()
        assert await store._get_bytes("zarr.json", prototype=prototype) == DOCUMENT
        with pytest.raises(FileNotFoundError):
            await store._get_bytes("nonexistent_key", prototype=prototype)

    def test_get_bytes_sync(self, store: LocalStore) -> None:
        sync(self.set(store, "zarr.json", self.buffer_cls.from_bytes(DOCUMENT)))
        prototype = default_buffer_prototype()
        assert store._get_bytes_sync("zarr.json", prototype=prototype) == DOCUMENT

    async def test_get_json(self, store: LocalStore) -> None:
        await self.set(store, "zarr.json", self.buffer_cls.from_bytes(DOCUMENT))
        prototype = default_buffer_prototype()
        assert await store._get_json("zarr.json", prototype=prototype) == json.loads(DOCUMENT)

    def test_get_json_sync(self, store: LocalStore) -> None:
        sync(self.set(store, "zarr.json", self.buffer_cls.from_bytes(DOCUMENT)))
        prototype = default_buffer_prototype()
        assert store._get_json_sync("zarr.json", prototype=prototype) == json.loads(DOCUMENT)


class TestChunks(OfNodes):
    """See `OfNodes`."""

    view = "chunks"


class TestPlain(OfNodes):
    """See `OfNodes`."""

    view = "plain"


del OnAMount, OfNodes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("view", ["chunks", "plain"])
def test_a_hierarchy_that_is_changed_at_random_is_what_it_is_in_memory(
    view: str, written_mounts: Callable[[str], Path]
) -> None:
    root = written_mounts(view) / f"hierarchy{next(_numbers)}"

    def machine() -> Hierarchies:
        return Hierarchies(asyncio.run(LocalStore.open(root)))

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=4,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
