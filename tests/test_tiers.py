"""Every case runs in some tier, and every two values meet in `make test`."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from tiers import pairwise

pytest_plugins = ["pytester"]

CASES = """
import pytest
from tiers import scaled

@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(3))
@pytest.mark.parametrize("c", range(3))
def test_three(a, b, c):
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.long
def test_long():
    pass

@pytest.mark.scaled
def test_scaled(request):
    times = {"quick": 1, "test": 1, "long": 2, "evidence": 3, "all": 2}
    assert scaled(1, 2, 3) == times[request.config.getoption("tier")]

@pytest.mark.evidence
def test_evidence():
    pass
"""


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40, unique=True))
def test_a_selection_has_every_pair_of_values(values):
    cases = [dict(zip("abc", value, strict=True)) for value in values]
    pairs = [set(itertools.combinations(case.items(), 2)) for case in cases]
    chosen = pairwise(cases)
    assert set().union(*(pairs[place] for place in chosen)) == set().union(*pairs)
    assert len(set(chosen)) == len(chosen) <= len(cases)


@pytest.mark.slow
def test_each_tier_runs_what_its_markers_say(pytester, monkeypatch):
    pytester.makeconftest((ROOT / "conftest.py").read_text(encoding="utf-8"))
    pytester.makeini("[pytest]\nmarkers =\n    slow\n    long\n    scaled\n    evidence\n")
    pytester.makepyfile(test_cases=CASES)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    ran = {}
    for tier in ("quick", "test", "long", "evidence", "all"):
        found = pytester.runpytest_subprocess("-v", "-p", "no:cacheprovider", "--tier", tier)
        found.assert_outcomes(
            passed=found.parseoutcomes()["passed"], deselected=found.parseoutcomes().get("deselected", 0)
        )
        ran[tier] = {line.split("::")[1].split()[0] for line in found.outlines if "PASSED" in line}
    three = {name for name in ran["all"] if name.startswith("test_three")}
    assert len(three) == 27
    assert ran["quick"] == {min(three), "test_scaled"}
    assert ran["test"] - ran["long"] == {"test_slow"} | (three & ran["test"])
    assert 9 <= len(three & ran["test"]) < 27, "nine cases are the least in which all pairs meet"
    assert ran["test"] | ran["long"] == ran["all"]
    assert ran["test"] & ran["long"] == {"test_scaled"}
    assert ran["evidence"] == {"test_evidence", "test_scaled"}
