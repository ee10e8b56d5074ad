"""Checks a chain of codecs, and computes the size of its output.

Owns the order of a chain, shards (chains within a chain), and sizes. `known_codecs` has the codecs and
their configurations. Used by `check` and by views. It must not know how codecs decode.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final

from zarrfuse.errors import MetadataError
from zarrfuse.spec.data_types import UINT64, DataType
from zarrfuse.spec.known_codecs import (
    KNOWN,
    Array,
    Codec,
    Kind,
    configuration_rule,
    is_integer,
    judge_transpose,
    missing_members,
    one_of,
    packed_bytes,
    unknown_members,
)
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
    """Everything wrong with the `codecs` of an array, in the order of its members.

    Members start behind `codecs`: `[1]: configuration: level`. What is not known is not judged:
    `data_type` and `chunk_shape` may be None, and a codec with an unknown name is taken to be in
    its place and to be followed by anything (`unknown` lists those). Sources: core specification,
    Codecs; the documents of the codecs, Configuration parameters.
    """
    shape = None if chunk_shape is None else tuple(chunk_shape)
    yield from _judge_chain(codecs, Array(data_type, shape), _MAX_NESTING)


def unknown(codecs: Sequence[Extension]) -> Iterator[tuple[str, str]]:
    """(member, name) of every codec that is not known, those in shards included."""
    yield from _unknown(codecs, _MAX_NESTING)


def encoded_size(
    codecs: Sequence[Extension], data_type: DataType, chunk_shape: Sequence[int]
) -> int | None:
    """The bytes of every encoded chunk; None if they vary, or it cannot be told."""
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
            size = _array_bytes(extension, data_type, prod(chunk_shape))
            if size is None:
                return None
    return size


def index_bytes(extension: Extension, chunk_shape: Sequence[int]) -> int | None:
    """The bytes of the index of every shard of this shape; None if it cannot be told.

    16 for each inner chunk, and what the index codecs add (sharding-indexed codec, Binary shard
    format). None also for any other codec than `sharding_indexed`.
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


def _array_bytes(extension: Extension, data_type: DataType, count: int) -> int | None:
    """The bytes that an array->bytes codec of fixed size makes of so many elements."""
    if extension.name == "bytes":
        return None if data_type.itemsize is None else count * data_type.itemsize
    return packed_bytes(extension.configuration, data_type, count)


def _shape(value: object) -> tuple[int, ...] | None:
    """The chunk shape that a JSON value is, if it is one."""
    if not isinstance(value, list | tuple):
        return None
    return tuple(value) if all(is_integer(item) and item > 0 for item in value) else None


def _grid(shape: tuple[int, ...], inner: tuple[int, ...]) -> tuple[int, ...] | None:
    """How many inner chunks a shard has along each dimension, if they fill it."""
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
    """Everything wrong with a chain that encodes `array`, which is that of an `index` or of chunks.

    None stands for a codec that could not be read; like one that is not known it may be of any
    kind.
    """
    known = [None if codec is None else KNOWN.get(codec.name) for codec in codecs]
    # Whether an array, or bytes, can arrive at a codec: both do behind one that is not known.
    is_array, is_bytes = True, False
    last_of_array = ""
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
                clause = f"{extension.name} takes bytes, but no codec before it makes bytes"
                yield Problem(member, clause, CHAIN_RULE)
            is_array = not is_bytes
        elif is_array:
            is_array, is_bytes = codec.kind == "array->array", codec.kind == "array->bytes"
            array = _encoded(extension, codec, array)
        else:
            clause = f"{extension.name} takes an array, and behind {last_of_array} there is none"
            yield Problem(member, clause, CHAIN_RULE)
        if not is_array:
            last_of_array = last_of_array or f"{member} {extension.name}"
        if index and codec.size == "varies":
            clause = f"{extension.name} makes a varying number of bytes, and an index has a fixed"
            yield Problem(member, clause, _SHARDING)
            given = Array(None, given.shape)  # that it does not fit the data type is no news
        for problem in _judge_codec(extension, codec, given, nesting):
            yield problem.below(f"{member}: " if problem.member else member)
    if not is_bytes:
        yield Problem("", "have none that makes bytes of the array", CHAIN_RULE)


def _judge_codec(
    extension: Extension, codec: Codec, array: Array, nesting: int
) -> Iterator[Problem]:
    """Everything wrong with one codec that encodes `array`."""
    if extension.name == "sharding_indexed":
        return _judge_sharding(extension.configuration, array, nesting)
    return iter(()) if codec.judge is None else codec.judge(extension.configuration, array)


def _encoded(extension: Extension, codec: Codec, array: Array) -> Array:
    """The array that `codec` makes, of which nothing is known if it makes bytes."""
    shape = array.shape if codec.keeps_shape else None
    if extension.name == "transpose" and not any(judge_transpose(extension.configuration, array)):
        order = extension.configuration["order"]
        shape = None if array.shape is None else tuple(array.shape[axis] for axis in order)
    return Array(array.data_type if codec.keeps_type else None, shape)


# -- shards


def _judge_sharding(
    configuration: Mapping[str, Any], array: Array, nesting: int
) -> Iterator[Problem]:
    """Inner chunks that fill the shard, and two chains; that of the index has a fixed size.

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
    """Everything wrong with the chain that is the member `name` of a shard's configuration."""
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
    """The problem that `parse_extension` has with `value`, whose message starts with a path."""
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
    """Those of `values` that are extensions, by their place."""
    found = {}
    for place, value in enumerate(values):
        try:
            found[place] = parse_extension(value, "")
        except MetadataError:
            continue
    return found
