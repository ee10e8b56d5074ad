"""Daemons that are treated badly: the command that serves a fake store, and errors told apart."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
