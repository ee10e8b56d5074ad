"""zarr-python, xarray and dask over `open_store`: pixel for pixel, and only what they need."""

import json
from pathlib import Path

import dask
import dask.array
import numpy as np
import pytest
import xarray
import zarr
from builders.concat_parts_examples import FILL_VALUE, write_crc32c_example, write_header_example
from builders.documents import concat_parts, suffix_keys
from builders.folders import write_keys

import zarrfuse
from zarrfuse.cli.demo_dataset import demo_image
from zarrfuse.zarr_python.store import PlainStore


@pytest.fixture
def cells(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A group with two arrays that have dimension names, in parts; and their pixels."""
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8)
    for name in ("image", "labels"):
        zarr.create_array(
            tmp_path / "whole" / name,
            data=pixels,
            chunks=(3, 4),
            dimension_names=("y", "x"),
            attributes={"unit": "um"},
            compressors=None,
        )
    write_keys(tmp_path / "cells", {"zarr.json": b'{"zarr_format": 3, "node_type": "group"}'})
    for name in ("image", "labels"):
        split_into_parts(tmp_path / "whole" / name, tmp_path / "cells" / name)
    return tmp_path / "cells", pixels


def split_into_parts(whole: Path, target: Path) -> None:
    """An array of zarr-python with each chunk in two parts, under other keys."""
    document = json.loads((whole / "zarr.json").read_text())
    document["chunk_key_encoding"] = suffix_keys(".bin")
    document["storage_transformers"] = [concat_parts(("", 5), ".rest")]
    keys = {"zarr.json": json.dumps(document).encode()}
    for chunk in (whole / "c").rglob("*"):
        if chunk.is_file():
            key, data = f"{chunk.relative_to(whole)}.bin", chunk.read_bytes()
            keys |= {key: data[:5], f"{key}.rest": data[5:]}
    write_keys(target, keys)


@pytest.fixture
def read_keys(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of chunks that are read."""
    read: list[str] = []
    real = PlainStore._read

    def noted(self, key, *arguments, **named):
        found = real(self, key, *arguments, **named)
        if found is not None and not key.endswith("zarr.json"):
            read.append(key)
        return found

    monkeypatch.setattr(PlainStore, "_read", noted)
    return read


def test_the_crc32c_example_is_read_pixel_for_pixel(tmp_path: Path) -> None:
    expected = write_crc32c_example(tmp_path)
    assert np.array_equal(zarr.open_array(zarrfuse.open_store(tmp_path))[:], expected)


def test_a_checksum_that_is_wrong_is_an_error(tmp_path: Path) -> None:
    write_crc32c_example(tmp_path)
    (tmp_path / "c/0/1.crc32c").write_bytes(b"nope")
    opened = zarr.open_array(zarrfuse.open_store(tmp_path))
    with pytest.raises(ValueError, match="checksum"):
        opened[:, 500:]


@pytest.mark.parametrize("codec", ["packbits", "bytes"])
def test_the_header_example_is_read_pixel_for_pixel(tmp_path: Path, codec: str) -> None:
    expected = write_header_example(tmp_path, codec)
    opened = zarr.open_array(zarrfuse.open_store(tmp_path))
    assert opened.shards == (5000, 5000)
    assert opened.chunks == (500, 500)
    assert np.array_equal(opened[:], expected)
    assert np.array_equal(opened[4999:5001:1, 9990:], expected[4999:5001, 9990:])
    assert (opened[:5000, 5000:] == FILL_VALUE).all()


def test_every_array_of_the_demo_is_read(demo: Path) -> None:
    group = zarr.open(zarrfuse.open_store(demo), path="cells.zarr")
    arrays = dict(group.arrays())
    assert len(arrays) >= 5
    for name, array in arrays.items():
        image = demo_image() if array.dtype == np.uint16 else (demo_image() >> 8).astype("u1")
        assert np.array_equal(array[:], image), name


def test_xarray_reads_by_dimension_names_and_lazily(
    cells: tuple[Path, np.ndarray], read_keys: list[str]
) -> None:
    folder, pixels = cells
    dataset = xarray.open_zarr(zarrfuse.open_store(folder), consolidated=False, chunks=None)
    assert dataset.image.dims == ("y", "x")
    assert dataset.image.attrs == {"unit": "um"}
    assert read_keys == []
    assert np.array_equal(dataset.labels.isel(y=slice(0, 3), x=1), pixels[:3, 1])
    assert read_keys == ["labels/c/0/0"]
    assert np.array_equal(dataset.image, pixels)


def test_dask_reads_the_chunks_it_computes(
    cells: tuple[Path, np.ndarray], read_keys: list[str]
) -> None:
    folder, pixels = cells
    image = dask.array.from_zarr(zarr.open_array(zarrfuse.open_store(folder), path="image"))
    assert image.chunksize == (3, 4)
    assert read_keys == []
    assert np.array_equal(image[4:, 5:].compute(), pixels[4:, 5:])
    assert read_keys == ["image/c/1/1"]
    assert image.sum().compute() == pixels.sum()


@pytest.mark.parametrize("scheduler", ["threads", "processes", "synchronous"])
def test_dask_reads_with_each_of_its_schedulers(
    cells: tuple[Path, np.ndarray], scheduler: str
) -> None:
    folder, pixels = cells
    store = zarrfuse.open_store(folder)
    image = dask.array.from_zarr(store, component="labels")
    with dask.config.set(scheduler=scheduler, num_workers=2):
        assert np.array_equal(image.compute(), pixels)
