"""Environments of Python in which libraries are missing or broken. Used by `test_doctor`."""

import importlib.metadata
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from builders.mounts import ENVIRONMENT


class Environment:
    """A virtual environment with the libraries of this one, each of which can be taken away."""

    def __init__(self, prefix: Path, without: Iterable[str]) -> None:
        venv.create(prefix, symlinks=True)
        self.python = prefix / "bin/python"
        [self._site] = prefix.glob("lib/python3.*/site-packages")
        [here] = Path(sys.prefix).glob("lib/python3.*/site-packages")
        for each in here.iterdir():
            (self._site / each.name).symlink_to(each)
        for name in without:
            self._take(name)

    def _take(self, name: str) -> dict[Path, Path]:
        """Remove a package; its places, and what was there."""
        files = importlib.metadata.distribution(name).files or ()
        names = {file.parts[0] for file in files} - {"..", "__pycache__"}
        taken = {self._site / each: (self._site / each).readlink() for each in names}
        for place in taken:
            place.unlink()
        return taken

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """A block in which a package is not installed."""
        taken = self._take(name)
        yield
        for place, target in taken.items():
            place.symlink_to(target)

    @contextmanager
    def broken(self, *names: str, error: str = "ImportError") -> Iterator[None]:
        """A block in which packages are installed, but importing them raises an error."""
        places = []
        for name in names:
            module = self._site / name.replace("-", "_")
            dist_info = self._site / f"{module.name}-1.dist-info"
            places += [module, dist_info]
            module.mkdir()
            (module / "__init__.py").write_text(f"raise {error}('libx.so: no such file')\n")
            dist_info.mkdir()
            (dist_info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
            )
        yield
        for place in places:
            shutil.rmtree(place)

    def zarrfuse(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, "-m", "zarrfuse", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env=ENVIRONMENT,
            timeout=60,
        )
