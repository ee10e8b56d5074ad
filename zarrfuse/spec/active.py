"""The generic extensions that act on a node, and whether they allow it to be loaded (ZEP 10).

Owns the registry of generic extensions, and parses the member `extensions`. Used by the parsers of nodes,
and by `references` and the views, which add extensions of other nodes. It must not know other members, or
the path of a node.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from zarrfuse.errors import MetadataError, text_of
from zarrfuse.spec.extensions import GenericExtension, NodeType
from zarrfuse.spec.members import refuse_unknown, shown, take_array
from zarrfuse.spec.names import Extension, is_name, parse_extension
from zarrfuse.spec.paths import take_reference
from zarrfuse.spec.registry import PlugInError, Registry, foreign
from zarrfuse.spec.zep10 import BUILT_IN, ParentReference

G = TypeVar("G", bound=GenericExtension)

ENTRY_POINTS = "zarrfuse.extensions"
"""The entry-point group: the name of a generic extension, and the class that implements it."""

EXTENSIONS: Registry[GenericExtension] = Registry(ENTRY_POINTS, BUILT_IN, GenericExtension)
"""The generic extensions that are understood here."""

_REF = "-ref"
# No sane node comes near. What is inherited is compared with what each node below lists itself.
_MOST_EXTENSIONS = 256
# Facts that an extension must not set: those of nodes and of views.
_TAKEN = frozenset(
    {
        *("node_type", "zarr_format", "shape", "data_type", "chunk_shape", "chunk_key_encoding"),
        *("dimension_names", "fill_value", "order", "codecs", "parts", "extensions", "ignored"),
        *("view", "path", "kind", "size", "node", "error", "key", "chunk_coords"),
        *("told_by", "extension_errors"),
    }
)


@dataclass(frozen=True, slots=True)
class Active:
    """An extension that acts on a node.

    `listed`: the entry in the metadata; `kind`: the class of its name. `array`: the path from the node with
    the entry to the node it acts on, `""` if they are the same. Two are equal if entry and path are equal.
    """

    kind: type[GenericExtension]
    extension: GenericExtension = field(compare=False)
    listed: Extension
    array: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """The entry `index` of `extensions`, which refers to extensions of the node at the relative `path`.

    `kind`: the extension that is taken from there; None for all that are inherited (ZEP 10, Application to
    sub-nodes).
    """

    index: int
    listed: Extension
    kind: type[GenericExtension] | None
    path: str

    @property
    def title(self) -> str:
        """The entry as a message names it."""
        return f"extensions[{self.index}]: {self.listed.name}: reference: {shown(self.path)}"


@dataclass(frozen=True, slots=True)
class Judged:
    """The parsed member `extensions`: all entries, those that act, references, ignored names."""

    extensions: tuple[Extension, ...] = ()
    active: tuple[Active, ...] = ()
    references: tuple[Reference, ...] = ()
    ignored: tuple[str, ...] = ()


NOTHING_LISTED = Judged()


def judge_extensions(value: object, shape: tuple[int, ...] | None) -> Judged:
    """Parse the member `extensions` of an array with this shape, or of a group (None).

    Raises `MetadataError` if `value` is not an array of one or more extensions, if one must be understood
    and is not known, or if a known one is wrong (ZEP 10, Proposal and Processing).
    """
    values = take_array(value, "extensions")
    if not values:
        raise MetadataError("extensions: must list one or more extensions, or be left out")
    if len(values) > _MOST_EXTENSIONS:
        raise MetadataError(
            f"extensions: lists {len(values)} extensions, more than {_MOST_EXTENSIONS}"
        )
    extensions = []
    active = []
    references = []
    ignored = []
    for index, item in enumerate(values):
        where = f"extensions[{index}]"
        listed = parse_extension(item, where)
        extensions.append(listed)
        try:
            found = _judge(index, listed, shape)
        except MetadataError as error:
            raise MetadataError(f"{where}: {error}") from error
        if isinstance(found, Active):
            active.append(found)
        elif found is not None:
            references.append(found)
        elif listed.must_understand:
            raise MetadataError(
                f"{where}: {listed.name} must be understood: {EXTENSIONS.unknown(listed.name)}"
            )
        else:
            ignored.append(listed.name)
    return Judged(tuple(extensions), tuple(active), tuple(references), tuple(ignored))


def _judge(
    index: int, listed: Extension, shape: tuple[int, ...] | None
) -> Active | Reference | None:
    """One parsed entry; None for an extension that is not known."""
    name, configuration = listed.name, listed.configuration
    kind = EXTENSIONS.find(name)
    if kind is None:
        base = name.removesuffix(_REF)
        referred = EXTENSIONS.find(base) if base != name and is_name(base) else None
        if referred is None:
            return None
        refuse_unknown(configuration, {"reference"}, name)
        if "reference" not in configuration:
            raise MetadataError(f"{name}: reference: is missing")
        return _refer(index, listed, referred, shape)
    if kind is ParentReference:
        parent = configured(kind, listed, shape)
        assert isinstance(parent, ParentReference)
        return Reference(index, listed, None, parent.reference)
    if kind.by_reference and configuration.keys() == {"reference"}:
        return _refer(index, listed, kind, shape)
    _refuse_misplaced(kind, listed, shape, referring=False)
    return Active(kind, configured(kind, listed, shape), listed)


def _refer(
    index: int, listed: Extension, kind: type[GenericExtension], shape: tuple[int, ...] | None
) -> Reference:
    _refuse_misplaced(kind, listed, shape, referring=True)
    path = take_reference(listed.configuration["reference"], f"{listed.name}: reference")
    return Reference(index, listed, kind, path)


def _refuse_misplaced(
    kind: type[GenericExtension],
    listed: Extension,
    shape: tuple[int, ...] | None,
    *,
    referring: bool,
) -> None:
    node_type: NodeType = "group" if shape is None else "array"
    if node_type not in kind.node_types and not (referring and kind.inherited):
        raise MetadataError(f"{listed.name}: is no extension of {node_type}s")


def configured(
    kind: type[GenericExtension], listed: Extension, shape: tuple[int, ...] | None
) -> GenericExtension:
    """The extension of an entry, at an array with this shape or a group (None).

    Raises `MetadataError` that starts with its name.
    """
    try:
        made = foreign(listed.name, lambda: kind.from_configuration(listed.configuration, shape))
    except PlugInError:
        raise
    except MetadataError as error:
        raise MetadataError(f"{listed.name}: {error}") from error
    if not isinstance(made, GenericExtension):
        raise PlugInError(f"{listed.name}: from_configuration returns no GenericExtension")
    return made


def first_of(active: Iterable[Active], kind: type[G]) -> G | None:
    """The extension of this kind that applies: the last one, which is nearest to the node."""
    found = [acting.extension for acting in active if isinstance(acting.extension, kind)]
    return found[-1] if found else None


def below(active: Iterable[Active], path: str) -> tuple[Active, ...]:
    """The extensions of one node that also act on the node at `path` below it."""
    return tuple(
        Active(acting.kind, acting.extension, acting.listed, f"{acting.array}/{path}".lstrip("/"))
        for acting in active
        if acting.kind.inherited
    )


def joined(above: Sequence[Active], own: Sequence[Active]) -> tuple[Active, ...]:
    """The extensions from above, and then those of the node itself; none twice.

    A node may refer to extensions above it.
    """
    if not above or not own:
        return tuple(above or own)
    return (*(acting for acting in above if acting not in own), *own)


def add_facts(facts: dict[str, Any], active: Sequence[Active]) -> None:
    """Add the facts of extensions to `facts`, the nearest last. Existing facts are not changed.

    `told_by` has the extension of each fact, `extension_errors` the errors of extensions.
    """
    if not active:
        return
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    failures = []
    for acting in active:
        name = acting.listed.name
        try:
            found = _checked_facts(acting.extension.facts(acting.array))
        except Exception as error:  # of a plug-in; the other facts remain
            failures.append(f"{name}: {text_of(error)}")
            continue
        values |= found
        sources |= dict.fromkeys(found, name)
    new = {key: value for key, value in values.items() if key not in facts}
    if new:
        facts |= new
        facts["told_by"] = facts.get("told_by", {}) | {key: sources[key] for key in new}
    if failures:
        facts["extension_errors"] = [*facts.get("extension_errors", ()), *failures]


def _checked_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(facts)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"facts: {shown(name)} is no name")
        if name in _TAKEN:
            raise ValueError(f"facts: {name} has a meaning already")
    json.dumps(found, allow_nan=False)
    return found
