"""An S3 server that is no limit: nginx with the answers to listings made before, and a relay in front.

Owns both processes. A bucket is a folder: an object is a file of it, with ranges and an ETag; a listing is
a file as well, which nginx chooses by the query. It is read-only, asks for no signature, and answers both
versions of ListObjects alike, in pages of a thousand names. `relay.c` adds the latency of a network.
"""

import http.client
import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.systems import Failed, run

BUCKET = "bucket"
_PAGE = 1000
_STARTS_WITHIN_S = 10.0

_CONFIGURATION = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
{user}
events {{ worker_connections 4096; }}
http {{
    access_log off;
    types {{ }}
    default_type binary/octet-stream;
    sendfile on;
    tcp_nodelay on;
    keepalive_requests 1000000000;
    open_file_cache max=20000 inactive=1h;
    map_hash_bucket_size 512;
    map_hash_max_size 65536;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    # A name with a hyphen is no variable.
    map $args $token {{
        "~(?:^|&)continuation-token=([^&]+)" $1;
        "~(?:^|&)(?:marker|start-after)=([^&]+)" $1;
        default "";
    }}
    map $args $few {{
        "~(?:^|&)max-keys=\\d{{1,2}}(?:&|$)" few;
        default all;
    }}
    map "$few|$arg_delimiter|$arg_prefix|$token" $listing {{
        include {folder}/listings.conf;
        default none;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {folder}/root;
        location = /{bucket} {{ rewrite ^ /{bucket}/ last; }}
        location = /{bucket}/ {{
            types {{ }}
            default_type application/xml;
            alias {folder}/listings/;
            try_files /$listing =404;
        }}
        location ~ /$ {{ return 404; }}
        location / {{ try_files $uri =404; }}
    }}
}}
"""


@contextmanager
def s3_server(folder: Path, data: Path) -> Iterator[int]:
    """The port of a server that has the files of `data` in `BUCKET`; what it needs is in `folder`."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        raise Failed("there is no nginx: apt-get install nginx-light")
    (folder / "root").mkdir(parents=True)
    (folder / "root" / BUCKET).symlink_to(data)
    (folder / "listings.conf").write_text(_write_listings(folder / "listings", data))
    port = _free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            folder=folder,
            bucket=BUCKET,
            port=port,
            user="user root;" if os.geteuid() == 0 else "",
        )
    )
    process = subprocess.Popen([nginx, "-c", str(configuration), "-e", str(folder / "error.log")])
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def relay(folder: Path, port: int, delay_ms: int) -> Iterator[int]:
    """The port of a relay to `port`, in which bytes take `delay_ms` each way."""
    program = folder / "relay"
    if not program.exists():
        source = Path(__file__).with_name("relay.c")
        run(["gcc", "-O2", "-Wall", "-o", str(program), str(source)])
    process = subprocess.Popen(
        [str(program), str(port), str(delay_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the bucket can be listed."""
    end = time.monotonic() + _STARTS_WITHIN_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", f"/{BUCKET}?list-type=2")
            status = connection.getresponse().status
        except OSError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise Failed(f"nginx does not answer: {error}") from None
            time.sleep(0.02)
        else:
            if status != 200:
                raise Failed(f"nginx answers a listing with {status}")
            return
        finally:
            connection.close()


def _write_listings(folder: Path, data: Path) -> str:
    """The answers to all listings of a bucket; the lines of the `map` that chooses one."""
    folder.mkdir()
    keys: list[str] = []
    prefixes = {""}
    rows: dict[str, str] = {}
    for path in sorted(data.rglob("*")):
        key = path.relative_to(data).as_posix()
        if path.is_file():
            keys.append(key)
            rows[key] = _object(key, path)
        else:
            prefixes |= {key, key + "/"}
    keys.sort()  # as S3 does: `a-b` before `a/b`
    (folder / "none").write_text(_page("", "", [], None))
    lines: list[str] = []
    for prefix in sorted(prefixes):
        below = [key for key in keys if key.startswith(prefix)]
        for delimiter in ("", "/"):
            names = dict.fromkeys(_name_of(key, prefix, delimiter) for key in below)
            shown = [
                (name, _common(name) if delimiter and name.endswith("/") else rows[name])
                for name in names
            ]
            lines += _write_pages(folder, prefix, delimiter, shown)
    return "\n".join(lines)


def _name_of(key: str, prefix: str, delimiter: str) -> str:
    """The key, or the common prefix that stands for it."""
    if delimiter:
        first, found, _ = key[len(prefix) :].partition(delimiter)
        return prefix + first + found
    return key


def _write_pages(
    folder: Path, prefix: str, delimiter: str, shown: list[tuple[str, str]]
) -> Iterator[str]:
    """The pages of one listing. A page goes on after the last name of the one before."""
    token = ""
    for number, start in enumerate(range(0, max(len(shown), 1), _PAGE)):
        for few, size in (("all", _PAGE), ("few", 1)):
            page = shown[start : start + size]
            more = page[-1][0] if start + size < len(shown) else None
            name = f"{prefix.replace('/', '%')}-{len(delimiter)}-{number}-{few}"
            (folder / name).write_text(_page(prefix, delimiter, [row for _, row in page], more))
            for asked in _encoded(delimiter, prefix, token):
                yield f'"{few}|{asked}" {name};'
        token = shown[start : start + _PAGE][-1][0] if shown else ""


def _encoded(*values: str) -> list[str]:
    """The values in a query, in every way: some clients encode slashes, which is all there is to encode."""
    ways = [dict.fromkeys((value, value.replace("/", "%2F"))) for value in values]
    return ["|".join(way) for way in itertools.product(*ways)]


def _page(prefix: str, delimiter: str, rows: list[str], more: str | None) -> str:
    after = "" if more is None else f"<NextMarker>{escape(more)}</NextMarker>"
    token = "" if more is None else f"<NextContinuationToken>{escape(more)}</NextContinuationToken>"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><Delimiter>{delimiter}</Delimiter>"
        f"<MaxKeys>{_PAGE}</MaxKeys><KeyCount>{len(rows)}</KeyCount>"
        f"<IsTruncated>{'false' if more is None else 'true'}</IsTruncated>{after}{token}"
        f"{''.join(rows)}</ListBucketResult>"
    )


def _object(key: str, path: Path) -> str:
    status = path.stat()
    modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(status.st_mtime))
    # The ETag as nginx makes it.
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified>"
        f'<ETag>"{int(status.st_mtime):x}-{status.st_size:x}"</ETag><Size>{status.st_size}</Size>'
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def _common(prefix: str) -> str:
    return f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>"
