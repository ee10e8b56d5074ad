"""Folders of a server that lists nothing: their names come from documents."""

import json
from pathlib import Path
from typing import Any

import pytest
import zarr
from builders.documents import array, extension, group
from builders.folders import write_keys
from builders.http_server import serving_http

from zarrfuse.errors import NotFound, Stale


def walked(run, requests, folder: str = "") -> list[str]:
    """All files that are listed, whether or not they are there."""
    listing = run(requests.list(folder))
    found = [f"{folder}/{name}".lstrip("/") for name in listing.files]
    for name in listing.folders:
        found += walked(run, requests, f"{folder}/{name}".lstrip("/"))
    return found


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def ome(version: str, **attributes: Any) -> dict[str, Any]:
    """Attributes of OME-NGFF: of 0.5 within `ome`."""
    return {"ome": {"version": version, **attributes}} if version == "0.5" else attributes


def multiscales(*paths: str) -> list[dict[str, Any]]:
    axes = [{"name": name, "type": "space"} for name in "yx"]
    return [{"axes": axes, "datasets": [{"path": path} for path in paths]}]


class Written:
    """An OME-NGFF hierarchy below a folder, in the Zarr format of its version."""

    def __init__(self, folder: Path, version: str) -> None:
        self.version = version
        self._root = folder
        self._zarr_format: Any = 3 if version == "0.5" else 2

    def group(self, path: str, **attributes: Any) -> None:
        zarr.create_group(
            self._root,
            path=path,
            zarr_format=self._zarr_format,
            attributes=ome(self.version, **attributes),
        )

    def array(self, path: str) -> None:
        made = zarr.create_array(
            self._root,
            name=path,
            shape=(5, 4),
            chunks=(2, 2),
            dtype="uint8",
            zarr_format=self._zarr_format,
        )
        made[...] = 1

    def image(self, path: str, *levels: str, **attributes: Any) -> None:
        self.group(path, multiscales=multiscales(*levels), **attributes)
        for level in levels:
            self.array(f"{path}/{level}".lstrip("/"))


@pytest.fixture(params=["0.4", "0.5"])
def written(request, served) -> Written:
    return Written(served, request.param)


def test_an_image_with_labels_is_listed_whole(run, serve, served, opened, written) -> None:
    written.image("", "0", "1")
    written.group("labels", labels=["nuclei", "cells"])
    written.image("labels/nuclei", "0", **{"image-label": {"version": "0.4"}})
    written.image("labels/cells", "0", "1", **{"image-label": {}})
    requests = opened(serve().url)
    listing = run(requests.list(""))
    assert list(listing.folders) == ["0", "1", "labels"]
    assert not listing.is_whole
    assert set(walked(run, requests)) == files_below(served)


def test_a_plate_is_listed_whole(run, serve, served, opened, written) -> None:
    wells = [{"path": "A/1"}, {"path": "A/2"}, {"path": "B/1"}]
    written.group("", plate={"wells": wells, "rows": [{"name": "A"}, {"name": "B"}]})
    for well in wells:
        written.group(well["path"], well={"images": [{"path": "0"}, {"path": "1"}]})
        for field in "01":
            written.image(f"{well['path']}/{field}", "0", "1")
    requests = opened(serve().url)
    assert list(run(requests.list("")).folders) == ["A", "B"]
    assert list(run(requests.list("A")).folders) == ["1", "2"]
    listed = set(walked(run, requests))
    assert listed == files_below(served)
    with pytest.raises(NotFound):
        run(requests.list("C"))


OME_XML = b"""<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">
<Image ID="Image:0"><Pixels/></Image><Image ID="Image:1"><Pixels/></Image>
<StructuredAnnotations/></OME>"""


@pytest.mark.parametrize("told_by", ["series", "xml", "nothing"])
def test_the_images_of_bioformats2raw_are_listed(
    run, serve, served, opened, written, told_by
) -> None:
    written.group("", **{"bioformats2raw.layout": 3})
    written.image("0", "0", "1")
    written.image("1", "0")
    if told_by != "nothing":
        written.group("OME", **({"series": ["0", "1"]} if told_by == "series" else {}))
        (served / "OME/METADATA.ome.xml").write_bytes(OME_XML)
    requests = opened(serve().url)
    assert sorted(run(requests.list("")).folders) == ["0", "1"] + ["OME"] * (told_by != "nothing")
    assert set(walked(run, requests)) == files_below(served)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_consolidated_metadata_name_all_nodes_without_requests(
    run, serve, served, opened, zarr_format
) -> None:
    root = zarr.create_group(served, zarr_format=zarr_format, attributes={"a": 1})
    for path in ("b/c", "b/d", "e"):
        root.create_array(path, shape=(5,), chunks=(2,), dtype="uint8")[...] = 1
    zarr.consolidate_metadata(served)
    server = serve()
    requests = opened(server.url)
    run(requests.list(""))
    server.asked()
    listed = set(walked(run, requests))
    assert server.asked() == []
    assert files_below(served) <= listed
    # Zarr-python consolidates `.zattrs` also where it stores none.
    assert {path for path in listed - files_below(served) if not path.endswith(".zattrs")} == set()


def test_the_arrays_of_zep_10_are_listed(run, serve, served, opened) -> None:
    listed = extension("example.multiscale-arrays", multiscale={"datasets": ["s/0", "1"]})
    keys = {
        "zarr.json": group(extensions=[listed]),
        "s/0/zarr.json": array(),
        "1/zarr.json": array(),
    }
    write_keys(served, keys)
    requests = opened(serve().url)
    assert list(run(requests.list("")).folders) == ["s", "1"]
    assert list(run(requests.list("s")).folders) == ["0"]


def test_suffixes_and_parts_are_listed(run, opened, demo, tmp_path) -> None:
    [store] = [document.parent for document in demo.glob("*/zarr.json")]
    arrays = [document.parent for document in store.glob("*/zarr.json")]
    assert {array.name for array in arrays} >= {"raw", "strips", "checksum", "header"}
    with serving_http(store, tmp_path / "nginx") as server:
        requests = opened(server.url)
        for array in arrays:
            stored = {f"{array.name}/{path}" for path in files_below(array)}
            listed = set(walked(run, requests, array.name))
            assert stored <= listed
            assert all("/c/" in path for path in listed - stored)  # chunks that are not there


def test_a_node_that_no_document_names_is_reached_by_its_name(run, serve, served, opened) -> None:
    keys = {"zarr.json": group(), "foo/zarr.json": group(), "foo/bar/zarr.json": array()}
    write_keys(served, keys)
    requests = opened(serve().url)
    assert list(run(requests.list("")).folders) == []
    assert run(requests.find("foo/zarr.json")).size == len(keys["foo/zarr.json"])
    assert dict(run(requests.list("foo")).files).keys() == {"zarr.json"}
    assert list(run(requests.list("foo/bar")).folders) == ["c"]
    for path in ("fo", "foo/ba", "foo/bar/d", "foo/zarr.json/x"):
        with pytest.raises(NotFound):
            run(requests.list(path))


def test_documents_are_listed_with_their_sizes_and_chunks_without(
    run, serve, served, opened
) -> None:
    write_keys(served, {"zarr.json": array((4,)), "c/0": b"chunk"})
    requests = opened(serve().url)
    files = run(requests.list("")).files
    assert files["zarr.json"] == run(requests.find("zarr.json"))
    assert set(run(requests.list("c")).files.values()) == {None}


def test_a_folder_of_many_chunks_costs_no_request_for_each(run, serve, served, opened) -> None:
    zarr.create_array(served, shape=(100, 100), chunks=(1, 1), dtype="uint8")
    server = serve()
    requests = opened(server.url)
    assert len(walked(run, requests)) == 10_001
    assert len(server.asked()) < 25
    assert len(walked(run, requests)) == 10_001
    assert server.asked() == []


def test_documents_are_asked_for_again_when_they_are_old(run, serve, served, opened) -> None:
    write_keys(served, {"zarr.json": group(attributes={"ome": {"multiscales": multiscales("0")}})})
    requests = opened(serve().url, kept_s=0.0)
    assert list(run(requests.list("")).folders) == ["0"]
    write_keys(
        served, {"zarr.json": group(attributes={"ome": {"multiscales": multiscales("0", "1")}})}
    )
    assert list(run(requests.list("")).folders) == ["0", "1"]


@pytest.mark.parametrize("noticed_by", ["find", "get"])
def test_a_document_that_is_seen_to_be_replaced_is_asked_for_again(
    run, serve, served, opened, noticed_by
) -> None:
    write_keys(served, {"zarr.json": group()})
    requests = opened(serve().url)
    old = run(requests.list("")).files["zarr.json"]
    write_keys(served, {"zarr.json": group(attributes={"ome": {"multiscales": multiscales("0")}})})
    if noticed_by == "find":
        assert run(requests.find("zarr.json")) != old
    else:
        with pytest.raises(Stale):
            run(requests.get("zarr.json", 0, 5, old))
    listing = run(requests.list(""))
    assert list(listing.folders) == ["0"]
    assert listing.files["zarr.json"] == run(requests.find("zarr.json")) != old


def test_a_node_that_appears_is_listed_once_its_document_is_seen(
    run, serve, served, opened
) -> None:
    write_keys(served, {"zarr.json": group()})
    requests = opened(serve().url)
    with pytest.raises(NotFound):
        run(requests.list("new"))
    write_keys(served, {"new/zarr.json": group()})
    run(requests.find("new/zarr.json"))
    assert list(run(requests.list("new")).files) == ["zarr.json"]


BROKEN: dict[str, Any] = {
    "no JSON": b"{",
    "paths outside": group(attributes={"ome": {"multiscales": multiscales("../x", "/y", "a//b")}}),
    "wrong types": group(attributes={"ome": 3, "plate": [], "labels": {"a": 1}, "well": "x"}),
    "wrong wells": group(
        attributes={
            "ome": {"plate": {"wells": [3, {}, {"path": 1}, {"path": ".."}]}, "labels": [1]}
        }
    ),
    "wrong copies": group(consolidated_metadata={"metadata": {"..": {}, "a//b": {}, "": 3}}),
    "not to be loaded": group(extensions=[{"name": "unknown"}]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_documents_name_nothing(run, serve, served, opened, name) -> None:
    write_keys(served, {"zarr.json": BROKEN[name]})
    listing = run(opened(serve().url).list(""))
    assert (list(listing.files), list(listing.folders)) == (["zarr.json"], [])


def test_a_group_with_an_unknown_extension_still_names_its_arrays(
    run, serve, served, opened
) -> None:
    document = json.loads(group(attributes={"ome": {"multiscales": multiscales("0")}}))
    document["extensions"] = [{"name": "unknown"}]
    write_keys(served, {"zarr.json": json.dumps(document).encode()})
    assert list(run(opened(serve().url).list("")).folders) == ["0"]


def test_403_for_what_is_missing_is_as_if_it_were_not_there(run, serve, served, opened) -> None:
    write_keys(served, {"zarr.json": group(), "a/zarr.json": array()})
    requests = opened(serve(more="error_page 404 =403 /nothing;").url)
    with pytest.raises(NotFound):
        run(requests.find("missing"))
    with pytest.raises(NotFound):
        run(requests.list("missing"))
    assert list(run(requests.list("a")).folders) == ["c"]
