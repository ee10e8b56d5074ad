"""Chooses the view by its name, and makes what it needs. Used by `daemon` and `info`."""

import os
from collections.abc import Collection
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarrfuse.config import FORMATS
from zarrfuse.spec.paths import title_of
from zarrfuse.stores.base import Store
from zarrfuse.stores.opening import ZIP_ENDINGS
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.raw.view import RawFolder

if TYPE_CHECKING:
    from zarrfuse.stores.cache import ByteCache

DECODING = frozenset({"images", "all"})
"""The views that decode chunks, and so have use for a cache of them."""

_LARGEST_DEFAULT = 256 << 20


def open_view(
    view: str,
    store: Store,
    ttl_s: float,
    *,
    commits: Commits | None = None,
    root_name: str = "",
    formats: Collection[str] = FORMATS,
    cache: "ByteCache | None" = None,
) -> Folder:
    """The root of the view called `view`, one of `config.VIEWS`.

    `ttl_s`: how long, in seconds, it may believe that metadata has not changed. `commits`: what it
    stores with; it is read-only without. For those that
    decode: `root_name` is what renderings of the root are called, `formats` are those to show, and
    `cache` holds decoded chunks, one of the default size unless given.
    """
    if view == "raw":
        return RawFolder(store, commits=commits)
    chunks = ChunksView(store, ttl_s, commits, is_fill=_is_fill, links=True)
    if view == "chunks":
        return chunks.root
    # Imported where they are needed: a mount of another view does without.
    from zarrfuse.views.plain.view import PlainView  # noqa: PLC0415

    plain = PlainView(chunks).root
    if view == "plain":
        return plain
    from zarrfuse.stores.cache import ByteCache  # noqa: PLC0415
    from zarrfuse.views.images.folder import images_root  # noqa: PLC0415
    from zarrfuse.views.images.nodes import Images  # noqa: PLC0415

    images = images_root(
        Images(
            chunks,
            cache or ByteCache(default_cache_bytes()),
            root_name=root_name or "root",
            formats=formats,
            lasting=store.permanent or ttl_s == inf,
        )
    )
    if view == "images":
        return images
    from zarrfuse.views.side_by_side import SideBySide  # noqa: PLC0415

    raw = RawFolder(store, commits=commits)
    roots = {"raw": raw, "chunks": chunks.root, "plain": plain, "images": images}
    return SideBySide(store, roots)


def _is_fill(*told: Any) -> bool:
    from zarrfuse.decoding.fill_values import is_fill  # noqa: PLC0415  # it imports numpy

    return is_fill(*told)


def root_name(source: str) -> str:
    """What the renderings at the root of a source are called: see `spec.paths.title_of`."""
    name = os.path.basename(source)
    for ending in ZIP_ENDINGS:
        name = name.removesuffix(ending)
    return title_of(name)


def default_cache_bytes() -> int:
    """How many bytes of decoded chunks are kept unless told otherwise.

    A quarter of the memory that this machine or container has, and no more than 256 MiB.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        limit = "max"
    if limit.isdigit():
        memory = min(memory, int(limit))
    return min(_LARGEST_DEFAULT, memory // 4)
