"""All of the study for one file of logits."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.levels import rows_needed
from thermoset.metrics import top_k_accuracy
from thermoset.paper.study.agreement import Agreement, agreements
from thermoset.paper.study.cells import Cell, table_cells
from thermoset.paper.study.claims import Claim, check_claims
from thermoset.paper.study.comparison import RuleComparison, compare, few_trials
from thermoset.paper.study.margin_bounds import MarginBounds, margin_bounds
from thermoset.paper.study.measure import Measured, Settings, measure
from thermoset.paper.study.published import Pair, find_printed, recognise
from thermoset.paper.study.row_by_row import LowTemperatures, SizeDifferences, low_temperatures, size_differences
from thermoset.paper.study.statements import Statement, check_statements
from thermoset.paper.theory import QuantileSamples, quantile_samples
from thermoset.quoting import Brief

__all__ = ["QUANTILES_AT", "PairStudy", "steps", "study_logits"]

QUANTILES_AT = ("T=1", "T=T*", "T=0.5", "T=2")
"""Temperatures of the quantile samples, as appendix B.6 names them."""


@dataclass(frozen=True, eq=False, repr=False)
class PairStudy(Brief):
    """What the study found on one file.

    Attributes
    ----------
    name, pair
        The file's name, and the paper's pair it stands for (None: a file of the user's).
    n_rows, n_classes, settings
        What was studied, and how.
    measured, cells
        Curves and trials of the protocol; the cells of tables 1 and 2 and of the appendix.
    comparison
        The table of appendix D, extended, and the curves of appendix C.
    differences, low
        Set sizes row by row; very low temperatures.
    quantiles
        The quantile samples of appendix B.6, at T = 1, T*, 0.5 and 2, all rows setting the threshold.
    bounds
        The bounds of section 4 on the margins, and the share of rows above them.
    statements
        Theorems, propositions and lemmas of the paper, checked on rows of the file.
    claims
        What the paper says happens, and whether it does.
    """

    name: str
    pair: Pair | None
    n_rows: int
    n_classes: int
    settings: Settings
    measured: Measured
    cells: tuple[Cell, ...]
    comparison: RuleComparison
    differences: tuple[SizeDifferences, ...]
    low: LowTemperatures
    quantiles: QuantileSamples
    bounds: MarginBounds
    statements: tuple[Statement, ...]
    claims: tuple[Claim, ...]

    @property
    def remark(self) -> str:
        """Why a file that is named like a pair of the paper is not taken for it; empty otherwise."""
        named = recognise(self.name)
        printed = find_printed(named, "top1")
        if self.pair is not None or printed is None:
            return ""
        return (
            f"{self.name} is named like {named}, but is right for {self.measured.top1:.1%} of its rows where the paper "
            f"has {printed.value:.1%}. It is studied as a file of its own."
        )

    @property
    def title(self) -> str:
        """The pair as the paper writes it, or the file's name."""
        return self.name if self.pair is None else str(self.pair)

    @property
    def agreement(self) -> tuple[Agreement, ...]:
        """Printed cells of each metric that the study agrees with; empty if the paper prints nothing of the file."""
        return agreements(self.pair, self.cells)


def steps(settings: Settings) -> int:
    """Number of steps that `study_logits` tells of."""
    compared = sum(cp in settings.cp_percents for cp in (10, 20))
    return 2 + 2 * len(settings.cp_percents) + 3 + compared + 1 + 3


def study_logits(
    data: Logits,
    name: str,
    settings: Settings | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> PairStudy:
    """Run the whole study on labelled logits; the name decides which printed numbers stand beside it.

    `tell` is given the name of each step as it ends.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=600)
    >>> data = Logits(2 * (rng.normal(size=(600, 5)) + 2 * np.eye(5)[labels]), labels)
    >>> found = study_logits(data, "mine", Settings(trials=4, cp_percents=(10, 20), temperatures="0.5,1,2"))
    >>> found.pair is None, found.cells[0].metric
    (True, 'top1')
    """
    asked = settings or Settings()
    labels = data.require_labels("the study")
    if not np.isfinite(data.logits).all():
        raise InputError(f"{name} has masked classes (logits of -inf), of which the theory's figures know nothing.")
    percent, needed = asked.calibration_percent, 4 * rows_needed(asked.main[0])
    calibration = len(data) * percent // 100
    if calibration < needed:
        raise InputError(
            f"{name} has {len(data):,} rows, of which {percent}% ({calibration}) calibrate; the study needs {needed} "
            "there. Add rows."
        )
    pair = recognise(name, top_k_accuracy(data.logits, labels, 1))
    printed = find_printed(pair, "temperature_ece")
    found = measure(data, asked, None if printed is None else printed.value, tell)
    comparison = compare(data, found, pair, asked, tell)
    few = found.trial_ece[: few_trials(data, asked)]
    differences = tuple(size_differences(data, method, few, asked) for method in ("aps", "raps"))
    tell("differences by row")
    low = low_temperatures(data, asked)
    tell("low temperatures")
    quantiles = quantile_samples(data, temperatures=(1.0, found.ece, 0.5, 2.0), alpha=asked.main[0])
    tell("quantile samples")
    cells = table_cells(found, pair, asked)
    claims = check_claims(found, comparison, differences, quantiles, asked)
    theory = margin_bounds(data, found.ece), check_statements(data, found.ece, asked.main[0])
    shape = len(data), data.n_classes
    return PairStudy(name, pair, *shape, asked, found, cells, comparison, differences, low, quantiles, *theory, claims)
