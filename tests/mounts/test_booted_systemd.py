"""The units do what they say under a real manager of systemd, of the system and of a user."""

import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zarr
from booted_systemd import booted
from builders.mounts import COMMAND, wait_for

UNIT = "zarrfuse@cells"
EXAMPLES = Path(__file__).parents[2] / "systemd/examples"


@pytest.mark.parametrize(("kind", "view"), [("system", "images"), ("user", "raw")])
def test_a_service_lives_through_reload_hang_and_kill(tmp_path: Path, kind: str, view: str) -> None:
    zarr.create_group(tmp_path / "store").create_array("a", data=np.arange(6))
    (tmp_path / "mnt").mkdir()
    (tmp_path / "local.conf").write_text(
        "[Service]\nWatchdogSec=2\nTimeoutAbortSec=0.1\nRestartSec=0.1\n"
    )
    config = tmp_path / "cells.toml"
    config.write_text(
        f'source = "{tmp_path}/store"\nmountpoint = "{tmp_path}/mnt"\nview = "{view}"\n'
        f'log_file = "{tmp_path}/log"\n'
    )
    with booted(tmp_path, kind) as manager:
        point = Path(f"{manager.root}{tmp_path}/mnt")

        def is_mounted_by_another(process: str) -> bool:
            shown = manager.shown(UNIT)
            return shown["ActiveState"] == "active" and shown["MainPID"] not in ("0", process)

        started = manager.systemctl("start", UNIT)
        assert started.returncode == 0, (started.stderr, (tmp_path / "log").read_text())
        if view == "images":  # in another process, which the sandbox has to permit
            assert np.load(point / "a/a.npy").tolist() == [0, 1, 2, 3, 4, 5]
        shown = manager.shown(UNIT)
        status = Path(f"{manager.root}/proc/{shown['MainPID']}/status").read_text()
        assert ("Seccomp:\t2\n" in status) == (kind == "system")
        assert shown["StatusText"] == f"{tmp_path}/store is mounted on {tmp_path}/mnt"

        config.write_text(f"{config.read_text()}verbose = true\n")
        assert manager.systemctl("reload", UNIT).returncode == 0
        wait_for(lambda: "SIGHUP: reloaded" in (tmp_path / "log").read_text())
        assert "DEBUG" in (tmp_path / "log").read_text()

        for number in (signal.SIGSTOP, signal.SIGKILL):  # for the watchdog, and for Restart=
            process = manager.shown(UNIT)["MainPID"]
            manager.kill(UNIT, number)
            wait_for(lambda process=process: is_mounted_by_another(process))
            assert (point / "a/zarr.json").is_file()

        assert manager.systemctl("stop", UNIT).returncode == 0
        assert manager.shown(UNIT)["Result"] == "success"
        assert list(point.iterdir()) == []
    assert list((tmp_path / "mnt").iterdir()) == []


@pytest.mark.skipif(not Path("/dev/autofs").exists(), reason="the kernel has no autofs")
def test_the_automount_of_the_examples_mounts_when_somebody_looks(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "store")
    for name in ("mnt", "sbin"):
        (tmp_path / name).mkdir()
    program = Path(COMMAND[0]).with_name("mount.zarrfuse")
    (tmp_path / "sbin/mount.zarrfuse").symlink_to(program)
    (tmp_path / "local.conf").touch()
    mountpoint = str(tmp_path / "mnt")
    name = subprocess.check_output(["systemd-escape", "--path", mountpoint], text=True).strip()
    with booted(tmp_path, "system") as manager:
        for kind in ("mount", "automount"):
            text = (EXAMPLES / f"mnt-cells.{kind}").read_text().replace("/mnt/cells", mountpoint)
            unit = Path(f"{manager.root}/etc/systemd/system/{name}.{kind}")
            unit.write_text(text.replace("/srv/cells.zarr", str(tmp_path / "store")))
        manager.run("mount", "--bind", tmp_path / "sbin", "/usr/sbin")
        manager.systemctl("daemon-reload")
        assert manager.systemctl("start", f"{name}.automount").returncode == 0
        assert manager.shown(f"{name}.mount")["ActiveState"] == "inactive"
        assert manager.run("ls", mountpoint).stdout == "zarr.json\n"
        assert manager.shown(f"{name}.mount")["ActiveState"] == "active"
        assert manager.systemctl("stop", f"{name}.automount", f"{name}.mount").returncode == 0
        assert manager.run("ls", mountpoint).stdout == ""
