"""The installed command: started, and ended."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

COMMAND = Path(sys.executable).with_name("thermoset")


class Done(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """What was printed, however lines were broken."""
        return " ".join(self.stdout.split())

    def assert_refused(self, because):
        """Bad input: one line that says why, exit code 2, and nothing else."""
        assert (self.returncode, self.stdout) == (2, ""), self
        assert self.stderr.startswith("thermoset: ")
        assert because in self.stderr
        assert self.stderr.count("\n") == 1
        assert self.stderr.endswith("\n")


def _foreground() -> None:
    # A shell starts what it puts into the background with Ctrl-C ignored, and so does all that is started there.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(*arguments: object) -> "subprocess.Popen[str]":
    """Start it, with signals as in the foreground of a shell; its output is kept."""
    return subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_foreground,  # noqa: PLW1509 (no threads here)
    )
