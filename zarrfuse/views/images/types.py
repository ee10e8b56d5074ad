"""The numpy type of the elements of an array, and its fill value, from metadata alone.

Owns the way from a data type of Zarr v3 or v2 to a numpy type. Used for the sizes of renderings, before
anything is decoded. It must not import zarr, which takes 0.3 s.
"""

import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from zarrfuse.errors import MetadataError
from zarrfuse.spec.data_types import DataType, parse_data_type
from zarrfuse.spec.names import parse_extension
from zarrfuse.spec.node import MISSING, ArrayNode

_NUMPY_NAMES = frozenset(
    ["bool", "complex64", "complex128"]
    + [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    + [f"float{bits}" for bits in (16, 32, 64)]
)
_V2_STRING = re.compile(r"[<>|=]?(?:[biufcSVU][0-9]{1,9}|[mM]8\[[0-9]{0,9}[A-Za-z]{1,2}\])")
_MOST_BYTES = 2**31 - 1  # of one element, in numpy
LARGEST_ELEMENT = 1 << 20
"""Arrays with larger elements (bytes) are not decoded: each array keeps an element of its fill value."""


def array_type(node: ArrayNode) -> np.dtype[Any] | None:
    """The type of the decoded elements: native, little-endian, of a fixed size.

    None if there is no such type: strings of any length, types that numpy does not have. Sources:
    Zarr v3 core specification, Data types; Zarr v2 specification, Data type encoding.
    """
    try:
        of_node = _v2_type if node.zarr_format == 2 else _v3_type
        dtype = of_node(node.data_type).newbyteorder("<")
    except (MetadataError, TypeError, ValueError, KeyError, OverflowError):
        return None
    return dtype if dtype.itemsize and not dtype.hasobject else None


def fill_bytes(node: ArrayNode) -> bytes | None:
    """The bytes of one element of the fill value, in the type `array_type`, for numbers.

    None for types whose fill values only zarr-python knows: records, strings, times. Source: Zarr v3 core
    specification, Permitted fill values; Zarr v2 specification, Fill value encoding.
    """
    dtype, value = array_type(node), node.fill_value
    if dtype is None or value is MISSING or dtype.kind not in "biufcV" or dtype.names is not None:
        return None
    if value is None:  # null in Zarr v2
        return bytes(dtype.itemsize)
    try:
        if dtype.kind == "V":
            return _raw(value, dtype.itemsize)
        if dtype.kind == "c":
            parts = value if isinstance(value, list | tuple) else (value, 0.0)
            real, imaginary = parts
            part = np.dtype(f"<f{dtype.itemsize // 2}")
            return _float(real, part) + _float(imaginary, part)
        if dtype.kind == "f":
            return _float(value, dtype)
        if type(value) is not (bool if dtype.kind == "b" else int):
            return None
        return np.array(value, dtype).tobytes()
    except (TypeError, ValueError, OverflowError):
        return None


def _float(value: object, dtype: np.dtype[Any]) -> bytes:
    if isinstance(value, str) and value.startswith("0x"):
        if len(value) != len("0x") + 2 * dtype.itemsize:
            raise ValueError(f"{value!r} has not {dtype.itemsize} bytes")
        return int(value, 16).to_bytes(dtype.itemsize, "little")
    if isinstance(value, str):
        value = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}.get(value, value)
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    with np.errstate(over="ignore"):
        return np.array(value, dtype).tobytes()


def _raw(value: object, itemsize: int) -> bytes | None:
    if isinstance(value, str):
        raw = binascii.a2b_base64(value)
    elif isinstance(value, list | tuple):
        raw = bytes(value)
    else:
        return None
    return raw if len(raw) == itemsize else None


# -- Zarr v3


def _v3_type(value: object) -> np.dtype[Any]:
    data_type = parse_data_type(value)
    if data_type.name in _NUMPY_NAMES:
        return np.dtype(data_type.name)
    make = _CONFIGURED.get(data_type.name)
    if make is not None:
        return make(parse_extension(value, "data_type").configuration, data_type)
    if data_type.kind == "raw" and data_type.core:
        return np.dtype(f"V{_size(data_type)}")
    raise MetadataError(f"data_type: numpy has no {data_type.name}")


def _size(data_type: DataType, unit: int = 1) -> int:
    size = data_type.itemsize
    if size is None or size > _MOST_BYTES:
        raise MetadataError(f"data_type: {data_type.name} has no size that numpy has")
    return size // unit


def _time(letter: str) -> Callable[[Mapping[str, Any], DataType], np.dtype[Any]]:
    def make(configuration: Mapping[str, Any], _: DataType) -> np.dtype[Any]:
        unit = str(configuration["unit"]).replace("\u03bcs", "us").replace("\u00b5s", "us")
        if unit == "generic":
            return np.dtype(f"{letter}8")
        return np.dtype(f"{letter}8[{configuration['scale_factor']}{unit}]")

    return make


def _struct(configuration: Mapping[str, Any], _: DataType) -> np.dtype[Any]:
    fields = []
    for field in configuration["fields"]:
        name, value = (field["name"], field["data_type"]) if isinstance(field, Mapping) else field
        fields.append((name, _v3_type(value)))
    return np.dtype(fields)


_CONFIGURED: dict[str, Callable[[Mapping[str, Any], DataType], np.dtype[Any]]] = {
    "numpy.datetime64": _time("M"),
    "numpy.timedelta64": _time("m"),
    "fixed_length_utf32": lambda _, data_type: np.dtype(f"U{_size(data_type, 4)}"),
    "null_terminated_bytes": lambda _, data_type: np.dtype(f"S{_size(data_type)}"),
    "raw_bytes": lambda _, data_type: np.dtype(f"V{_size(data_type)}"),
    "struct": _struct,
    "structured": _struct,
}


# -- Zarr v2


def _v2_type(value: object) -> np.dtype[Any]:
    """Only what Zarr v2 writes: numpy itself would take much else for a type."""
    if isinstance(value, str):
        if not _V2_STRING.fullmatch(value):
            raise MetadataError(f"dtype: {value!r} has no fixed size")
        return np.dtype(value)
    if not isinstance(value, list | tuple):
        raise MetadataError("dtype: is no type")
    fields: list[Any] = []
    for name, of_field, *shape in value:
        if not isinstance(name, str):
            raise MetadataError("dtype: a field has no name")
        fields.append((name, _v2_type(of_field), *(tuple(lengths) for lengths in shape)))
    return np.dtype(fields)
