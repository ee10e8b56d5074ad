"""The nodes of an `images` view, and what they share.

Owns what a rendering is, and how long it is cached. `arrays` and `groups` make the renderings of the two
kinds of nodes. Sizes follow from metadata: nothing is decoded, and zarr is not imported.
"""

import errno
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

from zarrfuse.config import FORMATS
from zarrfuse.errors import text_of
from zarrfuse.formats.segments import Rendered
from zarrfuse.spec.paths import name_of, title_of
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import Reader
from zarrfuse.stores.cache import ByteCache
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView
from zarrfuse.views.images.chunk_files import ChunkFiles
from zarrfuse.views.images.decode import Decoder
from zarrfuse.views.images.levels import Pyramids
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain.chunks import PlainChunks

T = TypeVar("T")

LARGEST_FILE = (1 << 63) - 1
TOO_LARGE = "it would have more bytes than a file can"
_LONGEST_NAME = 255


class Images:
    """What all nodes of a view share: the decoder, the pyramids, and the options.

    `lasting`: whether stored data never changes.
    """

    def __init__(
        self,
        chunks: ChunksView,
        cache: ByteCache,
        *,
        root_name: str,
        formats: Collection[str] = FORMATS,
        lasting: bool = False,
    ) -> None:
        self.chunks = chunks
        self.root_name = root_name
        self.formats = formats
        self.lasting = lasting
        self.pyramids = Pyramids()
        self.decoder = Decoder(chunks, cache)

    def name_of(self, loaded: Loaded) -> str:
        """The name of the renderings of a node: its own without `.zarr` and `.ome.zarr`."""
        return title_of(name_of(loaded.path)) or self.root_name


@dataclass(frozen=True, slots=True)
class Rendering:
    """A file that is made of pixels: its size in bytes, its time, and how to open it.

    `open` takes `wait`, and raises why it cannot be read. `access`: what the documents of its arrays
    permit together.
    """

    size: int
    mtime_ns: int
    open: Callable[[bool], Rendered]
    access: Access | None = None


Offer: TypeAlias = Rendering | str
"""A rendering, or why there is none, as a clause."""


class ImagesNode:
    """A node as the view shows it, as long as its document is the same.

    This class has no renderings: it is a node that must not be loaded.
    """

    chunks: PlainChunks | None = None

    def __init__(self, images: Images, folder: ChunksFolder, loaded: Loaded) -> None:
        self.folder: Final = folder
        self.loaded: Final = loaded
        self._images = images
        self._made: dict[str, tuple[Sequence[object], Any]] = {}
        self._lock = threading.Lock()

    def names(self) -> Sequence[str]:
        """The names of its renderings, also of those that cannot be made."""
        return ()

    def rendering(self, name: str, *, wait: bool = True) -> Offer | None:
        """The rendering of a name, or why there is none; None if it is none of `names`.

        `BlockingIOError` as for stores.
        """
        return None

    def chunk_files(self, *, wait: bool = True) -> ChunkFiles | str:
        """The chunks as TIFF files, or a clause why there are none."""
        return "it is no array"

    def not_decoded(self) -> str | None:
        """Why no pixel of it can be decoded, as a sentence."""
        return None

    def told(self) -> dict[str, int | str]:
        """For each rendering its size in bytes, or why there is none."""
        return {
            name: offer if isinstance(offer, str) else offer.size for name, offer in self.offers()
        }

    def offers(self) -> Iterator[tuple[str, Offer]]:
        """Every name with its rendering, or why there is none."""
        for name in self.names():
            offer = self.rendering(name)
            if offer is not None:
                yield name, offer

    def _kept(self, what: str, sources: Sequence[object], wait: bool, make: Callable[[], T]) -> T:
        """The result of `make`, cached as long as `sources` are the same objects."""
        known = self._made.get(what)
        if known is None or not _are_same(known[0], sources):
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a rendering has to be planned")
            with self._lock:
                known = self._made.get(what)
                if known is None or not _are_same(known[0], sources):
                    known = self._made[what] = sources, make()
        return cast("T", known[1])

    def _guarded(self, name: str, make: Callable[[], T | str]) -> T | str:
        """The result of `make`; if it fails, the error as a clause, which is logged."""
        try:
            return make()
        except Exception as error:  # of a library that was given unusual metadata
            where = self.loaded.path or "the root"
            self._images.chunks.report(f"{where}: no {name}: {text_of(error)}", self.loaded.stamp)
            return text_of(error)

    def _offer(self, name: str, make: Callable[[], Offer]) -> Offer:
        """The result of `make`, unless the file is too large to be listed."""
        offer = self._guarded(name, make)
        if isinstance(offer, Rendering) and offer.size > LARGEST_FILE:
            return TOO_LARGE
        return offer

    def _rendered(self, reader: Reader) -> Rendered:
        return Rendered(reader, lasting=self._images.lasting)


def _are_same(known: Sequence[object], sources: Sequence[object]) -> bool:
    return len(known) == len(sources) and all(
        one is other for one, other in zip(known, sources, strict=True)
    )


def name_problem(name: str) -> str | None:
    """Why no file can have this name, as a clause, or None."""
    size = len(name.encode("utf-8", "surrogateescape"))
    if size <= _LONGEST_NAME:
        return None
    return f"its name would have {size} bytes, more than {_LONGEST_NAME}"
