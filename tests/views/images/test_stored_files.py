"""What is shown as it is stored: documents of both formats, other files, and chunks that are TIFF files."""

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tifffile
from builders.documents import array, concat_parts, group, suffix_keys, v2_array
from builders.fake_stores import MemoryStore
from builders.folders import write_keys
from builders.images_view import images, slices_of
from builders.readers import read_range
from builders.views import content_of, folder_at, opened

from zarrfuse.errors import Corrupt, NotFound
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.choice import open_view

SPACED = json.dumps(json.loads(array()), indent=7).encode() + b"\n\n"
SPACED_V2 = json.dumps(json.loads(v2_array()), indent=5).encode() + b"\n"

STORED = {
    "zarr.json": b' { "node_type":"group",\n\t"zarr_format":3 } ',
    "a/zarr.json": SPACED,
    "README.txt": b"hello",
    "OME/METADATA.ome.xml": b"<OME/>",
    "OME/zarr.json": group(attributes={"ome": {"version": "0.5"}}),
    "a/notes/deep.bin": bytes(range(256)),
    "folder/file": b"in no node",
    "folder/empty": b"",
    "v2/.zgroup": b'{"zarr_format"  :2}',
    "v2/.zattrs": b'{"multiscales":[{"datasets":[{"path":"0"}], "version": "0.4"}]}\n',
    "v2/.zmetadata": b'{"metadata": {}, "zarr_consolidated_format": 1}',
    "v2/0/.zarray": SPACED_V2,
    "v2/0/.zattrs": b'{"_ARRAY_DIMENSIONS": ["y", "x"],  "odd": NaN}',
    "v2/0/labels.csv": b"1,2",
}


def test_documents_and_files_of_no_node_are_shown_byte_for_byte(tmp_path: Path) -> None:
    chunks = {"a/c/0/0": b"\1\2\3\4", "v2/0/0.0": b"no zstd", "v2/0/1.1": b"none either"}
    write_keys(tmp_path, {**STORED, **chunks})
    store = LocalStore(str(tmp_path))
    root = images(store)
    for path, data in STORED.items():
        assert content_of(root, path) == data, path
    for path in chunks:
        with pytest.raises(NotFound):
            content_of(root, path)
    store.close()


def tiff_of(folder: Path, values: "np.ndarray[tuple[int, ...], np.dtype[np.uint16]]") -> bytes:
    file = folder / "one.tif"
    tifffile.imwrite(file, values, tile=(16, 16), compression="zlib")
    return file.read_bytes()


@pytest.mark.parametrize("suffix", [".tiff", ".tif", "/data.tiff"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_chunks_that_are_tiff_files_are_those_of_the_chunks_view(
    tmp_path: Path, suffix: str, parts: int
) -> None:
    keys: dict[str, bytes] = {}
    transformers = [concat_parts(*("", ".2", ".3")[:parts])] if parts > 1 else []
    members = {"keys": suffix_keys(suffix), "transformers": transformers, "data_type": "uint16"}
    keys["a/zarr.json"] = array((40, 70), (32, 32), **members)
    for row, column in ((0, 0), (0, 2), (1, 1)):
        values = np.random.default_rng(row + column).integers(0, 99, (32, 32)).astype("u2")
        data = tiff_of(tmp_path, values)
        cuts = [0, *(len(data) * n // parts for n in range(1, parts)), len(data)]
        for number in range(parts):
            key = f"a/c/{row}/{column}{suffix}{('', '.2', '.3')[number]}"
            keys[key] = data[cuts[number] : cuts[number + 1]]
    store = MemoryStore(keys)
    shown, chunks = images(store), open_view("chunks", store, float("inf"))
    for row, column in ((0, 0), (0, 2), (1, 1)):
        path, stored = f"a/c/{row}/{column}.tiff", f"a/c/{row}/{column}{suffix}"
        data = content_of(shown, path)
        assert data == content_of(chunks, stored)
        assert data[:4] in (b"II*\0", b"MM\0*")
        with opened(shown, path) as reader, opened(chunks, stored) as merged:
            assert (reader.size, reader.mtime_ns) == (merged.size, merged.mtime_ns)
            for offset, size in slices_of(len(data), Random(path), 25):
                assert read_range(reader, offset, size) == read_range(merged, offset, size)


def test_the_first_chunk_that_can_be_read_tells_what_all_are(tmp_path: Path) -> None:
    stored = tiff_of(tmp_path, np.zeros((32, 32), "u2"))
    members = {"keys": suffix_keys(".tiff"), "transformers": [concat_parts("", ".2")]}
    keys = {"a/zarr.json": array((64, 64), (32, 32), data_type="uint16", **members)}
    keys |= {"a/c/0/0.tiff": stored[:50]}  # its other part is missing
    keys |= {"a/c/1/1.tiff": stored[:50], "a/c/1/1.tiff.2": stored[50:]}
    root = images(MemoryStore(keys))
    assert content_of(root, "a/c/1/1.tiff") == stored
    with pytest.raises(Corrupt, match=r"part `\.2` is missing"):
        content_of(root, "a/c/0/0.tiff")


@pytest.mark.parametrize(
    "data_type, fill", [("int64", 0), ("complex64", [0.0, 0.0]), ("example.mine", 0)]
)
def test_chunks_that_are_tiff_files_are_shown_whatever_their_type(
    tmp_path: Path, data_type: str, fill: object
) -> None:
    stored = tiff_of(tmp_path, np.arange(1024, dtype="u2").reshape(32, 32))
    document = array(
        (64, 64),
        (32, 32),
        keys=suffix_keys(".tif"),
        data_type=data_type,
        fill_value=fill,
        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
    )
    root = images(MemoryStore({"a/zarr.json": document, "a/c/1/0.tif": stored}))
    folder = folder_at(root, "a")
    assert "c" in folder.list()
    assert "a.tiff" not in folder.list()
    assert list(folder.child("c").list()) == ["1"]
    assert list(folder.child("c").child("1").list()) == ["0.tiff"]
    assert content_of(root, "a/c/1/0.tiff") == stored
    told = folder.facts(None).to_json()["renderings"]
    assert told["c/1/0.tiff"] == len(stored)
    assert isinstance(told["a.tiff"], str)
    for absent in ("a/c/0/0.tiff", "a/c/1/1.tiff"):
        with pytest.raises(NotFound):  # nobody can say its fill value in TIFF
            content_of(root, absent)
