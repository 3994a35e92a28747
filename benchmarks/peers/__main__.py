"""Measure thermoset next to other libraries, and write the page, the figure and the README's lines about them."""

import argparse
import json
import os
import platform
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.peers.plan import Plan

ROOT = Path(__file__).parents[2]
MEASURED = Path(__file__).with_name("measured.json")
_PACKAGES = (
    "thermoset",
    "numpy",
    "numba",
    "torch",
    "scikit-learn",
    "probmetrics",
    "netcal",
    "mapie",
    "torchcp",
    "crepes",
    "puncc",
    "torch-uncertainty",
)
_THREADS = 1


def machine() -> dict[str, Any]:
    """Where it is measured, and with what."""
    return {
        "cores": os.cpu_count(),
        "threads": _THREADS,
        "processor": _processor(),
        "system": platform.system(),
        "python": platform.python_version(),
        "month": time.strftime("%B %Y"),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "versions": {package: _version(package) for package in _PACKAGES},
    }


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def measured(plan: "Plan") -> dict[str, Any]:
    """Every job, as what is kept in measured.json."""
    from benchmarks.peers.measuring import JOBS

    where, found, start = machine(), [], time.perf_counter()
    for job in JOBS:
        for one in job(plan):
            value = one.missing if one.value is None else f"{one.value:.4g}"
            seen = ", ".join(f"{name} {number:.6g}" for name, number in one.seen.items())
            print(f"{one.job:16} {one.library:26} {value:>10}  {seen}", flush=True)
            found.append(vars(one))
    after = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    where["load"] = round(max(where["load"] or 0.0, after), 1)
    where["minutes"] = round((time.perf_counter() - start) / 60, 1)
    return {"machine": where, "plan": vars(plan), "found": found}


def main() -> None:
    """Run everything, or the child's part of the memory measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--small", action="store_true", help="try every call on few rows, and write nothing")
    parser.add_argument("--redraw", action="store_true", help="measure nothing; write the pages from measured.json")
    parser.add_argument("--peak", nargs=2, metavar=("LIBRARY", "SCORE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of other libraries
    for variable in ("THERMOSET_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(_THREADS)
    # Imported here: libraries read the number of threads when they are first imported.
    from benchmarks.peers import measuring, page
    from benchmarks.peers.plan import FULL, SMALL

    plan = SMALL if arguments.small else FULL
    if arguments.peak:
        print(json.dumps(measuring.peak_of_child(plan, *arguments.peak)))
        return
    if not arguments.redraw:
        document = measured(plan)
        if arguments.small:
            print(page.markdown(document))
            return
        MEASURED.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    page.write(json.loads(MEASURED.read_text(encoding="utf-8")), ROOT)


if __name__ == "__main__":
    main()
