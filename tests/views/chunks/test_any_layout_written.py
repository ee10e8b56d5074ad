"""What is written to chunks of any layout is read again."""

import tempfile
from pathlib import Path
from typing import Any

from builders.documents import array, concat_parts
from builders.view_writing import put, remove
from builders.views import content_of, names_in
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from writable_chunks import files, opened

SUFFIXES = ["", ".a", ".b", "/in", ".d/in", ".d/also"]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[Any], int, int]:
    """Stacked transformers that can be written, and the sizes of two chunks that fit."""
    suffixes = draw(st.lists(st.sampled_from(SUFFIXES), min_size=1, max_size=4, unique=True))
    if "" in suffixes and "/in" in suffixes:
        suffixes.remove("/in")
    sizes = [draw(st.integers(0, 40)) for _ in suffixes]
    is_open = draw(st.booleans())
    at = draw(st.integers(0, len(suffixes) - 1))
    parts = [
        suffix if is_open and index == at else (suffix, size)
        for index, (suffix, size) in enumerate(zip(suffixes, sizes, strict=True))
    ]
    least = sum(part[1] for part in parts if isinstance(part, tuple))
    more = st.integers(0, 60) if is_open else st.just(0)
    return [concat_parts(*parts)], least + draw(more), least + draw(more)


@settings(max_examples=examples(60), deadline=None)
@given(layouts(), st.randoms(use_true_random=False))
def test_what_is_written_is_read_again(layout: tuple[list[Any], int, int], chance: Any) -> None:
    transformers, first, second = layout
    with tempfile.TemporaryDirectory() as base:
        document = array((4,), transformers=transformers)
        with opened(Path(base, "store"), {"zarr.json": document}) as root:
            for size in (first, second):
                data = chance.randbytes(size)
                put(root, "c/0", data)
                assert content_of(root, "c/0") == data
                parts = transformers[0]["configuration"]["parts"]
                kept = files(Path(base, "store"))
                assert b"".join(kept[f"c/0{part['key_suffix']}"] for part in parts) == data
                assert len(kept) == len(parts)
                assert names_in(root, "c") & {"0"}
            remove(root, "c/0")
            assert files(Path(base, "store")) == {}
            assert names_in(root, "c") == set()
