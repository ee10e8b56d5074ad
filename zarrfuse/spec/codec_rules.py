"""What a codec is for those who check a chain, and what the rules of configurations are made of.

Used by `known_codecs` and `image_codecs`, which own the rules of single codecs, and by `codecs`, which owns
chains and shards. It must not know the name of a codec.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from zarrfuse.spec.data_types import DataType
from zarrfuse.spec.members import shown
from zarrfuse.spec.problems import Problem, Rule


@dataclass(frozen=True, slots=True)
class Array:
    """The input array of a codec; a member that is not known is None, and is not checked."""

    data_type: DataType | None
    shape: tuple[int, ...] | None


Kind: TypeAlias = Literal["array->array", "array->bytes", "bytes->bytes"]
"""The kinds of input and output of a codec (core specification, Codecs)."""

Judge: TypeAlias = Callable[[Mapping[str, Any], Array], Iterator[Problem]]
"""Yields all problems of the configuration of a codec that encodes this array.

The members of the problems start at the codec: `configuration: level`.
"""


@dataclass(frozen=True, slots=True)
class Codec:
    """The properties of a codec.

    `size`: `fixed` if the size of its output follows from that of its input, `varies` for compression,
    `unknown` if it depends on the configuration. `keeps_shape`, `keeps_type`: whether an array->array codec
    keeps shape and data type. `added_bytes`: the size of a checksum.
    """

    kind: Kind
    judge: Judge | None = None
    size: Literal["fixed", "varies", "unknown"] = "varies"
    keeps_shape: bool = False
    keeps_type: bool = False
    added_bytes: int = 0


def configuration_rule(document: str) -> Rule:
    """The section on the configuration in the document of a codec."""
    return (document, "Configuration parameters")


def unknown_members(
    configuration: Mapping[str, Any], known: Sequence[str], rule: Rule
) -> Iterator[Problem]:
    """A problem for every member that the codec does not have."""
    for name in configuration:
        if name not in known:
            yield Problem(f"configuration: {shown(name)}", "unknown member", rule)


def missing_members(
    configuration: Mapping[str, Any], required: Sequence[str], rule: Rule
) -> Iterator[Problem]:
    """A problem for every required member that is missing."""
    for name in required:
        if name not in configuration:
            yield Problem(f"configuration: {name}", "is missing", rule)


def one_of(
    configuration: Mapping[str, Any], name: str, allowed: Sequence[str], rule: Rule
) -> Iterator[Problem]:
    """A problem if the member exists and is not one of the `allowed` strings."""
    if name in configuration and configuration[name] not in allowed:
        *most, last = map(repr, allowed)
        clause = f"must be {', '.join(most)} or {last}, not {shown(configuration[name])}"
        yield Problem(f"configuration: {name}", clause, rule)


def is_integer(value: object) -> bool:
    """Whether `value` is a JSON integer; `true` and `4.0` are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def integer_from(
    configuration: Mapping[str, Any], name: str, low: int, high: int | None, rule: Rule
) -> Iterator[Problem]:
    """A problem if the member exists and is not an integer from `low` to `high`."""
    if name not in configuration:
        return
    value = configuration[name]
    if not is_integer(value):
        clause = f"must be an integer, not {shown(value)}"
    elif high is None and value < low:
        clause = f"must be at least {low}, not {shown(value)}"
    elif high is not None and not low <= value <= high:
        clause = f"must be from {low} to {high}, not {shown(value)}"
    else:
        return
    yield Problem(f"configuration: {name}", clause, rule)
