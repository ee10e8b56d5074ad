"""Makes a view by its name. Used by `mounts`, `cli` and the `all` view."""

from importlib import import_module
from typing import Any

from zarrfuse.config import VIEWS
from zarrfuse.stores.base import Store
from zarrfuse.views.base import Folder
from zarrfuse.views.source import ViewSource


def open_view(view: str, store: Store, ttl_s: float, **how: Any) -> Folder:
    """The root folder of one of `config.VIEWS`; `how` are further members of `ViewSource`."""
    return root_of(view, ViewSource(store, ttl_s, **how))


def root_of(view: str, source: ViewSource) -> Folder:
    """The root folder of a view. Imports its package here, so that other views start without it."""
    assert view in VIEWS
    root: Folder = import_module(f"zarrfuse.views.{view}.root").root(source)
    return root
