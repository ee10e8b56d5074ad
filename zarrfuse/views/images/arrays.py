"""The renderings of one array: `A.tiff`, `A.npy`, `A.png`, and its chunks as TIFF files.

Owns why some of them are missing, and what each is made from. Used by `images.folder`, and by
`images.groups` for the levels of a pyramid.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from zarrfuse.errors import NotSupported
from zarrfuse.formats.envelope import Envelope
from zarrfuse.formats.npy import npy
from zarrfuse.formats.segments import Rendered
from zarrfuse.formats.tiff import array_tiff, tiff_problem
from zarrfuse.spec.members import shown
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.ome import Picture, picture_of
from zarrfuse.stores.base import Reader
from zarrfuse.views.chunks.view import ChunksFolder
from zarrfuse.views.images.chunk_files import ENDING, ChunkFiles, StoredTiffs
from zarrfuse.views.images.decode import DecodedArray
from zarrfuse.views.images.framed import Framed
from zarrfuse.views.images.lazy_bytes import LazyBytes
from zarrfuse.views.images.levels import PyramidLevel, access_to
from zarrfuse.views.images.nodes import (
    LARGEST_FILE,
    TOO_LARGE,
    Images,
    ImagesNode,
    Offer,
    Rendering,
    name_problem,
)
from zarrfuse.views.images.pixels import Pixels
from zarrfuse.views.images.regions import Slices
from zarrfuse.views.images.render import plan
from zarrfuse.views.images.stored_bytes import ArrayFiles
from zarrfuse.views.images.types import array_type
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain.chunks import TOP, Coords
from zarrfuse.views.plain.nodes import refusal


class ArrayImages(ImagesNode):
    """An array: its chunks, and the whole of it."""

    def __init__(self, images: Images, folder: ChunksFolder, loaded: Loaded) -> None:
        super().__init__(images, folder, loaded)
        assert isinstance(loaded.node, ArrayNode)
        self.node = loaded.node
        self._files = ArrayFiles(images.chunks, folder, loaded)
        self.chunks = self._files.chunks
        self.refused = refusal(loaded)
        if self.refused is not None:
            images.chunks.report(f"not decoded: {self.refused}")
        self.dtype = array_type(self.node)
        where = loaded.path or "the root array"
        self._probed = StoredTiffs(self.chunks, self.node, images.chunks.ttl_s, where)
        self._name = name = images.name_of(loaded)
        makers = {"tiff": self._tiff, "npy": self._npy, "png": self._png}
        self._makers = {
            f"{name}.{format_}": make
            for format_, make in makers.items()
            if format_ in images.formats
        }

    def names(self) -> Sequence[str]:
        """See the base class."""
        return tuple(self._makers)

    def rendering(self, name: str, *, wait: bool = True) -> Offer | None:
        """See the base class."""
        make = self._makers.get(name)
        if make is None:
            return None
        return name_problem(name) or make(name, wait)

    def not_decoded(self) -> str | None:
        """See the base class."""
        if self.refused is None and self.dtype is not None:
            try:
                self.decoded.check()
            except NotSupported as error:
                return str(error)
        return self.refused

    def told(self) -> dict[str, int | str]:
        """See the base class; the first chunk stands for all."""
        if "tiff" not in self._images.formats:
            return super().told()
        files = self.chunk_files()
        if isinstance(files, str):
            return {f"{TOP}{ENDING}" if not self.node.ndim else TOP: files, **super().told()}
        first = files.first()
        return {**({} if first is None else {first[0]: first[1]}), **super().told()}

    # -- what renderings are made from -------------------------------------------------------

    @property
    def decoded(self) -> DecodedArray:
        """The array, to be decoded."""
        return self._images.decoder.array(self._files)

    def picture(self, place: PyramidLevel | None) -> Picture:
        """What its metadata and those of the pyramid around it say of it as a picture."""
        if place is None:
            return picture_of(self.node)
        return picture_of(self.node, place.pyramid, place.level)

    def _place(self, wait: bool) -> tuple[PyramidLevel | None, Sequence[object]]:
        """Its place in a pyramid, and what that depends on."""
        place = self._images.pyramids.around(self.folder, wait=wait)
        return place, ((place.pyramid, place.pyramid.levels[place.level]) if place else ())

    def no_type(self) -> str | None:
        """Why its elements cannot be in any file, as a clause, or None."""
        if self.dtype is not None:
            return None
        return f"elements of the type {shown(self.node.data_type)} have no fixed size"

    def check(self, wait: bool, coords: Coords | None = None) -> None:
        """To be called before pixels are asked for, of the chunk at `coords` or of all.

        Raises `NotSupported` where nobody can decode them, and what extensions refuse with.
        """
        if self.refused is not None:
            raise NotSupported(self.refused)
        self.decoded.check(wait=wait)
        self.folder.before_opening(coords, wait=wait)

    def is_slow(self, wait: bool) -> bool:
        """Whether it is on slow storage: nothing is to be read before somebody asks for it."""
        return self.folder.tier(wait=wait) is not None

    # -- chunks ------------------------------------------------------------------------------

    def chunk_files(self, *, wait: bool = True) -> ChunkFiles | str:
        """See the base class."""
        if "tiff" not in self._images.formats:
            return "TIFF was not asked for"
        self._probed.slow = self.is_slow(wait)
        place, sources = self._place(wait)
        files = self._kept(
            "chunks", sources, wait, lambda: self._guarded(TOP, lambda: self._make_files(place))
        )
        if isinstance(files, str) or files.problem is None or self._probed.are_tiff(wait=wait):
            return files
        return files.problem

    def _make_files(self, place: PyramidLevel | None) -> ChunkFiles | str:
        if 0 in self.node.shape:
            return "there is no chunk"

        def pixels(box: Slices, mtime_ns: int) -> Reader:
            return Pixels(self.decoded, box, mtime_ns, ahead=False)

        assert self.chunks is not None
        files = ChunkFiles(
            self.chunks,
            self.node,
            self.dtype,
            pixels,
            self.check,
            picture=self.picture(place),
            name=self._name,
            mtime_ns=self.loaded.mtime_ns,
            access=self.loaded.access,
            lasting=self._images.lasting,
            probed=self._probed,
            problem=self._chunk_problem(),
        )
        files.prepare()
        return files

    def _chunk_problem(self) -> str | None:
        """Why chunks cannot be rendered as TIFF files, as a clause; they may be stored as some."""
        if self.dtype is None:
            return self.no_type()
        return _tiff_problem(tuple(map(min, self.node.chunk_shape, self.node.shape)), self.dtype)

    # -- the whole array ---------------------------------------------------------------------

    def _tiff(self, name: str, wait: bool) -> Offer:
        place, sources = self._place(wait)
        return self._kept(
            name, sources, wait, lambda: self._offer(name, lambda: self._make_tiff(place))
        )

    def _make_tiff(self, place: PyramidLevel | None) -> Offer:
        dtype = self.dtype
        if dtype is None:
            return self.no_type() or ""
        problem = _tiff_problem(self.node.shape, dtype)
        if problem is not None:
            return problem
        return self._enveloped(
            lambda: array_tiff(self.node.shape, dtype, self.picture(place), self._name)
        )

    def _npy(self, name: str, wait: bool) -> Offer:
        return self._kept(name, (), wait, lambda: self._offer(name, self._make_npy))

    def _make_npy(self) -> Offer:
        dtype = self.dtype
        if dtype is None:
            return self.no_type() or ""
        return self._enveloped(lambda: npy(self.node.shape, dtype))

    def _enveloped(self, make: Callable[[], Envelope]) -> Rendering:
        """The pixels of the array with something around them, which is kept unless it is large."""
        dtype = self.dtype
        assert dtype is not None
        framed = Framed(self.node.shape, dtype.itemsize, make)
        mtime_ns = self.loaded.mtime_ns

        def pixels_of(box: Slices) -> Reader:
            return Pixels(self.decoded, box, mtime_ns, ahead=False)

        def open_(wait: bool) -> Rendered:
            self.check(wait)
            pixels = None
            if prod(self.node.shape):
                ahead = not self.is_slow(wait)
                pixels = Pixels(self.decoded, None, mtime_ns, ahead=ahead)
            return self._rendered(framed.file(pixels, pixels_of, mtime_ns))

        return Rendering(framed.size, mtime_ns, open_, self.loaded.access)

    # -- the picture -------------------------------------------------------------------------

    def _png(self, name: str, wait: bool) -> Offer:
        if self.is_slow(wait):
            return "the array is on slow storage"
        place, sources = self._place(wait)
        coarser: list[tuple[ChunksFolder, Loaded]] = []
        if place is not None:
            levels = self._images.pyramids.levels(
                place.group, place.pyramid, place.level + 1, wait=wait
            )
            coarser = [
                (folder, loaded)
                for folder, loaded in levels
                if isinstance(loaded, Loaded) and folder.tier(wait=wait) is None
            ]
        sources = (*sources, *(loaded for _, loaded in coarser))
        offer = self._kept(
            name, sources, wait, lambda: self._offer(name, lambda: self._make_png(place, coarser))
        )
        if isinstance(offer, str):
            return offer
        return replace(offer, access=access_to(self.folder, self.loaded, coarser, wait=wait))

    def _make_png(
        self, place: PyramidLevel | None, coarser: Sequence[tuple[ChunksFolder, Loaded]]
    ) -> Offer:
        if self.dtype is None:
            return self.no_type() or ""
        levels = [
            ArrayImages(self._images, folder, loaded)
            for folder, loaded in coarser
            if isinstance(loaded.node, ArrayNode)
        ]
        usable = [
            level.decoded for level in levels if level.dtype is not None and level.refused is None
        ]
        planned = plan(self.picture(place), self.decoded, usable)
        if planned.problem is not None:
            return planned.problem

        def open_(wait: bool) -> Rendered:
            self.check(wait)
            planned.check(wait=wait)
            late = LazyBytes(planned.size, self.loaded.mtime_ns, planned.render)
            return self._rendered(late)

        return Rendering(planned.size, self.loaded.mtime_ns, open_)


def _tiff_problem(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str | None:
    """Why there is no TIFF file of elements of that shape, as a clause, or None."""
    problem = tiff_problem(shape, dtype)
    if problem is None and prod(shape) * dtype.itemsize > LARGEST_FILE:
        return TOO_LARGE
    return problem
