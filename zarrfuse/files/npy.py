"""The bytes in front of the elements in a `.npy` file.

Used by `images`. It knows neither stores nor arrays, only their shape and type.
"""

import io
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from zarrfuse.files.around import Around


def npy(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Around:
    """The header of a file that `numpy.load` opens, also with `mmap_mode="r"`; there is no tail.

    The elements follow in C order. Raises `ValueError` for types of Python objects, which have no
    bytes. Source: NumPy enhancement proposal 1, versions 1.0 and, for field names beyond latin-1, 3.0.
    """
    if dtype.hasobject:
        raise ValueError(f"elements of type {dtype} have no bytes of their own")
    members: dict[str, Any] = {
        "descr": npy_format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": tuple(map(int, shape)),
    }
    for write in (npy_format.write_array_header_1_0, npy_format.write_array_header_2_0):
        header = io.BytesIO()
        try:
            write(header, members)
        except UnicodeEncodeError:
            break
        except ValueError:  # longer than 64 KiB
            continue
        return Around(header.getvalue())
    return Around(_version_3(members))


def _version_3(members: dict[str, Any]) -> bytes:
    """For names beyond latin-1: NumPy has no function of its own that writes just the header."""
    said = repr(members).encode()
    fixed = npy_format.MAGIC_LEN + 4
    said += b" " * (-(fixed + len(said) + 1) % npy_format.ARRAY_ALIGN) + b"\n"
    return npy_format.magic(3, 0) + len(said).to_bytes(4, "little") + said
