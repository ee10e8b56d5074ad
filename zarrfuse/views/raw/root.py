"""Makes the root of the `raw` view."""

from zarrfuse.views.base import Folder
from zarrfuse.views.raw.view import RawFolder
from zarrfuse.views.source import ViewSource


def root(source: ViewSource) -> Folder:
    """The files of the store."""
    return RawFolder(source.store, commits=source.commits)
