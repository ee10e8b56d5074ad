"""No node of a large hierarchy is read before someone looks at it."""

from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest
from builders.documents import array, group, suffix_keys
from builders.fake_stores import ForwardingStore, MemoryStore
from builders.mounts import Daemon
from builders.views import folder_at

from zarrfuse.config import VIEWS
from zarrfuse.views.choice import open_view
from zarrfuse.views.nodes import DOCUMENTS
from zarrfuse.views.walk import ToldFolder, walk

GROUPS, ARRAYS = 1000, 9
OF_NODES = [name for name in VIEWS if name not in ("raw", "all")]


def documents(group_document: bytes, array_document: bytes) -> dict[str, bytes]:
    """Keys of 10,000 nodes: groups of nine arrays. The root's own document is not among them."""
    keys = {}
    for number in range(GROUPS):
        keys[f"g{number}/zarr.json"] = group_document
        for member in range(ARRAYS):
            keys[f"g{number}/a{member}/zarr.json"] = array_document
    return keys


class WatchedStore(ForwardingStore):
    """Takes down which folders are listed, and of which the documents are asked for."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(MemoryStore(files))
        self.listed: set[str] = set()
        self.looked_at: set[str] = set()

    def before(self, call: str, key: str, wait: bool) -> None:
        """Take it down."""
        folder, _, name = key.rpartition("/")
        if call == "scan":
            self.listed.add(key)
        elif name in DOCUMENTS:
            self.looked_at.add(folder)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    keys = documents(group(), array(keys=suffix_keys(".raw")))
    return {"zarr.json": group(), **keys, "g7/a3/c/0/0.raw": b"1234"}


@pytest.fixture
def store(files: dict[str, bytes]) -> WatchedStore:
    return WatchedStore(files)


@pytest.mark.parametrize("view", VIEWS)
def test_opening_a_view_asks_nothing_of_the_store(store: WatchedStore, view: str) -> None:
    open_view(view, store, inf)
    assert (store.listed, store.looked_at) == (set(), set())


@pytest.mark.parametrize("view", OF_NODES)
def test_listing_a_group_looks_at_no_node_in_it(store: WatchedStore, view: str) -> None:
    root = open_view(view, store, inf)
    assert len(root.list()) == GROUPS + 1
    assert store.looked_at == {""}
    assert store.listed == {""}


def test_listing_all_views_looks_at_no_node(store: WatchedStore) -> None:
    assert len(folder_at(open_view("all", store, inf), "raw").list()) == GROUPS + 1
    assert len(folder_at(open_view("all", store, inf), "chunks").list()) == GROUPS + 1
    assert store.looked_at <= {""}


@pytest.mark.parametrize("view", OF_NODES)
def test_looking_at_a_node_looks_at_those_above_it_and_no_other(
    store: WatchedStore, view: str
) -> None:
    root = open_view(view, store, inf)
    array_folder = folder_at(root, "g7/a3")
    assert array_folder.facts(None).to_json()["shape"] == [4, 4]
    assert store.looked_at <= {"", "g7", "g7/a3"}
    renderings = {"a3.npy", "a3.png", "a3.tiff"} if view == "images" else set()
    assert array_folder.list().keys() == {"c", "zarr.json", *renderings}
    assert store.looked_at <= {"", "g7", "g7/a3"}


@pytest.mark.parametrize("view", OF_NODES)
def test_looking_up_a_chunk_asks_for_the_documents_on_its_way_alone(
    store: WatchedStore, view: str
) -> None:
    folder = folder_at(open_view(view, store, inf), "g7/a3/c/0")
    name, least = {"chunks": ("0.raw", 4), "plain": ("0", 4), "images": ("0.tiff", 100)}[view]
    assert folder.lookup(name).size >= least
    # A folder of chunks could be a node of its own, until it is seen to have no document.
    on_its_way = {"", "g7", "g7/a3", "g7/a3/c", "g7/a3/c/0"}
    assert store.looked_at <= on_its_way
    assert "g7/a3" in store.looked_at


def test_info_tells_of_a_node_before_it_looks_at_the_next(store: WatchedStore) -> None:
    found = walk(ToldFolder(open_view("chunks", store, inf)))
    assert next(found).facts["node_type"] == "group"
    assert store.looked_at == {""}
    assert next(found).facts["path"] == "g0"
    assert store.looked_at == {"", "g0"}
    assert len(list(found)) == GROUPS * (1 + ARRAYS) - 1


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 10,000 nodes in a real folder. Each document is broken: whoever reads it, logs that."""
    root = tmp_path_factory.mktemp("broken")
    (root / "zarr.json").write_bytes(group())
    for key, data in documents(b"{", b"{").items():
        path = root / key
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return root


def read_by(daemon: Daemon) -> int:
    """How many of the broken documents a mount has read."""
    return daemon.text().count("not loaded: ")


@pytest.mark.parametrize("view", OF_NODES)
def test_a_mount_reads_the_nodes_that_are_looked_at(
    broken: Path, served: Callable[..., Daemon], view: str
) -> None:
    daemon = served(broken, "--view", view, "--cache-ttl", "inf")
    assert read_by(daemon) == 0
    groups = [path for path in daemon.mountpoint.iterdir() if path.is_dir()]
    assert (len(groups), read_by(daemon)) == (GROUPS, 0)
    arrays = [path for path in (daemon.mountpoint / "g7").iterdir() if path.is_dir()]
    assert (len(arrays), read_by(daemon)) == (ARRAYS, 1)
    list((daemon.mountpoint / "g7" / "a3").iterdir())
    assert read_by(daemon) == 2
    assert "g7/a3/zarr.json" in daemon.text()
