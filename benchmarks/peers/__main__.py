"""Measure thermoset and other libraries, and write the page, the figure and the README's lines about them."""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import ROOT, load_average, machine, use_threads

if TYPE_CHECKING:
    from benchmarks.peers.results import Plan

MEASURED = Path(__file__).with_name("measured.json")
_PACKAGES = ("thermoset", "numpy", "numba", "torch", "scikit-learn", "probmetrics", "netcal", "mapie", "torchcp")
_PACKAGES += ("crepes", "puncc", "torch-uncertainty")
_THREADS = 1


def measured(plan: "Plan", names: list[str]) -> dict[str, Any]:
    """The jobs of these names, or all of them, as what is kept in measured.json."""
    from benchmarks.peers.measuring import JOBS, data_files

    where, results, start = machine(_THREADS, _PACKAGES), [], time.perf_counter()
    for job in JOBS:
        if names and job.__name__ not in names:
            continue
        begun = time.perf_counter()
        for one in job(plan):
            value = one.missing if one.value is None else f"{one.value:.4g}"
            details = ", ".join(f"{name} {number:.6g}" for name, number in one.details.items())
            print(f"{one.job:16} {one.library:26} {value:>10}  {details}", flush=True)
            results.append(vars(one))
        print(f"--- {job.__name__}: {time.perf_counter() - begun:.0f} s", flush=True)
    where["load"] = max(where["load"], load_average())
    where["minutes"] = round((time.perf_counter() - start) / 60, 1)
    return {"machine": where, "files": len(data_files()), "plan": vars(plan), "results": results}


def save(document: dict[str, Any]) -> None:
    """Write measured.json, one line for each result."""
    head = json.dumps({**document, "results": []}, indent=1).removesuffix("[]\n}")
    lines = ",\n".join("  " + json.dumps(one) for one in document["results"])
    MEASURED.write_text(f"{head}[\n{lines}\n ]\n}}\n", encoding="utf-8")


def main() -> None:
    """Run everything, or the child's part of the memory measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="with --small: functions of measuring.py (default: all)")
    parser.add_argument("--small", action="store_true", help="try every call on few rows, and write nothing")
    parser.add_argument("--redraw", action="store_true", help="measure nothing; write the pages from measured.json")
    parser.add_argument("--peak", nargs=2, metavar=("LIBRARY", "SCORE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of other libraries
    use_threads(_THREADS)
    # Imported here: libraries read the number of threads when they are first imported.
    from benchmarks.peers import measuring, page
    from benchmarks.peers.results import FULL, SMALL

    plan = SMALL if arguments.small else FULL
    if arguments.peak:
        print(json.dumps(measuring.peak_of_child(plan, *arguments.peak)))
        return
    if arguments.small:
        print(page.markdown(measured(plan, arguments.jobs)))
        return
    if not arguments.redraw:
        save(measured(plan, []))
    page.write(json.loads(MEASURED.read_text(encoding="utf-8")), ROOT)


if __name__ == "__main__":
    main()
