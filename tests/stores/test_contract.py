"""What every store promises (`zarrfuse.stores.base`), held against every store from one dict."""

import errno
import gc
import os
import random
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
from builders.documents import array, suffix_keys
from builders.http_server import How, serving_http
from builders.object_server import TestBucket, set_environment
from builders.processes import open_files
from builders.readers import read_range
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sampling import examples

from zarrfuse.check.listing import entries_in
from zarrfuse.config import RemoteConfig
from zarrfuse.errors import Denied, NotAFolder, NotFound, Stale, ZarrfuseError, errno_of
from zarrfuse.stores.base import Entry, Kind, Store, opened, read
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.object.store import ObjectStore
from zarrfuse.stores.opening import open_store
from zarrfuse.stores.remote.store import RemoteStore
from zarrfuse.stores.zarr_store.requests import ZarrRequests
from zarrfuse.stores.zip.store import ZipStore

# Half random, half zeros: deflate stores some blocks as they are and shrinks others.
MIXED = b"".join(
    random.Random(seed).randbytes(5_000) + bytes(5_000 + seed) for seed in range(30)
)  # about 300 kB: several blocks of every decoder

KEYS: dict[str, bytes] = {
    "zarr.json": b'{"zarr_format": 3, "node_type": "group"}',
    "empty": b"",
    "README with spaces.txt": b"hello",
    "img.zarr/zarr.json": array((2, 2), (1, 1), chunk_key_encoding=suffix_keys(".tiff")),
    "img.zarr/c/0/0.tiff": MIXED,
    "img.zarr/c/0/1.tiff": b"II*\0" * 1000,
    "img.zarr/c/1/0.tiff": b"x",
    "größe/µm/日本語.tif": b"unicode",
    "a" * 255: b"the longest name",
}
EMPTY_FOLDERS = ["nothing", "img.zarr/also nothing"]
WHEN = datetime(2024, 5, 17, 12, 34, 56)  # even seconds: a zip keeps no others
MTIME_NS = int(WHEN.timestamp()) * 10**9

REMOTE = (ObjectStore, RemoteStore)

RAW_NAME = os.fsdecode(b"latin1-\xe9.tif")


def write_folder(root: Path) -> None:
    for key, data in {**KEYS, RAW_NAME: b"not UTF-8"}.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, ns=(MTIME_NS, MTIME_NS))
    for folder in EMPTY_FOLDERS:
        (root / folder).mkdir(parents=True)


def write_zip(path: Path, method: int) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for key, data in {**KEYS, **{f"{folder}/": b"" for folder in EMPTY_FOLDERS}}.items():
            info = zipfile.ZipInfo(key, WHEN.timetuple()[:6])
            info.compress_type = method
            archive.writestr(info, data)


def make_local(at: Path) -> LocalStore:
    at.mkdir()
    write_folder(at)
    return LocalStore(str(at))


def make_stored(at: Path) -> ZipStore:
    write_zip(at, zipfile.ZIP_STORED)
    return ZipStore(str(at))


def make_deflated(at: Path) -> ZipStore:
    write_zip(at, zipfile.ZIP_DEFLATED)
    return ZipStore(str(at))


def fill(bucket: TestBucket) -> None:
    """All keys below a prefix, with a neighbour whose name begins like it."""
    for key, data in KEYS.items():
        bucket.put(f"a/store/{key}", data)
    for folder in EMPTY_FOLDERS:
        bucket.put(f"a/store/{folder}/", b"")
    bucket.put("a/store of others/zarr.json", b"{}")


def make_object(request, _: Path) -> Store:
    """As a mount that writes has it."""
    bucket = request.getfixturevalue("object_server").bucket()
    fill(bucket)
    return bucket.store("a/store", writable=False)


def make_object_cached(request, at: Path) -> Store:
    """As a mount that only reads has it, with a cache on the disk."""
    bucket = request.getfixturevalue("object_server").bucket()
    fill(bucket)
    return bucket.cached_store("a/store", cache_dir=str(at))


def make_zarr_store(request, _: Path) -> Store:
    """A store of zarr-python on a bucket."""
    from obstore.store import S3Store
    from zarr.storage import ObjectStore as ZarrObjectStore

    bucket = request.getfixturevalue("object_server").bucket()
    fill(bucket)
    with set_environment(bucket.server.environment):
        opened = S3Store(bucket.name, prefix="a/store", virtual_hosted_style_request=False)
    requests = ZarrRequests(ZarrObjectStore(opened, read_only=True), "zarr://store")
    return RemoteStore(requests, RemoteConfig())


MAKERS: dict[str, Callable[[Path], Store]] = {
    "local": make_local,
    "zip-stored": make_stored,
    "zip-deflated": make_deflated,
}


def make_http(how: How) -> Callable[..., Store]:
    """nginx."""

    def make(request, at: Path) -> Store:
        root = at.with_name("served")
        write_folder(root)
        (root / RAW_NAME).unlink()  # WebDAV is XML, and XML is UTF-8
        serving = serving_http(root, at.with_name("nginx"), how)
        server = serving.__enter__()
        request.addfinalizer(lambda: serving.__exit__(None, None, None))
        return open_store(server.url)

    return make


SERVED: dict[str, Callable[..., Store]] = {
    "http-webdav": make_http("webdav"),
    "http-html": make_http("html"),
    "http-unlisted": make_http("none"),
    "object": make_object,
    "object-cached": make_object_cached,
    "zarr-store": make_zarr_store,
}
"""Made of the fixtures of their servers, and a folder for themselves."""


@pytest.fixture(scope="module", params=[*MAKERS, *SERVED])
def store(request, tmp_path_factory):
    at = tmp_path_factory.mktemp("contract") / "store.zip"
    if request.param in SERVED:
        store: Store = SERVED[request.param](request, at)
    else:
        store = MAKERS[request.param](at)
    yield store
    store.close()


@pytest.fixture(params=MAKERS)
def own_store(request, tmp_path):
    """One of files that the test may spoil (objects: `test_object`).

    It lies at `tmp_path / "store.zip"`, a folder or a zip.
    """
    store = MAKERS[request.param](tmp_path / "store.zip")
    yield store
    store.close()


def folders() -> set[str]:
    found = {""}
    for folder in [*(key.rpartition("/")[0] for key in KEYS), *EMPTY_FOLDERS]:
        names = folder.split("/")
        found.update("/".join(names[:depth]) for depth in range(1, len(names) + 1))
    return found


def lists_time(store: Store) -> bool:
    """Whether it has the times of the files that were served."""
    return isinstance(store, RemoteStore) and store.url.startswith("http")


def listed(store: Store, folder: str) -> dict[str, Entry]:
    """What it lists, with sizes that it tells only when it is asked."""
    return {entry.name: entry for entry in entries_in(store, folder)}


@pytest.fixture
def listing(store, request):
    """A store that lists what is there, not only what documents name."""
    if "http-unlisted" in request.node.callspec.id:
        pytest.skip("the server lists nothing, and no document names these files")
    return store


def mtime_ns(store: Store, entry: Entry) -> int:
    """The time a file was given; objects have that of their request."""
    if isinstance(store, REMOTE) and not lists_time(store):
        assert entry.mtime_ns > MTIME_NS
        return entry.mtime_ns
    return MTIME_NS


def _without_status(entry: Entry) -> Entry:
    """What every store tells of a file."""
    return replace(entry, access=None, identity=0, ctime_ns=0, atime_ns=0)


def test_lists_every_name_with_kind_size_and_time(listing):
    store = listing
    expected: dict[str, set[str]] = {folder: set() for folder in folders()}
    for key in [*KEYS, *(folders() - {""})]:
        parent, _, name = key.rpartition("/")
        expected[parent].add(name)
    for folder, names in expected.items():
        entries = listed(store, folder)
        entries.pop(RAW_NAME, None)
        assert set(entries) == names
        for name, entry in entries.items():
            key = f"{folder}/{name}" if folder else name
            assert entry.name == name
            assert not entry.denied
            if key in KEYS:
                known = Entry(name, Kind.FILE, len(KEYS[key]), mtime_ns(store, entry))
                assert _without_status(entry) == known
            else:
                assert (entry.kind, entry.size) == (Kind.FOLDER, 0)
                assert entry.mtime_ns > 0


def test_stat_tells_what_the_listing_tells(listing):
    store = listing
    for folder in folders():
        for name, entry in listed(store, folder).items():
            found = store.stat(f"{folder}/{name}" if folder else name)
            assert (
                replace(found, atime_ns=entry.atime_ns) == entry
            )  # listing a folder sets its time


def test_root_is_a_folder(store):
    assert store.stat("").kind is Kind.FOLDER
    with pytest.raises(NotFound):
        store.open("")


def test_empty_folder_is_listed_as_empty(listing):
    for folder in EMPTY_FOLDERS:
        assert listing.list(folder) == {}


@pytest.mark.parametrize("key", ["missing", "img.zarr/c/9/9.tiff", "no/such/folder"])
def test_missing_key_is_not_found(store, key):
    for ask in (store.stat, store.open, store.list):
        with pytest.raises(NotFound) as caught:
            ask(key)
        assert errno_of(caught.value) == errno.ENOENT


def test_file_is_no_folder(store):
    with pytest.raises(NotAFolder) as caught:
        store.list("zarr.json")
    assert errno_of(caught.value) == errno.ENOTDIR
    with pytest.raises(ZarrfuseError):
        store.list("zarr.json/deeper")


def test_file_in_the_middle_of_a_key_is_not_found(store):
    for ask in (store.stat, store.open):
        with pytest.raises(NotFound):
            ask("img.zarr/zarr.json/0")


def test_folder_cannot_be_opened(store):
    with pytest.raises(NotFound):
        store.open("img.zarr")


@pytest.mark.parametrize("key", ["..", "../other", "/etc/passwd", "img.zarr/../../other", "a\0b"])
def test_key_that_leads_out_is_refused(store, key):
    for ask in (store.stat, store.open, store.list):
        with pytest.raises((NotFound, Denied)):
            ask(key)


def test_file_is_no_link(store):
    for key in ("zarr.json", "img.zarr", "missing"):
        with pytest.raises(NotFound):
            store.readlink(key)


def test_every_key_reads_as_written(listing):
    store = listing
    for key, data in KEYS.items():
        assert read(store, key) == data
        with opened(store, key) as reader:
            expected_ns = mtime_ns(store, store.stat(key))
            assert (reader.size, reader.mtime_ns) == (len(data), expected_ns)


def test_name_that_is_not_utf_8_is_listed_and_reads(store):
    if not isinstance(store, LocalStore):
        pytest.skip("names in a zip are UTF-8 or code page 437")
    assert store.list("")[RAW_NAME] == store.stat(RAW_NAME)
    assert read(store, RAW_NAME) == b"not UTF-8"


@settings(deadline=None, max_examples=examples(200), database=None)
@given(st.data())
def test_any_range_equals_that_slice(store, data):
    key = data.draw(st.sampled_from(["img.zarr/c/0/0.tiff", "img.zarr/c/0/1.tiff", "empty"]))
    whole = KEYS[key]
    offset = data.draw(st.integers(0, len(whole)))
    size = data.draw(st.integers(0, len(whole) - offset))
    with opened(store, key) as reader:
        assert read_range(reader, offset, size) == whole[offset : offset + size]


def test_many_ranges_of_one_reader_in_any_order(store):
    chance = random.Random(1)
    with opened(store, "img.zarr/c/0/0.tiff") as reader:
        for _ in range(500):
            offset = chance.randrange(len(MIXED))
            size = chance.randrange(min(20_000, len(MIXED) - offset) + 1)
            assert read_range(reader, offset, size) == MIXED[offset : offset + size]


def test_without_waiting_it_is_the_same_bytes_or_blocking(store):
    key = "img.zarr/c/0/0.tiff"
    for _ in range(3):
        try:
            reader = store.open(key, wait=False)
        except BlockingIOError:
            reader = store.open(key)
        try:
            assert read_range(reader, 100, 5000) == MIXED[100:5100]
            try:
                at_hand = read_range(reader, 200, 9000, wait=False)
            except BlockingIOError:
                at_hand = read_range(reader, 200, 9000)
            assert at_hand == MIXED[200:9200]
        finally:
            reader.close()


def test_cold_file_blocks_without_waiting_and_then_reads(own_store, tmp_path):
    at = tmp_path / "store.zip"
    key = "img.zarr/c/0/0.tiff"
    path = at / key if at.is_dir() else at
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        reader = own_store.open(key, wait=False)
    except BlockingIOError:
        reader = own_store.open(key)
    try:
        assert read_range(reader, 1000, 4096, wait=False) == MIXED[1000:5096]
    except BlockingIOError:
        assert read_range(reader, 1000, 4096) == MIXED[1000:5096]
    reader.close()


def test_stat_without_waiting_tells_the_same_or_blocks(listing):
    store = listing
    for key in KEYS:
        try:
            entry = store.stat(key, wait=False)
        except BlockingIOError:
            continue
        assert entry == store.stat(key)


def test_what_was_just_read_is_at_hand(store):
    with opened(store, "img.zarr/c/0/1.tiff") as reader:
        whole = read_range(reader, 0, reader.size)
        try:
            assert read_range(reader, 0, reader.size, wait=False) == whole
        except BlockingIOError:
            pytest.skip("the file system under the tests has no RWF_NOWAIT")


def test_eight_threads_read_one_reader_and_one_store(listing):
    store = listing
    rounds = 6 if isinstance(store, REMOTE) else 60

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(rounds):
            offset = chance.randrange(len(MIXED))
            size = chance.randrange(min(50_000, len(MIXED) - offset) + 1)
            assert read_range(shared, offset, size) == MIXED[offset : offset + size]
            key = chance.choice(list(KEYS))
            assert read(store, key) == KEYS[key]
            assert len(store.list("img.zarr/c/0")) == 2

    with opened(store, "img.zarr/c/0/0.tiff") as shared, ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, seed) for seed in range(8)]:
            done.result()


def test_reader_outlives_the_deletion_of_what_it_reads(own_store, tmp_path):
    at = tmp_path / "store.zip"
    key = "img.zarr/c/0/0.tiff"
    with opened(own_store, key) as reader:
        (at / key if at.is_dir() else at).unlink()
        assert read_range(reader, 0, reader.size) == MIXED


def test_shrunken_file_is_stale_not_short(own_store, tmp_path):
    at = tmp_path / "store.zip"
    key = "img.zarr/c/0/0.tiff"
    with opened(own_store, key) as reader:
        os.truncate(at / key if at.is_dir() else at, 200)
        with pytest.raises(Stale) as caught:
            read_range(reader, 0, reader.size)
        assert errno_of(caught.value) == errno.ESTALE


def test_read_refuses_what_is_larger_than_its_limit(store):
    assert read(store, "README with spaces.txt", limit=5) == b"hello"
    with pytest.raises(ValueError, match=r"README with spaces\.txt has 5 bytes"):
        read(store, "README with spaces.txt", limit=4)


def test_opened_closes_also_after_an_error(store):
    with pytest.raises(ZeroDivisionError), opened(store, "zarr.json") as reader:
        raise ZeroDivisionError
    with pytest.raises(OSError):
        read_range(reader, 0, 1)
    reader.close()  # twice does nothing


def test_space_is_that_of_the_disk(store, tmp_path):
    total, free = store.space()
    assert 0 <= free <= total
    if isinstance(store, REMOTE):
        assert free >= 1 << 40
        return
    disk = os.statvfs(tmp_path)
    assert total == disk.f_blocks * disk.f_frsize


def test_closed_store_opens_nothing_and_closes_again(own_store):
    own_store.close()
    with pytest.raises((OSError, ZarrfuseError)):
        own_store.open("zarr.json")
    own_store.close()


def test_no_descriptor_is_left_behind(tmp_path):
    gc.collect()  # what failed tests before this one still hold through their tracebacks
    before = open_files()
    for name, make in MAKERS.items():
        store = make(tmp_path / f"{name}.zip")
        for folder in folders():
            store.list(folder)
        for key, data in KEYS.items():
            store.stat(key)
            assert read(store, key) == data
        for key in ("missing", "zarr.json/x", "img.zarr", ".."):
            with pytest.raises(ZarrfuseError):
                store.open(key)
        store.close()
    assert open_files().items() <= before.items()  # those of tests before this one may be closed
