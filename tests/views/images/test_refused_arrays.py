"""What zarr-python would not decode is refused when it is opened, and not when it is read.

A program that has mapped a file is killed where a read fails.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from builders.documents import array, extension, v2_array
from builders.folders import write_keys
from builders.images_view import images
from builders.views import content_of, folder_at

from zarrfuse.errors import NotSupported
from zarrfuse.stores.local.store import LocalStore

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def sharded(codecs: list[Any], index_codecs: list[Any] | None = None) -> dict[str, Any]:
    """A codec of shards of 2 x 2 with inner chunks of 1 x 2."""
    configuration = {
        "chunk_shape": [1, 2],
        "codecs": codecs,
        "index_codecs": [BYTES, {"name": "crc32c"}] if index_codecs is None else index_codecs,
    }
    return {"name": "sharding_indexed", "configuration": configuration}


def of_floats(*codecs: Any) -> dict[str, Any]:
    return {"data_type": "float32", "fill_value": 0.0, "codecs": list(codecs)}


REFUSED: dict[str, dict[str, Any]] = {
    "bitround": of_floats(extension("bitround", keepbits=5), BYTES),
    "unknown codec of numcodecs": {"codecs": [BYTES, extension("numcodecs.nobody")]},
    "codec that is not installed": {"codecs": [extension("numcodecs.pcodec")]},
    "codec that is not installed, in shards": {
        "codecs": [sharded([extension("numcodecs.pcodec")])]
    },
    "codec that is configured wrongly": {"codecs": [BYTES, extension("numcodecs.zlib", depth=1)]},
    "filter to a type that is none": {
        "codecs": [extension("numcodecs.astype", encode_dtype="none", decode_dtype="|u1"), BYTES]
    },
    "transpose in shards, of other dimensions": {
        "codecs": [sharded([extension("transpose", order=[2, 1, 0]), BYTES])]
    },
    "transpose in shards, by a letter": {
        "codecs": [sharded([extension("transpose", order="F"), BYTES])]
    },
    "compressed index of shards": {
        "codecs": [sharded([BYTES], [BYTES, extension("gzip", level=1)])]
    },
}
V2_REFUSED: dict[str, dict[str, Any]] = {
    "arrays in records": {"dtype": [["a", "<u2", [2]]], "fill_value": None},
    "records in records": {"dtype": [["a", [["b", "|u1"]]]], "fill_value": None},
    "records with a number to fill": {"dtype": [["a", "|u1"]], "fill_value": 0},
    "filter that nobody has": {"filters": [{"id": "nobody"}]},
    "compressor that is not installed": {"compressor": {"id": "pcodec"}},
}


def assert_refused(folder: Path, path: str) -> None:
    """It is there, and opening it says that nobody can decode it."""
    store = LocalStore(str(folder))
    root = images(store)
    place, _, name = path.rpartition("/")
    assert folder_at(root, place).lookup(name).size > 0
    with pytest.raises(NotSupported, match=r"^a: zarr-python cannot decode it: "):
        folder_at(root, place).open(name)
    store.close()


@pytest.mark.parametrize("name", REFUSED)
def test_what_zarr_python_cannot_decode_is_refused_when_it_is_opened(
    name: str, tmp_path: Path
) -> None:
    write_keys(tmp_path, {"a/zarr.json": array(**REFUSED[name]), "a/c/0/0": bytes(16)})
    for path in ("a/a.npy", "a/a.tiff", "a/c/0/0.tiff", "a/c/1/1.tiff"):
        assert_refused(tmp_path, path)


@pytest.mark.parametrize("name", V2_REFUSED)
def test_what_it_cannot_decode_of_zarr_v2_is_refused_when_it_is_opened(
    name: str, tmp_path: Path
) -> None:
    document = {**json.loads(v2_array()), **V2_REFUSED[name]}
    write_keys(tmp_path, {"a/.zarray": json.dumps(document).encode(), "a/0.0": bytes(16)})
    assert_refused(tmp_path, "a/a.npy")


def test_what_it_cannot_decode_is_told_of(tmp_path: Path) -> None:
    write_keys(tmp_path, {"a/zarr.json": array(**REFUSED["bitround"])})
    node = images(LocalStore(str(tmp_path))).child("a")
    assert "bitround" in str(node.facts("zarr.json").to_json()["not_decoded"])


@pytest.mark.parametrize("order", [[1, 0], [0, 1]])
def test_a_transpose_in_shards_that_it_decodes_is_decoded(order: list[int], tmp_path: Path) -> None:
    codecs = [sharded([extension("transpose", order=order), BYTES])]
    write_keys(tmp_path, {"a/zarr.json": array(codecs=codecs)})
    stored = zarr.open_array(tmp_path / "a", mode="r+")
    stored[...] = values = np.arange(16, dtype="u1").reshape(4, 4)
    assert content_of(images(LocalStore(str(tmp_path))), "a/a.npy").endswith(values.tobytes())


def test_a_picture_of_a_coarser_level_that_is_refused_is_refused_when_it_is_opened(
    tmp_path: Path,
) -> None:
    datasets = [
        {
            "path": str(level),
            "coordinateTransformations": [{"type": "scale", "scale": [2**level] * 2}],
        }
        for level in range(2)
    ]
    axes = [{"name": name, "type": "space"} for name in "yx"]
    multiscales = [{"axes": axes, "datasets": datasets}]
    group = {"zarr_format": 3, "node_type": "group"}
    group["attributes"] = {"ome": {"version": "0.5", "multiscales": multiscales}}
    keys = {
        "zarr.json": json.dumps(group).encode(),
        "0/zarr.json": array((2048, 2048), (512, 512)),
        "1/zarr.json": array(
            (1024, 1024), (512, 512), codecs=[BYTES, extension("numcodecs.nobody")]
        ),
    }
    write_keys(tmp_path, keys)
    with pytest.raises(NotSupported, match=r"^1: zarr-python cannot decode it: "):
        folder_at(images(LocalStore(str(tmp_path))), "0").open("0.png")
