"""The numbers in names of files: patterns that are given, and those that are found out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from zarrfuse.indexing.names import NamesError, chunk_keys, guess_pattern, parse_pattern

LITERALS = st.text(
    st.characters(exclude_categories=["Nd", "Cc", "No", "Nl"]), min_size=1, max_size=5
)


@given(st.data())
@settings(max_examples=examples(200))
def test_the_guessed_pattern_gives_back_the_numbers_that_were_formatted(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(1, 4))
    parts = data.draw(st.lists(LITERALS, min_size=count + 1, max_size=count + 1))
    widths = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    values = data.draw(
        st.lists(st.tuples(*[st.integers(0, 2000)] * count), min_size=2, max_size=8, unique=True)
    )
    names = [
        "".join(f"{part}{n:0{w}}" for part, n, w in zip(parts, value, widths, strict=False))
        + parts[-1]
        for value in values
    ]
    pattern = guess_pattern(names)
    columns = [column for column in zip(*values, strict=True) if len(set(column)) > 1]
    different = list(dict.fromkeys(columns))
    found = [pattern.values(name) for name in names]
    assert list(zip(*found, strict=True)) == different


@pytest.mark.parametrize(
    "names, text",
    [
        (["t0_z1.tif", "t10_z1.tif"], "t{t}_z1.tif"),
        (["t01/t01_y0.tif", "t02/t02_y1.tif"], "t{t}/t{t}_y{y}.tif"),
        (["3.tif", "4.tif"], "{i}.tif"),
        (["a1b1.tif", "a1b2.tif", "a2b1.tif"], "a{a}b{b}.tif"),
        (["x{7}_1.tif", "x{7}_2.tif"], "x*7*_{i}.tif"),
        (["\udcff_1.tif", "\udcff_2.tif"], "*_{i}.tif"),
        (["run007_1.tif", "run7_2.tif"], "run*_{i}.tif"),
        (["only.tif"], "only.tif"),
    ],
)
def test_guessed_patterns(names: list[str], text: str) -> None:
    pattern = guess_pattern(names)
    assert pattern.text == text
    assert None not in [pattern.values(name) for name in names]


def test_names_that_differ_in_more_than_numbers_are_told_apart() -> None:
    with pytest.raises(NamesError, match=r"t1_DAPI.tif and t1_GFP.tif differ .*--pattern"):
        guess_pattern(["t1_DAPI.tif", "t1_GFP.tif"])
    with pytest.raises(NamesError, match="there are no files"):
        guess_pattern([])


@pytest.mark.parametrize(
    "text, name, values",
    [
        ("t{t}.tif", "t007.tif", (7,)),
        ("t{t}.tif", "t000.tif", (0,)),
        ("t{t}.tif", "t1x.tif", None),
        ("{c:DAPI|GFP}_{z}.tif", "GFP_03.tif", (1, 3)),
        ("{c:A|AB}{z}.tif", "AB3.tif", (1, 3)),
        ("{c:A|B}/{c:A|B}_{z}.tif", "B/A_1.tif", None),
        ("{t}/*_{t}.tif", "3/any_003.tif", (3,)),
        ("{t}/{t}*", "1/12.tif", None),
        ("*/{t}.tif", "a/b/1.tif", None),
        ("*{t}.tif", "img012.tif", (12,)),
        ("*{t}_*{t}.tif", "a12_b012.tif", (12,)),
        ("*{t}_*{t}.tif", "a2_b12.tif", None),
        ("100%_{t} ä.tif", "100%_5 ä.tif", (5,)),
        ("a.b{t}", "axb1", None),
    ],
)
def test_values_of_a_pattern(text: str, name: str, values: tuple[int, ...] | None) -> None:
    assert parse_pattern(text).values(name) == values


@pytest.mark.parametrize(
    "text, said",
    [
        ("t{}.tif", "needs a name"),
        ("t{1}.tif", "needs a name"),
        ("t{t.tif", "brace"),
        ("t}.tif", "brace"),
        ("{c:a||b}", "empty word"),
        ("{c:a|a}", "twice"),
        ("{a}{b}.tif", "ends cannot be told"),
        ("{a}5.tif", "ends cannot be told"),
        ("\udcff{a}", "UTF-8"),
        ("".join(f"_{{a{n}}}" for n in range(33)), "more than 32"),
    ],
)
def test_patterns_that_are_refused(text: str, said: str) -> None:
    with pytest.raises(NamesError, match=said):
        parse_pattern(text)


@pytest.mark.parametrize(
    "names, ndim",
    [
        (["c/0/1.tif", "c/1/1.tif"], 2),
        (["c.0.1.tif"], 2),
        (["0.1.tif", "0.2.tif"], 2),
        (["0.tif", "1.tif"], None),
        (["0/1.tif"], None),
        (["00.01.tif"], None),
        (["c/0/1.tif", "c/0/1/2.tif"], None),
    ],
)
def test_names_that_are_keys_of_chunks(names: list[str], ndim: int | None) -> None:
    found = chunk_keys(names, ".tif")
    assert (None if found is None else found[1]) == ndim
