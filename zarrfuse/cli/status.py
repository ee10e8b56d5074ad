"""The command `status`: the mounts of this machine, and how they do. Used by `app`: owns what it prints."""

import errno
import json
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from zarrfuse.cli.arguments import path_argument
from zarrfuse.errors import MountError

_UP, _OF_ANOTHER = "up", "another user's"
_STATES = {errno.ENOTCONN: "dead", errno.ECONNABORTED: "dead", errno.EACCES: _OF_ANOTHER}
_AT_ONCE = 16
_WIDE = 10_000
_SHOWN_ERRORS = 5
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def status(
    mountpoint: Annotated[
        str | None, path_argument("MOUNTPOINT", "One mount, with its counters.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List mounts, and how they do.

    Exits with 1 if one of them does not answer.
    """
    from zarrfuse.mounts import kernel_mounts  # noqa: PLC0415

    if mountpoint is not None:
        path = kernel_mounts.resolved(mountpoint)
        mounted = kernel_mounts.mount_at(path)
        if mounted is None or mounted.type != kernel_mounts.TYPE:
            raise MountError(f"{path} is no mount of zarrfuse")
        found = [_told(mounted)]
    else:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        ours = [each for each in kernel_mounts.mounts() if each.type == kernel_mounts.TYPE]
        with ThreadPoolExecutor(_AT_ONCE) as threads:  # some may hang
            found = list(threads.map(_told, ours))
    if as_json:
        print(json.dumps(found if mountpoint is None else found[0], indent=1))
    elif mountpoint is None:
        _print_table(found)
    else:
        _print_one(found[0])
    if any(each["state"] not in (_UP, _OF_ANOTHER) for each in found):
        raise typer.Exit(1)


def _told(mounted: Any) -> dict[str, Any]:
    """What a mount says of itself, and its state."""
    from zarrfuse.mounts import kernel_mounts  # noqa: PLC0415

    about = {"mountpoint": mounted.mountpoint, "source": mounted.source}
    answer = kernel_mounts.answer_of(mounted.mountpoint)
    if answer is None:
        return {**about, "state": "hangs"}
    if answer:
        return {**about, "state": _STATES.get(answer, os.strerror(answer))}
    try:
        with open(os.path.join(mounted.mountpoint, ".zarrfuse", "status.json"), "rb") as file:
            return {**about, **json.load(file), "state": _UP}
    except OSError as error:
        return {**about, "state": _STATES.get(error.errno or 0, error.strerror)}


def _print_table(found: Iterable[Mapping[str, Any]]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="")
    columns = ("MOUNTPOINT", "SOURCE", "VIEW", "STATE", "UP", "OPEN", "REQUESTS", "READ", "ERRORS")
    for name in columns:
        right = name in columns[4:]
        table.add_column(name, no_wrap=True, justify="right" if right else "left")
    for each in found:
        table.add_row(each["mountpoint"], each["source"], *_cells(each))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=_WIDE)
    console.print(table)


def _cells(told: Mapping[str, Any]) -> list[str]:
    from zarrfuse.progress import amount  # noqa: PLC0415

    if told["state"] != _UP:
        return ["", told["state"]]
    return [
        told["view"],
        told["state"],
        _time(told["uptime_s"]),
        f"{told['open_files']:,}",
        f"{told['requests']:,}",
        amount(told["bytes_read"]),
        f"{sum(told['errors'].values()):,}",
    ]


def _print_one(told: Mapping[str, Any]) -> None:
    from zarrfuse.progress import amount  # noqa: PLC0415

    lines = {name: told[name] for name in ("mountpoint", "source", "state")}
    if told["state"] == _UP:
        by_kind = sorted(told["requests_by_kind"].items(), key=lambda each: -each[1])
        lines |= {
            "view": f"{told['view']}{', writable' if told.get('read_write') else ''}",
            "version": f"{told['version']}, process {told['pid']}",
            "up": _time(told["uptime_s"]),
            "open": f"{told['open_files']:,} files, {told['open_folders']:,} folders",
            "requests": _counts(dict(by_kind)) or "none",
            "read": amount(told["bytes_read"]),
        }
        if "bytes_written" in told:
            lines["written"] = amount(told["bytes_written"])
        if "cache" in told:
            lines["cache"] = _cache(told["cache"])
        if "server" in told:
            lines["server"] = _counts(told["server"])
        lines["store"] = _calls(told["store_calls"])
        lines["errors"] = _counts(told["errors"]) or "none"
        last = list(told["last_errors"].items())[-_SHOWN_ERRORS:]
        lines |= {f"last error of {request}": text for request, text in last}
        lines["refusals"] = _counts(told["refusals"]) or "none"
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name:{width}}  {value}")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _cache(told: Mapping[str, Any]) -> str:
    from zarrfuse.progress import amount  # noqa: PLC0415

    asked = told["hits"] + told["misses"]
    hits = f", {told['hits'] / asked:.0%} of {asked:,} were there" if asked else ""
    return f"{amount(told['bytes'])} of {amount(told['capacity_bytes'])}{hits}"


def _calls(told: Mapping[str, Any]) -> str:
    if not told["calls"]:
        return "no calls that took a thread"
    times = ", ".join(
        f"{part} in {_short(told[f'p{percent}_s'])}"
        for part, percent in (("half", 50), ("90 %", 90), ("99 %", 99))
    )
    return f"{told['calls']:,} calls: {times}"


def _short(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _time(seconds: float) -> str:
    """The two largest units: "3d 4h", "12m 5s"."""
    whole = int(seconds)
    for name, unit, smaller_name, smaller in (
        ("d", _DAY_S, "h", _HOUR_S),
        ("h", _HOUR_S, "m", _MINUTE_S),
        ("m", _MINUTE_S, "s", 1),
    ):
        if whole >= unit:
            return f"{whole // unit}{name} {whole % unit // smaller}{smaller_name}"
    return f"{whole}s"
