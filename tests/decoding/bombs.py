"""Chunks that a few bytes blow up to gigabytes, by the codecs that decode them. Made in milliseconds."""

import bz2
import gzip
import lzma
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numcodecs
import numpy as np
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
from zarr.codecs import numcodecs as of_numcodecs

_PIECE = bytes(16 << 20)
_PIECES = 64
_AT_ONCE_BYTES = 512 << 20


def gzip_bomb(pieces: int = _PIECES) -> bytes:
    """A gigabyte, of many members: each is decoded, and added to what was there."""
    return gzip.compress(_PIECE, 6) * pieces


def zlib_bomb() -> bytes:
    """A gigabyte, as one stream: whole blocks can be repeated."""
    stream = zlib.compressobj(6)
    head = stream.compress(b"0") + stream.flush(zlib.Z_FULL_FLUSH)
    block = stream.compress(_PIECE) + stream.flush(zlib.Z_FULL_FLUSH)
    return head + block * _PIECES


def zstd_bomb(blocks: int = 8192) -> bytes:
    """A gigabyte: each block says that 128 KiB are one byte (RFC 8878, section 3.1.1.2)."""
    frame = bytes.fromhex("28b52ffd") + b"\xe0" + struct.pack("<Q", blocks << 17)
    block = (1 << 1) | (128 << 10) << 3
    last = block | 1
    return (
        frame
        + (block.to_bytes(3, "little") + b"\0") * (blocks - 1)
        + last.to_bytes(3, "little")
        + b"\0"
    )


def _blosc_bomb(cname: str) -> bytes:
    data: bytes = numcodecs.Blosc(cname, 1, 0).encode(np.zeros(_AT_ONCE_BYTES, np.uint8))
    return data


def _lz4_bomb() -> bytes:
    data: bytes = numcodecs.LZ4().encode(np.zeros(_AT_ONCE_BYTES, np.uint8))
    return data


BOMBS: dict[str, tuple[Sequence[Any], bytes]] = {
    "gzip": ([GzipCodec()], gzip_bomb()),
    "zlib": ([of_numcodecs.Zlib()], zlib_bomb()),
    "zstd": ([ZstdCodec()], zstd_bomb()),
    "blosc of zstd": ([BloscCodec(cname="zstd")], _blosc_bomb("zstd")),
    "blosc of lz4": ([BloscCodec(cname="lz4")], _blosc_bomb("lz4")),
    "blosc of zlib": ([BloscCodec(cname="zlib")], _blosc_bomb("zlib")),
    "lz4": ([of_numcodecs.LZ4()], _lz4_bomb()),
    "lzma": ([of_numcodecs.LZMA()], lzma.compress(_PIECE, preset=0) * _PIECES),
    "bz2": ([of_numcodecs.BZ2()], bz2.compress(_PIECE) * _PIECES),
    "gzip of gzip": ([GzipCodec(), GzipCodec()], gzip.compress(gzip_bomb(700))),
    "gzip of zstd": ([ZstdCodec(), GzipCodec()], gzip.compress(zstd_bomb(1 << 16))),
    "zstd of gzip": ([GzipCodec(), ZstdCodec()], numcodecs.Zstd().encode(gzip_bomb(700))),
}
"""By name: the codecs of an array, and a chunk that they decode to a gigabyte at least."""
