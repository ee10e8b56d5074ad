"""Nothing is decoded ahead, and no picture made, of arrays on slow storage."""

import json
from typing import Any

import pytest
from builders.documents import array, group, suffix_keys
from builders.views import content_of, folder_at
from small_images import TIFF, pyramid_keys, view

from zarrfuse.views.images.pixels import Pixels
from zarrfuse.views.images.pyramid import pyramid_file


def test_nothing_is_decoded_ahead_on_slow_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead: list[bool] = []
    monkeypatch.setattr(
        "zarrfuse.views.images.arrays.Pixels",
        lambda *arguments, **options: (
            ahead.append(options["ahead"]) or Pixels(*arguments, **options)
        ),
    )
    for keys in ({"a/zarr.json": array()}, slow()):
        folder_at(view(keys), "a").open("a.npy").close()
    assert ahead == [True, False]


def test_no_picture_is_made_of_a_level_on_slow_storage(planned: list[list[str]]) -> None:
    keys = pyramid_keys()
    tiers = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["s1"]}}
    document = json.loads(keys["g/zarr.json"])
    document["extensions"] = [{**tiers, "must_understand": False}]
    keys["g/zarr.json"] = json.dumps(document).encode()
    folder_at(view(keys), "g/s0").lookup("s0.png")
    assert planned == [[]]


def test_no_pyramid_with_a_level_on_slow_storage_is_decoded_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead: list[bool] = []
    monkeypatch.setattr(
        "zarrfuse.views.images.groups.pyramid_file",
        lambda *arguments, **options: (
            ahead.append(options["ahead"]) or pyramid_file(*arguments, **options)
        ),
    )
    tiers = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["s1"]}}
    for extensions in ({}, {"extensions": [{**tiers, "must_understand": False}]}):
        keys = pyramid_keys()
        document = json.loads(keys["g/zarr.json"])
        keys["g/zarr.json"] = json.dumps({**document, **extensions}).encode()
        folder_at(view(keys), "g").open("g.ome.tiff").close()
    assert ahead == [True, False]


def slow(**options: Any) -> dict[str, bytes]:
    tiers = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["a"]}}
    return {
        "zarr.json": group(extensions=[{**tiers, "must_understand": False}]),
        "a/zarr.json": array(**options),
    }


def test_an_array_on_slow_storage_has_no_picture_and_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = view({**slow(), "a/c/0/0": bytes(4)})
    assert sorted(folder_at(root, "a").list()) == ["a.npy", "a.tiff", "c", "zarr.json"]
    assert "slow" in folder_at(root, "a").facts(None).to_json()["renderings"]["a.png"]
    assert not caplog.records
    folder_at(root, "a").open("a.npy").close()
    assert "is on slow storage" in caplog.text


def test_no_chunk_on_slow_storage_is_looked_at_to_list_it(caplog: pytest.LogCaptureFixture) -> None:
    root = view({**slow(keys=suffix_keys(".tiff")), "a/c/0/0.tiff": TIFF})
    assert folder_at(root, "a/c/0").list()["0.tiff"].size == len(TIFF)
    assert not caplog.records
    assert content_of(root, "a/c/0/0.tiff") == TIFF
    assert "is on slow storage" in caplog.text
