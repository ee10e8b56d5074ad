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
    """An extension of any node, without configuration or effect.

    Override what is needed. Instances are immutable, and are called from any thread. An exception of a
    method is caught and reported with the name of the extension.

    The argument `array` of a method is the path of the node on which the extension acts, relative to the
    node with the configuration: `""` for that node itself, `a/1` for one below, `../b` for one beside it
    that refers to it.
    """

    name: ClassVar[str]
    """The name, raw or URI-based (ZEP 9); also the name of the entry point."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names, earlier or later ones."""
    node_types: ClassVar[frozenset[NodeType]] = frozenset({"array", "group"})
    """The nodes that may list it."""
    inherited: ClassVar[bool] = False
    """Whether it also acts on nodes below, and on nodes with a `ParentReference` to this one."""
    by_reference: ClassVar[bool] = True
    """Whether the configuration `{"reference": "../.."}` takes the extension of that node."""

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Self:
        """The extension with this configuration, which is empty if the metadata have none.

        `shape`: that of the array, None for a group. Raises `MetadataError` that starts with the wrong
        member of the configuration. Unknown members must be refused (ZEP 9, Versioning):
        `zarrfuse.spec.members.refuse_unknown`.
        """
        refuse_unknown(configuration, ())
        return cls()

    def interpret(self, node: Any) -> Any:
        """The `spec.node.Node` for all views, such as `dataclasses.replace(node, ...)`.

        Called once for a document that lists this extension or refers to it, when it is parsed. Not called
        for nodes below, which inherit it. Raises `MetadataError` if the node must not be loaded.
        """
        return node

    def opening(self, array: str, key: str) -> str | None:
        """Called before the chunk `key` (relative to its array) is opened; must be quick.

        The mount may call it twice for one open. Returns a warning, the end of a sentence that begins with
        the path of the array, or None; it is logged once for each array. To refuse, raises an exception of
        `zarrfuse.errors`, whose errno the program gets; any other exception is EIO.
        """
        return None

    def facts(self, array: str) -> Mapping[str, Any]:
        """Facts for control files, `zarrfuse info` and extended attributes: JSON values by name.

        The name of a fact of zarrfuse, such as `shape`, is an error.
        """
        return {}
