"""Time to start, in fresh processes."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measure import best_of
from benchmarks.report import Settings, Table, Target, timed

__all__ = ["startup"]

_LEAST_RUNS = 5
_FIRST_ANSWER = """
import sys
import numpy as np
from thermoset import TwoTemperaturePredictor
TwoTemperaturePredictor.load(sys.argv[1]).predict_arrays(np.zeros((1, 1000), dtype=np.float32))
"""


def startup(settings: Settings) -> Table:
    """`import thermoset`, `thermoset --help`, and a predictor loaded for its first answer, interpreter included."""
    with tempfile.TemporaryDirectory() as folder:
        saved = _saved(Path(folder))
        commands = {
            "import numpy, numba": [sys.executable, "-c", "import numpy, numba"],
            "python -c pass": [sys.executable, "-c", "pass"],
            "import thermoset": [sys.executable, "-c", "import thermoset"],
            "thermoset --help": [str(Path(sys.executable).with_name("thermoset")), "--help"],
            "load + first answer": [sys.executable, "-c", _FIRST_ANSWER, saved],
        }

        def run(name: str) -> None:
            subprocess.run(commands[name], check=True, stdout=subprocess.DEVNULL)

        run("load + first answer")  # compiles what is not compiled yet
        timings = best_of({name: lambda name=name: run(name) for name in commands}, max(settings.repeats, _LEAST_RUNS))
    targets = {
        "import thermoset": Target("<=", 0.3, "value"),
        "thermoset --help": Target("<=", 0.5, "value"),
        "load + first answer": Target("<=", 2, "yardstick"),
    }
    return Table("Start-up, whole process", [timed(name, timings[name], targets.get(name)) for name in commands])


def _saved(folder: Path) -> str:
    """A predictor of 1,000 classes on disk."""
    from thermoset import TwoTemperaturePredictor

    labels = np.arange(4000) % 1000
    logits = 2 * np.random.default_rng(0).normal(size=(4000, 1000)) + 6 * np.eye(1000)[labels]
    path = folder / "predictor.json"
    TwoTemperaturePredictor().fit(logits.astype(np.float32), labels).save(path)
    return str(path)
