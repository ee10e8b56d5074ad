"""How much of what is decoded is kept unless somebody says."""

import os

import pytest

from zarrfuse.stores.cache import default_cache_bytes

MIB = 1 << 20


@pytest.mark.parametrize(
    "memory_mib, limit, kept_mib",
    [
        (64 << 10, "max", 256),
        (1024, "max", 256),
        (1020, "max", 255),
        (400, "max", 100),
        (64 << 10, str(512 * MIB), 128),
        (400, str(2048 * MIB), 100),
        (400, None, 100),
    ],
)
def test_a_quarter_of_memory_and_at_most_256_mib(
    monkeypatch: pytest.MonkeyPatch, memory_mib: int, limit: str | None, kept_mib: int
) -> None:
    of_system = {"SC_PHYS_PAGES": memory_mib * MIB // 4096, "SC_PAGE_SIZE": 4096}

    def read_text(*_: object, **__: object) -> str:
        if limit is None:
            raise FileNotFoundError
        return limit + "\n"

    monkeypatch.setattr(os, "sysconf", of_system.__getitem__)
    monkeypatch.setattr("zarrfuse.stores.cache.Path.read_text", read_text)
    assert default_cache_bytes() == kept_mib * MIB
