"""Parts of a chunk: conformance, arithmetic against naive models, stacking, key collisions."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zarrfuse.errors import MetadataError, PartsDoNotFit
from zarrfuse.spec.chunk_keys import ChunkKeyEncoding, DefaultEncoding, SuffixEncoding, V2Encoding
from zarrfuse.spec.concat_parts import (
    ConcatParts,
    Layout,
    Part,
    StoredParts,
    check_part_keys,
    stack,
)

VECTORS = json.loads((Path(__file__).parent / "conformance" / "concat_parts.json").read_text())


def concat(*parts: tuple[str, int | None]) -> ConcatParts:
    return ConcatParts(tuple(Part(suffix, size) for suffix, size in parts))


# -- conformance


@pytest.mark.parametrize("case", VECTORS["split"], ids=json.dumps)
def test_a_chunk_is_split_into_its_parts(case: dict[str, Any]) -> None:
    parts = stack([ConcatParts.from_configuration({"parts": case["parts"]})])
    assert parts.split(case["nbytes"]) == [tuple(pair) for pair in case["ranges"]]


@pytest.mark.parametrize("case", VECTORS["does_not_fit"], ids=json.dumps)
def test_bytes_that_do_not_fit_the_parts_are_refused(case: dict[str, Any]) -> None:
    parts = stack([ConcatParts.from_configuration({"parts": case["parts"]})])
    with pytest.raises(PartsDoNotFit, match=str(case["nbytes"])):
        parts.split(case["nbytes"])


@pytest.mark.parametrize("case", VECTORS["read"], ids=json.dumps)
def test_a_read_touches_pieces_of_parts(case: dict[str, Any]) -> None:
    parts = stack([ConcatParts.from_configuration({"parts": case["parts"]})])
    keys = [case["key"] + leaf.key_suffix for leaf in parts.leaves]
    sizes = [case["stored"][key] for key in keys]
    assert parts.problem(sizes) is None
    found = Layout(sizes).pieces(case["offset"], case["size"])
    assert [[keys[part], offset, size] for part, offset, size in found] == case["pieces"]


@pytest.mark.parametrize("parts", VECTORS["unwritable"], ids=json.dumps)
def test_two_parts_of_open_size_can_only_be_read(parts: list[Any]) -> None:
    stored = stack([ConcatParts.from_configuration({"parts": parts})])
    assert not stored.writable
    with pytest.raises(PartsDoNotFit, match="2 parts are of open size"):
        stored.split(100)


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=lambda case: case["why"])
def test_wrong_parts_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(MetadataError, match=r"^parts"):
        ConcatParts.from_configuration({"parts": case["parts"]})


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({}, "parts: is missing"),
        ({"parts": {}}, "parts: must be an array, not an object"),
        ({"parts": [""]}, "parts[0]: must be an object, not ''"),
        ({"parts": [{"key_suffix": None}]}, "parts[0]: key_suffix: must be a string, not null"),
        (
            {"parts": [{"key_suffix": ""}, {"key_suffix": "", "size": 4}]},
            "parts: key_suffix: '' is listed twice",
        ),
        (
            {"parts": [{"key_suffix": "", "size": None}]},
            "parts[0]: size: must be an integer, not null",
        ),
        ({"parts": [{"key_suffix": "", "siz": 1}]}, "parts[0]: 'siz': unknown member"),
        ({"parts": [{"key_suffix": ""}], "x": 1}, "'x': unknown member"),
        (
            {"parts": [{"key_suffix": "\\x"}]},
            "parts[0]: key_suffix: '\\\\x' holds a backslash",
        ),
        (
            {"parts": [{"key_suffix": "/"}]},
            "parts[0]: key_suffix: '/' makes keys with the path segment ''",
        ),
        (
            {"parts": [{"key_suffix": "/zarr.json"}]},
            "parts[0]: key_suffix: '/zarr.json' makes keys that end in zarr.json, "
            "which are metadata",
        ),
        (
            {"parts": [{"key_suffix": "x" * 1025}]},
            "parts[0]: key_suffix: has 1025 characters, more than the 1024 that stores take",
        ),
    ],
)
def test_a_refused_part_is_named(configuration: Any, message: str) -> None:
    with pytest.raises(MetadataError) as caught:
        ConcatParts.from_configuration(configuration)
    assert str(caught.value) == message


# -- pieces of a read


SIZES = st.lists(st.integers(0, 5), max_size=12)


@given(SIZES, st.integers(0, 70), st.integers(0, 70))
def test_the_pieces_of_a_read_are_the_slice_of_the_whole(
    sizes: list[int], offset: int, size: int
) -> None:
    merged = [(part, at) for part, nbytes in enumerate(sizes) for at in range(nbytes)]
    found = Layout(sizes).pieces(offset, size)
    assert all(nbytes > 0 for _, _, nbytes in found)
    assert len({part for part, _, _ in found}) == len(found)
    read = [(part, at + i) for part, at, nbytes in found for i in range(nbytes)]
    assert read == merged[offset : offset + size]


@given(SIZES)
def test_a_layout_knows_the_size_of_the_merged_chunk(sizes: list[int]) -> None:
    assert Layout(sizes).size == sum(sizes)


def test_a_read_skips_a_million_empty_parts() -> None:
    layout = Layout([1] + [0] * 1_000_000 + [2**40] * 100_000)
    for _ in range(1000):
        assert layout.pieces(0, 2) == [(0, 0, 1), (1_000_001, 0, 1)]
        assert layout.pieces(layout.size - 1, 9) == [(1_100_000, 2**40 - 1, 1)]


# -- splitting and stacking


PARTS = st.lists(
    st.tuples(st.sampled_from(["", ".a", ".b", ".c", "/d"]), st.none() | st.integers(0, 6)),
    min_size=1,
    max_size=3,
    unique_by=lambda part: part[0],
).map(lambda parts: concat(*parts))


@given(PARTS, st.integers(0, 20))
def test_parts_split_and_joined_are_the_chunk(transformer: ConcatParts, nbytes: int) -> None:
    parts = stack([transformer])
    try:
        ranges = parts.split(nbytes)
    except PartsDoNotFit:
        return
    assert parts.writable
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
    assert ranges[-1][1] == nbytes
    for part, (start, stop) in zip(transformer.parts, ranges, strict=True):
        assert part.size in (None, stop - start)


def split_one_after_the_other(
    transformers: Sequence[ConcatParts], nbytes: int
) -> list[tuple[str, tuple[int, int]]]:
    """(suffix, [start, stop)) of each stored part, splitting as a writer would, step by step."""
    chunks = [("", (0, nbytes))]
    for transformer in transformers:
        chunks = [
            (suffix + part.key_suffix, (start + a, start + b))
            for suffix, (start, stop) in chunks
            for part, (a, b) in zip(
                transformer.parts, stack([transformer]).split(stop - start), strict=True
            )
        ]
    return chunks


def stored_whole(transformers: Sequence[ConcatParts], sizes: Sequence[int]) -> bool:
    """Whether stored parts of these sizes join to a chunk, joining as a reader would."""
    sizes = list(sizes)
    for transformer in reversed(transformers):
        joined = []
        for start in range(0, len(sizes), len(transformer.parts)):
            group = sizes[start : start + len(transformer.parts)]
            for part, size in zip(transformer.parts, group, strict=True):
                if part.size not in (None, size):
                    return False
            joined.append(sum(group))
        sizes = joined
    return True


STACKS = st.lists(PARTS, min_size=1, max_size=3)


@given(STACKS, st.integers(0, 30))
def test_stacked_transformers_split_like_one_after_the_other(
    transformers: list[ConcatParts], nbytes: int
) -> None:
    try:
        expected = split_one_after_the_other(transformers, nbytes)
    except PartsDoNotFit:
        return
    try:
        parts = stack(transformers)
    except MetadataError as error:
        assert "is listed twice" in str(error)
        return
    assert parts.writable
    ranges = parts.split(nbytes)
    suffixes = [leaf.key_suffix for leaf in parts.leaves]
    assert list(zip(suffixes, ranges, strict=True)) == expected
    assert parts.problem([stop - start for start, stop in ranges]) is None


@given(STACKS, st.data())
def test_a_stack_accepts_exactly_the_stored_sizes_that_join(
    transformers: list[ConcatParts], data: st.DataObject
) -> None:
    try:
        parts = stack(transformers)
    except MetadataError:
        return
    # Sizes that are often right: those the metadata gives, and small ones for the rest.
    sizes = [
        leaf.size if leaf.size is not None else data.draw(st.integers(0, 3))
        for leaf in parts.leaves
    ]
    at = data.draw(st.integers(0, len(sizes) - 1))
    sizes[at] = max(0, sizes[at] + data.draw(st.sampled_from([0, 0, 1, -1])))
    assert (parts.problem(sizes) is None) == stored_whole(transformers, sizes)


@given(STACKS, st.lists(st.integers(0, 3), min_size=27, max_size=27))
def test_a_refused_stack_has_no_sizes_that_join(
    transformers: list[ConcatParts], sizes: list[int]
) -> None:
    try:
        stack(transformers)
    except MetadataError as error:
        assume("is listed twice" not in str(error))
        count = 1
        for transformer in transformers:
            count *= len(transformer.parts)
        assert not stored_whole(transformers, sizes[:count])


def test_the_first_transformer_is_nearest_the_codecs() -> None:
    parts = stack([concat((".a", 3), ("", None)), concat(("", None), (".sum", 1))])
    assert parts.leaves == (Part(".a", 2), Part(".a.sum", 1), Part("", None), Part(".sum", 1))
    assert parts.split(10) == [(0, 2), (2, 3), (3, 9), (9, 10)]


def test_a_size_that_follows_from_the_inner_parts_is_known() -> None:
    parts = stack([concat((".a", None), (".b", None)), concat(("", 4), (".x", 2))])
    assert parts.writable
    assert parts.split(12) == [(0, 4), (4, 6), (6, 10), (10, 12)]
    with pytest.raises(PartsDoNotFit, match="exactly 12"):
        parts.split(13)


def test_a_size_is_passed_down_through_two_transformers() -> None:
    parts = stack([concat(("", 10)), concat(("", None), (".x", 3)), concat(("", None), (".y", 1))])
    assert [leaf.size for leaf in parts.leaves] == [6, 1, 2, 1]


def test_the_sum_of_parts_of_open_size_is_checked() -> None:
    parts = stack([concat((".h", 10), ("", None)), concat(("", None), (".x", None))])
    assert not parts.writable
    assert parts.problem([4, 6, 100, 1]) is None
    assert parts.problem([4, 5, 100, 1]) == (
        "part `.h` to part `.h.x` have 9 bytes together, their declared size is 10"
    )


@pytest.mark.parametrize(
    ("transformers", "message"),
    [
        (
            [concat(("", 3)), concat(("", 2), (".x", 2))],
            "has the size 3, but its own parts have 4",
        ),
        (
            [concat((".a", 3)), concat(("", None), (".x", 4))],
            "part `.a` has the size 3, but its own parts",
        ),
        ([concat((".a", 3)), concat(("", None), (".x", None), (".y", 4))], "at least 4 bytes"),
        ([concat((".a", 1), ("", None)), concat(("", 1), (".a", None))], "'.a' is listed twice"),
    ],
)
def test_transformers_that_contradict_each_other_are_refused(
    transformers: list[ConcatParts], message: str
) -> None:
    with pytest.raises(MetadataError) as caught:
        stack(transformers)
    assert message in str(caught.value)


@pytest.mark.parametrize("count", [17, 32, 33, 100_000])
def test_stacks_with_too_many_parts_are_refused_at_once(count: int) -> None:
    with pytest.raises(MetadataError, match="more than"):
        stack([concat(("", None), (".x", 1))] * count)


# -- what is wrong with a stored chunk


HEADER_DATA_INDEX = stack([concat((".header", 64), ("", None), (".index", 1604))])


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ([64, 0, 1604], None),
        ([64, 10**12, 1604], None),
        ([64, 5, None], "part `.index` is missing"),
        ([64, None, 1604], "the main part is missing"),
        ([64, 5, 20], "part `.index` has 20 bytes, its declared size is 1604"),
        ([0, 5, 1604], "part `.header` has 0 bytes, its declared size is 64"),
    ],
)
def test_a_chunk_that_is_not_whole_says_why(sizes: list[int | None], problem: str | None) -> None:
    assert HEADER_DATA_INDEX.problem(sizes) == problem


# -- parts in folder listings


@given(
    st.lists(st.text("ab./", max_size=4), min_size=1, max_size=8, unique=True),
    st.text("ab./", min_size=1, max_size=8),
)
def test_candidates_are_the_leaves_a_key_ends_with(suffixes: list[str], name: str) -> None:
    parts = StoredParts(tuple(Part(suffix, None) for suffix in suffixes))
    expected = {
        (name[: len(name) - len(suffix)], index)
        for index, suffix in enumerate(suffixes)
        if name.endswith(suffix) and len(name) > len(suffix)
    }
    found = list(parts.candidates(name))
    assert set(found) == expected
    assert len(found) == len(expected)
    assert parts.nested == tuple(suffix for suffix in suffixes if "/" in suffix)


def test_candidates_of_ten_thousand_parts_are_found_without_trying_each() -> None:
    parts = stack([concat(("", None), *((f".{i:05}", 1) for i in range(10_000)))])
    list(parts.candidates("0"))  # the table of suffixes is made once
    for i in range(10_000):
        assert list(parts.candidates(f"0.{i:05}")) == [(f"0.{i:05}", 0), ("0", i + 1)]


# -- parts that could be mistaken


TIFF = SuffixEncoding(".tiff")


@pytest.mark.parametrize(
    ("encoding", "suffixes"),
    [
        (DefaultEncoding(), ["", ".header", ".index"]),
        (DefaultEncoding("."), ["", ".x1", "-1"]),
        (DefaultEncoding(), ["", ".1"]),
        (DefaultEncoding(), [".0", ".1", ".2"]),
        (DefaultEncoding(), ["", "/index"]),
        (DefaultEncoding("."), ["", "/1"]),
        (TIFF, ["", ".index", ".tiff"]),
        (TIFF, ["0", "1"]),
        (TIFF, ["", "0.tiff"]),
        (SuffixEncoding(".1", V2Encoding()), ["", ".2"]),
        (V2Encoding(), ["", ".a", ".a.a", ".0a"]),
    ],
)
def test_parts_that_stand_apart_are_taken(encoding: ChunkKeyEncoding, suffixes: list[str]) -> None:
    parts = stack([concat(*((suffix, None) for suffix in suffixes))])
    check_part_keys(parts, encoding, 2)


@pytest.mark.parametrize(
    ("encoding", "suffixes", "message"),
    [
        (
            DefaultEncoding(),
            ["", "0"],
            "'0' behind the key 'c/1/1' is a key of the chunk at [1, 10",
        ),
        (DefaultEncoding(), ["0", ".x"], "is a key of the chunk at [1, 10]"),
        (DefaultEncoding("."), ["", "12"], "is a key of the chunk at [1, 112]"),
        (
            V2Encoding(),
            [".a", "7.a"],
            "'7.a' behind the key '1.1' is a key of the chunk at [1, 17]",
        ),
        (SuffixEncoding("0"), ["", "0"], "is a key of the chunk at [1, 10]"),
        (SuffixEncoding("01"), ["", "01"], "is a key of the chunk at [1, 101]"),
        (SuffixEncoding("/zarr"), ["", ".json"], "end in zarr.json"),
        (SuffixEncoding("/.z"), ["", "array"], "end in .zarray"),
        (DefaultEncoding(), ["", "/../x"], "path segment '..'"),
    ],
)
def test_parts_that_could_be_mistaken_are_refused(
    encoding: ChunkKeyEncoding, suffixes: list[str], message: str
) -> None:
    with pytest.raises(MetadataError, match=r"^parts: key_suffix: ") as caught:
        check_part_keys(StoredParts(tuple(Part(s, None) for s in suffixes)), encoding, 2)
    assert message in str(caught.value)


SUFFIX_TEXTS = st.text("01.x/", max_size=4)
KEY_ENCODINGS = st.recursive(
    st.builds(DefaultEncoding, st.sampled_from("/."))
    | st.builds(V2Encoding, st.sampled_from("/.")),
    lambda base: st.builds(SuffixEncoding, st.text("01.x", min_size=1, max_size=3), base),
    max_leaves=3,
)


@given(
    KEY_ENCODINGS,
    st.lists(SUFFIX_TEXTS, min_size=1, max_size=3, unique=True),
    st.integers(0, 2),
)
def test_one_key_for_two_chunks_is_found_as_if_all_keys_were_compared(
    encoding: ChunkKeyEncoding, suffixes: list[str], ndim: int
) -> None:
    # Up to 4 digits of 0 and 1 go behind a number of up to 2 digits.
    numbers = [0, 1, 10, 11]
    grid = list(itertools.product(numbers, repeat=ndim))
    chunks = {encoding.encode(coords): coords for coords in grid}
    for coords in grid:
        for suffix in suffixes:
            other = encoding.decode(encoding.encode(coords) + suffix, ndim)
            if other is not None:
                chunks[encoding.encode(other)] = other
            for behind in suffixes:
                if (stem := (encoding.encode(coords) + suffix).removesuffix(behind)) != "":
                    other = encoding.decode(stem, ndim)
                    if other is not None and encoding.encode(coords) + suffix == stem + behind:
                        chunks[stem] = other
    owners: dict[str, set[tuple[int, ...]]] = {}
    for key, coords in chunks.items():
        for suffix in {*suffixes, ""}:
            owners.setdefault(key + suffix, set()).add(coords)
    shared = any(len(coords) > 1 for coords in owners.values())
    try:
        check_part_keys(StoredParts(tuple(Part(s, None) for s in suffixes)), encoding, ndim)
    except MetadataError as error:
        assume("is a key of the chunk" in str(error))
        assert shared
    else:
        assert not shared


@pytest.mark.parametrize("encoding", [DefaultEncoding(), TIFF])
def test_ten_thousand_parts_are_checked_in_a_moment(encoding: ChunkKeyEncoding) -> None:
    suffixes = [f".{i}.x" for i in range(9_999)]
    values = [{"key_suffix": ""}, *({"key_suffix": suffix, "size": 1} for suffix in suffixes)]
    parts = stack([ConcatParts.from_configuration({"parts": values})])
    check_part_keys(parts, encoding, 3)
    assert parts.problem([1] * 10_000) is None
    assert len(parts.split(20_000)) == 10_000


@pytest.mark.parametrize(
    "suffixes",
    [
        [*("x" * i for i in range(1000)), *(f"y{i:05}" + "x" * 1000 for i in range(2900))],
        ["x" * 1000 + str(i) for i in range(5000)],
    ],
)
def test_suffixes_made_to_take_long_are_refused(suffixes: list[str]) -> None:
    values = [{"key_suffix": suffix} for suffix in suffixes]
    with pytest.raises(MetadataError, match=r"^parts: .*more than"):
        check_part_keys(
            stack([ConcatParts.from_configuration({"parts": values})]), DefaultEncoding(), 2
        )
