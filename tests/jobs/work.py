"""Work for tests: functions that processes and workers import by their names."""

import os
import signal
import time
from pathlib import Path

from zarrfuse.errors import Corrupt
from zarrfuse.shards.layout import Refused


class NotPicklable(Exception):
    """Is pickled, but cannot be unpickled."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"{name} is number {number}")


def square(number: int) -> int:
    return number * number


def twice(data: bytes) -> bytes:
    return data + data


def process_of(_: object) -> int:
    return os.getpid()


def wait_for_file(item: tuple[str, Path | None]) -> str:
    """The name of the item, once its file is there."""
    name, file = item
    while file is not None and not file.exists():
        time.sleep(0.005)
    return name


def touch_and_hang(folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    time.sleep(60)


def fail(kind: str) -> None:
    if kind == "refused":
        raise Refused("a.tif is a photograph")
    if kind == "corrupt":
        raise Corrupt("c/0 is short")
    if kind == "unexpected":
        raise ZeroDivisionError("by nothing")
    raise NotPicklable("this", 7)


def kill_itself(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_the_first(folder: Path) -> str:
    """Kills the process that tries first."""
    try:
        (folder / "tried").touch(exist_ok=False)
    except FileExistsError:
        return "done"
    kill_itself(None)
    return "not reached"
