"""Scripts of the repository that are in no package, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def module_of(path: Path) -> ModuleType:
    """The module that a script is."""
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module
