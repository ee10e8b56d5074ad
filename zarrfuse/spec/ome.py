"""Arrays as pictures, and groups as pyramids of pictures, as metadata describe them.

Reads OME-NGFF up to 0.5 (`multiscales` and `omero`, in attributes of Zarr v2 and v3), dimension names, and
the generic extensions of ZEP 10 for pictures. Nothing here raises: data can be read without these metadata,
so broken ones are left out. Used by the `images` view and `formats`. It must not know files or stores.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zarrfuse.errors import MetadataError
from zarrfuse.spec.axes import OF_FIVE_DIMENSIONS, Axis, Description, axes_of
from zarrfuse.spec.coordinates import MOST_AXES, Vector, combined
from zarrfuse.spec.dimensions import may_be_rgb, names_of
from zarrfuse.spec.members import Document, take_array, take_member, take_object
from zarrfuse.spec.node import ArrayNode, GroupNode
from zarrfuse.spec.paths import relative, take_paths_below
from zarrfuse.spec.usable import members, number, text, value_range
from zarrfuse.spec.zep10 import ArrayStatistics, MultiscaleArrays, Offset

# More than this is left out. A pyramid that halves has at most 64 levels.
_MOST_PYRAMIDS = 16
_MOST_LEVELS = 64
_MOST_CHANNELS = 4096
_LONGEST_PATH = 4096

# Pictures of these versions have five axes if they name none; older ones have no version.
_VERSIONS_WITHOUT_AXES = (None, "0.1", "0.2", "0.3")
_COLOR = re.compile("#?([0-9a-fA-F]{6})")


@dataclass(frozen=True, slots=True)
class Channel:
    """The label and display of one channel; `color`: 0xRRGGBB.

    `window`: the values shown darkest and brightest, the first less than the second.
    """

    label: str | None = None
    color: int | None = None
    window: tuple[float, float] | None = None
    active: bool = True


NOTHING_SAID: Final = Channel()


@dataclass(frozen=True, slots=True)
class Level:
    """One array of a pyramid: its path relative to the group, and the position of its elements.

    `scale` and `translation`: see `coordinates.combined`.
    """

    path: str
    scale: Vector | None = None
    translation: Vector | None = None


@dataclass(frozen=True, slots=True)
class Pyramid:
    """The same picture in several resolutions, the finest first.

    `axes` and `channels`: as written; `picture_of` fits them to an array. `problem`: why there are no
    `levels`, as a clause; None if there are.
    """

    name: str | None = None
    axes: tuple[Description, ...] | None = None
    levels: tuple[Level, ...] = ()
    channels: tuple[Channel, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """The description of an array as a picture.

    `axes`: one for each dimension. `channels`: empty, or one for each element of the axis C, or one if
    there is neither that axis nor samples. `display_range`: the range of the values, the first less than
    the second. `samples`: whether the last axis has the samples of each pixel: red, green, blue, and alpha
    if its length is 4.
    """

    axes: tuple[Axis, ...]
    channels: tuple[Channel, ...] = ()
    display_range: tuple[float, float] | None = None
    samples: bool = False


# -- pyramids


def pyramids_of(group: GroupNode) -> tuple[Pyramid, ...]:
    """The pyramids that a group describes, those of OME-NGFF first.

    `example.multiscale-arrays` adds one, unless its first array is in a pyramid of OME-NGFF, which has more
    metadata. Sources: OME-NGFF 0.4 and 0.5, "multiscales" metadata; ZEP 10, Multiscale arrays.
    """
    found = tuple(_described_by_ngff(members(group.raw_attributes)))
    known = {level.path for pyramid in found for level in pyramid.levels}
    listed = _described_by_extension(group)
    if listed is None or (listed.levels and listed.levels[0].path in known):
        return found
    return (*found, listed)


def level_of(pyramid: Pyramid, path: str) -> int | None:
    """The index of the level at `path`, relative to the group; None if no level has that path."""
    for index, level in enumerate(pyramid.levels):
        if level.path == path:
            return index
    return None


def _described_by_ngff(attributes: Document) -> Iterator[Pyramid]:
    ome = members(attributes.get("ome"))
    old = "multiscales" not in ome  # before 0.5, `multiscales` is a member of the attributes
    try:
        value = take_member(attributes if old else ome, "multiscales", [])
        multiscales = take_array(value, "multiscales")
    except MetadataError as error:
        yield Pyramid(problem=str(error))
        return
    channels = _channels(ome) or _channels(attributes)
    for index, multiscale in enumerate(multiscales[:_MOST_PYRAMIDS]):
        try:
            yield _pyramid(multiscale, f"multiscales[{index}]", channels, old=old)
        except MetadataError as error:
            yield Pyramid(problem=str(error))


def _pyramid(value: object, where: str, channels: tuple[Channel, ...], *, old: bool) -> Pyramid:
    """Parse an element of `multiscales`. Raises `MetadataError` if it names no array."""
    multiscale = take_object(value, where)
    if "datasets" not in multiscale:
        raise MetadataError(f"{where}: datasets: is missing")
    datasets = take_array(multiscale["datasets"], f"{where}: datasets")
    axes = _axes(multiscale.get("axes"))
    ndim = None if axes is None else len(axes)
    levels: dict[str, Level] = {}
    for dataset in datasets[:_MOST_LEVELS]:
        path = _path(dataset.get("path")) if isinstance(dataset, Mapping) else None
        if path is not None and path not in levels:
            lists = [holder.get("coordinateTransformations") for holder in (dataset, multiscale)]
            levels[path] = Level(path, *combined(lists, ndim))
    if not levels:
        raise MetadataError(f"{where}: datasets: names no array below the group")
    if axes is None and old and multiscale.get("version") in _VERSIONS_WITHOUT_AXES:
        axes = OF_FIVE_DIMENSIONS
    return Pyramid(text(multiscale.get("name")), axes, tuple(levels.values()), channels)


def _described_by_extension(group: GroupNode) -> Pyramid | None:
    """The pyramid of the last `example.multiscale-arrays`, which may be that of a referenced node."""
    found = [acting for acting in group.active if isinstance(acting.extension, MultiscaleArrays)]
    if not found or ".." in found[-1].array.split(
        "/"
    ):  # the path back needs the names of both nodes
        return None
    listed, array = found[-1].extension, found[-1].array
    assert isinstance(listed, MultiscaleArrays)
    paths = (_path(relative(path, array)) for path in listed.datasets[:_MOST_LEVELS])
    levels = tuple(Level(path) for path in paths if path is not None)
    if not levels:
        return Pyramid(problem=f"{listed.name}: names no array below the group")
    return Pyramid(levels=levels)


def _path(value: object) -> str | None:
    """`value` if it is the path of a node below, else None."""
    if not isinstance(value, str) or len(value) > _LONGEST_PATH:
        return None
    try:
        return take_paths_below([value], "path")[0]
    except MetadataError:
        return None


def _axes(value: object) -> tuple[Description, ...] | None:
    """The axes, written as objects (since 0.4) or names (0.3); a broken one has no description."""
    if not isinstance(value, list) or not 0 < len(value) <= MOST_AXES:
        return None
    return tuple(_axis(item) for item in value)


def _axis(value: object) -> Description:
    if isinstance(value, Mapping):
        name, kind, unit = (text(value.get(member)) for member in ("name", "type", "unit"))
        return Description(name or "", kind, unit)
    return Description(text(value) or "")


def _channels(attributes: Document) -> tuple[Channel, ...]:
    """The channels of `omero` (OME-NGFF 0.4 and 0.5, "omero" metadata)."""
    try:
        omero = take_object(take_member(attributes, "omero", {}), "omero")
        listed = take_array(omero.get("channels", ()), "omero: channels")
    except MetadataError:
        return ()
    return tuple(_channel(item) for item in listed[:_MOST_CHANNELS])


def _channel(value: object) -> Channel:
    if not isinstance(value, Mapping):
        return NOTHING_SAID
    color = value.get("color")
    digits = _COLOR.fullmatch(color) if isinstance(color, str) else None
    window = value.get("window")
    if not isinstance(window, Mapping):
        window = {}
    return Channel(
        label=text(value.get("label")),
        color=None if digits is None else int(digits[1], 16),
        window=value_range(window.get("start"), window.get("end"))
        or value_range(window.get("min"), window.get("max")),
        active=value.get("active") is not False,
    )


# -- pictures


def picture_of(node: ArrayNode, pyramid: Pyramid | None = None, level: int = 0) -> Picture:
    """The picture of an array, which may be a level of a pyramid.

    Names of axes come from OME-NGFF, else from the array: `dimension_names`, or `_ARRAY_DIMENSIONS` of
    xarray in Zarr v2. Metadata that do not fit the number of dimensions are ignored. `example.offset` moves
    the origin: the element that it names gets the position of the first.
    """
    place = Level("")
    if pyramid is not None and 0 <= level < len(pyramid.levels):
        place = pyramid.levels[level]
    plain = axes_of(node.shape, _described(node, pyramid), may_be_rgb=may_be_rgb(node))
    scales = _fitting(place.scale, node.ndim)
    translations = _fitting(place.translation, node.ndim)
    offset = node.extension(Offset)
    offsets = (0,) * node.ndim
    if offset is not None and len(offset.offset) == node.ndim:
        offsets = offset.offset
    axes = tuple(
        replace(axis, scale=scale, origin=_origin(axis.unit, scale, translation, moved))
        for axis, scale, translation, moved in zip(
            plain, scales, translations, offsets, strict=True
        )
    )
    statistics = node.extension(ArrayStatistics)
    return Picture(
        axes,
        _fitting_channels(node, axes, () if pyramid is None else pyramid.channels),
        None if statistics is None else value_range(statistics.min, statistics.max),
        samples=any(axis.letter == "S" for axis in axes),
    )


def _described(node: ArrayNode, pyramid: Pyramid | None) -> Sequence[Description]:
    own = names_of(node)
    axes = None if pyramid is None else pyramid.axes
    if axes is None or len(axes) != node.ndim:
        return [Description(name) for name in own]
    return [
        axis if axis.name else axis._replace(name=name)
        for axis, name in zip(axes, own, strict=True)
    ]


def _fitting(vector: Vector | None, ndim: int) -> Vector:
    return vector if vector is not None and len(vector) == ndim else (None,) * ndim


def _origin(
    unit: str | None, scale: float | None, translation: float | None, offset: int
) -> float | None:
    """The position of the first element; the one at `offset` is where `translation` says."""
    if not offset:
        return translation
    if scale is None:
        if unit is not None or translation is not None:
            return None  # the distance is not known
        scale = 1.0
    elements = number(offset)
    return None if elements is None else number((translation or 0.0) - elements * scale)


def _fitting_channels(
    node: ArrayNode, axes: tuple[Axis, ...], channels: tuple[Channel, ...]
) -> tuple[Channel, ...]:
    """One channel for each element of the axis C; those without metadata are `NOTHING_SAID`."""
    if not channels:
        return ()
    letters = [axis.letter for axis in axes]
    if "C" not in letters:
        return channels if len(channels) == 1 and "S" not in letters else ()
    count = node.shape[letters.index("C")]
    if count > _MOST_CHANNELS:
        return ()
    return (*channels[:count], *[NOTHING_SAID] * (count - len(channels)))
