"""URLs of HTTP sources: the address of each key, and a text that may be printed.

Owns percent-encoding, and what is secret in a URL: password and query. Used by all of `http`. It makes no
requests.
"""

import re
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from zarrfuse.errors import NotFound, UnusableSource, printable

SCHEMES = ("http", "https")
"""The schemes of these sources."""

# What RFC 3986 permits in a path or query besides letters and digits, and what is encoded already.
_PERMITTED = "/:@!$&'()*+,;=~%"
# Characters that end a name or begin an escape are encoded; most servers sign and compare these ones raw.
_PERMITTED_IN_NAME = "!$&'()*,;=:@~"
_NO_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """A folder on a server, or a file.

    Attributes:
        origin: `scheme://host:port`, without a user.
        path: The path, percent-encoded, without a slash at its end; `""` for the root of the server.
        query: The query of the URL without `?`, such as a signature; each request has it.
        authorization: The header for user and password, None if there are none.
    """

    origin: str
    path: str
    query: str = field(default="", repr=False)
    authorization: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.origin + printable(self.path)

    @property
    def is_secure(self) -> bool:
        """Whether it is `https`."""
        return self.origin.startswith("https:")

    def of(self, key: str) -> str:
        """The address of the file with this key. Raises `NotFound` for a key that no URL can have."""
        return self._with_query(f"{self.path}/{_encoded(key)}")

    def of_folder(self, key: str, query: str = "") -> str:
        """The address of the folder with this key, which ends in a slash; `query`: what is asked of it."""
        path = f"{self.path}/{_encoded(key)}" if key else self.path
        return self._with_query(f"{path}/", query)

    def title(self, key: str) -> str:
        """The address of a key for messages."""
        return printable(f"{self}/{key}" if key else str(self))

    def above(self, count: int) -> "tuple[HttpUrl, str] | None":
        """The URL of the first `count` names of the path, and the key of the rest; None if it has fewer."""
        names = self.path.split("/")[1:] if self.path else []
        if count > len(names):
            return None
        path = "".join(f"/{name}" for name in names[:count])
        rest = "/".join(unquote(name, errors="surrogateescape") for name in names[count:])
        return HttpUrl(self.origin, path, self.query, self.authorization), rest

    def split(self) -> "tuple[HttpUrl, str]":
        """The URL of the folder above, and the name in it."""
        names = self.path.count("/")
        found = self.above(max(names - 1, 0))
        assert found is not None
        return found

    def _with_query(self, path: str, query: str = "") -> str:
        whole = "&".join(part for part in (query, self.query) if part)
        return f"{self.origin}{path}" + (f"?{whole}" if whole else "")

    @classmethod
    def parse(cls, source: str) -> Self:
        """The URL, as a browser shows it or encoded. Raises `UnusableSource`."""
        try:
            parts = urlsplit(source)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise UnusableSource(f"the source {without_secrets(source)}: {error}") from None
        shown = without_secrets(source)
        if parts.scheme.lower() not in SCHEMES or not host:
            raise UnusableSource(f"the source {shown} is no URL: write https://host/path")
        if parts.fragment or source.endswith("#"):
            raise UnusableSource(
                f"the source {shown} has a #, which no server is told: write %23 if it is in a name"
            )
        path = _escaped(parts.path).rstrip("/")
        names = [unquote(name) for name in path.split("/")[1:]]
        if any(name in ("", ".", "..") for name in names):
            raise UnusableSource(f"the source {shown} has an empty name, . or .. in its path")
        try:
            ascii_host = host.encode("idna").decode() if not host.isascii() else host
        except UnicodeError:
            raise UnusableSource(f"the source {shown} has no valid name of a host") from None
        if ":" in ascii_host:
            ascii_host = f"[{ascii_host}]"
        elif not re.fullmatch(r"[A-Za-z0-9._~-]+", ascii_host):
            raise UnusableSource(f"the source {shown} has no valid name of a host")
        origin = f"{parts.scheme.lower()}://{ascii_host}" + (f":{port}" if port else "")
        authorization = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = "Basic " + b64encode(pair.encode()).decode()
        return cls(origin, path, _escaped(parts.query, "?"), authorization)


def without_secrets(source: str) -> str:
    """A URL, also one that is wrong, without user, password, query and fragment."""
    kept = re.split("[?#]", source, maxsplit=1)[0]
    scheme, colon, rest = kept.partition("://")
    host, slash, path = rest.partition("/")
    return printable(f"{scheme}{colon}{host.rpartition('@')[2]}{slash}{path}")


def escaped(address: str) -> str:
    """An address that a server sent, with what is not permitted in it encoded, and without a fragment."""
    return _escaped(address.partition("#")[0], "?[]")


def _encoded(key: str) -> str:
    names = key.split("/")
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise NotFound(f"no key {printable(key)}: a URL has no such names")
    return "/".join(
        quote(name, safe=_PERMITTED_IN_NAME, encoding="utf-8", errors="surrogateescape")
        for name in names
    )


def _escaped(text: str, also: str = "") -> str:
    """A part of a URL with what is not permitted in it encoded; what is encoded stays."""
    return _NO_ESCAPE.sub("%25", quote(text, safe=_PERMITTED + also, errors="surrogateescape"))
