"""Measure and print one table per benchmark. A missed target is shown, but is not an error: machines differ."""

import argparse
import json
import os
import platform
import time
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console

from benchmarks import speed
from benchmarks.report import Settings, Table

_NAMES = (
    "startup",
    "latency",
    "parity",
    "memory",
    "temperature",
    "ece",
    "raps",
    "mondrian",
    "sweep",
    "imagenet",
    "small",
    "hard",
    "growth",
    "plain",
    "tune",
    "clustered",
    "auto",
    "study",
    "page",
    "compilation",
    "cluster",
    "vocabulary",
    "larger",
    "costs",
    "drop-500",
    "drop-5000",
    "drop-50000",
    "slide",
)
_VERSIONS = ("thermoset", "numpy", "scikit-learn", "torch", "onnx", "onnxruntime")


def _arguments() -> argparse.Namespace:
    defaults = Settings()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"benchmarks to run: {', '.join(_NAMES)} (default: all)"
    )
    parser.add_argument("--rows", type=int, default=defaults.rows)
    parser.add_argument("--classes", type=int, default=defaults.classes)
    parser.add_argument("--repeats", type=int, default=defaults.repeats, help="number of runs; the best is shown")
    parser.add_argument("--threads", type=int, default=defaults.threads, help="number of threads for every library")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables to this file")
    parser.add_argument("--write", action="store_true", help="keep the tables in measured.json and write docs/speed.md")
    parser.add_argument("--page", action="store_true", help="run only the benchmarks that docs/speed.md shows")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(_NAMES)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; choose from {', '.join(_NAMES)}")
    return arguments


def _run(name: str, settings: Settings) -> Table:
    # Imported here: libraries read the number of threads from the environment when they are first imported.
    from benchmarks import (
        calibration,
        costs,
        latency,
        memory,
        monitoring,
        page,
        parity,
        scale,
        sets,
        stages,
        startup,
        study,
        sweeps,
        tuning,
    )

    benchmarks = {
        "startup": startup.startup,
        "latency": latency.latency,
        "parity": parity.parity,
        "memory": memory.memory,
        "temperature": calibration.temperature,
        "ece": calibration.ece,
        "raps": sets.raps,
        "mondrian": sets.mondrian,
        "sweep": sweeps.sweep,
        "imagenet": stages.imagenet,
        "small": stages.small,
        "hard": stages.hard,
        "growth": sweeps.growth,
        "plain": sweeps.plain,
        "tune": tuning.tune,
        "clustered": tuning.clustered,
        "auto": tuning.auto,
        "study": study.study,
        "page": page.page,
        "compilation": sweeps.compilation,
        "cluster": scale.cluster,
        "vocabulary": scale.vocabulary,
        "larger": scale.larger,
        "costs": costs.costs,
        "drop-500": partial(monitoring.drop, n=500),
        "drop-5000": partial(monitoring.drop, n=5_000),
        "drop-50000": partial(monitoring.drop, n=50_000),
        "slide": monitoring.slide,
    }
    return benchmarks[name](settings)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def main() -> None:
    """Run what was asked for."""
    arguments = _arguments()
    settings = Settings(arguments.rows, arguments.classes, arguments.repeats, arguments.threads)
    for variable in ("THERMOSET_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(settings.threads)
    machine = {
        "python": platform.python_version(),
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "threads": settings.threads,
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        **{package: _version(package) for package in _VERSIONS},
    }
    console = Console(width=max(Console().width, 130))
    console.print(", ".join(f"{key} {value}" for key, value in machine.items()), highlight=False)
    start = time.perf_counter()
    tables = []
    for name in arguments.names or (speed.NEEDED if arguments.page else _NAMES):
        table = _run(name, settings)
        table.show(console)
        tables.append({"name": name, **table.as_dict()})
    console.print(f"{time.perf_counter() - start:.0f} s in total", highlight=False)
    if arguments.write:
        speed.keep(machine, tables)
        speed.write()
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine, "tables": tables}, indent=2) + "\n")


if __name__ == "__main__":
    main()
