"""A zip on a server: the same members as of the zip here, by ranges of it."""

import random
import zipfile
from pathlib import Path

import pytest
from builders.readers import read_range
from builders.server_in_memory import ServerInMemory

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import NotFound, SourceError, Stale
from zarrfuse.stores.base import Entry, Store, opened, read
from zarrfuse.stores.remote.disk import BLOCK_BYTES
from zarrfuse.stores.remote.store import RemoteStore
from zarrfuse.stores.zip.on_server import zip_in
from zarrfuse.stores.zip.store import ZipStore

MEMBERS = {
    f"a.zarr/c/{number}": random.Random(number).randbytes(200_000 + number) for number in range(60)
} | {"a.zarr/zarr.json": b"{}", "a.zarr/empty": b""}


@pytest.fixture(params=[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
def packed(tmp_path: Path, request) -> Path:
    path = tmp_path / "a.ozx"
    with zipfile.ZipFile(path, "w", request.param) as archive:
        for name, data in MEMBERS.items():
            archive.writestr(name, data)
    return path


def served(server: ServerInMemory, key: str = "data/a.ozx") -> ZipStore:
    store = zip_in(RemoteStore(server, RemoteConfig()), key, f"memory://server/{key}")
    assert store is not None
    return store


def told(store: Store, folder: str) -> dict[str, tuple[object, int]]:
    return {name: (entry.kind, entry.size) for name, entry in store.list(folder).items()}


def test_it_reads_as_the_zip_here(packed):
    here, there = ZipStore(str(packed)), served(ServerInMemory({"data/a.ozx": packed.read_bytes()}))
    for folder in ("", "a.zarr", "a.zarr/c"):
        assert told(here, folder) == told(there, folder)
    for name, data in MEMBERS.items():
        assert read(there, name) == data
        assert isinstance(there.stat(name), Entry)
    assert there.permanent


def test_only_ranges_are_fetched(tmp_path):
    path = tmp_path / "big.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(30):
            archive.writestr(f"{number}", random.Random(number).randbytes(1_000_000))
    server = ServerInMemory({"big.zip": path.read_bytes()})
    store = served(server, "big.zip")
    with opened(store, "15") as reader:
        assert (
            read_range(reader, 500_000, 10) == random.Random(15).randbytes(1_000_000)[500_000:][:10]
        )
    fetched = sum(stop - start for what, _, start, stop in server.asked if what == "get")
    assert fetched <= 6 * BLOCK_BYTES


def test_members_that_are_read_in_order_are_fetched_ahead(packed):
    server = ServerInMemory({"data/a.ozx": packed.read_bytes()}, latency_s=0.02)
    store = served(server)
    for name, data in MEMBERS.items():
        assert read(store, name) == data
    assert server.most_at_once > 1


def test_a_zip_that_is_replaced_is_stale(packed):
    server = ServerInMemory({"data/a.ozx": packed.read_bytes()})
    store = served(server)
    server.files["data/a.ozx"] = packed.read_bytes()[::-1]
    with pytest.raises(Stale):
        for name in MEMBERS:
            read(store, name)


def test_what_is_no_zip_is_said_with_its_url():
    server = ServerInMemory({"data/a.ozx": b"no zip" * 100})
    with pytest.raises(SourceError, match=r"memory://server/data/a\.ozx is not a whole zip file"):
        served(server)


def test_a_folder_with_the_name_of_a_zip_is_no_zip():
    store = RemoteStore(ServerInMemory({"a.zip/zarr.json": b"{}"}), RemoteConfig())
    assert zip_in(store, "a.zip", "memory://server/a.zip") is None
    assert zip_in(store, "b.zip", "memory://server/b.zip") is None
    assert zip_in(store, "zarr.json", "memory://server/zarr.json") is None
    with pytest.raises(NotFound):
        store.stat("b.zip")


def test_a_zip_in_a_bucket_is_a_source(bucket, packed, monkeypatch):
    from zarrfuse.stores.opening import open_store

    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    bucket.put("data/a.ozx", packed.read_bytes())
    bucket.put("data/folder.zip/zarr.json", b"{}")
    store = open_store(f"{bucket.url}/data/a.ozx")
    assert read(store, "a.zarr/c/7") == MEMBERS["a.zarr/c/7"]
    assert set(open_store(f"{bucket.url}/data/folder.zip").list("")) == {"zarr.json"}
    with pytest.raises(SourceError, match="does not exist"):
        open_store(f"{bucket.url}/data/b.zip")
