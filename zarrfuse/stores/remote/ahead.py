"""What will be asked for next: the positions that follow those that are used in order.

Used by `reading` for the blocks of a file, and by `siblings` for the names of a folder. It must not know
what lies at a position.

Programs use positions nearly in order: the kernel reads ahead on its own and several threads share a list.
So a stream goes on where a position is used a few before or behind the last one. Its window doubles with
each that goes on.
"""

import threading


class _Stream:
    __slots__ = ("ahead_to", "last", "window")

    def __init__(self, last: int) -> None:
        self.last = last
        self.window = 1
        self.ahead_to = last + 1


class Streams:
    """Up to `most` streams of positions; of each, at most `window` positions are wanted ahead.

    `near`: how far out of order positions of one stream are. For any thread.
    """

    __slots__ = ("_lock", "_most", "_near", "_streams", "_window")

    def __init__(self, most: int, window: int, near: int) -> None:
        self._near = near
        self._most = most
        self._window = window
        self._streams: list[_Stream] = []
        self._lock = threading.Lock()

    def used(self, first: int, last: int, stop: int) -> range:
        """The positions below `stop` that are wanted now that those from `first` to `last` are used."""
        with self._lock:
            stream = self._of(first)
            if stream is None:
                self._streams.insert(0, _Stream(last))
                del self._streams[self._most :]
                return range(0)
            if last <= stream.last:
                return range(0)
            stream.last = last
            stream.window = min(stream.window * 2, self._window)
            begin = max(stream.ahead_to, last + 1)
            end = min(last + 1 + stream.window, stop)
            if end <= begin or (begin - last - 1) * 2 > stream.window:
                return range(0)  # more than half of the window is under way
            stream.ahead_to = end
            return range(begin, end)

    def is_new(self, first: int) -> bool:
        """Whether a position belongs to no stream: it was jumped to."""
        with self._lock:
            return self._find(first) is None

    def _of(self, first: int) -> _Stream | None:
        stream = self._find(first)
        if stream is not None and stream is not self._streams[0]:
            self._streams.remove(stream)
            self._streams.insert(0, stream)
        return stream

    def _find(self, first: int) -> _Stream | None:
        for stream in self._streams:
            if stream.last - self._near <= first <= stream.last + 1 + self._near:
                return stream
        return None
