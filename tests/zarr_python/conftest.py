"""An array in parts; and coroutine tests are run: zarr-python's own suite is written with asyncio."""

import asyncio
import inspect
from pathlib import Path

import pytest
from builders.folders import write_keys
from opened_stores import PARTS

import zarrfuse
from zarrfuse.zarr_python.store import PlainStore


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Each coroutine test in an event loop of its own; others as ever."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A group with an array in parts."""
    folder = tmp_path / "data"
    write_keys(folder, PARTS)
    return folder


@pytest.fixture(scope="module")
def parts_store(tmp_path_factory: pytest.TempPathFactory) -> PlainStore:
    """The array in parts, for tests that only read it."""
    folder = tmp_path_factory.mktemp("parts")
    write_keys(folder, PARTS)
    return zarrfuse.open_store(folder)
