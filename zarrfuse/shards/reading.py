"""Reads the header of a file of any known format. Used by `indexing`."""

from typing import BinaryIO

from zarrfuse.shards.layout import FileArray, Refused

TIFF_ENDINGS = (".tif", ".tiff", ".btf", ".tf2", ".tf8")
HDF5_ENDINGS = (".h5", ".hdf5", ".hdf", ".he5")

_TIFF_HEADS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def read_arrays(name: str, file: BinaryIO, dataset: str | None = None) -> list[FileArray]:
    """The array in a file, and the smaller levels of it, if it is a pyramid.

    `name`: for messages; `dataset`: which one of an HDF5 file. Reads headers only. Raises `Refused`.
    """
    head = file.read(4)
    file.seek(0)
    if head in _TIFF_HEADS:
        from zarrfuse.shards.tiff import read_tiff  # noqa: PLC0415  # tifffile

        return read_tiff(name, file)
    from zarrfuse.shards.hdf5 import read_hdf5, start_of  # noqa: PLC0415  # numpy

    if start_of(file) is not None:
        return read_hdf5(name, file, dataset)
    raise Refused(f"{name}: is neither a TIFF nor an HDF5 file")


def ending_of(path: str) -> str:
    """The ending of the name of a file, with `.ome` if it has that: ".ome.tif"."""
    name = path.rpartition("/")[2]
    stem, dot, last = name.rpartition(".")
    if not stem:
        return ""
    return f".ome{dot}{last}" if stem.lower().endswith(".ome") and len(stem) > 4 else dot + last
