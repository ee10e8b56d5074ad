"""Zips for tests: written by `zipfile`, then changed byte by byte."""

import warnings
import zipfile
from pathlib import Path

TEXT = b"some text that deflate makes shorter " * 400


def write(path: Path, members, method: int = zipfile.ZIP_STORED, mode: str = "w") -> str:
    """A zip of (name or ZipInfo, bytes) pairs, in that order."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, mode, method) as archive:
        warnings.simplefilter("ignore")  # duplicate names are meant
        for name, data in members.items() if isinstance(members, dict) else members:
            info = name
            if isinstance(name, str):
                info = zipfile.ZipInfo(name)
                info.compress_type = method
            archive.writestr(info, data)
    return str(path)


def local_header(path: str, name: str) -> int:
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(name).header_offset


def central_record(path: str, name: str) -> int:
    """Where the central directory speaks of `name`; its fields are those of APPNOTE 4.3.12."""
    data = Path(path).read_bytes()
    at = data.rfind(name.encode()) - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    return at


def patch(path: str, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)
