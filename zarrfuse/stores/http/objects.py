"""The files of an HTTP server: their sizes and versions, and ranges of their bytes.

Owns the headers of conditional and range requests (RFC 9110), and how two versions of a file are told
apart. Used by `requests`, `documents` and `listing`. It must not know folders.
"""

import re
from email.utils import parsedate_to_datetime

from zarrfuse.errors import Denied, NotFound, NotSupported, Stale, ZarrfuseError
from zarrfuse.stores.http.client import Answer, Client, body_of, refused
from zarrfuse.stores.remote.requests import Found, TryAgain

LARGEST_WITHOUT_RANGES = 64 << 20
"""A larger file is not read from a server that answers each range with the whole file."""

_CONTENT_RANGE = re.compile(r"bytes\s+(?:(\d+)-(\d+)|\*)/(\d+|\*)", re.IGNORECASE)


class Objects:
    """The files below the URL of a client.

    `has_versions`: whether ETags are told. False where listings have none, so that a file has one version
    in a listing and by itself. `denied_is_missing`: whether 403 means that there is no such key, as public
    buckets of S3 answer whose keys may not be listed. `html_is_missing`: whether an HTML page means that.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.has_versions = True
        self.denied_is_missing = False
        self.html_is_missing = False
        # Whether HEAD is answered: not known, yes, or no (then it is not asked again).
        self._heads: bool | None = None

    def title(self, key: str) -> str:
        """A key as messages name it: its URL without secrets."""
        return self.client.url.title(key)

    async def find(self, key: str) -> Found:
        """The file with this key; see `remote.requests.Requests`."""
        url, title = self.client.url, self.client.url.title(key)
        address = url.of(key)
        if self._heads is not False:
            async with self.client.ask("HEAD", address, title) as answer:
                if answer.status == 200 and (size := _length(answer)) is not None:
                    self._heads = True
                    return self._found(answer, size, title)
                # A URL that is signed for GET is 403 for HEAD; some servers do not know HEAD.
                known = self._heads and answer.status == 403
                if answer.status not in (200, 403, 405, 501) or known:
                    raise self._refused(answer, title)
                status = answer.status
            if status in (405, 501):
                self._heads = False
            found = await self._find_by_get(address, title)
            if status == 403:
                self._heads = False
            return found
        return await self._find_by_get(address, title)

    async def _find_by_get(self, address: str, title: str) -> Found:
        async with self.client.ask("GET", address, title, {"Range": "bytes=0-0"}) as answer:
            size: int | None
            if answer.status == 206:
                size = _content_range(answer)[2]
            elif answer.status == 416:  # of an empty file
                size = _content_range(answer)[2]
                if size != 0:
                    raise self._refused(answer, title)
            elif answer.status == 200:
                size = _length(answer)
                answer.close()  # the rest is not wanted
            else:
                raise self._refused(answer, title)
            if size is None:
                raise NotSupported(f"{title}: the server does not say how long it is")
            return self._found(answer, size, title)

    async def get(self, key: str, start: int, stop: int, of: Found) -> bytes:
        """Bytes of a file; see `remote.requests.Requests`."""
        url, title = self.client.url, self.client.url.title(key)
        stop = min(stop, of.size)
        if start >= stop:
            return b""
        headers = {"Range": f"bytes={start}-{stop - 1}"}
        if of.version is not None and not of.version.startswith("W/"):
            headers["If-Match"] = of.version
        try:
            async with self.client.ask("GET", url.of(key), title, headers) as answer:
                if answer.status in (404, 410):
                    raise Stale(f"{title} was deleted while it was open")
                if answer.status in (412, 416):
                    raise Stale(f"{title} was replaced while it was open")
                if answer.status not in (200, 206):
                    raise refused(answer, title)
                _refuse_encoded(answer, title)
                self._refuse_other(answer, of, title)
                if answer.status == 206:
                    return await _part(answer, start, stop, of, title)
                return await _slice(answer, start, stop, of, title)
        except NotFound:  # a folder now
            raise Stale(f"{title} was replaced while it was open") from None

    async def fetch(self, key: str, limit: int) -> tuple[bytes, Found]:
        """A whole file. Raises `NotFound`, and `NotSupported` for one of more than `limit` bytes."""
        url, title = self.client.url, self.client.url.title(key)
        async with self.client.ask("GET", url.of(key), title) as answer:
            if answer.status != 200:
                raise self._refused(answer, title)
            data = await body_of(answer, title, limit)
            return data, self._found(answer, len(data), title)

    def _found(self, answer: Answer, size: int, title: str) -> Found:
        if self.html_is_missing and "text/html" in answer.headers.get("Content-Type", "").lower():
            raise NotFound(f"no key {title}: the server sends a page in HTML")
        _refuse_encoded(answer, title)
        version = answer.headers.get("ETag") or None
        return Found(size, _mtime_ns(answer), version if self.has_versions else None)

    def _refused(self, answer: Answer, title: str) -> Exception:
        error = refused(answer, title)
        if isinstance(error, Denied) and answer.status == 403 and self.denied_is_missing:
            return NotFound(f"no key {title}, or it may not be read")
        return error

    def _refuse_other(self, answer: Answer, of: Found, title: str) -> None:
        """Raises `Stale` if the answer is of another file than `of`."""
        version = answer.headers.get("ETag")
        if of.version is not None and version:
            # A proxy may weaken an ETag on its way.
            is_other = version.removeprefix("W/") != of.version.removeprefix("W/")
        else:
            mtime_ns = _mtime_ns(answer)
            is_other = bool(mtime_ns and of.mtime_ns and mtime_ns != of.mtime_ns)
        if is_other:
            raise Stale(f"{title} was replaced while it was open")


async def _part(answer: Answer, start: int, stop: int, of: Found, title: str) -> bytes:
    """The body of a 206, if it is the range that was asked for."""
    first, last, total = _content_range(answer)
    if total is not None and total != of.size:
        raise Stale(f"{title} was replaced while it was open: it has {total} bytes now")
    if (first, last) != (start, stop - 1):
        raise TryAgain(f"{title}: the server answers with another range than was asked for")
    length = _length(answer)
    if length is not None and length != stop - start:
        raise TryAgain(f"{title}: the server answers {length} bytes to a range of {stop - start}")
    data = await answer.content.readexactly(stop - start)
    if length is None and await answer.content.read(1):
        raise TryAgain(f"{title}: the server answers more bytes than a range of {stop - start}")
    return data


async def _slice(answer: Answer, start: int, stop: int, of: Found, title: str) -> bytes:
    """Bytes of the body of a 200: the server ignores ranges."""
    length = _length(answer)
    if length is not None and length != of.size:
        raise Stale(f"{title} was replaced while it was open: it has {length} bytes now")
    if of.size > LARGEST_WITHOUT_RANGES:
        answer.close()
        raise NotSupported(
            f"{title} has {of.size} bytes, and the server sends files only whole: of such servers, files"
            f" of at most {LARGEST_WITHOUT_RANGES >> 20} MiB are read"
        )
    left = start
    while left:
        skipped = await answer.content.read(left)
        if not skipped:
            raise TryAgain(f"{title}: the answer was cut off")
        left -= len(skipped)
    data = await answer.content.readexactly(stop - start)
    if stop < of.size:
        answer.close()  # the rest is not wanted
    elif length is None and await answer.content.read(1):
        raise Stale(f"{title} was replaced while it was open: it is longer now")
    return data


def _content_range(answer: Answer) -> tuple[int | None, int | None, int | None]:
    """(first byte, last byte, size of the whole file), each None if it is not said."""
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
    if found is None:
        return None, None, None
    first, last, total = (None if text in (None, "*") else int(text) for text in found.groups())
    return first, last, total


def _length(answer: Answer) -> int | None:
    text = answer.headers.get("Content-Length", "")
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def _mtime_ns(answer: Answer) -> int:
    return http_time_ns(answer.headers.get("Last-Modified", ""))


def http_time_ns(text: str) -> int:
    """A date of HTTP in ns since 1970; 0 if it is none."""
    try:
        return int(parsedate_to_datetime(text).timestamp()) * 10**9
    except (ValueError, OverflowError):
        return 0


def _refuse_encoded(answer: Answer, title: str) -> None:
    encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise ZarrfuseError(
            f"{title}: the server compresses it ({encoding[:40]}), although it was asked not to"
        )
