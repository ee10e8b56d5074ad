"""The demonstration dataset: a fluorescence picture, stored with `concat-parts` in five ways.

Used by `zarrfuse demo` and by the tests of real programs, which check it with other readers. It knows the
formats it writes (Zarr v3, TIFF); it must not know mounts, stores or views.

The parts of every shard are written here, without zarr-python, which refuses storage transformers. TIFF
tiles are compressed with numcodecs and passed to tifffile as they are, because imagecodecs is an extra.
tifffile, numpy and numcodecs are imported where they are needed.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    Image: TypeAlias = NDArray[np.uint16] | NDArray[np.uint8]

TiffKind: TypeAlias = Literal["zstd tiles", "tiles", "strip"]

SHAPE = (1024, 1536)
CHUNK = 512
TILE = 256
PIXEL_UM = 0.325

_HEADER_BYTES = 64
_TITLE = "zarrfuse demonstration dataset"

_README = f"""\
{_TITLE}
==============================

One picture of cells, 1024 x 1536 pixels (0.325 um each), stored five times in cells.zarr.
Each copy is a Zarr v3 array of 2 x 3 chunks. They differ in how a chunk is stored: always as
several files ("parts") that have to be joined, as the concat-parts storage transformer in
its zarr.json says.

  zstd      1.tiff        a tiled TIFF file, zstd compressed, 16 bit
            1.tiff.index  where its tiles are, so that Zarr can read it too
  raw       the same, not compressed
  strips    the same, not compressed and in one strip: what ImageJ without plugins opens
  header    1.header      64 bytes of text
            1             the data, zstd compressed, 8 bit
            1.index       where the pieces of the data are
  checksum  1             the data, zstd compressed, 8 bit
            1.crc32c      its checksum

Mounted with zarrfuse, the parts of a chunk are one file. Open one in any image viewer:

  zarrfuse mount <this folder> <an empty folder>
  xdg-open <the empty folder>/cells.zarr/strips/c/0/1.tiff

The picture is computed. You may do with these files whatever you like.
"""


def demo_image() -> NDArray[np.uint16]:
    """The picture of the dataset: cells with bright nuclei, (1024, 1536) uint16, always the same.

    Values span most of the 16-bit range in steps of 64, like those of a 10-bit camera shifted up: viewers
    that keep only the high byte still show it, and it compresses well.
    """
    import numpy as np  # noqa: PLC0415

    rng = np.random.default_rng(20240229)
    height, width = SHAPE
    rows = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    columns = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    picture = 3600 - 1500 * (rows**2 + columns**2) / 2  # uneven illumination
    for y, x, radius in _cell_positions(rng):
        _add_cell(picture, rng, y, x, radius)
    noise = rng.standard_normal(SHAPE, dtype=np.float32)
    picture += noise * (0.45 * np.sqrt(picture))
    # Saturates softly: bright nuclei keep their texture.
    picture = 64000 * (1 - np.exp(-picture / 30000))
    return (picture.clip(0, 65535).astype(np.uint16) // 64) * np.uint16(64)


def write_demo(folder: str | os.PathLike[str]) -> None:
    """Write the demonstration dataset as `folder`: `README.txt` and the Zarr group `cells.zarr`.

    The bytes are always the same. The dataset is written beside `folder` and renamed, so that it appears
    whole. An existing demonstration dataset is not changed.

    Raises FileExistsError if `folder` is something else, and not an empty folder.
    """
    folder = Path(folder).resolve()
    if _is_demo(folder):
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists and is not the {_TITLE}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as private:
        whole = Path(private) / "whole"  # with the usual permissions, unlike `private`
        _write_dataset(whole)
        try:
            whole.rename(folder)
        except OSError:
            if not _is_demo(folder):  # else another process has written the same bytes
                raise


def _is_demo(folder: Path) -> bool:
    try:
        with (folder / "README.txt").open(encoding="utf-8") as readme:
            return readme.readline().rstrip("\n") == _TITLE
    except (OSError, UnicodeDecodeError):
        return False


def _write_dataset(folder: Path) -> None:
    import numpy as np  # noqa: PLC0415

    from zarrfuse.shards.documents import DEFAULT_KEYS  # noqa: PLC0415  # with numpy
    from zarrfuse.shards.encoded import CHECKSUM_BYTES  # noqa: PLC0415  # as above

    image = demo_image()
    image8 = (image >> 8).astype(np.uint8)
    group = folder / "cells.zarr"
    _write_json(group / "zarr.json", _group_metadata())

    tiffs: list[tuple[str, TiffKind, int, list[dict[str, Any]]]] = [
        ("zstd", "zstd tiles", TILE, [_bytes_codec(image), _zstd_codec()]),
        ("raw", "tiles", TILE, [_bytes_codec(image)]),
        ("strips", "strip", CHUNK, [_bytes_codec(image)]),
    ]
    for name, kind, tile, inner in tiffs:
        _write_json(
            group / name / "zarr.json", _shards_metadata(image, tile, inner, suffix=".tiff")
        )
        for key, chunk in _chunks(image):
            tiff, extents = _tiff_file(chunk, kind)
            _write_part(group / name / f"{key}.tiff", tiff)
            _write_part(group / name / f"{key}.tiff.index", _index(extents))

    zstd = [_bytes_codec(image8), _zstd_codec()]
    header_metadata = {  # without a suffix of its keys
        **_shards_metadata(image8, TILE, zstd, header_size=_HEADER_BYTES),
        "chunk_key_encoding": DEFAULT_KEYS,
    }
    parts = [{"key_suffix": ""}, {"key_suffix": ".crc32c", "size": CHECKSUM_BYTES}]
    checksum_metadata = {
        **header_metadata,
        "codecs": [*zstd, {"name": "crc32c"}],
        "storage_transformers": [{"name": "concat-parts", "configuration": {"parts": parts}}],
    }
    _write_json(group / "header" / "zarr.json", header_metadata)
    _write_json(group / "checksum" / "zarr.json", checksum_metadata)
    for key, chunk in _chunks(image8):
        header, body, extents = _shard_with_header(key, chunk)
        _write_part(group / "header" / f"{key}.header", header)
        _write_part(group / "header" / key, body)
        _write_part(group / "header" / f"{key}.index", _index(extents))
        compressed = _zstd(chunk)
        _write_part(group / "checksum" / key, compressed)
        _write_part(group / "checksum" / f"{key}.crc32c", _crc32c(compressed))

    _write_part(folder / "README.txt", _README.encode())


# The picture


def _cell_positions(rng: np.random.Generator) -> Iterator[tuple[float, float, float]]:
    """Centres and nuclear radii in pixels, on a jittered grid, so that cells touch but do not pile up."""
    pitch = 118
    height, width = SHAPE
    for line, y in enumerate(range(pitch // 3, height, pitch)):
        for x in range(pitch // 3 + (line % 2) * pitch // 2, width, pitch):
            shift = rng.uniform(-34, 34, 2)
            radius = rng.uniform(17, 27)
            if rng.random() > 0.12:
                yield y + shift[0], x + shift[1], radius


def _add_cell(
    picture: NDArray[np.floating[Any]], rng: np.random.Generator, y: float, x: float, radius: float
) -> None:
    """Add one cell to `picture`: a dim, ragged body, a bright nucleus, and a few spots in it."""
    import numpy as np  # noqa: PLC0415

    angle, stretch, bright = rng.uniform(0, math.pi), rng.uniform(1.05, 1.5), rng.uniform(0.6, 1.35)
    phases = rng.uniform(0, 2 * math.pi, 2).tolist()
    spots = rng.normal(0, 0.4, (5, 2)).tolist()
    reach = int(radius * 5)
    top, left = max(int(y) - reach, 0), max(int(x) - reach, 0)
    patch = picture[top : int(y) + reach, left : int(x) + reach]
    dy = (np.arange(top, top + patch.shape[0], dtype=np.float32) - y)[:, None] / radius
    dx = (np.arange(left, left + patch.shape[1], dtype=np.float32) - x)[None, :] / radius
    u = (math.cos(angle) * dx + math.sin(angle) * dy) / stretch
    v = (math.cos(angle) * dy - math.sin(angle) * dx) * stretch
    distance = np.sqrt(u * u + v * v)
    ragged = 1 + 0.13 * np.sin(3 * np.arctan2(v, u) + phases[0])
    fibres = 1 + 0.09 * np.sin(9 * u + 3 * v + phases[1])
    patch += bright * 8000 * np.exp(-((distance / (2.1 * ragged)) ** 4)) * fibres
    nucleus = 1 / (1 + np.exp((distance - 1) * 11))
    texture = np.ones_like(nucleus)
    for spot_v, spot_u in spots:
        texture += 0.55 * np.exp(-((u - spot_u) ** 2 + (v - spot_v) ** 2) / 0.03)
    patch += bright * 27000 * nucleus * texture


# The chunks


def _chunks(image: Image) -> Iterator[tuple[str, Image]]:
    """The chunks of `image` with their keys in the `default` encoding, in C order."""
    for row in range(image.shape[0] // CHUNK):
        for column in range(image.shape[1] // CHUNK):
            yield f"c/{row}/{column}", _block(image, row, column, CHUNK)


def _block(image: Image, row: int, column: int, size: int) -> Image:
    return image[row * size : (row + 1) * size, column * size : (column + 1) * size]


def _tiles(chunk: Image) -> Iterator[Image]:
    """The inner chunks of `chunk` in C order: the order of TIFF tiles and of a shard's index."""
    for row in range(chunk.shape[0] // TILE):
        for column in range(chunk.shape[1] // TILE):
            yield _block(chunk, row, column, TILE)


def _tiff_file(chunk: Image, kind: TiffKind) -> tuple[bytes, list[tuple[int, int]]]:
    """A little-endian TIFF file of `chunk`, and (offset, bytes) of each tile or the one strip."""
    import tifffile  # noqa: PLC0415

    options: dict[str, Any] = {
        "shape": chunk.shape,
        "dtype": chunk.dtype,
        "photometric": "minisblack",
        "metadata": None,
        "software": "zarrfuse",
        "resolution": (1e4 / PIXEL_UM, 1e4 / PIXEL_UM),
        "resolutionunit": "CENTIMETER",
    }
    file = io.BytesIO()
    with tifffile.TiffWriter(file, byteorder="<") as writer:
        if kind == "strip":
            writer.write(chunk, rowsperstrip=CHUNK, **options)
        elif kind == "tiles":
            writer.write(_tiles(chunk), tile=(TILE, TILE), **options)
        else:
            encoded = (_zstd(tile) for tile in _tiles(chunk))
            writer.write(encoded, tile=(TILE, TILE), compression="zstd", **options)
    file.seek(0)
    with tifffile.TiffFile(file) as tiff:
        page = tiff.pages.first
        extents = list(zip(page.dataoffsets, page.databytecounts, strict=True))
    return file.getvalue(), extents


def _shard_with_header(key: str, chunk: Image) -> tuple[bytes, bytes, list[tuple[int, int]]]:
    """Header, tiles, and (offset, bytes) of each tile from the start of the header."""
    banner = f"zarrfuse demo, chunk {key}: a Zarr shard with a header"
    header = banner.encode("ascii").ljust(_HEADER_BYTES - 1) + b"\n"
    body = b""
    extents = []
    for tile in _tiles(chunk):
        encoded = _zstd(tile)
        extents.append((len(header) + len(body), len(encoded)))
        body += encoded
    return header, body, extents


def _index(extents: list[tuple[int, int]]) -> bytes:
    """The index of a shard; `extents`: (offset, bytes) of each tile."""
    import numpy as np  # noqa: PLC0415

    from zarrfuse.shards.index import index_bytes  # noqa: PLC0415  # with numpy

    offsets, sizes = np.array(extents, np.uint64).T
    return index_bytes(offsets, sizes)


def _crc32c(data: bytes) -> bytes:
    import google_crc32c  # noqa: PLC0415

    return struct.pack("<I", google_crc32c.value(data))


def _zstd(chunk: Image) -> bytes:
    from numcodecs.zstd import Zstd  # noqa: PLC0415

    return bytes(Zstd(level=5).encode(chunk.tobytes()))


# The metadata


_LITTLE_ENDIAN = {"name": "bytes", "configuration": {"endian": "little"}}


def _bytes_codec(image: Image) -> dict[str, Any]:
    return {"name": "bytes"} if image.dtype.itemsize == 1 else _LITTLE_ENDIAN


def _zstd_codec() -> dict[str, Any]:
    return {"name": "zstd", "configuration": {"level": 5, "checksum": False}}


def _shards_metadata(
    image: Image,
    tile: int,
    codecs: list[dict[str, Any]],
    *,
    suffix: str = "",
    header_size: int | None = None,
) -> dict[str, Any]:
    """The document of `image` in shards of square tiles with these codecs; see `array_document`."""
    from zarrfuse.shards.documents import array_document  # noqa: PLC0415  # with numpy
    from zarrfuse.shards.layout import Layout  # noqa: PLC0415  # as above

    layout = Layout(image.dtype.name, ("y", "x"), (tile, tile), json.dumps(codecs))
    return array_document(
        layout,
        shape=image.shape,
        chunk_shape=(CHUNK, CHUNK),
        dimension_names=layout.axes,
        suffix=suffix,
        attributes={},
        header_size=header_size,
    )


def _group_metadata() -> dict[str, Any]:
    """An OME-Zarr 0.5 image of one resolution."""
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in ("y", "x")]
    scale = [{"type": "scale", "scale": [PIXEL_UM, PIXEL_UM]}]
    datasets = [{"path": "zstd", "coordinateTransformations": scale}]
    multiscales = [{"name": "cells", "axes": axes, "datasets": datasets}]
    return {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"ome": {"version": "0.5", "multiscales": multiscales}},
    }


def _write_json(path: Path, document: dict[str, Any]) -> None:
    from zarrfuse.shards.documents import document_bytes  # noqa: PLC0415  # with numpy

    _write_part(path, document_bytes(document))


def _write_part(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
