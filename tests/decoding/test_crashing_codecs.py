"""A codec that crashes or hangs is an error of the chunk that it was given: the rest is read on."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.documents import array
from builders.folders import write_keys
from builders.images_view import images
from builders.mounts import wait_for
from builders.processes import decoders
from builders.readers import read_range
from builders.views import content_of, opened

from zarrfuse.decoding import messages
from zarrfuse.decoding.workers import WORKERS
from zarrfuse.errors import Corrupt
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder

CODEC = """
import ctypes, os, signal, time
from zarr.abc.codec import BytesBytesCodec

class Attack(BytesBytesCodec):
    is_fixed_size = True

    @classmethod
    def from_dict(cls, data):
        return cls()

    def to_dict(self):
        return {"name": "attack"}

    def compute_encoded_size(self, size, _):
        return size

    async def _decode_single(self, chunk, _):
        match bytes(chunk.to_bytes()[:1]):
            case b"S":
                ctypes.string_at(0)
            case b"A":
                os.abort()
            case b"X":
                os._exit(0)
            case b"L":
                while True:
                    pass
            case b"K":
                os.kill(os.getpid(), signal.SIGKILL)
        return chunk

    async def _encode_single(self, chunk, _):
        return chunk
"""


@pytest.fixture(scope="module", autouse=True)
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A codec that is installed, and does what the first byte of a chunk says."""
    folder = tmp_path_factory.mktemp("installed")
    keys = {
        "attack.py": CODEC.encode(),
        "attack-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: attack\nVersion: 1\n",
        "attack-1.dist-info/entry_points.txt": b"[zarr.codecs]\nattack = attack:Attack\n",
    }
    write_keys(folder, keys)
    WORKERS.close()  # others know it
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    WORKERS.close()


def shown(folder: Path, *chunks: bytes) -> Folder:
    """An array of these chunks of four bytes."""
    codecs = [{"name": "bytes"}, {"name": "attack"}]
    document = array((4 * len(chunks),), (4,), codecs=codecs)
    stored = {f"a/c/{number}": chunk for number, chunk in enumerate(chunks)}
    write_keys(folder, {"a/zarr.json": document, **stored})
    return images(LocalStore(str(folder)))


@pytest.mark.parametrize(
    ("chunk", "told"), [(b"S...", "SIGSEGV"), (b"A...", "SIGABRT"), (b"X...", "status 0")]
)
def test_a_crash_is_an_error_that_names_the_chunk_and_the_others_are_read(
    chunk: bytes, told: str, tmp_path: Path
) -> None:
    root = shown(tmp_path, b"good", chunk, b"fine")
    with opened(root, "a/a.npy") as reader:
        begin = reader.size - 12
        with pytest.raises(Corrupt, match=f"^a: chunk c/1: cannot be decoded: .*{told}"):
            read_range(reader, begin, 12)  # one block
        assert read_range(reader, begin, 4) == b"good"
        assert read_range(reader, begin + 8, 4) == b"fine"


def test_a_chunk_that_ended_its_process_is_not_tried_again_at_once_unless_it_is_stored_anew(
    tmp_path: Path,
) -> None:
    root = shown(tmp_path, b"A...", b"good")
    with pytest.raises(Corrupt, match="SIGABRT"):
        content_of(root, "a/c/0.tiff")
    assert b"good" in content_of(root, "a/c/1.tiff")
    before = decoders()
    with pytest.raises(Corrupt, match=r"^a: chunk c/0: cannot be decoded: .*SIGABRT"):
        content_of(root, "a/c/0.tiff")
    assert before
    assert set(before) <= set(decoders())
    (tmp_path / "a/c/0").write_bytes(b"mend")
    assert b"mend" in content_of(root, "a/c/0.tiff")


def test_what_takes_too_long_is_an_error_that_names_the_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "CPU_S", 0.5)
    root = shown(tmp_path, b"L...", b"good")
    with pytest.raises(Corrupt, match=r"^a: chunk c/0: cannot be decoded: it takes too long"):
        content_of(root, "a/c/0.tiff")
    assert b"good" in content_of(root, "a/c/1.tiff")


def test_a_process_that_others_kill_over_and_over_is_no_fault_of_the_chunk(tmp_path: Path) -> None:
    root = shown(tmp_path, b"K...", b"good")
    with pytest.raises(OSError, match="killed again and again"):
        content_of(root, "a/c/0.tiff")
    assert b"good" in content_of(root, "a/c/1.tiff")


def test_a_process_that_was_killed_is_replaced(tmp_path: Path) -> None:
    root = shown(tmp_path, b"good", b"fine")
    assert b"good" in content_of(root, "a/c/0.tiff")
    for process in decoders():
        os.kill(int(process.name), signal.SIGKILL)
    assert b"fine" in content_of(root, "a/c/1.tiff")


def test_threads_whose_chunks_are_good_are_served_while_others_crash(tmp_path: Path) -> None:
    chunks = [b"S..." if number % 4 == 0 else b"g%03d" % number for number in range(12)]
    root = shown(tmp_path, *chunks)
    found: dict[int, bytes] = {}

    def read_one(number: int) -> None:
        try:
            found[number] = content_of(root, f"a/c/{number}.tiff")
        except Corrupt:
            found[number] = b""

    threads = [threading.Thread(target=read_one, args=[number]) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    for number, chunk in enumerate(chunks):
        assert (chunk in found[number]) is (number % 4 != 0)


@pytest.mark.parametrize("chunk", [b"good", b"L..."], ids=["idle", "at work"])
def test_processes_end_with_the_one_that_they_decode_for(chunk: bytes, tmp_path: Path) -> None:
    shown(tmp_path, chunk)
    code = f"""
import sys; sys.path[:0] = {sys.path!r}
from builders.views import content_of
from builders.images_view import images
from zarrfuse.stores.local.store import LocalStore
print("begun", flush=True)
content_of(images(LocalStore({str(tmp_path)!r})), "a/c/0.tiff")
print("read", flush=True)
input()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        assert process.stdout is not None
        lines = 2 if chunk == b"good" else 1
        for _ in range(lines):
            process.stdout.readline()
        wait_for(lambda: decoders(process.pid))
        (worker, *_) = decoders(process.pid)
        process.kill()
    wait_for(lambda: not worker.exists())
