"""One array as zarr-python decodes it over the `plain` view, and what its errors mean.

Owns opening it, asking for boxes, and turning what is raised into exceptions of ours. Used by
`decode` and `blocks`. Nothing of zarr-python is imported before a chunk has to be decoded: it takes
0.3 s.
"""

import errno
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from zarrfuse.errors import (
    Corrupt,
    Denied,
    NotAFolder,
    NotFound,
    NotSupported,
    Stale,
    ZarrfuseError,
    text_of,
)
from zarrfuse.images.imports import zarr_python
from zarrfuse.spec.node import ArrayNode
from zarrfuse.stores.cache import again
from zarrfuse.views.chunks import ChunksFolder, ChunksView
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain_chunks import PlainChunks
from zarrfuse.views.plain_nodes import refusal

if TYPE_CHECKING:
    import zarr

    from zarrfuse.keys_store import KeysStore

Coords = tuple[int, ...]
Stamp = tuple[int, int]
"""Size and time of a stored chunk."""


class ZarrArray:
    """The elements of one array. For any thread.

    `store`: makes the store over the `plain` view, or gives the one made before.
    """

    def __init__(
        self,
        store: "Callable[[], KeysStore]",
        view: ChunksView,
        folder: ChunksFolder,
        loaded: Loaded,
        dtype: np.dtype[Any],
    ) -> None:
        assert isinstance(loaded.node, ArrayNode)
        self._store = store
        self._view = view
        self._loaded = loaded
        self._node = loaded.node
        self._dtype = dtype
        self._chunks = PlainChunks(view, folder, loaded.node)
        self._array: zarr.Array[Any] | None = None
        self._refused: str | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._loaded.path or "the root array"

    def stamp(self, coords: Coords, *, wait: bool = True) -> Stamp | None:
        """Size and time of the stored chunk at these coordinates, or None if there is none."""
        try:
            if coords:
                entry = self._chunks.lookup(coords[:-1], str(coords[-1]), wait=wait)
            else:
                entry = self._chunks.top(wait=wait)
        except (NotFound, NotAFolder):
            return None
        except Denied:  # it is there, as far as anybody may know; reading it says so
            return -1, -1
        return entry.size, entry.mtime_ns

    def decode(
        self, low: Sequence[int], high: Sequence[int], coords: Coords | None
    ) -> NDArray[Any]:
        """The elements of a box: C-contiguous, native little-endian.

        `coords` are those of the stored chunk that is named, also in the log, when it fails; None
        if the box is in several, which are then to be tried one by one. Raises `NotSupported`
        where zarr-python cannot decode the array, `Stale` when its document has changed, `Corrupt`
        for what cannot be decoded, and what the store raises.
        """
        array = self.opened()
        try:
            found = array[tuple(map(slice, low, high))] if low else array[...]
        except MemoryError:
            raise
        except Exception as error:
            raise self._as_ours(error, coords) from error
        elements: NDArray[Any] = np.asarray(found)
        if elements.dtype != self._dtype or not elements.flags.c_contiguous:
            elements = np.ascontiguousarray(elements.astype(self._dtype, copy=False))
        expected = tuple(b - a for a, b in zip(low, high, strict=True))
        return elements.reshape(expected)

    def _as_ours(self, error: Exception, coords: Coords | None) -> BaseException:
        """What an error in decoding is to who reads the file."""
        if isinstance(error, OSError) and isinstance(error.__cause__, ZarrfuseError):
            return again(error.__cause__)
        if isinstance(error, OSError) and isinstance(error.errno, int):
            return again(error)
        if coords is None:
            return Corrupt(f"{self.name}: cannot be decoded: {text_of(error)}")
        key = self._node.chunk_key(coords)
        problem = f"{self.name}: chunk {key}: cannot be decoded: {text_of(error)}"
        self._view.report(problem, self.stamp(coords))
        return Corrupt(problem)

    def fill_value(self) -> bytes:
        """An element of the fill value, for types of which only zarr-python knows how it is written."""
        array = self.opened()
        value = array.fill_value
        if value is None:  # null in Zarr v2: zarr-python fills with what the type has for it
            value = array.metadata.dtype.default_scalar()
        return np.array(value, self._dtype).tobytes()

    def opened(self) -> "zarr.Array[Any]":
        """The array of zarr-python. Raises `NotSupported`, `Stale`, and what the store raises."""
        if self._array is None:
            with self._lock:
                if self._refused is not None:
                    raise NotSupported(self._refused)
                if self._array is None:
                    self._array = self._open()
        return self._array

    def _open(self) -> "zarr.Array[Any]":
        self._refused = refusal(self._loaded)
        if self._refused is not None:
            raise NotSupported(self._refused)
        library = zarr_python()
        try:
            array = library.open_array(
                store=self._store(),
                path=self._loaded.path,
                mode="r",
                zarr_format=self._node.zarr_format,
            )
        except (MemoryError, RuntimeError):
            raise
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise Stale(f"{self.name} changed while it was open") from error
            raise again(error.__cause__ or error) from error
        except Exception as error:
            self._refused = f"{self.name}: zarr-python cannot decode it: {text_of(error)}"
            self._view.report(self._refused, self._loaded.stamp)
            raise NotSupported(self._refused) from error
        if array.shape != self._node.shape or array.dtype.newbyteorder("<") != self._dtype:
            raise Stale(f"{self.name} changed while it was open")
        return cast("zarr.Array[Any]", array)


def no_memory(nbytes: int) -> OSError:
    """The error for what is too large to be decoded."""
    return OSError(errno.ENOMEM, f"no memory for {nbytes} bytes of decoded chunks")
