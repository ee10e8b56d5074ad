"""What an object store cannot keep of what a store promises, and what it does about it.

Against a real server (`object_server`), changed behind the store's back as others would; and against a
small one of this file, which refuses what is asked of it.
"""

import errno
import io
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from builders.object_server import PAGE, ObjectServer, environment_for, set_environment
from builders.readers import read_range

from zarrfuse.errors import (
    Denied,
    Exists,
    IsAFolder,
    NameTooLong,
    NotFound,
    NotSupported,
    SourceError,
    Stale,
    TimedOut,
    ZarrfuseError,
    errno_of,
)
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, opened, read
from zarrfuse.stores.object import bucket as object_bucket
from zarrfuse.stores.object.bucket import Bucket, Patience
from zarrfuse.stores.object.folders import Folders
from zarrfuse.stores.object.reader import BLOCK_BYTES
from zarrfuse.stores.object.store import ObjectStore
from zarrfuse.stores.object.url import parse

BIG = random.Random(1).randbytes(5 * BLOCK_BYTES + 12_345)
IMPATIENT = Patience(connect_s=0.5, answer_s=0.5, upload_s=0.5, retries=0, retry_s=0.5)


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


def gets_of(store, monkeypatch) -> list[tuple[int, int]]:
    """The ranges that the store will be asked for, as they are asked."""
    asked: list[tuple[int, int]] = []
    bucket = store._bucket
    get = bucket.get

    def recorded(path, start, stop, of):
        asked.append((start, stop))
        return get(path, start, stop, of)

    monkeypatch.setattr(bucket, "get", recorded)
    return asked


# --- reading


def test_any_range_equals_that_slice_over_blocks_and_past_them(store, bucket):
    bucket.put("key", BIG)
    chance = random.Random(2)
    edges = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 4 * BLOCK_BYTES, len(BIG)]
    ranges = [(a, b) for a in edges for b in edges if a <= b]
    ranges += [sorted(chance.choices(range(len(BIG)), k=2)) for _ in range(20)]
    for reread in (False, True):
        with opened(store, "key") as shared:
            for start, stop in ranges:
                assert read_range(shared, start, stop - start) == BIG[start:stop]
                if reread:
                    with opened(store, "key") as reader:
                        assert read_range(reader, start, stop - start) == BIG[start:stop]


def test_front_to_back_takes_few_requests(store, bucket, monkeypatch):
    bucket.put("key", BIG)
    asked = gets_of(store, monkeypatch)
    step = 128 << 10
    with opened(store, "key") as reader:
        pieces = [
            read_range(reader, at, min(step, len(BIG) - at)) for at in range(0, len(BIG), step)
        ]
    assert b"".join(pieces) == BIG
    assert [(0, BLOCK_BYTES), (BLOCK_BYTES, 5 * BLOCK_BYTES), (5 * BLOCK_BYTES, len(BIG))] == asked


def test_many_who_want_one_block_make_one_request(store, bucket, monkeypatch):
    bucket.put("key", BIG)
    asked = gets_of(store, monkeypatch)
    with opened(store, "key") as reader, ThreadPoolExecutor(16) as threads:
        done = [threads.submit(read_range, reader, at * 1000, 1000) for at in range(200)]
        assert b"".join(one.result() for one in done) == BIG[:200_000]
    assert asked == [(0, BLOCK_BYTES)]


def test_what_is_in_memory_is_bounded(store, bucket):
    bucket.put("key", bytes(20 * BLOCK_BYTES))
    with opened(store, "key") as reader:
        for at in range(20):
            read_range(reader, at * BLOCK_BYTES, 10)
        assert sum(map(len, reader._blocks.values())) <= 16 * BLOCK_BYTES
        assert read_range(reader, 19 * BLOCK_BYTES, 10, wait=False) == bytes(10)
        with pytest.raises(BlockingIOError):
            read_range(reader, 0, 10, wait=False)


def test_nothing_is_answered_without_waiting_before_it_was_fetched(store, bucket):
    bucket.put("folder/key", b"bytes")
    for ask in (store.open, store.stat):
        with pytest.raises(BlockingIOError):
            ask("folder/key", wait=False)
    with opened(store, "folder/key") as reader:
        with pytest.raises(BlockingIOError):
            read_range(reader, 0, 5, wait=False)
        assert read_range(reader, 0, 5) == b"bytes"
        assert read_range(reader, 1, 3, wait=False) == b"yte"


def test_empty_object_is_read_without_a_request(store, bucket, monkeypatch):
    bucket.put("empty", b"")
    asked = gets_of(store, monkeypatch)
    assert read(store, "empty") == b""
    assert asked == []


def test_listing_of_many_pages_is_whole(store, bucket):
    names = {f"{number:04}" for number in range(2 * PAGE + 7)}
    for name in names:
        bucket.put(f"folder/{name}", b"x")
    assert set(store.list("folder")) == names
    assert set(store.list("")) == {"folder"}


def test_objects_stored_in_one_second_differ_in_their_times(store, bucket):
    bucket.put("key", b"first")
    first = store.stat("key")
    bucket.put("key", b"other")
    other = store.stat("key")
    assert first.mtime_ns != other.mtime_ns
    assert other == store.list("")["key"]


# --- names


ODD_KEYS = [
    "100%",
    "a%20b",
    "a b",
    "a+b",
    "x?y#z&w",
    "größe/日本語",
    "%2e%2e/%2F",
    "back\\slash",
    "~.x",
]


def test_every_letter_of_a_key_is_kept(store, bucket, put):
    for key in ODD_KEYS:
        if "/" in key:
            store.make_folder(key.partition("/")[0])
        put(store, key, key.encode())
    assert bucket.all_keys() == sorted(ODD_KEYS)
    for key in ODD_KEYS:
        assert bucket.get(key) == read(store, key) == key.encode()
        folder, _, name = key.rpartition("/")
        assert store.list(folder)[name] == store.stat(key)


def test_prefix_is_taken_letter_by_letter(bucket, put):
    for prefix in ("a%20b/c+d", "größe", "a b"):
        put(bucket.store(prefix), "key", b"x")
        assert f"{prefix}/key" in bucket.all_keys()
        assert set(bucket.store(f"/{prefix}/", writable=False).list("")) == {"key"}


def test_folder_with_a_marker_is_a_folder_and_the_marker_is_not_listed(store, bucket):
    bucket.put("a/", b"")
    bucket.put("a/b/", b"")
    bucket.put("a/key", b"")
    assert set(store.list("")) == {"a"}
    assert set(store.list("a")) == {"b", "key"}
    assert store.list("a/b") == {}
    assert store.stat("a/b").kind is Kind.FOLDER
    with pytest.raises(NotSupported, match="a/b/ of s3://"):
        store.remove_folder("a/b")


def test_object_hides_the_folder_of_its_name(store, bucket):
    bucket.put("both", b"bytes")
    bucket.put("both/key", b"")
    assert store.list("")["both"] == store.stat("both")
    assert store.stat("both").kind is Kind.FILE
    assert read(store, "both") == b"bytes"


def test_keys_that_are_no_paths_spoil_only_the_folder_they_are_in(store, bucket):
    bucket.put("/rooted", b"")
    bucket.put("good/key", b"")
    bucket.put("x//y", b"")
    bucket.put("z/../y", b"")
    bucket.put("w/a\x01b", b"")
    bucket.put("n" * 256, b"")
    bucket.put("n" * 255, b"")
    assert set(store.list("")) == {"good", "w", "x", "z", "n" * 255}
    assert set(store.list("good")) == {"key"}
    for folder in "xzw":
        assert store.stat(folder).kind is Kind.FOLDER
        with pytest.raises(NotSupported, match=f"{folder} cannot be listed") as caught:
            store.list(folder)
        assert errno_of(caught.value) == errno.ENOTSUP


@pytest.mark.parametrize("key", ["a\nb", "a\x7f", "x/../y", "./x", "x//y", "latin1-\udce9"])
def test_what_cannot_be_a_key_is_not_there_and_cannot_be_made(store, put, key):
    for ask in (store.stat, store.open, store.list, store.remove):
        with pytest.raises(NotFound):
            ask(key)
    for make in (store.make_folder, lambda key: put(store, key, b"")):
        with pytest.raises(NotSupported):
            make(key)


def test_key_that_is_too_long_is_refused(store, put):
    with pytest.raises(NameTooLong):
        put(store, "k" * 1025, b"")


def test_own_folder_is_not_listed_at_the_root(store, bucket):
    bucket.put(f"{OWN_NAME}/a.journal", b"")
    bucket.put(f"folder/{OWN_NAME}/key", b"")
    assert set(store.list("")) == {"folder"}
    assert set(store.list(OWN_NAME)) == {"a.journal"}
    assert set(store.list("folder")) == {OWN_NAME}


# --- what changes while it is open


@pytest.mark.parametrize("change", ["other bytes", "fewer bytes", "deleted"])
def test_object_that_others_change_is_stale(store, bucket, change):
    bucket.put("key", BIG)
    with opened(store, "key") as reader:
        assert read_range(reader, 0, 10) == BIG[:10]
        match change:
            case "other bytes":
                bucket.put("key", bytes(len(BIG)))
            case "fewer bytes":
                bucket.put("key", b"x")
            case "deleted":
                bucket.delete("key")
        for size in (10, len(BIG) - 2 * BLOCK_BYTES):
            with pytest.raises(Stale) as caught:
                read_range(reader, 2 * BLOCK_BYTES, size)
            assert errno_of(caught.value) == errno.ESTALE


@pytest.mark.parametrize("change", ["put", "remove", "rename over", "rename away"])
def test_reader_keeps_its_bytes_when_this_process_changes_the_object(store, bucket, put, change):
    bucket.put("key", BIG)
    bucket.put("other", b"other")
    readers = [store.open("key") for _ in range(3)]
    assert read_range(readers[0], BLOCK_BYTES, 10) == BIG[BLOCK_BYTES : BLOCK_BYTES + 10]
    match change:
        case "put":
            put(store, "key", b"new")
        case "remove":
            store.remove("key")
        case "rename over":
            store.rename("other", "key")
        case "rename away":
            store.rename("key", "new")
    bucket.delete("key")
    for reader in readers:
        assert read_range(reader, 0, len(BIG)) == BIG
        assert read_range(reader, len(BIG) - 5, 5, wait=False) == BIG[-5:]
        reader.close()
        reader.close()


def test_reader_stays_stale_when_this_process_changes_what_others_changed(store, bucket, put):
    bucket.put("key", b"first")
    with opened(store, "key") as reader:
        bucket.put("key", b"others")
        put(store, "key", b"ours")
        with pytest.raises(Stale):
            read_range(reader, 0, 5)
    assert read(store, "key") == b"ours"


def test_bucket_that_keeps_versions_keeps_what_is_open(store, bucket, monkeypatch, put):
    bucket.ask(
        "PUT",
        query="?versioning",
        body=b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        b"<Status>Enabled</Status></VersioningConfiguration>",
    )
    bucket.put("key", b"first")
    asked = gets_of(store, monkeypatch)
    with opened(store, "key") as reader:
        bucket.put("key", b"others")
        put(store, "key", b"ours")
        bucket.delete("key")
        assert asked == []
        assert read_range(reader, 0, 5) == b"first"


def test_who_opens_what_is_being_replaced_never_sees_it_stale_or_mixed(store, put):
    whole = [bytes([number]) * (100_000 + number) for number in range(4)]
    put(store, "key", whole[0])
    ended = threading.Event()

    def write(number: int) -> None:
        for _ in range(10):
            put(store, "key", whole[number])

    def look() -> None:
        while not ended.is_set():
            with opened(store, "key") as reader:
                for at in (50_000, 0):  # two requests would see two objects
                    data = read_range(reader, at, 40_000)
                    assert data == data[:1] * 40_000
                assert reader.size == 100_000 + data[0]

    with ThreadPoolExecutor(6) as threads:
        looking = [threads.submit(look) for _ in range(3)]
        try:
            for done in [threads.submit(write, number) for number in range(1, 4)]:
                done.result()
        finally:
            ended.set()
        for done in looking:
            done.result()


# --- writing


def test_put_beyond_the_limit_of_one_request_comes_in_parts(store, bucket, put, monkeypatch):
    monkeypatch.setattr(object_bucket, "SINGLE_PUT_BYTES", len(BIG) - 1)
    monkeypatch.setattr(object_bucket, "_MULTIPART_BYTES", 5 << 20)
    put(store, "key", BIG)
    assert bucket.get("key") == BIG
    assert bucket.all_keys() == ["key"]
    with pytest.raises(Exists):
        put(store, "key", bytes(len(BIG)), new=True)
    put(store, "other", BIG, new=True)
    assert bucket.get("other") == bucket.get("key") == BIG


def test_of_many_links_to_one_name_one_succeeds(store, bucket):
    for number in range(8):
        bucket.put(f"source {number}", b"%d" % number)

    def attempt(number: int) -> int | None:
        try:
            store.link(f"source {number}", "lock")
        except Exists:
            return None
        return number

    with ThreadPoolExecutor(8) as threads:
        won = [number for number in threads.map(attempt, range(8)) if number is not None]
    assert len(won) == 1
    assert bucket.get("lock") == b"%d" % won[0]


def test_folder_goes_on_existing_without_keys_for_who_emptied_it(store, bucket, put):
    bucket.put("a/b/key", b"")
    store.remove("a/b/key")
    assert bucket.all_keys() == []
    assert store.list("a/b") == {}
    assert set(store.list("a")) == {"b"}
    assert store.stat("a/b").kind is Kind.FOLDER
    with pytest.raises(NotFound):
        bucket.store().stat("a")
    put(store, "a/b/key", b"")
    assert set(store.list("a/b")) == {"key"}
    store.rename("a/b/key", "key")
    store.remove_folder("a/b")
    assert store.list("a") == {}
    with pytest.raises(NotFound):
        store.stat("a/b")


def test_folder_comes_to_be_with_a_key_and_goes_with_none_but_on_request(store, put):
    put(store, "a/b/key", b"bytes")
    store.rename("a/b/key", "c/d/key")
    store.link("c/d/key", "e/key")
    assert {key: set(store.list(key)) for key in ("", "a", "a/b", "c/d", "e")} == {
        "": {"a", "c", "e"},
        "a": {"b"},
        "a/b": set(),
        "c/d": {"key"},
        "e": {"key"},
    }
    with pytest.raises(IsAFolder):
        put(store, "c", b"")
    with pytest.raises(IsAFolder):
        store.rename("e/key", "c/d")
    with pytest.raises(Exists):
        store.link("e/key", "c/d")


def test_made_folder_is_seen_by_others_once_a_key_is_in_it(store, bucket, put):
    store.make_folder("a")
    other = bucket.store()
    with pytest.raises(NotFound):
        other.stat("a")
    put(store, "a/key", b"")
    assert other.stat("a") == Entry("a", Kind.FOLDER, 0, other.stat("").mtime_ns)


def test_of_many_makers_of_one_folder_one_succeeds(store):
    def attempt(_: int) -> bool:
        try:
            store.make_folder("a")
        except Exists:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(attempt, range(8))) == 1


def test_kept_folders_know_those_they_lie_in():
    folders = Folders()
    assert folders.keep("a/b/c")
    assert not folders.keep("a/b")
    assert (folders.names(""), folders.names("a"), folders.names("a/b/c")) == (["a"], ["b"], [])
    folders.drop("a/b/c")
    assert folders.is_kept("a/b")
    assert not folders.is_kept("a/b/c")
    folders.saw("x/y")
    assert folders.is_known("x")
    assert not folders.is_kept("x")
    folders.drop("x/y")
    assert folders.is_kept("x")
    assert not folders.is_known("x/y")


# --- sources and servers that are no good


def test_prefix_without_keys_is_no_source_unless_it_is_to_be_written(bucket):
    bucket.put("prefixed/key", b"")
    with pytest.raises(SourceError, match="does not exist: there are no keys below it"):
        bucket.store("prefix", writable=False)
    assert bucket.store("prefix", writable=True).list("") == {}
    assert set(bucket.store("", writable=False).list("")) == {"prefixed"}


def test_bucket_that_is_not_there_is_no_source(object_server):
    with (
        set_environment(object_server.environment),
        pytest.raises(SourceError, match="there is no bucket nobodys-bucket"),
    ):
        ObjectStore("s3://nobodys-bucket/x", writable=True)


@pytest.mark.parametrize("source", ["s3://", "s3:///x", "s3://bucket/a//b", "s3://bucket/../b"])
def test_url_that_names_nothing_is_refused(source):
    with pytest.raises(SourceError, match="the source s3://"):
        ObjectStore(source)


class Refusing(BaseHTTPRequestHandler):
    """Answers as the server it belongs to says; objects are kept, conditions are not known."""

    def do_GET(self) -> None:
        if self.server.status != 200:  # type: ignore[attr-defined]
            self.answer(self.server.status, self.server.body)  # type: ignore[attr-defined]
            return
        kept = self.server.kept.get(self.path)  # type: ignore[attr-defined]
        if "list-type" in self.path:
            self.answer(200, b"<ListBucketResult></ListBucketResult>")
        elif kept is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self.answer(200, kept)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if "If-None-Match" in self.headers:
            self.answer(501, b"<Error><Code>NotImplemented</Code></Error>")
            return
        self.server.kept[self.path] = data  # type: ignore[attr-defined]
        self.answer(200, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Fri, 17 May 2024 12:34:56 GMT")
        self.send_header("ETag", '"tag"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args) -> None:
        pass


@contextmanager
def refusing(status: int = 200, body: bytes = b"") -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.status, server.body, server.kept = status, body, {}  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with set_environment(environment_for(server.server_address[1])):
            yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_credentials_that_are_wrong_are_said_to_be():
    body = (
        b"<Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id you provided does"
        b" not exist in our records.</Message></Error>"
    )
    with refusing(403, body), pytest.raises(SourceError) as caught:
        ObjectStore("s3://bucket/prefix")
    said = str(caught.value)
    assert "s3://bucket/prefix may not be listed" in said
    assert "AWS_ACCESS_KEY_ID" in said
    assert "InvalidAccessKeyId" in said
    assert "\n" not in said


def test_server_that_fails_is_told_in_one_line():
    with refusing(400, b"<Error><Code>Odd</Code></Error>"), pytest.raises(SourceError) as caught:
        ObjectStore("s3://bucket/prefix")
    assert str(caught.value).endswith("the object store failed: Odd")


def test_disk_of_the_server_that_is_full_is_no_space(put):
    with refusing() as server:
        store = ObjectStore("s3://bucket", writable=True)
        server.status = 507  # type: ignore[attr-defined]
        with pytest.raises(OSError) as caught:
            store.stat("key")
        assert errno_of(caught.value) == errno.ENOSPC


def test_key_that_may_not_be_read_is_denied():
    with refusing() as server:
        store = ObjectStore("s3://bucket")
        server.status = 403  # type: ignore[attr-defined]
        with pytest.raises(Denied) as caught:
            store.stat("key")
        assert errno_of(caught.value) == errno.EACCES


def test_server_without_conditions_is_asked_what_is_there_before(put):
    with refusing():
        store = ObjectStore("s3://bucket", writable=True)
        for key in ("key", "other"):
            put(store, key, b"first", new=True)
            with pytest.raises(Exists):
                put(store, key, b"second", new=True)
        put(store, "key", b"third")


def test_server_that_is_gone_is_an_error():
    with socket.socket() as unheard:  # bound and not listening: nobody else gets the port
        unheard.bind(("127.0.0.1", 0))
        with set_environment(environment_for(unheard.getsockname()[1])):
            with pytest.raises(SourceError, match="Connection refused") as caught:
                ObjectStore("s3://bucket", patience=IMPATIENT)
            assert "\n" not in str(caught.value)
            bucket = Bucket(parse("s3://bucket"), IMPATIENT)
        with pytest.raises(ZarrfuseError, match=r"key: .*Connection refused") as failed:
            bucket.find("key")
        assert errno_of(failed.value) == errno.EIO


def test_server_that_never_answers_is_no_source():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = environment_for(silent.getsockname()[1])
        with set_environment(environment), pytest.raises(SourceError, match="does not answer"):
            ObjectStore("s3://bucket", patience=IMPATIENT)


def test_every_call_ends_when_the_server_dies(put):
    server = ObjectServer()
    try:
        bucket = server.bucket()
        bucket.put("a/key", BIG)
        bucket.put("key", b"")
        store = bucket.store()
        reader, held = store.open("a/key"), store.open("a/key")
        calls = [
            lambda: store.stat("key"),
            lambda: store.list(""),
            lambda: store.open("key"),
            lambda: read_range(reader, 0, 10),
            lambda: read_range(reader, 0, len(BIG)),
            lambda: put(store, "new", b"x"),
            lambda: put(store, "big", BIG),
            lambda: put(store, "new", b"x", new=True),
            lambda: put(store, "a/key", b"x"),
            lambda: store.remove("key"),
            lambda: store.rename("key", "new"),
            lambda: store.link("key", "new"),
            lambda: store.make_folder("a/new"),
            lambda: store.remove_folder("a"),
        ]
        server.freeze()
        with set_environment(server.environment):
            impatient = Bucket(parse(bucket.url), IMPATIENT)
        store._bucket._quick, store._bucket._slow = impatient._quick, impatient._slow
        for call in calls:
            with pytest.raises(TimedOut) as caught:
                call()
            assert errno_of(caught.value) == errno.ETIMEDOUT
        held.close()
        reader.close()
    finally:
        server.stop()


def test_closed_store_answers_nothing_and_its_readers_go_on(bucket):
    bucket.put("key", b"bytes")
    store = bucket.store()
    reader = store.open("key")
    store.close()
    store.close()
    for ask in (store.open, store.stat, store.list):
        with pytest.raises(OSError):
            ask("key")
    assert read_range(reader, 0, 5) == b"bytes"
    reader.close()
    with pytest.raises(OSError):
        read_range(reader, 0, 5)


def test_store_that_was_opened_before_a_fork_says_so_instead_of_hanging(bucket):
    script = f"""
import os
from zarrfuse.stores.object.store import ObjectStore
store = ObjectStore({bucket.url!r})
if os.fork() == 0:
    try:
        store.stat("key")
    except Exception as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **bucket.server.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "was opened before a fork" in done.stdout


def test_put_reads_the_descriptor_and_not_its_position(store, bucket, tmp_path):
    with open(tmp_path / "source", "w+b") as file:
        file.write(BIG)
        file.seek(0, io.SEEK_END)
        store.put("key", file.fileno(), 7, len(BIG) - 7)
    assert bucket.get("key") == BIG[7:-7]
