"""zarr-python's own state machine, on `open_store`: random changes are as those of a store in memory."""

from pathlib import Path

import pytest
from builders.hierarchies import Hierarchies
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from sampling import examples

import zarrfuse

SETTINGS = settings(
    max_examples=examples(20),
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_a_hierarchy_that_is_changed_through_the_store_is_as_one_in_memory(tmp_path: Path) -> None:
    store = zarrfuse.open_store(tmp_path, read_only=False)
    run_state_machine_as_test(lambda: Hierarchies(store), settings=SETTINGS)
    store.close()
