"""The names of the dimensions of an array, and whether its type is one of colour pictures.

Used by `ome`. It must not know groups, or what the names mean.
"""

from collections.abc import Mapping
from typing import Final

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import take_member
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.usable import members, text

_XARRAY: Final = "_ARRAY_DIMENSIONS"
_RGB_TYPES: Final = frozenset({"uint8", "uint16", "|u1", "<u1", ">u1", "<u2", ">u2"})


def names_of(node: ArrayNode) -> tuple[str, ...]:
    """The name of each dimension, `""` for one that has none.

    `dimension_names`, and in Zarr v2, which has no such member, the attribute that xarray keeps them
    in (xarray, Zarr Encoding Specification).
    """
    names = node.dimension_names
    if names is None and node.zarr_format == 2:
        names = _names_of_xarray(node)
    if names is None:
        return ("",) * node.ndim
    return tuple(text(name) or "" for name in names)


def _names_of_xarray(node: ArrayNode) -> tuple[str | None, ...] | None:
    try:
        names = take_member(members(node.raw_attributes), _XARRAY, None)
    except MetadataError:
        return None
    return tuple(names) if isinstance(names, list) and len(names) == node.ndim else None


def may_be_rgb(node: ArrayNode) -> bool:
    """Whether the elements are of a type that samples of colour usually have: 8 or 16 bits."""
    data_type = node.data_type
    name = data_type.get("name") if isinstance(data_type, Mapping) else data_type
    return isinstance(name, str) and name in _RGB_TYPES
