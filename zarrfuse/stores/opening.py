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
    scheme = scheme_of(source)
    if scheme in SCHEMES:
        try:
            if writable:
                from zarrfuse.stores.object.store import ObjectStore  # noqa: PLC0415

                return ObjectStore(source, writable=True)
            from zarrfuse.stores.object.opening import open_bucket  # noqa: PLC0415  # 30 MB, 40 ms
        except ImportError as error:
            raise UnusableSource(
                f"the source {source} needs the package obstore: pip install 'zarrfuse[object]'"
            ) from error

        return open_bucket(source, remote or RemoteConfig())
    if scheme in ICECHUNK_SCHEMES:
        if writable:
            raise SourceError(
                f"the source {source} is an Icechunk repository, which can't be written: mount it without"
                " --read-write"
            )
        from zarrfuse.stores.icechunk.opening import open_requests  # noqa: PLC0415  # 60 MB
        from zarrfuse.stores.remote.store import RemoteStore  # noqa: PLC0415  # as above

        config = remote or RemoteConfig()
        return RemoteStore(open_requests(source, config), config)
    if scheme in _HTTP and writable:
        raise SourceError(
            f"the source {source} is an http source, which can't be written: mount it without"
            " --read-write"
        )
    if scheme is None and os.path.isdir(source):
        if writable:
            from zarrfuse.stores.local.writing import WritableLocalStore  # noqa: PLC0415  # few do

            return WritableLocalStore(source, follow_symlinks=follow_symlinks)
        return LocalStore(source, follow_symlinks=follow_symlinks)
    if scheme is not None or not os.path.exists(source):
        if elsewhere := _REMOTE.search(source):
            raise UnusableSource(
                f"the source {elsewhere[0]} is not on this machine: zarrfuse mounts folders, zip files,"
                f" and {', '.join(f'{one}://' for one in (*SCHEMES, *ICECHUNK_SCHEMES))}"
            )
        raise SourceError(f"the source {source} does not exist")
    if source.endswith(ZIP_ENDINGS):
        if writable:
            raise SourceError(
                f"the source {source} is a zip file, which can't be written: mount it without"
                " --read-write"
            )
        from zarrfuse.stores.zip.store import ZipStore  # noqa: PLC0415  # zipfile takes 20 ms

        return ZipStore(source)
    raise SourceError(f"the source {source} is neither a folder nor a .zip or .ozx file")
