"""How stored chunk keys relate to the folders `c/0/1` of the `default` chunk key encoding.

Owns which encodings have a folder for each of those, and the spelling of one coordinate. Used by the
`plain` view, so that it lists one stored folder for one that is shown wherever that is possible.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zarrfuse.spec.chunk_keys import ChunkKeyEncoding, DefaultEncoding, SuffixEncoding, V2Encoding

# As long as those that `chunk_keys` decodes.
_COORDINATE = re.compile("0|[1-9][0-9]{0,639}")


def coordinate(name: str, count: int) -> int | None:
    """The number that `name` spells as a chunk key does, if it is below `count`, else None."""
    if _COORDINATE.fullmatch(name) is None:
        return None
    number = int(name)
    return number if number < count else None


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """Where the chunks of an array lie among its stored keys.

    `way`: `folders` where each folder `c/0` has a stored folder of its own, `flat` where all
    chunks are in the array's folder, `unknown` for encodings from elsewhere. `lead` is the stored
    folder of the whole grid, `""` for the array's own. `suffix` stands behind every key.
    """

    way: Literal["folders", "flat", "unknown"]
    lead: str = ""
    suffix: str = ""

    @property
    def nested(self) -> str | None:
        """What the name of a folder ends in that is made for one chunk; None if there are none.

        A suffix `/data.tiff` makes the chunk `c/0/1` the file `data.tiff` in a folder `1`.
        """
        head, slash, _ = self.suffix.partition("/")
        return head if slash else None

    def folder(self, coords: Sequence[int]) -> str:
        """The stored folder, relative to the array, of the chunks whose keys begin with `coords`.

        For the way `folders` only.
        """
        names = [str(number) for number in coords]
        return "/".join([self.lead, *names] if self.lead else names)


def key_layout(encoding: ChunkKeyEncoding, ndim: int) -> KeyLayout:
    """Where an encoding puts the chunks of an array of `ndim` dimensions.

    The one chunk of a scalar counts as `flat`.
    """
    suffix = ""
    while isinstance(encoding, SuffixEncoding):
        suffix = encoding.suffix + suffix
        encoding = encoding.base
    if type(encoding) not in (DefaultEncoding, V2Encoding):
        return KeyLayout("unknown")
    assert isinstance(encoding, DefaultEncoding | V2Encoding)
    if ndim == 0:
        return KeyLayout("flat", suffix=suffix)
    if isinstance(encoding, DefaultEncoding):
        if encoding.separator == "/":
            return KeyLayout("folders", "c", suffix)
    elif encoding.separator == "/" or ndim == 1:
        return KeyLayout("folders", "", suffix)
    return KeyLayout("flat", suffix=suffix)
