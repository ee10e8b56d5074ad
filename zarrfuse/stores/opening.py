"""Chooses the store for a source. Used by `mounts`, `cli`, `check` and `zarr_python`."""

import os
import re

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import SourceError, UnusableSource
from zarrfuse.stores.base import Store
from zarrfuse.stores.icechunk.source import SCHEMES as ICECHUNK_SCHEMES
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.object.url import SCHEMES, scheme_of
from zarrfuse.stores.zip.file import ZIP_ENDINGS

# As typed, or as a path of this machine, which makes one slash of two.
_REMOTE = re.compile(r"(?:(?<=/)|^)(?:[a-z][a-z0-9+]*:/|[^/@]+@[^/:]+:).*")
_HTTP = ("http", "https")


def is_url(source: str) -> bool:
    """Whether a source is a URL rather than a path."""
    return scheme_of(source) is not None


def printable_source(source: str) -> str:
    """A source without what may be secret: of a URL, the user and password, and the query.

    The query of an Icechunk repository names a branch, a tag or a snapshot.
    """
    if scheme_of(source) in (None, *ICECHUNK_SCHEMES):
        return source
    address = source.partition("?")[0].partition("#")[0]
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def secrets_of(source: str) -> list[str]:
    """What of a URL may be secret: user and password, and the query."""
    if scheme_of(source) in (None, *ICECHUNK_SCHEMES):
        return []
    address, _, query = source.partition("?")
    user, at, _ = address.partition("://")[2].partition("/")[0].rpartition("@")
    return [part for part in (user if at else "", query) if part]


def open_store(
    source: str,
    *,
    follow_symlinks: bool = False,
    writable: bool = False,
    remote: RemoteConfig | None = None,
) -> Store:
    """The store for a path or URL: a folder, a zip file, or the keys below `s3://bucket/prefix`.

    With `writable`, it is a `base.WritableStore`. `remote`: how a URL is read. Raises `SourceError`. The
    store of a URL does not survive a fork: open it in the process that uses it.
    """
    if is_url(source):
        return _open_url(source, remote or RemoteConfig(), writable=writable)
    if os.path.isdir(source):
        if writable:
            from zarrfuse.stores.local.writing import WritableLocalStore  # noqa: PLC0415  # few do

            return WritableLocalStore(source, follow_symlinks=follow_symlinks)
        return LocalStore(source, follow_symlinks=follow_symlinks)
    if not os.path.exists(source):
        if elsewhere := _REMOTE.search(source):
            raise _not_here(elsewhere[0])
        raise SourceError(f"the source {source} does not exist")
    if source.endswith(ZIP_ENDINGS):
        if writable:
            raise _not_written(source, "a zip file")
        from zarrfuse.stores.zip.store import ZipStore  # noqa: PLC0415  # zipfile takes 20 ms

        return ZipStore(source)
    raise SourceError(f"the source {source} is neither a folder nor a .zip or .ozx file")


def _open_url(source: str, remote: RemoteConfig, *, writable: bool) -> Store:
    """The store for a URL. What its scheme needs is imported here: tens of MB."""
    scheme, shown = scheme_of(source), printable_source(source)
    if scheme in SCHEMES:
        try:
            if writable:
                from zarrfuse.stores.object.store import ObjectStore  # noqa: PLC0415

                return ObjectStore(
                    source, writable=True, settings=dict(remote.settings), profile=remote.profile
                )
            from zarrfuse.stores.object.opening import open_bucket  # noqa: PLC0415
        except ImportError as error:
            raise _missing(shown, "obstore", "object") from error
        return open_bucket(source, remote)
    if scheme in ICECHUNK_SCHEMES:
        if writable:
            raise _not_written(shown, "an Icechunk repository")
        from zarrfuse.stores.icechunk.opening import open_requests  # noqa: PLC0415
        from zarrfuse.stores.remote.store import RemoteStore  # noqa: PLC0415

        return RemoteStore(open_requests(source, remote), remote)
    if scheme in _HTTP:
        if writable:
            raise _not_written(shown, "an http source")
        try:
            from zarrfuse.stores.http.opening import open_url  # noqa: PLC0415
        except ImportError as error:
            raise _missing(shown, "aiohttp", "http") from error
        return open_url(source, remote)
    raise _not_here(shown)


def _not_here(source: str) -> UnusableSource:
    schemes = ", ".join(f"{scheme}://" for scheme in (*SCHEMES, *_HTTP, *ICECHUNK_SCHEMES))
    return UnusableSource(
        f"the source {source} is not on this machine: zarrfuse mounts folders, zip files, and {schemes}"
    )


def _not_written(source: str, what: str) -> SourceError:
    return SourceError(
        f"the source {source} is {what}, which can't be written: mount it without --read-write"
    )


def _missing(source: str, package: str, extra: str) -> UnusableSource:
    return UnusableSource(
        f"the source {source} needs the package {package}: pip install 'zarrfuse[{extra}]'"
    )
