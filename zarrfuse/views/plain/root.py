"""Makes the root of the `plain` view."""

from zarrfuse.views.base import Folder
from zarrfuse.views.plain.view import PlainView
from zarrfuse.views.source import ViewSource


def root(source: ViewSource) -> Folder:
    """The `chunks` view as a core Zarr v3 store."""
    return PlainView(source.chunks).root
