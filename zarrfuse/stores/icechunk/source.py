"""URLs of Icechunk repositories: where the repository is, and what of it is shown.

Used by `opening`: `icechunk+file:///path/of/repository` or `icechunk+s3://bucket/prefix`, then nothing (the
branch `main`), `?branch=NAME`, `?tag=NAME` or `?snapshot=ID`. Only what follows the `?` is percent-decoded.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl

from zarrfuse.errors import UnusableSource

SCHEMES = ("icechunk+file", "icechunk+s3")
"""A repository in a local folder, and one in S3 or a compatible server."""

_KINDS = ("branch", "tag", "snapshot")


@dataclass(frozen=True, slots=True)
class IcechunkSource:
    """What a URL names.

    Attributes:
        source: The URL as it was given.
        scheme: One of `SCHEMES`.
        bucket: The bucket; `""` for a folder.
        path: The folder, or the prefix in the bucket.
        kind: `branch`, `tag` or `snapshot`.
        name: The name of the branch or tag, or the id of the snapshot.
    """

    source: str
    scheme: str
    bucket: str
    path: str
    kind: str
    name: str


def parse(source: str) -> IcechunkSource:
    """What a URL names. Raises `UnusableSource`."""
    scheme, _, rest = source.partition("://")
    scheme = scheme.lower()
    where, _, query = rest.partition("?")
    if scheme not in SCHEMES:
        raise UnusableSource(f"the source {source} is no URL of an Icechunk repository")
    kind, name = _shown(source, query)
    if scheme == "icechunk+file":
        if not where.startswith("/"):
            raise UnusableSource(
                f"the source {source} names no absolute path: write icechunk+file:///path"
            )
        return IcechunkSource(source, scheme, "", where, kind, name)
    bucket, _, prefix = where.partition("/")
    if not bucket:
        raise UnusableSource(
            f"the source {source} names no bucket: write icechunk+s3://bucket/prefix"
        )
    return IcechunkSource(source, scheme, bucket, prefix.strip("/"), kind, name)


def _shown(source: str, query: str) -> tuple[str, str]:
    asked = parse_qsl(query, keep_blank_values=True)
    if not asked:
        return "branch", "main"
    [(kind, name), *others] = asked
    if others or kind not in _KINDS or not name:
        raise UnusableSource(
            f"the source {source}: after ? is one of branch=NAME, tag=NAME and snapshot=ID"
        )
    return kind, name
