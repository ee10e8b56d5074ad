"""Chooses the view by its name. Used by `daemon` and `info`."""

from zarrfuse.stores.base import Store
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks import ChunksView
from zarrfuse.views.raw import RawFolder


def open_view(name: str, store: Store, ttl_s: float) -> Folder:
    """The root of the view called `name`, one of `config.VIEWS`.

    `ttl_s`: how long, in seconds, it may believe that metadata has not changed.
    """
    return RawFolder(store) if name == "raw" else ChunksView(store, ttl_s).root
