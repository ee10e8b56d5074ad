"""Lists and looks up arrays of huge shapes in a process that may not have much memory.

Prints JSON: for each array and question the answer, and how many MiB more the process took.
"""

import contextlib
import io
import json
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from builders.documents import array, default_keys, group, v2_array
from builders.fake_stores import MemoryStore

from zarrfuse.check.survey import Survey
from zarrfuse.cli.info import _show_tree
from zarrfuse.errors import NotFound
from zarrfuse.stores.base import Kind
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view
from zarrfuse.views.walk import ToldFolder

MEMORY = 2 << 30
SIDE = 1 << 30
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def shards(inner: int, codecs: list[Any] | None = None) -> dict[str, Any]:
    return {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [inner, inner],
            "codecs": codecs or [BYTES],
            "index_codecs": [BYTES, {"name": "crc32c"}],
        },
    }


def pyramid(levels: int) -> bytes:
    axes = [{"name": name, "type": "space"} for name in "yx"]
    datasets = [
        {
            "path": f"s{level}",
            "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}],
        }
        for level in range(levels)
    ]
    multiscales = [{"axes": axes, "datasets": datasets}]
    return group(attributes={"ome": {"version": "0.5", "multiscales": multiscales}})


TINY = array((SIDE, SIDE), (1, 1))
HUGE: dict[str, Mapping[str, bytes]] = {
    "tiny chunks": {"zarr.json": TINY},
    "tiny chunks, flat keys": {"zarr.json": array((SIDE, SIDE), (1, 1), keys=default_keys("."))},
    "tiny chunks of Zarr v2": {".zarray": v2_array((SIDE, SIDE), (1, 1))},
    "one chunk": {"zarr.json": array((SIDE, SIDE), (SIDE, SIDE))},
    "many pages": {"zarr.json": array((1 << 18, 1 << 20, 1 << 20), (1, 1, 1))},
    "many small pages": {"zarr.json": array((1 << 18, 2, 2), (1, 1, 1))},
    "more pages than have an IFD": {"zarr.json": array((1 << 40, 2, 2), (1 << 39, 1, 1))},
    "channels before slices": {
        "zarr.json": array((3, 1 << 16, 8, 8), (1, 1, 1, 1), dimension_names=list("czyx"))
    },
    "beyond 2^63": {"zarr.json": array((1 << 31, 1 << 31, 1 << 31), (1, 1, 1))},
    "a chunk beyond 2^63": {"zarr.json": array([(1 << 31) - 1] * 4, [(1 << 31) - 1] * 4)},
    "lengths beyond 2^63": {"zarr.json": array((1 << 200, 1 << 200), (1, 1))},
    "one dimension": {"zarr.json": array((1 << 62,), (1,))},
    "64 dimensions": {"zarr.json": array([2] * 64, [1] * 64)},
    "1000 dimensions": {"zarr.json": array([2] * 1000, [1] * 1000)},
    "20000 dimensions": {"zarr.json": array([2] * 20_000, [1] * 20_000)},
    "long names of dimensions": {
        "zarr.json": array(dimension_names=["x" * (1 << 20), "y" * (1 << 20)])
    },
    "shards": {
        "zarr.json": array((SIDE, SIDE), (1 << 20, 1 << 20), codecs=[shards(1)]),
        "c/0/0": bytes(5000),
    },
    "shards of shards": {
        "zarr.json": array((SIDE, SIDE), (1 << 20, 1 << 20), codecs=[shards(1024, [shards(1)])]),
        "c/0/0": bytes(5000),
    },
    "long elements": {
        "zarr.json": array((SIDE, SIDE), (1, 1), data_type=f"r{8 << 50}", fill_value=[0])
    },
    "many levels": {
        "zarr.json": pyramid(20_000),
        **{f"s{level}/zarr.json": TINY for level in range(70)},
    },
}


def listed(folder: Folder) -> dict[str, int]:
    """Names and sizes, also of the first folder of chunks in each folder of chunks."""
    sizes = {name: entry.size for name, entry in folder.list().items()}
    for ending in ("tiff", "npy", "png", "ome.tiff"):
        with contextlib.suppress(NotFound):
            sizes[f"root.{ending}"] = folder.lookup(f"root.{ending}").size
    below, name = folder, "c"
    while _is_folder(below, name):
        below, name = below.child(name), "0"
        below.list()
    folder.facts(None)
    return sizes


def _is_folder(folder: Folder, name: str) -> bool:
    try:
        return folder.lookup(name).kind is Kind.FOLDER
    except NotFound:
        return False


def tree(keys: Mapping[str, bytes]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _show_tree("it", ToldFolder(open_view("chunks", MemoryStore(keys), 60)), False)
    return printed.getvalue()[:1000]


def main() -> None:
    """Ask of every array, in every view and way."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    views = ("chunks", "plain", "images")
    for view in views:  # what is imported does not count
        listed(open_view(view, MemoryStore({"zarr.json": array()}), 60, root_name="root"))
    list(Survey(MemoryStore({"zarr.json": array(), "c/0/0": bytes(4)})).findings(deep=True))
    asked: dict[str, Callable[[Mapping[str, bytes]], Any]] = {
        **{
            view: lambda keys, view=view: listed(
                open_view(view, MemoryStore(keys), 60, root_name="root")
            )
            for view in views
        },
        "info": tree,
        "check": lambda keys: [
            str(finding)[:200] for finding in Survey(MemoryStore(keys)).findings(deep=True)
        ],
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers = []
    for name, keys in HUGE.items():
        for question, ask in asked.items():
            answer = ask(keys)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            answers.append((name, question, answer, (after - before) >> 10))
            before = after
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
