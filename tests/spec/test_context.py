"""`@context`: names and members mean what their context says, and nothing is fetched."""

import json
from typing import Any

import pytest
from builders.nodes import parsed, refusal_of
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.spec.chunk_keys import DefaultEncoding, SuffixEncoding
from zarrfuse.spec.names import Extension
from zarrfuse.spec.node import ArrayNode, NodeError
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.zep10 import Offset

URL = "https://zarr.dev/context/v3.1"
V3 = "https://zarr.dev/v3"

ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [128],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [32]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0,
    "codecs": [{"name": "bytes"}],
}


def parse(**members: Any) -> ArrayNode:
    return parsed(ARRAY | members)


def refusal(document: dict[str, Any]) -> str:
    return refusal_of(json.dumps(document).encode())


def test_the_example_of_zep_9_is_the_array_that_it_is_made_equivalent_to() -> None:
    ignorable = {"must_understand": False}
    example = {
        "@context": URL,
        f"{V3}/zarr_format": 3,
        f"{V3}/node_type": "array",
        f"{V3}/array/shape": [128],
        f"{V3}/array/data_type": "https://example.com/zarr/string",
        f"{V3}/array/chunk_key_encoding": {"name": f"{V3}/chunk_key_encodings/default"},
        f"{V3}/array/codecs": [
            {"name": "https://numcodecs.dev/vlen-utf8"},
            {"name": f"{V3}/codecs/zstd"},
        ],
        f"{V3}/array/chunk_grid": {
            "name": f"{V3}/chunk_grid/regular",
            "configuration": {"chunk_shape": [32]},
        },
        f"{V3}/extensions": [
            {"name": "https://example.com/zarr/consolidated-metadata", **ignorable},
            {"name": f"{V3}/extensions/example.offset", "configuration": {"offset": [12]}},
        ],
        f"{V3}/array/dimension_names": ["x"],
        f"{V3}/attributes": {"a": 1},
        f"{V3}/storage_transformers": [],
    }
    plain = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [128],
        "data_type": "https://example.com/zarr/string",
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "https://numcodecs.dev/vlen-utf8"}, {"name": "zstd"}],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [32]}},
        "extensions": [
            {"name": "https://example.com/zarr/consolidated-metadata", **ignorable},
            {"name": "example.offset", "configuration": {"offset": [12]}},
        ],
        "dimension_names": ["x"],
        "attributes": {"a": 1},
        "storage_transformers": [],
    }
    found, expected = (parse_v3(json.dumps(text).encode()) for text in (example, plain))
    assert found == expected
    assert found.attributes == {"a": 1}
    assert found.extension(Offset) == Offset((12,))


def test_without_a_context_a_uri_is_just_a_name() -> None:
    assert "chunk_grid" in refusal(ARRAY | {"chunk_grid": f"{V3}/chunk_grid/regular"})
    assert "unknown member" in refusal(ARRAY | {f"{V3}/array/dimension_names": ["x"]})
    assert parse(codecs=[f"{V3}/codecs/zstd"]).codecs == (Extension(f"{V3}/codecs/zstd", {}),)


@pytest.mark.parametrize("context", [URL, {}, {"z": f"{V3}/", "other": "https://example.com/"}])
def test_in_every_context_zarrs_own_uris_are_known(context: Any) -> None:
    node = parse(**{"@context": context, "codecs": [f"{V3}/codecs/zstd", f"{V3}/codec/bytes"]})
    assert [codec.name for codec in node.codecs] == ["zstd", "bytes"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("https://zarr.dev/v3/chunk_grid/zstd", "https://zarr.dev/v3/chunk_grid/zstd"),
        ("https://zarr.dev/v3/codecs/", "https://zarr.dev/v3/codecs/"),
        ("https://zarr.dev/v3/codecs/a/b", "https://zarr.dev/v3/codecs/a/b"),
        ("https://zarr.dev/v4/codecs/zstd", "https://zarr.dev/v4/codecs/zstd"),
        ("https://example.com/https", "https://example.com/https"),
    ],
)
def test_other_uris_stay_as_they_are(name: str, meant: str) -> None:
    context = {"https": "https://example.com/stolen/", "http": "https://example.com/stolen"}
    for given_context in (URL, context):
        assert parse(**{"@context": given_context, "codecs": [name]}).codecs[0].name == meant


def test_a_prefix_stands_for_the_beginning_of_a_uri() -> None:
    context = {"example": "https://example.com/some-prefix/"}
    node = parse(**{"@context": context, "data_type": "example:utf-16-string"})
    assert node.data_type == "https://example.com/some-prefix/utf-16-string"
    assert parse(**{"@context": context, "data_type": "example"}).data_type == "example"


def test_a_short_name_stands_for_a_uri_also_in_place_of_a_raw_name() -> None:
    context = {"zstd": "https://example.com/zstd", "ours": f"{V3}/codecs/zstd"}
    node = parse(**{"@context": context, "codecs": ["zstd", {"name": "ours"}, "bytes"]})
    assert [codec.name for codec in node.codecs] == ["https://example.com/zstd", "zstd", "bytes"]


def test_a_short_name_of_a_member_resolves_but_a_known_member_is_never_another() -> None:
    context = {
        "shrt": "https://example.com/some-prefix/long-name",
        "axes": f"{V3}/array/dimension_names",
        "shape": "https://example.com/shape",
    }
    node = parse(**{"@context": context, "axes": ["x"], "shrt": {"must_understand": False}})
    assert node.dimension_names == ("x",)
    assert node.shape == (128,)
    assert node.ignored == ("https://example.com/some-prefix/long-name",)
    said = refusal(ARRAY | {"@context": context, "shrt": 1})
    assert said.startswith("zarr.json: 'https://example.com/some-prefix/long-name': unknown member")


def test_names_inside_configurations_resolve_where_they_are_extension_points() -> None:
    context = {"z": f"{V3}/codecs/", "k": f"{V3}/chunk_key_encodings/", "t": f"{V3}/data_types/"}
    sharding = {
        "name": "z:sharding_indexed",
        "configuration": {
            "chunk_shape": [8],
            "codecs": ["z:bytes", {"name": "z:zstd", "configuration": {"level": 1}}],
            "index_codecs": [
                {"name": "z:cast_value", "configuration": {"data_type": "t:int8", "of": "t:int8"}}
            ],
        },
    }
    struct = {
        "name": "t:struct",
        "configuration": {"fields": [{"name": "t:x", "data_type": "t:int8"}]},
    }
    keys = {
        "name": "k:suffix",
        "configuration": {
            "suffix": ".b",
            "base-encoding": {
                "name": "k:suffix",
                "configuration": {"suffix": ".a", "base_encoding": "k:default"},
            },
        },
    }
    node = parse(
        **{"@context": context},
        data_type=struct,
        codecs=[sharding],
        chunk_key_encoding=keys,
    )
    assert node.chunk_keys == SuffixEncoding(".b", SuffixEncoding(".a", DefaultEncoding()))
    assert node.codecs[0].name == "sharding_indexed"
    assert node.codecs[0].configuration == {
        "chunk_shape": [8],
        "codecs": ["bytes", {"name": "zstd", "configuration": {"level": 1}}],
        "index_codecs": [
            {"name": "cast_value", "configuration": {"data_type": "int8", "of": "t:int8"}}
        ],
    }
    assert node.data_type == {
        "name": "struct",
        "configuration": {"fields": [{"name": "t:x", "data_type": "int8"}]},
    }


def test_the_configuration_of_a_generic_extension_is_its_own() -> None:
    mine = {
        "name": "e:mine",
        "must_understand": False,
        "configuration": {"codecs": ["e:x"], "data_type": "e:y"},
    }
    node = parse(**{"@context": {"e": "https://example.com/"}, "extensions": [mine]})
    assert node.extensions == (
        Extension("https://example.com/mine", mine["configuration"], must_understand=False),
    )


def test_numbers_of_any_size_pass_through_a_context() -> None:
    grid = {"name": "g:regular", "configuration": {"chunk_shape": [2**70]}}
    context = {"g": f"{V3}/chunk_grid/"}
    node = parse(**{"@context": context, "shape": [2**71], "chunk_grid": grid})
    assert node.grid_shape == (2,)


def test_a_group_may_have_a_context() -> None:
    group = {
        "@context": URL,
        "zarr_format": 3,
        f"{V3}/node_type": "group",
        "consolidated_metadata": None,
    }
    assert parse_v3(json.dumps(group).encode()).node_type == "group"
    assert "'shape': unknown" in refusal(group | {f"{V3}/array/shape": [1]})


LONG = "https://example.com/a"


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ("https://zarr.dev/context/v3.2", "'https://zarr.dev/context/v3.2' is not known here, and"),
        (f"{URL}/", f"'{URL}/' is not known here, and none is fetched"),
        ("", "'' is not known here"),
        (None, "must be a URL or an object, not null"),
        ([URL], "must be a URL or an object, not an array"),
        (3, "must be a URL or an object, not 3"),
        ({"@vocab": LONG}, "'@vocab': keywords are not understood here"),
        ({"@base": LONG, "a": LONG}, "'@base': keywords are not understood here"),
        ({"A": LONG}, "'A' cannot be a prefix or a short name"),
        ({"a:b": LONG}, "'a:b' cannot be a prefix or a short name"),
        ({"": LONG}, "'' cannot be a prefix or a short name"),
        ({"a": "b:c"}, "a: must be a URI as names are, not 'b:c'"),
        ({"a": f"{LONG}#"}, f"a: must be a URI as names are, not '{LONG}#'"),
        ({"a": {"@id": LONG}}, "a: must be a URI as names are, not an object"),
        ({"a": None}, "a: must be a URI as names are, not null"),
    ],
)
def test_any_other_context_is_refused(context: Any, message: str) -> None:
    assert refusal(ARRAY | {"@context": context}).startswith(f"zarr.json: @context: {message}")


def test_a_refused_context_leaves_the_node_type_known() -> None:
    with pytest.raises(NodeError) as refused:
        parse_v3(b'{"node_type": "group", "zarr_format": 3, "@context": 1}')
    assert refused.value.node_type == "group"


@pytest.mark.parametrize("order", [1, -1])
def test_two_spellings_of_one_member_are_refused(order: int) -> None:
    members = [("fill_value", 0), (f"{V3}/array/fill_value", 1)]
    document = {k: v for k, v in ARRAY.items() if k != "fill_value"} | dict(members[::order])
    said = refusal(document | {"@context": URL})
    assert said == (f"zarr.json: '{V3}/array/fill_value': is fill_value, which is there twice")


def test_a_name_that_no_prefix_makes_a_uri_is_no_name() -> None:
    said = refusal(ARRAY | {"@context": {"a": f"{LONG}/"}, "codecs": ["b:zstd"]})
    assert said == "zarr.json: codecs[0]: 'b:zstd' is neither a raw name nor a URI-based name"
    said = refusal(ARRAY | {"@context": {"a": f"{LONG}/"}, "codecs": ["a:zstd?x"]})
    assert "is neither a raw name nor a URI-based name" in said


def test_a_document_nested_too_deeply_is_refused() -> None:
    deep = "[" * 900 + "]" * 900
    text = json.dumps(ARRAY | {"@context": URL, "codecs": [{"name": "a", "configuration": 0}]})
    document = text.replace('"configuration": 0', f'"configuration": {{"codecs": {deep}}}')
    with pytest.raises(NodeError, match=r"^zarr.json: codecs"):
        parse_v3(document.encode())


def test_what_is_no_extension_stays_what_it_is() -> None:
    for member in ("codecs", "extensions", "storage_transformers"):
        said = refusal(ARRAY | {"@context": URL, member: 7})
        assert said == f"zarr.json: {member}: must be an array, not 7"
    assert "name: must be a string" in refusal(ARRAY | {"@context": URL, "codecs": [{"name": 1}]})


# -- any document, spelled in any way


POINTS = {
    "data_type": "data_types",
    "chunk_grid": "chunk_grid",
    "chunk_key_encoding": "chunk_key_encodings",
    "codecs": "codecs",
    "storage_transformers": "storage_transformers",
    "extensions": "extensions",
}
RAW = st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True).filter(lambda n: n != "default")
URIS = st.from_regex(r"https://[a-z]{1,5}\.org/[a-z0-9_.-]{1,8}", fullmatch=True)
NAMES = RAW | URIS


@given(st.data(), st.lists(NAMES, min_size=1, max_size=4), NAMES, NAMES)
def test_any_spelling_of_a_document_means_the_same(
    data: st.DataObject, codecs: list[str], data_type: str, extension: str
) -> None:
    plain = ARRAY | {
        "codecs": [{"name": name, "configuration": {"codecs": [name]}} for name in codecs],
        "data_type": data_type,
        "extensions": [{"name": extension, "must_understand": False}],
        "dimension_names": ["x"],
    }
    context: dict[str, str] = {}

    def spelled(uri: str) -> str:
        """The URI as it is, behind a prefix, or as a short name."""
        way = data.draw(st.sampled_from(["uri", "prefix", "short"]))
        if way == "uri":
            return uri
        number = f"n{len(context)}"
        stem, _, rest = uri.rpartition("/")
        context[number] = f"{stem}/" if way == "prefix" else uri
        return f"{number}:{rest}" if way == "prefix" else number

    def name(point: str, value: str) -> str:
        if value.startswith("https:"):
            return spelled(value)
        if value not in context and data.draw(st.booleans()):
            return value
        return spelled(f"{V3}/{POINTS[point]}/{value}")

    taken = {*codecs, data_type, extension}
    if any(raw.startswith("n") and raw[1:].isdigit() for raw in taken):
        return  # would be one of the short names
    spelled_out = {
        key if data.draw(st.booleans()) else f"{V3}/array/{key}": value
        for key, value in plain.items()
        if key not in ("codecs", "data_type", "extensions")
    }
    spelled_out[f"{V3}/codecs"] = [
        {"name": name("codecs", each), "configuration": {"codecs": [name("codecs", each)]}}
        for each in codecs
    ]
    spelled_out["data_type"] = {"name": name("data_type", data_type)}
    spelled_out[spelled(f"{V3}/extensions")] = [
        {"name": name("extensions", extension), "must_understand": False}
    ]
    found = parse_v3(json.dumps(spelled_out | {"@context": context}).encode())
    expected = parse_v3(json.dumps(plain | {"data_type": {"name": data_type}}).encode())
    assert found == expected


CONTEXTS = st.dictionaries(NAMES | st.text(max_size=3), URIS | st.text(max_size=8), max_size=3)


@given(CONTEXTS | st.none() | st.text() | st.lists(st.text()) | st.integers())
def test_any_context_loads_or_is_refused(context: Any) -> None:
    try:
        node = parse(**{"@context": context})
    except NodeError as error:
        assert str(error).startswith("zarr.json: ")
    else:
        assert node.shape == (128,)
