"""Which class stands behind the name of an extension: ours, or one that is installed.

Owns the look-up by name and by alias that is the same at every extension point which others can add
to: chunk key encodings, storage transformers and generic extensions. It must not know what the
classes do, and nothing installed may end the program: what fails is told of where it is named.
"""

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from zarrfuse.errors import MetadataError, text_of
from zarrfuse.spec.members import shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PlugInError(MetadataError):
    """Something installed fails, which is no fault of the metadata that names it."""


class _Named(Protocol):
    """What a registered class has, besides `aliases`: other names of it, if it has any."""

    name: ClassVar[str]


K = TypeVar("K", bound=_Named)
T = TypeVar("T")


class Registry(Generic[K]):
    """The classes of one extension point, by all their names.

    A class has a `name` and may have `aliases`: a URI that later became a raw name, or the other way
    (ZEP 9, Phase 3). Ours are found first, and nobody can replace them; then the entry point of that
    name in `group`; then whatever installed class says that it has that name or alias. Only a name
    that is not ours costs an import of `importlib.metadata`, and only one that is no entry point
    loads all of them, once.

    What is installed must be a subclass of `base`, if there is one.
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
        """The class that `name` stands for, or None if nobody knows it.

        Raises `PlugInError`, a clause with the name, if it is installed and fails to load, or if
        several installed classes have it as an alias.
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
            raise PlugInError(f"{shown(name)} is an alias of several that are installed: {both}")
        return claims[0][1] if claims else None

    def unknown(self, name: str) -> str:
        """That nobody knows `name`, as a clause: with what is installed and could not be asked."""
        clause = f"{shown(name)} is not known here"
        with self._lock:
            failing = ", ".join(map(shown, self._failing))
        return f"{clause}; installed but failing: {failing}" if failing else clause

    def forget(self) -> None:
        """Look for installed classes anew: after something was installed."""
        with self._lock:
            self._points = self._by_alias = None
            self._failing = []

    def _entry_points(self) -> "dict[str, EntryPoint]":
        if self._points is None:
            from importlib.metadata import entry_points  # noqa: PLC0415

            # Of two with one name, that of the package which an import would find.
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
                    self._failing.append(name)  # why is told where it is named itself
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
    """`call()`, which is code that somebody else installed under `name`.

    Raises `MetadataError` as it is, and whatever else is raised as `PlugInError`, a clause with the
    name: metadata that names a broken plug-in is refused, and the mount lives.
    """
    try:
        try:
            return call()
        except MetadataError as error:
            str(error)  # it ends up in a sentence, and may fail to say what it is
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
