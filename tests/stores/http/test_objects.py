"""Files of a server: sizes, versions and ranges, and what each answer means."""

import asyncio
from typing import Any

import pytest
from builders.http_server import answering

from zarrfuse.errors import Denied, NotFound, NotSupported, Stale, ZarrfuseError
from zarrfuse.stores.http.client import Client
from zarrfuse.stores.http.objects import Objects
from zarrfuse.stores.http.url import HttpUrl
from zarrfuse.stores.remote.requests import Found, TryAgain

DATA = bytes(range(256)) * 40


@pytest.fixture
def objects(run: Any) -> Any:
    made = []

    def make(url: str, **headers: str) -> Objects:
        made.append(Objects(Client(HttpUrl.parse(url), headers)))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


def head(status: str = "200 OK", body: bytes = b"", **headers: object) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_a_file_has_size_time_and_the_strong_etag(run, serve, served, objects) -> None:
    (served / "a").write_bytes(DATA)
    found = run(objects(serve().url).find("a"))
    assert found.size == len(DATA)
    assert found.mtime_ns == int((served / "a").stat().st_mtime) * 10**9
    assert found.version.startswith('"')


@pytest.mark.parametrize(
    "name", ["a#b", "a?b=c", "a%20b", "a b", "ä", "\udce4", "a+b&c", "a%", "d/e"]
)
def test_names_with_any_character_are_found_and_read(run, serve, served, objects, name) -> None:
    (served / name).parent.mkdir(exist_ok=True)
    (served / name).write_bytes(DATA)
    store = objects(serve().url)
    found = run(store.find(name))
    assert run(store.get(name, 3, 9, found)) == DATA[3:9]


def test_a_range_is_one_request_on_a_kept_connection(run, serve, served, objects) -> None:
    (served / "a").write_bytes(DATA)
    server = serve()
    store = objects(server.url)
    found = run(store.find("a"))
    assert run(store.get("a", 100, 5000, found)) == DATA[100:5000]
    assert run(store.get("a", 10000, 20000, found)) == DATA[10000:]
    assert run(store.get("a", len(DATA), len(DATA) + 5, found)) == b""
    assert [(one.method, one.status) for one in server.asked()] == [
        ("HEAD", 200),
        ("GET", 206),
        ("GET", 206),
    ]


def test_what_is_not_there_is_not_found(run, serve, served, objects) -> None:
    (served / "folder").mkdir()
    store = objects(serve().url)
    for key in ("missing", "folder", "folder/../a", "..", "a//b", "nul\0"):
        with pytest.raises(NotFound):
            run(store.find(key))


def test_a_replaced_file_is_stale(run, serve, served, objects) -> None:
    (served / "a").write_bytes(DATA)
    store = objects(serve().url)
    found = run(store.find("a"))
    (served / "a").write_bytes(DATA[::-1] + b"longer")
    with pytest.raises(Stale):
        run(store.get("a", 0, 10, found))


@pytest.mark.parametrize("more", ["etag off;", ""])
def test_a_replaced_file_is_stale_without_a_version(run, serve, served, objects, more) -> None:
    (served / "a").write_bytes(DATA)
    store = objects(serve(more=more).url)
    store.has_versions = False
    found = run(store.find("a"))
    assert found.version is None
    assert run(store.get("a", 0, 10, found)) == DATA[:10]
    (served / "a").write_bytes(DATA + b"longer")
    with pytest.raises(Stale, match="replaced"):
        run(store.get("a", 0, 10, found))


def test_a_deleted_file_is_stale(run, serve, served, objects) -> None:
    (served / "a").write_bytes(DATA)
    store = objects(serve().url)
    found = run(store.find("a"))
    (served / "a").unlink()
    with pytest.raises(Stale, match="deleted"):
        run(store.get("a", 0, 10, found))
    (served / "a").mkdir()
    with pytest.raises(Stale, match="replaced"):
        run(store.get("a", 0, 10, found))


def test_a_file_that_became_shorter_is_stale(run, serve, served, objects) -> None:
    (served / "a").write_bytes(DATA)
    store = objects(serve(more="etag off; if_modified_since off;").url)
    found = run(store.find("a"))
    (served / "a").write_bytes(DATA[:5])
    with pytest.raises(Stale):
        run(store.get("a", 100, 200, found))


@pytest.mark.parametrize("status", [403, 405, 501])
def test_a_server_that_refuses_head_is_asked_for_a_byte(
    run, serve, served, objects, status
) -> None:
    (served / "a").write_bytes(DATA)
    (served / "empty").write_bytes(b"")
    server = serve(more=f"if ($request_method = HEAD) {{ return {status}; }}")
    store = objects(server.url)
    assert run(store.find("a")).size == len(DATA)
    assert run(store.find("empty")).size == 0
    assert [one.method for one in server.asked()] == ["HEAD", "GET", "GET"]


def test_a_server_without_ranges_is_read_up_to_64_mib(run, serve, served, objects) -> None:
    (served / "a").write_bytes(DATA)
    (served / "large").touch()
    with (served / "large").open("r+b") as file:
        file.truncate((64 << 20) + 1)
    store = objects(serve(more="max_ranges 0;").url)
    found = run(store.find("a"))
    for start, stop in ((0, 10), (50, 5000), (10000, len(DATA)), (0, len(DATA))):
        assert run(store.get("a", start, stop, found)) == DATA[start:stop]
    large = run(store.find("large"))
    with pytest.raises(NotSupported, match="sends files only whole"):
        run(store.get("large", 0, 10, large))


def test_a_denied_key_is_denied_and_missing_where_that_is_known(
    run, serve, served, objects
) -> None:
    (served / "a").write_bytes(DATA)
    store = objects(serve(more="location /secret { return 403; }").url)
    run(store.find("a"))
    with pytest.raises(Denied, match="403"):
        run(store.find("secret"))
    store.denied_is_missing = True
    with pytest.raises(NotFound):
        run(store.find("secret"))
    with pytest.raises(Denied):
        run(store.get("secret", 0, 1, Found(1, 0, None)))


@pytest.mark.parametrize(
    ("status", "wait", "expected_s"),
    [(429, "7", 7), (503, None, None), (500, "x", None), (503, "0", 0), (502, None, None)],
)
def test_what_may_be_repeated_says_when(
    run, serve, served, objects, status, wait, expected_s
) -> None:
    header = f"add_header Retry-After {wait} always;" if wait else ""
    store = objects(serve(more=f"location /a {{ {header} return {status}; }}").url)
    with pytest.raises(TryAgain, match=str(status)) as caught:
        run(store.find("a"))
    assert caught.value.retry_after_s == expected_s


RANGE = "bytes 0-9/100"


@pytest.mark.parametrize(
    "answer",
    [
        head("206 Partial Content", b"12345", Content_Range=RANGE, Content_Length=10),
        head("206 Partial Content", b"12345", Content_Range=RANGE),
        head("206 Partial Content", b"12345678901", Content_Range=RANGE, Content_Length=11),
        head("206 Partial Content", b"12345678901", Content_Range=RANGE),
        head("206 Partial Content", b"1234567890", Content_Length=10),
        head("206 Partial Content", b"1234567890", Content_Range="bytes 1-10/100"),
        head("200 OK", b"12345", Content_Length=100),
        head("200 OK", b"12345"),
        head(
            "206 Partial Content",
            b"5\r\n12345\r\n",
            Content_Range=RANGE,
            Transfer_Encoding="chunked",
        ),
        b"",
        b"HTTP/1.1 206 Par",
    ],
)
def test_wrong_lengths_are_tried_again_and_never_short_bytes(run, objects, answer) -> None:
    with answering(lambda line, headers: answer) as url, pytest.raises(TryAgain):
        run(objects(url).get("a", 0, 10, Found(100, 0, None)))


@pytest.mark.parametrize(
    ("headers", "of"),
    [
        ({"ETag": '"new"'}, Found(100, 0, '"old"')),
        ({"ETag": 'W/"new"'}, Found(100, 0, 'W/"old"')),
        ({"Last-Modified": "Mon, 05 Jan 2026 10:00:01 GMT"}, Found(100, 10**9, None)),
        ({"Last-Modified": "Mon, 05 Jan 2026 10:00:01 GMT"}, Found(100, 10**9, '"no etag now"')),
        ({"Content-Range": "bytes 0-9/101"}, Found(100, 0, None)),
    ],
)
@pytest.mark.parametrize("status", ["206 Partial Content", "200 OK"])
def test_an_answer_of_another_file_is_stale(run, objects, headers, of, status) -> None:
    length = 10 if status.startswith("206") else 101 if "Content-Range" in headers else 100
    answer = head(
        status, b"x" * length, **{"Content-Range": RANGE, "Content-Length": length, **headers}
    )
    with answering(lambda line, headers: answer) as url, pytest.raises(Stale):
        run(objects(url).get("a", 0, 10, of))


def test_a_weak_etag_is_compared_and_not_demanded(run, objects) -> None:
    asked = []

    def answer(line: str, headers: dict[str, str]) -> bytes:
        asked.append(headers.get("if-match"))
        return head("206 X", b"x" * 10, ETag='W/"one"', Content_Range=RANGE)

    with answering(answer) as url:
        assert run(objects(url).get("a", 0, 10, Found(100, 0, 'W/"one"'))) == b"x" * 10
        assert run(objects(url).get("a", 0, 10, Found(100, 0, '"one"'))) == b"x" * 10
    assert asked == [None, '"one"']


def test_a_compressed_answer_is_refused(run, objects) -> None:
    answer = head("206 X", b"x" * 10, Content_Range=RANGE, Content_Encoding="gzip")
    with answering(lambda line, headers: answer) as url, pytest.raises(ZarrfuseError, match="gzip"):
        run(objects(url).get("a", 0, 10, Found(100, 0, None)))


def test_ten_redirects_are_followed_and_take_no_secrets_elsewhere(run, objects) -> None:
    seen: list[dict[str, str]] = []

    def final(line: str, headers: dict[str, str]) -> bytes:
        seen.append(headers)
        return head(Content_Length=7)

    def first(line: str, headers: dict[str, str]) -> bytes:
        seen.append(headers)
        is_last = len(seen) == 10
        return head("302 Found", Location=f"{elsewhere}/b?signed=%2F" if is_last else "/a")

    with answering(final) as elsewhere, answering(first) as url:
        store = objects(url.replace("//", "//u:p@"), **{"X-Key": "secret"})
        assert run(store.find("a")).size == 7
    assert len(seen) == 11
    assert all(one["x-key"] == "secret" and one["authorization"] for one in seen[:-1])
    assert "x-key" not in seen[-1] and "authorization" not in seen[-1]


def test_endless_redirects_end(run, objects) -> None:
    answer = head("302 Found", Location="/a")
    with (
        answering(lambda line, headers: answer) as url,
        pytest.raises(NotSupported, match="more than 10 redirects"),
    ):
        run(objects(url).find("a"))


def test_no_redirect_leads_to_another_scheme(run, objects) -> None:
    answer = head("302 Found", Location="file:///etc/passwd")
    with answering(lambda line, headers: answer) as url, pytest.raises(NotSupported, match="file:"):
        run(objects(url).find("a"))


def test_a_refused_connection_may_be_tried_again(run, serve, objects) -> None:
    server = serve()
    server.stop()
    with pytest.raises(TryAgain, match="cannot be reached"):
        run(objects(server.url).find("a"))


def test_messages_have_no_query_and_no_password(run, serve, objects) -> None:
    server = serve(more="location /a { return 418; }")
    url = server.url.replace("//", "//user:pass@") + "?sig=secret"
    store = objects(url)
    with pytest.raises(ZarrfuseError) as caught:
        run(store.find("a"))
    assert not any(word in str(caught.value) for word in ("secret", "sig", "user", "pass"))
    assert [one.path for one in server.asked()] == ["/a?sig=secret"]


def test_a_cancelled_request_ends_and_the_next_is_answered(run, serve, served, objects) -> None:
    (served / "a").write_bytes(DATA)
    slow = "location /slow { limit_rate 1; alias %s; }" % (served / "a")
    store = objects(serve(more=slow).url)

    async def both() -> bytes:
        found = await store.find("a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await store.get("slow", 0, len(DATA), Found(len(DATA), 0, None))
        return await store.get("a", 0, 5, found)

    assert run(both()) == DATA[:5]


def test_a_closed_store_refuses(run, serve, served, objects) -> None:
    (served / "a").write_bytes(DATA)
    store = objects(serve().url)
    run(store.find("a"))
    store.client.close()
    with pytest.raises(ZarrfuseError, match="closed"):
        run(store.find("a"))
