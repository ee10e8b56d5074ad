"""Two mounts that write one chunk of several parts: nobody ever sees a mix of two versions."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from builders.documents import array, concat_parts
from builders.folders import write_files
from builders.mounts import serving
from builders.threads import meanwhile
from sampling import is_thorough

THOROUGH = is_thorough()
WRITES = 400 if THOROUGH else 8
SIZE = 3000
PARTS = [concat_parts((".a", 1000), "", (".z", 10))]


def version(number: int) -> bytes:
    """A chunk each byte of which tells of its version."""
    return bytes([number % 251]) * SIZE


def assert_whole(data: bytes) -> None:
    """All bytes are of one version."""
    assert len(data) == SIZE
    assert len(set(data)) == 1, f"a mix of versions {sorted(set(data))}"


def test_chunk_that_two_mounts_write_is_never_torn(tmp_path: Path):
    source = tmp_path / "source"
    document = array(
        shape=[SIZE],
        chunk_shape=[SIZE],
        transformers=PARTS,
    )
    write_files(source, {"zarr.json": document})
    with ExitStack() as stack:
        mounts = [
            stack.enter_context(serving(tmp_path, source, "--read-write", name=name))
            for name in ("one", "two")
        ]
        chunks = [daemon.mountpoint / "c/0" for daemon in mounts]
        chunks[0].parent.mkdir()
        chunks[0].write_bytes(version(0))

        def writes(chunk: Path, seed: int) -> None:
            rng = random.Random(seed)
            for _ in range(WRITES):
                with chunk.open("r+b") as file:
                    file.write(version(rng.randrange(251)))

        def reads(chunk: Path) -> Callable[[], None]:
            def work() -> None:
                assert_whole(chunk.read_bytes())
                time.sleep(0.01)  # else the writers wait for the readers' locks most of the time

            return work

        with meanwhile(*map(reads, chunks)), ThreadPoolExecutor(2) as pool:
            for writing in [
                pool.submit(writes, *each) for each in zip(chunks, (1, 2), strict=True)
            ]:
                writing.result()
        for daemon, chunk in zip(mounts, chunks, strict=True):
            assert_whole(chunk.read_bytes())
            assert daemon.status()["errors"] == {}
    stored = b"".join((source / f"c/0{end}").read_bytes() for end in (".a", "", ".z"))
    assert_whole(stored)
    assert {entry.name for entry in (source / "c").iterdir()} == {"0.a", "0", "0.z"}
