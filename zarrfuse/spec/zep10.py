"""The built-in generic extensions: the examples of ZEP 10.

Each docstring names its section in ZEP 10, Examples. Used by `active`, which finds them by name, and by
views: the `images` view takes origin and range from here, writers ask whether empty chunks are written. It
must not know the path of a node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from zarrfuse.errors import MetadataError
from zarrfuse.spec.extensions import GenericExtension, NodeType
from zarrfuse.spec.members import refuse_unknown, shown, take_integers, take_object
from zarrfuse.spec.paths import relative, take_paths_below, take_reference

_ARRAY: frozenset[NodeType] = frozenset({"array"})
_GROUP: frozenset[NodeType] = frozenset({"group"})


@dataclass(frozen=True, slots=True)
class Offset(GenericExtension):
    """The element of the array that is the origin (ZEP 10, Offset).

    It may be outside the array, which can be a region of a larger one.
    """

    name: ClassVar[str] = "example.offset"
    node_types: ClassVar[frozenset[NodeType]] = _ARRAY
    offset: tuple[int, ...]

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Self:
        """See the base class: an integer for each dimension."""
        refuse_unknown(configuration, {"offset"})
        offset = take_integers(_required(configuration, "offset"), "offset", minimum=None)
        if shape is not None and len(offset) != len(shape):
            raise MetadataError(
                f"offset: must have a number for each of {len(shape)} dimensions, not {len(offset)}"
            )
        return cls(offset)

    def facts(self, array: str) -> Mapping[str, Any]:
        """The origin."""
        return {"origin": list(self.offset)}


@dataclass(frozen=True, slots=True)
class ArrayStatistics(GenericExtension):
    """The range of the values in the array (ZEP 10, Statistics)."""

    name: ClassVar[str] = "example.array-statistics"
    node_types: ClassVar[frozenset[NodeType]] = _ARRAY
    min: float
    max: float

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Self:
        """See the base class: two numbers, `min` at most `max`."""
        refuse_unknown(configuration, {"min", "max"})
        low, high = (_take_number(configuration, member) for member in ("min", "max"))
        if low > high:
            raise MetadataError(f"min: must be at most max, {shown(high)}, not {shown(low)}")
        return cls(low, high)

    def facts(self, array: str) -> Mapping[str, Any]:
        """The range."""
        return {"statistics": {"min": self.min, "max": self.max}}


@dataclass(frozen=True, slots=True)
class SkipEmptyChunks(GenericExtension):
    """Chunks with only the fill value are not written (ZEP 10, Skip empty chunks)."""

    name: ClassVar[str] = "example.skip_empty_chunks"
    node_types: ClassVar[frozenset[NodeType]] = _ARRAY

    def facts(self, array: str) -> Mapping[str, Any]:
        """The option of zarr-python."""
        return {"write_empty_chunks": False}


@dataclass(frozen=True, slots=True)
class MultiscaleArrays(GenericExtension):
    """The arrays below the group that form a pyramid, in order (ZEP 10, Multiscale arrays)."""

    name: ClassVar[str] = "example.multiscale-arrays"
    node_types: ClassVar[frozenset[NodeType]] = _GROUP
    datasets: tuple[str, ...]

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Self:
        """See the base class: one or more paths of arrays below the group."""
        refuse_unknown(configuration, {"multiscale"})
        multiscale = take_object(_required(configuration, "multiscale"), "multiscale")
        refuse_unknown(multiscale, {"datasets"}, "multiscale")
        if "datasets" not in multiscale:
            raise MetadataError("multiscale: datasets: is missing")
        return cls(take_paths_below(multiscale["datasets"], "multiscale: datasets"))

    def facts(self, array: str) -> Mapping[str, Any]:
        """The paths of the arrays, relative to the node `array`, if that is below the group."""
        if ".." in array.split("/"):  # the path back needs the names of both nodes
            return {}
        return {"multiscale": [relative(path, array) for path in self.datasets]}


@dataclass(frozen=True, slots=True)
class TieredStorage(GenericExtension):
    """Arrays below the group that are slow or costly to read (ZEP 10, Tiered storage)."""

    name: ClassVar[str] = "example.tiered-storage"
    node_types: ClassVar[frozenset[NodeType]] = _GROUP
    inherited: ClassVar[bool] = True
    slow_arrays: frozenset[str]

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Self:
        """See the base class: one or more paths of arrays below the group."""
        refuse_unknown(configuration, {"slow-arrays"})
        paths = take_paths_below(_required(configuration, "slow-arrays"), "slow-arrays")
        return cls(frozenset(paths))

    def tier(self, array: str) -> str | None:
        """`slow` for an array that should not be read without need, else None."""
        return "slow" if array in self.slow_arrays else None

    def opening(self, array: str, key: str) -> str | None:
        """A warning for a slow array."""
        if self.tier(array) is None:
            return None
        return f"is on slow storage, as {self.name} says: reading it may take long, or cost money"

    def facts(self, array: str) -> Mapping[str, Any]:
        """`tier`, for the arrays that are slow."""
        tier = self.tier(array)
        return {} if tier is None else {"tier": tier}


@dataclass(frozen=True, slots=True)
class ParentReference(GenericExtension):
    """Applies the inherited extensions of another node to this one (ZEP 10, Application to sub-nodes).

    It does nothing itself: `references` replaces it by those extensions.
    """

    name: ClassVar[str] = "example.parent-ref"
    aliases: ClassVar[tuple[str, ...]] = ("https://zarr.dev/extensions/parent-ref",)
    reference: str

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Self:
        """See the base class: the relative path of the other node."""
        refuse_unknown(configuration, {"reference"})
        return cls(take_reference(_required(configuration, "reference"), "reference"))


BUILT_IN: tuple[type[GenericExtension], ...] = (
    Offset,
    ArrayStatistics,
    SkipEmptyChunks,
    MultiscaleArrays,
    TieredStorage,
    ParentReference,
)


def _required(configuration: Mapping[str, Any], member: str) -> Any:
    if member not in configuration:
        raise MetadataError(f"{member}: is missing")
    return configuration[member]


def _take_number(configuration: Mapping[str, Any], member: str) -> float:
    value = _required(configuration, member)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise MetadataError(f"{member}: must be a number, not {shown(value)}")
    return value
