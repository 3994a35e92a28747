"""What temperature does row by row: set sizes (appendix B.4), very low temperatures (B.5), and the theory (section 4).

Of the theory: where its bounds lie among a file's margins, and how many rows each statement of the paper applies to.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thermoset.arrays import Floats, Ints
from thermoset.conformal import ConformalClassifier
from thermoset.data import Logits
from thermoset.errors import CoverageWarning
from thermoset.levels import Alpha, conformal_rank
from thermoset.paper import theory
from thermoset.paper.study.measure import Settings
from thermoset.quoting import Brief
from thermoset.rows import run_tasks
from thermoset.scores import RAPS
from thermoset.sweeping import Sweep, Trial, draw_trial, temperature_grid

_LOW_GRID = "0.01,0.02,0.03,0.05,0.07,0.1,0.14,0.2,0.3,0.5,1"
_LOW_TRIALS = 20, 10  # of a file of some size, and of a large one
_MANY_ENTRIES = 3_000_000  # logits of a large file
_LOW_ENTRIES = 6_000_000  # logits the naive scores are computed for at most; they sort at every temperature


@dataclass(frozen=True, eq=False, repr=False)
class SizeDifferences(Brief):
    """Set sizes at T* minus those at T = 1, for the same rows, thresholds' rows and u.

    `mean_sorted` (n_rows,): the differences of each trial in descending order, averaged over trials. `trial_shares`
    (3, trials): shares of the rows whose sets grow, stay and shrink; `grow`, `stay` and `shrink` are their means.
    """

    method: str
    mean_sorted: Floats
    trial_shares: Floats
    grow: float
    stay: float
    shrink: float


def size_differences(data: Logits, method: str, temperatures: Floats, settings: Settings) -> SizeDifferences:
    """Compare the sets of each evaluation row with and without temperature scaling, a trial for each temperature."""
    alpha, cp = settings.main
    protocol = settings.protocol(cp)
    changes: list[Ints] = [np.empty(0, dtype=np.int64)] * len(temperatures)

    def work(t: int) -> None:
        drawn = draw_trial(len(data), t, protocol)
        conformal, evaluation = data.take(drawn.conformal), data.take(drawn.evaluation)
        before, after = (
            ConformalClassifier(method, alpha, at)
            .fit(conformal, u=drawn.u[drawn.conformal])
            .set_sizes(evaluation, u=drawn.u[drawn.evaluation])
            for at in (1.0, float(temperatures[t]))
        )
        changes[t] = np.sort(after - before)[::-1]

    run_tasks([partial(work, t) for t in range(len(temperatures))])
    moved = np.array(changes)
    shares = np.array([(moved > 0).mean(axis=1), (moved == 0).mean(axis=1), (moved < 0).mean(axis=1)])
    return SizeDifferences(method, moved.mean(axis=0), shares, *shares.mean(axis=1).tolist())


@dataclass(frozen=True, eq=False, repr=False)
class LowTemperatures(Brief):
    """Sets at low temperatures: ours, and as a plain softmax in float32 and float64 gives them.

    `naive[dtype][metric]` is (methods, temperatures, trials), of the same splits as `ours`; `n_rows` rows of the file
    were used, in `ours.trials` trials.
    """

    ours: Sweep
    naive: dict[str, dict[str, Floats]]
    n_rows: int


def low_temperatures(data: Logits, settings: Settings) -> LowTemperatures:
    """Measure size and coverage of LAC, APS and RAPS from T = 0.01 on, computed well and computed naively."""
    alpha, cp = settings.main
    most = max(_LOW_ENTRIES // data.n_classes, 500)
    part = data if len(data) <= most else data.take(np.linspace(0, len(data) - 1, most).astype(np.int64))
    trials = min(settings.trials, _LOW_TRIALS[len(part) * data.n_classes > _MANY_ENTRIES])
    grid = temperature_grid(_LOW_GRID)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # classes without rows: no class gap is looked at
        ours = settings.sweep(part, cp, temperatures=grid, alphas=(alpha,), trials=trials)
    drawn = [draw_trial(len(part), t, settings.protocol(cp)) for t in range(trials)]
    naive = {name: _naive_curves(part, grid, drawn, alpha, name) for name in ("float32", "float64")}
    return LowTemperatures(ours, naive, len(part))


def _naive_curves(
    data: Logits, grid: Floats, drawn: Sequence[Trial], alpha: float, dtype: DTypeLike
) -> dict[str, Floats]:
    labels = data.require_labels("the study")
    curves = {name: np.empty((3, len(grid), len(drawn))) for name in ("avg_size", "marginal_coverage")}

    def work(j: int) -> None:
        ranked, rank = naive_ranks(data.logits, labels, float(grid[j]), dtype)
        for t, trial in enumerate(drawn):
            k = conformal_rank(len(trial.conformal), alpha)
            for m, scores in enumerate(naive_scores(ranked, trial.u.astype(dtype))):
                own = scores[np.arange(len(labels)), rank]
                threshold = np.sort(own[trial.conformal])[k - 1] if k <= len(trial.conformal) else np.inf
                inside = np.count_nonzero((scores <= threshold)[trial.evaluation])
                curves["avg_size"][m, j, t] = inside / len(trial.evaluation)
                curves["marginal_coverage"][m, j, t] = (own[trial.evaluation] <= threshold).mean()

    run_tasks([partial(work, j) for j in range(len(grid))])
    return curves


def naive_ranks(
    logits: NDArray[np.floating], labels: Ints, temperature: float, dtype: DTypeLike
) -> tuple[NDArray[np.floating], Ints]:
    """Probabilities in descending order and ranks of labels by a plain softmax: what underflows is 0, and ties."""
    z = logits.astype(dtype)
    weights = np.exp((z - z.max(axis=1, keepdims=True)) / np.array(temperature, dtype))
    probs = weights / weights.sum(axis=1, keepdims=True)
    order = np.argsort(-probs, axis=1, kind="stable")
    return np.take_along_axis(probs, order, axis=1), (order == labels[:, None]).argmax(axis=1)


def naive_scores(ranked: NDArray[np.floating], u: NDArray[np.floating]) -> list[NDArray[np.floating]]:
    """LAC, APS and RAPS of every rank."""
    kind, raps = ranked.dtype, RAPS()
    aps = np.cumsum(ranked, axis=1, dtype=kind) - (1 - u[:, None]) * ranked
    excess = np.maximum(np.arange(1, ranked.shape[1] + 1) - raps.k_reg, 0).astype(kind)
    return [1 - ranked, aps, aps + kind.type(raps.penalty) * excess]


BOUNDS_AT = ("T=0.5", "T=T*", "minimum of b(T)", "T=2")
"""Temperatures of the bounds; b(T) is least, above 1, at the critical temperature of the theory."""


class MarginBounds(NamedTuple):
    """The paper's bound b(T) and the sharp one at `BOUNDS_AT`, each with the share of rows whose margin is above it."""

    temperature: Floats
    bound: Floats
    above_bound: Floats
    sharp_bound: Floats
    above_sharp_bound: Floats


def margin_bounds(data: Logits, temperature: float) -> MarginBounds:
    """Compare the margins of logits with both bounds; `temperature` is T*."""
    at, c = np.array([0.5, temperature, theory.critical_temperature(data.n_classes), 2.0]), data.n_classes
    shares = theory.bound_share(data, at), theory.sharp_share(data, at)
    return MarginBounds(at, theory.bound(at, c), shares[0], theory.sharp_bound(at, c), shares[1])


_MOST_ROWS = 2000
_STEPS = (0.5, 1.0, 2.0, 4.0)  # temperatures of the corollary


class Statement(NamedTuple):
    """A statement of the paper on rows of a file: those its premise holds for, and those against it."""

    name: str
    text: str
    rows: int
    premise: int
    violations: int


def check_statements(data: Logits, temperature: float, alpha: Alpha) -> tuple[Statement, ...]:
    """Check every statement of section 4 and appendix A from T = 1 to `temperature`, on 2,000 of the rows at most."""
    most = np.linspace(0, len(data) - 1, min(len(data), _MOST_ROWS)).astype(np.int64)
    z, t = data.take(most), temperature if temperature != 1 else 2.0
    cool, hot, half = min(t, 1.0), max(t, 1.0), max(data.n_classes // 2, 1)
    conformal, fresh = z.split(0.5)
    checks = (
        ("Auxiliary lemma", "a cooler temperature favours the larger of two logits",
         theory.auxiliary_lemma(z, cool, hot)),
        ("Theorem 4.1", "the mass of the top classes falls as T rises", theory.theorem_4_1(z, cool, hot, half)),
        ("Corollary 4.2", "the threshold of APS falls as T rises (steps of T)",
         theory.corollary_4_2(z, None, _STEPS, alpha=alpha)),
        ("Proposition 4.3", "a gap above that of the thresholds keeps a set from shrinking",
         theory.routes(conformal, fresh, t, alpha=alpha).proposition),
        ("Theorem 4.4", "a margin above b(T) gives the derivative of the gap its sign", theory.theorem_4_4(z, t)),
        ("Theorem 4.4, sharp", "so does a margin above b*(T), an addition", theory.sharp_theorem(z, t)),
        ("Entropy proposition", "the entropy of the softmax rises with T", theory.entropy_proposition(z, t)),
        ("Lemma 1, appendix A", "probabilities change their sign of growth once, after rank s_T", theory.lemma_1(z, t)),
        ("Lemma 2, appendix A", "two gaps differ by no more than the gap at s_T", theory.lemma_2(z, t, 1, half)),
        ("Gap proposition, appendix A", "with s_T = 1 they differ by less than a bound on the margin",
         theory.gap_proposition(z, t, 1, half)),
    )  # fmt: skip
    return tuple(
        Statement(name, text, len(check.premise), int(np.count_nonzero(check.premise)), len(check.violations))
        for name, text, check in checks
    )
