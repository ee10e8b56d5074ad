"""Checks a chain of codecs, and computes the size of its output.

Owns the order of a chain, shards (chains within a chain), and sizes. `known_codecs` has the codecs, and the
rules for their configurations. Used by `check` and by views. It must not know how codecs decode.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final

from zarrfuse.errors import MetadataError
from zarrfuse.spec.codec_rules import (
    Array,
    Codec,
    Kind,
    configuration_rule,
    is_integer,
    missing_members,
    one_of,
    unknown_members,
)
from zarrfuse.spec.data_types import UINT64, DataType
from zarrfuse.spec.image_codecs import packed_integer_bytes
from zarrfuse.spec.known_codecs import KNOWN, judge_transpose, packed_bytes
from zarrfuse.spec.members import shown
from zarrfuse.spec.names import Extension, parse_extension
from zarrfuse.spec.problems import Problem, Rule

CHAIN_RULE: Final[Rule] = ("Zarr v3 core specification", "Codecs")
"""The rule of the order of codecs."""

_EXTENSION: Final[Rule] = ("Zarr v3 core specification", "Extension definition")
_SHARDING: Final = configuration_rule("sharding-indexed codec")
_MAX_NESTING = 32


def kind_of(name: str) -> Kind | None:
    """The kind of the codec of this name, such as `array->bytes`; None if it is not known."""
    codec = KNOWN.get(name)
    return None if codec is None else codec.kind


def problems(
    codecs: Sequence[Extension], data_type: DataType | None, chunk_shape: Sequence[int] | None
) -> Iterator[Problem]:
    """All problems of the `codecs` of an array, in their order.

    Members start after `codecs`: `[1]: configuration: level`. `data_type` and `chunk_shape` are None if
    they are not known. A codec with an unknown name may have any kind and output; `unknown` lists these.
    Sources: core specification, Codecs; the documents of the codecs, Configuration parameters.
    """
    shape = None if chunk_shape is None else tuple(chunk_shape)
    yield from _judge_chain(codecs, Array(data_type, shape), _MAX_NESTING)


def unknown(codecs: Sequence[Extension]) -> Iterator[tuple[str, str]]:
    """(member, name) of every codec that is not known, also of those in shards."""
    yield from _unknown(codecs, _MAX_NESTING)


def encoded_size(
    codecs: Sequence[Extension], data_type: DataType, chunk_shape: Sequence[int]
) -> int | None:
    """The size of every encoded chunk in bytes; None if it varies, or is not known."""
    size: int | None = None
    for extension in codecs:
        codec = KNOWN.get(extension.name)
        if codec is None or codec.size != "fixed":
            return None
        if codec.kind == "array->array":
            if size is not None or not codec.keeps_type:
                return None
        elif codec.kind == "bytes->bytes":
            if size is None:
                return None
            size += codec.added_bytes
        elif size is not None:
            return None
        else:
            size = _array_bytes(extension, data_type, tuple(chunk_shape))
            if size is None:
                return None
    return size


def index_bytes(extension: Extension, chunk_shape: Sequence[int]) -> int | None:
    """The size in bytes of the index of a shard of this shape; None if it is not known.

    It has 16 bytes for each inner chunk, and those that the index codecs add (sharding-indexed codec,
    Binary shard format). None for any other codec than `sharding_indexed`.
    """
    if extension.name != "sharding_indexed":
        return None
    inner = _shape(extension.configuration.get("chunk_shape"))
    grid = None if inner is None else _grid(tuple(chunk_shape), inner)
    values = extension.configuration.get("index_codecs")
    if grid is None or not isinstance(values, list | tuple):
        return None
    try:
        codecs = [parse_extension(value, "index_codecs") for value in values]
    except MetadataError:
        return None
    return encoded_size(codecs, UINT64, (*grid, 2))


# -- sizes


def _array_bytes(extension: Extension, data_type: DataType, shape: tuple[int, ...]) -> int | None:
    """The bytes of a chunk of this shape, encoded by an array->bytes codec of fixed size."""
    if extension.name in ("bytes", "imagecodecs_floatpred"):
        return None if data_type.itemsize is None else prod(shape) * data_type.itemsize
    if extension.name == "imagecodecs_packints":
        return packed_integer_bytes(extension.configuration, shape)
    return packed_bytes(extension.configuration, data_type, prod(shape))


def _shape(value: object) -> tuple[int, ...] | None:
    """The chunk shape of a JSON value; None if it is not one."""
    if not isinstance(value, list | tuple):
        return None
    return tuple(value) if all(is_integer(item) and item > 0 for item in value) else None


def _grid(shape: tuple[int, ...], inner: tuple[int, ...]) -> tuple[int, ...] | None:
    """The number of inner chunks along each dimension; None if they do not fill the shard."""
    if len(shape) != len(inner) or any(n % c for n, c in zip(shape, inner, strict=True)):
        return None
    return tuple(n // c for n, c in zip(shape, inner, strict=True))


# -- chains


def _judge_chain(
    codecs: Sequence[Extension | None],
    array: Array,
    nesting: int,
    *,
    index: bool = False,
) -> Iterator[Problem]:
    """All problems of a chain that encodes `array`: a chunk or, with `index`, the index of a shard.

    None: a codec that cannot be parsed; like an unknown one it may be of any kind.
    """
    known = [None if codec is None else KNOWN.get(codec.name) for codec in codecs]
    # Whether the input of a codec can be an array, or bytes: both after an unknown codec.
    is_array, is_bytes = True, False
    bytes_maker = ""
    makers = [at for at, c in enumerate(known) if c is None or c.kind == "array->bytes"]
    last_maker = makers[-1] if makers else -1
    for place, (extension, codec) in enumerate(zip(codecs, known, strict=True)):
        member = f"[{place}]"
        given = array
        if extension is None or codec is None:
            is_bytes = True
            array = Array(None, None)
            continue
        if codec.kind == "bytes->bytes":
            if not is_bytes and place < last_maker:
                clause = f"{extension.name} takes bytes, but precedes the array->bytes codec"
                yield Problem(member, clause, CHAIN_RULE)
            is_array = not is_bytes
        elif is_array:
            is_array, is_bytes = codec.kind == "array->array", codec.kind == "array->bytes"
            array = _encoded(extension, codec, array)
        else:
            clause = (
                f"{extension.name} takes an array, but follows {bytes_maker}, which makes bytes"
            )
            yield Problem(member, clause, CHAIN_RULE)
        if not is_array:
            bytes_maker = bytes_maker or f"{member} {extension.name}"
        if index and codec.size == "varies":
            clause = (
                f"{extension.name} has an output of varying size, but an index has a fixed size"
            )
            yield Problem(member, clause, _SHARDING)
            given = Array(None, given.shape)  # so that its data type is not reported, too
        for problem in _judge_codec(extension, codec, given, nesting):
            yield problem.below(f"{member}: " if problem.member else member)
    if not is_bytes:
        yield Problem("", "must include an array->bytes codec", CHAIN_RULE)


def _judge_codec(
    extension: Extension, codec: Codec, array: Array, nesting: int
) -> Iterator[Problem]:
    """All problems of one codec that encodes `array`."""
    if extension.name == "sharding_indexed":
        return _judge_sharding(extension.configuration, array, nesting)
    return iter(()) if codec.judge is None else codec.judge(extension.configuration, array)


def _encoded(extension: Extension, codec: Codec, array: Array) -> Array:
    """The output of `codec` for `array`; nothing is known of it if it is bytes."""
    shape = array.shape if codec.keeps_shape else None
    if extension.name == "transpose" and not any(judge_transpose(extension.configuration, array)):
        order = extension.configuration["order"]
        shape = None if array.shape is None else tuple(array.shape[axis] for axis in order)
    return Array(array.data_type if codec.keeps_type else None, shape)


# -- shards


def _judge_sharding(
    configuration: Mapping[str, Any], array: Array, nesting: int
) -> Iterator[Problem]:
    """Inner chunks fill the shard; the chain of the index has a fixed size.

    Source: sharding-indexed codec, Configuration parameters.
    """
    if nesting == 0:
        yield Problem("configuration", f"is nested more than {_MAX_NESTING} deep", _SHARDING)
        return
    required = ["chunk_shape", "codecs", "index_codecs"]
    yield from unknown_members(configuration, [*required, "index_location"], _SHARDING)
    yield from missing_members(configuration, required, _SHARDING)
    inner: tuple[int, ...] | None = None
    grid: tuple[int, ...] | None = None
    if "chunk_shape" in configuration:
        inner = _shape(configuration["chunk_shape"])
        yield from _judge_inner_shape(configuration["chunk_shape"], array.shape)
        if array.shape is not None and inner is not None:
            grid = _grid(array.shape, inner)
            inner = inner if len(inner) == len(array.shape) else None
    chunk = Array(array.data_type, inner)
    yield from _judge_member(configuration, "codecs", chunk, nesting - 1)
    index = Array(UINT64, None if grid is None else (*grid, 2))
    yield from _judge_member(configuration, "index_codecs", index, nesting - 1)
    yield from one_of(configuration, "index_location", ["start", "end"], _SHARDING)


def _judge_inner_shape(value: object, shape: tuple[int, ...] | None) -> Iterator[Problem]:
    member = "configuration: chunk_shape"
    if not isinstance(value, list | tuple):
        clause = f"must be an array of integers, not {shown(value)}"
        yield Problem(member, clause, _SHARDING)
        return
    if shape is not None and len(value) != len(shape):
        clause = f"has {len(value)} dimensions, the shard has {len(shape)}"
        yield Problem(member, clause, _SHARDING)
        shape = None
    for place, length in enumerate(value):
        if not is_integer(length):
            clause = f"must be an integer, not {shown(length)}"
        elif length < 1:
            clause = f"must be at least 1, not {shown(length)}"
        elif shape is not None and shape[place] % length:
            clause = f"must divide {shape[place]}, the length of the shard, which {length} does not"
        else:
            continue
        yield Problem(f"{member}[{place}]", clause, _SHARDING)


def _judge_member(
    configuration: Mapping[str, Any], name: str, array: Array, nesting: int
) -> Iterator[Problem]:
    """All problems of the chain in the member `name` of a shard's configuration."""
    if name not in configuration:
        return
    member = f"configuration: {name}"
    values = configuration[name]
    if not isinstance(values, list | tuple):
        clause = f"must be an array, not {shown(values)}"
        yield Problem(member, clause, _SHARDING)
        return
    chain: list[Extension | None] = []
    for place, value in enumerate(values):
        try:
            chain.append(parse_extension(value, ""))
        except MetadataError as error:
            chain.append(None)
            yield _unreadable(f"{member}[{place}]", value, str(error).removeprefix(": "))
    for problem in _judge_chain(chain, array, nesting, index=name == "index_codecs"):
        yield problem.below(member)


def _unreadable(member: str, value: object, message: str) -> Problem:
    """The error of `parse_extension` for `value` as a problem: its message starts with a path."""
    name = value.get("name") if isinstance(value, Mapping) else None
    rest = message.removeprefix(f"{name}: ")
    for step in ("name", "configuration", "must_understand"):
        if rest.startswith(f"{step}: "):
            return Problem(f"{member}: {step}", rest.removeprefix(f"{step}: "), _EXTENSION)
    if rest.endswith(": unknown member"):
        name = rest.removesuffix(": unknown member")
        return Problem(f"{member}: {name}", "unknown member", _EXTENSION)
    return Problem(member, rest, _EXTENSION)


def _unknown(codecs: Sequence[Extension], nesting: int) -> Iterator[tuple[str, str]]:
    for place, extension in enumerate(codecs):
        if extension.name not in KNOWN:
            yield f"[{place}]", extension.name
        if extension.name != "sharding_indexed" or nesting == 0:
            continue
        for name in ("codecs", "index_codecs"):
            values = extension.configuration.get(name)
            chain = _readable(values) if isinstance(values, list | tuple) else {}
            for at, codec in chain.items():
                for member, found in _unknown([codec], nesting - 1):
                    path = f"[{place}]: configuration: {name}[{at}]"
                    yield path + member.removeprefix("[0]"), found


def _readable(values: Sequence[object]) -> dict[int, Extension]:
    """The extensions among `values`, by their index."""
    found = {}
    for place, value in enumerate(values):
        try:
            found[place] = parse_extension(value, "")
        except MetadataError:
            continue
    return found
