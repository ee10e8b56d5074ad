"""The chunks that the `plain` view shows are those that are stored, whatever the layout."""

from typing import Any

from builders.documents import array, default_keys, suffix_keys, v2_keys
from builders.views import FOREVER, folder_at, tree_of
from core_documents import others, view
from hypothesis import example, given
from hypothesis import strategies as st

from zarrfuse.spec.chunk_keys import parse_chunk_key_encoding
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v3 import parse_v3

encodings = st.recursive(
    st.sampled_from([default_keys("/"), default_keys("."), v2_keys("/"), v2_keys(".")]),
    lambda inner: st.builds(suffix_keys, st.sampled_from([".tiff", "x", "/data", ".a/b.c"]), inner),
    max_leaves=1,
)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[bytes, dict[tuple[int, ...], str]]:
    """A document, and the stored keys of some of its chunks by their coordinates."""
    shape = draw(st.lists(st.integers(0, 40), max_size=4))
    chunk_shape = [draw(st.integers(1, 8)) for _ in shape]
    keys = draw(encodings)
    document = array(shape, chunk_shape, keys=keys)
    node = parse_v3(document)
    assert isinstance(node, ArrayNode)
    if 0 in node.grid_shape:
        return document, {}
    one = st.tuples(*(st.integers(0, count - 1) for count in node.grid_shape))
    return document, {coords: node.chunk_key(coords) for coords in draw(st.sets(one, max_size=12))}


@given(arrays(), st.sampled_from([0.0, FOREVER]))
def test_the_chunks_shown_are_the_chunks_stored(
    stored: tuple[bytes, dict[tuple[int, ...], str]], ttl_s: float
) -> None:
    document, keys = stored
    chunks = {f"a/{key}": str(coords).encode() for coords, key in keys.items()}
    root = view({"a/zarr.json": document, "a/x.txt": b"x", **chunks}, ttl_s)
    assert others(root) == {
        "a/x.txt": b"x",
        **{"/".join(map(str, ("a/c", *c))): str(c).encode() for c in keys},
    }
    for coords, key in keys.items():
        folder, _, name = "/".join(map(str, ("a/c", *coords))).rpartition("/")
        facts = folder_at(root, folder).facts(name).to_json()
        assert facts["chunk_coords"] == list(coords)
        assert facts["stored_key"] == key


segments = st.sampled_from(
    [
        "c",
        "0",
        "1",
        "7",
        "00",
        "0.1",
        "c.0.1",
        "0.tiff",
        "1.tiff",
        "0x",
        "x",
        "data",
        ".zattrs",
        "n",
    ]
)


@given(
    st.sampled_from([(), (4,), (4, 4), (4, 4, 4)]),
    encodings,
    st.sets(st.lists(segments, min_size=1, max_size=5).map("/".join), max_size=15),
)
@example((4, 4), suffix_keys("x", v2_keys("/")), {"0/0x/n"})  # a folder under a chunk's key
def test_whatever_else_is_stored_the_chunks_shown_are_those_stored(
    shape: tuple[int, ...], keys: dict[str, Any], names: set[str]
) -> None:
    document = array(shape, keys=keys)
    node = parse_v3(document)
    assert isinstance(node, ArrayNode)
    files = {name for name in names if not any(other.startswith(f"{name}/") for other in names)}
    root = view({"zarr.json": document, **{name: name.encode() for name in files}})
    shown = tree_of(root)
    stored = {c: name for name in files if (c := node.chunk_at(name)) is not None}
    decode = parse_chunk_key_encoding(default_keys()).decode
    chunks = {
        coords: data.decode()
        for path, data in shown.items()
        if data is not None
        and (coords := decode(path, node.ndim)) is not None
        and all(n < count for n, count in zip(coords, node.grid_shape, strict=True))
    }
    assert chunks == stored
    assert ".zattrs" not in shown
