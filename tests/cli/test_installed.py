"""Where the program and the shared files are, however zarrfuse was installed."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import zarrfuse
from zarrfuse.cli.installed import program, shared_folder

SHOWN = """
from zarrfuse.cli.installed import program, shared_folder
print(program(), shared_folder("systemd"))
"""


def test_in_an_environment_they_are_in_it() -> None:
    assert program() == Path(sys.executable).with_name("zarrfuse")
    assert shared_folder("systemd") == Path(sys.prefix, "share/zarrfuse/systemd")


def test_after_pip_install_user_they_are_those_of_the_user(tmp_path: Path) -> None:
    """Beside the Python that runs it, there is no program then."""
    variables = {"userbase": str(tmp_path)}
    site = Path(sysconfig.get_path("purelib", "posix_user", variables))
    site.mkdir(parents=True)
    (site / "zarrfuse").symlink_to(Path(zarrfuse.__file__).parent)
    (tmp_path / "share/zarrfuse/systemd").mkdir(parents=True)
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    shown = subprocess.run(
        [python, "-c", SHOWN],
        env={
            **os.environ,
            "PYTHONUSERBASE": str(tmp_path),
            "PYTHONPATH": sysconfig.get_path("purelib"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert shown.split() == [f"{tmp_path}/bin/zarrfuse", f"{tmp_path}/share/zarrfuse/systemd"]
