"""Names and spellings of extensions."""

import json
from pathlib import Path
from typing import Any

import pytest

from zarrfuse.errors import MetadataError
from zarrfuse.spec.names import Extension, is_name, is_raw_name, is_uri_name, parse_extension

NAMES = json.loads((Path(__file__).parent / "conformance" / "names.json").read_text())


@pytest.mark.parametrize("name", NAMES["raw"])
def test_raw_names_are_names(name: str) -> None:
    assert is_raw_name(name)
    assert not is_uri_name(name)
    assert is_name(name)


@pytest.mark.parametrize("name", NAMES["uri"])
def test_a_uri_is_a_name_of_an_extension(name: str) -> None:
    assert is_uri_name(name)
    assert not is_raw_name(name)
    assert is_name(name)


@pytest.mark.parametrize("name", [*NAMES["invalid"], "\n", "a\r", "\u0661"])
def test_anything_else_is_no_name(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(MetadataError, match=r"^codecs\[0\]: "):
        parse_extension(name, "codecs[0]")
    with pytest.raises(MetadataError, match=r"^codecs\[0\]: name: "):
        parse_extension({"name": name}, "codecs[0]")


def test_a_short_hand_name_equals_an_object_with_a_name() -> None:
    assert parse_extension("zstd", "codecs") == parse_extension({"name": "zstd"}, "codecs")


def test_an_object_gives_configuration_and_must_understand() -> None:
    value = {"name": "a.b", "configuration": {"x": [1]}, "must_understand": False}
    assert parse_extension(value, "extensions") == Extension("a.b", {"x": [1]}, False)


def test_must_understand_is_true_unless_said_otherwise() -> None:
    assert parse_extension("zstd", "codecs").must_understand
    assert parse_extension({"name": "zstd", "configuration": {}}, "codecs").must_understand


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "codecs: must be a name or an object, not 7"),
        (None, "codecs: must be a name or an object, not null"),
        (True, "codecs: must be a name or an object, not true"),
        ([], "codecs: must be a name or an object, not an array"),
        ({}, "codecs: name: is missing"),
        ({"name": 1}, "codecs: name: must be a string, not 1"),
        ({"name": "a", "configuration": None}, "codecs: a: configuration: must be an object, "),
        ({"name": "a", "configuration": []}, "codecs: a: configuration: must be an object, "),
        ({"name": "a", "must_understand": 0}, "codecs: a: must_understand: must be true or false"),
        ({"name": "a", "must_understand": "false"}, "codecs: a: must_understand: must be true or"),
        ({"name": "a", "level": 3}, "codecs: a: 'level': unknown member"),
    ],
)
def test_a_refused_extension_names_the_member(value: Any, message: str) -> None:
    with pytest.raises(MetadataError) as caught:
        parse_extension(value, "codecs")
    assert str(caught.value).startswith(message)


def test_a_message_stays_short_for_a_long_name() -> None:
    with pytest.raises(MetadataError) as caught:
        parse_extension("X" * 1_000_000, "codecs")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("zstd", {"name": "zstd"}),
        ({"name": "zstd", "configuration": {}}, {"name": "zstd"}),
        (
            {"name": "zstd", "configuration": {"level": 1}, "must_understand": True},
            {"name": "zstd", "configuration": {"level": 1}},
        ),
        (
            {"name": "x", "must_understand": False},
            {"name": "x", "must_understand": False},
        ),
    ],
)
def test_an_extension_is_written_as_an_object_without_defaults(value: Any, written: Any) -> None:
    assert parse_extension(value, "codecs").to_json() == written
