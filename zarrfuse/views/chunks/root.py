"""Makes the root of the `chunks` view."""

from zarrfuse.views.base import Folder
from zarrfuse.views.source import ViewSource


def root(source: ViewSource) -> Folder:
    """The view that the others are made of."""
    return source.chunks.root
