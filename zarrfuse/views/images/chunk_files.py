"""Every chunk of one array as a TIFF file, in the folders `c`, `c/0`, ...: names, sizes, bytes.

Owns which chunk a name stands for, what is listed, and which chunks are stored as TIFF files and are shown
unchanged. Used by `arrays`, `nodes` and `folder`. It must not know how a chunk is decoded.
"""

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from zarrfuse import caching
from zarrfuse.errors import Corrupt, Denied, NotAFolder, NotFound, ZarrfuseError
from zarrfuse.formats.segments import Broken, Rendered
from zarrfuse.formats.tiff import array_tiff
from zarrfuse.spec.axes import Description, axes_of
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.ome import Picture
from zarrfuse.spec.plain import CHUNK_KEYS
from zarrfuse.spec.plain_keys import coordinate
from zarrfuse.stores.access import Access, as_folder, both
from zarrfuse.stores.base import Entry, Kind, Reader
from zarrfuse.views.images.framed import Framed
from zarrfuse.views.images.regions import Slices
from zarrfuse.views.plain.chunks import TOP, Coords, PlainChunks

ENDING = ".tiff"
MOST_LISTED = 100_000
"""A folder with more chunks lists only the stored ones; the others can be opened by name."""

PixelsOf = Callable[[Slices, int], Reader]
"""Makes a reader of the pixels in a box, with a modification time (ns)."""

_TIFF_ENDINGS = (".tif", ".tiff")
_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_MOST_LOOKED_AT = 16
"""How many stored chunks are tried until one can be read that shows their format."""
_HEADS_BYTES = 4 << 20
"""How many bytes of the envelopes of an array's chunks are cached."""


class ChunkFiles:
    """The TIFF files of the chunks of an array.

    `stored`: its stored chunks; `dtype`: of its elements; `picture`: its axes and channels; `name`: its
    name. `mtime_ns`: the time of chunks that are not stored. `access`: that of the array's document, which
    no file here exceeds. `check`: called with `wait` and coordinates before pixels are read, and raises if
    they must not be. `problem`: why chunks cannot be rendered; those that are stored as TIFF are shown.
    `lasting`: see `formats.segments.Rendered`.
    """

    def __init__(
        self,
        stored: PlainChunks,
        node: ArrayNode,
        dtype: "np.dtype[Any] | None",
        pixels: PixelsOf,
        check: Callable[[bool, Coords], None],
        *,
        picture: Picture,
        name: str,
        mtime_ns: int,
        access: Access | None,
        lasting: bool,
        probed: "StoredTiffs",
        problem: str | None = None,
    ) -> None:
        self._stored = stored
        self._node = node
        self._dtype = dtype
        self._pixels = pixels
        self._check = check
        self._picture = _picture_of_chunk(picture, node)
        self._name = name
        self._mtime_ns = mtime_ns
        self._access = access
        self._lasting = lasting
        self._probed = probed
        self.problem = problem
        self._framed: dict[tuple[int, ...], Framed] = {}
        self._framed_bytes = 0

    def prepare(self) -> None:
        """Make the header of a whole chunk, which most chunks have. Raises what that raises."""
        if self.problem is None:
            self._rendered_size((0,) * self._node.ndim)

    # -- names -------------------------------------------------------------------------------

    def coords_of(self, prefix: Coords, name: str) -> Coords | None:
        """The coordinates that a name stands for: those of a chunk, or the first ones of a chunk folder."""
        ndim = self._node.ndim
        if not ndim:
            return () if name == TOP + ENDING else None
        if len(prefix) == ndim - 1:
            if not name.endswith(ENDING):
                return None
            name = name[: -len(ENDING)]
        number = coordinate(name, self._node.grid_shape[len(prefix)])
        return None if number is None else (*prefix, number)

    def top(self, *, wait: bool = True) -> Entry:
        """The entry of `c`, the folder of all chunks; for a scalar that of its chunk `c.tiff`."""
        if not self._node.ndim:
            return self.lookup((), TOP + ENDING, wait=wait)
        try:
            return _as_folder(TOP, self._stored.top(wait=wait))
        except NotFound:
            return self._folder(TOP, None)

    def lookup(self, prefix: Coords, name: str, *, wait: bool = True) -> Entry:
        """The entry of a name in the chunk folder `prefix`."""
        coords = self.coords_of(prefix, name)
        if coords is None:
            return self._stored.beside(prefix, name).lookup(name, wait=wait)
        stored: Entry | None
        try:
            if coords:
                stored = self._stored.lookup(coords[:-1], str(coords[-1]), wait=wait)
            else:
                stored = self._stored.top(wait=wait)
        except NotFound:
            if self.problem is not None:
                raise
            stored = None
        if len(coords) == self._node.ndim:
            return self._file(name, coords, stored, self._probed.are_tiff(wait=wait), wait)
        return self._folder(name, stored)

    def scan(self, prefix: Coords) -> Iterator[Entry]:
        """The entries of the chunk folder `prefix`: all chunks of the grid, and other stored files."""
        if self.problem is not None or self._node.grid_shape[len(prefix)] > MOST_LISTED:
            return self._scan_many(prefix)
        return self._scan_all(prefix)

    def _scan_many(self, prefix: Coords) -> Iterator[Entry]:
        is_last = len(prefix) == self._node.ndim - 1
        passed = is_last and self._probed.are_tiff()
        for entry in self._scan_stored(prefix):
            coords = self._stored.coords_below(prefix, entry.name)
            if coords is None:
                if self.coords_of(prefix, entry.name) is None:
                    yield entry
            elif is_last:
                yield self._file(f"{entry.name}{ENDING}", coords, entry, passed)
            else:
                yield self._folder(entry.name, entry)

    def _scan_all(self, prefix: Coords) -> Iterator[Entry]:
        count = self._node.grid_shape[len(prefix)]
        stored = {entry.name: entry for entry in self._scan_stored(prefix)}
        names = list(map(str, range(count)))
        found = [stored.pop(name, None) for name in names]
        for name, beside in stored.items():
            if self.coords_of(prefix, name) is None:
                yield beside
        if len(prefix) < self._node.ndim - 1:
            yield from map(self._folder, names, found)
            return
        passed = self._probed.are_tiff()
        # All but the last have one size, which is not computed 100,000 times.
        size, last = self._rendered_size((*prefix, 0)), self._rendered_size((*prefix, count - 1))
        mtime_ns, own = self._mtime_ns, self._access
        for number, entry in enumerate(found):
            if number == count - 1:
                size = last
            name = f"{number}{ENDING}"
            if entry is None:
                yield Entry(name, Kind.FILE, size, mtime_ns, access=own)
            else:
                shown = entry.size if passed else size
                access = both(entry.access, own)
                yield Entry(name, Kind.FILE, shown, entry.mtime_ns, entry.denied, access=access)

    def _scan_stored(self, prefix: Coords) -> Iterator[Entry]:
        try:
            yield from self._stored.scan(prefix)
        except (NotFound, NotAFolder):  # none of these chunks is stored
            return

    def _folder(self, name: str, stored: Entry | None) -> Entry:
        if stored is None:
            return Entry(name, Kind.FOLDER, 0, self._mtime_ns, access=as_folder(self._access))
        return _as_folder(name, stored)

    def _file(
        self, name: str, coords: Coords, stored: Entry | None, passed: bool, wait: bool = True
    ) -> Entry:
        if stored is None:
            size = self._rendered_size(coords, wait)
            return Entry(name, Kind.FILE, size, self._mtime_ns, access=self._access)
        size = stored.size if passed else self._rendered_size(coords, wait)
        access = both(stored.access, self._access)
        return Entry(name, Kind.FILE, size, stored.mtime_ns, stored.denied, access=access)

    def first(self) -> tuple[str, int] | None:
        """The name of the first chunk, relative to the array, and its size in bytes.

        With a `problem`, those of the first stored chunk; None if there is none.
        """
        coords: Coords | None = (0,) * self._node.ndim
        if self.problem is not None:
            coords = next(self._stored.some(), None)
        if coords is None:
            return None
        name = f"{coords[-1]}{ENDING}" if coords else TOP + ENDING
        if self._probed.are_tiff():
            size = self.lookup(coords[:-1], name).size
        else:  # then it is the same whether it is stored or not
            size = self._rendered_size(coords)
        return CHUNK_KEYS.encode(coords) + ENDING, size

    # -- bytes -------------------------------------------------------------------------------

    def open(self, prefix: Coords, name: str, *, wait: bool = True) -> Reader:
        """Open a chunk as TIFF, or another file in a chunk folder. Raises `NotFound`."""
        coords = self.coords_of(prefix, name)
        if coords is None:
            return self._stored.beside(prefix, name).open(name, wait=wait)
        if len(coords) < self._node.ndim:
            raise NotFound(f"{name} is a folder of chunks")
        if self._probed.are_tiff(wait=wait):
            try:
                return self._probed.open(coords, wait=wait)
            except NotFound:
                pass
        entry = self.lookup(prefix, name, wait=wait)
        if entry.denied:
            raise Denied(f"{name} leads out of the store")
        self._check(wait, coords)
        framed, box = self._framed_chunk(coords, wait), self._box(coords)

        def pixels_of(part: Slices) -> Reader:
            moved = [
                slice(whole.start + along.start, whole.start + along.stop)
                for whole, along in zip(box, part, strict=True)
            ]
            return self._pixels(tuple(moved), entry.mtime_ns)

        file = framed.file(self._pixels(box, entry.mtime_ns), pixels_of, entry.mtime_ns)
        # What was decoded before the chunk was written anew is believed for a while: kernels must not
        # keep that under the new time.
        return Rendered(file, lasting=self._lasting, access=entry.access)

    def _box(self, coords: Coords) -> Slices:
        """The part of the array that a chunk covers, cropped to its shape."""
        node = self._node
        return tuple(
            slice(at * length, min((at + 1) * length, whole))
            for at, length, whole in zip(coords, node.chunk_shape, node.shape, strict=True)
        )

    def _rendered_size(self, coords: Coords, wait: bool = True) -> int:
        return self._framed_chunk(coords, wait).size

    def _framed_chunk(self, coords: Coords, wait: bool) -> Framed:
        """The envelope of the pixels of a chunk."""
        shape = tuple(part.stop - part.start for part in self._box(coords))
        framed = self._framed.get(shape)
        if framed is None:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a header has to be made")
            dtype = self._dtype
            assert dtype is not None
            framed = Framed(
                shape,
                dtype.itemsize,
                lambda: array_tiff(shape, dtype, self._picture, self._name, align=None),
            )
            self._framed_bytes += framed.kept_bytes
            if self._framed_bytes > _HEADS_BYTES:
                self._framed.clear()
                self._framed_bytes = framed.kept_bytes
            self._framed[shape] = framed
        return framed


def _picture_of_chunk(picture: Picture, node: ArrayNode) -> Picture:
    """The axes and channels of every chunk of an array, without its position: all chunks share a header.

    If a chunk has only some of the samples of a pixel, its axes are those of an array without names.
    """
    if picture.samples and node.chunk_shape[-1] < node.shape[-1]:
        unnamed = [Description()] * node.ndim
        return Picture(axes_of(node.chunk_shape, unnamed, may_be_rgb=False))
    return replace(picture, axes=tuple(replace(axis, origin=None) for axis in picture.axes))


class StoredTiffs:
    """The chunks of an array that are stored as TIFF files.

    They are if their keys end in `.tif` or `.tiff`, and the first chunk that is found begins as TIFF files
    do (TIFF 6.0, Section 2; BigTIFF). On slow storage the keys alone decide.
    """

    def __init__(self, stored: PlainChunks, node: ArrayNode, ttl_s: float, where: str) -> None:
        self._stored = stored
        self._where = where
        self._ttl_s = ttl_s
        key = node.chunk_key((0,) * node.ndim)
        self._found: bool | None = None if key.lower().endswith(_TIFF_ENDINGS) else False
        self._believed, self._believed_at = False, -inf
        self.slow = False

    def are_tiff(self, *, wait: bool = True) -> bool:
        """Whether chunks are stored as TIFF files; `BlockingIOError` as for stores."""
        if self._found is not None:
            return self._found
        if self.slow:
            return True
        if caching.is_fresh(self._believed_at, self._ttl_s):
            return self._believed
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "a chunk has to be looked at")
        looked_at, began_at = 0, caching.now()
        for coords in self._stored.some():
            looked_at += 1
            try:
                reader = self._stored.open_chunk(coords)
                try:
                    if reader.size:  # an empty one may be about to be written
                        self._found = _is_tiff(reader)
                finally:
                    reader.close()
            except (ZarrfuseError, OSError):  # a broken one tells nothing; the next may
                pass
            if self._found is not None or looked_at == _MOST_LOOKED_AT:
                break
        if self._found is not None:
            return self._found
        # None can be read: then who opens one is told why. Or none is stored.
        self._believed = bool(looked_at)
        self._believed_at = began_at
        return self._believed

    def open(self, coords: Coords, *, wait: bool = True) -> Reader:
        """Open a stored chunk. Reads of one that is no TIFF file raise `Corrupt`. Raises `NotFound`."""
        reader = self._stored.open_chunk(coords, wait=wait)
        try:
            if _is_tiff(reader, wait=wait):
                return reader
        except Corrupt:
            return reader  # a part is missing: each read says so
        except BaseException:
            reader.close()
            raise
        reader.close()
        at = "/".join(map(str, (TOP, *coords)))
        problem = f"{self._where}: chunk {at}: is no TIFF file, as others of the array are"
        if not reader.size:  # nothing is ever read of it, so opening must say it
            raise Corrupt(problem)
        return Broken(reader.size, reader.mtime_ns, problem)


def _is_tiff(reader: Reader, *, wait: bool = True) -> bool:
    if reader.size < len(_MAGIC[0]):
        return False
    magic = bytearray(len(_MAGIC[0]))
    reader.readinto(memoryview(magic), 0, wait=wait)
    return bytes(magic) in _MAGIC


def _as_folder(name: str, entry: Entry) -> Entry:
    if entry.denied:
        return Entry(name, entry.kind, entry.size, entry.mtime_ns, True)
    return Entry(name, Kind.FOLDER, 0, entry.mtime_ns, access=entry.access)
