"""Numbers on pages are those that were measured: what `make bench` and `make bench-peers` kept gives the same pages."""

import json
import re
from fractions import Fraction
from math import ceil, isqrt
from pathlib import Path

import pytest

from benchmarks import speed
from benchmarks.documents import between, write_between
from benchmarks.peers import page
from benchmarks.peers.plan import OURS, Found, Plan
from benchmarks.peers.reading import JOBS, faster, law_of_coverage, multiple, ratios
from benchmarks.timing import best_of

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "benchmarks" / "peers" / "measured.json"
PEERS = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
by_peers = pytest.mark.skipif(not PEERS, reason="`make bench-peers` has not been run for this version")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@by_peers
def test_the_page_about_other_libraries_is_what_was_measured():
    assert (ROOT / "docs" / "peers.md").read_text(encoding="utf-8") == page.markdown(PEERS)


@by_peers
def test_the_readmes_part_about_other_libraries_is_what_was_measured():
    assert between(README, "peers") == page.readme_lines(PEERS)


@pytest.mark.skipif(not speed.MEASURED.exists(), reason="`make bench` has not kept anything yet")
def test_the_table_of_speeds_is_what_was_measured():
    told = between((ROOT / "docs" / "speed.md").read_text(encoding="utf-8"), "table")
    assert told == speed.table(json.loads(speed.MEASURED.read_text(encoding="utf-8")))


def test_the_readme_has_no_speed_that_no_command_writes():
    by_hand = README.replace(between(README, "peers"), "")
    speeds = r"\d[\d.,]*\s*(?:×|times (?:as|faster|slower|less|more)|seconds?\b|ms\b|µs\b|[GM]B\b)"
    assert re.findall(speeds, by_hand) == []


def test_the_readme_compares_with_the_versions_that_are_measured():
    pins = "\n".join(path.read_text(encoding="utf-8").lower() for path in (ROOT / "benchmarks" / "peers").glob("*.txt"))
    compared = re.findall(r"\[(\w+)\]\(https://github.com/[^)]+\) ([\d.]+) \|", README)
    assert [name for name, _ in compared] == ["MAPIE", "TorchCP", "crepes"]
    assert [name for name, version in compared if f"{name.lower()}=={version}." not in pins] == []


@by_peers
def test_every_library_was_asked_for_everything():
    jobs = {job: {one["library"] for one in PEERS["found"] if one["job"] == job} for job in JOBS}
    makers = {OURS, "MAPIE", "TorchCP", "crepes", "puncc", "torch-uncertainty"}
    assert jobs["LAC sets"] == jobs["one row"] == jobs["memory"] == makers
    assert jobs["APS sets"] == makers - {"crepes"}
    assert {OURS, "scikit-learn", "probmetrics", "netcal", "torch LBFGS"} <= jobs["T*"]
    assert PEERS["plan"] == json.loads(json.dumps(vars(Plan())))


@by_peers
def test_a_page_of_other_numbers_shows_them_and_who_failed():
    found = [
        {**one, "value": None, "seen": {}, "missing": "fails (ValueError: no)"}
        if (one["library"], one["job"]) == ("puncc", "LAC sets")
        else {**one, "value": 0.25 * one["value"]}
        if (one["library"], one["job"]) == ("MAPIE", "LAC sets")
        else one
        for one in PEERS["found"]
    ]
    told = page.markdown({**PEERS, "found": found})
    assert "| puncc | fails (ValueError: no) |" in told
    assert told != page.markdown(PEERS)


@pytest.mark.parametrize(
    ("ratio", "told"),
    [(0.714, "0.71×"), (0.0499, "0.050×"), (1, "1.0×"), (2.34, "2.3×"), (9.96, "10×"), (22.4, "22×"), (3634, "3,600×")],
)
def test_ratios_have_two_digits(ratio, told):
    assert multiple(ratio) == told


def test_ratios_are_to_ours_and_name_whoever_takes_less():
    found = [Found(OURS, job, 2.0) for job in JOBS]
    found += [Found("slow", "T*", 5.0), Found("quick", "T*", 1.0), Found("broken", "T*", None, missing="fails")]
    assert ratios(found, "T*") == [("quick", 0.5), ("slow", 2.5)]
    assert faster(found) == ["quick (fit T*, 0.50×)"]


def test_the_interval_of_coverage_is_four_standard_errors_of_the_exact_law():
    # Hits of m fresh rows follow Beta-Binomial(m; a, b), a = k, b = n + 1 - k: its mean and variance, by hand.
    plan = Plan(split_rows=99, splits=4)
    n = m = plan.split_rows
    a = ceil(Fraction(9, 10) * (n + 1))
    b = n + 1 - a
    mean, variance = Fraction(a, a + b), Fraction(a * b * (a + b + m), (a + b) ** 2 * (a + b + 1) * m)
    error = isqrt(int(variance / plan.splits * 10**24)) / 10**12
    assert law_of_coverage(plan) == pytest.approx((float(mean) - 4 * error, float(mean) + 4 * error), abs=1e-9)


def test_a_part_of_a_page_is_replaced_and_the_rest_is_left_alone(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- it: written by make it -->\nold\n<!-- end of it -->\nafter \\1\n", encoding="utf-8")
    write_between(path, "it", "new \\1\n")
    assert path.read_text(encoding="utf-8").splitlines() == [
        "before",
        "<!-- it: written by make it -->",
        "new \\1",
        "<!-- end of it -->",
        "after \\1",
    ]
    with pytest.raises(ValueError, match="other"):
        write_between(path, "other", "")


def test_contenders_take_turns_and_failures_are_told():
    calls, time = [], iter(range(100))
    contenders = {
        "a": lambda: calls.append("a"),
        "b": lambda: calls.append("b"),
        "c": ValueError("no"),
        "d": ImportError("x"),
    }
    found = best_of(contenders, 2, clock=lambda: next(time))
    assert calls == ["a", "b", "a", "b"]
    assert (found["a"].seconds, found["a"].runs) == (1, 2)
    assert found["c"].missing == "fails (ValueError: no)"
    assert found["d"].missing == "not installed (x)"
