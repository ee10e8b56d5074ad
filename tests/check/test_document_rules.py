"""Documents: of valid ones nothing is said, of one wrong member just that."""

import json
from typing import Any

from builders.fake_stores import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from random_metadata import arrays, broken, groups, v2_arrays, values
from sampling import examples

from zarrfuse.check.documents import judge
from zarrfuse.check.documents_v2 import judge_attributes, judge_v2
from zarrfuse.check.findings import Finding
from zarrfuse.check.survey import Survey

MANY = settings(max_examples=examples(400), deadline=None)


def findings(document: dict[str, Any]) -> list[Finding]:
    store = MemoryStore({"zarr.json": json.dumps(document).encode()})
    return list(Survey(store).findings(deep=True))


@MANY
@given(arrays() | groups())
def test_nothing_is_said_of_valid_metadata(document: dict[str, Any]) -> None:
    assert [finding.line() for finding in findings(document)] == []


@MANY
@given(broken(arrays()) | broken(groups()))
def test_one_wrong_member_is_named_and_nothing_else(fault: tuple[dict[str, Any], str]) -> None:
    document, member = fault
    assert [finding.member for finding in findings(document)] == [member]


@MANY
@given(arrays() | groups(), st.data())
def test_whatever_stands_somewhere_a_document_is_judged(
    document: dict[str, Any], data: st.DataObject
) -> None:
    """Any value, or none, in up to three places at any depth: findings, no exceptions."""
    for _ in range(data.draw(st.integers(1, 3))):
        spoil(document, data)
    text = json.dumps(document).encode()
    for judged in (judge(text), judge_v2(".zarray", text), judge_v2(".zgroup", text)):
        assert all(fault.problem for fault in judged.faults)
    findings(document)


@MANY
@given(v2_arrays(), st.data())
def test_whatever_stands_somewhere_a_document_of_zarr_v2_is_judged(
    document: dict[str, Any], data: st.DataObject
) -> None:
    assert judge_v2(".zarray", json.dumps(document).encode()).faults == []
    for _ in range(data.draw(st.integers(1, 3))):
        spoil(document, data)
    judge_v2(".zarray", json.dumps(document).encode())


@MANY
@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_a_document_is_judged(text: bytes) -> None:
    assert judge(text).faults
    assert judge_v2(".zarray", text).faults
    judge_attributes(text)


def spoil(holder: Any, data: st.DataObject) -> None:
    """Replace or remove something somewhere in a JSON value."""
    while True:
        places = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not places:
            return
        place = data.draw(st.sampled_from(places))
        inner = holder[place]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            holder = inner
            continue
        if data.draw(st.booleans()):
            holder[place] = data.draw(values | st.sampled_from([-1, 1 << 70, 1e300, "bytes", "v2"]))
        else:
            del holder[place]
        return
