"""Rules that are compared: each says from a trial's calibration rows how its sets are made.

A rule may choose the score and its parameters, the temperature and the level (`Way`). To add one: write a function of
`CalibrationRows` that returns a `Way`, and add a line to `CHOOSERS`. Tables, figure and document have it from then on.
The curves of appendix C, from calibration and conformal rows, and ConfTS choose a temperature alone.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.data import Logits
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.paper.study.measure import HOTTEST, Measured, Settings, Way, calibration_rows
from thermoset.rows import SortedRows, run_tasks
from thermoset.scores import RAPS, Score, resolve
from thermoset.sweeping import Protocol, Sweep
from thermoset.sweeping.engine import LabelParts, expected_sizes, label_parts, solve_thresholds
from thermoset.sweeping.job import SweepJob, run
from thermoset.sweeping.protocol import Split
from thermoset.tuning import Search, menu, read_preference, settle
from thermoset.uniforms import stream

_HALVINGS = 10  # of the calibration rows, for ConfTS


def calibration_curves(data: Logits, settings: Settings, cp: int, methods: tuple[str, ...], alpha: float) -> Sweep:
    """What a practitioner sees: thresholds from the conformal rows, metrics on the calibration rows, trial by trial.

    Evaluation rows are not touched. The conformal rows are, so a temperature chosen by these curves costs exactness.
    """
    plan = SweepJob(tuple(resolve(method) for method in methods), settings.grid(), (alpha,), False, True, None)
    protocol = settings.protocol(cp)
    shown = _OnCalibrationRows(protocol.calibration_fraction, protocol.cp_fraction, protocol.random_state)
    measured = run(data, plan, None, settings.trials, shown, None)
    absent = np.count_nonzero(measured.counts == 0, axis=1)
    metrics = tuple(metric.name for metric in plan.metrics)
    return Sweep(methods, plan.temperatures, (alpha,), metrics, measured.values, absent, {"cp_percent": cp})


class _OnCalibrationRows(Protocol):
    """The same splits, evaluated on the calibration rows."""

    def split(self, n_rows: int, trial: int) -> Split:
        """Parts of a trial: the calibration rows are the ones evaluated."""
        parts = super().split(n_rows, trial)
        return Split(parts.calibration[:0], parts.conformal, parts.calibration)


def least_gap(curves: Sweep, method: str) -> Floats:
    """T-hat of each trial as appendix D has it: where its approximated TopCovGap is least, below 2.95."""
    searched = curves.temperatures < HOTTEST
    values = curves.of_trials("top_coverage_gap", method)[searched]
    chosen: Floats = curves.temperatures[searched][values.argmin(axis=0)]
    return chosen


def plain_aps_scores(data: Logits, temperatures: Floats) -> Floats:
    """Deterministic APS score of every label at each temperature, (n_temperatures, n)."""
    found = label_parts(SortedRows(data, keep=False), data.require_labels("the study"), temperatures)
    scores: Floats = found.parts[0] + found.parts[1]
    return scores


def conf_ts(scores: Floats, rows: Ints, temperatures: Floats, alpha: float, seed: int) -> float:
    """Temperature of ConfTS (Xi et al. 2024): label scores of one half nearest to the threshold of the other.

    Minimises the mean squared difference between the threshold of a random half of `rows` and the scores of the other
    half, averaged over halvings. `scores` (n_temperatures, n) are deterministic APS scores.

    >>> scores = np.array([[0.1, 0.9, 0.5, 0.6] * 5, [0.5] * 20])  # the second temperature makes them all alike
    >>> conf_ts(scores, np.arange(20), np.array([1.0, 2.0]), 0.2, seed=0)
    2.0
    """
    rng = stream(seed, "ConfTS")
    half = len(rows) // 2
    k = min(conformal_rank(half, alpha), half)
    loss = np.zeros(len(temperatures))
    for _ in range(_HALVINGS):
        mixed = rng.permutation(rows)
        threshold = np.partition(scores[:, mixed[:half]], k - 1, axis=1)[:, k - 1 : k]
        loss += ((threshold - scores[:, mixed[half:]]) ** 2).mean(axis=1)
    return float(temperatures[int(loss.argmin())])


PENALTIES = (0.001, 0.01, 0.1, 0.2, 0.5)
"""What RAPS tries (Angelopoulos et al. 2021, appendix E)."""
_LABELS = {
    ("exact", "t_hat"): "T-hat of appendix D",
    ("exact", "conf_ts"): "ConfTS",
    ("exact", "own tuning"): "its authors' tuning",
    ("exact", "mondrian"): "Mondrian",
    ("exact", "clustered"): "clustered",
    ("published", "t_hat"): "T = 1, beside the printed T-hat",
    ("published", "mondrian"): "Mondrian, clamped",
}
_STRICTER = (Fraction(4, 5), Fraction(3, 5), Fraction(2, 5))  # of alpha


def rule_label(mode: str, name: str) -> str:
    """What readers see for a rule.

    >>> rule_label("exact", "conf_ts"), rule_label("exact", "T = 1")
    ('ConfTS', 'T = 1')
    """
    return _LABELS.get((mode, name), name)


class Rule(NamedTuple):
    """How a rule makes the sets of each trial; rules that share their temperatures are one, and measured at once.

    names : what cells call the score and the rule, for each score and level of its ways, levels within scores.
    """

    names: tuple[tuple[str, str], ...]
    ways: tuple[Way, ...]

    @property
    def temperatures(self) -> Floats:
        """Of each trial."""
        return np.array([way.temperature for way in self.ways])


class CalibrationRows(NamedTuple):
    """What a rule may look at: the calibration rows of a trial, the alpha promised, T* by NLL, and a seed."""

    rows: Logits
    alpha: Alpha
    calibrated: float
    seed: int


def at_temperatures(name: str, methods: Sequence[str], temperatures: Floats, alpha: Alpha) -> Rule:
    """A rule that chooses the temperature of scores alone."""
    scores = tuple(resolve(method) for method in methods)
    return Rule(
        tuple((method, name) for method in methods), tuple(Way(float(t), scores, (alpha,)) for t in temperatures)
    )


def stricter(name: str, methods: Sequence[str], temperatures: Floats, alpha: Alpha) -> Rule:
    """Scores at these temperatures with thresholds at 0.8, 0.6 and 0.4 times alpha, which promise more than was asked.

    >>> stricter("T*", ("lac",), np.ones(1), 0.1).names
    (('lac', 'T*, alpha 0.08'), ('lac', 'T*, alpha 0.06'), ('lac', 'T*, alpha 0.04'))
    """
    levels = tuple(factor * exact_level(alpha) for factor in _STRICTER)
    scores = tuple(resolve(method) for method in methods)
    names = tuple((method, f"{name}, alpha {float(level):g}") for method in methods for level in levels)
    return Rule(names, tuple(Way(float(t), scores, levels) for t in temperatures))


def tuned_raps(given: CalibrationRows) -> Way:
    """RAPS with parameters as its authors tune them for size (Angelopoulos et al. 2021, appendix E), at T = 1.

    k_reg is the order statistic of the ranks of the labels, k = ceil((n + 1)(1 - alpha)); the penalty is the one of
    `PENALTIES` with the smallest sets on the same rows, which set the threshold too. u is integrated out.
    """
    one, rows = np.ones(1), SortedRows(given.rows)
    labels = label_parts(rows, given.rows.require_labels("the study"), one)
    k_reg = rank_quantile(labels.ranks + 1, given.alpha)
    scores = [RAPS(penalty, k_reg) for penalty in PENALTIES]
    sizes = [_mean_size(score, rows, labels, given.alpha) for score in scores]
    return Way(1.0, (scores[int(np.argmin(sizes))],), (given.alpha,))


def rank_quantile(ranks: Ints, alpha: Alpha) -> int:
    """The k-th smallest of n ranks, k = ceil((n + 1)(1 - alpha)), or the largest where k exceeds n.

    >>> rank_quantile(np.array([1, 4, 1, 2, 1, 1, 3, 1, 2]), 0.2)  # k = 8 of 9: 1 1 1 1 1 2 2 3 4
    3
    """
    k = min(conformal_rank(len(ranks), alpha), len(ranks))
    return int(np.partition(ranks, k - 1)[k - 1])


def _mean_size(score: Score, rows: SortedRows, labels: LabelParts, alpha: Alpha) -> float:
    """Mean size of the sets of these rows at T = 1, with the threshold they set themselves."""
    target = float((1 - exact_level(alpha)) * (rows.source.n_rows + 1))
    threshold = solve_thresholds(labels, score, 0, np.array([target]))
    return float(expected_sizes(rows, labels, score, threshold[:, None])[0, 0].mean())


def joint(given: CalibrationRows, prefer: str) -> Way:
    """Score, temperature and level at once, for a preference: `method="auto"`, of sets with one threshold."""
    preference = read_preference(prefer)
    search = Search(
        calibration=given.rows,
        candidates=menu(given.alpha, random_state=given.seed),
        calibrated=given.calibrated,
        n_conformal=len(given.rows),
        strict=preference.target(given.alpha) is not None,
        by_class=False,
    )
    setting = settle(search, preference).setting
    return Way(setting.temperature, (setting.score,), (setting.alpha,))


Chooser = Callable[[CalibrationRows], Way]
"""A rule: calibration rows of a trial -> how its sets are made."""

CHOOSERS: dict[tuple[str, str], Chooser] = {
    ("raps", "own tuning"): tuned_raps,
    **{("auto", f"choose {prefer}"): partial(joint, prefer=prefer) for prefer in ("small", "even", "protect")},
}
"""Rules that choose more than a temperature, by what cells call the score ("auto" if that is chosen) and the rule."""


def chosen_rules(data: Logits, found: Measured, settings: Settings, few: int) -> Iterator[Rule]:
    """What every rule of `CHOOSERS` chooses in each trial; those that choose the score too have few trials."""
    alpha, _ = settings.main
    for name, chooser in CHOOSERS.items():
        count = few if name[0] == "auto" else settings.trials
        ways: list[Way] = [Way(1.0, (), ())] * count

        def work(t: int, rows: Ints, chooser: Chooser = chooser, ways: list[Way] = ways) -> None:
            ways[t] = chooser(CalibrationRows(data.take(rows), alpha, float(found.trial_nll[t]), t))

        drawn = zip(range(count), calibration_rows(data, settings), strict=False)
        run_tasks([partial(work, t, rows) for t, rows in drawn])
        yield Rule((name,), tuple(ways))
