"""Numbers on pages are those that were measured: what `make bench` and `make bench-peers` kept gives the same pages."""

import json
import re
from fractions import Fraction
from math import ceil, isqrt
from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.measure import best_of
from benchmarks.pages import between, write_between
from benchmarks.peers import page
from benchmarks.peers.results import (
    COMPARED,
    DRAWN,
    OURS,
    Plan,
    Result,
    ahead,
    law_of_coverage,
    ratios,
    smaller_sets,
    times,
)

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "benchmarks" / "peers" / "measured.json"
PEERS = json.loads(MEASURED.read_text(encoding="utf-8"))
MISSING = sorted(set(COMPARED) - {one["job"] for one in PEERS["results"]})
complete = pytest.mark.skipif(bool(MISSING), reason=f"`make bench-peers` has yet to measure {', '.join(MISSING)}")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_about_other_libraries_is_what_was_measured():
    assert (ROOT / "docs" / "peers.md").read_text(encoding="utf-8") == page.markdown(PEERS)


def test_the_readmes_part_about_other_libraries_is_what_was_measured():
    assert between(README, "peers") == page.readme_lines(PEERS)


@pytest.mark.skipif(not pages.MEASURED.exists(), reason="`make bench` has not kept anything yet")
def test_the_table_of_speeds_is_what_was_measured():
    written = between((ROOT / "docs" / "speed.md").read_text(encoding="utf-8"), "table")
    assert written == pages.table(json.loads(pages.MEASURED.read_text(encoding="utf-8")))


def test_the_readme_has_no_speed_that_no_command_writes():
    by_hand = README.replace(between(README, "peers"), "")
    speeds = r"\d[\d.,]*\s*(?:×|times (?:as|faster|slower|less|more)|seconds?\b|ms\b|µs\b|[GM]B\b)"
    assert re.findall(speeds, by_hand) == []


def test_the_readme_compares_with_the_versions_that_are_measured():
    pins = "\n".join(path.read_text(encoding="utf-8").lower() for path in (ROOT / "benchmarks" / "peers").glob("*.txt"))
    compared = re.findall(r"\[(\w+)\]\(https://github.com/[^)]+\) ([\d.]+) \|", README)
    assert [name for name, _ in compared] == ["MAPIE", "TorchCP", "crepes"]
    assert [name for name, version in compared if f"{name.lower()}=={version}." not in pins] == []


@complete
def test_every_library_was_asked_for_everything():
    jobs = {job: {one["library"] for one in PEERS["results"] if one["job"] == job} for job in COMPARED}
    makers = {OURS, "MAPIE", "TorchCP", "crepes", "puncc", "torch-uncertainty"}
    assert jobs["LAC sets"] == jobs["one row"] == jobs["memory"] == jobs["first set"] == jobs["first start"] == makers
    assert jobs["installed"] == jobs["lines"] == makers | {"netcal", "probmetrics"}
    assert jobs["APS sets"] == makers - {"crepes"}
    assert {OURS, "scikit-learn", "probmetrics", "netcal", "torch LBFGS"} <= jobs["T*"]
    assert {OURS, "MAPIE, top-label sigmoid", "netcal, beta"} <= jobs["ECE"] == jobs["log-loss"] == jobs["confidence"]
    assert {OURS, "MAPIE, Holm (default)"} <= jobs["reviewed"]
    assert PEERS["plan"] == json.loads(json.dumps(vars(Plan())))


def test_a_page_of_other_numbers_shows_them_and_who_failed():
    results = [
        {**one, "value": None, "details": {}, "missing": "fails (ValueError: no)"}
        if (one["library"], one["job"]) == ("puncc", "LAC sets")
        else {**one, "value": 0.01 * one["value"]}
        if (one["library"], one["job"]) == ("MAPIE", "LAC sets")
        else one
        for one in PEERS["results"]
    ]
    changed = page.markdown({**PEERS, "results": results})
    assert "| puncc | fails (ValueError: no) |" in changed
    assert "MAPIE" in next(line for line in changed.splitlines() if line.startswith("- LAC sets: "))


def test_a_section_without_measurements_is_left_out():
    results = [one for one in PEERS["results"] if one["job"] != "T*"]
    assert "## Fit a temperature" in page.markdown(PEERS)
    assert "## Fit a temperature" not in page.markdown({**PEERS, "results": results})


def test_the_figure_has_a_panel_for_each_job_that_was_measured():
    results = [Result(OURS, job, 2.0) for job in COMPARED] + [
        Result("other", job, 3.0) for job in (*DRAWN[:4], "log-loss")
    ]
    titles = [ax.get_title(loc="left").lower() for ax in page.figure(results).axes]
    assert [title for title in titles if title] == [COMPARED[job].lower() for job in DRAWN[:4]]


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(0.714, "0.71×"), (0.0499, "0.050×"), (1, "1.0×"), (2.34, "2.3×"), (9.96, "10×"), (22.4, "22×"), (3634, "3,600×")],
)
def test_ratios_have_two_digits(ratio, shown):
    assert times(ratio) == shown


def test_ratios_are_to_ours_and_name_whoever_takes_less():
    results = [Result(OURS, job, 2.0) for job in COMPARED]
    results += [Result("slow", "T*", 5.0), Result("quick", "T*", 1.0), Result("broken", "T*", None, missing="fails")]
    results += [Result("equal", "memory", 1.997)]
    assert ratios(results, "T*") == [("quick", 0.5), ("slow", 2.5)]
    assert list(ahead(results)) == [("fit T*", [("quick", 0.5)])]


def test_smaller_sets_count_only_if_they_cover_no_less():
    measured = {OURS: (2.0, 0.9), "smaller": (1.8, 0.9), "smaller, covers less": (1.8, 0.89), "larger": (2.2, 0.95)}
    results = [Result(name, "LAC sets", 1.0, {"size": s, "coverage": c}) for name, (s, c) in measured.items()]
    assert [one.library for one in smaller_sets(results)] == ["smaller"]


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


def test_contenders_take_turns_and_failures_say_why():
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
