"""The objects of one bucket, as a remote store asks for them. Implements `remote.requests.Requests`.

Used by `opening`. Each request is one try; listings, which are many requests, are repeated by `obstore`.
Credentials that have expired are fetched anew.
"""

import time
from datetime import datetime
from typing import Any
from zlib import crc32

import obstore

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import NotFound, Stale
from zarrfuse.spec.paths import name_of
from zarrfuse.stores.object.client import Client, Expired, client, told
from zarrfuse.stores.object.profiles import credentials_of
from zarrfuse.stores.object.url import ObjectUrl, can_be_key
from zarrfuse.stores.remote.requests import Found, Listing, TryAgain

_RENEWED_AFTER_S = 10.0
_PAGE_S = 5.0
_PAGE_TRIES = 4


class BucketRequests:
    """The keys below the prefix of a URL. Raises `UnusableSource` for settings that are wrong."""

    permanent = False
    lists_all = True

    def __init__(self, url: ObjectUrl, config: RemoteConfig) -> None:
        self.url = str(url)
        self._url = url
        self._config = config
        self._settings = dict(config.settings)
        self._timeout_s = config.timeout_s
        self._renewed_at = -_RENEWED_AFTER_S
        self._make()

    async def find(self, path: str) -> Found:
        """See `Requests`."""
        whole = self._whole(path)
        async with _Renewing(self, path):
            return found(await obstore.head_async(self._client, whole))

    async def list(self, path: str) -> Listing:
        """See `Requests`."""
        whole = self._whole(path)
        async with _Renewing(self, path or self.url):
            listed = await obstore.list_with_delimiter_async(self._lister, whole or None)
        skipped = len(whole) + 1 if whole else 0
        objects = {one["path"][skipped:]: found(one) for one in listed["objects"]}
        has_marker = objects.pop("", None) is not None  # the object `path/`
        folders = [name_of(folder) for folder in listed["common_prefixes"]]
        folders = [name for name in folders if name and name not in objects]
        if path and not (objects or folders or has_marker):
            raise NotFound(f"no folder {path}")
        return Listing(objects, folders)

    async def get(self, path: str, start: int, stop: int, of: Found) -> memoryview:
        """See `Requests`."""
        options: Any = {"range": (start, stop)}
        if of.version is not None:
            options["if_match"] = f'"{of.version}"'
        try:
            async with _Renewing(self, path):
                answer = await obstore.get_async(self._client, self._whole(path), options=options)
                try:
                    if found(answer.meta) != of:
                        raise Stale(f"{path} was replaced while it was open")
                    return memoryview(await answer.bytes_async())
                finally:
                    del (
                        answer
                    )  # tracebacks would keep it, and with it a connection that is not read
        except NotFound:
            raise Stale(f"{path} was deleted while it was open") from None

    def close(self) -> None:
        """See `Requests`. Clients go with their last request."""

    def renew(self, since: float) -> bool:
        """Fetch credentials anew for a request begun at `since`; False if it had just renewed ones."""
        if self._renewed_at > since:
            return True  # for another request that was under way
        if time.monotonic() - self._renewed_at < _RENEWED_AFTER_S:
            return False
        self._renewed_at = time.monotonic()
        self._make()
        return True

    def _make(self) -> None:
        credentials = credentials_of(self._url, self._config.profile, self._settings)
        connect_s = min(3.0, self._timeout_s / 3)

        def made(answer_s: float, tries: int) -> Client:
            return client(
                self._url,
                connect_s=connect_s,
                answer_s=answer_s,
                retries=tries - 1,
                retry_s=self._timeout_s,
                given=self._settings,
                headers=dict(self._config.headers),
                credentials=credentials,
            )

        self._client = made(self._timeout_s * 2, 1)  # `remote.calls` gives up before
        self._lister = made(min(_PAGE_S, self._timeout_s / _PAGE_TRIES), _PAGE_TRIES)

    def _whole(self, path: str) -> str:
        """The key of the bucket."""
        if path and not can_be_key(path):
            raise NotFound(f"no key {path!r}")
        prefix = self._url.prefix
        return f"{prefix}/{path}" if prefix and path else prefix or path


class _Renewing:
    """A block in which errors of `obstore` are told, and expired credentials are fetched anew."""

    def __init__(self, requests: BucketRequests, what: str) -> None:
        self._requests = requests
        self._told = told(what, again=True)
        self._began = time.monotonic()

    async def __aenter__(self) -> None:
        self._told.__enter__()

    async def __aexit__(self, *exc: Any) -> None:
        try:
            self._told.__exit__(*exc)
        except Expired as error:
            if self._requests.renew(self._began):
                raise TryAgain(str(error), retry_after_s=0.0) from None
            raise


def found(one: Any) -> Found:
    """The object of a reply of `obstore`; its version is the ETag, without quotes.

    Times of object stores are in seconds, in some answers with a fraction.
    """
    when: datetime = one["last_modified"]
    e_tag = one["e_tag"]
    # A proxy may weaken the ETag in some of its answers.
    version = e_tag.removeprefix("W/").strip('"') if e_tag else None
    # So that the kernel can tell two objects of one second apart.
    below_second = crc32(version.encode()) % 10**9 if version else 0
    return Found(one["size"], int(when.timestamp()) * 10**9 + below_second, version)
