"""What is done to daemons that are treated badly: fake stores, broken documents, errors told apart."""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builders.documents import document
from builders.mounts import Daemon, serving

__all__ = ["Daemon", "array", "errno_when", "fake", "in_parts", "serving", "write"]

array = functools.partial(document, shape=(8, 8))
"""Metadata of an array of 4 by 4 chunks, with other members in place of its own."""


def fake(**spec: Any) -> tuple[str, ...]:
    """The command that serves a fake store."""
    return (sys.executable, str(Path(__file__).with_name("serve_fake.py")), json.dumps(spec))


def errno_when(function: Callable[[], object]) -> int:
    """The errno that a system call fails with; 0 if it does not."""
    try:
        function()
    except OSError as error:
        return error.errno or 0
    return 0


def in_parts(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    """Storage transformers of an array whose chunks are stored in parts."""
    return [{"name": "concat-parts", "configuration": {"parts": list(parts)}}]


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files below a folder."""
    for key, data in files.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
