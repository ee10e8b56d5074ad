"""A file is opened and emptied only where the kernel has checked who may; it asks again for another."""

import errno
import os
from pathlib import Path

import pytest
from played_kernel import PlayedKernel, serving
from pyfuse3 import FUSEError

PRIVATE = b"private bytes"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "name").write_bytes(b"for all")
    return tmp_path


def replace_by_private(source: Path) -> None:
    """What its owner does behind the mount."""
    draft = source / "draft"
    draft.write_bytes(PRIVATE)
    draft.chmod(0o600)
    draft.rename(source / "name")


@pytest.mark.parametrize("view", ["raw", "chunks"])
@pytest.mark.parametrize(
    ("flags", "told"),
    [(0, errno.ESTALE), (os.O_TRUNC, errno.ESTALE), (os.O_EXCL, errno.EEXIST)],
)
def test_a_file_that_others_have_made_meanwhile_is_not_opened_unchecked(
    view: str, flags: int, told: int, source: Path
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        with pytest.raises(FUSEError) as refused:
            await kernel.create("name", os.O_RDWR | os.O_CREAT | flags)
        assert refused.value.errno == told

    replace_by_private(source)
    with serving(source, view) as run:
        run(requests)
    assert (source / "name").read_bytes() == PRIVATE


@pytest.mark.parametrize("view", ["raw", "chunks"])
@pytest.mark.parametrize("flags", [os.O_WRONLY | os.O_TRUNC, os.O_RDWR, os.O_RDONLY])
def test_a_file_that_became_private_is_neither_opened_nor_emptied_unchecked(
    view: str, flags: int, source: Path
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup("name")
        replace_by_private(source)
        with pytest.raises(FUSEError) as refused:
            await kernel.open("name", inode, flags)
        assert refused.value.errno == errno.ESTALE

    with serving(source, view) as run:
        run(requests)
    assert (source / "name").read_bytes() == PRIVATE
