"""What pyproject.toml declares: lower bounds that a job can install, and a source distribution that can test itself."""

import re
import runpy
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ALWAYS_SHIPPED = {"pyproject.toml", ".gitignore"}  # hatchling adds them by itself
lower_bounds = runpy.run_path(str(ROOT / "tools" / "oldest.py"))["lower_bounds"]


def project(*dependencies, **extras):
    table = {"name": "p", "dependencies": list(dependencies), "optional-dependencies": extras}
    return {"project": table, "build-system": {"requires": ["builder>=1"]}}


def test_lower_bounds_follow_the_extras_that_extras_name():
    declared = project("a>=1.2", plot=["b>=3.4.5"], test=["p[plot]", "c>=6"], other=["d>=7"])
    assert lower_bounds(declared, ["test"]) == {"builder": "1", "a": "1.2", "b": "3.4.5", "c": "6"}


@pytest.mark.parametrize("requirement", ["a", "a==1", "a>1", "a>=1,<2", "a~=1.0"])
def test_a_requirement_without_a_plain_lower_bound_is_refused(requirement):
    with pytest.raises(SystemExit, match="must be of the form name>=version"):
        lower_bounds(project(requirement), [])


def test_two_lower_bounds_of_one_package_are_refused():
    with pytest.raises(SystemExit, match="a has two lower bounds, 1 and 2"):
        lower_bounds(project("a>=1", test=["a>=2"]), ["test"])


def test_every_bound_that_a_user_or_a_test_meets_can_be_tested():
    users = [name for name in DECLARED["project"]["optional-dependencies"] if name not in {"check", "docs", "bench"}]
    bounds = lower_bounds(DECLARED, users)
    assert len(bounds) > len(DECLARED["project"]["dependencies"])


@pytest.mark.parametrize("name", ["Makefile", "conftest.py", "tests/conftest.py", "pyproject.toml", "mkdocs.yml"])
def test_the_source_distribution_has_every_path_that_building_and_testing_name(name):
    made = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    named = set(re.findall(r"[\w.-]+(?:/[\w.-]+)*", (ROOT / name).read_text(encoding="utf-8")))
    tops = {path.split("/")[0] for path in named if (ROOT / path).exists()} - {".", ".."}
    needed = {top for top in tops if not any(fnmatch(top, pattern) for pattern in made)}
    assert needed
    assert needed <= {*DECLARED["tool"]["hatch"]["build"]["targets"]["sdist"]["include"], *ALWAYS_SHIPPED}
