"""What each task and each thread of this process is doing, as lines. Used by `signals`."""

import sys
import threading
import traceback
from collections.abc import Iterator

import trio


def all_stacks() -> Iterator[str]:
    """The stacks of all tasks of trio, which wait, and of all threads, which may run."""
    root = trio.lowlevel.current_root_task()
    if root is not None:
        yield from _of_task(root, 0)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # the only way, and documented
        yield f"thread {names.get(ident, ident)}:"
        yield from _lines(traceback.extract_stack(frame))


def _of_task(task: trio.lowlevel.Task, depth: int) -> Iterator[str]:
    yield f"task {'  ' * depth}{task.name}:"
    frames = ((frame, line) for frame, line in task.iter_await_frames())
    yield from _lines(traceback.StackSummary.extract(frames))
    for nursery in task.child_nurseries:
        for child in sorted(nursery.child_tasks, key=lambda each: each.name):
            yield from _of_task(child, depth + 1)


def _lines(stack: traceback.StackSummary) -> Iterator[str]:
    for entry in stack:
        yield f"    {entry.filename}:{entry.lineno} {entry.name}: {entry.line}"
