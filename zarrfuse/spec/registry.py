"""Finds the class of an extension by name: a built-in one, or one of an installed plug-in.

Owns the lookup by name and alias for every extension point that takes plug-ins: chunk key encodings,
storage transformers and generic extensions. A plug-in that fails is an error of the metadata that name it,
never the end of the program. It must not know what the classes do.
"""

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from zarrfuse.errors import MetadataError, text_of
from zarrfuse.spec.members import shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PlugInError(MetadataError):
    """A plug-in fails; the metadata that name it may be right."""


class _Named(Protocol):
    """A class with a name; it may also have `aliases`, a tuple of other names."""

    name: ClassVar[str]


K = TypeVar("K", bound=_Named)
T = TypeVar("T")


class Registry(Generic[K]):
    """The classes of one extension point, by name and alias.

    Aliases are needed where a URI later became a raw name, or the reverse (ZEP 9, Phase 3). `find` tries
    in this order: the built-in classes, which plug-ins cannot replace; the entry point of that name in
    `group`; all installed classes with that name or alias. Only a name that is not built in costs an
    import of `importlib.metadata`, and only one without an entry point loads all plug-ins, once.

    Plug-ins must be subclasses of `base`.
    """

    def __init__(
        self, group: str, built_in: Iterable[type[K]], base: type[object] = object
    ) -> None:
        self.group = group
        self._built_in = {name: cls for cls in built_in for name in _names(cls)}
        self._base = base
        self._points: dict[str, EntryPoint] | None = None
        self._by_alias: dict[str, list[tuple[str, type[K]]]] | None = None
        self._failing: list[str] = []
        self._lock = threading.RLock()

    def find(self, name: str) -> type[K] | None:
        """The class with this name or alias, or None.

        Raises `PlugInError`, a clause with the name, if the plug-in fails to load, or if several have the
        name as an alias.
        """
        found = self._built_in.get(name)
        if found is not None:
            return found
        with self._lock:
            points = self._entry_points()
            if name in points:
                return foreign(name, lambda: self._load(points[name]))
            claims = self._aliases().get(name, [])
        if len({cls for _, cls in claims}) > 1:
            both = " and ".join(point for point, _ in claims)
            raise PlugInError(f"{shown(name)} is an alias of several plug-ins: {both}")
        return claims[0][1] if claims else None

    def unknown(self, name: str) -> str:
        """A clause that `name` is not known, with the plug-ins that failed to load."""
        clause = f"{shown(name)} is not known here"
        with self._lock:
            failing = ", ".join(map(shown, self._failing))
        return f"{clause}; installed but failing: {failing}" if failing else clause

    def forget(self) -> None:
        """Forget the plug-ins, so that the next lookup finds newly installed ones."""
        with self._lock:
            self._points = self._by_alias = None
            self._failing = []

    def _entry_points(self) -> "dict[str, EntryPoint]":
        if self._points is None:
            from importlib.metadata import entry_points  # noqa: PLC0415

            # Of two with the same name, that of the package first on the import path.
            points: dict[str, EntryPoint] = {}
            for point in entry_points(group=self.group):
                points.setdefault(point.name, point)
            self._points = points
        return self._points

    def _aliases(self) -> dict[str, list[tuple[str, type[K]]]]:
        if self._by_alias is None:
            found: dict[str, list[tuple[str, type[K]]]] = {}
            for name, point in sorted(self._entry_points().items()):
                try:
                    cls, names = foreign(name, lambda point=point: self._with_names(point))  # type: ignore[misc]
                except PlugInError:
                    self._failing.append(name)  # the reason is in the error for its own name
                    continue
                for alias in names:
                    found.setdefault(alias, []).append((name, cls))
            self._by_alias = found
        return self._by_alias

    def _load(self, point: "EntryPoint") -> type[K]:
        loaded: type[K] = point.load()
        if not issubclass(loaded, self._base):
            raise TypeError(f"{point.value} is not a {self._base.__name__}")
        return loaded

    def _with_names(self, point: "EntryPoint") -> tuple[type[K], tuple[str, ...]]:
        loaded = self._load(point)
        return loaded, _names(loaded)


def foreign(name: str, call: Callable[[], T]) -> T:
    """The result of `call`, which runs code of the plug-in `name`.

    A `MetadataError` passes. Any other exception becomes a `PlugInError`, a clause with the name, so that a
    broken plug-in makes one node unreadable and does not end the mount.
    """
    try:
        try:
            return call()
        except MetadataError as error:
            str(error)  # fails here rather than in a message, if it fails
            raise
    except (MetadataError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a module may call sys.exit, and one in Rust panics
        raise PlugInError(f"{shown(name)} is installed but fails: {text_of(error)}") from error


def _names(cls: type[K]) -> tuple[str, ...]:
    aliases: tuple[str, ...] = getattr(cls, "aliases", ())
    if isinstance(aliases, str):
        raise TypeError(f"aliases: must be several names, not {shown(aliases)}")
    return (cls.name, *aliases)
