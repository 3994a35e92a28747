"""What pyproject.toml and the files beside it declare: bounds, a lock, a citation, an sdist that can test itself."""

import re
import runpy
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
    users = [
        name
        for name in DECLARED["project"]["optional-dependencies"]
        if name not in {"check", "docs", "bench", "release"}
    ]
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


LOCK = (ROOT / "requirements" / "ci.txt").read_text(encoding="utf-8")
LOCKED_EXTRAS = ["check", "frameworks", "boosting", "engines"]  # what `make check test STRICT=1` installs


def locked():
    """The versions that the lock has of each package, one for each Python where these differ."""
    versions = defaultdict(list)
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", LOCK, flags=re.MULTILINE):
        versions[name].append(tuple(int(part) for part in re.findall(r"\d+", version)))
    return versions


def test_the_lock_has_what_ci_installs_except_pytorch():
    bounds = lower_bounds(DECLARED, LOCKED_EXTRAS)
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
