"""Entry points of packages that are not installed: classes of a test, found as installed ones are."""

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from zarrfuse.spec.active import EXTENSIONS
from zarrfuse.spec.chunk_keys import ENCODINGS
from zarrfuse.spec.transformers import TRANSFORMERS

Install = Callable[[str, Mapping[str, Any]], list[str]]


@contextmanager
def installing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Gives `install(group, {name: class or "module:name"})`, which returns the groups asked for."""
    points: dict[str, list[EntryPoint]] = {}
    asked: list[str] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return points.get(group, [])

    def install(group: str, classes: Mapping[str, Any]) -> list[str]:
        for name, cls in classes.items():
            value = cls if isinstance(cls, str) else f"{cls.__module__}:{cls.__qualname__}"
            points.setdefault(group, []).append(EntryPoint(name, value, group))
        return asked

    registries = (ENCODINGS, TRANSFORMERS, EXTENSIONS)
    with monkeypatch.context() as patched:
        patched.setattr(importlib.metadata, "entry_points", entry_points)
        for registry in registries:
            registry.forget()
        yield install
    for registry in registries:
        registry.forget()
