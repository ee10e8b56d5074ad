"""What the formats of exported files have in common.

Used by `run` and by the formats (`tiff`). It must not know them.
"""

from typing import BinaryIO, Protocol

from zarrfuse.exporting.plan import Plan
from zarrfuse.exporting.source import Coords
from zarrfuse.exporting.tiles import Tiles
from zarrfuse.shards.layout import Extents


class FileFormat(Protocol):
    """A format whose files are shards, when an index is behind them.

    Attributes:
        suffix: The ending of files.
    """

    suffix: str

    @property
    def header_size(self) -> int | None:
        """The bytes of a part of its own in front of each file; None if there is none."""

    def problem(self, plan: Plan) -> str | None:
        """Why files cannot be written as planned, as a clause with what would help; None if they can."""

    def write(
        self, file: BinaryIO, header: BinaryIO | None, coords: Coords, tiles: Tiles
    ) -> tuple[Extents, Extents]:
        """Write the file at these coordinates of the grid, and take all of `tiles`.

        `file`: empty and seekable; `header`: likewise, None without `header_size`. Returns the offsets and
        sizes of the inner chunks, from the start of the header, in the shape of `Plan.inner_grid`.
        """
