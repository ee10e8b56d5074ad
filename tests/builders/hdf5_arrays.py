"""Arrays whose only chunk is an HDF5 file, with what is needed to read them."""

from pathlib import Path

import numpy as np
import zarr

import zarrfuse
from zarrfuse.shards.documents import array_document, document_bytes
from zarrfuse.shards.hdf5 import read_hdf5
from zarrfuse.shards.index import shard_index
from zarrfuse.shards.layout import FileArray


def read_file(path: Path, dataset: str | None = None) -> FileArray:
    """What `read_hdf5` finds in a file."""
    with path.open("rb") as file:
        (array,) = read_hdf5(path.name, file, dataset)
    return array


def store_array(folder: Path, path: Path, array: FileArray, header_size: int | None = None) -> Path:
    """Store an array whose only chunk is a file, in two or three parts; the path of the main part."""
    layout = array.layout
    chunk_shape = [n * size for n, size in zip(array.grid, layout.inner_shape, strict=True)]
    document = array_document(
        layout,
        shape=array.shape,
        chunk_shape=chunk_shape,
        dimension_names=layout.axes,
        suffix=".h5",
        attributes=array.attributes,
        header_size=header_size,
    )
    key = folder.joinpath("c", *["0"] * (len(array.shape) - 1), "0.h5")
    key.parent.mkdir(parents=True)
    (folder / "zarr.json").write_bytes(document_bytes(document))
    data = path.read_bytes()
    key.write_bytes(data[header_size or 0 :])
    if header_size is not None:
        key.with_name("0.h5.header").write_bytes(data[:header_size])
    key.with_name("0.h5.index").write_bytes(shard_index(array, chunk_shape))
    return key


def pixels_of(folder: Path) -> np.ndarray:
    """The pixels that zarr-python reads."""
    with zarrfuse.open_store(folder) as store:
        return np.asarray(zarr.open_array(store, mode="r")[...])
