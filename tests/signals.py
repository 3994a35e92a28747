"""The command in a process that gets signals as one in the foreground of a shell does."""

import signal
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).with_name("thermoset")


def _foreground() -> None:
    # A shell starts what it puts into the background with Ctrl-C ignored, and so does all that is started there.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(*arguments: object) -> "subprocess.Popen[str]":
    """Start the installed command; its output is kept."""
    return subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_foreground,  # noqa: PLW1509 (no threads here)
    )
