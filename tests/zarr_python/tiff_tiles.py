"""Tiles cut out of TIFF files, and chunks of zarr-python made of their bytes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

Json = Any

LZW = {"name": "imagecodecs_lzw"}
PACKBITS = {"name": "imagecodecs_packbits"}
DEFLATE = {"name": "numcodecs.zlib", "configuration": {}}
LZMA = {"name": "numcodecs.lzma", "configuration": {}}
ZSTD = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}


def image(name: str, **configuration: Any) -> Json:
    return {"name": f"imagecodecs_{name}", "configuration": configuration}


def plain(byte_order: str) -> Json:
    endian = {"<": "little", ">": "big"}[byte_order]
    return {"name": "bytes", "configuration": {"endian": endian}}


def predicted(predictor: int, byte_order: str, axis: int) -> list[Json]:
    """The codecs in front of the compression."""
    configuration = {"axis": axis, "dist": 1}
    if predictor == 3:
        return [{"name": "imagecodecs_floatpred", "configuration": configuration}]
    delta = {"name": "imagecodecs_delta", "configuration": configuration}
    return [plain(byte_order)] if predictor == 1 else [delta, plain(byte_order)]


def pixels(dtype: str, samples: int, size: int = 48) -> np.ndarray:
    """A gradient with noise, of shape (y, x) or (y, x, samples), below 256."""
    y, x, s = np.ogrid[:size, :size, :samples]
    noise = np.random.default_rng(1).integers(0, 9, (size, size, samples))
    values = ((y + 2 * x + 11 * s) % 240 + noise).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values = values / np.array(7, dtype)
    elif np.dtype(dtype).itemsize > 1:
        values *= 101
    return values if samples > 1 else values[..., 0]


def write(path: Path, data: np.ndarray, **options: Any) -> Path:
    """A file of tifffile with tiles of 16 x 16."""
    colour = data.ndim == 3
    options = {"photometric": "rgb" if colour else "minisblack", "tile": (16, 16), **options}
    if colour:
        options.setdefault("planarconfig", "contig")
    tifffile.imwrite(path, data, **options)
    return path


def gdal(source: Path, target: Path, *options: str, tiled: bool = True) -> Path:
    """A copy that GDAL writes, with tiles of 16 x 16 or strips of 16 rows."""
    sizes = ["BLOCKYSIZE=16", *(["TILED=YES", "BLOCKXSIZE=16"] if tiled else [])]
    given = [word for option in (*sizes, *options) for word in ("-co", option)]
    subprocess.run(["gdal_translate", "-q", *given, source, target], check=True)
    return target


def tile(path: Path, index: int = 0) -> tuple[bytes, np.ndarray, tifffile.TiffPage]:
    """(its bytes, its pixels as tifffile decodes them, its page): (y, x) or (y, x, samples)."""
    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        file.filehandle.seek(page.dataoffsets[index])
        data = file.filehandle.read(page.databytecounts[index])
        decoded, _, shape = page.decode(data, index, jpegtables=page.jpegtables)
    decoded = decoded.reshape(shape)[0]
    return data, decoded[..., 0] if decoded.shape[-1] == 1 else decoded, page


def store_of(data: bytes, codecs: list[Json], dtype: Any, shape: tuple[int, ...]) -> MemoryStore:
    """An array of one chunk with these bytes."""
    dtype = np.dtype(dtype)
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": False if dtype.kind == "b" else 0,
        "codecs": codecs,
        "attributes": {},
    }
    buffer = default_buffer_prototype().buffer
    key = "/".join(["c", *("0" * len(shape))])
    return MemoryStore(
        {
            "zarr.json": buffer.from_bytes(json.dumps(document).encode()),
            key: buffer.from_bytes(data),
        }
    )


def decoded(data: bytes, codecs: list[Json], dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(zarr.open_array(store_of(data, codecs, dtype, shape), mode="r")[...])
