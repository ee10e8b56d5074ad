"""A store of zarr-python finds, lists and gives what is in it, whatever library is below it."""

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import zarr
from builders.zarr_stores import KINDS, filled, memory, obstore_memory, wrapped, write_image
from zarr.core.buffer import cpu
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, MemoryStore, WrapperStore

from zarrfuse.errors import Denied, NotFound, NotSupported, Stale, ZarrfuseError
from zarrfuse.stores.remote.requests import Found, Listing, TryAgain
from zarrfuse.stores.zarr_store.requests import ZarrRequests

KEYS = {
    "zarr.json": b'{"zarr_format": 3, "node_type": "group"}',
    "README with spaces.txt": b"hello",
    "a/zarr.json": b"{}",
    "a/c/0/0.tiff": bytes(range(256)) * 40,
    "a/c/0/1.tiff": b"II*\0",
    "a/c/1/0.tiff": b"x",
    "a/empty": b"",
    "größe/µm.tif": b"unicode",
}


@pytest.fixture(params=KINDS)
def requests(request: pytest.FixtureRequest, tmp_path: Path) -> ZarrRequests:
    return ZarrRequests(KINDS[request.param](KEYS, tmp_path), "test://store")


def run(ask: Any) -> Any:
    async def main() -> Any:
        return await ask if inspect.isawaitable(ask) else await ask()

    return asyncio.run(main())


def names(listing: Listing) -> tuple[list[str], list[str]]:
    return [*listing.files], [*listing.folders]


def test_each_key_is_found_with_its_size(requests: ZarrRequests) -> None:
    async def ask() -> dict[str, int]:
        return {key: (await requests.find(key)).size for key in KEYS}

    assert run(ask) == {key: len(data) for key, data in KEYS.items()}


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "a/c",
        "nothing",
        "a/c/0/0.tiff/below",
        "a/c/9/9.tiff",
        "a/../zarr.json",
        "../local/zarr.json",
        "a//zarr.json",
        "nul\0",
    ],
)
def test_what_is_no_key_is_not_found(requests: ZarrRequests, path: str) -> None:
    with pytest.raises(NotFound):
        run(requests.find(path))


@pytest.mark.parametrize(
    ("path", "files", "folders"),
    [
        ("", ["README with spaces.txt", "zarr.json"], ["a", "größe"]),
        ("a", ["empty", "zarr.json"], ["c"]),
        ("a/c", [], ["0", "1"]),
        ("a/c/0", ["0.tiff", "1.tiff"], []),
        ("größe", ["µm.tif"], []),
    ],
)
def test_a_folder_has_its_files_and_folders(
    requests: ZarrRequests, path: str, files: list[str], folders: list[str]
) -> None:
    found = run(requests.list(path))
    assert names(found) == (files, folders)
    assert found.is_whole


def test_a_listing_says_the_sizes_that_it_knows(requests: ZarrRequests) -> None:
    async def ask() -> None:
        for name, listed in (await requests.list("a/c/0")).files.items():
            assert listed is None or listed == await requests.find(f"a/c/0/{name}")

    run(ask)


@pytest.mark.parametrize("path", ["nothing", "a/nothing/below", "zarr.json", "a/c/0/0.tiff"])
def test_what_is_no_folder_is_not_listed(requests: ZarrRequests, path: str) -> None:
    with pytest.raises(NotFound):
        run(requests.list(path))


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 10240), (0, 1), (100, 5000), (10239, 10240), (7, 7)]
)
def test_a_range_has_these_bytes(requests: ZarrRequests, start: int, stop: int) -> None:
    async def ask() -> bytes:
        of = await requests.find("a/c/0/0.tiff")
        return bytes(await requests.get("a/c/0/0.tiff", start, stop, of))

    assert run(ask) == KEYS["a/c/0/0.tiff"][start:stop]


def test_a_shorter_value_is_stale(requests: ZarrRequests) -> None:
    with pytest.raises(Stale):
        run(requests.get("a/c/0/1.tiff", 0, 8, Found(8, 0, None)))


def test_a_deleted_value_is_stale(requests: ZarrRequests) -> None:
    with pytest.raises((Stale, NotFound)):
        run(requests.get("a/c/0/7.tiff", 0, 8, Found(8, 0, None)))


@pytest.mark.parametrize("kind", ["local", "obstore-memory", "fsspec-local"])
def test_another_value_of_the_same_size_is_stale_where_there_are_times_or_versions(
    kind: str, tmp_path: Path
) -> None:
    store = KINDS[kind](KEYS, tmp_path)
    requests = ZarrRequests(store, "test://store")

    async def ask() -> None:
        of = await requests.find("a/c/0/0.tiff")
        assert of.is_certain
        assert bytes(await requests.get("a/c/0/0.tiff", 0, 10, of)) == bytes(range(10))
        if kind == "obstore-memory":
            await store.set("a/c/0/0.tiff", cpu.Buffer.from_bytes(bytes(of.size)))
        else:
            path = tmp_path / "local/a/c/0/0.tiff"
            path.write_bytes(bytes(of.size))
            os.utime(path, ns=(of.mtime_ns, of.mtime_ns + 10**9))
        with pytest.raises(Stale):
            await requests.get("a/c/0/0.tiff", 0, 10, of)

    run(ask)


def test_an_empty_local_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "store/empty").mkdir(parents=True)
    requests = ZarrRequests(LocalStore(tmp_path / "store"), "test://store")
    assert names(run(requests.list(""))) == ([], ["empty"])
    assert names(run(requests.list("empty"))) == ([], [])


def test_an_empty_store_has_an_empty_root(tmp_path: Path) -> None:
    for make in (memory, obstore_memory, wrapped):
        assert names(run(ZarrRequests(make({}, tmp_path), "test://store").list(""))) == ([], [])


def test_names_that_no_file_can_have_are_not_listed(tmp_path: Path) -> None:
    keys = {"ok": b"", "..": b"", "./x": b"", "a//b": b"", "nul\0": b""}
    requests = ZarrRequests(memory(keys, tmp_path), "test://store")
    assert names(run(requests.list(""))) == (["ok"], ["a"])
    assert names(run(requests.list("a"))) == ([], [])


class Counting(WrapperStore):
    """Counts what it is asked; of nothing but zarr-python's interface."""

    asked = 0

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        self.asked += 1
        return super().list_dir(prefix)


def test_a_folder_of_chunks_costs_no_request_for_each_name(tmp_path: Path) -> None:
    chunks = {f"a/c/{row}/{column}.tiff": b"x" for row in range(100) for column in range(100)}
    flat = {f"b/{row}.{column}": b"x" for row in range(100) for column in range(100)}
    store = Counting(memory({**chunks, **flat, "a/zarr.json": b"", "b/.zarray": b""}, tmp_path))
    requests = ZarrRequests(store, "test://store")
    assert [len(each) for each in names(run(requests.list("a/c")))] == [0, 100]
    assert [len(each) for each in names(run(requests.list("a/c/50")))] == [100, 0]
    assert [len(each) for each in names(run(requests.list("b")))] == [10_001, 0]
    assert store.asked <= 3 * (1 + 3)


def test_names_that_differ_in_numbers_and_are_not_alike_are_told_apart(tmp_path: Path) -> None:
    keys = {"0/x": b"", "1": b"", "2/x": b"", "3": b"", "4": b"", "5/x": b""}
    requests = ZarrRequests(wrapped(keys, tmp_path), "test://store")
    assert names(run(requests.list(""))) == (["1", "3", "4"], ["0", "2", "5"])


class Failing(WrapperStore):
    """A store whose requests raise what they are told to."""

    error: Exception

    async def getsize(self, key: str) -> int:
        raise self.error

    async def get(self, *arguments: Any) -> Any:
        raise self.error

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        raise self.error


class ClientConnectionError(Exception):
    """The name that aiohttp has for a lost connection."""


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (KeyError("k"), NotFound),
        (FileNotFoundError("k"), NotFound),
        (PermissionError("no"), Denied),
        (TimeoutError(), TryAgain),
        (ConnectionResetError(), TryAgain),
        (ClientConnectionError("lost"), TryAgain),
        (NotImplementedError(), NotSupported),
        (ValueError("of\nmany lines"), ZarrfuseError),
    ],
)
def test_an_exception_of_a_library_is_one_of_zarrfuse(
    raised: Exception, expected: type[ZarrfuseError], tmp_path: Path
) -> None:
    store = Failing(memory(KEYS, tmp_path))
    store.error = raised
    requests = ZarrRequests(store, "test://store")
    asked: list[Callable[[], Any]] = [
        lambda: requests.find("a/x"),
        lambda: requests.list("a"),
        lambda: requests.get("a/x", 0, 1, Found(1, 0, None)),
    ]
    for ask in asked:
        with pytest.raises(ZarrfuseError) as caught:
            run(ask)
        assert type(caught.value) is expected
        assert "\n" not in str(caught.value)


class NotListing(WrapperStore):
    supports_listing = False


def test_a_store_that_cannot_list_shows_what_its_documents_name(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "written")
    array = group.create_array("image", shape=(4, 4), chunks=(2, 2), dtype="uint8")
    array[:2] = 7
    zarr.consolidate_metadata(group.store)
    requests = ZarrRequests(NotListing(LocalStore(tmp_path / "written")), "test://store")
    assert not requests.lists_all

    async def asked() -> None:
        root = await requests.list("")
        assert (set(root.files), root.folders, root.is_whole) == ({"zarr.json"}, ["image"], False)
        chunks = await requests.list("image/c/1")
        assert (dict(chunks.files), chunks.is_whole) == ({"0": None, "1": None}, True)
        found = await requests.find("image/c/0/1")
        assert found.size > 0
        with pytest.raises(NotFound):
            await requests.find("image/c/1/1")
        with pytest.raises(NotFound):
            await requests.list("image/c/2")

    run(asked())


def test_a_store_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    requests = ZarrRequests(LocalStore(tmp_path / "later", read_only=True), "test://store")
    with pytest.raises(NotFound):
        run(requests.find("key"))
    (tmp_path / "later").mkdir()
    (tmp_path / "later/key").write_bytes(b"12")
    assert run(requests.find("key")).size == 2


def test_a_store_stays_open_and_is_seen_as_it_is_now(tmp_path: Path) -> None:
    store = filled(MemoryStore(), {"a": b"1"})
    requests = ZarrRequests(store, "test://store")
    assert names(run(requests.list(""))) == (["a"], [])
    filled(store, {"b": b"22"})
    assert run(requests.find("b")).size == 2
    requests.close()
    filled(store, {"c": b""})


@pytest.mark.parametrize("kind", ["memory", "obstore-memory", "fsspec-memory", "logging"])
def test_what_zarr_python_writes_is_shown(kind: str, tmp_path: Path) -> None:
    store = KINDS[kind]({}, tmp_path)
    write_image(store)
    requests = ZarrRequests(store, "test://store")
    assert names(run(requests.list(""))) == (["zarr.json"], ["a", "b"])
    assert names(run(requests.list("a/c/1"))) == (["0", "1"], [])
    assert names(run(requests.list("b/c"))) == (["zarr.json"], [])


def test_a_client_that_belongs_to_another_event_loop_is_not_shared(tmp_path: Path) -> None:
    KINDS["local"](KEYS, tmp_path)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "local"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        store = FsspecStore.from_url(f"http://127.0.0.1:{server.server_port}")
        assert sync(store.exists("zarr.json")), "its connections are of zarr-python's loop now"
        requests = ZarrRequests(store, "http://store")

        async def ask() -> bytes:
            of = await requests.find("a/c/0/0.tiff")
            return bytes(await requests.get("a/c/0/0.tiff", 0, of.size, of))

        assert run(ask) == KEYS["a/c/0/0.tiff"]
        assert sync(store.exists("zarr.json")), "and it is usable there still"
        server.shutdown()
