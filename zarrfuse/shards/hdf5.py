"""Reads where the chunks of an HDF5 dataset are, and how they are encoded, from the headers of a file.

Used by `indexing`, and by `exporting` to check what it wrote. It must not know keys or folders.
"""

import base64
import io
import json
import os
from collections.abc import Iterator
from math import prod
from typing import Any, BinaryIO

import numpy as np

from zarrfuse.shards.hdf5_filters import Filter, NoCodec, codecs_of, rewriting
from zarrfuse.shards.layout import (
    MISSING,
    Extents,
    FileArray,
    Layout,
    Refused,
    codecs_text,
    grid_of,
)

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_FIRST_USER_BLOCK = 512
_MOST_LINKS = 16
"""More soft links behind each other are not followed; the library has the same limit."""
_STRINGS = "write it again with strings filled with zeros, as h5py does: dtype='S10'"
_MOST_ELEMENTS = 4096
"""An attribute with more elements is data, not a description."""
_MOST_CHUNKS = 1 << 27
"""A file with more is damaged: their index alone would have 2 GiB."""
_PLUMBING = frozenset({"CLASS", "DIMENSION_LABELS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST"})
"""Attributes of the HDF5 library itself."""


def start_of(file: BinaryIO) -> int | None:
    """Where HDF5 begins in a file, behind a user block, such as that of MATLAB; None if it is no HDF5.

    Source: HDF5 File Format Specification, Superblock: at 0, 512, 1024, 2048, and so on.
    """
    size, start = file.seek(0, io.SEEK_END), 0
    while start + len(_SIGNATURE) <= size:
        file.seek(start)
        if file.read(len(_SIGNATURE)) == _SIGNATURE:
            return start
        start = start * 2 or _FIRST_USER_BLOCK
    return None


class _Behind(io.RawIOBase):
    """A file without its user block.

    Some versions of the library, such as that of h5py 3.11, say where chunks are as if there were none.
    """

    def __init__(self, file: Any, start: int) -> None:
        self._file = file
        self._start = start

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See `io.RawIOBase`."""
        more = self._start if whence == io.SEEK_SET else 0
        return int(self._file.seek(offset + more, whence)) - self._start

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        return int(self._file.readinto(buffer))


def read_hdf5(name: str, file: BinaryIO, dataset: str | None = None) -> list[FileArray]:
    """The one dataset of a file, or the one called `dataset`; only headers are read.

    Datasets that are only scales of dimensions are not counted.

    Args:
        name: The file, for messages.
        file: A file that can be read at any place.
        dataset: The path of a dataset, as `a/b`; soft links are followed, within the file.

    Raises:
        Refused: The file has none or several datasets, or its chunks are no Zarr chunks.
    """
    try:
        import h5py  # noqa: PLC0415
    except ImportError as error:
        raise Refused(f"{name}: needs the package h5py: pip install 'zarrfuse[hdf5]'") from error
    try:
        start = start_of(file) or 0
        with h5py.File(_Behind(file, start), "r") as opened:
            chosen = _chosen(name, opened, dataset)
            array = _array(f"{name}: the dataset {_text(chosen.name).lstrip('/')}", chosen)
    except (LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise Refused(f"{name}: cannot be read as HDF5: {error}") from error
    except OSError as error:
        if type(error) is not OSError or error.errno is not None:
            raise  # of `file`: what HDF5 raises has no errno
        raise Refused(f"{name}: cannot be read as HDF5: {error}") from error
    _check_extents(name, array, file.seek(0, io.SEEK_END) - start)
    array.offsets[array.offsets != MISSING] += np.uint64(start)
    return [array]


def _chosen(name: str, opened: Any, dataset: str | None) -> Any:
    import h5py  # noqa: PLC0415

    found: dict[str, Any] = {}

    def add(path: str | bytes, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            found[_text(path)] = node

    chosen = None if dataset is None else _followed(name, opened, dataset)
    if isinstance(chosen, h5py.Dataset):
        return chosen
    opened.visititems(add)  # follows no links into other files
    if dataset is not None:
        raise Refused(f"{name}: holds no dataset {dataset}; it has {_listed(found)}")
    pixels = {path: node for path, node in found.items() if not h5py.h5ds.is_scale(node.id)}
    if not pixels:
        raise Refused(f"{name}: holds no dataset")
    if len(pixels) > 1:
        shown = _listed(pixels)
        raise Refused(f"{name}: holds {len(pixels)} datasets ({shown}): choose one with --dataset")
    return next(iter(pixels.values()))


def _followed(name: str, opened: Any, path: str) -> Any:
    """The node at a path, through soft links; None if there is none. Opens no other file."""
    import h5py  # noqa: PLC0415

    node, left, links = opened, _text(path).split("/"), 0
    while left:
        step = left.pop(0)
        if step in ("", "."):
            continue
        link = node.get(step, getlink=True) if isinstance(node, h5py.Group) else None
        if isinstance(link, h5py.ExternalLink):
            other = _text(link.filename)
            raise Refused(
                f"{name}: {path} is a link into another file, {other}: index that file instead"
            )
        if isinstance(link, h5py.SoftLink):
            links += 1
            if links > _MOST_LINKS:
                return None
            target = _text(link.path)
            node = opened if target.startswith("/") else node
            left = [*target.split("/"), *left]
        else:
            node = node[step] if link is not None else None
    return node


def _text(text: str | bytes) -> str:
    """A name or text of a file, which may be no UTF-8, whatever the file says."""
    return os.fsencode(text).decode("utf-8", "replace")


def _listed(names: dict[str, Any]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:8] + ["..."] * (len(shown) > 8)) or "none"


# -- one dataset; `of` is what messages begin with


def _array(of: str, chosen: Any) -> FileArray:
    import h5py  # noqa: PLC0415

    if chosen.shape is None or 0 in chosen.shape or not chosen.shape:
        raise Refused(f"{of} has no dimensions or no elements")
    data_type, endian = _data_type(of, chosen)
    created = chosen.id.get_create_plist()
    filters = [
        Filter(number, tuple(values))
        for number, _, values, _ in map(created.get_filter, range(created.get_nfilters()))
    ]
    try:
        codecs = codecs_of(filters, chosen.dtype.itemsize, endian)
    except NoCodec as error:
        raise Refused(f"{of} {error}: write it again with {rewriting(filters)}") from error
    layout = created.get_layout()
    if created.get_external_count():
        raise Refused(f"{of} has its pixels in other files: write it again with h5repack -l CONTI")
    if layout == h5py.h5d.CHUNKED:
        inner_shape = chosen.chunks
        offsets, sizes = _chunks(of, chosen, filters)
    elif layout == h5py.h5d.CONTIGUOUS:
        inner_shape = chosen.shape
        offsets, sizes = _whole(of, chosen)
    else:
        kind = "virtual" if layout == h5py.h5d.VIRTUAL else "compact"
        raise Refused(f"{of} has a {kind} layout: write it again with h5repack -l CONTI")
    axes = _axes(chosen)
    return FileArray(
        layout=Layout(
            data_type=data_type,
            axes=axes,
            inner_shape=tuple(inner_shape),
            codecs=codecs_text(codecs),
            fill_value=_fill_value(chosen, created),
        ),
        shape=tuple(chosen.shape),
        offsets=offsets,
        sizes=sizes,
        attributes=_attributes(chosen),
        scale=_scale(chosen, axes),
    )


def _data_type(of: str, chosen: Any) -> tuple[Any, str | None]:
    """The data type in a `zarr.json` and the byte order, None if elements have none."""
    from h5py import h5t  # noqa: PLC0415

    stored = chosen.id.get_type()
    if stored.get_class() == h5t.STRING and not stored.is_variable_str():
        return _string_type(of, stored), None
    name = type(stored).__name__.removeprefix("Type").removesuffix("ID").lower()
    try:
        dtype = chosen.dtype
    except (TypeError, ValueError):  # numpy has no such type
        dtype = np.dtype(object)
    if not _is_number(stored, dtype):
        shown = dtype if dtype.kind in "iuf" else name
        raise Refused(f"{of} has elements of the type {name} ({shown}), which is no Zarr data type")
    endian = {"<": "little", ">": "big"}.get(dtype.str[0])
    return dtype.newbyteorder("=").name, endian


def _is_number(stored: Any, dtype: np.dtype[Any]) -> bool:
    """Whether elements are numbers or truth values of Zarr, too. `dtype`: as which h5py reads them."""
    from h5py import h5t  # noqa: PLC0415

    size = dtype.itemsize
    if size != stored.get_size() or size > (16 if dtype.kind == "c" else 8):
        return False
    if dtype.kind in "iu":
        # Neither an enumeration, nor a number that does not fill its bytes.
        return bool(stored.get_class() == h5t.INTEGER and stored.get_precision() == 8 * size)
    if dtype.kind == "f":
        return bool(h5t.py_create(dtype).equal(stored))
    if dtype.kind == "b":
        return bool(size == 1 and stored.enum_valueof(b"TRUE") == 1)  # as h5py writes it
    return dtype.kind == "c"


def _string_type(of: str, stored: Any) -> dict[str, Any]:
    """The data type of strings of one length. Zarr's end where only zeros follow, so others are refused."""
    from h5py import h5t  # noqa: PLC0415

    length, padding = stored.get_size(), stored.get_strpad()
    if padding == h5t.STR_SPACEPAD:
        raise Refused(
            f"{of} has strings filled with spaces, which would be part of Zarr's: {_STRINGS}"
        )
    if padding == h5t.STR_NULLTERM and length > 1:
        raise Refused(
            f"{of} has strings that end at the first zero, and what is behind it would be part of Zarr's: "
            f"{_STRINGS}"
        )
    return {"name": "null_terminated_bytes", "configuration": {"length_bytes": length}}


def _chunks(of: str, chosen: Any, filters: list[Filter]) -> tuple[Extents, Extents]:
    grid = grid_of(chosen.shape, chosen.chunks)
    if prod(grid) > _MOST_CHUNKS:
        raise Refused(f"{of} has {prod(grid)} chunks, more than {_MOST_CHUNKS}")
    offsets: Extents = np.full(grid, MISSING, np.uint64)
    sizes: Extents = np.full(grid, MISSING, np.uint64)
    chunks = chosen.chunks
    unfiltered = []

    def add(chunk: Any) -> None:
        at = tuple(n // size for n, size in zip(chunk.chunk_offset, chunks, strict=True))
        offsets[at] = chunk.byte_offset
        sizes[at] = chunk.size
        if chunk.filter_mask:
            unfiltered.append(at)

    chosen.id.chunk_iter(add)
    if unfiltered:
        shown = "/".join(map(str, unfiltered[0]))
        raise Refused(
            f"{of} has {len(unfiltered)} chunks without some of its filters, the first of them {shown}:"
            f" write it again with {rewriting(filters)}"
        )
    wrong = (sizes != MISSING) & (sizes != prod(chunks) * chosen.dtype.itemsize)
    if not filters and wrong.any():
        raise Refused(f"{of} has chunks of another size than that of their elements: it is damaged")
    return offsets, sizes


def _whole(of: str, chosen: Any) -> tuple[Extents, Extents]:
    offset = chosen.id.get_offset()
    if offset is None:
        raise Refused(f"{of} has no pixels yet")
    grid = (1,) * chosen.ndim
    return np.full(grid, offset, np.uint64), np.full(grid, chosen.nbytes, np.uint64)


def _check_extents(name: str, array: FileArray, file_size: int) -> None:
    stored = array.offsets != MISSING
    ends = array.offsets[stored] + array.sizes[stored]
    if (ends > file_size).any() or (ends < array.offsets[stored]).any():
        raise Refused(f"{name}: has chunks behind its end: it is damaged or not whole")


# -- what it says beyond pixels


def _axes(chosen: Any) -> tuple[str, ...]:
    names = [_axis(dimension) for dimension in chosen.dims]
    if not any(names):
        names = _axistags(chosen)
    axes = [name or f"dim_{at}" for at, name in enumerate(names)]
    if len(set(axes)) < len(axes):
        axes = [f"dim_{at}" for at in range(len(axes))]
    return tuple(axes)


def _axis(dimension: Any) -> str:
    """The label of a dimension, or the name of its scale, as netCDF has it."""
    label = _text(dimension.label)
    if not label and len(dimension):
        label = _text(dimension[0].name or "").rsplit("/")[-1]
    return label.lower()


def _axistags(chosen: Any) -> list[str]:
    """The keys in the attribute `axistags` of vigra and ilastik."""
    none = [""] * chosen.ndim
    try:
        keys = [str(axis["key"]).lower() for axis in json.loads(chosen.attrs["axistags"])["axes"]]
    except (KeyError, TypeError, ValueError, OSError):
        return none
    return keys if len(keys) == chosen.ndim else none


def _scale(chosen: Any, axes: tuple[str, ...]) -> dict[str, tuple[float, str]]:
    """The attribute `element_size_um`, as Fiji and ilastik write it: of all axes, or of z, y, x."""
    try:
        sizes = np.asarray(chosen.attrs["element_size_um"], np.float64).ravel()
    except (KeyError, TypeError, ValueError, OSError):
        return {}
    of = axes if len(sizes) == len(axes) else ("z", "y", "x")
    if len(sizes) != len(of) or not set(of) <= set(axes):
        return {}
    found = {axis: float(size) for axis, size in zip(of, sizes, strict=True)}
    return {axis: (size, "micrometer") for axis, size in found.items() if 0 < size < np.inf}


def _fill_value(chosen: Any, created: Any) -> Any:
    import h5py  # noqa: PLC0415

    if created.fill_value_defined() == h5py.h5d.FILL_VALUE_UNDEFINED:
        return False if chosen.dtype.kind == "b" else _json_element(chosen.dtype.type(0))
    return _json_element(chosen.fillvalue)


def _json_element(value: Any) -> Any:
    """An element as a fill value in a `zarr.json` (core specification, Fill value)."""
    if isinstance(value, np.complexfloating | complex):
        return (_json_element(float(value.real)), _json_element(float(value.imag)))
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bytes):
        return base64.b64encode(plain).decode()
    if not isinstance(plain, float) or np.isfinite(plain):
        return plain
    if np.isnan(plain):
        return "NaN"
    return "Infinity" if plain > 0 else "-Infinity"


def _attributes(chosen: Any) -> dict[str, Any]:
    """{"hdf5": attributes of the root and, above them, of the dataset}; what is no JSON is left out."""
    found = {**dict(_plain_attributes(chosen.file)), **dict(_plain_attributes(chosen))}
    return {"hdf5": found} if found else {}


def _plain_attributes(node: Any) -> Iterator[tuple[str, Any]]:
    for name in node.attrs:
        if name in _PLUMBING:
            continue
        try:
            if node.attrs.get_id(name).get_storage_size() > 16 * _MOST_ELEMENTS:
                continue
            value = _plain(node.attrs[name])
            json.dumps(value, allow_nan=False).encode()
        except (KeyError, OSError, RuntimeError, TypeError, ValueError):
            continue  # a reference, a record, NaN
        yield _text(name), value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return _text(value) if isinstance(value, str | bytes) else value
