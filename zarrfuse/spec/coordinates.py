"""The positions of the elements of an array: `coordinateTransformations` of OME-NGFF.

Parses and combines scales and translations. Used by `ome`. It must not know the array or its axes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add, mul
from typing import TypeAlias

from zarrfuse.spec.usable import number

Vector: TypeAlias = tuple[float | None, ...]
"""A number for each dimension of an array; None if it is not known."""

MOST_AXES = 64
"""An array with more dimensions than NumPy allows is not a picture."""

# OME-NGFF has one or two.
_MOST_TRANSFORMATIONS = 8


def combined(lists: Sequence[object], ndim: int | None) -> tuple[Vector | None, Vector | None]:
    """(scale, translation) of an array: its element i is at `i * scale + translation`.

    `lists`: the values of several `coordinateTransformations`, None for a missing one. All transformations
    are applied in order: those of the dataset, then those of the multiscale. `ndim`: the number of
    dimensions, if it is known.

    A scale is positive. None: not known. Broken metadata make unknown what depends on them: an element of a
    vector its dimension, a translation without a usable vector all positions, anything else everything
    (OME-NGFF 0.4 and 0.5, "coordinateTransformations" metadata and "multiscales" metadata).
    """
    try:
        steps = [step for transformations in lists for step in _steps(transformations)]
    except _Unknown:
        return None, None
    if ndim is None:
        ndim = next((len(vector) for _, vector in steps if vector is not None), 0)
    scale: Iterable[float | None] = [1.0] * ndim
    position: Iterable[float | None] = [0.0] * ndim
    for kind, vector in steps:
        values = vector if vector is not None and len(vector) == ndim else (None,) * ndim
        if kind == "scale":
            scale = _each(mul, scale, values)
            position = _each(mul, position, values)
        else:
            position = _each(add, position, values)
    kinds = {kind for kind, _ in steps}
    return (
        _known((number(value) or None for value in scale) if "scale" in kinds else ()),
        _known((number(value) for value in position) if "translation" in kinds else ()),
    )


class _Unknown(Exception):
    """A transformation that is not understood: scale and translation are unknown."""


def _steps(transformations: object) -> Iterator[tuple[str, Vector | None]]:
    """The scales and translations of one list, in order, with None for an unusable vector.

    Raises `_Unknown` for any other transformation but `identity`.
    """
    if transformations is None:
        return
    if not isinstance(transformations, list) or len(transformations) > _MOST_TRANSFORMATIONS:
        raise _Unknown
    for transformation in transformations:
        kind = transformation.get("type") if isinstance(transformation, Mapping) else None
        if kind == "identity":
            continue
        if kind not in ("scale", "translation"):
            raise _Unknown
        yield kind, _vector(transformation.get(kind), positive=kind == "scale")


def _vector(value: object, *, positive: bool) -> Vector | None:
    if not isinstance(value, list) or len(value) > MOST_AXES:
        return None
    found = (number(item) for item in value)
    return tuple(None if item is None or (positive and item <= 0) else item for item in found)


def _each(
    combine: Callable[[float, float], float],
    first: Iterable[float | None],
    second: Iterable[float | None],
) -> list[float | None]:
    """`combine` for each pair of elements; None if one of the two is None."""
    return [
        None if one is None or other is None else combine(one, other)
        for one, other in zip(first, second, strict=True)
    ]


def _known(values: Iterable[float | None]) -> Vector | None:
    found = tuple(values)
    return found if any(value is not None for value in found) else None
