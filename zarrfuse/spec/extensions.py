"""The base class of generic extensions, the entries of the member `extensions` (ZEP 10).

Third parties derive from it, in packages of their own, and name the class in the entry-point group
`zarrfuse.extensions`; `docs/extensions.md` has a complete example. `zep10` has the built-in ones. It must
not know which extensions exist, or the path of a node.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias

from zarrfuse.spec.members import refuse_unknown

NodeType: TypeAlias = Literal["array", "group"]


class GenericExtension:
    """An extension that may stand anywhere, takes no configuration and does nothing.

    Override what is needed. Instances are immutable, and are called from any thread. An exception of a
    method is caught and reported with the name of the extension.

    Where a method takes `array`, that is the path of the node it is about, relative to the node at
    which the configuration stands: `""` for that itself, `a/1` for one below, `../b` for one beside
    that refers to it.
    """

    name: ClassVar[str]
    """The name, raw or URI-based (ZEP 9); also the name of the entry point."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names that mean the same: earlier ones, or later ones."""
    node_types: ClassVar[frozenset[NodeType]] = frozenset({"array", "group"})
    """Where the configuration may stand."""
    inherited: ClassVar[bool] = False
    """Whether it also acts on nodes below, and on nodes that refer to this one as a whole."""
    by_reference: ClassVar[bool] = True
    """Whether the configuration `{"reference": "../.."}` means: what stands at that node."""

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Self:
        """The extension with this configuration (empty where the metadata has none).

        `shape` is that of the array it stands at, None at a group. Raises `MetadataError` that
        starts with the member of the configuration that is wrong. Members that are not known must
        be refused (ZEP 9, Versioning): `zarrfuse.spec.members.refuse_unknown`.
        """
        refuse_unknown(configuration, ())
        return cls()

    def interpret(self, node: Any) -> Any:
        """The `spec.node.Node` as all views are to take it, such as `dataclasses.replace(node, ...)`.

        Called once when a document is read that lists this extension or refers to it. Not called
        for a node that only lies below. Raises `MetadataError` if the node must not be loaded.
        """
        return node

    def opening(self, array: str, key: str) -> str | None:
        """Called before the chunk `key` (relative to its array) is opened; must be quick.

        The mount may call it twice for one open. What it returns is a warning, the end of a sentence
        that begins with the path of the array; it is logged once for each array. Raises an exception
        of `zarrfuse.errors` to refuse, and its errno is what the program gets; any other is EIO.
        """
        return None

    def facts(self, array: str) -> Mapping[str, Any]:
        """What control files, `zarrfuse info` and attributes show: JSON values by name.

        Not under a name that has a meaning already, such as `shape`.
        """
        return {}
