"""Eight programs write one chunk in three parts, four by rename and four in place; eight read it.

`python programs_on_a_chunk.py CHUNK KEY SOURCE SECONDS` runs them as processes, and one more that reads
the chunk from the store all the time, past the mount. It prints what each kind did, and every failure.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

WORDS = 12_500
"""Of 8 bytes each, which all tell the version: the chunk is written by one request."""
IN_PLACE = 1 << 32
"""Added to the version of who writes in place."""
WRITERS, READERS = 4, 8


def content(version: int) -> bytes:
    """A version of the chunk."""
    return np.full(WORDS, version, "<u8").tobytes()


def versions(data: bytes) -> set[int]:
    """The versions of which there are bytes in what was read. Raises `AssertionError` if it is short."""
    assert len(data) == 8 * WORDS, f"{len(data)} bytes"
    return set(np.unique(np.frombuffer(data, "<u8")).tolist())


def replace(chunk: Path, version: int) -> None:
    """Write a new file, and give it the name of the chunk."""
    draft = chunk.with_name(f"{chunk.name}.{os.getpid()}.tmp")
    draft.write_bytes(content(version))
    draft.rename(chunk)


def overwrite(chunk: Path, version: int) -> None:
    """Write the chunk in place."""
    fd = os.open(chunk, os.O_RDWR)
    try:
        assert os.pwrite(fd, content(version + IN_PLACE), 0) == 8 * WORDS
    finally:
        os.close(fd)


def read(chunk: Path, _: int) -> None:
    """Read the chunk, which is one version; or several, of which all but one were written in place."""
    fd = os.open(chunk, os.O_RDONLY)
    try:
        assert os.fstat(fd).st_size == 8 * WORDS
        data = b""
        while piece := os.pread(fd, 1 << 20, len(data)):
            data += piece
    finally:
        os.close(fd)
    found = versions(data)
    assert sum(version < IN_PLACE for version in found) <= 1, f"torn: {sorted(found)[:4]}"


def watcher(source: str) -> Callable[[Path, int], None]:
    """What reads the key of the chunk from the store: it must be one version."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    from zarrfuse import open_store

    store = open_store(source)

    def watch(key: Path, _: int) -> None:
        data = sync(store.get(str(key), default_buffer_prototype()))
        assert data is not None, "the chunk is not there"
        found = versions(data.to_bytes())
        assert len(found) == 1, f"torn in the store: {sorted(found)[:4]}"

    return watch


def work(name: str, chunk: Path, source: str, until: float, step: int) -> None:
    """Do one thing until a time; print how often it was done, and what failed."""
    works = {"rename": replace, "in place": overwrite, "read": read}
    do = works[name] if name in works else watcher(source)
    done: Counter[str] = Counter()
    version = step
    while time.monotonic() < until:
        try:
            do(chunk, version)
            done["done"] += 1
        except (OSError, AssertionError) as error:
            done[f"{type(error).__name__}: {error}"] += 1
        version += 2 * WRITERS
    print(json.dumps(done))


def run(chunk: Path, key: str, source: str, seconds: float) -> dict[str, Counter[str]]:
    """Run all of them for so long: by kind, how often it was `done`, and each failure."""
    until = time.monotonic() + seconds
    kinds = ["rename"] * WRITERS + ["in place"] * WRITERS + ["read"] * READERS + ["watch"]
    running = []
    for step, kind in enumerate(kinds, 1):
        of = key if kind == "watch" else str(chunk)
        command = [sys.executable, __file__, kind, of, source, repr(until), str(step)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append((kind, process))
    results: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    for kind, process in running:
        output, _ = process.communicate()
        assert process.returncode == 0, f"{kind} ended with {process.returncode}"
        results[kind] += Counter(json.loads(output))
    return results


if __name__ == "__main__":
    if len(sys.argv) == 6:
        name_, chunk_, source_, until_, step_ = sys.argv[1:]
        work(name_, Path(chunk_), source_, float(until_), int(step_))
    else:
        for kind_, result in run(
            Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
        ).items():
            print(kind_, dict(result), flush=True)
