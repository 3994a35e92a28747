"""Measure thermoset beside other libraries, and write the page and the figure."""

import argparse
import json
import os
import platform
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = (
    "thermoset",
    "numpy",
    "scikit-learn",
    "torch",
    "mapie",
    "torchcp",
    "crepes",
    "puncc",
    "torch-uncertainty",
    "probmetrics",
    "netcal",
)
_THREADS = "2"


def _machine() -> str:
    threads = f"{os.cpu_count()} cores, {_THREADS} threads for every library"
    versions = ", ".join(f"{package} {_version(package)}" for package in _PACKAGES)
    return f"{threads}, {platform.system()}, Python {platform.python_version()}; {versions}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


def main() -> None:
    """Run everything, or the child's part of the memory measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of the page; its images are in images/")
    parser.add_argument("--peak", nargs=2, metavar=("LIBRARY", "SCORE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of other libraries
    for variable in ("THERMOSET_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = _THREADS
    # Imported here: libraries read the number of threads when they are first imported.
    from benchmarks.peers import measuring, page

    if arguments.peak:
        print(json.dumps(measuring.peak_of_child(*arguments.peak)))
        return
    found = []
    for job in (
        measuring.temperatures,
        measuring.set_times,
        measuring.one_row,
        measuring.memories,
        measuring.coverages,
        measuring.sweeps,
    ):
        for one in job():
            value = "-" if one.value is None else f"{one.value:.4g}"
            print(f"{one.job:16} {one.library:18} {value:>10}  {one.note}", flush=True)
            found.append(one)
    (arguments.out / "peers.md").write_text(page.markdown(found, _machine()))
    page.figure(found).savefig(arguments.out / "images" / "peers.png", dpi=150)
    print(f"Wrote {arguments.out / 'peers.md'} and {arguments.out / 'images' / 'peers.png'}")


if __name__ == "__main__":
    main()
