"""Generic extensions in a real mount: those of ZEP 10, the one of `docs/extensions.md`, faulty ones."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, group
from builders.folders import write_keys
from builders.mounts import Daemon, getfattr, info, mounting, wait_for, zarrfuse
from builders.pages import blocks

Mounted = Callable[..., Path]
Served = Callable[..., Daemon]
Stored = Callable[..., Path]

_NO_INDEX = re.compile(r"No module named pip|No matching distribution found for setuptools")

OFFSET = {"name": "example.offset", "configuration": {"offset": [12, 24]}}
STATISTICS = {"name": "example.array-statistics", "configuration": {"min": 5, "max": 1023}}
SLOW = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["slow", "ref"]}}
PYRAMID = {
    "name": "example.multiscale-arrays",
    "configuration": {"multiscale": {"datasets": ["slow", "fast"]}},
}
PARENT = {"name": "example.parent-ref", "configuration": {"reference": ".."}}

KEYS = {
    "zarr.json": group(extensions=[SLOW, PYRAMID]),
    "slow/zarr.json": array(extensions=[OFFSET, STATISTICS]),
    "slow/c/0/0": b"slow",
    "slow/c/0/1": b"more",
    "fast/zarr.json": array(),
    "fast/c/0/0": b"fast",
    "ref/zarr.json": array(extensions=[PARENT]),
    "ref/c/0/0": b"refs",
    "out/zarr.json": array(extensions=[{**PARENT, "configuration": {"reference": "../.."}}]),
    "out/c/0/0": b"outs",
    "context/zarr.json": array(
        **{
            "@context": {"e": "https://zarr.dev/v3/extensions/", "z": "https://zarr.dev/v3/codecs/"}
        },
        extensions=[{**OFFSET, "name": "e:example.offset"}],
        codecs=["z:bytes"],
    ),
    "context/c/0/0": b"text",
}


@pytest.fixture(scope="module")
def point(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mount of `KEYS` with attributes, for all tests that only look at it."""
    base = tmp_path_factory.mktemp("extended")
    write_keys(base / "store", KEYS)
    with mounting(base / "store", base / "mnt", "--xattrs") as point:
        yield point


# -- the examples of ZEP 10


@pytest.mark.parametrize("path", ["slow/zarr.json", "slow/c/0/0"])
def test_control_files_tell_of_an_array_and_its_chunks(point: Path, path: str) -> None:
    found = info(point, path)
    assert found["origin"] == [12, 24]
    assert found["statistics"] == {"min": 5, "max": 1023}
    assert found["tier"] == "slow"


@pytest.mark.parametrize("path", ["slow", "slow/zarr.json", "slow/c/0/0"])
def test_attributes_tell_the_same(point: Path, path: str) -> None:
    found = getfattr(point / path)
    assert json.loads(found["user.zarr.origin"]) == [12, 24]
    assert json.loads(found["user.zarr.statistics"]) == {"min": 5, "max": 1023}
    assert found["user.zarr.tier"] == "slow"


def test_a_group_tells_of_its_pyramid(point: Path) -> None:
    assert info(point, "zarr.json")["multiscale"] == ["slow", "fast"]
    assert json.loads(getfattr(point)["user.zarr.multiscale"]) == ["slow", "fast"]


def test_what_is_not_slow_has_no_tier(point: Path) -> None:
    assert "tier" not in info(point, "fast/zarr.json")
    assert "user.zarr.tier" not in getfattr(point / "fast")


def test_a_reference_upward_is_followed_and_one_out_of_the_source_refused(point: Path) -> None:
    assert info(point, "ref/zarr.json")["tier"] == "slow"
    assert "'../..' leads out of the store" in info(point, "out/zarr.json")["error"]
    with pytest.raises(OSError) as refused:
        (point / "out/c/0/0").read_bytes()
    assert refused.value.errno == errno.ENOTSUP


def test_a_context_is_resolved(point: Path) -> None:
    found = info(point, "context/zarr.json")
    assert found["origin"] == [12, 24]
    assert found["codecs"] == [{"name": "bytes"}]
    assert (point / "context/c/0/0").read_bytes() == b"text"


def test_info_shows_what_extensions_tell(point: Path) -> None:
    assert "origin" in zarrfuse("info", point / "slow/c/0/0").stdout
    found = json.loads(zarrfuse("info", "--json", point).stdout)["nodes"]
    assert [node.get("tier") for node in found if node["path"] in ("slow", "fast")] == [
        None,
        "slow",
    ]


def test_the_first_open_of_a_slow_array_is_logged_once(stored: Stored, served: Served) -> None:
    daemon = served(stored(KEYS), "--cache-ttl", "0")
    for _ in range(3):
        for path in ("fast/c/0/0", "slow/c/0/0", "slow/c/0/1", "ref/c/0/0"):
            (daemon.mountpoint / path).read_bytes()
    lines = [line for line in daemon.text().splitlines() if "is on slow storage" in line]
    assert len(lines) == 2
    for line, path in zip(lines, ("slow", "ref"), strict=True):
        assert f"{path} is on slow storage, as example.tiered-storage says" in line


def test_nothing_is_logged_of_an_array_that_is_only_looked_at(
    stored: Stored, served: Served
) -> None:
    daemon = served(stored(KEYS))
    for path in ("slow", "slow/zarr.json", "slow/c/0", "slow/c/0/0"):
        os.stat(daemon.mountpoint / path)
    (daemon.mountpoint / "slow/zarr.json").read_bytes()
    assert "slow storage" not in daemon.text()


# -- the package of the page


@pytest.fixture(scope="module")
def embargo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package of `docs/extensions.md`."""
    base = tmp_path_factory.mktemp("package")
    [project] = blocks("docs/extensions.md", "toml")
    [module] = blocks("docs/extensions.md", "python")
    files = {"pyproject.toml": project.text, "zarrfuse_embargo.py": module.text}
    write_keys(base / "embargo", {name: text.encode() for name, text in files.items()})
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--target", base / "installed", base / "embargo"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    if done.returncode and _NO_INDEX.search(done.stderr):
        pytest.skip(f"nothing can be built without a package index: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return base / "installed"


def embargoed(until: object, name: str = "https://example.com/zarr/embargo") -> dict[str, Any]:
    return {"name": name, "configuration": {"until": until}}


EMBARGOED = {
    "zarr.json": group(),
    "later/zarr.json": group(extensions=[embargoed("2999-12-31")]),
    "later/a/zarr.json": array(),
    "later/a/c/0/0": b"data",
    "past/zarr.json": array(extensions=[embargoed("1999-12-31", "example.embargo")]),
    "past/c/0/0": b"data",
    "wrong/zarr.json": array(extensions=[embargoed("tomorrow")]),
    "wrong/c/0/0": b"data",
}


def test_the_package_of_the_page_acts_in_a_mount(
    embargo: Path, stored: Stored, mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(embargo))
    point = mounted(stored(EMBARGOED), "--xattrs")
    assert (point / "past/c/0/0").read_bytes() == b"data"
    with pytest.raises(PermissionError):
        (point / "later/a/c/0/0").read_bytes()
    assert info(point, "later/a/c/0/0")["embargo"] == "2999-12-31"
    assert getfattr(point / "past")["user.zarr.embargo"] == "1999-12-31"
    assert info(point, "wrong/zarr.json")["error"] == (
        "wrong/zarr.json: extensions[0]: https://example.com/zarr/embargo: "
        "until: must be a date such as 2030-12-31"
    )
    with pytest.raises(OSError) as refused:
        (point / "wrong/c/0/0").read_bytes()
    assert refused.value.errno == errno.ENOTSUP


def test_the_package_of_the_page_acts_in_info(
    embargo: Path, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = stored(EMBARGOED)
    without = {node["path"]: node for node in nodes_of(source)}
    assert "'example.embargo' is not known here" in without["past"]["error"]
    monkeypatch.setenv("PYTHONPATH", str(embargo))
    found = {node["path"]: node for node in nodes_of(source)}
    assert found["past"]["embargo"] == "1999-12-31"
    assert found["later/a"]["embargo"] == "2999-12-31"


def nodes_of(source: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(zarrfuse("info", "--json", source).stdout)["nodes"]
    return found


# -- faulty packages


FAULTY = """
import os
import time

from zarrfuse.errors import TimedOut
from zarrfuse.spec.extensions import GenericExtension

class Faulty(GenericExtension):
    name = "test.faulty"
    faults = {
        "value": ValueError("no such value"),
        "exit": SystemExit("the end"),
        "missing": FileNotFoundError(2, "not of the store"),
        "ours": TimedOut("the robot did not answer"),
    }

    def __init__(self, fault):
        self.fault = fault

    @classmethod
    def from_configuration(cls, configuration, shape):
        if configuration["fault"] == "configuration":
            raise SystemExit("from here, too")
        return cls(configuration["fault"])

    def opening(self, array, key):
        if self.fault in self.faults:
            raise self.faults[self.fault]
        if self.fault == "hangs":
            open(os.environ["GATE"] + ".waiting", "w").close()
            while not os.path.exists(os.environ["GATE"]):
                time.sleep(0.01)

    def facts(self, array):
        return {"shape": "hidden"} if self.fault == "facts" else {"fault": self.fault}
"""


def faulty(fault: str) -> bytes:
    return array(extensions=[{"name": "test.faulty", "configuration": {"fault": fault}}])


@pytest.fixture
def with_faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is started finds a package that fails, laid out as installers do."""
    folder = tmp_path / "installed"
    points = "[zarrfuse.extensions]\ntest.faulty = faulty:Faulty\ntest.absent = nowhere:Class\n"
    write_keys(
        folder,
        {
            "faulty.py": FAULTY.encode(),
            "faulty-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n",
            "faulty-1.0.dist-info/entry_points.txt": points.encode(),
        },
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.usefixtures("with_faulty")
def test_an_extension_that_fails_gives_an_errno_and_the_mount_lives(
    stored: Stored, served: Served
) -> None:
    expected = {
        "value": errno.EIO,
        "exit": errno.EIO,
        "missing": errno.EIO,
        "ours": errno.ETIMEDOUT,
        "configuration": errno.ENOTSUP,
    }
    keys = {"zarr.json": group(), "fine/zarr.json": array(), "fine/c/0/0": b"fine"}
    for fault in (*expected, "facts"):
        keys |= {f"{fault}/zarr.json": faulty(fault), f"{fault}/c/0/0": b"data"}
    daemon = served(stored(keys))
    for fault, code in expected.items():
        for _ in range(2):
            with pytest.raises(OSError) as failed:
                (daemon.mountpoint / fault / "c/0/0").read_bytes()
            assert failed.value.errno == code, fault
        assert (daemon.mountpoint / "fine/c/0/0").read_bytes() == b"fine"
    assert (daemon.mountpoint / "facts/c/0/0").read_bytes() == b"data"
    found = info(daemon.mountpoint, "facts/zarr.json")
    assert found["shape"] == [4, 4]
    assert "shape has a meaning already" in found["extension_errors"][0]
    log = daemon.text()
    fault = "RuntimeError: the extension test.faulty of value fails: ValueError: no such value"
    assert log.count(f"{fault}\n") == 1, "the traceback, once"
    assert "'test.faulty' is installed but fails: SystemExit: from here, too" in log


@pytest.mark.usefixtures("with_faulty")
def test_an_extension_that_does_not_come_back_keeps_nobody_else_waiting(
    tmp_path: Path, stored: Stored, mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("GATE", str(gate))
    keys = {"a/zarr.json": faulty("hangs"), "a/c/0/0": b"data", "file": b"other"}
    point = mounted(stored(keys))
    os.stat(point / "a/c/0/0")
    reader = subprocess.Popen(["cat", point / "a/c/0/0"], stdout=subprocess.PIPE)
    try:
        wait_for((tmp_path / "gate.waiting").exists)
        other = subprocess.run(["cat", point / "file"], check=True, capture_output=True, timeout=10)
        assert other.stdout == b"other"
        assert reader.poll() is None
    finally:
        gate.touch()
    assert reader.communicate(timeout=20)[0] == b"data"


@pytest.mark.usefixtures("with_faulty")
def test_a_package_that_cannot_be_loaded_harms_only_who_names_it(
    stored: Stored, mounted: Mounted
) -> None:
    point = mounted(
        stored(
            {
                "zarr.json": group(extensions=[{"name": "nobody", "must_understand": False}]),
                "absent/zarr.json": array(extensions=["test.absent"]),
                "value/zarr.json": faulty("none"),
                "value/c/0/0": b"data",
            }
        )
    )
    assert info(point, "zarr.json")["ignored"] == ["nobody"]
    assert "'test.absent' is installed but fails: Mod" in info(point, "absent/zarr.json")["error"]
    assert (point / "value/c/0/0").read_bytes() == b"data"
    assert info(point, "value/zarr.json")["fault"] == "none"
