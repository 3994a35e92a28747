"""Measure and print one table per benchmark. A missed target is shown, but is not an error: machines differ."""

import argparse
import json
import time
from functools import partial
from importlib import import_module
from pathlib import Path

from rich.console import Console

from benchmarks import pages
from benchmarks.measure import machine, use_threads
from benchmarks.tables import Settings, Table

_MODULES = {
    "predicting": ("startup", "latency", "temperature", "ece", "raps", "mondrian"),
    "parity": ("parity",),
    "sweeps": (
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
    ),
    "large": ("memory", "cluster", "vocabulary", "larger", "costs"),
    "monitoring": ("drop-500", "drop-5000", "drop-50000", "slide"),
}
"""Benchmarks by module; a number after a dash is the argument n."""

_BENCHMARKS = {name: module for module, names in _MODULES.items() for name in names}
_VERSIONS = ("thermoset", "numpy", "scikit-learn", "torch", "onnx", "onnxruntime")


def _arguments() -> argparse.Namespace:
    defaults, names = Settings(), ", ".join(_BENCHMARKS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks to run: {names} (default: all)")
    parser.add_argument("--rows", type=int, default=defaults.rows)
    parser.add_argument("--classes", type=int, default=defaults.classes)
    parser.add_argument("--repeats", type=int, default=defaults.repeats, help="number of runs; the best is shown")
    parser.add_argument("--threads", type=int, default=defaults.threads, help="number of threads for every library")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables to this file")
    parser.add_argument("--write", action="store_true", help="keep the tables in measured.json and write docs/speed.md")
    parser.add_argument("--page", action="store_true", help="run only the benchmarks that docs/speed.md shows")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(_BENCHMARKS)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; choose from {names}")
    return arguments


def _run(name: str, settings: Settings) -> Table:
    # Imported here: libraries read the number of threads from the environment when they are first imported.
    function, _, n = name.partition("-")
    benchmark = getattr(import_module(f"benchmarks.{_BENCHMARKS[name]}"), function)
    table: Table = partial(benchmark, n=int(n))(settings) if n else benchmark(settings)
    return table


def main() -> None:
    """Run what was asked for."""
    arguments = _arguments()
    settings = Settings(arguments.rows, arguments.classes, arguments.repeats, arguments.threads)
    use_threads(settings.threads)
    where = machine(settings.threads, _VERSIONS)
    console = Console(width=max(Console().width, 130))
    shown = {key: value for key, value in where.items() if key != "versions"} | where["versions"]
    console.print(", ".join(f"{key} {value}" for key, value in shown.items()), highlight=False)
    start = time.perf_counter()
    tables = []
    for name in arguments.names or (pages.NEEDED if arguments.page else _BENCHMARKS):
        table = _run(name, settings)
        table.show(console)
        tables.append({"name": name, **table.as_dict()})
    console.print(f"{time.perf_counter() - start:.0f} s in total", highlight=False)
    if arguments.write:
        pages.keep(where, tables)
        pages.write()
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": where, "tables": tables}, indent=2) + "\n")


if __name__ == "__main__":
    main()
