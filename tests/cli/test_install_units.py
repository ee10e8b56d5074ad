"""`zarrfuse install-units` writes units that run this zarrfuse, and keeps those that somebody changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders.mounts import COMMAND
from builders.namespaces import in_namespace

from zarrfuse.cli import install_units
from zarrfuse.errors import ZarrfuseError


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


def test_an_older_unit_that_nobody_changed_is_replaced(tmp_path: Path) -> None:
    """As after an upgrade, or when the environment was moved."""
    unit = tmp_path / "etc/zarrfuse@.service"
    assert run(tmp_path, '"$@" install-units').returncode == 0
    written = unit.read_bytes()
    older = b"\n".join(line for line in written.split(b"\n") if not line.startswith(b"Watchdog"))
    unit.write_bytes(install_units.signed(older.partition(b"\n")[2]))
    done = run(tmp_path, '"$@" install-units')
    assert done.returncode == 0, done.stderr
    assert unit.read_bytes() == written
    assert unit.stat().st_mode & 0o777 == 0o644


def test_a_line_of_the_administrator_is_kept(tmp_path: Path) -> None:
    unit = tmp_path / "etc/zarrfuse@.service"
    assert run(tmp_path, '"$@" install-units').returncode == 0
    changed = unit.read_bytes() + b"Environment=NAME=\xff\n"
    unit.write_bytes(changed)
    done = run(tmp_path, '"$@" install-units')
    assert done.returncode == 1
    assert "/etc/systemd/system/zarrfuse@.service exists with other lines" in done.stderr
    assert unit.read_bytes() == changed


def test_a_program_in_a_folder_with_spaces_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "my $50 %i/zarrfuse"
    program.parent.mkdir(parents=True)
    program.symlink_to("/bin/true")
    monkeypatch.setattr(install_units, "program", lambda: program)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    install_units.install_units(user=True)
    unit = tmp_path / "systemd/user/zarrfuse@.service"
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        timeout=60,
    )
    assert "zarrfuse@" not in done.stderr
    assert f'ExecStop=-"{tmp_path}/my $50 %%i/zarrfuse" unmount ' in unit.read_text()


def test_a_program_that_no_unit_can_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_units, "program", lambda: Path("/opt/a\\b/zarrfuse"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(ZarrfuseError, match="can't be named in units"):
        install_units.install_units(user=True)
    assert os.listdir(tmp_path) == []
