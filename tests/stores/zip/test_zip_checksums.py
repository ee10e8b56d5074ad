"""The CRC of an uncompressed member: compared when the member has been read in order, once."""

import errno
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.readers import read_range

from zarrfuse.check.survey import Survey
from zarrfuse.errors import Corrupt, Stale, errno_of
from zarrfuse.stores.base import opened, read
from zarrfuse.stores.zip.store import ZipStore

DATA = random.Random(0).randbytes(100_000)


def damaged(path: Path, members: dict[str, bytes], name: str = "c/0") -> ZipStore:
    """A zip of `members`, one byte of which has changed: the middle one of `name`."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, data in members.items():
            archive.writestr(key, data)
    with path.open("r+b") as file:
        at = path.read_bytes().index(members[name]) + len(members[name]) // 2
        file.seek(at)
        file.write(bytes([members[name][len(members[name]) // 2] ^ 1]))
    return ZipStore(str(path))


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(Corrupt, match=r"a\.zip: member c/0 is damaged: .* CRC") as caught:
        call()
    assert errno_of(caught.value) == errno.EIO


@pytest.fixture
def store(tmp_path: Path) -> ZipStore:
    return damaged(tmp_path / "a.zip", {"c/0": DATA, "fine": DATA[:5000]})


def test_damaged_member_that_is_read_at_once_is_corrupt_each_time(store: ZipStore) -> None:
    for _ in range(2):
        refused(lambda: read(store, "c/0"))
    assert read(store, "fine") == DATA[:5000]


def test_damaged_member_that_is_read_in_order_is_corrupt_at_its_end(store: ZipStore) -> None:
    for _ in range(2):
        with opened(store, "c/0") as reader:
            for offset in range(0, 90_000, 10_000):
                read_range(reader, offset, 10_000)
            refused(lambda reader=reader: read_range(reader, 90_000, 10_000))


def test_reads_may_overlap_be_repeated_and_look_ahead(store: ZipStore) -> None:
    with opened(store, "c/0") as reader:
        read_range(reader, 80_000, 10)
        for offset in (0, 0, 10_000, 5_000, 40_000, 20_000, 30_000, 40_000, 45_000):
            read_range(reader, offset, 20_000)
        read_range(reader, 90_000, 5_000)
        refused(lambda: read_range(reader, 64_000, 36_000))


def test_each_range_may_be_read_by_another_reader(store: ZipStore) -> None:
    def piece(offset: int) -> None:
        with opened(store, "c/0") as reader:
            read_range(reader, offset, 50_000)

    piece(0)
    refused(lambda: piece(50_000))


def test_what_is_not_read_in_order_is_not_checked(store: ZipStore) -> None:
    with opened(store, "c/0") as reader:
        assert read_range(reader, 60_000, 40_000) == DATA[60_000:]
        read_range(reader, 0, 50_000)
        assert read_range(reader, 50_001, 49_999) == DATA[50_001:]


def test_once_damage_is_known_the_rest_can_still_be_had(store: ZipStore) -> None:
    refused(lambda: read(store, "c/0"))
    with opened(store, "c/0") as reader:
        assert read_range(reader, 0, 40_000) == DATA[:40_000]
        refused(lambda: read_range(reader, 99_999, 1))


def test_member_that_was_right_is_not_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = damaged(tmp_path / "a.zip", {"c/0": DATA, "fine": DATA[:5000]})
    assert read(store, "fine") == DATA[:5000]
    monkeypatch.setattr("zarrfuse.stores.zip.members.zlib.crc32", None)
    assert read(store, "fine") == DATA[:5000]
    with pytest.raises(TypeError):
        read(store, "c/0")


def test_many_members_begun_are_not_all_remembered(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(3000):
            archive.writestr(str(number), b"12")
    store = ZipStore(str(tmp_path / "a.zip"))
    for number in range(3000):
        with opened(store, str(number)) as reader:
            assert read_range(reader, 0, 1) == b"1"
    assert len(store._members.checked) <= 1024


def test_rewritten_under_an_open_member_is_stale_not_corrupt(tmp_path: Path) -> None:
    store = damaged(tmp_path / "a.zip", {"c/0": DATA})
    with opened(store, "c/0") as reader:
        with (tmp_path / "a.zip").open("ab") as file:
            file.write(b"more")
        with pytest.raises(Stale):
            read_range(reader, 0, len(DATA))


def test_empty_member_with_a_crc_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nothing", b"")
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<III", 0, 0, 0), struct.pack("<III", 7, 0, 0)))
    assert read(ZipStore(str(path)), "nothing") == b""


SHARD = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [1000],
        "codecs": [{"name": "bytes"}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    },
}


def sharded(data: bytes) -> bytes:
    """A shard of inner chunks of 1,000 bytes each, its index at the end."""
    index = b"".join(struct.pack("<QQ", at, 1000) for at in range(0, len(data), 1000))
    return data + index


@pytest.mark.parametrize("layout", ["whole", "shard", "parts", "many parts"])
def test_deep_check_compares_every_chunk(tmp_path: Path, layout: str) -> None:
    size = 2_500_000  # more than a block
    data = random.Random(1).randbytes(size)
    codecs = [SHARD if layout == "shard" else {"name": "bytes"}]
    transformers = []
    members = {"c/0": sharded(data) if layout == "shard" else data}
    if "parts" in layout:
        count = 2 if layout == "parts" else 20
        part = size // count
        transformers = [concat_parts(*((f".{i}", part) for i in range(count)))]
        members = {f"c/0.{i}": data[i * part : (i + 1) * part] for i in range(count)}
    name = list(members)[-1]
    document = array([size], [size], codecs=codecs, transformers=transformers)
    store = damaged(tmp_path / "a.zip", {"zarr.json": document, **members}, name)
    problems = [finding.problem for finding in Survey(store).findings(deep=True)]
    assert len(problems) == 1
    assert f"member {name} is damaged" in problems[0]
