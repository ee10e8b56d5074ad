"""Any range of bytes of a file is that slice of it, in any order and from any thread."""

from pathlib import Path
from random import Random

import pytest
from builders.images_view import (
    ALL,
    FEW,
    Written,
    files_to_read,
    images,
    pyramid,
    rendering,
    slices_of,
)
from builders.readers import read_range
from builders.threads import in_threads
from builders.views import content_of, opened

from zarrfuse.stores.local.store import LocalStore


@pytest.mark.parametrize("name", FEW)
def test_any_range_of_bytes_is_that_slice_of_the_file(written: Written, name: str) -> None:
    for path in files_to_read(name, ALL[name], written.arrays[name]):
        data = content_of(written.root, path)
        with opened(written.root, path) as reader:
            for offset, size in slices_of(len(data), Random(path), 25):
                assert read_range(reader, offset, size) == data[offset : offset + size], (
                    offset,
                    size,
                )


def test_any_range_of_a_pyramid_is_that_slice_of_it(tmp_path: Path) -> None:
    pyramid(tmp_path)
    store = LocalStore(str(tmp_path))
    root = images(store, cache_bytes=3000)
    data = content_of(root, "p/p.ome.tiff")
    with opened(root, "p/p.ome.tiff") as reader:
        for offset, size in slices_of(len(data), Random(4), 200):
            assert read_range(reader, offset, size) == data[offset : offset + size], (offset, size)
    store.close()


@pytest.mark.parametrize("cache_bytes", [1, 10 << 10, 1 << 20])
def test_threads_that_read_at_random_get_the_same_bytes(written: Written, cache_bytes: int) -> None:
    store = LocalStore(str(written.folder))
    root = images(store, cache_bytes=cache_bytes)
    names = ("shards/nested", "codecs/gzip", "missing/nan", "dims/4")
    files = [
        path for name in names for path in files_to_read(name, ALL[name], written.arrays[name])
    ]
    expected = {path: content_of(written.root, path) for path in files}

    def work(number: int) -> None:
        chance = Random(number)
        order = chance.sample(files, len(files))
        for path in order:
            data = expected[path]
            with opened(root, path) as reader:
                for offset, size in slices_of(len(data), chance, 10):
                    assert read_range(reader, offset, size) == data[offset : offset + size]

    in_threads(6, work)
    store.close()


@pytest.mark.parametrize("ending", ["npy", "tiff"])
def test_one_open_file_read_by_threads_gives_the_same_bytes(written: Written, ending: str) -> None:
    path = rendering("shards/3d", ending)
    data = content_of(written.root, path)
    store = LocalStore(str(written.folder))
    with opened(images(store, cache_bytes=500), path) as reader:

        def work(number: int) -> None:
            for offset, size in slices_of(len(data), Random(number), 40):
                assert read_range(reader, offset, size) == data[offset : offset + size]

        in_threads(6, work)
    store.close()


@pytest.mark.parametrize("cache_bytes", [0, 1, 10 << 10])
def test_a_cache_that_holds_next_to_nothing_changes_no_byte(
    written: Written, cache_bytes: int
) -> None:
    store = LocalStore(str(written.folder))
    root = images(store, cache_bytes=cache_bytes)
    for name, layout in FEW.items():
        for path in files_to_read(name, layout, written.arrays[name]):
            assert content_of(root, path) == content_of(written.root, path), path
    store.close()


def test_a_metadata_time_to_live_of_zero_changes_no_byte(written: Written) -> None:
    store = LocalStore(str(written.folder))
    root = images(store, ttl_s=0)
    for name, layout in FEW.items():
        for path in files_to_read(name, layout, written.arrays[name]):
            assert content_of(root, path) == content_of(written.root, path), path
    store.close()
