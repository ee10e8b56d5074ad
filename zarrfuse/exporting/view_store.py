"""A store of zarr-python over an open view, to decode the array that is exported. Used by `source`.

It imports zarr-python.
"""

from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.keys import Keys
from zarrfuse.zarr_python.keys import KeysOfAView, keys_of


class ViewStore(KeysOfAView):
    """The files of the `plain` view over an open `chunks` view; read-only."""

    def __init__(self, view: ChunksView) -> None:
        super().__init__(read_only=True)
        self._opened: Keys = keys_of(view)
        self._is_open = True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def ensure_open(self) -> Keys:
        """See the base class."""
        return self._opened
