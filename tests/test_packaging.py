"""What pyproject.toml and the files beside it declare: bounds, a lock, a citation, an sdist that can test itself."""

import re
import tomllib
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

import pytest

import thermoset
from thermoset import __version__

ROOT = Path(__file__).parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ALWAYS_SHIPPED = {"pyproject.toml", ".gitignore"}  # hatchling adds them by itself


def lower_bounds(*extras):
    """The lower bound of every package that the project and these extras need, directly or through other extras."""
    optional = DECLARED["project"]["optional-dependencies"]
    wanted, bounds = [*DECLARED["project"]["dependencies"], *(f"thermoset[{extra}]" for extra in extras)], {}
    while wanted:
        requirement = wanted.pop()
        if inner := re.fullmatch(r"thermoset\[([\w,]+)\]", requirement):
            wanted += [one for extra in inner[1].split(",") for one in optional[extra]]
        else:
            name, bound = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement).groups()
            assert bounds.setdefault(name, bound) == bound, f"{name} has two lower bounds"
    return bounds


def test_every_requirement_has_one_lower_bound_and_nothing_else():
    users = DECLARED["project"]["optional-dependencies"].keys() - {"check", "docs", "bench", "release"}
    assert len(lower_bounds(*users)) > len(DECLARED["project"]["dependencies"])


@pytest.mark.parametrize("name", ["Makefile", "conftest.py", "tests/conftest.py", "pyproject.toml", "mkdocs.yml"])
def test_the_source_distribution_has_every_path_that_building_and_testing_name(name):
    made = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    named = set(re.findall(r"[\w.-]+(?:/[\w.-]+)*", (ROOT / name).read_text(encoding="utf-8")))
    tops = {path.split("/")[0] for path in named if (ROOT / path).exists()} - {".", ".."}
    needed = {top for top in tops if not any(fnmatch(top, pattern) for pattern in made)}
    assert needed
    assert needed <= {*DECLARED["tool"]["hatch"]["build"]["targets"]["sdist"]["include"], *ALWAYS_SHIPPED}


LOCK = (ROOT / "requirements" / "ci.txt").read_text(encoding="utf-8")
LOCKED_EXTRAS = ["check", "frameworks", "boosting", "engines"]  # what `make check test STRICT=1` installs


def locked():
    """The versions that the lock has of each package, one for each Python where these differ."""
    versions = defaultdict(list)
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", LOCK, flags=re.MULTILINE):
        versions[name].append(tuple(int(part) for part in re.findall(r"\d+", version)))
    return versions


def test_the_lock_has_what_ci_installs_except_pytorch():
    bounds = lower_bounds(*LOCKED_EXTRAS)
    wanted = {re.sub(r"[-_.]+", "-", name).lower(): bound for name, bound in bounds.items()}
    assert wanted.keys() - locked().keys() == {"torch"}
    for name, bound in wanted.items():
        least = tuple(int(part) for part in bound.split("."))
        assert all(version >= least for version in locked()[name]), name


def test_everything_in_the_lock_has_a_hash_and_nothing_names_a_place():
    pieces = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(pieces) > 100
    assert [piece.split()[0] for piece in pieces if "--hash=sha256:" not in piece] == []
    assert "://" not in LOCK
    assert not re.search(r"^\s*(?:-i|-f|--index|--extra|--find)", LOCK, flags=re.MULTILINE)


def test_the_citation_is_of_this_version_and_of_the_paper_that_the_readme_cites():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    entry = dict(re.findall(r"^  (\w+)\s*= \{(.+)\},?$", readme, flags=re.MULTILINE))
    assert f"\nversion: {__version__}\n" in cited
    assert f"\nlicense: {DECLARED['project']['license']}\n" in cited
    assert f"  title: {entry['title']}\n" in cited
    assert f"  collection-title: {entry['booktitle']}\n" in cited
    assert f"  year: {entry['year']}\n" in cited
    for author in entry["author"].split(" and "):
        family, given = author.split(", ")
        assert f"    - family-names: {family}\n      given-names: {given}\n" in cited


def test_the_names_that_type_checkers_see_are_those_that_users_have():
    stub = (ROOT / "src" / "thermoset" / "__init__.pyi").read_text(encoding="utf-8")
    assert set(re.findall(r" as (\w+)", stub)) == {*thermoset.__all__, "open"}
