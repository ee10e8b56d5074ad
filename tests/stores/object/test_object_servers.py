"""Sources that are none, and servers that refuse, fail, hang or end.

Against a real server (`object_server`), and against one that says what a test tells it.
"""

import errno
import io
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from builders.object_server import ObjectServer, environment_for, set_environment
from builders.readers import read_range
from builders.stores import put_bytes
from stored_objects import BIG

from zarrfuse.errors import Denied, Exists, SourceError, TimedOut, ZarrfuseError, errno_of
from zarrfuse.stores.object.bucket import Bucket, Patience
from zarrfuse.stores.object.client import account_of
from zarrfuse.stores.object.store import ObjectStore
from zarrfuse.stores.object.url import parse

IMPATIENT = Patience(connect_s=0.5, answer_s=0.5, upload_s=0.5, retries=0, retry_s=0.5)


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
    assert "s3://bucket/prefix at http://127.0.0.1:" in said and "may not be listed" in said
    assert "AWS_ACCESS_KEY_ID" in said
    assert "InvalidAccessKeyId" in said
    assert "\n" not in said


def test_server_that_fails_is_told_in_one_line():
    with refusing(400, b"<Error><Code>Odd</Code></Error>"), pytest.raises(SourceError) as caught:
        ObjectStore("s3://bucket/prefix")
    assert str(caught.value).endswith("the object store failed: Odd")


def test_disk_of_the_server_that_is_full_is_no_space():
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


def test_server_without_conditions_is_asked_what_is_there_before():
    with refusing():
        store = ObjectStore("s3://bucket", writable=True)
        for key in ("key", "other"):
            put_bytes(store, key, b"first", new=True)
            with pytest.raises(Exists):
                put_bytes(store, key, b"second", new=True)
        put_bytes(store, "key", b"third")


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


def test_every_call_ends_when_the_server_dies():
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
            lambda: put_bytes(store, "new", b"x"),
            lambda: put_bytes(store, "big", BIG),
            lambda: put_bytes(store, "new", b"x", new=True),
            lambda: put_bytes(store, "a/key", b"x"),
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


@pytest.mark.parametrize(
    "name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ACCOUNT_NAME"]
)
def test_one_url_on_two_servers_is_kept_apart(name, monkeypatch):
    told = {account_of({})}
    for value in ("http://a", "http://b"):
        monkeypatch.setenv(name, value)
        told.add(account_of({}))
        told.add(account_of({"endpoint": value}))
    assert len(told) == 5


def test_credentials_are_no_part_of_what_names_a_server():
    assert account_of({"aws_secret_access_key": "x", "region": "r"}) == account_of({})
