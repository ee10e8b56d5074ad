"""Mounts a fake store: `python serve_fake.py SPEC mount SOURCE MOUNTPOINT [OPTION...]`.

SPEC is JSON: `store` names the fake, the rest are its arguments. Takes the options of `zarrfuse mount`
that these tests need, and `--timeout SECONDS` for a store that does not answer.
"""

import argparse
import json
import logging
import os
import signal
import threading
import traceback
from itertools import product
from pathlib import Path
from typing import Any

import pyfuse3
from builders.fake_stores import (
    MTIME_NS,
    FailingStore,
    ForwardingStore,
    HangingStore,
    LyingStore,
    MemoryStore,
    SlowStore,
)
from errors_raised import RAISED

from zarrfuse.config import MountConfig, Tuning
from zarrfuse.mounts import daemon
from zarrfuse.stores.base import Entry, Kind, Store
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.nodes import DOCUMENTS

DATA = bytes(range(256)) * 64


def raised_for(call: str, key: str) -> BaseException | None:
    """What a name asks for: `open!EIO` fails when it is opened, `document!open!EIO` is a folder
    whose metadata document does."""
    folder, _, name = key.rpartition("/")
    if call == "space":
        return None
    if name in DOCUMENTS:
        start, _, rest = folder.rpartition("/")[2].partition("!")
        if start != "document":
            return None
        name = rest
    at, _, error = name.partition("!")
    return RAISED[error]() if at == call and error else None


def raised_for_space(asked: Path, call: str) -> BaseException | None:
    """Fails when it is asked for its size, with the exception that the file `asked` names."""
    return RAISED[asked.read_text()]() if call == "space" else None


def lying() -> Store:
    """Files `full/NAME` are what they seem; the other folders hold one kind of lie each."""
    files = {f"{folder}/true": DATA for folder in LIES}
    files |= {f"sizes/{name}": DATA for name in OPENED_AS}
    claimed = {folder: list(entries) for folder, entries in LIES.items()}
    opened_as = {f"sizes/{name}": size for name, size in OPENED_AS.items()}
    return LyingStore(MemoryStore(files), claimed, opened_as)


def _file(name: str, size: int = 1, mtime_ns: int = MTIME_NS) -> Entry:
    return Entry(name, Kind.FILE, size, mtime_ns)


LIES = {
    "slash": [_file("a/b"), _file("/"), _file("/etc/passwd"), _file("../../up")],
    "nul": [_file("a\0b"), _file("\0")],
    "empty": [_file("")],
    "dots": [_file("."), Entry("..", Kind.FOLDER, 0, MTIME_NS)],
    "escaped-surrogate": [_file("\udcff\udcfe")],
    "lone-surrogate": [_file("\ud800")],
    "long": [_file("x" * 300), _file("é" * 200)],
    "very-long": [_file("x" * 5000)],
    "controls": [_file("a\nb"), _file("\x1b[2J"), _file("\x7f")],
    "negative": [_file("size", -1), _file("most", -(1 << 63)), _file("time", 1, -1)],
    "huge": [_file("largest", (1 << 63) - 1), _file("larger", 1 << 63), _file("absurd", 1 << 70)],
    "late": [_file("time", 1, 1 << 80)],
    "kinds": [Entry("folder", Kind.FOLDER, 0, MTIME_NS), Entry("link", Kind.LINK, 3, MTIME_NS)],
    "sizes": [],
    "absent": [_file("ghost", 10)],
}
OPENED_AS = {
    "shorter": 100,
    "longer": len(DATA) + 4096,
    "none": 0,
    "negative": -1,
    "huge": 1 << 63,
    "absurd": 1 << 70,
}


class WatchedStore(ForwardingStore):
    """Takes down, once it is mounted, each call by which the event loop waits for it."""

    def __init__(self, inner: Store, waited: Path) -> None:
        super().__init__(inner)
        self._waited = waited

    def before(self, call: str, key: str, wait: bool) -> None:
        """Write a line."""
        in_loop = threading.current_thread() is threading.main_thread()
        if wait and in_loop and call != "close" and self._waited.exists():
            with self._waited.open("a") as lines:
                lines.write(f"{call} {key!r}: {traceback.extract_stack(limit=4)[0]}\n")


def store_of(spec: dict[str, Any], source: Path) -> Store:
    """The fake that a SPEC describes."""
    kind = spec["store"]
    if kind == "lying":
        return lying()
    if kind == "memory":
        places = product(range(spec["folders"]), range(spec["files"]))
        return MemoryStore({f"{folder}/{file}": b"data" for folder, file in places})
    local = LocalStore(str(source))
    if kind == "local":
        return local
    if kind == "slow":
        return SlowStore(local, spec["delays"])
    if kind in ("hanging", "hanging-and-failing"):
        call = spec["call"]
        gate = source.with_name(f"{source.name}.gate")
        hanging = HangingStore(local, lambda c, key: c == call and "hang" in key, gate)
        if kind == "hanging":
            return hanging
        return FailingStore(hanging, raised_for)
    if kind == "watched":
        return WatchedStore(local, source.with_name(f"{source.name}.waited"))
    if kind == "failing":
        return FailingStore(local, raised_for)
    if kind == "failing-space":
        asked = source.with_name(f"{source.name}.space")
        return FailingStore(local, lambda call, key: raised_for_space(asked, call))
    raise ValueError(kind)


def signal_when_mounted(number: signal.Signals) -> None:
    """Send this process a signal once, before it answers the first request."""
    init = pyfuse3.init

    def init_and_signal(*arguments: Any) -> None:
        init(*arguments)
        os.kill(os.getpid(), number)

    pyfuse3.init = init_and_signal


def main() -> None:
    """Serve until unmounted; then write what a `SlowStore` counted beside the source."""
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", type=json.loads)
    parser.add_argument("mount")
    parser.add_argument("source", type=Path)
    parser.add_argument("mountpoint")
    parser.add_argument("--foreground", action="store_true")
    parser.add_argument("--xattrs", action="store_true")
    parser.add_argument("--view", default="chunks")
    parser.add_argument("--cache-ttl", type=float)
    parser.add_argument("--timeout", type=float, default=10)
    parser.add_argument("--threads", type=int, default=Tuning().threads)
    parser.add_argument("--signalled", help="a signal that comes as soon as the kernel has mounted")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    store = store_of(given.spec, given.source)
    config = MountConfig(
        source=str(given.source),
        mountpoint=given.mountpoint,
        view=given.view,
        foreground=True,
        xattrs=given.xattrs,
        cache_ttl_s=given.cache_ttl,
        tuning=Tuning(store_timeout_s=given.timeout, threads=given.threads),
    )
    if given.signalled:
        signal_when_mounted(getattr(signal, given.signalled))
    daemon.serve(config, store, lambda _: logging.info("%s is mounted", given.mountpoint))
    if isinstance(store, SlowStore):
        counted = given.source.with_name(f"{given.source.name}.counted")
        counted.write_text(str(store.most_at_once))


if __name__ == "__main__":
    main()
