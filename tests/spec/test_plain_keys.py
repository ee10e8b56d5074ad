"""Where an encoding puts the chunks that are shown in the folders `c/0/1`."""

import pytest
from builders.documents import default_keys, suffix_keys, v2_keys
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.spec.chunk_keys import DefaultEncoding, SuffixEncoding, parse_chunk_key_encoding
from zarrfuse.spec.plain_keys import KeyLayout, coordinate, key_layout


@pytest.mark.parametrize(
    "keys, ndim, layout",
    [
        (default_keys(), 3, KeyLayout("folders", "c")),
        (default_keys(), 1, KeyLayout("folders", "c")),
        (default_keys("."), 2, KeyLayout("flat")),
        (v2_keys("/"), 2, KeyLayout("folders")),
        (v2_keys("."), 2, KeyLayout("flat")),
        (v2_keys("."), 1, KeyLayout("folders")),
        (suffix_keys(".tiff"), 2, KeyLayout("folders", "c", ".tiff")),
        (suffix_keys(".b", suffix_keys(".a", v2_keys("/"))), 2, KeyLayout("folders", "", ".a.b")),
        (default_keys(), 0, KeyLayout("flat")),
        (suffix_keys("/x"), 0, KeyLayout("flat", suffix="/x")),
    ],
)
def test_the_layout_of_the_built_in_encodings(
    keys: dict[str, object], ndim: int, layout: KeyLayout
) -> None:
    assert key_layout(parse_chunk_key_encoding(keys), ndim) == layout


class Elsewhere(DefaultEncoding):
    """An encoding from elsewhere, which may encode as it likes."""


@pytest.mark.parametrize("encoding", [Elsewhere(), SuffixEncoding(".x", Elsewhere())])
def test_nothing_is_known_of_other_encodings(encoding: SuffixEncoding) -> None:
    assert key_layout(encoding, 2).way == "unknown"


@given(
    coords=st.lists(st.integers(0, 10**30), min_size=1, max_size=4),
    keys=st.sampled_from(
        [default_keys(), v2_keys("/"), suffix_keys(".tiff"), suffix_keys(".a", v2_keys("/"))]
    ),
)
def test_a_key_begins_with_the_folder_of_each_of_its_beginnings(
    coords: list[int], keys: dict[str, object]
) -> None:
    encoding = parse_chunk_key_encoding(keys)
    layout = key_layout(encoding, len(coords))
    key = encoding.encode(coords)
    assert layout.way == "folders"
    for depth in range(len(coords)):
        folder = layout.folder(coords[:depth])
        assert key.startswith(f"{folder}/" if folder else "")
    last = key.rpartition("/")[2]
    assert coordinate(last.removesuffix(layout.suffix), coords[-1] + 1) == coords[-1]


@pytest.mark.parametrize(
    "name", ["", "01", "+1", "1 ", " 1", "\u0661", "1.0", "-1", "5", "9" * 641]
)
def test_only_canonical_numbers_in_the_grid_are_coordinates(name: str) -> None:
    assert coordinate(name, 5) is None
    assert coordinate("4", 5) == 4
