"""No program is told an error, no reader sees half of what is renamed, and the store has whole chunks."""

from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_keys
from builders.mounts import Daemon
from programs_on_a_chunk import content, run
from sampling import Sample

PARTS = concat_parts((".head", 160), "", (".index", 208))
KEY = "c/0/0"


@pytest.mark.parametrize("view", ["chunks", "plain"])
def test_programs_that_write_and_read_one_chunk(
    view: str, tmp_path: Path, served: Callable[..., Daemon], sample: Sample
) -> None:
    source = tmp_path / "source"
    write_keys(source, {"zarr.json": array(transformers=[PARTS])})
    mount = served(source, "--view", view, "--read-write").mountpoint
    (mount / KEY).parent.mkdir(parents=True)
    (mount / KEY).write_bytes(content(0))
    results = run(mount / KEY, KEY, str(source), sample.count(60, default=5))
    assert [kind for kind, result in results.items() if set(result) != {"done"}] == [], results
