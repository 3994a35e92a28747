"""What measured.json says: records, ratios, and which coverages the exact law allows. Needs no other library."""

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.plan import ALPHA, OURS, Found, Plan
from thermoset.metrics.laws import coverage_law

__all__ = ["JOBS", "faster", "law_of_coverage", "multiple", "of_job", "ratios", "records"]

JOBS = {
    "T*": "fit T*",
    "LAC sets": "LAC sets",
    "APS sets": "randomised APS sets",
    "one row": "set of a single row",
    "memory": "memory beyond the input",
    "sweep": "sweep over temperatures",
}
"""Jobs whose ratios are drawn, and their titles."""

_STANDARD_ERRORS = 4  # of 33 coverages that follow the law, one lies further off in 1 of 500 runs


def records(document: dict[str, Any]) -> list[Found]:
    """What was found, as records."""
    return [Found(**one) for one in document["found"]]


def of_job(found: Sequence[Found], job: str) -> list[Found]:
    """Everybody's result of a job, ours first."""
    return [one for one in found if one.job == job]


def ratios(found: Sequence[Found], job: str) -> list[tuple[str, float]]:
    """Libraries and how many times our time or memory they take, least first; those that failed are left out."""
    several = of_job(found, job)
    ours = next(one.value for one in several if one.library == OURS)
    ratios = [(one.library, one.value / ours) for one in several if one.library != OURS and one.value and ours]
    return sorted(ratios, key=lambda pair: pair[1])


def faster(found: Sequence[Found]) -> list[str]:
    """Where another library needs less than thermoset, in words."""
    return [
        f"{name} ({title}, {multiple(ratio)})"
        for job, title in JOBS.items()
        for name, ratio in ratios(found, job)
        if ratio < 1
    ]


def law_of_coverage(plan: Plan) -> tuple[float, float]:
    """Between what the mean coverage over the splits lies if it follows the exact law of conformal prediction."""
    n = plan.split_rows
    law = coverage_law(n, n, ALPHA)
    mean, error = law.mean() / n, law.std() / n / math.sqrt(plan.splits)
    return mean - _STANDARD_ERRORS * error, mean + _STANDARD_ERRORS * error


def multiple(ratio: float) -> str:
    """A ratio to two digits: 0.71×, 2.3×, 22×, 3,600×."""
    rounded = float(f"{ratio:.1e}")
    return f"{rounded:,.{max(0, 1 - math.floor(math.log10(rounded)))}f}×"
