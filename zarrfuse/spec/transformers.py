"""Parses the member `storage_transformers` of an array: the parts of its chunks.

Owns the registry of storage transformers, and whether an array with unknown ones may be loaded. Used by
`node_v3`. It must not know stores: plug-ins can only join parts.
"""

from zarrfuse.errors import MetadataError
from zarrfuse.spec.chunk_keys import ChunkKeyEncoding
from zarrfuse.spec.concat_parts import ConcatParts, StoredParts, check_part_keys, stack
from zarrfuse.spec.members import take_array
from zarrfuse.spec.names import Extension, parse_extension
from zarrfuse.spec.registry import PlugInError, Registry, foreign

ENTRY_POINTS = "zarrfuse.storage_transformers"
"""The entry-point group: the name of a storage transformer, and a subclass of `ConcatParts`."""

TRANSFORMERS: Registry[ConcatParts] = Registry(ENTRY_POINTS, (ConcatParts,), ConcatParts)
"""The storage transformers that are understood here."""


def judge_transformers(
    value: object, chunk_keys: ChunkKeyEncoding, ndim: int
) -> tuple[StoredParts | None, tuple[str, ...]]:
    """(the parts of a chunk, None if it is stored in one piece; the names of ignored transformers).

    Raises `MetadataError` for one that is wrong, or must be understood and is not known (Zarr v3 core
    specification, Storage transformers; Concatenate Parts Storage Transformer).
    """
    transformers = []
    ignored = []
    for index, item in enumerate(take_array(value, "storage_transformers")):
        member = f"storage_transformers[{index}]"
        extension = parse_extension(item, member)
        name = extension.name
        try:
            kind = TRANSFORMERS.find(name)
            if kind is not None:
                transformers.append(_configured(kind, extension))
        except PlugInError as error:
            raise MetadataError(f"{member}: name: {error}") from error
        except MetadataError as error:
            raise MetadataError(f"{member}: {name}: {error}") from error
        if kind is None and extension.must_understand:
            raise MetadataError(f"{member}: name: {TRANSFORMERS.unknown(name)}")
        if kind is None:
            ignored.append(name)
    if not transformers:
        return None, tuple(ignored)
    try:
        parts = stack(transformers)
        check_part_keys(parts, chunk_keys, ndim)
    except MetadataError as error:
        raise MetadataError(f"storage_transformers: {error}") from error
    return parts, tuple(ignored)


def _configured(kind: type[ConcatParts], extension: Extension) -> ConcatParts:
    name = extension.name
    made = foreign(name, lambda: kind.from_configuration(extension.configuration))
    if not isinstance(made, ConcatParts):
        raise PlugInError(f"{name}: from_configuration returns no ConcatParts")
    return made
