"""Generic extensions act in the views: on what is told, on what is opened, and over references."""

import errno
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any, ClassVar

import pytest
from builders.documents import array, concat_parts, group, v2_array
from builders.fake_stores import FailingStore, ForwardingStore, MemoryStore
from builders.logs import warnings_in
from builders.plug_ins import Install, installing

from zarrfuse.errors import Denied, NotSupported, ZarrfuseError
from zarrfuse.spec.active import EXTENSIONS
from zarrfuse.spec.extensions import GenericExtension
from zarrfuse.spec.node import ArrayNode
from zarrfuse.stores.base import Store
from zarrfuse.views.attributes import attributes
from zarrfuse.views.choice import open_view
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView

OFFSET = {"name": "example.offset", "configuration": {"offset": [12, 24]}}
STATISTICS = {"name": "example.array-statistics", "configuration": {"min": 5, "max": 1023}}
PARENT = {"name": "example.parent-ref", "configuration": {"reference": ".."}}


def tiered(*paths: str) -> dict[str, Any]:
    return {"name": "example.tiered-storage", "configuration": {"slow-arrays": list(paths)}}


def pyramid(*paths: str) -> dict[str, Any]:
    datasets = {"multiscale": {"datasets": list(paths)}}
    return {"name": "example.multiscale-arrays", "configuration": datasets}


KEYS = {
    "zarr.json": group(extensions=[tiered("a", "g/b", "g/v2", "gone"), pyramid("a", "g/b")]),
    "a/zarr.json": array(extensions=[OFFSET, STATISTICS, "example.skip_empty_chunks"]),
    "a/c/0/0": b"aaaa",
    "a/c/0/1": b"bbbb",
    "a/c/9/9": b"no chunk of the grid",
    "g/zarr.json": group(),
    "g/b/zarr.json": array(transformers=[concat_parts("", (".i", 1))]),
    "g/b/c/0/0": b"bbb",
    "g/b/c/0/0.i": b"i",
    "g/v2/.zarray": v2_array(separator="/"),
    "g/v2/0/0": b"v2v2",
    "g/fast/zarr.json": array(extensions=[PARENT]),
    "g/fast/c/0/0": b"fast",
}


class Changing(ForwardingStore):
    """Keys that a test may replace; counts how often each document is opened."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        super().__init__(MemoryStore(keys))
        self.keys = dict(keys)
        self.opened: Counter[str] = Counter()

    def put(self, changes: Mapping[str, bytes | None]) -> None:
        """Replace documents, by the path of their node; None removes one."""
        for path, text in changes.items():
            key = f"{path}/zarr.json".lstrip("/")
            if text is None:
                del self.keys[key]
            else:
                self.keys[key] = text
        self.inner = MemoryStore(self.keys)

    def before(self, call: str, key: str, wait: bool) -> None:
        if call == "open":
            self.opened[key] += 1


def folder_at(store: Store, path: str, ttl_s: float = inf) -> ChunksFolder:
    folder = ChunksView(store, ttl_s).root
    for name in filter(None, path.split("/")):
        folder = folder.child(name)
    return folder


# -- facts


def test_an_array_tells_of_its_own_extensions_and_of_those_above() -> None:
    facts = folder_at(MemoryStore(KEYS), "a").facts(None).to_json()
    assert facts["origin"] == [12, 24]
    assert facts["statistics"] == {"min": 5, "max": 1023}
    assert facts["write_empty_chunks"] is False
    assert facts["tier"] == "slow"
    assert facts["told_by"] == {
        "origin": "example.offset",
        "statistics": "example.array-statistics",
        "write_empty_chunks": "example.skip_empty_chunks",
        "tier": "example.tiered-storage",
    }
    assert "multiscale" not in facts
    assert "extension_errors" not in facts


@pytest.mark.parametrize("path", ["a/c/0", "g/b/c/0", "g/v2/0"])
def test_a_chunk_tells_what_its_array_does(path: str) -> None:
    facts = folder_at(MemoryStore(KEYS), path).facts("0").to_json()
    assert facts["tier"] == "slow"
    assert facts["chunk_coords"] == [0, 0]
    assert ("origin" in facts) == (path == "a/c/0")


def test_what_is_no_chunk_tells_nothing_of_extensions() -> None:
    assert "tier" not in folder_at(MemoryStore(KEYS), "a/c/9").facts("9").to_json()
    assert "tier" not in folder_at(MemoryStore(KEYS), "a/c").facts(None).to_json()


def test_a_group_tells_of_its_pyramid_and_has_no_tier() -> None:
    facts = folder_at(MemoryStore(KEYS), "").facts(None).to_json()
    assert facts["multiscale"] == ["a", "g/b"]
    assert "tier" not in facts
    assert "tier" not in folder_at(MemoryStore(KEYS), "g").facts(None).to_json()


def test_arrays_that_are_named_and_not_there_are_no_reason_to_refuse() -> None:
    loaded = folder_at(MemoryStore(KEYS), "").loaded()
    assert loaded is not None
    assert loaded.error is None


def test_a_node_that_is_not_loaded_tells_no_more_than_that() -> None:
    keys = {**KEYS, "a/zarr.json": array(extensions=["example.unknown"])}
    facts = folder_at(MemoryStore(keys), "a").facts(None).to_json()
    assert set(facts) == {"view", "path", "node", "error"}


def test_a_group_that_is_not_loaded_hands_nothing_down() -> None:
    keys = {**KEYS, "zarr.json": group(extensions=[tiered("a"), "example.unknown"])}
    folder = folder_at(MemoryStore(keys), "a")
    assert "tier" not in folder.facts(None).to_json()
    assert folder.tier() is None


def test_attributes_carry_what_extensions_tell() -> None:
    found = attributes(folder_at(MemoryStore(KEYS), "a").facts(None).to_json())
    assert json.loads(found[b"user.zarr.origin"]) == [12, 24]
    assert json.loads(found[b"user.zarr.statistics"]) == {"min": 5, "max": 1023}
    assert found[b"user.zarr.tier"] == b"slow"
    assert found[b"user.zarr.write_empty_chunks"] == b"false"
    root = attributes(folder_at(MemoryStore(KEYS), "").facts(None).to_json())
    assert json.loads(root[b"user.zarr.multiscale"]) == ["a", "g/b"]
    assert found.keys() - root.keys() >= {b"user.zarr.origin", b"user.zarr.tier"}


def test_a_fact_whose_name_is_no_attribute_stays_in_control_files() -> None:
    told = {"told_by": {"fine": "x", "not fine": "x", "l" * 300: "x"}, "fine": 1, "not fine": 2}
    assert attributes(told) == {b"user.zarr.fine": b"1"}


# -- tiers


@pytest.mark.parametrize(
    ("path", "tier"),
    [
        ("a", "slow"),
        ("a/c/0", "slow"),
        ("g/b", "slow"),
        ("g/v2", "slow"),
        ("g/fast", None),
        ("g", None),
        ("", None),
        ("nothing/here", None),
    ],
)
def test_the_tier_can_be_asked_of_any_folder(path: str, tier: str | None) -> None:
    assert folder_at(MemoryStore(KEYS), path).tier() == tier


def test_without_a_node_there_is_no_tier() -> None:
    assert folder_at(MemoryStore({"a/x": b""}), "a").tier() is None


@pytest.mark.parametrize("ttl_s", [0, inf])
def test_the_first_open_of_each_slow_array_warns_once(
    caplog: pytest.LogCaptureFixture, ttl_s: float
) -> None:
    root = ChunksView(MemoryStore(KEYS), ttl_s).root
    for _ in range(3):
        for path in ("a/c/0/0", "a/c/0/1", "g/b/c/0/0", "g/fast/c/0/0", "g/v2/0/0"):
            folder: Any = root
            *names, name = path.split("/")
            for each in names:
                folder = folder.child(each)
            folder.open(name).close()
    said = warnings_in(caplog)
    assert [text.partition(" ")[0] for text in said] == ["a", "g/b", "g/v2"]
    assert said[0] == (
        "a is on slow storage, as example.tiered-storage says: "
        "reading it may take long, or cost money"
    )


def test_a_warning_from_above_and_by_reference_is_one(caplog: pytest.LogCaptureFixture) -> None:
    keys = {**KEYS, "a/zarr.json": array(extensions=[PARENT])}
    folder = folder_at(MemoryStore(keys), "a/c/0", 0)
    folder.open("0").close()
    folder.open("1").close()
    assert len(warnings_in(caplog)) == 1


def test_documents_and_files_that_are_no_chunks_warn_of_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder_at(MemoryStore(KEYS), "a").open("zarr.json").close()
    folder_at(MemoryStore(KEYS), "a/c/9").open("9").close()
    assert warnings_in(caplog) == []


@pytest.mark.parametrize("view", ["plain", "all"])
def test_other_views_of_the_chunks_warn_too(caplog: pytest.LogCaptureFixture, view: str) -> None:
    folder = open_view(view, MemoryStore(KEYS), inf)
    for name in (["plain"] if view == "all" else []) + ["a", "c", "0"]:
        folder = folder.child(name)
    folder.open("0").close()
    assert [text.partition(" ")[0] for text in warnings_in(caplog)] == ["a"]


# -- those that others install


class Guard(GenericExtension):
    """Takes down what is opened, and refuses as a test says."""

    name: ClassVar[str] = "test.guard"
    inherited: ClassVar[bool] = True
    seen: ClassVar[list[tuple[str, str]]] = []
    refusal: ClassVar[BaseException | None] = None

    def opening(self, array: str, key: str) -> str | None:
        Guard.seen.append((array, key))
        if Guard.refusal is not None:
            raise Guard.refusal
        return None


class Idle(GenericExtension):
    """Does nothing when a chunk is opened."""

    name: ClassVar[str] = "test.idle"


class WrongErrno(ZarrfuseError):
    """An exception of ours whose errno is none."""

    errno = 100_000


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    monkeypatch.setattr(Guard, "seen", [])
    with installing(monkeypatch) as given_install:
        given_install(EXTENSIONS.group, {"test.guard": Guard})
        yield given_install


GUARDED = {
    "zarr.json": group(extensions=["test.guard"]),
    "g/zarr.json": group(),
    "g/b/zarr.json": array(keys={"name": "v2", "configuration": {"separator": "."}}),
    "g/b/0.1": b"bbbb",
    "own/zarr.json": array(extensions=["test.guard"]),
    "own/c/0/0": b"oooo",
}


def test_an_extension_is_told_of_each_chunk_before_it_is_opened(install: Install) -> None:
    folder_at(MemoryStore(GUARDED), "g/b").open("0.1").close()
    assert Guard.seen == [("g/b", "0.1")]
    folder_at(MemoryStore(GUARDED), "own/c/0").open("0").close()
    assert Guard.seen[1:] == [("own", "c/0/0"), ("", "c/0/0")]


def test_a_refusal_of_an_extension_is_the_answer(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Denied("the archive is closed")
    monkeypatch.setattr(Guard, "refusal", refusal)
    with pytest.raises(Denied) as raised:
        folder_at(MemoryStore(GUARDED), "g/b").open("0.1")
    assert raised.value is refusal


def test_an_extension_is_told_of_what_renderings_are_made_of(install: Install) -> None:
    folder = open_view("images", MemoryStore(GUARDED), inf).child("g").child("b")
    for name in ("b.tiff", "b.npy", "b.png"):
        folder.lookup(name)
        assert Guard.seen == []
    folder.open("b.npy").close()
    assert Guard.seen == [("g/b", "0.0")]
    folder.child("c").child("0").open("1.tiff").close()
    assert Guard.seen[1:] == [("g/b", "0.1")]


def test_what_an_extension_refuses_is_not_rendered(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Denied("the archive is closed")
    monkeypatch.setattr(Guard, "refusal", refusal)
    folder = open_view("images", MemoryStore(GUARDED), inf).child("g").child("b")
    chunks = folder.child("c").child("0")
    for of, name in ((folder, "b.tiff"), (folder, "b.npy"), (folder, "b.png"), (chunks, "1.tiff")):
        assert of.lookup(name).size
        with pytest.raises(Denied) as raised:
            of.open(name)
        assert raised.value is refusal


@pytest.mark.parametrize(
    "fault",
    [ValueError("oh"), FileNotFoundError(errno.ENOENT, "oh"), BlockingIOError(), WrongErrno("oh")],
)
def test_any_other_fault_of_an_extension_is_one_that_names_it(
    install: Install, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    monkeypatch.setattr(Guard, "refusal", fault)
    with pytest.raises(RuntimeError, match=r"the extension test\.guard of g/b ") as raised:
        folder_at(MemoryStore(GUARDED), "g/b").open("0.1")
    assert raised.value.__cause__ is fault


def test_a_fault_that_looks_like_one_of_the_store_is_no_reason_to_ask_again(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guard, "refusal", BlockingIOError())
    with pytest.raises(RuntimeError):
        folder_at(MemoryStore(GUARDED), "g/b").open("0.1")


def test_without_waiting_nobody_elses_code_is_asked(install: Install) -> None:
    """It may take as long as it likes: a mount has one event loop."""
    folder = folder_at(MemoryStore(GUARDED), "g/b")
    folder.open("0.1").close()
    seen = list(Guard.seen)
    with pytest.raises(BlockingIOError):
        folder.open("0.1", wait=False)
    assert Guard.seen == seen


def test_without_waiting_an_extension_that_does_nothing_there_is_no_obstacle(
    install: Install,
) -> None:
    install(EXTENSIONS.group, {"test.idle": Idle})
    keys = {"zarr.json": array(extensions=["test.idle"]), "c/0/0": b"data"}
    folder = folder_at(MemoryStore(keys), "c/0")
    folder.open("0").close()
    folder.open("0", wait=False).close()


def test_a_store_that_fails_above_an_array_does_not_keep_its_chunks(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_above(call: str, key: str) -> BaseException | None:
        return OSError(errno.EIO, "bad sector") if key == "g/zarr.json" else None

    store = FailingStore(MemoryStore(GUARDED), fails_above)
    folder_at(store, "g/b").open("0.1").close()
    assert Guard.seen == [("g/b", "0.1")]


# -- references


def by_reference(count: int) -> dict[str, bytes]:
    slow = (f"a{number}" for number in range(count))
    keys = {"zarr.json": group(extensions=[tiered(*slow)])}
    for number in range(count):
        keys[f"a{number}/zarr.json"] = array(extensions=[PARENT])
    return keys


def test_a_thousand_nodes_that_refer_to_one_read_it_once() -> None:
    store = Changing(by_reference(1000))
    view = ChunksView(store, inf)
    for number in range(1000):
        loaded = view.root.child(f"a{number}").loaded()
        assert loaded is not None
        assert isinstance(loaded.node, ArrayNode)
        assert loaded.node.facts()["tier"] == "slow"
    assert store.opened["zarr.json"] == 1


def test_nodes_that_are_looked_at_at_the_same_time_read_it_once_too() -> None:
    store = Changing(by_reference(100))
    view = ChunksView(store, inf)
    with ThreadPoolExecutor(16) as threads:
        found = threads.map(lambda number: view.root.child(f"a{number}").loaded(), range(100))
    assert all(loaded is not None and loaded.error is None for loaded in found)
    assert store.opened["zarr.json"] == 1


def test_more_nodes_are_referred_to_than_are_kept() -> None:
    keys = {}
    for number in range(1000):
        keys[f"g{number}/zarr.json"] = group(extensions=[tiered("a")])
        keys[f"g{number}/a/zarr.json"] = array(extensions=[PARENT])
    view = ChunksView(MemoryStore(keys), 0)
    folders = [view.root.child(f"g{number}").child("a") for number in range(1000)]
    for _ in range(2):
        for folder in folders:
            loaded = folder.loaded()
            assert loaded is not None
            assert loaded.node is not None
            assert loaded.node.facts()["tier"] == "slow"
    assert len(view.referenced._known) <= 256


def test_nodes_between_are_not_read() -> None:
    store = Changing(
        {
            "zarr.json": group(extensions=[tiered("g/h/a")]),
            "g/zarr.json": group(),
            "g/h/zarr.json": group(),
            "g/h/a/zarr.json": array(
                extensions=[{**PARENT, "configuration": {"reference": "../../.."}}]
            ),
        }
    )
    loaded = folder_at(store, "g/h/a").loaded()
    assert loaded is not None
    assert loaded.node is not None
    assert loaded.node.facts()["tier"] == "slow"
    assert set(store.opened) == {"g/h/a/zarr.json", "zarr.json"}


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"": group(extensions=[tiered("a0", "else")])}, "slow"),
        ({"": group(extensions=[tiered("something-else")])}, None),
        ({"": None}, "/ is neither an array nor a group"),
        ({"": b"{"}, "/ is not loaded: zarr.json: is not JSON"),
        ({"a0": array(data_type="int8")}, None),
    ],
)
def test_a_change_of_what_is_referred_to_is_noticed(
    change: dict[str, bytes | None], outcome: str | None
) -> None:
    store = Changing(by_reference(1))
    folder = folder_at(store, "a0", 0)
    assert tier_or_error(folder) == "slow"
    assert tier_or_error(folder) == "slow"
    assert store.opened["zarr.json"] == 1
    store.put(change)
    found = tier_or_error(folder)
    assert found == outcome or (outcome is not None and outcome in str(found))
    store.put({"": by_reference(1)["zarr.json"], "a0": array(extensions=[PARENT])})
    assert tier_or_error(folder) == "slow"


def tier_or_error(folder: ChunksFolder) -> object:
    loaded = folder.loaded()
    assert loaded is not None
    if loaded.node is None:
        assert loaded.error is not None
        assert loaded.error.startswith("a0/zarr.json: extensions[0]: example.parent-ref: ")
        return loaded.error
    return loaded.node.facts().get("tier")


def test_a_node_stays_the_same_object_while_nothing_changes() -> None:
    folder = folder_at(Changing(by_reference(1)), "a0", 0)
    assert folder.loaded() is folder.loaded()


def test_a_reference_that_cannot_be_read_is_tried_again() -> None:
    fails = True

    def rule(call: str, key: str) -> BaseException | None:
        return OSError(errno.EIO, "bad sector") if fails and key == "zarr.json" else None

    folder = folder_at(FailingStore(MemoryStore(by_reference(1)), rule), "a0", 0)
    assert "/ cannot be read: OSError: [Errno 5] bad sector" in str(tier_or_error(folder))
    fails = False
    assert tier_or_error(folder) == "slow"


def test_a_node_whose_reference_is_refused_serves_no_chunks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outside = {**PARENT, "configuration": {"reference": "../.."}}
    keys = {"a/zarr.json": array(extensions=[outside]), "a/c/0/0": b"aaaa"}
    folder = folder_at(MemoryStore(keys), "a/c/0", 0)
    for _ in range(2):
        with pytest.raises(NotSupported, match="leads out of the store"):
            folder.open("0")
    assert len(warnings_in(caplog)) == 1
    assert "leads out of the store" in folder.facts("0").to_json()["error"]


def test_without_waiting_nothing_is_read_for_a_reference() -> None:
    folder = folder_at(MemoryStore(by_reference(1)), "a0", 0)
    with pytest.raises(BlockingIOError):
        folder.loaded(wait=False)
    loaded = folder.loaded()
    assert folder.loaded(wait=False) is loaded
