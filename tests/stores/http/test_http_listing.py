"""Folders of servers that list: nginx with index pages and with WebDAV, and an S3 server."""

import asyncio

import pytest
from builders.folders import write_keys
from builders.http_server import answering

from zarrfuse.errors import Denied, NotFound, NotSupported
from zarrfuse.stores.http.client import Client
from zarrfuse.stores.http.listing import S3Folders
from zarrfuse.stores.http.url import HttpUrl

KEYS = {
    ".zattrs": b"{}",
    ".zgroup": b'{"zarr_format":2}',
    "a b#?%20ä&<c>": b"12345",
    "folder/.zarray": b"{}",
    "folder/0.0": b"chunk",
    "folder/é/x": b"",
}


@pytest.mark.parametrize("how", ["html", "webdav"])
def test_a_server_that_lists_is_listed(run, serve, served, opened, how) -> None:
    write_keys(served, KEYS)
    requests = opened(serve(how).url)
    root = run(requests.list(""))
    assert set(root.files) == {".zattrs", ".zgroup", "a b#?%20ä&<c>"}
    assert list(root.folders) == ["folder"]
    folder = run(requests.list("folder"))
    assert (set(folder.files), list(folder.folders)) == ({".zarray", "0.0"}, ["é"])
    assert set(run(requests.list("folder/é")).files) == {"x"}
    assert not root.is_whole  # nginx leaves out names that begin with a dot
    for path in ("missing", "folder/0.0", "folder/é/x/y"):
        with pytest.raises(NotFound):
            run(requests.list(path))


def test_webdav_lists_what_a_file_says_of_itself(run, serve, served, opened) -> None:
    write_keys(served, KEYS)
    server = serve("webdav")
    requests = opened(server.url)
    server.asked()
    files = run(requests.list("")).files
    asked = [one.method for one in server.asked()]
    assert asked == ["PROPFIND", *["HEAD"] * 4]  # for documents of v2, which nginx leaves out
    run(requests.list("folder"))
    server.asked()
    run(requests.list("folder/é"))
    assert [one.method for one in server.asked()] == ["PROPFIND"]
    assert set(files) == {".zattrs", ".zgroup", "a b#?%20ä&<c>"}
    for name, found in files.items():
        assert found is not None and found == run(requests.find(name))
        assert run(requests.get(name, 0, found.size, found)) == KEYS[name]


def test_index_pages_have_no_sizes(run, serve, served, opened) -> None:
    write_keys(served, {"zarr.json": b"{}", "0": b"chunk"})
    server = serve("html")
    requests = opened(server.url)
    server.asked()
    files = run(requests.list("")).files
    assert files == {"0": None, "zarr.json": None}
    assert len(server.asked()) == 1


def test_a_bucket_is_listed_with_versions(run, opened, bucket) -> None:
    keys = {f"image.zarr/c/{i}": b"x" * i for i in range(230)}
    keys |= {"image.zarr/zarr.json": b"{}", "image.zarr/a b+c%20ä&<d>#?": b"12", "other/x": b""}
    for key, data in keys.items():
        bucket.put(key, data)
    bucket.put("image.zarr/empty/", b"")
    base = f"http://127.0.0.1:{bucket.server.port}/{bucket.name}"
    signed = {"Authorization": "AWS others:signature"}
    requests = opened(f"{base}/image.zarr", headers=signed)
    root = run(requests.list(""))
    assert set(root.files) == {"zarr.json", "a b+c%20ä&<d>#?"}
    assert set(root.folders) == {"c", "empty"} and root.is_whole
    chunks = run(requests.list("c"))
    assert {name: one.size for name, one in chunks.files.items()} == {str(i): i for i in range(230)}
    for path in ("zarr.json", "c/7", "a b+c%20ä&<d>#?"):
        listed = (chunks if path.startswith("c/") else root).files[path.rpartition("/")[2]]
        found = run(requests.find(path))
        assert found == listed
        assert run(requests.get(path, 0, found.size, found)) == keys[f"image.zarr/{path}"]
    assert not run(requests.list("empty")).files
    with pytest.raises(NotFound):
        run(requests.list("missing"))
    assert set(run(opened(base, headers=signed).list("")).folders) == {"image.zarr", "other"}


APACHE = b"""<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">
<html><head><title>Index of /data/x</title></head><body><h1>Index of /data/x</h1>
<table><tr><th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th></tr>
<tr><td><a href="/data/">Parent Directory</a></td></tr>
<tr><td><a href="c/">c/</a></td></tr><tr><td><a href="zarr.json">zarr.json</a></td></tr>
<tr><td><a href="a%23%25%20b&amp;c">a#% b&amp;c</a></td></tr>
<tr><td><a href="http://elsewhere/data/x/evil">x</a><a href="javascript:alert(1)">y</a>
<a href="../up">u</a><a href="c/deep">d</a><a href="%2e%2e/">e</a><a href="n%2Fm">f</a></td></tr>
</table><address>Apache/2.4 <a href="http://httpd.apache.org/">x</a></address></body></html>"""
PYTHON = b"""<!DOCTYPE HTML><html lang="en"><head><meta charset="utf-8">
<title>Directory listing for /data/x/</title></head><body><h1>Directory listing for /data/x/</h1>
<hr><ul><li><a href=".zgroup">.zgroup</a></li><li><a href="0/">0/</a></li></ul><hr></body></html>"""


def page(body: bytes, kind: str = "text/html", status: str = "200 OK") -> bytes:
    start = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    return f"{start}Content-Length: {len(body)}\r\n\r\n".encode() + body


NOTHING = page(b"", status="404 Not Found")


@pytest.mark.parametrize(
    ("body", "files", "folders"),
    [(APACHE, ["zarr.json", "a#% b&c"], ["c"]), (PYTHON, [".zgroup"], ["0"])],
)
def test_pages_of_other_servers_name_what_is_in_the_folder(
    run, opened, body, files, folders
) -> None:
    def answer(line: str, headers: dict[str, str]) -> bytes:
        return page(body) if line == "GET /data/x/ HTTP/1.1" else NOTHING

    with answering(answer) as url:
        listing = run(opened(f"{url}/data/x").list(""))
    assert (list(listing.files), list(listing.folders)) == (files, folders)


@pytest.mark.parametrize(
    "body",
    [
        b"<title>Welcome</title><a href='x'>x</a>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><ListBucketResult><Prefix/></ListBucketResult>',
        b"<ListAllMyBucketsResult/>",
        b"\xff\xfe<",
    ],
)
def test_pages_that_are_no_listings_are_not_taken_for_one(run, opened, body) -> None:
    def answer(line: str, headers: dict[str, str]) -> bytes:
        if "/zarr.json" in line:
            return page(b'{"zarr_format":3,"node_type":"group"}', "application/json")
        return page(body) if line.startswith("GET /data/ ") or "list-type" in line else NOTHING

    with answering(answer) as url:
        listing = run(opened(f"{url}/data").list(""))
    assert list(listing.files) == ["zarr.json"] and not listing.is_whole


def test_hostile_names_of_a_multistatus_are_left_out(run, opened) -> None:
    def response(href: str, inner: str = "") -> str:
        return (
            f"<d:response><d:href>{href}</d:href><d:propstat><d:status>HTTP/1.1 200 OK</d:status>"
            f"<d:prop><d:resourcetype>{inner}</d:resourcetype><d:getcontentlength>3"
            "</d:getcontentlength></d:prop></d:propstat></d:response>"
        )

    collection = "<d:collection/>"
    body = "".join(
        [
            '<d:multistatus xmlns:d="DAV:">',
            response("/remote.php/dav/data/", collection),
            response("/remote.php/dav/data/%2e%2e", ""),
            response("/remote.php/dav/data/a%2Fb", ""),
            response("http://host/remote.php/dav/data/good%20one", ""),
            response("/remote.php/dav/data/sub/", collection),
            "</d:multistatus>",
        ]
    ).encode()

    def answer(line: str, headers: dict[str, str]) -> bytes:
        is_asked = line.startswith("PROPFIND") and headers["depth"] == "1"
        return page(body, "application/xml", "207 Multi-Status") if is_asked else NOTHING

    with answering(answer) as url:
        listing = run(opened(f"{url}/data").list(""))
    assert (list(listing.files), list(listing.folders)) == (["good one"], ["sub"])


@pytest.mark.parametrize("how", ["html", "webdav"])
def test_a_denied_folder_is_denied(run, serve, served, opened, how) -> None:
    write_keys(served, {"zarr.json": b"{}", "secret/x": b""})
    requests = opened(serve(how, "location /secret/ { return 403; }").url)
    with pytest.raises(Denied, match="403"):
        run(requests.list("secret"))


def test_a_bucket_whose_listing_does_not_end_is_refused(run) -> None:
    page = (
        b"<ListBucketResult><Prefix></Prefix><Contents><Key>a</Key><Size>1</Size></Contents>"
        b"<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>"
        b"</ListBucketResult>"
    )
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(page)
    with answering(lambda line, headers: head + page) as url:
        client = Client(HttpUrl.parse(url), {})

        async def listed() -> None:
            try:
                await asyncio.wait_for(S3Folders(client, client.url, "").list(""), 20)
            finally:
                client.close()

        with pytest.raises(NotSupported, match="does not end"):
            run(listed())
