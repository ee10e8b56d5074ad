"""A store with the options of a view. Made by `choice`, used by the module `root` of each view."""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zarrfuse.config import FORMATS
from zarrfuse.spec.paths import title_of
from zarrfuse.stores.base import Store
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.zip.file import ZIP_ENDINGS
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.chunks.view import ChunksView


@dataclass(frozen=True)
class ViewSource:
    """A store, and how it is to be shown.

    Attributes:
        store: What is shown.
        ttl_s: Seconds until cached metadata is checked again.
        commits: What stores chunks; None for a read-only view.
        root_name: The name of renderings of the root.
        formats: The renderings to show, of `config.FORMATS`.
        cache: The cache of decoded chunks; None for one of the default size.
    """

    store: Store
    ttl_s: float
    commits: Commits | None = None
    root_name: str = "root"
    formats: Collection[str] = FORMATS
    cache: ByteCache | None = None

    @cached_property
    def chunks(self) -> ChunksView:
        """The `chunks` view, on which the other views are built."""
        return ChunksView(self.store, self.ttl_s, self.commits, is_fill=_is_fill, links=True)


_NAMELESS = re.compile(r"<|[\w-]*memory://|object_store://")
"""What `str` of such a store begins with."""


def _is_fill(*told: Any) -> bool:
    from zarrfuse.decoding.fill_values import is_fill  # noqa: PLC0415  # it imports numpy

    return is_fill(*told)


def root_name(source: str) -> str:
    """The name of renderings at the root of a source; see `spec.paths.title_of`.

    A store of zarr-python may be in memory, or say no more than its class: its root is `array`.
    """
    if _NAMELESS.match(source):
        return "array"
    name = os.path.basename(source)
    for ending in ZIP_ENDINGS:
        name = name.removesuffix(ending)
    return title_of(name)
