"""Translates data types and fill values of Zarr v2 to Zarr v3, as zarr-python writes them.

Used by `plain_v2`. It must not know compressors, attributes or chunks.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from zarrfuse.errors import MetadataError
from zarrfuse.spec.data_types import (
    DataType,
    default_fill_value,
    fill_value_problem,
    parse_data_type,
)
from zarrfuse.spec.members import shown
from zarrfuse.spec.node import MISSING

_NUMBER = re.compile("([<>|])([biufc])([0-9]{1,2})")
_TEXT = re.compile("([<>|])([SU])([1-9][0-9]{0,8})")
_TIME = re.compile(r"([<>])([Mm])8(?:\[([1-9][0-9]{0,9})?([a-zA-Z\u00b5\u03bc]+)\])?")
_NUMBERS: Final = {
    "b1": "bool",
    **{f"i{bits // 8}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits // 8}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits // 8}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"c{bits // 8}": f"complex{bits}" for bits in (64, 128)},
}
_OBJECTS: Final = {"vlen-utf8": "string", "vlen-bytes": "variable_length_bytes"}


@dataclass(frozen=True, slots=True)
class TranslatedType:
    """A data type of Zarr v3: its JSON `value`, and its parsed `data_type`.

    `endian`: the byte order, if the type has one.
    """

    value: Any
    data_type: DataType
    endian: str | None = None


def translated_type(dtype: object, object_codec: str | None) -> TranslatedType:
    """The data type of Zarr v3 that the `bytes` codec, or `object_codec`, encodes in the same way.

    `object_codec`: the numcodecs id of the first filter. Raises `MetadataError` naming `dtype`.
    Sources: Zarr v2 specification, Data type encoding; Zarr v3 core specification, Data types; the
    registered types `string`, `numpy.datetime64`, `numpy.timedelta64`, and those of zarr-python.
    """
    text = dtype if isinstance(dtype, str) else ""
    if text == "|O":
        if object_codec not in _OBJECTS:
            raise MetadataError(
                f"dtype: objects with the filter {shown(object_codec)} have no type in Zarr v3"
            )
        value: Any = _OBJECTS[object_codec]
        return TranslatedType(value, parse_data_type(value))
    if number := _NUMBER.fullmatch(text):
        order, value = number[1], _NUMBERS.get(number[2] + number[3])
    elif string := _TEXT.fullmatch(text):
        order, value = string[1], _fixed(string[2], int(string[3]))
    elif time := _TIME.fullmatch(text):
        order, value = time[1], _time(time[2], time[3], time[4])
    else:
        order, value = "", None
    if value is None:
        raise MetadataError(f"dtype: {shown(dtype)} has no equivalent in Zarr v3")
    data_type = parse_data_type(value, "dtype")
    if not data_type.byte_order:
        return TranslatedType(value, data_type)
    if order == "|":
        raise MetadataError(f"dtype: {shown(dtype)} has no byte order")
    return TranslatedType(value, data_type, "little" if order == "<" else "big")


def _fixed(kind: str, length: int) -> dict[str, Any]:
    name, unit = ("null_terminated_bytes", 1) if kind == "S" else ("fixed_length_utf32", 4)
    return {"name": name, "configuration": {"length_bytes": length * unit}}


def _time(kind: str, factor: str | None, unit: str | None) -> dict[str, Any]:
    name = "numpy.datetime64" if kind == "M" else "numpy.timedelta64"
    configuration = {"unit": unit or "generic", "scale_factor": int(factor or 1)}
    return {"name": name, "configuration": configuration}


def translated_fill_value(value: object, data_type: DataType) -> Any:
    """A fill value as Zarr v3 spells it; for null in Zarr v2, the default one of the type.

    Accepts values that numpy converts in Zarr v2: 0 for false, 0.0 for 0, and a number for a string, of
    which zarr-python takes the digits. Raises `MetadataError`.
    """
    if value is MISSING:
        raise MetadataError("fill_value: is missing")
    if value is None:
        return default_fill_value(data_type)
    kind = data_type.kind
    if kind == "bool" and value in (0, 1):
        value = bool(value)
    elif kind in ("int", "uint") and isinstance(value, float) and value.is_integer():
        value = int(value)
    elif kind == "complex" and not isinstance(value, list):
        value = [value, 0.0]
    elif data_type.name == "string" and isinstance(value, int | float):
        value = str(value)
    clause = fill_value_problem(data_type, value)
    if clause is not None:
        raise MetadataError(f"fill_value: {clause}")
    return value
