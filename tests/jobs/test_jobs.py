"""Work on many items, in this process, in two, and on a Dask cluster: results, errors, and how it ends."""

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import pytest
import work
from builders.clusters import dask_cluster
from builders.mounts import wait_for

import zarrfuse
from zarrfuse.errors import Corrupt, JobsFailed, ZarrfuseError
from zarrfuse.jobs.base import Jobs
from zarrfuse.jobs.opening import open_jobs
from zarrfuse.shards.layout import Refused
from zarrfuse.spec.node import NodeError

Opened = Callable[[], AbstractContextManager[Jobs]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with dask_cluster() as address:
        yield address


@pytest.fixture(params=["here", "processes", "dask"])
def opened(request: pytest.FixtureRequest) -> Opened:
    return _opened(request.param, request)


@pytest.fixture(params=["processes", "dask"])
def elsewhere(request: pytest.FixtureRequest) -> Opened:
    return _opened(request.param, request)


def _opened(kind: str, request: pytest.FixtureRequest) -> Opened:
    if kind == "dask":
        return partial(open_jobs, scheduler=request.getfixturevalue("cluster"))
    return partial(open_jobs, {"here": 1, "processes": 2}[kind])


def ended(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def test_each_item_has_one_result(opened: Opened) -> None:
    with opened() as jobs:
        assert sorted(jobs.map(work.square, range(200))) == [n * n for n in range(200)]
        assert list(jobs.map(work.square, [])) == []
        assert list(jobs.map(partial(pow, 2), [5])) == [32]


def test_work_is_done_in_other_processes(elsewhere: Opened) -> None:
    with elsewhere() as jobs:
        assert os.getpid() not in set(jobs.map(work.process_of, range(20)))


def test_results_come_in_the_order_in_which_they_are_completed(
    elsewhere: Opened, tmp_path: Path
) -> None:
    with elsewhere() as jobs:
        items = [("slow", tmp_path / "go"), ("fast", None)]
        results = jobs.map(work.wait_for_file, items)
        assert next(results) == "fast"
        (tmp_path / "go").touch()
        assert list(results) == ["slow"]


def test_few_items_are_taken_ahead_of_the_results(opened: Opened) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    with opened() as jobs:
        results = jobs.map(work.square, items())
        for given in range(1, 80):
            next(results)
            assert taken - given < 40
        results.close()


@pytest.mark.parametrize("kind, raised", [("refused", Refused), ("corrupt", Corrupt)])
def test_an_exception_of_the_work_is_raised_as_it_is(
    opened: Opened, kind: str, raised: type[Exception]
) -> None:
    with opened() as jobs:
        with pytest.raises(raised, match=r"^(a.tif is a photograph|c/0 is short)$"):
            list(jobs.map(work.fail, [kind]))
        assert list(jobs.map(work.square, [3])) == [9]


def _kinds(kind: type[Exception] = ZarrfuseError) -> Iterator[type[Exception]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def test_every_exception_of_zarrfuse_can_be_pickled() -> None:
    public = [kind for kind in _kinds() if not kind.__name__.startswith("_")]
    assert {Refused, NodeError} <= set(public)
    for kind in public:
        copy = pickle.loads(pickle.dumps(kind("one sentence")))
        assert (type(copy), str(copy)) == (kind, "one sentence")
    typed = pickle.loads(pickle.dumps(NodeError("zarr.json: no", "array")))
    assert typed.node_type == "array"


def test_an_unexpected_exception_says_where_it_was_raised(elsewhere: Opened) -> None:
    with elsewhere() as jobs, pytest.raises(ZeroDivisionError) as raised:
        list(jobs.map(work.fail, ["unexpected"]))
    assert "work.py" in raised.value.__notes__[0]


def test_an_exception_that_cannot_be_unpickled_keeps_its_message(elsewhere: Opened) -> None:
    with elsewhere() as jobs, pytest.raises(JobsFailed, match="NotPicklable: this is number 7"):
        list(jobs.map(work.fail, ["else"]))


def test_an_exception_of_the_items_is_raised(opened: Opened) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise Corrupt("the list ends here")

    with opened() as jobs, pytest.raises(Corrupt, match="the list"):
        list(jobs.map(work.square, items()))


def test_an_item_that_cannot_be_pickled_is_an_error_at_once(elsewhere: Opened) -> None:
    with elsewhere() as jobs, pytest.raises(Exception, match="pickle"):
        list(jobs.map(work.square, [lambda: None]))  # type: ignore[list-item]


@pytest.mark.parametrize("processes", [0, -1])
def test_no_processes_cannot_work(processes: int) -> None:
    with pytest.raises(ValueError, match="cannot work"), open_jobs(processes):
        pass


# -- processes of this machine


def test_no_process_is_left_when_work_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_jobs(2) as jobs:
        results = jobs.map(work.touch_and_hang, itertools.repeat(tmp_path))
        _interrupt_when(lambda: len(list(tmp_path.iterdir())) == 2)
        next(results)
    processes = [int(file.name) for file in tmp_path.iterdir()]
    assert len(processes) == 2
    assert all(map(ended, processes))


def test_no_process_is_left_when_results_are_not_wanted_any_more(tmp_path: Path) -> None:
    with open_jobs(2) as jobs:
        results = jobs.map(work.process_of, itertools.count())
        processes = {next(results) for _ in range(10)}
        results.close()
    assert all(map(ended, processes))


def _interrupt_when(condition: Callable[[], bool]) -> None:
    def interrupt() -> None:
        wait_for(condition)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


def test_a_process_that_is_killed_is_told_of() -> None:
    with (
        open_jobs(2) as jobs,
        pytest.raises(JobsFailed, match=r"one of the processes that work was killed \(SIGKILL\)"),
    ):
        list(jobs.map(work.kill_itself, range(100)))


def test_large_items_and_results_can_be_given_up_at_any_moment() -> None:
    with open_jobs(2) as jobs:
        for given in range(8):
            results = jobs.map(work.twice, itertools.repeat(bytes(1 << 20)))
            assert {len(next(results)) for _ in range(given)} <= {2 << 20}
            results.close()
        assert len(list(jobs.map(work.twice, [bytes(1 << 20)] * 5))) == 5


def test_an_idle_process_that_is_killed_is_told_of() -> None:
    with open_jobs(2) as jobs:
        for process in set(jobs.map(work.process_of, range(10))):
            os.kill(process, signal.SIGKILL)
            wait_for(partial(ended, process))
        with pytest.raises(JobsFailed, match="SIGKILL"):
            list(jobs.map(work.process_of, range(10)))


def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "tifffile.py").write_text("raise SystemExit('a stranger')")
    (tmp_path / "struct.py").write_text("raise SystemExit('a stranger')")
    program = (
        "import sys; sys.path[:] = sys.argv[1:]\n"
        "import work\nfrom zarrfuse.jobs.opening import open_jobs\n"
        "with open_jobs(2) as jobs:\n    print(list(jobs.map(work.square, [3])))\n"
    )
    paths = [str(Path(__file__).parent), str(Path(zarrfuse.__file__).parents[1])]
    command = [sys.executable, "-P", "-c", program, *paths, *filter(None, sys.path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[9]\n", "")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_processes_end_with_the_one_that_began_them(how: int, tmp_path: Path) -> None:
    program = (
        "import itertools, pathlib, sys, work\n"
        "from zarrfuse.jobs.opening import open_jobs\n"
        "with open_jobs(2) as jobs:\n"
        "    list(jobs.map(work.touch_and_hang, itertools.repeat(pathlib.Path(sys.argv[1]))))\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(zarrfuse.__file__).parents[1])])
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        if how == signal.SIGINT:
            os.killpg(parent.pid, how)  # as a terminal does it
        else:
            parent.kill()
        printed = parent.communicate()[1]
    wait_for(lambda: all(ended(int(file.name)) for file in tmp_path.iterdir()))
    assert printed.count("Traceback") == (1 if how == signal.SIGINT else 0), printed


# -- Dask


def test_the_work_of_a_worker_that_is_lost_is_done_by_another(cluster: str, tmp_path: Path) -> None:
    with open_jobs(scheduler=cluster) as jobs:
        assert list(jobs.map(work.kill_the_first, [tmp_path])) == ["done"]


def _count_tasks(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


def test_what_is_given_up_is_no_longer_known_to_the_cluster(cluster: str, tmp_path: Path) -> None:
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        with open_jobs(scheduler=cluster) as jobs:
            items = [("first", None), *[("rest", tmp_path / "go")] * 20]
            results = jobs.map(work.wait_for_file, items)
            assert next(results) == "first"
            results.close()
        wait_for(lambda: client.run_on_scheduler(_count_tasks) == 0)
        (tmp_path / "go").touch()


def test_a_scheduler_that_does_not_answer_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from zarrfuse.jobs import dask_cluster as module

    monkeypatch.setattr(module, "_CONNECT_S", 0.3)
    told = "^the Dask scheduler tcp://127.0.0.1:1 does not answer: "
    with pytest.raises(JobsFailed, match=told), open_jobs(scheduler="tcp://127.0.0.1:1"):
        pass


@pytest.mark.parametrize(
    "address", ["carrier-pigeon://roof", "host", "tcp://host:port", "tls://127.0.0.1:1"]
)
def test_an_address_that_cannot_be_used_is_told_of(address: str) -> None:
    told = f"^the Dask scheduler {address} cannot be used: "
    with pytest.raises(JobsFailed, match=told), open_jobs(scheduler=address):
        pass


def test_a_missing_package_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(JobsFailed, match=r"pip install 'zarrfuse\[dask\]'$"),
        open_jobs(scheduler="tcp://127.0.0.1:1"),
    ):
        pass


def test_another_version_on_a_worker_is_told_of(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrfuse.jobs import dask_cluster as module

    monkeypatch.setattr(module, "_VERSION", "0.0.7")
    told = f"has zarrfuse {zarrfuse.__version__}, and 0.0.7 is needed"
    with open_jobs(scheduler=cluster) as jobs, pytest.raises(JobsFailed, match=told):
        list(jobs.map(work.square, [1]))


def test_a_worker_without_zarrfuse_is_told_of(cluster: str) -> None:
    from distributed import Client

    def hide(is_hidden: bool) -> None:
        import sys

        sys.modules.pop("zarrfuse", None)
        if is_hidden:
            sys.modules["zarrfuse"] = None  # type: ignore[assignment]

    with Client(cluster, set_as_default=False) as client:
        client.run(hide, True)
        try:
            with open_jobs(scheduler=cluster) as jobs, pytest.raises(JobsFailed) as raised:
                list(jobs.map(work.square, [1]))
        finally:
            client.run(hide, False)
    assert " has no zarrfuse: install zarrfuse " in str(raised.value)


def test_a_cluster_without_workers_is_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        open_jobs(scheduler=empty.scheduler_address) as jobs,
    ):
        results = jobs.map(work.square, itertools.chain([1, 2], _scaled(empty)))
        assert sorted(results) == [1, 4]
    told = f"zarrfuse: the Dask cluster {empty.scheduler_address} has no workers: waiting for one\n"
    assert capfd.readouterr().err.count(told) == 1


def _scaled(cluster: Any) -> Iterator[int]:
    """No item; the cluster gets a worker."""
    cluster.scale(1)
    yield from ()


def test_a_scheduler_that_ends_is_told_of(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    command = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--port",
        "0",
        "--no-dashboard",
    ]
    with subprocess.Popen(
        [*command, "--scheduler-file", str(file)], stderr=subprocess.DEVNULL
    ) as scheduler:

        def items() -> Iterator[int]:
            yield 1
            scheduler.kill()

        try:
            wait_for(lambda: file.exists() and file.read_text().endswith("}"))
            address = json.loads(file.read_text())["address"]
            told = f"^the connection to the Dask cluster {address} was lost$"
            with open_jobs(scheduler=address) as jobs, pytest.raises(JobsFailed, match=told):
                list(jobs.map(work.square, items()))
        finally:
            scheduler.kill()
