"""Processes that write and read one chunk at once: nobody ever sees a mix."""

import os
from functools import partial
from pathlib import Path

from builders.commit_stores import Steps, StepStore
from builders.commits import content_and_close, readers, store_bytes
from children import DIED, die, in_child

from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.recovered_view import rolled_forward

COMMITS = 60
PARTS = [f"c/{part}" for part in range(3)]


def write(root: Path, who: bytes) -> None:
    """Store the chunk again and again."""
    commits = Commits(rolled_forward(WritableLocalStore(str(root))))
    for n in range(COMMITS):
        store_bytes(commits, "c", dict.fromkeys(PARTS, b"%s%d" % (who, n)))
    commits.close()


def look(root: Path, done: int) -> None:
    """Read the chunk until the pipe `done` is at its end."""
    os.set_blocking(done, False)
    store = rolled_forward(LocalStore(str(root)))
    while True:
        assert len({content_and_close(reader) for reader in readers(store, "c", PARTS)}) == 1
        try:
            if os.read(done, 1) == b"":
                return
        except BlockingIOError:
            pass


def forked(work: object, *arguments: object) -> int:
    """A child that does some work, and fails if that does."""
    pid = os.fork()
    if pid == 0:
        try:
            work(*arguments)  # type: ignore[operator]
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(1)
    return pid


def test_two_write_and_one_reads(tmp_path: Path) -> None:
    first = Commits(WritableLocalStore(str(tmp_path)))
    store_bytes(first, "c", dict.fromkeys(PARTS, b"old"))
    end, start = os.pipe()
    reader = os.fork()
    if reader == 0:
        os.close(start)
        try:
            look(tmp_path, end)
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(1)
    os.close(end)
    writers = [forked(write, tmp_path, who) for who in (b"a", b"b")]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in writers] == [0, 0]
    os.close(start)
    assert os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1]) == 0
    first.close()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_reader_sees_the_whole_of_what_a_killed_writer_committed(tmp_path: Path) -> None:
    """Each writer dies after its first part was moved; the reader looked just before."""
    store_bytes(Commits(WritableLocalStore(str(tmp_path))), "c", dict.fromkeys(PARTS, b"old"))
    store = rolled_forward(LocalStore(str(tmp_path)))

    def child(data: bytes) -> None:
        second_move = Steps(1, die)

        def step(call: str, key: str) -> None:
            if call == "rename" and any(tmp_path.glob("*/*.journal")):
                second_move(call, key)

        wrapped = StepStore(WritableLocalStore(str(tmp_path)), step)
        store_bytes(Commits(rolled_forward(wrapped)), "c", dict.fromkeys(PARTS, data))

    for n in range(10):
        data = b"%d" % n
        recovery = Commits(WritableLocalStore(str(tmp_path)))
        recovery.spool().close()  # so that the folder stays, and its picture is not looked at anew
        recovery.recover()
        assert len({content_and_close(each) for each in readers(store, "c", PARTS)}) == 1
        assert in_child(partial(child, data)) == DIED
        assert [content_and_close(each) for each in readers(store, "c", PARTS)] == [data] * 3
        recovery.close()
