"""Runs macros of ImageJ one after another in one Java machine, which starts once.

The machine runs a macro that waits for others: for each a file that names its argument is put where it
looks. What it prints is in the log of the machine, up to a line that ends it.
"""

from pathlib import Path

from contact_sheet import imagej_arguments
from desktop import Desktop

_WAITS = r"""
folder = getArgument();
for (number = 0; true; number++) {
    while (!File.exists(folder + number)) wait(5);
    file = File.openAsString(folder + number);
    runMacro(folder + number + ".ijm", substring(file, 0, indexOf(file, "\n")));
    while (nImages > 0) { selectImage(nImages); close(); }
    print("ended " + number);
}
"""


class Macros:
    """ImageJ in 256 MiB on a screen, until it is ended with the programs of its desktop."""

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop
        self._folder = desktop.home / "macros"
        self._folder.mkdir()
        self._number = 0
        self._hangs = False
        waits = desktop.home / "waits.ijm"
        waits.write_text(_WAITS)
        desktop.start("java", *imagej_arguments(desktop.home), "-batch", waits, f"{self._folder}/")
        self._printed = (desktop.home / "java.log").open()

    def run(self, text: str, file: Path) -> list[str]:
        """Run a macro on a file; the lines it printed. An error in it opens a dialogue: a time-out."""
        assert not self._hangs, "a macro before this one ended with an error"
        job = self._folder / str(self._number)
        job.with_name(f"{job.name}.ijm").write_text(text)
        draft = job.with_name("draft")
        draft.write_text(f"{file}\n")
        draft.rename(job)
        end = f"ended {self._number}\n"
        self._number += 1
        told = ""

        def ended() -> list[str] | None:
            nonlocal told
            told += self._printed.read()
            return told.removesuffix(end).splitlines() if told.endswith(end) else None

        self._hangs = True
        printed = self._desktop.wait_until(ended, f"end of the macro {job}.ijm", 60)
        self._hangs = False
        return printed
