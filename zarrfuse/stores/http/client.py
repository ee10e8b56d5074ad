"""One request to an HTTP server and its answer: connections, redirects, proxies, and errors of the network.

Owns the session of aiohttp, and which exception an answer means. Used by `requests`, `listing` and
`documents`. It must not know keys, ranges or Zarr.

aiohttp, since obstore's HTTP store can neither send PROPFIND nor show the page of a listing, and one client
for all requests shares its connections.
"""

import asyncio
import re
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from time import time
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from zarrfuse.errors import Denied, NotFound, NotSupported, ZarrfuseError
from zarrfuse.stores.http.url import HttpUrl, escaped, without_secrets
from zarrfuse.stores.remote.requests import TryAgain

_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WORTH_REPEATING = frozenset({408, 425, 429})
_NOT_OFFERED = frozenset({405, 501, 505})
_PROXY_OF_A_NAME = re.compile("[a-z][a-z0-9+.-]*://", re.IGNORECASE)

Answer = aiohttp.ClientResponse


class BecameFolder(NotFound):
    """The server redirects the address of a file to the same address with a slash: it is a folder."""


class Client:
    """The connections to a server, and to where it redirects. For one event loop.

    `headers`: those of the user, which only the server of the URL gets, not one that it redirects to.
    `stalls_s`: an answer of which nothing comes for so long is given up. Listings need that: they have
    minutes, for many pages, and one that stalled would hold up all who list the folder.
    """

    def __init__(self, url: HttpUrl, headers: Mapping[str, str], stalls_s: float = 10.0) -> None:
        self.url = url
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=None, sock_connect=stalls_s, sock_read=stalls_s
        )
        own = {"Accept-Encoding": "identity", "User-Agent": "zarrfuse", "Accept": "*/*"}
        self._everywhere = own
        secret = dict(headers)
        names = {name.lower() for name in secret}
        if url.authorization is not None and "authorization" not in names:
            secret["Authorization"] = url.authorization
        self._at_origin = {k: v for k, v in own.items() if k.lower() not in names} | secret
        self._proxies = getproxies()
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @asynccontextmanager
    async def ask(
        self,
        method: str,
        address: str,
        title: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> AsyncIterator[Answer]:
        """The answer to one request, whatever its status; its body is read in the block.

        `title`: the address for messages. Raises `TryAgain` if the connection breaks, also in the block,
        `BecameFolder`, and `ZarrfuseError` for a server that cannot be asked.
        """
        try:
            answer = await self._followed(method, address, title, headers or {}, body)
            async with answer:
                yield answer
        except aiohttp.ClientConnectorCertificateError as error:
            reason = error.certificate_error
            raise ZarrfuseError(f"{title}: the certificate of the server: {reason}") from None
        except aiohttp.ClientConnectorSSLError as error:
            raise ZarrfuseError(f"{title}: no TLS connection: {_reason(error)}") from None
        except aiohttp.ClientConnectorError as error:
            where = f"{error.host}:{error.port}"
            raise TryAgain(
                f"{title}: {where} cannot be reached: {_reason(error.os_error)}"
            ) from None
        except aiohttp.ClientPayloadError:
            raise TryAgain(f"{title}: the answer was cut off") from None
        except (aiohttp.ClientConnectionError, asyncio.IncompleteReadError) as error:
            raise TryAgain(f"{title}: the connection broke: {_reason(error)}") from None
        except aiohttp.ClientHttpProxyError as error:
            raise Denied(f"{title}: the proxy refuses: {error.status}") from None
        except aiohttp.ClientResponseError:
            raise TryAgain(f"{title}: the server's answer is no HTTP") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise ZarrfuseError(
                f"{title}: the server's answer is not understood: {_reason(error)}"
            ) from None

    async def _followed(
        self, method: str, address: str, title: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        session = self._opened()
        asked = address
        for _ in range(_MOST_REDIRECTS + 1):
            at_origin = _origin(asked) == _origin(self.url.origin)
            answer = await session.request(
                method,
                URL(asked, encoded=True),
                headers={**(self._at_origin if at_origin else self._everywhere), **headers},
                data=body,
                allow_redirects=False,
                proxy=self._proxy(asked),
            )
            target = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or target is None:
                return answer
            answer.release()
            following = escaped(urljoin(asked, target.strip()))
            if _is_slash_added(asked, following):
                raise BecameFolder(f"{title} is a folder")
            scheme = urlsplit(following).scheme
            shown = without_secrets(following)
            if scheme not in ("http", "https") or (asked.startswith("https:") and scheme == "http"):
                raise NotSupported(
                    f"{title}: the server redirects to {shown}, which is not followed"
                )
            asked = following
        raise NotSupported(f"{title}: more than {_MOST_REDIRECTS} redirects, the last to {shown}")

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise ZarrfuseError(f"{self.url}: the store is closed")
        if self._session is None:
            self._loop = asyncio.get_running_loop()
            # Whoever asks limits how many requests there are at a time.
            tls = (
                ssl.create_default_context()
            )  # which heeds SSL_CERT_FILE; aiohttp's is of its import
            connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, ssl=tls)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=1 << 20,
                max_field_size=1 << 16,
            )
        return self._session

    def _proxy(self, address: str) -> str | None:
        """The proxy that the environment names for an address (`https_proxy`, `no_proxy`)."""
        if not self._proxies:
            return None
        parts = urlsplit(address)
        proxy = self._proxies.get(parts.scheme) or self._proxies.get("all")
        if proxy is None or (parts.netloc and proxy_bypass(parts.netloc)):
            return None
        return proxy if _PROXY_OF_A_NAME.match(proxy) else f"http://{proxy}"

    def close(self) -> None:
        """Close all connections; from any thread, also from `__del__`: it does not wait for the loop.

        When Python ends, the loop's thread stands still, and the connections go with the process.
        """
        self._closed = True
        session, loop = self._session, self._loop
        if session is None or loop is None or loop.is_closed() or session.closed:
            return
        if sys.is_finalizing():
            return
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is loop:
            self._closing = loop.create_task(session.close())
        elif loop.is_running():
            asyncio.run_coroutine_threadsafe(session.close(), loop)
        else:
            loop.run_until_complete(session.close())


def _origin(address: str) -> tuple[str, str | None, int]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or {"https": 443}.get(parts.scheme, 80)


def _is_slash_added(asked: str, following: str) -> bool:
    one, other = urlsplit(asked), urlsplit(following)
    return unquote(other.path) == unquote(one.path) + "/"


def _reason(error: BaseException) -> str:
    text = str(getattr(error, "strerror", None) or error) or type(error).__name__
    return re.sub(r"\?\S*", "", text)[:300]


def refused(answer: Answer, title: str) -> Exception:
    """The exception for an answer that is no success."""
    status = answer.status
    said = f"{status} {answer.reason or _phrase(status)}".strip()
    if status in (404, 410):
        return NotFound(f"no key {title}")
    if status in (401, 403, 407):
        return Denied(f"{title}: the server refuses: {said}")
    if status in _NOT_OFFERED:
        return NotSupported(f"{title}: the server cannot do that: {said}")
    if status in _WORTH_REPEATING or status >= 500:
        return TryAgain(f"{title}: the server answers {said}", _retry_after_s(answer))
    return ZarrfuseError(f"{title}: the server answers {said}")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _retry_after_s(answer: Answer) -> float | None:
    """Seconds that the server asks to wait: a number or a date (RFC 9110, Retry-After)."""
    value = answer.headers.get("Retry-After", "").strip()
    if re.fullmatch("[0-9]{1,9}", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except (ValueError, OverflowError):
        return None


async def body_of(answer: Answer, title: str, limit: int) -> bytes:
    """The whole body. Raises `NotSupported` for more than `limit` bytes."""
    pieces = []
    size = 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > limit:
            raise NotSupported(f"{title}: the answer has more than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)
