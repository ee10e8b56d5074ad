"""Names of files: the numbers in them that say which chunk of an array a file is.

A pattern is a path with fields: `{t}` stands for a number, `{c:DAPI|GFP}` for one of these words, in this
order; `*` for anything within a folder, which does not matter. A field may occur twice, with one value.
Used by `run`. It must not know what is in the files.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from zarrfuse.errors import ZarrfuseError
from zarrfuse.spec.axes import short_name
from zarrfuse.spec.chunk_keys import ChunkKeyEncoding, DefaultEncoding, V2Encoding

_FIELD = re.compile(r"\{([^{}:]*)(?::([^{}]*))?\}|(\*)")
_NAME = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"([0-9]+)")
_LABEL = re.compile(r"([A-Za-z]+)[-_ =.]*$")
_TOUCHING = re.compile(r"\{[^{}:]*\}(?=[0-9]|\{[^{}:]*\})")
_UNDECODED = re.compile("[\udc80-\udcff]+")
_NO_LITERAL = re.compile("[{}\udc80-\udcff]+")
"""What a pattern cannot say, in names."""
_MOST_DIMENSIONS = 32


class NamesError(ZarrfuseError):
    """A pattern that is wrong, or names of files from which no grid follows."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern of the paths of files; see the head of this module."""

    text: str
    fields: tuple[str, ...]
    """The names of the fields, in the order in which they occur first."""
    words: tuple[tuple[str, ...], ...]
    """Of each field, the words that it may stand for; empty for a number."""
    expression: re.Pattern[str]

    def values(self, path: str) -> tuple[int, ...] | None:
        """The number of each field in a path, of words their place; None if the path does not fit."""
        found = self.expression.fullmatch(path)
        if found is None:
            return None
        values = []
        for index, words in enumerate(self.words):
            text = found[f"f{index}"]
            values.append(words.index(text) if words else int(text))
        return tuple(values)


def parse_pattern(text: str) -> Pattern:
    """The pattern of a text. Raises `NamesError`."""
    expression, at = "", 0
    fields: list[str] = []
    words: list[tuple[str, ...]] = []
    if _UNDECODED.search(text):
        raise NamesError("the pattern has bytes that are not UTF-8: write * for them")
    if touching := _TOUCHING.search(text):
        raise NamesError(
            f"the pattern {text}: where the number {touching[0]} ends cannot be told: a number follows"
        )
    for found in _FIELD.finditer(text):
        expression += _literal(text[at : found.start()], text)
        at = found.end()
        name, alternatives, anything = found.groups()
        # Else the * would take all digits but the last.
        begin = "(?<![0-9])" if text[: found.start()].endswith("*") else ""
        if anything:
            expression += "[^/]*"
            continue
        if not _NAME.fullmatch(name):
            raise NamesError(f"the pattern {text}: {found[0]} needs a name, as in {{t}}")
        if name in fields:
            # The same number may have zeros in front of it in one place only.
            index = fields.index(name)
            same = f"(?P=f{index})"
            expression += same if words[index] else f"{begin}0*{same}(?![0-9])"
            continue
        among = tuple(alternatives.split("|")) if alternatives is not None else ()
        if among and (not all(among) or len(set(among)) < len(among)):
            raise NamesError(f"the pattern {text}: {found[0]} has an empty word, or one twice")
        index = len(fields)
        fields.append(name)
        words.append(among)
        if among:
            expression += f"(?P<f{index}>{'|'.join(map(re.escape, among))})"
        else:
            expression += f"{begin}0*(?P<f{index}>[0-9]+?)(?![0-9])"
    expression += _literal(text[at:], text)
    if len(fields) > _MOST_DIMENSIONS:
        raise NamesError(f"the pattern {text} has more than {_MOST_DIMENSIONS} fields")
    return Pattern(text, tuple(fields), tuple(words), re.compile(expression))


def _literal(part: str, text: str) -> str:
    if "{" in part or "}" in part:
        raise NamesError(f"the pattern {text}: a brace has no other one; fields are written {{t}}")
    return re.escape(part)


def guess_pattern(paths: Sequence[str]) -> Pattern:
    """The pattern of paths that differ only in numbers; fields are named by the letters before them.

    Raises `NamesError` if they differ in more, and if there are none.
    """
    if not paths:
        raise NamesError("there are no files")
    first = _NUMBER.split(paths[0])
    columns: list[list[int]] = [[] for _ in range(len(first) // 2)]
    for path in paths:
        pieces = _NUMBER.split(path)
        if pieces[::2] != first[::2]:
            raise NamesError(
                f"the names {paths[0]} and {path} differ in more than numbers: say which files belong "
                "together with --pattern, for example 't{t}/{c:DAPI|GFP}_z{z}.tif'"
            )
        for column, digits in zip(columns, pieces[1::2], strict=True):
            column.append(int(digits))
    text = ""
    named: list[tuple[str, list[int]]] = []
    for index, piece in enumerate(first):
        if index % 2 == 0:
            text += _NO_LITERAL.sub("*", piece)
            continue
        column = columns[index // 2]
        if min(column) == max(column):
            # Zeros in front may differ.
            text += piece if all(_NUMBER.split(path)[index] == piece for path in paths) else "*"
            continue
        name = next((name for name, other in named if other == column), None)
        if name is None:
            name = _field_name(first[index - 1], {name for name, _ in named})
            named.append((name, column))
        text += f"{{{name}}}"
    return parse_pattern(text)


def _field_name(before: str, taken: set[str]) -> str:
    label = _LABEL.search(before)
    name = short_name(label[1]) if label else "i"
    return next(
        candidate for n in count(1) if (candidate := name if n == 1 else f"{name}{n}") not in taken
    )


_ENCODINGS: Sequence[ChunkKeyEncoding] = (
    DefaultEncoding("/"),
    DefaultEncoding("."),
    V2Encoding("."),  # not with "/": folders with numbers are common
)


def chunk_keys(paths: Iterable[str], suffix: str) -> tuple[ChunkKeyEncoding, int] | None:
    """(encoding, number of dimensions) of paths that are chunk keys with `suffix`; None if they are not.

    Keys of one dimension count as names like others: images have two, and are often named by one number.
    """
    stems = [path.removesuffix(suffix) for path in paths if path.endswith(suffix)]
    if not stems:
        return None
    ndim = len(_NUMBER.findall(stems[0]))
    if ndim < 2:
        return None
    for encoding in _ENCODINGS:
        if all(encoding.decode(stem, ndim) is not None for stem in stems):
            return encoding, ndim
    return None
