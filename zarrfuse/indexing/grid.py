"""Which chunk of an array each file is, and the shape of that array.

Owns how the numbers in names become coordinates, and that files of one array fit together. Used by `run`.
It must not know stores.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from zarrfuse.errors import ZarrfuseError
from zarrfuse.shards.arrange import is_raw, with_rows
from zarrfuse.shards.layout import Layout, type_name
from zarrfuse.spec.axes import short_name


class GridError(ZarrfuseError):
    """Files that are no grid of chunks; the message says what would help."""


@dataclass(frozen=True, slots=True)
class Origin:
    """How a number in names becomes a coordinate: (number - first) / step, for each field."""

    first: tuple[int, ...]
    step: tuple[int, ...]

    def coordinates(self, values: Sequence[int]) -> tuple[int, ...] | None:
        """The coordinate for the value of each field; None if there is none."""
        found = []
        for value, first, step in zip(values, self.first, self.step, strict=True):
            if value < first or (value - first) % step:
                return None
            found.append((value - first) // step)
        return tuple(found)


def origin_of(values: Sequence[Sequence[int]]) -> Origin:
    """The least number of each field, and the greatest step from which all others follow.

    So numbers may begin with 0 or 1, some may be missing, and positions in pixels (0, 512, 1024) are
    numbers like others.
    """
    first = tuple(map(min, zip(*values, strict=True)))
    steps = tuple(
        reduce(gcd, (value - least for value in column), 0) or 1
        for column, least in zip(zip(*values, strict=True), first, strict=True)
    )
    return Origin(first, steps)


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The dimensions of the array, and where each one comes from.

    Attributes:
        names: Of all dimensions.
        fields: For each, the place of its field among the values of the pattern; None: there is one chunk
            along it.
        sources: For each, the axis of the files; None: files have a length of 1 along it.
    """

    names: tuple[str, ...]
    fields: tuple[int | None, ...]
    sources: tuple[str | None, ...]

    def coordinates(self, of_fields: Sequence[int]) -> tuple[int, ...]:
        """The coordinates of a chunk by those of the fields."""
        return tuple(0 if field is None else of_fields[field] for field in self.fields)


def dimensions_of(
    fields: Sequence[str],
    axes: Sequence[str],
    given: Sequence[str] | None,
    *,
    as_ngff: bool = False,
) -> Dimensions:
    """The dimensions for the fields of a pattern and the axes of a file.

    A field with the name of an axis tiles it; every other one is a dimension of its own, in front.

    Args:
        fields: The fields of the pattern.
        axes: The axes of a file.
        given: The names of all dimensions (`--dims`). Names that are neither fields nor axes rename the
            axes that are not among them, in order.
        as_ngff: Whether to take the names and the order of OME-NGFF: t, c, z, y, x.

    Raises `GridError`.
    """
    names = [short_name(field) for field in fields]
    if len(set(names)) < len(names):
        names = list(fields)  # as they were written, they differ
    if given is not None:
        names = [
            field if field in given else name for field, name in zip(fields, names, strict=True)
        ]
        return _given_dimensions(names, axes, given)
    renamed = {axis: axis for axis in axes}
    order = [*(name for name in names if name not in axes), *axes]
    if as_ngff:
        # As the view `images` does with dimensions that have no name.
        free = [name for name in "ztc" if name not in order]
        for axis in axes:
            if axis == "s" and "c" in free:
                renamed[axis] = "c"
            elif axis == "page" and free:
                renamed[axis] = free[0]
            free = [name for name in free if name not in renamed.values()]
        order = sorted((renamed.get(name, name) for name in order), key=_ngff_place)
    return _dimensions(order, names, {name: axis for axis, name in renamed.items()})


def _given_dimensions(
    names: Sequence[str], axes: Sequence[str], given: Sequence[str]
) -> Dimensions:
    words = ",".join(given)
    described = f"the fields are {','.join(names) or 'none'}, and a file has {','.join(axes)}"
    if not all(given):
        raise GridError(f"--dims {words} has an empty name")
    if len(set(given)) < len(given):
        raise GridError(f"--dims {words} names a dimension twice")
    for name in names:
        if name not in given:
            raise GridError(f"--dims {words} lacks the field {name}: {described}")
    new = [name for name in given if name not in names and name not in axes]
    unnamed = [axis for axis in axes if axis not in given]
    if len(new) != len(unnamed):
        raise GridError(f"--dims {words} names not as many dimensions as there are: {described}")
    own = {name: name for name in given if name in axes} | dict(zip(new, unnamed, strict=True))
    return _dimensions(given, names, own)


def _dimensions(order: Sequence[str], fields: Sequence[str], own: Mapping[str, str]) -> Dimensions:
    return Dimensions(
        tuple(order),
        tuple(fields.index(name) if name in fields else None for name in order),
        tuple(own.get(name) for name in order),
    )


NGFF_ORDER = "tczyx"


def _ngff_place(name: str) -> int:
    return NGFF_ORDER.find(name) if name in NGFF_ORDER else -1


@dataclass(frozen=True, slots=True)
class Grid:
    """The shape of an array, and that of its chunks."""

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]


def grid_of_files(
    files: Sequence[tuple[str, tuple[int, ...], tuple[int, ...]]],
    inner_shape: Sequence[int],
    names: Sequence[str],
) -> Grid:
    """The grid of files, each with path, coordinates and shape, in the dimensions of the array.

    All files but the last along a dimension must be whole chunks. Raises `GridError` that names a file.
    """
    shape, chunk_shape = [], []
    for dimension, inner in enumerate(inner_shape):
        last = max(coords[dimension] for _, coords, _ in files)
        longest = max(sizes[dimension] for _, _, sizes in files)
        chunk = -(-longest // inner) * inner
        ends: dict[int, str] = {}
        for path, coords, sizes in files:
            if coords[dimension] == last:
                ends.setdefault(sizes[dimension], path)
            elif sizes[dimension] != chunk:
                raise GridError(
                    _not_whole(path, names[dimension], sizes[dimension], longest, inner)
                )
        if len(ends) > 1:
            (size, path), (other_size, other) = sorted(ends.items())[:2]
            raise GridError(
                f"{path} has {size} pixels along {names[dimension]}, and {other}, at the same place, "
                f"{other_size}: files of one row or column must have one size"
            )
        shape.append(last * chunk + next(iter(ends)))
        chunk_shape.append(chunk)
    return Grid(tuple(shape), tuple(chunk_shape))


def _not_whole(path: str, name: str, size: int, longest: int, inner: int) -> str:
    if size == longest:
        return (
            f"{path} has {size} pixels along {name}, which is no multiple of its tiles of {inner}, so that "
            f"others cannot follow it there: give the field of the pattern another name than {name}, and "
            "each file becomes an image of its own"
        )
    return (
        f"{path} has {size} pixels along {name}, and others {longest}: only the last file along a "
        "dimension may be smaller"
    )


def common_layout(layouts: Mapping[Layout, str], heights: Iterable[int]) -> Layout:
    """The layout for files of these layouts, each with the path of a file that has it.

    Uncompressed strips can be cut: layouts that differ only in rows become one of fewer rows. `heights`: of
    all files. Raises `GridError` that says in what two files differ.
    """
    (first, path), *others = layouts.items()
    if not others:
        return first
    if "y" in first.axes and all(is_raw(layout) for layout in layouts):
        y = first.axes.index("y")
        rows = reduce(gcd, (*(layout.inner_shape[y] for layout in layouts), *heights))
        cut = {with_rows(layout, rows) for layout in layouts}
        if len(cut) == 1:
            return cut.pop()
    other, other_path = others[0]
    raise GridError(
        f"{other_path} and {path} cannot be chunks of one array: {_difference(other, first)}"
    )


def _difference(one: Layout, other: Layout) -> str:
    described: Sequence[tuple[str, Callable[[Layout], str]]] = (
        ("the data type", lambda layout: type_name(layout.data_type)),
        ("the dimensions", lambda layout: ",".join(layout.axes)),
        ("tiles or strips of", lambda layout: "x".join(map(str, layout.inner_shape))),
        ("the codecs", lambda layout: layout.codecs),
        ("the no-data value", lambda layout: str(layout.fill_value)),
    )
    for title, text in described:
        if text(one) != text(other):
            return f"the first has {title} {text(one)}, the second {text(other)}"
    return "their layouts differ"
