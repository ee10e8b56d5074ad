"""What the `images` view shows of nodes that it cannot decode, or that no format can hold."""

import io
import json
from math import inf

import numpy as np
import pytest
from builders.documents import array, suffix_keys
from builders.views import content_of, folder_at
from small_images import CHUNKS, TIFF, WHOLE, view

from zarrfuse.errors import NotFound, NotSupported


def test_a_node_that_must_not_be_loaded_is_as_in_chunks() -> None:
    document = array(mystery=1)
    root = view({"a/zarr.json": document, "a/c/0/0": bytes(4), "a/b/zarr.json": array()})
    assert sorted(folder_at(root, "a").list()) == ["b", "c", "zarr.json"]
    assert content_of(root, "a/zarr.json") == document
    with pytest.raises(NotSupported, match="mystery"):
        content_of(root, "a/c/0/0")
    assert "b.tiff" in folder_at(root, "a/b").list()


def test_an_array_that_nobody_could_decode_is_listed_and_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    document = json.loads(array())
    del document["fill_value"]
    root = view({"a/zarr.json": json.dumps(document).encode(), "a/c/0/0": bytes(4)})
    for path in (*WHOLE, *CHUNKS):
        folder, _, name = path.rpartition("/")
        assert folder_at(root, folder).list()[name].size > 0
        with pytest.raises(NotSupported, match="fill_value: is missing"):
            folder_at(root, folder).open(name)
    assert "fill_value" in folder_at(root, "a").facts(None).to_json()["not_decoded"]
    assert "not decoded: a/zarr.json: fill_value: is missing" in caplog.text


def test_stored_tiff_files_are_passed_on_whether_they_can_be_decoded_or_not() -> None:
    document = json.loads(array(keys=suffix_keys(".tiff"), codecs=[{"name": "unheard.of"}]))
    del document["fill_value"]
    root = view({"a/zarr.json": json.dumps(document).encode(), "a/c/0/0.tiff": TIFF})
    assert content_of(root, "a/c/0/0.tiff") == TIFF
    with pytest.raises(NotSupported):
        folder_at(root, "a/c/0").open("1.tiff")


def test_an_unknown_codec_is_told_of_when_a_file_is_opened() -> None:
    codecs = [{"name": "bytes"}, {"name": "unheard.of"}]
    root = view({"a/zarr.json": array(codecs=codecs), "a/c/0/0": bytes(4)})
    for path in (*WHOLE, "a/c/0/0.tiff"):
        folder, _, name = path.rpartition("/")
        assert folder_at(root, folder).lookup(name).size > 0
        with pytest.raises(NotSupported, match=r"unheard\.of"):
            folder_at(root, folder).open(name)
    assert "unheard.of" in folder_at(root, "a").facts(None).to_json()["not_decoded"]


def test_unknown_codecs_are_not_looked_for_in_the_event_loop() -> None:
    codecs = [{"name": "bytes"}, {"name": "unheard.of"}]
    folder = folder_at(view({"a/zarr.json": array(codecs=codecs)}, inf), "a")
    folder.list()
    with pytest.raises(BlockingIOError):
        folder.open("a.npy", wait=False)


def test_a_type_that_tiff_lacks_has_only_npy_and_facts_say_so() -> None:
    document = array(data_type="complex64", fill_value=[0.0, 0.0])
    root = view({"a/zarr.json": document, "a/c/0/0": bytes(32)})
    assert sorted(folder_at(root, "a").list()) == ["a.npy", "zarr.json"]
    with pytest.raises(NotFound):
        folder_at(root, "a").lookup("c")
    told = folder_at(root, "a").facts(None).to_json()["renderings"]
    assert isinstance(told["a.npy"], int)
    assert "complex64" in told["c"]
    assert "complex64" in told["a.tiff"]
    assert isinstance(told["a.png"], str)


def test_elements_without_a_size_have_no_rendering() -> None:
    root = view(
        {"a/zarr.json": array(data_type="string", fill_value="", codecs=[{"name": "vlen-utf8"}])}
    )
    assert sorted(folder_at(root, "a").list()) == ["zarr.json"]
    told = folder_at(root, "a").facts(None).to_json()["renderings"]
    assert told.keys() == {"c", "a.tiff", "a.npy", "a.png"}
    assert all("string" in reason for reason in told.values())


def test_an_array_without_elements_is_a_numpy_file() -> None:
    root = view({"a/zarr.json": array((0, 4))})
    assert sorted(folder_at(root, "a").list()) == ["a.npy", "zarr.json"]
    assert np.load(io.BytesIO(content_of(root, "a/a.npy"))).shape == (0, 4)


def test_an_array_larger_than_any_file_says_so() -> None:
    root = view({"a/zarr.json": array((10**10, 10**10), (10**10, 10**10))})
    assert "zarr.json" in folder_at(root, "a").list()
    assert not [name for name in folder_at(root, "a").list() if name in ("a.npy", "a.tiff", "c")]
    assert (
        "more bytes than a file can"
        in folder_at(root, "a").facts(None).to_json()["renderings"]["a.npy"]
    )


@pytest.mark.parametrize(
    "formats, names",
    [
        (("tiff",), ["a.tiff", "c", "zarr.json"]),
        (("npy",), ["a.npy", "zarr.json"]),
        (("png",), ["a.png", "zarr.json"]),
        (("ome",), ["zarr.json"]),
    ],
)
def test_fewer_formats_are_shown(formats: tuple[str, ...], names: list[str]) -> None:
    root = view({"a/zarr.json": array(), "a/c/0/0": bytes(4)}, formats=formats)
    assert sorted(folder_at(root, "a").list()) == names
    assert set(folder_at(root, "a").facts(None).to_json().get("renderings", {})) <= {
        *names,
        "c/0/0.tiff",
    }


def test_a_name_too_long_for_a_file_is_left_out() -> None:
    name = "n" * 252
    root = view({f"{name}/zarr.json": array()})
    assert sorted(folder_at(root, name).list()) == ["c", "zarr.json"]
    assert (
        "more than 255" in folder_at(root, name).facts(None).to_json()["renderings"][f"{name}.npy"]
    )
