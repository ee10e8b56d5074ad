"""Maps the folders `c/0/1` of the `default` chunk key encoding to folders of stored keys.

Owns which encodings have a stored folder for each of them, so that the `plain` view lists one stored folder
for one of its own where possible. Used by the `plain` view. It must not know stores.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zarrfuse.spec.chunk_keys import ChunkKeyEncoding, DefaultEncoding, SuffixEncoding, V2Encoding

# As many digits as `chunk_keys` decodes.
_COORDINATE = re.compile("0|[1-9][0-9]{0,639}")


def coordinate(name: str, count: int) -> int | None:
    """The number `name`, spelled as in a chunk key, if it is below `count`, else None."""
    if _COORDINATE.fullmatch(name) is None:
        return None
    number = int(name)
    return number if number < count else None


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """The folders in which the chunks of an array are stored.

    `way`: `folders` if each folder `c/0` has a stored folder, `flat` if all chunks are in the array's
    folder, `unknown` for encodings of plug-ins. `lead`: the stored folder of the whole grid, `""` for the
    array's own. `suffix`: the end of every key.
    """

    way: Literal["folders", "flat", "unknown"]
    lead: str = ""
    suffix: str = ""

    @property
    def nested(self) -> str | None:
        """The end of the name of a folder that holds a single chunk; None if there are no such folders.

        With the suffix `/data.tiff`, the chunk `c/0/1` is the file `data.tiff` in a folder `1`.
        """
        head, slash, _ = self.suffix.partition("/")
        return head if slash else None

    def folder(self, coords: Sequence[int]) -> str:
        """The stored folder, relative to the array, of the chunks whose coordinates begin with `coords`.

        Only for `way` `folders`.
        """
        names = [str(number) for number in coords]
        return "/".join([self.lead, *names] if self.lead else names)


def key_layout(encoding: ChunkKeyEncoding, ndim: int) -> KeyLayout:
    """The layout of an encoding for an array of `ndim` dimensions; that of a scalar is `flat`."""
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
