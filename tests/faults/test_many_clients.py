"""Many programs at once, while the kernel forgets names and files change: right bytes, no leaks."""

import os
import random
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_files
from builders.mounts import drop_caches, info, serving, status, wait_for

if os.geteuid() != 0:
    pytest.skip("only root may drop caches", allow_module_level=True)

CLIENTS = 32
ROUNDS = 15
CHUNKS = 40


def content(array_name: str, row: int, column: int) -> bytes:
    """The bytes of a chunk."""
    return random.Random(f"{array_name}/{row}/{column}").randbytes(20_000 + row * 1000 + column)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays with chunks of one part and of three."""
    folder = tmp_path_factory.mktemp("clients") / "source"
    parts = [concat_parts(".a", "", ".z")]
    shape = [CHUNKS * 2, 8]
    for name, transformers in (("plain", []), ("parts", parts)):
        document = array(transformers=transformers, shape=shape)
        write_files(folder, {f"group/{name}/zarr.json": document})
    for row in range(CHUNKS):
        for column in range(4):
            key = f"c/{row}/{column}"
            write_files(folder, {f"group/plain/{key}": content("plain", row, column)})
            whole = content("parts", row, column)
            pieces = {".a": whole[:100], "": whole[100:9000], ".z": whole[9000:]}
            write_files(folder, {f"group/parts/{key}{end}": piece for end, piece in pieces.items()})
    write_files(folder, {"group/zarr.json": b'{"zarr_format": 3, "node_type": "group"}'})
    return folder


def read_at_random(mount: Path, rng: random.Random) -> None:
    """Compare pieces of chunks, or whole ones, with what they must be."""
    name, row, column = rng.choice(("plain", "parts")), rng.randrange(CHUNKS), rng.randrange(4)
    whole = content(name, row, column)
    with (mount / f"group/{name}/c/{row}/{column}").open("rb", buffering=0) as file:
        for _ in range(4):
            offset, size = rng.randrange(len(whole) + 10), rng.randrange(10_000)
            same = os.pread(file.fileno(), size, offset) == whole[offset : offset + size]
            assert same, (name, row, column, offset, size)
        whole_again = file.readall() == whole
        assert whole_again


def list_all(mount: Path, rng: random.Random) -> None:
    """Every name is there, with its size."""
    folder = mount / rng.choice(("group/plain/c", "group/parts/c")) / str(rng.randrange(CHUNKS))
    name, row = folder.parts[-3], int(folder.parts[-1])
    with os.scandir(folder) as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries}
    assert sizes == {str(column): 20_000 + row * 1000 + column for column in range(4)}, name


def stat_at_random(mount: Path, rng: random.Random) -> None:
    """Names that are there and names that are not."""
    row = rng.randrange(CHUNKS)
    assert (mount / f"group/parts/c/{row}/1").stat().st_size == 20_001 + row * 1000
    assert not (mount / f"group/parts/c/{row}/1.a").exists()
    assert not (mount / f"group/plain/c/{row}/none{rng.randrange(50)}").exists()


def walk(mount: Path, rng: random.Random) -> None:
    """The whole tree, as `find` sees it."""
    found = sum(len(files) for _, _, files in os.walk(mount / "group"))
    assert found == 2 * CHUNKS * 4 + 3


def read_status(mount: Path, rng: random.Random) -> None:
    """Control files, meanwhile."""
    told = status(mount)
    assert told["errors"] == {}, told["last_errors"]
    row = rng.randrange(CHUNKS)
    assert info(mount, f"group/parts/c/{row}/1")["chunk_coords"] == [row, 1]


ACTIONS: list[Callable[[Path, random.Random], None]] = [
    read_at_random,
    read_at_random,
    list_all,
    stat_at_random,
    walk,
    read_status,
]


@pytest.mark.parametrize("ttl", ["0", "inf"])
def test_many_clients_get_what_is_stored(tmp_path: Path, source: Path, ttl: str) -> None:
    with serving(tmp_path, source, "--cache-ttl", ttl) as daemon:
        ended = threading.Event()

        def forget() -> None:
            while not ended.wait(0.02):
                drop_caches()

        def client(number: int) -> None:
            rng = random.Random(number)
            for _ in range(ROUNDS):
                weights = [1.0] * (len(ACTIONS) - 2) + [0.1, 0.5]
                [action] = rng.choices(ACTIONS, weights)
                action(daemon.mountpoint, rng)

        forgetting = threading.Thread(target=forget)
        forgetting.start()
        try:
            with ThreadPoolExecutor(CLIENTS) as pool:
                list(pool.map(client, range(CLIENTS)))
        finally:
            ended.set()
            forgetting.join()

        def forgotten() -> bool:
            drop_caches()
            return daemon.status()["kernel_lookups"] <= 2

        wait_for(forgotten, 20)
        status = daemon.status()
        assert status["open_files"] <= 1
        assert status["open_folders"] == 0
        assert status["errors"] == {}, status["last_errors"]
        log = daemon.text()
        assert "ERROR" not in log, log
        assert "WARNING" not in log, log
        assert daemon.peak_mib() < 200


def test_programs_in_many_processes_walk_the_mount(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source, "--cache-ttl", "0.05") as daemon:
        commands = [["ls", "-lR"], ["find", ".", "-type", "f"], ["du", "-s"], ["grep", "-rc", "x"]]
        processes = [
            subprocess.Popen(
                commands[n % len(commands)],
                cwd=daemon.mountpoint,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for n in range(16)
        ]
        for process in processes:
            _, said = process.communicate(timeout=60)
            assert not said
        assert "ERROR" not in daemon.text()


def test_mounting_again_and_again_leaves_nothing(tmp_path: Path, source: Path) -> None:
    for _ in range(5):
        with serving(tmp_path, source) as daemon:
            assert (daemon.mountpoint / "group/parts/c/0/0").read_bytes() == content("parts", 0, 0)
            daemon.terminate()
            assert daemon.process.wait(20) == 0
            assert os.listdir(daemon.mountpoint) == []
