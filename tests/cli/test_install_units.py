"""`zarrfuse install-units` writes units that run this zarrfuse, and keeps those that somebody changed."""

import os
import subprocess
import sys
from pathlib import Path

from builders.mounts import COMMAND
from builders.namespaces import in_namespace


def run(home: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a namespace of mounts, with an empty /etc/systemd/system."""
    (home / "etc").mkdir(exist_ok=True)
    return in_namespace(
        f'mkdir -p /etc/systemd/system; mount --bind "$1" /etc/systemd/system; shift; {script}',
        *(home / "etc", *COMMAND),
        variables={"HOME": home, "XDG_CONFIG_HOME": home / ".config"},
    )


def test_units_of_the_system_and_of_a_user(tmp_path: Path) -> None:
    done = run(tmp_path, '"$@" install-units; "$@" install-units; "$@" install-units --user')
    assert done.returncode == 0, done.stderr
    program = Path(sys.executable).with_name("zarrfuse")
    for folder in ("etc", ".config/systemd/user"):
        assert os.listdir(tmp_path / folder) == ["zarrfuse@.service"]
        text = (tmp_path / folder / "zarrfuse@.service").read_text()
        assert f"ExecStart={program} mount --foreground --config %i" in text
        assert "/usr/bin/env" not in text
    assert "wrote /etc/systemd/system/zarrfuse@.service" in done.stderr
    assert "systemctl --user daemon-reload" in done.stderr


def test_a_unit_with_other_lines_is_kept(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/zarrfuse@.service").write_text("mine")
    done = run(tmp_path, '"$@" install-units')
    assert done.returncode == 1
    assert "/etc/systemd/system/zarrfuse@.service exists with other lines" in done.stderr
    assert (tmp_path / "etc/zarrfuse@.service").read_text() == "mine"
