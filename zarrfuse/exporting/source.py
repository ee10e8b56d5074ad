"""The array that is exported: its node, its encoded chunks, and its pixels.

Owns how a path leads into a source. Used by `plan`, `stored_chunks`, `tiles` and `run`. It must not know
formats of files.
"""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zarrfuse.config import PERMANENT_TTL_S, RemoteConfig
from zarrfuse.errors import (
    Corrupt,
    MetadataError,
    NotAFolder,
    NotFound,
    SourceError,
    ZarrfuseError,
    text_of,
)
from zarrfuse.exporting.encodings import in_v3
from zarrfuse.shards.layout import Refused
from zarrfuse.spec.node import ArrayNode, GroupNode
from zarrfuse.spec.ome import Picture, picture_of, pyramids_of
from zarrfuse.spec.paths import join, name_of
from zarrfuse.stores.base import Reader
from zarrfuse.stores.opening import is_url, open_store, printable_source
from zarrfuse.stores.zip.file import ZIP_ENDINGS
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.views.chunks.journals import judge_of
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView
from zarrfuse.views.images.levels import Pyramids
from zarrfuse.views.images.types import array_type, fill_bytes
from zarrfuse.views.keys import Keys
from zarrfuse.views.nodes import DOCUMENTS, Loaded
from zarrfuse.views.plain.nodes import refusal

if TYPE_CHECKING:
    import zarr

Coords = tuple[int, ...]

_INTO_A_ZIP = re.compile(rf"([^?#]*?(?:{'|'.join(map(re.escape, ZIP_ENDINGS))}))/([^?#]+)")


class NoArray(SourceError):
    """There is no Zarr array at the path."""


class SourceArray:
    """An array of a source. For any thread.

    Attributes:
        name: How it is called in messages.
        node: As one of Zarr v3: shape, attributes and so on; its codecs may be those of Zarr v2.
        dtype: Of its elements: native, little-endian.
        fill: The bytes of one element of the fill value.
        picture: Its axes, pixel sizes and channels.
    """

    def __init__(self, view: ChunksView, path: str, name: str) -> None:
        folder = view.root.below(path) if path else view.root
        loaded = _loaded(folder, name)
        assert isinstance(loaded.node, ArrayNode)
        self.name = name
        self.title = name_of(path) or os.path.basename(name.rstrip("/")) or "array"
        self._path = path
        self._view = view
        self._stored = loaded.node
        self._keys = Keys(view.root, view.ttl_s)
        try:
            self.node = in_v3(loaded.node)
        except MetadataError as error:
            raise Refused(f"{name}: {error}") from error
        dtype = array_type(loaded.node)
        fill = fill_bytes(self.node)
        if dtype is None or fill is None or dtype.kind not in "biufc":
            raise Refused(
                f"{name}: elements of {self.node.data_type!r} are no numbers, as those of pictures"
            )
        self.dtype, self.fill = dtype, fill
        around = Pyramids().around(folder)
        self.picture: Picture = (
            picture_of(self._stored)
            if around is None
            else picture_of(self._stored, around.pyramid, around.level)
        )
        self._array: zarr.Array[Any] | None = None

    def chunk(self, coords: Coords) -> Reader | None:
        """The encoded bytes of a chunk, its parts merged; None if it is not stored."""
        try:
            return self._keys.open(join(self._path, self._stored.chunk_key(coords)))
        except (NotFound, NotAFolder):
            return None

    def has_chunk(self, coords: Coords) -> bool:
        """Whether a chunk is stored."""
        try:
            self._keys.lookup(join(self._path, self._stored.chunk_key(coords)))
        except (NotFound, NotAFolder):
            return False
        return True

    def open_pixels(self) -> None:
        """Open it with zarr-python. Raises `Refused` if that cannot decode it. Call it before `pixels`."""
        import zarr  # noqa: PLC0415  # 0.3 s

        from zarrfuse.exporting.view_store import ViewStore  # noqa: PLC0415

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._array = zarr.open_array(ViewStore(self._view), path=self._path, mode="r")
        except (OSError, ZarrfuseError):
            raise
        except Exception as error:  # whatever zarr-python and its codecs raise
            raise Refused(f"{self.name}: zarr-python cannot decode it: {text_of(error)}") from error

    def pixels(self, low: Sequence[int], high: Sequence[int]) -> NDArray[Any]:
        """The elements of a box. Raises `Corrupt` if they cannot be decoded."""
        assert self._array is not None
        box = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        try:
            return np.asarray(self._array[box], self.dtype)
        except (OSError, ZarrfuseError, MemoryError):
            raise
        except Exception as error:  # as above
            where = ", ".join(f"{a}:{b}" for a, b in zip(low, high, strict=True))
            raise Corrupt(f"{self.name}[{where}] cannot be decoded: {text_of(error)}") from error


@contextmanager
def opened_array(path: str, remote: RemoteConfig | None = None) -> Iterator[SourceArray]:
    """The array at a path or URL, which may lead into a folder or zip, for the length of a block.

    Raises `SourceError` if the source cannot be opened, `NoArray`, and `Refused`.
    """
    source, inner = _split(path)
    store = open_store(source, remote=remote)
    try:
        view = ChunksView(rolled_forward(store, judge_of(store)), PERMANENT_TTL_S)
        yield SourceArray(view, inner, printable_source(path))
    finally:
        store.close()


def _split(path: str) -> tuple[str, str]:
    """The source, and the path of the array in it.

    Of folders, the source is the outermost group: it may say the size of pixels.
    """
    if is_url(path):
        found = _INTO_A_ZIP.fullmatch(path.rstrip("/"))
        return (found[1], found[2].strip("/")) if found is not None else (path, "")
    real = os.path.realpath(path)
    if os.path.isdir(real):
        source = real
        while _is_node(os.path.dirname(source)) and os.path.dirname(source) != source:
            source = os.path.dirname(source)
        return source, "" if source == real else os.path.relpath(real, source)
    source = real
    while not os.path.exists(source) and os.path.dirname(source) != source:
        source = os.path.dirname(source)
        if source.endswith(ZIP_ENDINGS) and os.path.isfile(source):
            return source, os.path.relpath(real, source)
    return real, ""


def _is_node(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, document)) for document in DOCUMENTS)


def _loaded(folder: ChunksFolder, name: str) -> Loaded:
    try:
        loaded = folder.loaded()
    except (NotFound, NotAFolder):
        loaded = None
    if loaded is None:
        raise NoArray(
            f"there is no Zarr array at {name}: zarrfuse info lists the arrays of a source"
        )
    problem = refusal(loaded)
    if problem is not None:
        raise Refused(f"{name} cannot be read: {problem}")
    if isinstance(loaded.node, GroupNode):
        levels = [level.path for pyramid in pyramids_of(loaded.node) for level in pyramid.levels]
        such_as = f", such as {name.rstrip('/')}/{levels[0]}" if levels else ""
        raise NoArray(f"{name} is a Zarr group: name one of its arrays{such_as}")
    return loaded
