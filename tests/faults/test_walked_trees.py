"""Programs that look at all files of a mount of all views: they end, find all, and leave nothing."""

import os
import subprocess
from pathlib import Path

from builders.mounts import drop_caches, serving, wait_for

from zarrfuse.cli.demo_dataset import write_demo

VIEWS = ("raw", "chunks", "plain", "images")
MOST_MIB = 600


def test_programs_walk_all_views(tmp_path: Path):
    source = tmp_path / "demo"
    write_demo(source)
    with serving(tmp_path, source, "--view", "all") as daemon:
        for command in ("find . -type f", "du -a .", "grep -r -c ^ ."):
            done = subprocess.run(
                command.split(), cwd=daemon.mountpoint, capture_output=True, timeout=60, check=False
            )
            assert not done.stderr, command
            assert done.returncode == 0, command
            for view in VIEWS:
                assert f"./{view}/cells.zarr/zstd/zarr.json" in done.stdout.decode(), command
        assert daemon.status()["errors"] == {}
        assert daemon.peak_mib() < MOST_MIB

        def forgotten() -> bool:
            drop_caches()
            return daemon.status()["kernel_lookups"] <= 2

        if os.geteuid() == 0:
            wait_for(forgotten)
