"""`zarrfuse check --deep` in processes and on a Dask cluster: the same findings, in the same order."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.clusters import dask_cluster
from builders.documents import array, concat_parts, extension, group
from builders.folders import write_files, write_keys, zip_folder
from builders.http_server import serving_http
from builders.journals import leave_journal
from builders.mounts import COMMAND, wait_for, zarrfuse
from corpus import CASES, LITTLE, crc
from finding_lines import lines

from zarrfuse.check import batches, opened_here
from zarrfuse.check.batches import Workers
from zarrfuse.check.opened_here import Where, opened
from zarrfuse.check.run import CLEAN, FOUND, NOT_READABLE, run
from zarrfuse.check.source import open_source
from zarrfuse.check.survey import Survey
from zarrfuse.config import RemoteConfig
from zarrfuse.errors import SourceError
from zarrfuse.jobs.base import Jobs
from zarrfuse.jobs.in_process import InProcess
from zarrfuse.jobs.opening import open_jobs

Given = list[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with dask_cluster() as address:
        yield address


@pytest.fixture(scope="module", params=["processes", "dask"])
def jobs(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    if request.param == "dask":
        with open_jobs(scheduler=request.getfixturevalue("cluster")) as opened_jobs:
            yield opened_jobs
    else:
        with open_jobs(2) as opened_jobs:
            yield opened_jobs


@pytest.fixture(params=["--jobs", "--scheduler"])
def given(request: pytest.FixtureRequest) -> Given:
    if request.param == "--jobs":
        return ["--jobs", "2"]
    return ["--scheduler", request.getfixturevalue("cluster")]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 chunks with checksums, of which every seventh is damaged; two chunks in parts."""
    data = tmp_path_factory.mktemp("check") / "damaged"
    checked = array((300, 2), (1, 2), codecs=[LITTLE, extension("crc32c")])
    keys = {"zarr.json": group(), "a/zarr.json": checked}
    for number in range(300):
        keys[f"a/c/{number}/0"] = (b"XX" if number % 7 == 0 else b"ab") + crc(b"ab")
    parts = array((4, 2), (2, 2), transformers=[concat_parts((".a", 2), ".b")])
    keys |= {"b/zarr.json": parts, "b/c/0/0.a": b"12", "b/c/0/0.b": b"34", "b/c/1/0.a": b"12"}
    write_keys(data, keys)
    return data


def found_with(jobs: Jobs, source: Path) -> list[str]:
    store = open_source(str(source))
    try:
        survey = Survey(store)
        workers = Workers(jobs, str(source))
        found = [*survey.shallow(), *survey.deep(workers)]
    finally:
        store.close()
    return [finding.line() for finding in found]


def test_the_findings_are_those_of_one_process_in_their_order(jobs: Jobs, damaged: Path) -> None:
    found = found_with(jobs, damaged)
    assert len(found) == 44
    assert found == lines(damaged)


def test_the_command_prints_the_same(given: Given, damaged: Path) -> None:
    alone = zarrfuse("check", damaged, "--deep", "--json", check=False)
    done = zarrfuse("check", damaged, "--deep", "--json", *given, check=False)
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    assert '"complete": true' in done.stdout


def test_all_broken_datasets_have_the_same_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_MOST_CHUNKS", 2)
    for number, case in enumerate(case for case in CASES if case.deep):
        write_keys(tmp_path / str(number), case.files)
        assert found_with(InProcess(), tmp_path / str(number)) == lines(tmp_path / str(number))


def test_a_zip_is_opened_by_the_workers(jobs: Jobs, damaged: Path, tmp_path: Path) -> None:
    zip_folder(damaged, tmp_path / "data.zip")
    found = found_with(jobs, tmp_path / "data.zip")
    assert len(found) == 44
    assert found == lines(tmp_path / "data.zip")


def test_a_relative_path_is_found_by_the_workers(
    jobs: Jobs, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(damaged.parent)
    assert len(found_with(jobs, Path("damaged"))) == 44


def test_interrupted_writes_are_seen_by_the_workers(jobs: Jobs, tmp_path: Path) -> None:
    """The chunk has a right checksum only if the write is finished."""
    members = array(
        (2, 2), codecs=[LITTLE, extension("crc32c")], transformers=[concat_parts((".a", 2), ".b")]
    )
    new = b"1234" + crc(b"1234")
    write_keys(tmp_path, {"zarr.json": members, "c/0/0.a": b"ol", "c/0/0.b": new[2:]})
    leave_journal(tmp_path, "c/0/0", {"c/0/0.a": new[:2], "c/0/0.b": new[2:]})
    [found] = found_with(jobs, tmp_path)
    assert "a write was interrupted" in found


def test_a_url_is_opened_by_the_workers(given: Given, tmp_path: Path) -> None:
    write_files(
        tmp_path / "root",
        {"zarr.json": array((4, 4), (2, 2)), "c/0/0": bytes(4), "c/1/1": bytes(4)},
    )
    with serving_http(tmp_path / "root", tmp_path / "nginx", "none") as server:
        done = zarrfuse("check", server.url, "--deep", *given)
    assert "nothing is wrong (1 node, 2 chunks, 0.0 kB read)" in done.stderr


def test_what_was_mended_since_an_earlier_check_is_read_anew(jobs: Jobs, tmp_path: Path) -> None:
    data, path = tmp_path / "data", tmp_path / "data.zip"
    members = array((2, 2), (2, 2), codecs=[LITTLE, extension("crc32c")])
    for stored, count in ((b"4321", 1), (b"1234", 0)):
        write_keys(data, {"zarr.json": members, "c/0/0": stored + crc(b"1234")})
        path.unlink(missing_ok=True)
        zip_folder(data, path)
        assert len(found_with(jobs, path)) == count


def test_batches_are_limited_in_chunks_and_bytes(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    class Recording(InProcess):
        def map(self, work, items):  # type: ignore[no-untyped-def]
            for item in items:
                sizes.append(len(item.chunks))
                yield work(item)

    found_with(Recording(), damaged)
    assert sizes == [64, 64, 64, 64, 45]
    sizes.clear()
    monkeypatch.setattr(batches, "_MOST_BYTES", 16)
    found_with(Recording(), damaged)
    assert sizes[:3] == [3, 3, 3]


def test_findings_keep_their_order_whatever_batch_is_verified_first(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Backwards(InProcess):
        def map(self, work, items):  # type: ignore[no-untyped-def]
            yield from [work(item) for item in items][::-1]

    monkeypatch.setattr(batches, "_MOST_CHUNKS", 10)
    assert found_with(Backwards(), damaged) == lines(damaged)


def test_a_worker_without_the_source_is_told_of(tmp_path: Path) -> None:
    told = rf"^on \S+: the source {tmp_path}/no does not exist"
    with pytest.raises(SourceError, match=told), opened(Where("check", str(tmp_path / "no"))):
        pass


def test_a_store_is_opened_once_and_closed_when_it_is_idle(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_here, "_IDLE_S", 0.05)
    where = Where("check", str(damaged))
    with opened(where) as one, opened(where) as other:
        assert one is other
        time.sleep(0.12)
        assert one.stat("zarr.json").size
    wait_for(lambda: where not in opened_here._kept)


@pytest.mark.parametrize(
    "options, told",
    [
        (["--scheduler", "tcp://127.0.0.1:1"], "--scheduler: chunks are read only with --deep"),
        (["--jobs", "2"], "--jobs: chunks are read only with --deep"),
        (["--jobs", "0", "--deep"], "--jobs"),
        (
            ["--deep", "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1"],
            "--jobs: the cluster has its own processes",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    demo: Path, options: list[str], told: str
) -> None:
    done = zarrfuse("check", demo, *options, check=False)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_scheduler_that_does_not_answer_is_one_sentence(
    demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from zarrfuse.jobs import dask_cluster as module

    monkeypatch.setattr(module, "_CONNECT_S", 0.2)
    code = run(str(demo), deep=True, as_json=False, scheduler="tcp://127.0.0.1:1")
    assert code == NOT_READABLE
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("zarrfuse: the Dask scheduler tcp://127.0.0.1:1 does not answer: ")


def test_secrets_of_a_source_are_not_in_its_text() -> None:
    remote = RemoteConfig(headers=(("Authorization", "hush"),), settings=(("key", "hush"),))
    assert "hush" not in repr(Where("check", "https://user:hush@host/a?hush", remote))


@pytest.mark.parametrize("code", [CLEAN, FOUND])
def test_exit_codes_are_those_of_one_process(code: int, demo: Path, damaged: Path) -> None:
    source = demo if code == CLEAN else damaged
    assert run(str(source), deep=True, as_json=False, processes=2) == code


def test_ctrl_c_ends_all_processes_with_one_summary(tmp_path: Path, large_chunks: Path) -> None:
    command = [*COMMAND, "check", str(large_chunks), "--deep", "--jobs", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as check:
        wait_for(lambda: len(_readers(large_chunks)) == 2)
        readers = _readers(large_chunks)
        os.killpg(check.pid, signal.SIGINT)
        out, err = check.communicate()
    assert (check.returncode, out) == (130, "")
    assert err.startswith("zarrfuse: interrupted; until then nothing is wrong (1 node, 4 chunks")
    assert err.count("\n") == 1
    assert not readers & _readers(large_chunks)


@pytest.fixture
def large_chunks(tmp_path: Path) -> Path:
    """Four sparse chunks that each take a while to read; 64 GiB of zeros."""
    side = 1 << 18
    write_keys(tmp_path / "large", {"zarr.json": array((4 * side, side), (side, side))})
    for number in range(4):
        (tmp_path / f"large/c/{number}").mkdir(parents=True)
        with (tmp_path / f"large/c/{number}/0").open("wb") as chunk:
            chunk.truncate(side * side)
    return tmp_path / "large"


def _readers(folder: Path) -> set[int]:
    """The processes that have a chunk in `folder` open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link).startswith(f"{folder}/c/"):
                found.add(int(link.parts[2]))
        except OSError:
            continue  # ended meanwhile
    return found
