"""Chunks whose bytes tell which chunk and which version of it they are, down to the last byte.

Used by the workload that writes them and by the test that finds out what became of them.
"""

import hashlib
import random

HEADER_BYTES = 64
INDEX_BYTES = 32
_BODY_BYTES = (0, 5, 3000, 70_000, 300_000)


def content(chunk: str, version: int) -> bytes:
    """The bytes of a version of a chunk: a header, a body of any size, a checksum of both."""
    chance = random.Random(f"{chunk} {version}")
    header = f"{chunk} {version} ".encode().ljust(HEADER_BYTES, b".")
    data = header + chance.randbytes(chance.choice(_BODY_BYTES))
    return data + hashlib.sha256(data).digest()


def version_of(chunk: str, data: bytes) -> int:
    """Which version of a chunk the bytes are. Raises `AssertionError` if they are no whole one."""
    name, version, _ = data[:HEADER_BYTES].decode("ascii", "replace").split(" ")
    assert name == chunk, f"under the name of {chunk} there is {name}"
    assert data == content(chunk, int(version)), (
        f"{chunk} is not whole: version {version} begins it"
    )
    return int(version)
