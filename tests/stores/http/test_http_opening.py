"""Opening a URL: whether it is there, and what is said if not."""

import subprocess
import sys
import zipfile

import pytest
from builders.documents import group
from builders.folders import write_keys
from builders.http_server import answering

from zarrfuse.errors import NotFound, SourceDenied, SourceError, SourceTimedOut, UnusableSource
from zarrfuse.stores.http.opening import http_file, http_requests


def failure(run, kind: type[SourceError], url: str, **options) -> str:
    with pytest.raises(SourceError) as caught:
        run(http_requests(url, **{"timeout_s": 5.0, **options}))
    assert type(caught.value) is kind
    return str(caught.value)


def test_a_store_knows_its_url_without_secrets(run, serve, served, opened) -> None:
    write_keys(served, {"a/zarr.json": group()})
    server = serve()
    requests = opened(server.url.replace("//", "//user:pass@") + "/a/?sig=secret")
    assert requests.url == f"{server.url}/a"
    assert not requests.permanent
    assert all(one.path.endswith("sig=secret") for one in server.asked())


def test_headers_go_with_each_request(run, opened) -> None:
    seen = []

    def answer(line: str, headers: dict[str, str]) -> bytes:
        seen.append(headers.get("x-key"))
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"

    with answering(answer) as url:
        opened(url, headers={"X-Key": "secret"})
    assert seen and set(seen) == {"secret"}


def test_what_is_no_zarr_says_what_was_looked_for(run, serve) -> None:
    server = serve()
    said = failure(run, SourceError, f"{server.url}/missing?sig=secret")
    assert f"{server.url}/missing " in said and "zarr.json" in said and "secret" not in said


def test_a_server_with_a_page_for_everything_is_no_zarr(run, serve, served) -> None:
    write_keys(served, {"index.html": b"<!doctype html><title>Welcome</title>"})
    page = "types { text/html html; } error_page 404 =200 /index.html;"
    assert "no Zarr" in failure(run, SourceError, f"{serve(more=page).url}/x")


def test_a_page_for_what_is_missing_is_no_key(run, serve, served, opened) -> None:
    write_keys(served, {"zarr.json": group(), "index.html": b"<!doctype html>"})
    requests = opened(serve(more="types { text/html html; } error_page 404 =200 /index.html;").url)
    assert list(run(requests.list("")).files) == ["zarr.json"]
    for ask in (requests.find, requests.list):
        with pytest.raises(NotFound):
            run(ask("missing"))


def test_a_denied_source_says_what_to_set(run, serve) -> None:
    said = failure(run, SourceDenied, serve(more="location / { return 401; }").url)
    assert "401" in said and "--header" in said


def test_a_refused_connection_names_the_server(run, serve) -> None:
    server = serve()
    server.stop()
    said = failure(run, SourceError, server.url)
    assert f"127.0.0.1:{server.port} cannot be reached" in said


def test_an_unknown_host_is_named(run) -> None:
    assert "nowhere.invalid" in failure(run, SourceError, "http://nowhere.invalid/a")


def test_a_server_that_hangs_times_out(run, serve, served) -> None:
    write_keys(served, {"zarr.json": group() * 100})
    said = failure(run, SourceTimedOut, serve(more="limit_rate 1;").url, timeout_s=0.3)
    assert "0.3 s" in said and "--timeout" in said


def test_a_server_that_is_busy_at_first_is_opened(run, opened) -> None:
    count = 0

    def answer(line: str, headers: dict[str, str]) -> bytes:
        nonlocal count
        count += 1
        status = "503 Busy" if count <= 6 else "200 OK"
        return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()

    with answering(answer) as url:
        opened(url)
    assert count > 6


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"": "c"}, {"a": "b\r\nc: d"}])
def test_a_wrong_header_is_refused(run, headers) -> None:
    assert "--header" in failure(run, UnusableSource, "http://127.0.0.1:1/", headers=headers)


def test_a_file_is_opened_with_no_more_than_its_name(run, serve, served) -> None:
    write_keys(served, {"d/a b.zip": b"zip"})
    server = serve()
    requests, name = run(http_file(f"{server.url}/d/a%20b.zip?sig=x"))
    found = run(requests.find(name))
    assert (name, found.size, run(requests.get(name, 0, 3, found))) == ("a b.zip", 3, b"zip")
    assert list(run(requests.list("")).files) == [name]
    assert {one.path for one in server.asked()} == {"/d/a%20b.zip?sig=x"}
    requests.close()
    with pytest.raises(SourceError, match=r"missing\.zip does not exist"):
        run(http_file(f"{server.url}/d/missing.zip"))


def test_a_program_ends_that_keeps_a_zip_open(serve, served) -> None:
    with zipfile.ZipFile(served / "a.zip", "w") as archive:
        archive.writestr("zarr.json", group())
    program = """
import sys
from zarrfuse.stores.opening import open_store
store = open_store(sys.argv[1])
print(*store.list(""))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, f"{serve().url}/a.zip"],
        stdout=subprocess.PIPE,
        timeout=30,
        check=True,
    )
    assert ended.stdout == b"zarr.json\n"
