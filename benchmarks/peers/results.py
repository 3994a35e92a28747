"""How much is measured, what a result is, and what results say. Needs no other library."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from thermoset.metrics.laws import coverage_law

__all__ = [
    "ALPHA",
    "COMPARED",
    "DRAWN",
    "FULL",
    "OURS",
    "SMALL",
    "Plan",
    "Result",
    "ahead",
    "law_of_coverage",
    "of_job",
]
__all__ += ["ratios", "records", "smaller_sets", "times"]

OURS = "thermoset"
ALPHA = 0.1


@dataclass(frozen=True)
class Plan:
    """How many rows, classes, random draws and repetitions."""

    repeats: int = 3
    rows: int = 5_000
    classes: int = 1_000
    conformal_rows: int = 2_000
    temperatures: tuple[float, ...] = (0.05, 0.1, 1.0)
    split_rows: int = 2_000  # of the bundled rows set a threshold, and as many others judge it
    splits: int = 10
    swept_rows: int = 10_000
    swept_classes: int = 100
    calibration_rows: int = 2_000
    calibration_draws: int = 5
    answer_cells: tuple[tuple[str, int], ...] = (("0.1", 500), ("0.05", 2_000), ("0.02", 2_000), ("0.02", 6_000))
    answer_draws: int = 40


FULL = Plan()
SMALL = Plan(
    repeats=1,
    rows=400,
    classes=50,
    conformal_rows=400,
    split_rows=300,
    splits=2,
    swept_rows=1_000,
    swept_classes=10,
    calibration_rows=500,
    calibration_draws=1,
    answer_cells=(("0.1", 500), ("0.05", 1_000)),
    answer_draws=2,
)
"""To see whether every library can be called; its numbers say nothing."""


@dataclass(frozen=True)
class Result:
    """One number of one library, and what else was seen; `missing` says why there is none."""

    library: str
    job: str
    value: float | None
    details: dict[str, float] = field(default_factory=dict)
    missing: str = ""


COMPARED = {
    "T*": "fit T*",
    "LAC sets": "LAC sets",
    "APS sets": "randomised APS sets",
    "one row": "set of a single row",
    "first set": "fresh process to first sets",
    "first start": "first start after installation",
    "sweep": "sweep over temperatures",
    "memory": "memory beyond the input",
    "installed": "installed size",
    "lines": "lines of source",
    "ECE": "calibration error (ECE)",
    "log-loss": "log-loss of the top label",
    "confidence": "fit a confidence",
    "reviewed": "rows left for review",
}
"""Jobs of which less is better, and their titles."""
DRAWN = [job for job in COMPARED if job not in {"log-loss", "confidence"}]

_STANDARD_ERRORS = 4  # of 33 coverages that follow the law, one lies further off in 1 of 500 runs


def records(document: dict[str, Any]) -> list[Result]:
    """What is kept in measured.json, as records."""
    return [Result(**one) for one in document["results"]]


def of_job(results: Sequence[Result], job: str) -> list[Result]:
    """Everybody's result of a job, ours first."""
    return [one for one in results if one.job == job]


def ratios(results: Sequence[Result], job: str) -> list[tuple[str, float]]:
    """Each library's value over ours, least first; those that failed are left out."""
    several = of_job(results, job)
    ours = next((one.value for one in several if one.library == OURS), None)
    pairs = [(one.library, one.value / ours) for one in several if one.library != OURS and one.value and ours]
    return sorted(pairs, key=lambda pair: pair[1])


def ahead(results: Sequence[Result]) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Titles of the jobs in which others need less than thermoset, by the two digits shown, with their ratios."""
    for job, title in COMPARED.items():
        less = [(name, ratio) for name, ratio in ratios(results, job) if _two_digits(ratio) < 1]
        if less:
            yield title, less


def smaller_sets(results: Sequence[Result]) -> Iterator[Result]:
    """Sets of others that are smaller than ours, by two digits, and cover no less."""
    for job in ("LAC sets", "APS sets"):
        measured = [one for one in of_job(results, job) if one.value]
        for ours in measured[:1]:
            for one in measured[1:]:
                smaller = _two_digits(one.details["size"] / ours.details["size"]) < 1
                if smaller and one.details["coverage"] >= ours.details["coverage"]:
                    yield one


def law_of_coverage(plan: Plan) -> tuple[float, float]:
    """Between what the mean coverage over the splits lies if it follows the exact law of conformal prediction."""
    n = plan.split_rows
    law = coverage_law(n, n, ALPHA)
    mean, error = law.mean() / n, law.std() / n / math.sqrt(plan.splits)
    return mean - _STANDARD_ERRORS * error, mean + _STANDARD_ERRORS * error


def times(ratio: float) -> str:
    """A ratio to two digits: 0.71×, 2.3×, 22×, 3,600×."""
    rounded = _two_digits(ratio)
    return f"{rounded:,.{max(0, 1 - math.floor(math.log10(rounded)))}f}×"


def _two_digits(ratio: float) -> float:
    return float(f"{ratio:.1e}")
