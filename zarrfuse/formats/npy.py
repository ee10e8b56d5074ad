"""The header of a `.npy` file, from shape and type. Used by the `images` view."""

import io
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from zarrfuse.formats.envelope import PAGE, Envelope


def npy(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Envelope:
    """The header of a file that `numpy.load` opens, also with `mmap_mode="r"`; there is no tail.

    The elements follow in C order. They begin at a page of memory, unless the header is longer.
    Raises `ValueError` for types of Python objects, which have no bytes. Source: NumPy enhancement
    proposal 1, versions 1.0, 2.0 and, for field names beyond latin-1, 3.0.
    """
    if dtype.hasobject:
        raise ValueError(f"elements of type {dtype} are Python objects, which NPY cannot store")
    members: dict[str, Any] = {
        "descr": npy_format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": tuple(map(int, shape)),
    }
    for write in (npy_format.write_array_header_1_0, npy_format.write_array_header_2_0):
        header = io.BytesIO()
        try:
            write(header, members)
        except ValueError:  # longer than 64 KiB, or with names beyond latin-1
            continue
        fixed = npy_format.MAGIC_LEN + (2 if header.getvalue()[6] == 1 else 4)
        return Envelope(_aligned(header.getvalue()[:fixed], header.getvalue()[fixed:]))
    # For names beyond latin-1: NumPy has no function that writes only the header.
    return Envelope(_aligned(npy_format.magic(3, 0) + bytes(4), repr(members).encode()))


def _aligned(fixed: bytes, members: bytes) -> bytes:
    """A header padded to a page: `fixed`, which is magic and length, and then the `members`."""
    members = members.rstrip()
    align = PAGE if len(fixed) + len(members) < PAGE else npy_format.ARRAY_ALIGN
    members += b" " * (-(len(fixed) + len(members) + 1) % align) + b"\n"
    start = npy_format.MAGIC_LEN
    return fixed[:start] + len(members).to_bytes(len(fixed) - start, "little") + members
