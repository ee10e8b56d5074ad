"""The words of `-o`, which mount(8), fstab and users write: `ro,view=images,cache_ttl=inf,x-gvfs-hide`.

Owns which of them are options of the command, of the kernel, of the source, or of nobody. Used by
`mount_command`, `mount` and `mount_helper`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

import typer

_WORD = re.compile(r"(?:[^,\\]|\\.?)+", re.DOTALL)
_ESCAPED = re.compile(r"\\([,\\])")

Flags = Mapping[str, bool]
"""The options of a command by their names in `-o`, and whether they are flags: without a value."""


def words_of(text: str) -> Iterator[str]:
    r"""The words of an `-o`, which commas separate; `\,` is a comma in a word, and `\\` a backslash."""
    for word in _WORD.findall(text):
        yield _ESCAPED.sub(r"\1", word)


# What mount(8) and systemd read in fstab, and hand on; `rw` it hands on unasked. The last line is what the
# kernel does anyway, for which libfuse has no words.
OF_FSTAB = frozenset(
    words_of(
        "auto,noauto,user,nouser,users,owner,noowner,group,nogroup,nofail,defaults,_netdev,rw,"
        "relatime,diratime,nostrictatime,nolazytime,symfollow"
    )
)
BEGINS_OF_FSTAB = ("x-", "X-", "comment=", "user=")
# What the kernel and libfuse take from a file system of pyfuse3.
OF_KERNEL = frozenset(
    words_of(
        "ro,suid,nosuid,dev,nodev,exec,noexec,atime,noatime,nodiratime,norelatime,strictatime,lazytime,"
        "sync,async,dirsync,nosymfollow,"
        "allow_root,default_permissions,auto_unmount,nonempty,debug,"
        "fsname,subtype,context,fscontext,defcontext,rootcontext"
    )
)
# What other file systems take, and what to do instead.
REFUSED = {
    **dict.fromkeys(
        words_of(
            "max_read,max_write,max_readahead,max_background,congestion_threshold,fd,rootmode,user_id,"
            "group_id,clone_fd,max_threads,max_idle_threads,async_read,sync_read"
        ),
        "zarrfuse sets it itself",
    ),
    **dict.fromkeys(
        words_of(
            "entry_timeout,attr_timeout,ac_attr_timeout,negative_timeout,kernel_cache,auto_cache,"
            "direct_io,noforget,remember"
        ),
        "cache_ttl=SECONDS says how long names and attributes are cached",
    ),
    "remount": "a mount stays as it was made: unmount it, and mount it anew",
}


def escaped(word: str) -> str:
    """`word` as `-o` has it."""
    return word.replace("\\", "\\\\").replace(",", "\\,")


def expanded(arguments: Sequence[str], flags: Flags) -> list[str]:
    """The arguments of a command with its options that are in an `-o` as arguments of their own.

    Words that are of fstab alone are dropped; each other one gets an `-o` of its own. Raises
    `typer.BadParameter`.
    """
    found: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            return [*found, argument, *left]
        if not argument.startswith("-o"):
            found.append(argument)
            continue
        text = argument[2:] or next(left, "")
        for word in words_of(text):
            if not _is_of_fstab(word):
                found += _own(word, flags) or ("-o", escaped(word))
    return found


def shared_out(
    words: Iterable[str], flags: Flags, *, is_url: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(options of the kernel and libfuse, settings of a source that is a URL) among words.

    Raises `typer.BadParameter`.
    """
    options: list[str] = []
    settings: list[str] = []
    for word in words:
        name, equals, _ = word.partition("=")
        if _is_of_fstab(word):
            continue
        if name in OF_KERNEL:
            options.append(word)
        elif name in REFUSED:
            raise _refused(f"{name} cannot be given: {REFUSED[name]}")
        elif _normal(name) in flags:
            raise _refused(f"{name} is no word of -o here: write it by itself")
        elif is_url and equals and not _nearest(name, flags):
            settings.append(word)
        else:
            near = _nearest(name, [*flags, *OF_KERNEL, *OF_FSTAB])
            raise _refused(
                f"there is no option {name}" + (f"; did you mean {near}?" if near else "")
            )
    return tuple(options), tuple(settings)


def is_known(word: str, flags: Flags) -> bool:
    """Whether anybody here takes a word."""
    name = word.partition("=")[0]
    return _is_of_fstab(word) or name in OF_KERNEL or _normal(name) in flags


def _own(word: str, flags: Flags) -> tuple[str, ...]:
    """A word as an argument of the command; empty if it is not one of its options."""
    name, equals, value = word.partition("=")
    is_flag = flags.get(_normal(name))
    if is_flag is None:
        return ()
    if is_flag == bool(equals):
        raise _refused(f"{name} takes no value" if is_flag else f"{name} needs a value: {name}=...")
    option = f"--{name.replace('_', '-')}"
    return (f"{option}={value}",) if equals else (option,)


def _is_of_fstab(word: str) -> bool:
    return word in OF_FSTAB or word.startswith(BEGINS_OF_FSTAB)


def _normal(name: str) -> str:
    return name.replace("-", "_")


def _nearest(name: str, names: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(_normal(name), names, 1, 0.75)), None)


def _refused(sentence: str) -> typer.BadParameter:
    return typer.BadParameter(sentence, param_hint="-o")
