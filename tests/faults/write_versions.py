"""Writes versions of chunks until the mount is gone: `python write_versions.py WAY MOUNT ARRAY`.

Each line on stdin, `SEED VERSION`, begins a round with versions from that one on. Two threads write,
each chunks of its own; what they do is told line by line: `+ NAME VERSION` before, `= NAME VERSION`
after (version 0: it is deleted), `! TEXT` for an error, which ends the thread, and `.` when both
have ended.
"""

import errno
import json
import os
import random
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from versioned_chunks import content

DOCUMENT = "zarr.json"
_GONE = (errno.ENOTCONN, errno.ECONNABORTED)
_said = threading.Lock()

Write = Callable[[Path, bytes, random.Random], None]


def _say(line: str) -> None:
    with _said:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _written(path: Path, data: bytes, flags: int, *, sync: bool = False) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try:
        for at in range(0, len(data), 50_000):
            os.pwrite(descriptor, data[at : at + 50_000], at)
        if not flags & os.O_TRUNC:
            os.ftruncate(descriptor, len(data))
        if sync:
            os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            os.close(descriptor)
        raise
    os.close(descriptor)


def as_cp_does(path: Path, data: bytes, chance: random.Random) -> None:
    """The name of the chunk itself is opened, written and closed."""
    _written(path, data, chance.choice((0, os.O_TRUNC)), sync=chance.random() < 0.2)


def as_zarr_python_does(path: Path, data: bytes, chance: random.Random) -> None:
    """Another name is written, and then becomes that of the chunk: by rename, or as a link."""
    partial = path.with_name(f"{path.name}.{chance.getrandbits(64):x}.partial")
    _written(partial, data, os.O_EXCL, sync=chance.random() < 0.2)
    if path.exists() or chance.random() < 0.5:
        partial.replace(path)
    else:
        os.link(partial, path)
        partial.unlink()


def as_anybody_does(path: Path, data: bytes, chance: random.Random) -> None:
    """One of the two."""
    chance.choice((as_cp_does, as_zarr_python_does))(path, data, chance)


WAYS: dict[str, Write] = {
    "cp": as_cp_does,
    "zarr-python": as_zarr_python_does,
    "anybody": as_anybody_does,
}


def document(before: bytes, version: int) -> bytes:
    """A document with a version among its attributes, and else as before."""
    return json.dumps({**json.loads(before), "attributes": {"version": version}}).encode()


def _change(path: Path, version: int, write: Write, chance: random.Random) -> None:
    if path.name == DOCUMENT:
        write(path, document(path.read_bytes(), version), chance)
    elif version:
        write(path, content(_name(path), version), chance)
    else:
        with suppress(FileNotFoundError):
            path.unlink()


def _name(path: Path) -> str:
    return "/".join(path.parts[-2:])


def _go_on(paths: list[Path], versions: "count[int]", seed: str, write: Write) -> None:
    chance = random.Random(seed)
    try:
        while True:
            path = chance.choice(paths)
            is_deleted = path.name != DOCUMENT and chance.random() < 0.25
            version = 0 if is_deleted else next(versions)
            name = DOCUMENT if path.name == DOCUMENT else _name(path)
            _say(f"+ {name} {version}")
            _change(path, version, write, chance)
            _say(f"= {name} {version}")
    except Exception as error:
        if not isinstance(error, OSError) or error.errno not in _GONE:
            _say(f"! {json.dumps(traceback.format_exc())}")


def main(way: str, array: str, names: list[str]) -> None:
    """See the module."""
    folder = Path(array)
    for line in sys.stdin:
        seed, version = line.split()
        versions = count(int(version))
        threads = [
            threading.Thread(
                target=_go_on,
                args=(
                    [folder / name for name in names[which::2]],
                    versions,
                    f"{seed} {which}",
                    WAYS[way],
                ),
            )
            for which in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _say(".")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
