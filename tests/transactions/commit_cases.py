"""Commits that tests interrupt at each step: what is there before, what is done, what is there after."""

from collections.abc import Callable
from typing import NamedTuple

from builders.commits import store_bytes

from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.spool import Target

Files = dict[str, bytes]


class Case(NamedTuple):
    """`act` changes a store with the files `old` into one with the files `new`."""

    name: str
    old: Files
    new: Files
    act: Callable[[Commits], None]


def _storing(count: int) -> Case:
    old = {f"a/c/{part}": b"old%d" % part for part in range(count)}
    new = {f"a/c/{part}": b"newer%d" % part for part in range(count)}
    return Case(f"store {count}", old, new, lambda commits: store_bytes(commits, "a/c", new))


def _storing_first(count: int) -> Case:
    new = {f"a/{part}/c": b"new%d" % part for part in range(count)}
    return Case(f"store new {count}", {}, new, lambda commits: store_bytes(commits, "a/c", new))


def _storing_over_some() -> Case:
    old = {"c/0": b"old", "c/2": b"old"}
    new = {f"c/{part}": b"new%d" % part for part in range(4)}
    return Case("store over some", old, new, lambda commits: store_bytes(commits, "c", new))


def _deleting(count: int) -> Case:
    old = {f"c/{part}": b"old" for part in range(count)}
    return Case(f"delete {count}", old, {}, lambda commits: commits.delete("c", list(old)))


def _storing_file(count: int, keep: bool) -> Case:
    data = bytes(range(count))
    targets = [Target(f"c/{part}", part, part + 1) for part in range(count)]
    old = {f"c/{part}": b"old" for part in range(count)} | {"0.partial": data}
    new = {f"c/{part}": data[part : part + 1] for part in range(count)}
    if keep:
        new["0.partial"] = data
    return Case(
        f"store file {count}{' keep' if keep else ''}",
        old,
        new,
        lambda commits: commits.store_file("c", targets, "0.partial", keep=keep),
    )


def _after_another(count: int) -> Case:
    """A second commit by the same process."""

    def act(commits: Commits) -> None:
        store_bytes(commits, "c", old)
        store_bytes(commits, "c", new)

    old = {f"c/{part}": b"old" for part in range(count)}
    new = {f"c/{part}": b"new%d" % part for part in range(count)}
    return Case(f"after another {count}", old, new, act)


CASES = [
    *(make(count) for make in (_storing, _storing_first, _deleting) for count in (1, 2, 3)),
    *(_storing_file(count, keep) for count in (1, 3) for keep in (False, True)),
    _storing_over_some(),
]
AFTER_ANOTHER = _after_another(2)
