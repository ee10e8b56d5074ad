"""Data types of Zarr v3: kind, size, and permitted fill values.

Owns the core data types and those of the registry (github.com/zarr-developers/zarr-extensions). Used by
`codecs` for sizes and byte orders, and by `check` and `plain`. It must not know codecs, chunks or arrays in
memory.
"""

import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import (
    refuse_unknown,
    shown,
    take_array,
    take_integer,
    take_object,
    take_string,
)
from zarrfuse.spec.names import Extension, parse_extension
from zarrfuse.spec.problems import Rule

Kind: TypeAlias = Literal[
    "bool", "int", "uint", "float", "complex", "raw", "time", "string", "bytes", "struct", "other"
]


_MAX_NESTING = 32
# More digits than any chunk has bytes; Python may refuse to convert more than 640.
_RAW = re.compile(r"r(0|[1-9][0-9]{0,17})")
_NOT_RAW = re.compile(r"r[0-9]+")


@dataclass(frozen=True, slots=True)
class DataType:
    """A data type, as far as it is known here.

    `itemsize` is the bytes of an element as the `bytes` codec encodes it, None where elements vary
    in size or it is not known. `core` is true of the types of the core specification, `known` also
    of registered ones and those that zarr-python writes. `component_bits` are the bits of one
    number, of which a complex one has two; None for what is no number. `byte_order`: whether the
    bytes of an element can be in either order.
    """

    name: str
    kind: Kind
    itemsize: int | None
    core: bool = False
    known: bool = True
    component_bits: int | None = None
    byte_order: bool = False

    @property
    def components(self) -> int:
        """The numbers in an element: 2 for complex types, otherwise 1."""
        return 2 if self.kind == "complex" else 1

    @property
    def variable(self) -> bool:
        """Whether elements are strings of characters or bytes of any length."""
        return self.kind in ("string", "bytes") and self.itemsize is None


def _number(name: str, kind: Kind, bits: int, *, core: bool) -> DataType:
    """A type of numbers with components of so many bits; a part of a byte takes a whole one."""
    itemsize = -(-bits // 8) * (2 if kind == "complex" else 1)
    return DataType(name, kind, itemsize, core, True, bits, byte_order=bits > 8)


def _numbers() -> dict[str, DataType]:
    core: dict[str, tuple[Kind, int]] = {
        "bool": ("bool", 1),
        **{f"int{bits}": ("int", bits) for bits in (8, 16, 32, 64)},
        **{f"uint{bits}": ("uint", bits) for bits in (8, 16, 32, 64)},
        **{f"float{bits}": ("float", bits) for bits in (16, 32, 64)},
        "complex64": ("complex", 32),
        "complex128": ("complex", 64),
    }
    floats = {
        "bfloat16": 16,
        "float4_e2m1fn": 4,
        "float6_e2m3fn": 6,
        "float6_e3m2fn": 6,
        "float8_e3m4": 8,
        "float8_e4m3": 8,
        "float8_e4m3b11fnuz": 8,
        "float8_e4m3fnuz": 8,
        "float8_e5m2": 8,
        "float8_e5m2fnuz": 8,
        "float8_e8m0fnu": 8,
    }
    halves = {**floats, "float16": 16, "float32": 32, "float64": 64}
    registered: dict[str, tuple[Kind, int]] = {
        **{f"int{bits}": ("int", bits) for bits in (2, 4)},
        **{f"uint{bits}": ("uint", bits) for bits in (2, 4)},
        **{name: ("float", bits) for name, bits in floats.items()},
        "float8_e4m3fn": ("float", 8),  # tensorstore's, in no registry yet
        **{f"complex_{name}": ("complex", bits) for name, bits in halves.items()},
    }
    return {
        **{name: _number(name, kind, bits, core=True) for name, (kind, bits) in core.items()},
        **{
            name: _number(name, kind, bits, core=False) for name, (kind, bits) in registered.items()
        },
    }


_NUMBERS: Final = _numbers()

_VARIABLE: Final = {
    "string": DataType("string", "string", None),
    "bytes": DataType("bytes", "bytes", None),
    "variable_length_bytes": DataType("variable_length_bytes", "bytes", None),  # zarr-python's name
    "optional": DataType("optional", "other", None),
}

UINT64: Final = _NUMBERS["uint64"]
"""The data type of a shard's index."""


def parse_data_type(value: object, member: str = "data_type") -> DataType:
    """The data type that the JSON `value` names.

    `member` is where it stands, for messages. A name that is not known makes a type of which
    nothing else is known. Raises `MetadataError` naming the member for a value that names no data
    type, raw bits that are no whole bytes, and a configuration that the type does not have (core
    specification, Data types and Extension definition; the types' own documents).
    """
    return _parse(value, member, _MAX_NESTING)


def _parse(value: object, member: str, nesting: int) -> DataType:
    if nesting == 0:
        raise MetadataError(f"{member}: is nested more than {_MAX_NESTING} deep")
    extension = parse_extension(value, member)
    name, configuration = extension.name, extension.configuration
    if name in _NUMBERS:
        refuse_unknown(configuration, (), f"{member}: configuration")
        return _NUMBERS[name]
    if name in _VARIABLE:
        return _VARIABLE[name]
    where = f"{member}: configuration"
    if name in _CONFIGURED:
        return _CONFIGURED[name](extension, where)
    if name in ("struct", "structured"):
        return DataType(name, "struct", _struct_size(configuration, where, nesting))
    if _NOT_RAW.fullmatch(name):
        refuse_unknown(configuration, (), where)
        return _raw_bits(name, member)
    return DataType(name, "other", None, known=False)


def _raw_bits(name: str, member: str) -> DataType:
    match = _RAW.fullmatch(name)
    bits = int(match[1]) if match else 0
    if bits == 0 or bits % 8:
        raise MetadataError(
            f"{member}: {shown(name)} must be r and a number of bits that is a multiple of 8"
        )
    return DataType(name, "raw", bits // 8, core=True)


# With both characters that look like a Greek mu: Unicode has one for the prefix micro.
_SECONDS = ("s", "ms", "us", "\u03bcs", "\u00b5s", "ns", "ps", "fs", "as")
_TIME_UNITS = frozenset(("Y", "M", "W", "D", "h", "m", *_SECONDS, "generic"))


def _take(configuration: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in configuration:
        raise MetadataError(f"{where}: {name}: is missing")
    return configuration[name]


def _time(extension: Extension, where: str) -> DataType:
    """Source: numpy.datetime64 and numpy.timedelta64 data types, Configuration."""
    configuration = extension.configuration
    refuse_unknown(configuration, {"unit", "scale_factor"}, where)
    unit = take_string(_take(configuration, "unit", where), f"{where}: unit")
    if unit not in _TIME_UNITS:
        raise MetadataError(f"{where}: unit: {shown(unit)} is no unit of time")
    factor = _take(configuration, "scale_factor", where)
    factor = take_integer(factor, f"{where}: scale_factor", minimum=1)
    if factor >= 2**31:
        raise MetadataError(f"{where}: scale_factor: must be below 2**31, not {shown(factor)}")
    return DataType(extension.name, "time", 8, component_bits=64, byte_order=True)


def _fixed(kind: Kind, unit: int) -> Callable[[Extension, str], DataType]:
    """Elements of `length_bytes`, which are made of units of so many bytes.

    Source: fixed_length_utf32 and null_terminated_bytes data types, Configuration.
    """

    def parse(extension: Extension, where: str) -> DataType:
        refuse_unknown(extension.configuration, {"length_bytes"}, where)
        length = _take(extension.configuration, "length_bytes", where)
        length = take_integer(length, f"{where}: length_bytes", minimum=1)
        if length % unit:
            raise MetadataError(f"{where}: length_bytes: {length} is no multiple of {unit}")
        return DataType(extension.name, kind, length, byte_order=unit > 1)

    return parse


_CONFIGURED: dict[str, Callable[[Extension, str], DataType]] = {
    "numpy.datetime64": _time,
    "numpy.timedelta64": _time,
    "fixed_length_utf32": _fixed("string", 4),
    "null_terminated_bytes": _fixed("bytes", 1),
    "raw_bytes": _fixed("raw", 1),  # zarr-python's, in no registry yet
}


def _struct_size(configuration: Mapping[str, Any], where: str, nesting: int) -> int | None:
    """The bytes of a record, None where a field's type is not known.

    A field is an object in `struct`, and a pair of name and type in `structured`, as zarr-python
    writes it. Source: struct and structured data types, Configuration.
    """
    refuse_unknown(configuration, {"fields"}, where)
    fields = take_array(_take(configuration, "fields", where), f"{where}: fields")
    if not fields:
        raise MetadataError(f"{where}: fields: must list one or more fields")
    names = set()
    size: int | None = 0
    for index, field in enumerate(fields):
        member = f"{where}: fields[{index}]"
        if isinstance(field, list | tuple) and len(field) == 2:
            name, value = field
        else:
            members = take_object(field, member)
            refuse_unknown(members, {"name", "data_type"}, member)
            name, value = _take(members, "name", member), _take(members, "data_type", member)
        name = take_string(name, f"{member}: name")
        if not name or name in names:
            raise MetadataError(f"{member}: name: must be one of its own, not {shown(name)}")
        names.add(name)
        data_type = _parse(value, f"{member}: data_type", nesting - 1)
        if data_type.variable:
            raise MetadataError(f"{member}: data_type: {data_type.name} has no fixed size")
        itemsize = data_type.itemsize
        size = None if size is None or itemsize is None else size + itemsize
    return size


# -- fill values


def fill_value_rule(data_type: DataType) -> Rule:
    """(document, section) of the rule that `fill_value_problem` holds a fill value to."""
    if data_type.core:
        return ("Zarr v3 core specification", "Permitted fill values")
    return (f"{data_type.name} data type", "Fill value representation")


def fill_value_problem(data_type: DataType, fill_value: object) -> str | None:
    """What is wrong with the JSON value `fill_value` for this type, or None.

    A clause without a subject, such as `must be true or false, not 0`. None also for what cannot be
    judged: types that are not known, records and optional values (`fill_value_rule` tells where the
    rule stands).
    """
    judge = _JUDGES.get(data_type.kind)
    return None if judge is None else judge(data_type, fill_value)


def default_fill_value(data_type: DataType) -> Any:
    """The JSON value of the fill value that stands for none, as for null in Zarr v2: zero.

    That is also `false`, an empty string, and for times NaT, as zarr-python fills. Raises
    `MetadataError` for types that are not known, records and optional values.
    """
    if data_type.kind == "complex":
        return [0.0, 0.0]
    if data_type.kind == "raw" and data_type.core:
        return [0] * (data_type.itemsize or 0)
    if data_type.kind == "raw":
        return binascii.b2a_base64(bytes(data_type.itemsize or 0), newline=False).decode()
    if data_type.kind not in _ZEROS:
        raise MetadataError(f"data_type: {data_type.name} has no default fill value")
    return _ZEROS[data_type.kind]


_ZEROS: dict[Kind, Any] = {
    "bool": False,
    "int": 0,
    "uint": 0,
    "float": 0.0,
    "time": "NaT",
    "string": "",
    "bytes": "",
}


def _judge_bool(_: DataType, value: object) -> str | None:
    return None if isinstance(value, bool) else f"must be true or false, not {shown(value)}"


def _judge_integer(data_type: DataType, value: object) -> str | None:
    bits = data_type.component_bits or 64
    low = 0 if data_type.kind == "uint" else -(2 ** (bits - 1))
    high = low + 2**bits - 1
    if not isinstance(value, int) or isinstance(value, bool):
        return f"must be an integer, not {shown(value)}"
    return None if low <= value <= high else f"must be from {low} to {high}, not {shown(value)}"


def _judge_time(data_type: DataType, value: object) -> str | None:
    if isinstance(value, str):
        return None if value == "NaT" else f"must be an integer or 'NaT', not {shown(value)}"
    return _judge_integer(data_type, value)


def _judge_float(data_type: DataType, value: object) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None
    bits = data_type.component_bits or 64
    digits = f"{bits // 4}" if bits >= 8 else "1,2"  # the registry leaves open how many for less
    if isinstance(value, str) and (
        value in ("NaN", "Infinity", "-Infinity")
        or re.fullmatch(f"0x[0-9a-fA-F]{{{digits}}}", value)
    ):
        return None
    return (
        f"must be a number, 'NaN', 'Infinity', '-Infinity', or '0x' and "
        f"{digits.replace(',', ' or ')} hexadecimal digits, not {shown(value)}"
    )


def _judge_complex(data_type: DataType, value: object) -> str | None:
    if not isinstance(value, list | tuple):
        return f"must be an array of the real and the imaginary part, not {shown(value)}"
    if len(value) != 2:
        return f"must have two elements, the real and the imaginary part, not {len(value)}"
    for name, part in zip(("real", "imaginary"), value, strict=True):
        if problem := _judge_float(data_type, part):
            return f"the {name} part {problem}"
    return None


def _judge_bytes_array(value: list[Any] | tuple[Any, ...]) -> str | None:
    for index, item in enumerate(value):
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item <= 255:
            return f"element {index} must be an integer from 0 to 255, not {shown(item)}"
    return None


def _judge_raw(data_type: DataType, value: object) -> str | None:
    """An array of bytes; `raw_bytes`, which are not core, as zarr-python writes them."""
    size = data_type.itemsize or 0
    if not data_type.core:
        return _judge_base64(value, size, size)
    if not isinstance(value, list | tuple):
        return f"must be an array of {size} integers from 0 to 255, not {shown(value)}"
    if len(value) != size:
        return f"must have {size} elements, one for each byte, not {len(value)}"
    return _judge_bytes_array(value)


def _judge_bytes(data_type: DataType, value: object) -> str | None:
    if data_type.itemsize is None and isinstance(value, list | tuple):  # zarr-python 3.0
        return _judge_bytes_array(value)
    return _judge_base64(value, 0, data_type.itemsize)


def _judge_base64(value: object, least: int, most: int | None) -> str | None:
    if not isinstance(value, str):
        return f"must be a string in base64, not {shown(value)}"
    try:
        size = len(binascii.a2b_base64(value.encode(), strict_mode=True))
    except ValueError:  # binascii.Error is one, and so is that of surrogates
        return f"must be in base64, not {shown(value)}"
    if size < least or (most is not None and size > most):
        bound = f"{most}" if least == most else f"at most {most}"
        return f"must be {bound} bytes in base64, not {size}"
    return None


def _judge_string(data_type: DataType, value: object) -> str | None:
    if not isinstance(value, str):
        return f"must be a string, not {shown(value)}"
    if data_type.itemsize is not None and len(value) > data_type.itemsize // 4:
        return f"must have at most {data_type.itemsize // 4} characters, not {len(value)}"
    return None


_JUDGES: dict[Kind, Callable[[DataType, object], str | None]] = {
    "bool": _judge_bool,
    "int": _judge_integer,
    "uint": _judge_integer,
    "float": _judge_float,
    "complex": _judge_complex,
    "raw": _judge_raw,
    "time": _judge_time,
    "string": _judge_string,
    "bytes": _judge_bytes,
}
