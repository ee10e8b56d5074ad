"""The pages in which HTTP servers list a folder: S3's XML, WebDAV's multistatus, and HTML.

Owns how each is parsed into names. Nothing in a page is trusted: names that no folder can have are left
out. Used by `listing`. It makes no requests.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus, urljoin, urlsplit
from xml.etree.ElementTree import Element, ParseError, fromstring

from zarrfuse.stores.http.objects import http_time_ns
from zarrfuse.stores.remote.requests import Found

# The titles of nginx, Apache, lighttpd, Python's http.server and Jetty.
_INDEX_TITLE = re.compile(
    r"\s*(?:index of|directory listing (?:for|of)|listing of|directory:)\b", re.IGNORECASE
)


class Item(NamedTuple):
    """One name in a page; `found`: None if its size is not told."""

    name: str
    is_folder: bool
    found: Found | None = None


@dataclass
class Page:
    """The names in one page; `following`: what S3 calls the continuation token."""

    items: list[Item] = field(default_factory=list)
    following: str | None = None


def _xml(body: bytes) -> Element | None:
    """The root of an XML document; None for other texts, and for one that declares entities."""
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        return None
    try:
        return fromstring(body)
    except (ParseError, ValueError, LookupError):
        return None


def _tag(element: Element) -> str:
    """The name of an element without its namespace, which servers have several of."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: Element, *path: str) -> str:
    """The text of the first descendant at a path of tags; `""` if there is none."""
    for tag in path:
        following = next((child for child in element if _tag(child) == tag), None)
        if following is None:
            return ""
        element = following
    return element.text or ""


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _size(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,18}", text.strip()) else None


# -- S3


def s3_page(body: bytes, prefix: str) -> Page | None:
    """The answer to ListObjectsV2 with this prefix and the delimiter `/`; None if it is none.

    Source: Amazon S3 API Reference, ListObjectsV2.
    """
    root = _xml(body)
    if root is None or _tag(root) != "ListBucketResult":
        return None
    is_encoded = _text(root, "EncodingType") == "url"

    def name(text: str) -> str:
        return unquote_plus(text, errors="surrogateescape") if is_encoded else text

    if name(_text(root, "Prefix")) != prefix:
        return None
    page = Page()
    for child in root:
        if _tag(child) == "Contents":
            key = name(_text(child, "Key"))
            found = _s3_found(child)
            if key.startswith(prefix) and _is_name(key[len(prefix) :]):
                page.items.append(Item(key[len(prefix) :], False, found))
        elif _tag(child) == "CommonPrefixes":
            key = name(_text(child, "Prefix"))
            inner = key[len(prefix) :].removesuffix("/")
            if key.startswith(prefix) and _is_name(inner):
                page.items.append(Item(inner, True))
    if _text(root, "IsTruncated").lower() == "true":
        page.following = _text(root, "NextContinuationToken") or None
    return page


def holds_marker(body: bytes, prefix: str) -> bool:
    """Whether a page of S3 has the key `prefix` itself, the marker of a folder."""
    root = _xml(body)
    return root is not None and any(
        _tag(child) == "Contents" and unquote_plus(_text(child, "Key")) == prefix for child in root
    )


def _s3_found(contents: Element) -> Found | None:
    size = _size(_text(contents, "Size"))
    if size is None:
        return None
    try:
        when = datetime.fromisoformat(_text(contents, "LastModified"))
        mtime_ns = int(when.timestamp()) * 10**9  # as HEAD tells it
    except (ValueError, OverflowError):
        mtime_ns = 0
    e_tag = _text(contents, "ETag")
    return Found(size, mtime_ns, _quoted(e_tag) if e_tag else None)


def _quoted(e_tag: str) -> str:
    """An ETag with the quotes that a header has; some listings leave them out."""
    return e_tag if e_tag.endswith('"') else f'"{e_tag}"'


# -- WebDAV

PROPFIND = (
    b'<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/>'
    b"<getcontentlength/><getlastmodified/><getetag/></prop></propfind>"
)
"""The body of a request for what `webdav_page` reads (RFC 4918, PROPFIND)."""


def webdav_page(body: bytes) -> Page | None:
    """A multistatus of a folder with Depth 1; None if it is none, or is of a file."""
    root = _xml(body)
    if root is None or _tag(root) != "multistatus":
        return None
    answers = []
    for response in root:
        if _tag(response) == "response":
            path = urlsplit(_text(response, "href").strip()).path
            properties = _properties(response)
            is_folder = properties is not None and any(
                _tag(kind) == "collection"
                for each in properties
                if _tag(each) == "resourcetype"
                for kind in each
            )
            answers.append((path.rstrip("/"), is_folder, properties))
    if not answers:
        return None
    # The folder itself is among them; a proxy may have changed the start of all paths.
    own = min(answers, key=lambda answer: len(answer[0]))
    if not own[1]:
        return None
    page = Page()
    for path, is_folder, properties in answers:
        name = unquote(path.rpartition("/")[2], errors="surrogateescape")
        if path == own[0] or properties is None or not _is_name(name):
            continue
        size = None if is_folder else _size(_text(properties, "getcontentlength"))
        found = None
        if size is not None:
            e_tag = _text(properties, "getetag").strip()
            mtime_ns = http_time_ns(_text(properties, "getlastmodified").strip())
            found = Found(size, mtime_ns, _quoted(e_tag) if e_tag else None)
        page.items.append(Item(name, is_folder, found))
    return page


def _properties(response: Element) -> Element | None:
    """The properties of a response that have the status 200."""
    for each in response:
        if _tag(each) == "propstat" and " 200" in (_text(each, "status") or " 200"):
            return next((prop for prop in each if _tag(prop) == "prop"), None)
    return None


# -- HTML


def index_page(body: bytes, address: str) -> Page | None:
    """The links of an index page to names in its own folder; None if its title is not that of one.

    `address`: that of the page, with a slash at its end.
    """
    parser = _Links()
    parser.feed(body.decode("utf-8", "surrogateescape"))
    parser.close()
    if _INDEX_TITLE.match(parser.title) is None:
        return None
    page = Page()
    seen = set()
    for name, is_folder in _names(parser.links, address):
        if name not in seen:
            seen.add(name)
            page.items.append(Item(name, is_folder))
    return page


def _names(links: list[str], address: str) -> Iterator[tuple[str, bool]]:
    here = urlsplit(address)
    for link in links:
        try:
            there = urlsplit(urljoin(address, link))
        except ValueError:
            continue
        if (there.scheme, there.netloc) != (here.scheme, here.netloc) or link.startswith("?"):
            continue
        folder = unquote(here.path, errors="surrogateescape")
        raw, path = there.path, unquote(there.path, errors="surrogateescape")
        if not path.startswith(folder):
            continue
        name = path[len(folder) :]
        is_folder = raw.endswith("/")
        if is_folder:
            name = name[:-1]
        if _is_name(name):
            yield name, is_folder


class _Links(HTMLParser):
    """The title, and the targets of links."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.links: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title" and not self.title
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
