"""The size of what is measured, and what a result is."""

from dataclasses import dataclass, field

__all__ = ["ALPHA", "FULL", "OURS", "REPEATS", "SMALL", "Found", "Plan"]

OURS = "thermoset"
ALPHA = 0.1
REPEATS = 3


@dataclass(frozen=True)
class Plan:
    """How many rows and classes are fitted and predicted, how cold it gets, and what is swept."""

    rows: int = 5_000
    classes: int = 1_000
    conformal_rows: int = 2_000
    temperatures: tuple[float, ...] = (0.05, 0.1, 1.0)
    split_rows: int = 2_000  # of the bundled data set a threshold, and as many others judge it
    splits: int = 10
    swept_rows: int = 10_000
    swept_classes: int = 100


FULL = Plan()
SMALL = Plan(rows=400, classes=50, conformal_rows=400, split_rows=300, splits=2, swept_rows=1_000, swept_classes=10)
"""To see whether every library can be called; its times say nothing."""


@dataclass(frozen=True)
class Found:
    """One number of one library, and what else was seen; `missing` says why there is none."""

    library: str
    job: str
    value: float | None
    seen: dict[str, float] = field(default_factory=dict)
    missing: str = ""
