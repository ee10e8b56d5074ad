"""The custom actions of Thunar, `uca.xml`: one file for those of everybody. Used by `install_desktop`.

Owns that actions of others stay as they are, and which are ours: those with unique ids `zarrfuse-...`.
"""

import os
from pathlib import Path
from xml.dom import minidom
from xml.etree.ElementTree import canonicalize
from xml.parsers.expat import ExpatError

from zarrfuse.errors import ZarrfuseError
from zarrfuse.mounts.settings_files import replace

_FILE = "Thunar/uca.xml"
_OURS = "zarrfuse-"


def add_actions(actions: str, config_home: Path) -> Path:
    """Add the actions of a document to those of the user, in place of older ones of ours; the file.

    A user without a file has the actions of the system, which one's own file would hide: they are copied.
    Raises `ZarrfuseError`.
    """
    path = config_home / _FILE
    base = path if path.exists() else _system_file()
    document = minidom.parseString("<actions/>") if base is None else _parsed(base)
    _drop_ours(document)
    for action in minidom.parseString(actions).getElementsByTagName("action"):
        _root(document).appendChild(document.importNode(action, deep=True))
        _root(document).appendChild(document.createTextNode("\n"))
    replace(path, _bytes_of(document))
    return path


def remove_actions(config_home: Path) -> Path | None:
    """Remove our actions; the file that was changed. One that has only those of the system is deleted."""
    path = config_home / _FILE
    if not path.exists():
        return None
    document = _parsed(path)
    if not _drop_ours(document):
        return None
    system = _system_file()
    rest = "<actions/>" if system is None else system.read_text(encoding="utf-8")
    if _is_alike(_bytes_of(document).decode(), rest):
        path.unlink()
    else:
        replace(path, _bytes_of(document))
    return path


def _system_file() -> Path | None:
    folders = os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    paths = (Path(folder, _FILE) for folder in folders.split(":") if folder)
    return next((path for path in paths if path.exists()), None)


def _parsed(path: Path) -> minidom.Document:
    try:
        document = minidom.parse(str(path))
    except ExpatError as error:
        raise ZarrfuseError(f"{path} is no XML ({error}): mend it, or move it away") from None
    if _root(document).tagName != "actions":
        raise ZarrfuseError(f"{path} has no actions of Thunar: move it away")
    return document


def _drop_ours(document: minidom.Document) -> bool:
    """Remove our actions, each with the end of its line; whether there were any."""
    dropped = False
    for action in list(document.getElementsByTagName("action")):
        ids = action.getElementsByTagName("unique-id")
        if not ids or not _text_of(ids[0]).startswith(_OURS):
            continue
        after = action.nextSibling
        if isinstance(after, minidom.Text) and after.data.startswith("\n"):
            after.data = after.data[1:]
        assert action.parentNode is not None  # an element always has one
        action.parentNode.removeChild(action)
        dropped = True
    return dropped


def _root(document: minidom.Document) -> minidom.Element:
    assert document.documentElement is not None  # what is parsed has one
    return document.documentElement


def _text_of(element: minidom.Element) -> str:
    return "".join(
        node.data for node in element.childNodes if isinstance(node, minidom.Text)
    ).strip()


def _bytes_of(document: minidom.Document) -> bytes:
    # `document.toxml` would put all that is outside of the root on one line.
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        *(node.toxml() for node in document.childNodes),
    ]
    return "\n".join([*lines, ""]).encode()


def _is_alike(one: str, other: str) -> bool:
    return canonicalize(one, strip_text=True) == canonicalize(other, strip_text=True)
