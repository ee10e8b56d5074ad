"""What the `extensions` of a node demand (ZEP 10).

Owns which generic extensions are known and the decision whether a node that lists others may be
loaded. Used by `node` alone. It must not know documents beyond this one member.
"""

from collections.abc import Callable
from typing import TypeAlias

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import take_array
from zarrfuse.spec.names import Extension, parse_extension

Check: TypeAlias = Callable[[Extension, tuple[int, ...] | None], None]
"""Given an extension and the shape of the array that lists it (None for a group), raises
`MetadataError` when the configuration is wrong."""

KNOWN: dict[str, Check] = {}
"""The generic extensions that are understood here, by name."""


def judge_extensions(
    value: object, shape: tuple[int, ...] | None, member: str = "extensions"
) -> tuple[tuple[Extension, ...], tuple[str, ...]]:
    """(the extensions in order, the names of those that are ignored).

    `shape` is that of the array, None for a group. Raises `MetadataError` if `value` is not an
    array of one or more extensions, or one of them must be understood and is not known (ZEP 10,
    Proposal and Processing).
    """
    values = take_array(value, member)
    if not values:
        raise MetadataError(f"{member}: must list one or more extensions, or be left out")
    extensions = []
    ignored = []
    for index, item in enumerate(values):
        extension = parse_extension(item, f"{member}[{index}]")
        extensions.append(extension)
        if extension.name in KNOWN:
            try:
                KNOWN[extension.name](extension, shape)
            except MetadataError as error:
                raise MetadataError(f"{member}[{index}]: {extension.name}: {error}") from error
        elif extension.must_understand:
            raise MetadataError(
                f"{member}[{index}]: {extension.name} must be understood and is not known here"
            )
        else:
            ignored.append(extension.name)
    return tuple(extensions), tuple(ignored)
