"""A chunk in parts on a server: all parts are asked for at the same time."""

import json

from builders.documents import concat_parts, document
from builders.readers import read_range
from builders.server_in_memory import ServerInMemory

from zarrfuse.config import RemoteConfig
from zarrfuse.stores.remote.store import RemoteStore
from zarrfuse.views.choice import open_view

PARTS = ("", ".a", ".b", ".c", ".d")
SIZE = 3 << 20


def test_parts_are_fetched_at_once() -> None:
    side = SIZE * len(PARTS)
    described = document((side,), (side,), storage_transformers=[concat_parts(*PARTS)])
    files = {f"c/0{part}": bytes([number]) * SIZE for number, part in enumerate(PARTS)}
    server = ServerInMemory({"zarr.json": json.dumps(described).encode(), **files}, latency_s=0.05)
    view = open_view("chunks", RemoteStore(server, RemoteConfig()), 60.0)
    reader = view.child("c").open("0")
    opened = len(server.asked)
    assert server.most_at_once >= len(PARTS)
    server.most_at_once = 0
    middle = read_range(reader, SIZE // 2, SIZE * 4)
    assert middle == b"".join(files.values())[SIZE // 2 :][: SIZE * 4]
    assert server.most_at_once >= len(PARTS)
    assert len(server.asked) > opened
    reader.close()
