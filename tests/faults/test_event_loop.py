"""The event loop waits for no store: what is not at hand is asked for in a thread."""

import os
import subprocess
from pathlib import Path

import pytest
from builders.documents import (
    array,
    concat_parts,
    default_keys,
    group,
    suffix_keys,
    v2_array,
    v2_keys,
)
from builders.folders import write_keys as write
from builders.mounts import serving
from daemons import fake

SLOW = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["flat"]}}
PARENT = {"name": "example.parent-ref", "configuration": {"reference": ".."}}

KEYS = {
    "zarr.json": group(extensions=[SLOW]),
    "README.txt": b"text",
    "flat/zarr.json": array(keys=default_keys("."), transformers=[concat_parts("", ".end")]),
    **{f"flat/c.{row}.{column}": b"main" for row in range(2) for column in range(2)},
    **{f"flat/c.{row}.{column}.end": b"end" for row in range(2) for column in range(2)},
    "nested/zarr.json": array(keys=suffix_keys("/data.bin")),
    "nested/c/0/1/data.bin": b"data",
    "refers/zarr.json": array(extensions=[PARENT]),
    "refers/c/0/0": b"data",
    "scalar/zarr.json": array((), keys=v2_keys()),
    "scalar/0": b"0",
    "v2/.zgroup": b'{"zarr_format": 2}',
    "v2/a/.zarray": v2_array(separator="/"),
    "v2/a/.zattrs": b"{}",
    "v2/a/0/1": b"data",
    "v2/a/0/notes": b"text",
    "refused/zarr.json": array(unknown=1),
    "refused/c/0/0": b"data",
    "broken/zarr.json": b"{",
}


@pytest.mark.parametrize("view", ["raw", "chunks", "plain", "all"])
@pytest.mark.parametrize("ttl", ["0", "600"])
def test_no_view_lets_the_event_loop_wait_for_the_store(
    tmp_path: Path, view: str, ttl: str
) -> None:
    source = tmp_path / "source"
    write(source, KEYS)
    (source / "link").symlink_to("flat")
    (source / "v2/a/link").symlink_to("../../nested")
    (source / "out").symlink_to("/usr")
    waited = tmp_path / "source.waited"
    options = ("--view", view, "--cache-ttl", ttl, "--xattrs")
    with serving(tmp_path, source, *options, command=fake(store="watched")) as daemon:
        point = daemon.mountpoint
        waited.touch()
        for _ in range(2):  # the second time much is at hand
            for command in (
                ["ls", "-lR", point],
                ["grep", "-r", "nothing", point],
                ["grep", "-r", "nothing", point / ".zarrfuse"],
                ["stat", point / "nothing", point / "plain/flat/c/9"],
            ):
                subprocess.run(command, check=False, capture_output=True, timeout=60)
            for folder, folders, files in os.walk(point):
                for name in (*folders, *files):
                    os.listxattr(f"{folder}/{name}")
        assert daemon.status()["bytes_read"] > len(KEYS["flat/zarr.json"])
    assert waited.read_text() == ""
