"""A server in memory, for tests of remote stores: real requests of the protocol, and what goes wrong.

It counts what it is asked, and does wrong what a test says: see `Trouble`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from zarrfuse.errors import NotFound, Stale
from zarrfuse.stores.remote.requests import Found, Listing

Trouble = Callable[[str, str], BaseException | float | None]
"""Called with a request (`find`, `list`, `get`) and its path: an error to raise, or seconds to wait."""


@dataclass
class ServerInMemory:
    """Implements `Requests` over `files`. `latency_s` passes before each answer."""

    files: dict[str, bytes] = field(default_factory=dict)
    latency_s: float = 0.0
    permanent: bool = False
    lists_all: bool = True
    has_versions: bool = True
    trouble: Trouble | None = None
    url: str = "memory://server"

    def __post_init__(self) -> None:
        self.asked: list[tuple[str, str, int, int]] = []
        self.at_once = self.most_at_once = 0
        self.is_closed = False

    @property
    def counts(self) -> Counter[str]:
        """The number of requests of each kind."""
        return Counter(one[0] for one in self.asked)

    def found(self, path: str) -> Found:
        data = self.files[path]
        return Found(len(data), 0, str(hash(data)) if self.has_versions else None)

    async def find(self, path: str) -> Found:
        await self._answer("find", path)
        if path not in self.files:
            raise NotFound(f"no {path}")
        return self.found(path)

    async def list(self, path: str) -> Listing:
        await self._answer("list", path)
        prefix = f"{path}/" if path else ""
        files: dict[str, Found | None] = {}
        folders: dict[str, None] = {}
        for key in self.files:
            if key.startswith(prefix):
                name, slash, _ = key[len(prefix) :].partition("/")
                if slash:
                    folders[name] = None
                else:
                    files[name] = self.found(key) if self.lists_all else None
        if path and not files and not folders:
            raise NotFound(f"no {path}")
        return Listing(files, list(folders), is_whole=self.lists_all)

    async def get(self, path: str, start: int, stop: int, of: Found) -> bytes:
        await self._answer("get", path, start, stop)
        if path not in self.files or self.found(path) != of:
            raise Stale(f"{path} is another one")
        return self.files[path][start:stop]

    def close(self) -> None:
        self.is_closed = True

    async def _answer(self, what: str, path: str, start: int = 0, stop: int = 0) -> None:
        self.asked.append((what, path, start, stop))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            wrong = self.trouble(what, path) if self.trouble is not None else None
            if isinstance(wrong, BaseException):
                raise wrong
            await asyncio.sleep(self.latency_s if wrong is None else wrong)
        finally:
            self.at_once -= 1
