"""`zarrfuse index` beside what else makes Zarr of a folder of TIFF files: what is measured, and how.

The clock runs from the start of a command to its end, with its default number of processes. Each writes a
folder of its own, which is flushed before the next one begins, and deleted at the end of the bench (ext4
without a journal is slow for a while after files were deleted). Warm: all that is read is
in the page cache. Cold: the caches of the kernel are dropped, which only root can, and then the command is
run with a few other files, so that the program itself is in memory. Converting copies pixels, so it gets
fewer files, and nothing waits until they are on the disk; `zarrfuse index` waits (`sync`).
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.systems import Failed, command_environment, run, zarrfuse_command
from benchmarks.table import Row, Table
from benchmarks.tiff_files import FEW, TiffFiles

OURS, VIRTUALIZARR, KERCHUNK, CONVERTED = (
    "zarrfuse index",
    "VirtualiZarr, virtual-tiff",
    "kerchunk",
    "tifffile, zarr-python",
)
_DROP = Path("/proc/sys/vm/drop_caches")
_VIRTUAL_PYTHON = Path(sys.prefix) / "virtual" / "bin" / "python"
_SCRIPT = str(Path(__file__).with_name("tiff_peers.py"))


@dataclass(frozen=True)
class Account:
    """What a command took, with all its processes; see `accounted`."""

    seconds: float
    cpu_s: float
    asked_bytes: int
    disk_bytes: int


@dataclass(frozen=True)
class Program:
    """A way from a folder of TIFF files to Zarr; `copies`: its pixels too."""

    name: str
    command: Callable[[str, str], list[str]]
    copies: bool = False


@dataclass(frozen=True)
class IndexRow:
    """A state of things in which files are indexed, and who takes part."""

    name: str
    title: str
    is_cold: bool = False
    is_again: bool = False

    def is_of(self, program: Program) -> bool:
        """Whether this can be measured; only `zarrfuse index` leaves out what it did before."""
        return program.name == OURS if self.is_again else True


INDEX_ROWS = (
    IndexRow("index", "in the page cache"),
    IndexRow("index-cold", "not in the page cache", is_cold=True),
    IndexRow("index-again", "again, nothing changed", is_again=True),
)


def programs() -> list[Program]:
    """Those that are installed."""
    found = [Program(OURS, lambda source, out: zarrfuse_command("index", source, "--out", out))]
    if _VIRTUAL_PYTHON.exists():
        found += [
            Program(VIRTUALIZARR, _script(str(_VIRTUAL_PYTHON), "virtualizarr")),
            Program(KERCHUNK, _script(str(_VIRTUAL_PYTHON), "kerchunk")),
        ]
    return [*found, Program(CONVERTED, _script(sys.executable, "convert"), copies=True)]


def _script(python: str, kind: str) -> Callable[[str, str], list[str]]:
    return lambda source, out: [python, _SCRIPT, kind, source, out]


def can_drop_caches() -> bool:
    """Whether rows of a cold cache can be measured."""
    return os.access(_DROP, os.W_OK)


class IndexMeasurements:
    """Runs programs on `files`, and writes below `folder`."""

    def __init__(self, files: TiffFiles, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._runs = 0
        self._environment = command_environment(folder)

    def source(self, program: Program) -> Path:
        """The folder that a program gets."""
        return self._files.converted if program.copies else self._files.indexed

    def count(self, program: Program) -> int:
        """The number of files in it."""
        return self._files.sizes.converted if program.copies else self._files.sizes.indexed

    def account(self, row: IndexRow, program: Program) -> Account:
        """Do it once. Raises `Failed`."""
        source = self.source(program)
        if row.is_cold:
            os.sync()
            _DROP.write_text("3")
            self._run(program, self._files.few)
        else:
            for file in sorted(source.iterdir()):
                _read(file, whole=program.copies)
        if row.is_again:
            self._run(program, source)
        return self._run(program, source, again=row.is_again)

    def bytes_of_a_file(self, program: Program) -> tuple[float, float]:
        """(asked for, from a cold disk) of a file with pixels, without what the program itself reads."""
        accounts = []
        for source in (self._files.converted, self._files.few):
            # What was read before is in memory: programs, and nothing of the files.
            self._run(program, self._files.few)
            for file in source.iterdir():
                _forget(file)
            accounts.append(self._run(program, source))
        many, few = accounts
        more = self._files.sizes.converted - FEW
        return (
            (many.asked_bytes - few.asked_bytes) / more,
            max(0, many.disk_bytes - few.disk_bytes) / more,
        )

    def _run(self, program: Program, source: Path, *, again: bool = False) -> Account:
        """Run a program once; `again`: to the folder that it wrote before."""
        self._runs += not again
        out = self._folder / f"made-{self._runs}.zarr"
        command = program.command(str(source), str(out))
        told = run([sys.executable, "-m", "benchmarks.accounted", *command], self._environment)
        if not out.exists():
            raise Failed(f"{program.name} has written nothing")
        os.sync()
        return Account(**json.loads(told.splitlines()[-1]))


def _read(file: Path, *, whole: bool) -> None:
    """Bring what is read of a file into the page cache."""
    with file.open("rb") as opened:
        opened.read(-1 if whole else 16 << 10)


def _forget(file: Path) -> None:
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def index_table(
    rounds: int,
    counts: Mapping[str, int],
    accounts: Sequence[tuple[IndexRow, Mapping[str, Sequence[Account]]]],
    read: Mapping[str, tuple[float, float]],
) -> Table:
    """Accounts of all programs, in one run.

    `counts`: files of each; `read`: see `IndexMeasurements.bytes_of_a_file`.
    """
    rows = [
        Row(
            row.name,
            row.title,
            "/s",
            counts,
            {name: [each.seconds for each in them] for name, them in of.items()},
        )
        for row, of in accounts
    ]
    rows += [
        Row(
            f"{row.name}-cpu",
            f"CPU time of a file, {row.title}",
            "ms",
            counts,
            {name: [each.cpu_s for each in them] for name, them in of.items()},
            is_compared=False,
        )
        for row, of in accounts
    ]
    if read:
        rows += [
            Row(
                name,
                title,
                "kB",
                dict.fromkeys(counts, 1),
                {program: [of_a_file[part]] for program, of_a_file in read.items()},
                is_compared=False,
            )
            for part, (name, title) in enumerate(
                (
                    ("index-bytes", "bytes read of a file"),
                    ("index-disk", "of them from a cold disk"),
                )
            )
        ]
    files = ", ".join(f"{name}: {count:,}" for name, count in counts.items())
    return Table(
        "index",
        f"Files of 4 MiB a second ({files} files); behind each other program, how many times as fast as "
        "it `zarrfuse index` was.",
        rounds,
        tuple(counts),
        rows,
        ours=OURS,
    )
