"""Opens an Icechunk repository, and says what is wrong if that fails.

Used by `stores.opening`. Owns credentials and endpoints of repositories: from the settings of the mount,
else from the environment, as for other object stores.
"""

import asyncio
import os
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import SourceDenied, SourceError, SourceTimedOut, UnusableSource
from zarrfuse.stores.icechunk.requests import IcechunkRequests
from zarrfuse.stores.icechunk.source import IcechunkSource, parse
from zarrfuse.stores.remote.loop import LOOP
from zarrfuse.stores.zarr_store.failures import first_line

if TYPE_CHECKING:
    from icechunk import Repository, Storage

T = TypeVar("T")

_KEYS = ("access_key_id", "secret_access_key", "session_token")
_SETTINGS = ("endpoint", "region", "skip_signature", *_KEYS)
_YES = ("1", "true", "yes", "on")
_TO_SET = (
    "look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (for a public bucket: --no-sign-request, or"
    " AWS_SKIP_SIGNATURE=true), --region and --endpoint-url (AWS_REGION, AWS_ENDPOINT_URL)"
)


def open_requests(source: str, config: RemoteConfig) -> IcechunkRequests:
    """The requests to what a URL names. Raises `SourceError`.

    A branch is looked up again every `config.ttl_s`; what is open then keeps the bytes that it had.
    """
    named = parse(source)
    try:
        import icechunk  # noqa: PLC0415  # 60 MB
    except ImportError as error:
        raise UnusableSource(
            f"the source {source} needs the package icechunk: pip install 'zarrfuse[icechunk]'"
        ) from error

    if "ICECHUNK_LOG" not in os.environ:
        icechunk.set_logs_filter("error")  # else it warns of commits to local folders
    if named.scheme == "icechunk+file" and not os.path.isdir(named.path):
        raise SourceError(f"the source {source}: there is no folder {named.path}")
    opened = _open(named, _storage(named, config), config)
    try:
        return LOOP.run(opened, timeout_s=config.timeout_s + 5, what=source)
    except TimeoutError:
        raise SourceTimedOut(
            f"{_shown(named, config)} does not answer within {config.timeout_s:g} s: {_TO_SET}"
        ) from None


def _storage(named: IcechunkSource, config: RemoteConfig) -> "Storage":
    import icechunk  # noqa: PLC0415  # as above

    if named.scheme == "icechunk+file":
        return icechunk.local_filesystem_storage(named.path)
    if config.profile is not None:
        raise UnusableSource(
            f"the source {named.source}: Icechunk takes a profile from the environment only: set"
            f" AWS_PROFILE={config.profile}"
        )
    settings = _settings(named, config)
    endpoint = _endpoint(settings)
    anonymous = (_setting(settings, "skip_signature", "AWS_SKIP_SIGNATURE") or "").lower() in _YES
    return icechunk.s3_storage(
        bucket=named.bucket,
        prefix=named.path or None,
        region=_setting(settings, "region", "AWS_REGION", "AWS_DEFAULT_REGION"),
        endpoint_url=endpoint,
        allow_http=endpoint is not None and endpoint.startswith("http://"),
        force_path_style=endpoint is not None,  # what other servers than Amazon's have all
        anonymous=anonymous or None,
        from_env=None if anonymous or not settings.keys().isdisjoint(_KEYS) else True,
        access_key_id=settings.get("access_key_id"),
        secret_access_key=settings.get("secret_access_key"),
        session_token=settings.get("session_token"),
        network_stream_timeout_seconds=max(1, int(config.timeout_s)),
    )


def _settings(named: IcechunkSource, config: RemoteConfig) -> dict[str, str]:
    """The settings by the names that Icechunk has for them. Raises `UnusableSource` for one it lacks."""
    found = {}
    for given, value in config.settings:
        name = given.lower().removeprefix("aws_")
        name = "endpoint" if name == "endpoint_url" else name
        if name not in _SETTINGS:
            raise UnusableSource(
                f"the source {named.source}: Icechunk has no setting {given}: the names are"
                f" {', '.join(_SETTINGS)}"
            )
        found[name] = value
    return found


def _endpoint(settings: Mapping[str, str]) -> str | None:
    return _setting(settings, "endpoint", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def _shown(named: IcechunkSource, config: RemoteConfig) -> str:
    """The source and its server, for messages."""
    if named.scheme == "icechunk+file":
        return f"the source {named.source}"
    return f"the source {named.source} at {_endpoint(_settings(named, config)) or 'Amazon S3'}"


def _setting(settings: Mapping[str, str], name: str, *variables: str) -> str | None:
    given = settings.get(name)
    return given or next((value for one in variables if (value := os.environ.get(one))), None)


async def _open(
    named: IcechunkSource, storage: "Storage", config: RemoteConfig
) -> IcechunkRequests:
    import icechunk  # noqa: PLC0415  # as above

    async def within(work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wait_for(work, config.timeout_s)

    try:
        repository = await within(icechunk.Repository.open_async(storage))
    except icechunk.IcechunkError as error:
        raise _not_opened(named, config, error) from None
    requests = IcechunkRequests(repository, named, config.ttl_s)
    try:
        await within(requests.begin())
    except icechunk.IcechunkError as error:
        has = await within(_there(repository, named.kind))
        raise SourceError(
            f"the source {named.source}: the repository has no {named.kind} {named.name}{has}"
            if any(word in str(error) for word in ("not found", "invalid snapshot id"))
            else f"the source {named.source} cannot be read: {first_line(error)}"
        ) from None
    return requests


def _not_opened(named: IcechunkSource, config: RemoteConfig, error: Exception) -> SourceError:
    said = str(error)
    if "repository doesn't exist" in said:
        where = (
            named.path if named.scheme == "icechunk+file" else f"s3://{named.bucket}/{named.path}"
        )
        return SourceError(f"the source {named.source}: there is no Icechunk repository in {where}")
    refused = any(
        word in said for word in ("AccessDenied", "Forbidden", "403", "InvalidAccessKeyId")
    )
    if named.scheme == "icechunk+file":
        return SourceError(f"the source {named.source} cannot be opened: {first_line(error)}")
    kind = SourceDenied if refused else SourceError
    return kind(f"{_shown(named, config)} cannot be opened: {first_line(error)}; {_TO_SET}")


async def _there(repository: "Repository", kind: str) -> str:
    """` (it has ...)`: the first names of branches or tags; nothing for snapshots."""
    if kind == "snapshot":
        return ""
    names = await (
        repository.list_branches_async() if kind == "branch" else repository.list_tags_async()
    )
    some = sorted(names)[:10]
    return f" (it has {', '.join(some)})" if some else " (it has none)"
