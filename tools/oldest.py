"""The oldest versions that pyproject.toml allows, as constraints for pip: `python tools/oldest.py EXTRA ...`.

Read from pyproject.toml itself, so that what `make test-oldest` installs and what is declared cannot drift apart.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_AT_LEAST = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]+\])?>=([0-9.]+)")
_EXTRAS_OF = re.compile(r"([A-Za-z0-9._-]+)\[([^]]+)\]")


def lower_bounds(project: dict[str, Any], extras: list[str]) -> dict[str, str]:
    """Oldest version of each package that building, running and these extras ask for."""
    bounds: dict[str, str] = {}
    for requirement in [*project["build-system"]["requires"], *_requirements(project["project"], extras)]:
        found = _AT_LEAST.fullmatch(requirement)
        if found is None:
            raise SystemExit(
                f"{requirement!r} must be of the form name>=version: without it there is no oldest to test."
            )
        name, version = found.groups()
        if bounds.setdefault(name, version) != version:
            raise SystemExit(f"{name} has two lower bounds, {bounds[name]} and {version}: only one can be tested.")
    return bounds


def _requirements(table: dict[str, Any], extras: list[str]) -> Iterator[str]:
    """Dependencies and those of the extras, with extras that name extras of the project itself followed."""
    yield from table["dependencies"]
    waiting = list(extras)
    while waiting:
        for requirement in table["optional-dependencies"][waiting.pop()]:
            own = _EXTRAS_OF.fullmatch(requirement)
            if own and own[1] == table["name"]:
                waiting += own[2].split(",")
            else:
                yield requirement


def _check_python(wanted: str) -> None:
    """The oldest Python is a lower bound as well."""
    version = wanted.removeprefix(">=")
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != version:
        raise SystemExit(
            f"The oldest dependencies run on the oldest Python, {version}; got {running}. "
            f"Run: make test-oldest PYTHON=python{version}"
        )


if __name__ == "__main__":
    declared = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))
    _check_python(declared["project"]["requires-python"])
    for package, oldest in sorted(lower_bounds(declared, sys.argv[1:]).items()):
        print(f"{package}=={oldest}")
