"""Chooses the view by its name. Used by `daemon` and `info`."""

from zarrfuse.stores.base import Store
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks import ChunksView
from zarrfuse.views.raw import RawFolder


def open_view(name: str, store: Store, ttl_s: float) -> Folder:
    """The root of the view called `name`, one of `config.VIEWS`.

    `ttl_s`: how long, in seconds, it may believe that metadata has not changed.
    """
    if name == "raw":
        return RawFolder(store)
    chunks = ChunksView(store, ttl_s)
    if name == "chunks":
        return chunks.root
    # Imported where they are needed: a mount of another view does without.
    from zarrfuse.views.plain import PlainView  # noqa: PLC0415

    plain = PlainView(chunks).root
    if name == "plain":
        return plain
    from zarrfuse.views.side_by_side import SideBySide  # noqa: PLC0415

    return SideBySide(store, {"raw": RawFolder(store), "chunks": chunks.root, "plain": plain})
