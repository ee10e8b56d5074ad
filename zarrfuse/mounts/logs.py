"""Where the log of a daemon goes, and the form of its lines.

The terminal or systemd for a daemon in the foreground; in the background the file that was given, else
syslog, which the journal of systemd reads, else a file in the user's folder of states. Used by `daemon`;
`cli` names the place.
"""

import errno
import json
import logging
import logging.handlers
import os
import time
from pathlib import Path
from typing import ClassVar

from zarrfuse.config import MountConfig
from zarrfuse.errors import MountError

_SYSLOG = "/dev/log"
_STYLE = "%(asctime)s %(levelname)s %(message)s"
_NOT_AWAITED = f"fuse_reply_* failed with {os.strerror(errno.ENOENT)}"
_FILE_BYTES = 4 << 20
"""A file in the folder of states is kept below this size, with one older file beside it."""


def open_log(config: MountConfig) -> None:
    """Send the log to its place. Raises `MountError`."""
    handler = _handler(config)
    handler.addFilter(_is_awaited)
    handler.addFilter(_OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(verbose=config.verbose)
    logging.getLogger("pyfuse3").setLevel(logging.WARNING)


def set_level(*, verbose: bool) -> None:
    """Log more, or as usual."""
    logging.getLogger().setLevel(logging.DEBUG if verbose else logging.INFO)


def file_of(config: MountConfig) -> Path | None:
    """The file of the log; None if it goes elsewhere."""
    if config.log_file is not None:
        return Path(config.log_file)
    if config.foreground or os.path.exists(_SYSLOG):
        return None
    return folder_of_states() / f"{config.mountpoint.strip('/').replace('/', '-') or 'root'}.log"


def folder_of_states() -> Path:
    """The folder of log files where there is no syslog."""
    try:
        home = Path.home()
    except RuntimeError:  # a user without an entry in /etc/passwd, as in containers
        home = Path("/nonexistent")
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local/state", "zarrfuse")


def place() -> str | None:
    """Where the log of a daemon in the background goes, for people; None if there is none."""
    if os.path.exists(_SYSLOG):
        return f"syslog ({_SYSLOG})"
    folder = folder_of_states()
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    return f"a file in {folder}" if os.access(nearest, os.W_OK | os.X_OK) else None


def _handler(config: MountConfig) -> logging.Handler:
    handler: logging.Handler
    path = file_of(config)
    if path is not None:
        handler, style = _file_handler(path, is_asked_for=config.log_file is not None), _STYLE
    elif not config.foreground:
        daemon = logging.handlers.SysLogHandler.LOG_DAEMON
        handler = logging.handlers.SysLogHandler(_SYSLOG, daemon)
        handler.ident = f"zarrfuse[{os.getpid()}]: "
        style = "%(message)s"
    else:
        handler = logging.StreamHandler()
        style = _STYLE
    formatter = (
        _Json(config.mountpoint) if config.log_format == "json" else logging.Formatter(style)
    )
    if path is None and config.foreground and _is_journal(2):
        formatter = _Prioritised(formatter if config.log_format == "json" else None)
    handler.setFormatter(formatter)
    return handler


def _file_handler(path: Path, *, is_asked_for: bool) -> logging.Handler:
    if is_asked_for:
        try:
            return logging.FileHandler(path)
        except OSError as error:
            raise MountError(f"the log {path} cannot be written: {error.strerror}") from None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return logging.handlers.RotatingFileHandler(path, maxBytes=_FILE_BYTES, backupCount=1)
    except OSError:  # a user without a home can mount, too
        return logging.NullHandler()


def _is_journal(descriptor: int) -> bool:
    """Whether systemd gave it to this process: programs that a service starts inherit the variable, too."""
    stream = os.environ.get("JOURNAL_STREAM")
    if stream is None:
        return False
    status = os.fstat(descriptor)
    return stream == f"{status.st_dev}:{status.st_ino}"


def _is_awaited(record: logging.LogRecord) -> bool:
    """Whether a record is another than pyfuse3's error on an answer which the kernel awaits no more.

    Some `unmount` left such a line in the log: the last `release` is answered while it unmounts.
    """
    return record.name != "pyfuse3" or not record.getMessage().endswith(_NOT_AWAITED)


class _OneLine(logging.Filter):
    """Escapes line breaks and control characters, with which a name could forge lines of the log."""

    _ESCAPED: ClassVar = {code: f"\\x{code:02x}" for code in (*range(32), 127)}

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        text = record.getMessage().encode("utf-8", "backslashreplace").decode()
        record.msg, record.args = text.translate(self._ESCAPED), None
        return True


class _Prioritised(logging.Formatter):
    """Puts `<N>` before each line, which is its priority for systemd; `inner` makes the lines."""

    _PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))

    def __init__(self, inner: logging.Formatter | None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter("%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        level = next((n for least, n in self._PRIORITIES if record.levelno >= least), 7)
        return "\n".join(f"<{level}>{line}" for line in self._inner.format(record).splitlines())


class _Json(logging.Formatter):
    """Makes an object of each record: time (UTC), level, mountpoint, message, and the traceback if any."""

    def __init__(self, mountpoint: str) -> None:
        super().__init__()
        self._mountpoint = mountpoint

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        members = {
            "time": f"{seconds}.{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "mountpoint": self._mountpoint,
            "message": record.getMessage(),
        }
        if record.exc_info:
            members["traceback"] = self.formatException(record.exc_info)
        return json.dumps(members)
