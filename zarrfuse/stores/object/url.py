"""URLs of object stores: a bucket, and a prefix of keys.

Used by `opening`, `requests` and `store`. As in the tools of object stores, nothing is percent-decoded: a
key may hold `%20`.
"""

import re
from dataclasses import dataclass

from zarrfuse.errors import UnusableSource

SCHEMES = ("s3", "gs", "az")
"""The schemes: S3 and compatible servers, Google Cloud Storage, Azure Blob Storage."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ObjectUrl:
    """`scheme://bucket/prefix`, the prefix without slashes around it; `""` for the whole bucket."""

    scheme: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


def scheme_of(source: str) -> str | None:
    """The scheme of a URL in lower case; None for a path."""
    found = _URL.fullmatch(source)
    return found[1].lower() if found else None


def parse(source: str) -> ObjectUrl:
    """The bucket and prefix that a URL of one of `SCHEMES` names. Raises `UnusableSource`."""
    found = _URL.fullmatch(source)
    if found is None or found[1].lower() not in SCHEMES:
        raise UnusableSource(f"the source {source} is no URL of an object store")
    bucket, _, prefix = found[2].partition("/")
    prefix = prefix.strip("/")
    if not bucket:
        raise UnusableSource(
            f"the source {source} names no bucket: write {found[1]}://bucket/prefix"
        )
    if any(name in ("", ".", "..") for name in prefix.split("/")) and prefix:
        raise UnusableSource(f"the source {source} has an empty name, . or .. in its prefix")
    return ObjectUrl(found[1].lower(), bucket, prefix)


def can_be_key(key: str) -> bool:
    """Whether an object can have a key: UTF-8, printable, no empty names."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    if any(name in ("", ".", "..") for name in key.split("/")):
        return False
    return not any(letter < " " or letter == "\x7f" for letter in key)
