"""Time to start, in fresh processes."""

import subprocess
import sys
from pathlib import Path

from benchmarks.report import Settings, Table, Target, timed
from benchmarks.timing import best_of

__all__ = ["startup"]

_LEAST_RUNS = 5


def startup(settings: Settings) -> Table:
    """`import thermoset` and `thermoset --help`, interpreter included."""
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import thermoset": [sys.executable, "-c", "import thermoset"],
        "thermoset --help": [str(Path(sys.executable).with_name("thermoset")), "--help"],
    }
    targets = {"import thermoset": Target("<=", 0.3, "value"), "thermoset --help": Target("<=", 0.5, "value")}

    def run(name: str) -> None:
        subprocess.run(commands[name], check=True, stdout=subprocess.DEVNULL)

    timings = best_of({name: lambda name=name: run(name) for name in commands}, max(settings.repeats, _LEAST_RUNS))
    lines = [timed(name, timings[name], targets.get(name)) for name in commands]
    return Table("Start-up, whole process", lines)
