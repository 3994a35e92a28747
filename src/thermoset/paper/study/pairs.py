"""All of the study for one file of logits."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.levels import rows_needed
from thermoset.metrics import top_k_accuracy
from thermoset.paper.study import row_by_row
from thermoset.paper.study.cells import Agreement, Cell, Pair, agreements, find_printed, recognise, table_cells
from thermoset.paper.study.claims import Claim, check_claims
from thermoset.paper.study.measure import Measured, Settings, measure
from thermoset.paper.study.rules import RuleComparison, compare, few_trials
from thermoset.paper.theory import QuantileSamples, quantile_samples
from thermoset.quoting import Brief

QUANTILES_AT = ("T=1", "T=T*", "T=0.5", "T=2")
"""Temperatures of the quantile samples, as appendix B.6 names them."""


@dataclass(frozen=True, eq=False, repr=False)
class PairStudy(Brief):
    """The results of the study on one file."""

    name: str
    pair: Pair | None  # of the paper; None for a file of the user's
    n_rows: int
    n_classes: int
    settings: Settings
    measured: Measured  # curves and trials of the protocol
    cells: tuple[Cell, ...]  # of tables 1 and 2 and of the appendix
    comparison: RuleComparison  # the table of appendix D, extended, and the curves of appendix C
    differences: tuple[row_by_row.SizeDifferences, ...]  # set sizes row by row
    low: row_by_row.LowTemperatures  # very low temperatures
    quantiles: QuantileSamples  # of appendix B.6, at T = 1, T*, 0.5 and 2, all rows setting the threshold
    bounds: row_by_row.MarginBounds  # of section 4 on the margins, and the share of rows above them
    statements: tuple[row_by_row.Statement, ...]  # theorems, propositions and lemmas, checked on rows of the file
    claims: tuple[Claim, ...]  # what the paper says happens, and whether it does

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
    """How often `study_logits` calls `tell`."""
    return 9 + 2 * len(settings.cp_percents) + sum(cp in settings.cp_percents for cp in (10, 20))


def study_logits(
    data: Logits, name: str, settings: Settings | None = None, *, tell: Callable[[], None] = lambda: None
) -> PairStudy:
    """Run the whole study on labelled logits; the name decides which printed numbers it is compared with.

    `tell` is called as each step ends.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=600)
    >>> data = Logits(2 * (rng.normal(size=(600, 5)) + 2 * np.eye(5)[labels]), labels)
    >>> study = study_logits(data, "mine", Settings(trials=4, cp_percents=(10, 20), temperatures="0.5,1,2"))
    >>> study.pair is None, study.cells[0].metric
    (True, 'top1')
    """
    settings = settings or Settings()
    alpha, _ = settings.main
    labels = data.require_labels("the study")
    if not np.isfinite(data.logits).all():
        raise InputError(f"{name} has masked classes (logits of -inf), of which the theory's figures know nothing.")
    percent, needed = settings.calibration_percent, 4 * rows_needed(alpha)
    calibration = len(data) * percent // 100
    if calibration < needed:
        raise InputError(
            f"{name} has {len(data):,} rows, of which {percent}% ({calibration}) calibrate; the study needs {needed} "
            "there. Add rows."
        )
    pair = recognise(name, top_k_accuracy(data.logits, labels, 1))
    printed = find_printed(pair, "temperature_ece")
    measured = measure(data, settings, None if printed is None else printed.value, tell)
    comparison = compare(data, measured, pair, settings, tell)
    few = measured.trial_ece[: few_trials(data, settings)]
    differences = tuple(row_by_row.size_differences(data, method, few, settings) for method in ("aps", "raps"))
    tell()
    low = row_by_row.low_temperatures(data, settings)
    tell()
    quantiles = quantile_samples(data, temperatures=(1.0, measured.ece, 0.5, 2.0), alpha=alpha)
    tell()
    return PairStudy(
        name=name,
        pair=pair,
        n_rows=len(data),
        n_classes=data.n_classes,
        settings=settings,
        measured=measured,
        cells=tuple(table_cells(measured, pair, settings)),
        comparison=comparison,
        differences=differences,
        low=low,
        quantiles=quantiles,
        bounds=row_by_row.margin_bounds(data, measured.ece),
        statements=row_by_row.check_statements(data, measured.ece, alpha),
        claims=check_claims(measured, comparison, differences, quantiles, settings),
    )
