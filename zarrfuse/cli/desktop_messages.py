"""Shows a sentence on the desktop, for what was started without a terminal. Used by `open`."""

import html
import os
import shutil
import subprocess

_TITLE = "zarrfuse"
_SHOWN_WITHIN_S = 10


def show_message(sentence: str) -> None:
    """Show a sentence as a notification, or in a window where nothing shows notifications.

    Where there is no desktop, or no program for it, nothing is shown.
    """
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    # notify-send and zenity refuse bytes that are no text, and read backslashes as a shell's printf does.
    sentence = sentence.encode(errors="backslashreplace").decode().replace("\\", "\\\\")
    notification = ["notify-send", f"--app-name={_TITLE}", "--icon=zarrfuse", "--", _TITLE]
    if not _ran([*notification, html.escape(sentence, quote=False)]) and shutil.which("zenity"):
        subprocess.Popen(  # until somebody closes it
            ["zenity", "--error", "--no-markup", f"--title={_TITLE}", f"--text={sentence}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _ran(command: list[str]) -> bool:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_SHOWN_WITHIN_S,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
