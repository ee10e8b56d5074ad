"""`zarrfuse index`: from a folder of files to a dataset.

Finds the files, their places and what is stored already, and asks whether that is meant; `update` does the
rest. Used by `cli` and `zarrfuse.index`.
"""

import os
from collections.abc import Sequence
from contextlib import closing

from zarrfuse.errors import SourceError
from zarrfuse.indexing.dataset import DOCUMENT, IN_PLACE, Record
from zarrfuse.indexing.earlier import Earlier, earlier_of
from zarrfuse.indexing.files import Files, FoundFile
from zarrfuse.indexing.grid import Dimensions
from zarrfuse.indexing.headers import Headers, read_file
from zarrfuse.indexing.moving import go_on
from zarrfuse.indexing.names import parse_pattern
from zarrfuse.indexing.ngff import check_dimensions
from zarrfuse.indexing.opening import target_of
from zarrfuse.indexing.options import Options, Summary
from zarrfuse.indexing.places import FILE_ENDINGS, Places, places_of
from zarrfuse.indexing.progress import Progress
from zarrfuse.indexing.target import Way
from zarrfuse.indexing.update import IndexingError, Update, stored_summary
from zarrfuse.indexing.wanted import Wanted
from zarrfuse.jobs.opening import open_jobs
from zarrfuse.shards.documents import INDEX_SUFFIX
from zarrfuse.stores.opening import is_url, printable_source


def index(options: Options, progress: Progress) -> Summary | None:
    """Index a folder; None if the user did not agree to how it was to be done.

    Raises an exception of `errors`; before anything is written, unless a store fails or files change.
    """
    if not is_url(options.folder) and os.path.isfile(options.folder):
        raise IndexingError(f"{options.folder} is a file: name the folder of the files")
    files = Files(options.folder, options.remote)
    beside = _beside(options.folder)
    target = target_of(options.out or beside, options.remote, options.way)
    if options.way is Way.MOVE and not options.dry_run:
        go_on(files, target)
    earlier = earlier_of(target)
    moved = earlier.record if earlier.record is not None and earlier.record.moved else None
    try:
        found = list(files.found(_below(options.folder, options.out or beside)))
    except SourceError:
        if moved is None:
            raise
        found = []  # a bucket has no empty folders
    if moved is not None and not _some_belong(found, options.pattern or moved.pattern):
        # All files were moved, maybe by a run that was killed then.
        if earlier.is_begun and not options.dry_run:
            with target.locked():
                target.end()
        _say_left_out([file.path for file in found], progress)
        return stored_summary(options.out or beside, earlier)
    places = places_of(
        options.folder,
        found,
        pattern=options.pattern,
        earlier=None if moved is None else (moved.pattern, moved.origin),
    )
    in_place = places.may_stay and options.out in (None, options.folder)
    out = options.out or (options.folder if in_place else beside)
    target = target_of(out, options.remote, options.way)
    if in_place:
        earlier = earlier_of(target)
        _check_in_place(out, earlier, {file.path for file in places.files})
    else:
        _check_target(options.folder, out, earlier)
    first = read_file(files, options.dataset, places.files[0])
    if first.problem is not None:
        raise IndexingError(first.problem)
    as_group = options.ngff or len(first.arrays) > 1
    axes = first.arrays[0].layout.axes
    dimensions = places.dimensions(axes, options.dims, as_ngff=as_group)
    _show(places, dimensions, out, progress)
    left_out = first.arrays[0].attributes.get("tiff", {}).get("left_out")
    if left_out:
        progress.say(f"left out, of each file: {', '.join(left_out)}")
    if as_group:
        _check_group(options.folder, dimensions, in_place=in_place)
    if (
        places.naming.guessed
        and not options.dry_run
        and not progress.agrees("Is this what the names mean?")
    ):
        return None
    record = _record(options, places, dimensions, earlier, in_place=in_place)
    wanted = Wanted(places, dimensions, first, record, as_group, in_place)
    with open_jobs(options.processes, options.scheduler) as jobs, closing(Headers()) as headers:
        update = Update(options, files, target, out, wanted, earlier)
        return update.carry_out(jobs, headers, progress)


def _check_group(folder: str, dimensions: Dimensions, *, in_place: bool) -> None:
    """Raises an exception if the dataset cannot be a group with OME-NGFF metadata."""
    if in_place:
        raise IndexingError(
            f"{folder} has the names of chunks of one array, and an image with levels is a group: say with "
            "--out where to write it"
        )
    check_dimensions(dimensions.names)


def _record(
    options: Options, places: Places, dimensions: Dimensions, earlier: Earlier, *, in_place: bool
) -> Record:
    """What the array is to record of this run."""
    naming = places.naming
    old = earlier.record
    way = options.way if old is None or not old.moved else Way.MOVE
    return Record(
        naming.pattern,
        naming.fields,
        naming.origin,
        dimensions.fields,
        dimensions.sources,
        options.dataset,
        IN_PLACE if in_place else way.value,
    )


def _beside(folder: str) -> str:
    """The path of the dataset by default."""
    if is_url(folder) and "/" not in folder.partition("://")[2]:
        return f"{folder}/index.zarr"
    return folder.rstrip("/") + ".zarr"


def _some_belong(found: Sequence[FoundFile], pattern: str | None) -> bool:
    """Whether there is a file to index; see `Record` for `pattern`."""
    if pattern is None:
        return any(file.path.lower().endswith(FILE_ENDINGS) for file in found)
    parsed = parse_pattern(pattern)
    return any(parsed.values(file.path) is not None for file in found)


def _below(folder: str, out: str) -> str:
    """The path of the dataset below the folder of the files; "" if it is not there."""
    above = folder.rstrip("/") + "/"
    return out.removeprefix(above).strip("/") if out.startswith(above) else ""


def _check_target(folder: str, out: str, earlier: Earlier) -> None:
    """Raises `IndexingError` if files of a folder cannot get keys of a dataset."""
    if f"{folder}/".startswith(f"{out}/"):
        raise IndexingError(
            f"the files in {folder} are below {out}: give another --out, and no --pattern if their names "
            "are those of chunks"
        )
    if earlier.is_in_place:
        raise IndexingError(
            f"the chunks of {printable_source(out)} are files that were indexed in place: give another "
            "--out"
        )
    _check_own(out, earlier, list(earlier.stored))


def _check_in_place(folder: str, earlier: Earlier, own: set[str]) -> None:
    """Raises `IndexingError` if the files of a folder, `own`, cannot become chunks where they are."""
    if earlier.record is not None and not earlier.is_in_place:
        raise IndexingError(
            f"{printable_source(folder)} is a dataset of files of another folder: name that folder"
        )
    written = {DOCUMENT, *(path + INDEX_SUFFIX for path in own)}
    _check_own(folder, earlier, [key for key in earlier.stored if key in written])


def _check_own(out: str, earlier: Earlier, others: Sequence[str]) -> None:
    """`others`: keys that must not be there, unless `index` has stored them."""
    if others and earlier.record is None and not earlier.is_begun:
        raise IndexingError(
            f"{printable_source(out)} exists, with {others[0]}, and was not made by `zarrfuse index`: give "
            "another --out"
        )


def _say_left_out(paths: Sequence[str], progress: Progress) -> None:
    if paths:
        progress.say(f"left out: {len(paths):,} with other names, such as {paths[0]}")


def _show(places: Places, dimensions: Dimensions, out: str, progress: Progress) -> None:
    progress.say(f"{len(places.files):,} files with the names {places.naming.title}")
    for line in places.described():
        progress.say(f"  {line}")
    _say_left_out(places.ignored, progress)
    names = ",".join(dimensions.names)
    progress.say(f"dimensions: {names}; to be written to {printable_source(out)}")
