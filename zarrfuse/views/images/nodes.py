"""What the nodes of an `images` view share, and what each of them can be asked.

Owns what a rendering is, and how long one is kept. Used by `images.arrays` and `images.groups`,
which make the renderings of the two kinds of nodes. Sizes follow from metadata alone: nothing here
decodes or imports zarr.
"""

import errno
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

from zarrfuse.config import FORMATS
from zarrfuse.errors import text_of
from zarrfuse.formats.segments import Rendered
from zarrfuse.spec.paths import title_of
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
    """What all nodes of a view share: the decoder, the pyramids, and what was asked for.

    `lasting`: whether what has been seen once stays as it is.
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
        """What the renderings of a node are called: its name without `.zarr` and `.ome.zarr`."""
        return title_of(loaded.path.rpartition("/")[2]) or self.root_name


@dataclass(frozen=True, slots=True)
class Rendering:
    """A file that is made of pixels: its size in bytes and its time, and how to open it.

    `open` takes `wait`. What it raises says why it cannot be read. `access`: what the documents permit
    of the arrays that it is made of.
    """

    size: int
    mtime_ns: int
    open: Callable[[bool], Rendered]
    access: Access | None = None


Offer: TypeAlias = Rendering | str
"""A rendering, or a clause why there is none."""


class ImagesNode:
    """A node as the view shows it, as long as its document is the same; this one has no renderings.

    So it is with a node that must not be loaded: it is as in the `chunks` view, which refuses it.
    """

    chunks: PlainChunks | None = None

    def __init__(self, images: Images, folder: ChunksFolder, loaded: Loaded) -> None:
        self.folder: Final = folder
        self.loaded: Final = loaded
        self._images = images
        self._made: dict[str, tuple[Sequence[object], Any]] = {}
        self._lock = threading.Lock()

    def names(self) -> Sequence[str]:
        """The names of its renderings, those included that there might be."""
        return ()

    def rendering(self, name: str, *, wait: bool = True) -> Offer | None:
        """What there is under a name in the node's folder; None if it is none of `names`.

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
        """Of each rendering its size, or why there is none."""
        return {
            name: offer if isinstance(offer, str) else offer.size for name, offer in self.offers()
        }

    def offers(self) -> Iterator[tuple[str, Offer]]:
        """Every name of a rendering with what there is under it."""
        for name in self.names():
            offer = self.rendering(name)
            if offer is not None:
                yield name, offer

    def _kept(self, what: str, sources: Sequence[object], wait: bool, make: Callable[[], T]) -> T:
        """What `make` makes of these very objects; not made again as long as they are the same."""
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
        """What `make` makes. A fault in it costs what is under this name alone, and is reported."""
        try:
            return make()
        except Exception as error:  # of a library that was given unusual metadata
            where = self.loaded.path or "the root"
            self._images.chunks.report(f"{where}: no {name}: {text_of(error)}", self.loaded.stamp)
            return text_of(error)

    def _offer(self, name: str, make: Callable[[], Offer]) -> Offer:
        """What `make` makes, unless nobody could list it."""
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
    """Why no file can have a name, as a clause, or None."""
    size = len(name.encode("utf-8", "surrogateescape"))
    if size <= _LONGEST_NAME:
        return None
    return f"its name would have {size} bytes, more than {_LONGEST_NAME}"
