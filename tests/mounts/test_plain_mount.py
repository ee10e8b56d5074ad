"""zarr-python reads through a mount of the `plain` view what it cannot read, or did not write so."""

import errno
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from builders.documents import array, concat_parts, default_keys, group, suffix_keys
from builders.folders import write_keys
from builders.mounts import info, zarrfuse

from zarrfuse.cli.demo_dataset import demo_image
from zarrfuse.mounts import kernel_mounts

Mounter = Callable[..., Path]
Store = tuple[Path, dict[str, Any]]

TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    """Values that differ from each other and from the fill value."""
    return (np.arange(np.prod(shape, dtype=int)) + 1).reshape(shape).astype(dtype)


def write(folder: Path, name: str, shape: tuple[int, ...], dtype: str, **options: Any) -> Any:
    """An array that zarr-python writes into `folder`, and its values."""
    made = zarr.create_array(folder, name=name, shape=shape, dtype=dtype, **options)
    values = numbers(shape, dtype)
    made[...] = values
    return values


def v3_keys(name: str, separator: str) -> dict[str, Any]:
    return {"chunk_key_encoding": {"name": name, "separator": separator}}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A folder of arrays in many layouts, and their values by name."""
    folder = tmp_path_factory.mktemp("written")
    values: dict[str, Any] = {}

    def put(name: str, shape: tuple[int, ...], dtype: str = "uint16", **options: Any) -> None:
        values[name] = write(folder, name, shape, dtype, **options)

    for dtype in TYPES:
        put(f"types/{dtype}", (5, 7), dtype, chunks=(2, 3))
    for name in ("default", "v2"):
        for mark, separator in (("slash", "/"), ("dot", ".")):
            keys = v3_keys(name, separator)
            put(f"{name}-{mark}/2d", (5, 7), chunks=(2, 3), **keys)
            put(f"{name}-{mark}/3d", (3, 4, 5), chunks=(1, 2, 3), **keys)
            put(f"{name}-{mark}/scalar", (), **keys)
            put(f"{name}-{mark}/shards", (8, 8), chunks=(2, 2), shards=(4, 4), **keys)
    zarr.consolidate_metadata(folder)
    for dtype in (*TYPES, ">i4", ">f8", ">c16"):
        put(f"v2/types/{dtype}", (5, 7), dtype, chunks=(2, 3), zarr_format=2)
    for order in ("C", "F"):
        for mark, separator in (("slash", "/"), ("dot", ".")):
            options = {"order": order, "zarr_format": 2, **v3_keys("v2", separator)}
            put(f"v2/{order}-{mark}/3d", (3, 4, 5), chunks=(1, 2, 3), **options)
            put(f"v2/{order}-{mark}/scalar", (), **options)
    for name, compressor in {
        "none": None,
        "gzip": zarr_codec("gzip", level=2),
        "zstd": zarr_codec("zstd", level=3),
        "blosc": zarr_codec("blosc", cname="lz4", clevel=5, shuffle=-1),
        "bits": zarr_codec("blosc", cname="zstd", clevel=1, shuffle=2),
    }.items():
        options = {"compressors": compressor, "zarr_format": 2}
        put(f"v2/compressors/{name}", (50, 70), "<i4", chunks=(20, 30), **options)
    return folder, values


def zarr_codec(name: str, **configuration: Any) -> Any:
    """A compressor of Zarr v2."""
    from numcodecs import get_codec

    return get_codec({"id": name, **configuration})


def test_zarr_python_reads_what_it_wrote_in_any_layout(written: Store, mounted: Mounter) -> None:
    folder, values = written
    point = mounted(folder, "--view", "plain", "--cache-ttl", "inf")
    for name, expected in values.items():
        found = zarr.open_array(point / name, mode="r", zarr_format=3)
        assert found.dtype == expected.dtype or name.startswith("v2"), name
        np.testing.assert_array_equal(found[...], expected, err_msg=name)
        stored = json.loads((point / name / "zarr.json").read_bytes())
        assert stored["chunk_key_encoding"] == default_keys(), name
        chunks = {path for path in (point / name).rglob("*") if path.is_file()}
        assert {str(p.relative_to(point / name))[0] for p in chunks} == {"c", "z"}, name


def test_consolidated_metadata_leads_to_the_chunks(written: Store, mounted: Mounter) -> None:
    folder, values = written
    point = mounted(folder, "--view", "plain")
    top = zarr.open_consolidated(point, mode="r", zarr_format=3)
    for name in ("v2-dot/3d", "default-dot/shards", "types/complex64"):
        np.testing.assert_array_equal(top[name][...], values[name])
    consolidated = json.loads((point / "zarr.json").read_bytes())["consolidated_metadata"]
    for name, document in consolidated["metadata"].items():
        if document["node_type"] == "array":
            assert document == json.loads((point / name / "zarr.json").read_bytes())


def test_the_demo_dataset_is_read_pixel_for_pixel(demo: Path, mounted: Mounter) -> None:
    point = mounted(demo, "--view", "plain")
    image = demo_image()
    for name in ("zstd", "raw", "strips"):
        found = zarr.open_array(point / "cells.zarr" / name, mode="r")
        np.testing.assert_array_equal(found[...], image)
        with pytest.raises(Exception, match=r"suffix|storage_transformers|chunk key"):
            zarr.open_array(demo / "cells.zarr" / name, mode="r")
    for name in ("header", "checksum"):
        found = zarr.open_array(point / "cells.zarr" / name, mode="r")
        np.testing.assert_array_equal(found[...], (image >> 8).astype(np.uint8))
    top = zarr.open_group(point / "cells.zarr", mode="r")
    assert sorted(top.array_keys()) == ["checksum", "header", "raw", "strips", "zstd"]
    assert sorted(os.listdir(point / "cells.zarr/zstd/c/0")) == ["0", "1", "2"]


def test_a_store_that_is_plain_already_is_shown_as_it_is(tmp_path: Path, mounted: Mounter) -> None:
    folder = tmp_path / "plain"
    top = zarr.create_group(folder, attributes={"t\u00fc": [1.5, {"a": None}]})
    write(folder, "a", (5, 7), "float32", chunks=(2, 3), attributes={"x": 1e300})
    write(folder, "g/b", (8, 8), "uint8", chunks=(2, 2), shards=(4, 4))
    write(folder, "g/scalar", (), "int64")
    top.create_group("empty")
    (folder / "README.txt").write_text("read me")
    zarr.consolidate_metadata(folder)
    point = mounted(folder, "--view", "plain")
    done = subprocess.run(
        ["diff", "-r", folder, point], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_sizes_are_known_before_a_document_is_opened(tmp_path: Path, mounted: Mounter) -> None:
    parts = [concat_parts("", (".tail", 1))]
    document = array(keys=suffix_keys(".tiff"), transformers=parts)
    write_keys(
        tmp_path / "s", {"zarr.json": document, "c/0/0.tiff": b"abc", "c/0/0.tiff.tail": b"d"}
    )
    point = mounted(tmp_path / "s", "--view", "plain")
    size = (point / "zarr.json").stat().st_size
    assert size == len((point / "zarr.json").read_bytes()) != len(document)
    assert (point / "c/0/0").stat().st_size == 4
    assert (point / "c/0/0").read_bytes() == b"abcd"


def test_a_refused_node_is_skipped_by_who_reads_its_group_and_its_child_nodes_work(
    tmp_path: Path, mounted: Mounter
) -> None:
    keys = {
        "zarr.json": group(),
        "bad/zarr.json": array(extensions=["x.unknown"]),
        "bad/c/0/0": b"0123",
        "unfilled/zarr.json": array().replace(b'"fill_value": 0, ', b""),
        "unfilled/c/0/0": b"0123",
        "bad/good/zarr.json": array((2, 2)),
        "bad/good/c/0/0": b"0123",
    }
    write_keys(tmp_path / "s", keys)
    point = mounted(tmp_path / "s", "--view", "plain")
    for name in ("bad", "unfilled"):
        assert (point / name / "zarr.json").stat().st_size == len(keys[f"{name}/zarr.json"])
        with pytest.raises(FileNotFoundError):
            (point / name / "zarr.json").read_bytes()
        with pytest.raises(OSError) as refused:
            (point / name / "c/0/0").read_bytes()
        assert refused.value.errno == errno.ENOTSUP
        with pytest.raises(FileNotFoundError):
            zarr.open_array(point / name, mode="r")
        copy = ["cp", "-r", point / name, tmp_path / f"{name} copied"]
        copied = subprocess.run(copy, capture_output=True, text=True, check=False)
        assert copied.returncode == 1
        assert "zarr.json' for reading: No such file" in copied.stderr
    with pytest.warns(UserWarning, match="bad is not recognized") as skipped:
        assert list(zarr.open_group(point, mode="r").members()) == []
    assert len(skipped) == 2
    good = zarr.open_array(point / "bad/good", mode="r")
    assert good[...].tobytes() == b"0123"
    told = zarrfuse("info", point).stdout
    assert "not loaded: unfilled/zarr.json: fill_value: is missing" in told


def test_zarr_v2_without_a_word_for_it_is_read_as_zarr_v2(tmp_path: Path, mounted: Mounter) -> None:
    folder = tmp_path / "s"
    zarr.create_group(folder, zarr_format=2)
    zlib = zarr_codec("zlib", level=1)
    values = write(folder, "a", (5, 7), "<i4", chunks=(2, 3), zarr_format=2, compressors=zlib)
    point = mounted(folder, "--view", "plain")
    assert sorted(os.listdir(point)) == sorted(os.listdir(folder))
    found = zarr.open_group(point, mode="r")["a"]
    np.testing.assert_array_equal(found[...], values)
    told = zarrfuse("info", point).stdout
    assert "kept as Zarr v2: a/.zarray: the codec 'zlib' has no equivalent in Zarr v3" in told


def test_every_view_side_by_side(demo: Path, mounted: Mounter) -> None:
    point = mounted(demo, "--view", "all")
    assert sorted(os.listdir(point)) == ["chunks", "images", "plain", "raw"]
    merged = (point / "chunks/cells.zarr/zstd/c/0/1.tiff").read_bytes()
    assert (point / "plain/cells.zarr/zstd/c/0/1").read_bytes() == merged
    parts = [point / f"raw/cells.zarr/zstd/c/0/1.tiff{suffix}" for suffix in ("", ".index")]
    assert b"".join(part.read_bytes() for part in parts) == merged
    facts = info(point, "plain/cells.zarr/zstd/c/0/1")
    assert facts["stored_key"] == "c/0/1.tiff"
    assert facts["path"] == "plain/cells.zarr/zstd/c/0/1"
    assert info(point, "chunks/cells.zarr/zstd/zarr.json")
    told = zarrfuse("info", point).stdout
    assert told.count("zstd  array") == 3
    assert not os.path.exists(point / "plain/.zarrfuse")
    assert kernel_mounts.mount_at(str(point)) is not None
