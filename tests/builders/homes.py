"""A home of its own for a test of what is written to the folders of a user."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.mounts import clear


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home without a screen. What is mounted in it is unmounted at the end."""
    home = tmp_path / "home"
    variables = {
        "HOME": home,
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_DATA_HOME": home / ".local/share",
        "XDG_CACHE_HOME": home / ".cache",
        "XDG_RUNTIME_DIR": home / "run",
    }
    (home / "run").mkdir(parents=True, mode=0o700)
    for name, path in variables.items():
        monkeypatch.setenv(name, os.fspath(path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_CONFIG_DIRS"):
        monkeypatch.delenv(name, raising=False)
    yield home
    clear(home)
