"""Metadata that somebody wrote to stop readers: told of or passed over, in little time and memory."""

import signal
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, group
from builders.folders import write_keys
from builders.nodes import refusal_of

from zarrfuse.check import findings
from zarrfuse.check.consolidated import differing
from zarrfuse.check.documents import judge
from zarrfuse.check.documents_v2 import judge_attributes, judge_v2
from zarrfuse.spec.members import decode_document, quote_constants, shown
from zarrfuse.spec.node import NodeError
from zarrfuse.spec.node_v2 import parse_v2_group
from zarrfuse.spec.node_v3 import parse_v3

MANY = 100_000


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fails a block that takes longer: each of these took minutes or hours."""

    def stop(*_: Any) -> None:
        raise AssertionError(f"takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def without_taking(mebibytes: int) -> Iterator[None]:
    """Fails a block that has more memory at a time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < mebibytes << 20


HOSTILE: dict[str, dict[str, Any]] = {
    "a URI that nearly is a name": {"codecs": ["http://" + "a" * MANY + "?"]},
    "a long name": {"codecs": [{"name": "a" * MANY, "x": 1}]},
    "compressors without an end": {"codecs": ["zstd"] * MANY},
    "extensions that are ignored": {
        "extensions": [{"name": f"x.{i}", "must_understand": False} for i in range(50_000)]
    },
    "members that are ignored": {f"x{i}": {"must_understand": False} for i in range(MANY)},
    "members that are unknown": {f"x{i}": 1 for i in range(3 * MANY)},
    "short names for long ones": {
        "@context": {"p": "https://x/" + "y" * 30_000 + "/"},
        "codecs": ["p:a"] * 20_000,
    },
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_document_is_judged_in_seconds(members: dict[str, Any]) -> None:
    document = array((4, 4), **members)
    with within(10):
        try:
            parse_v3(document)
        except NodeError as error:
            assert len(str(error)) < 500  # one that is read is fine, too
        faults = judge(document).faults
    assert faults
    assert all(len(fault.member + fault.problem) < 500 for fault in faults)


def test_a_name_longer_than_any_url_is_refused() -> None:
    assert "has 5000 characters" in refusal_of(array((4, 4), codecs=["a" * 5000]))


def test_more_dimensions_than_any_array_has_are_refused() -> None:
    document = array((1,) * MANY)
    assert f"shape: has {MANY} dimensions" in refusal_of(document)
    with within(10):
        [fault] = judge(document).faults
    assert fault.member == "shape"


def test_more_extensions_than_anybody_lists_are_refused() -> None:
    """Those of a group are compared with those of all nodes below it."""
    slow = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["a"]}}
    assert "lists 20000" in refusal_of(group(extensions=[slow] * 20_000))


def test_a_context_that_makes_much_of_little_is_refused() -> None:
    context = {"p": "https://x/" + "y" * 900 + "/"}
    document = array((4, 4), **{"@context": context}, codecs=["p:a"] * 200_000)
    with without_taking(64):
        assert refusal_of(document).startswith("zarr.json: @context: ")


def test_chunks_of_more_elements_than_can_be_written_down(tmp_path: Path) -> None:
    """Python refuses to show numbers of more than 4,300 digits."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [10**18] * 300}}
    document = array((1,) * 300, chunk_grid=grid)
    write_keys(tmp_path, {"a/zarr.json": document, "a/" + "/".join(["c"] + ["0"] * 300): b"abc"})
    [finding] = findings(str(tmp_path))
    assert "has 3 bytes" in finding.problem
    assert len(finding.line()) < 1000
    assert len(shown(10**10_000)) < 100


def test_a_member_too_large_for_memory_is_not_decoded() -> None:
    document = array((4, 4)).replace(
        b'"codecs": ', b'"codecs": [' + b"{}," * 3_000_000 + b'{}], "x": '
    )
    with without_taking(100):
        faults = judge(document).faults
    assert {fault.member for fault in faults} == {"codecs", "'x'"}


LARGE = b'{"a": NaN, "b": [' + b"{}," * 2_000_000 + b"{}]}"


def test_attributes_of_zarr_v2_are_not_decoded() -> None:
    with without_taking(60):
        assert judge_attributes(LARGE) == []
    with without_taking(60):
        assert parse_v2_group(b'{"zarr_format": 2}', LARGE).zarr_format == 2
    document = b'{"zarr_format": 2, "x": ' + LARGE + b"}"
    with without_taking(60):
        assert [fault.member for fault in judge_v2(".zgroup", document).faults] == ["'x'"]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (b'{"a": NaN}', b'{"a": "NaN"}'),
        (b"[-Infinity,Infinity]", b'["-Infinity","Infinity"]'),
        (b'{"a, NaN": "[NaN", "b":NaN}', b'{"a, NaN": "[NaN", "b":"NaN"}'),
        (rb'{"\", NaN": NaN}', rb'{"\", NaN": "NaN"}'),
        (rb'{"\\": NaN}', rb'{"\\": "NaN"}'),
        (b'{"a": 1.50, "b": NaN }', b'{"a": 1.50, "b": "NaN" }'),
        (b'{"a": NaN, "b', b'{"a": "NaN", "b'),
        (b'{"a": Nano}', b'{"a": Nano}'),
    ],
)
def test_constants_are_quoted_and_all_else_stays(text: bytes, quoted: bytes) -> None:
    assert quote_constants(text) == quoted


def test_constants_are_found_in_seconds() -> None:
    with within(10):
        quote_constants(b'{"a": NaN, "' + rb"\"" * 1_000_000)


def test_attributes_too_large_to_decode_are_compared_as_they_are_written() -> None:
    spaced = decode_document(b'{"attributes": [' + b"{ }, " * 2_000_000 + b"{}]}")
    dense = decode_document(b'{"attributes":[' + b"{}," * 2_000_000 + b"{}]}")
    other = decode_document(b'{"attributes":[' + b"{}," * 2_000_000 + b"[]]}")
    with without_taking(60):
        assert differing(spaced, dense) == []
    assert differing(spaced, other) == ["attributes"]


@pytest.mark.parametrize("depth", [100, 200, 250, 300])
def test_copies_nested_deeply_are_compared(depth: int) -> None:
    """Decoding goes as deep as Python does; comparing takes more of it for each level."""
    codec = b'{"name": "x", "configuration": {"codecs": [' * depth + b"]}}" * depth
    one, other = b'{"codecs": [' + codec + b"]}", b'{"codecs":  [' + codec + b" ]}"
    assert differing(decode_document(one), decode_document(other)) == []


def test_a_node_that_refers_to_many_is_looked_at_in_seconds(tmp_path: Path) -> None:
    listed = [
        {"name": "example.parent-ref", "configuration": {"reference": f"../n{i}"}}
        for i in range(90)
    ]
    keys = {f"n{i}/zarr.json": group(attributes={"a": "x" * 1_000_000}) for i in range(90)}
    write_keys(tmp_path, {"zarr.json": group(), "a/zarr.json": group(extensions=listed), **keys})
    with within(10):
        found = list(findings(str(tmp_path)))
    assert [finding.path for finding in found] == ["a/zarr.json"]
    assert "more than 64 nodes" in found[0].problem
