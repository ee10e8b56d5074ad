"""anndata, mudata and spatialdata read the same from a mount, and by `open_store`, as from the store.

They write and read in one process, in an environment of their own: `scverse/write_and_read.py`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.mounts import clear, zarrfuse

PYTHON = Path(sys.prefix, "scverse", "bin", "python")
"""`.ci/setup test` makes this environment."""
SCRIPT = Path(__file__).parent / "scverse" / "write_and_read.py"

KEPT = ("mudata v2", "records v2", "spatialdata 0.1")
"""Stores with an array of records, for which Zarr v3 has no word."""
STORES = (*KEPT, "anndata v2", "anndata v3", "mudata v3", "spatialdata 0.2")

pytestmark = pytest.mark.timeout(400)  # importing these packages alone takes 10 s of two cores


@pytest.fixture(scope="module")
def point(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the folder of stores is mounted, which is empty at first."""
    folder = tmp_path_factory.mktemp("scverse")
    for name in ("stores", "mnt"):
        (folder / name).mkdir()
    zarrfuse("mount", folder / "stores", folder / "mnt", "--view", "plain")
    yield folder / "mnt"
    done = zarrfuse("unmount", folder / "mnt", check=False)
    clear(folder / "mnt")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def found(point: Path) -> dict[str, dict[str, Any]]:
    """What was read, by store and way."""
    assert PYTHON.exists(), "run .ci/setup test"
    done = subprocess.run(
        [PYTHON, SCRIPT, point.parent / "stores", point],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("store", STORES)
def test_what_is_read_is_the_same(found: dict[str, dict[str, Any]], store: str) -> None:
    read = found[f"{store}.zarr"]
    assert isinstance(read["direct"], dict), read["direct"]
    assert read["mount"] == read["direct"]
    assert read["open_store"] == read.get("arrays", read["direct"])
    assert read.get("arrays mount") == read.get("arrays")


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("store", STORES)
def test_a_store_is_shown_whole_in_one_format(point: Path, store: str) -> None:
    names = {path.name for path in (point / f"{store}.zarr").rglob("*")}
    if store in KEPT:
        assert names >= {".zgroup", ".zarray", ".zattrs"}
        assert "zarr.json" not in names
    else:
        assert "zarr.json" in names
        assert names.isdisjoint({".zgroup", ".zarray", ".zattrs", ".zmetadata"})
