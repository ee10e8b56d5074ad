"""Makes the root of the `all` view."""

from zarrfuse.config import ALL, VIEWS
from zarrfuse.views.all.side_by_side import SideBySide
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import root_of
from zarrfuse.views.source import ViewSource


def root(source: ViewSource) -> Folder:
    """A folder for each other view."""
    roots = {name: root_of(name, source) for name in VIEWS if name != ALL}
    return SideBySide(source.store, roots)
