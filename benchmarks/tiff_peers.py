"""What else makes Zarr of TIFF files: `tiff_peers.py convert|virtualizarr|kerchunk FOLDER OUT`.

`convert` copies pixels: tifffile reads, zarr-python writes, in two processes. The others list where tiles
are, in a JSON file of references (which `fsspec` reads): VirtualiZarr with virtual-tiff in threads, as its
documentation advises for many files; kerchunk's `tiff_to_zarr` in two processes. Run by `indexing`, the
latter two with the Python of `.venv/virtual`, which has no zarrfuse: nothing of it may be imported.
"""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

_PROCESSES = 2


def convert(files: list[Path], out: Path) -> None:
    """As `zarrfuse index` has it: an uncompressed shard for each file, with its tiles as inner chunks."""
    import tifffile
    import zarr

    page = tifffile.TiffFile(files[0]).pages.first
    zarr.create_array(
        str(out),
        shape=(len(files), *page.shape),
        dtype=page.dtype,
        chunks=(1, page.tilelength, page.tilewidth),
        shards=(1, *page.shape),
        compressors=None,
    )
    with ProcessPoolExecutor(_PROCESSES) as pool:
        list(pool.map(partial(_convert_one, out), range(len(files)), files, chunksize=8))


def _convert_one(out: Path, number: int, file: Path) -> None:
    import tifffile
    import zarr

    array = zarr.open_array(str(out), mode="r+")
    array[number] = tifffile.imread(file)


def virtualizarr(files: list[Path], out: Path) -> None:
    """References of a dataset with the dimensions t, y, x."""
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtual_tiff import VirtualTIFF
    from virtualizarr import open_virtual_mfdataset

    dataset = open_virtual_mfdataset(
        [f"file://{file.resolve()}" for file in files],
        ObjectStoreRegistry({"file://": LocalStore()}),
        VirtualTIFF(ifd=0),
        concat_dim="t",
        combine="nested",
        parallel=ThreadPoolExecutor,
    )
    dataset.vz.to_kerchunk(str(out), format="json")


def kerchunk(files: list[Path], out: Path) -> None:
    """References of one array."""
    from kerchunk.combine import concatenate_arrays

    with ProcessPoolExecutor(_PROCESSES) as pool:
        found = list(pool.map(_kerchunk_one, map(str, files), chunksize=8))
    out.write_text(json.dumps(concatenate_arrays(found, path="data", axis=0, check_arrays=True)))


def _kerchunk_one(file: str) -> dict[str, Any]:
    """The references of a file, with a dimension more in front."""
    from kerchunk.tiff import tiff_to_zarr

    found = tiff_to_zarr(file)
    document = json.loads(found[".zarray"])
    document["shape"].insert(0, 1)
    document["chunks"].insert(0, 1)
    own = {key: value for key, value in found.items() if key != ".zarray"}
    return {
        ".zgroup": '{"zarr_format": 2}',
        "data/.zarray": json.dumps(document),
        **{f"data/{key if key == '.zattrs' else f'0.{key}'}": own[key] for key in own},
    }


_KINDS: dict[str, Callable[[list[Path], Path], None]] = {
    "convert": convert,
    "virtualizarr": virtualizarr,
    "kerchunk": kerchunk,
}


if __name__ == "__main__":
    kind, folder, result = sys.argv[1:]
    _KINDS[kind](sorted(Path(folder).glob("*.tif")), Path(result))
