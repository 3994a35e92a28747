"""What the theory says about a file of logits, and what its sets do.

The quantile sample is the row whose score is the threshold (paper, section 4.2 and appendix B.6).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Floats, Ints, Pairs
from thermoset.bounds import checked_temperature
from thermoset.calibration import label_logits
from thermoset.conformal.scoring import label_ranks, label_scores
from thermoset.data import Logits
from thermoset.levels import Alpha
from thermoset.paper.theory.bound import critical_temperature
from thermoset.paper.theory.gaps import (
    checked_rank,
    distances,
    finite_logits,
    last_index,
    log_softmax,
    margins,
)
from thermoset.paper.theory.sizes import Peak, measured_peak, size_sweep
from thermoset.paper.theory.slopes import ClassCoverage, RankLimit, SizeSlopes, class_coverage, rank_limit, size_slopes
from thermoset.quoting import Brief
from thermoset.scores import APS
from thermoset.sweeping import Sweep
from thermoset.uniforms import Randomness

_TOP = 5  # probabilities the paper prints


@dataclass(frozen=True, eq=False, repr=False)
class QuantileSamples(Brief):
    """The quantile sample at each temperature; arrays of one entry a temperature.

    `tied` counts the rows with the same score, the sample among them: more than 1 where the threshold is the score of a
    last rank. `top_probs` (n_temperatures, 5) are its largest probabilities, at T = 1 whatever the temperature that
    picked it; NaN beyond C.
    """

    temperature: Floats
    threshold: Floats  # of deterministic APS
    row: Ints  # its number
    rank: Ints  # L^q of its label
    margin: Floats  # dz
    last_index: Ints  # s_T; 0 at T = 1
    tied: Ints
    top_probs: Floats


def quantile_samples(
    logits: Any, labels: Any = None, temperatures: ArrayLike = (1.0,), alpha: Alpha = 0.1
) -> QuantileSamples:
    """The row whose deterministic APS score is the threshold, at each temperature.

    Of rows with the same score it is the first.

    >>> import numpy as np
    >>> z = [[k, 0.0, 0.0] for k in range(1, 20)]  # the label is on top: the larger the margin, the larger the score
    >>> found = quantile_samples(z, [0] * 19, [0.5, 1.0, 2.0], alpha=0.1)
    >>> found.row, found.margin  # k = ceil(20 x 0.9) = 18
    (array([17, 17, 17]), array([18., 18., 18.]))
    """
    data = finite_logits(logits, labels)
    y = data.require_labels("quantile_samples")
    grid = [checked_temperature(t) for t in np.atleast_1d(np.asarray(temperatures)).tolist()]
    k = checked_rank(len(data), alpha)
    rows, tied, thresholds = [], [], []
    for t in grid:
        scores = _aps_scores(data, t)
        threshold = np.partition(scores, k - 1)[k - 1]
        same = np.flatnonzero(scores == threshold)
        rows.append(int(same[0]))
        tied.append(len(same))
        thresholds.append(threshold.real)
    picked = data.take(rows)
    ranked = -np.sort(-picked.logits.astype(np.float64), axis=1)
    top = np.full((len(rows), _TOP), np.nan)
    top[:, : data.n_classes] = np.exp(log_softmax(ranked, 1.0)[:, :_TOP])
    return QuantileSamples(
        temperature=np.array(grid),
        threshold=np.array(thresholds),
        row=np.array(rows),
        rank=label_ranks(picked, y[rows]),
        margin=margins(picked),
        last_index=np.concatenate([last_index(picked.take([i]), t) for i, t in enumerate(grid)]),
        tied=np.array(tied),
        top_probs=top,
    )


def score_order(logits: Any, labels: Any = None, temperature: float = 1.0) -> Ints:
    """Row numbers by rising deterministic APS score at a temperature; rows of equal score in their order.

    >>> score_order([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]], [0, 0, 0])
    array([0, 2, 1])
    """
    scores = _aps_scores(finite_logits(logits, labels), checked_temperature(temperature))
    return np.argsort(scores, kind="stable")


def _aps_scores(data: Logits, temperature: float) -> Pairs:
    labels = data.require_labels("the score of a row")
    (found,) = label_scores(data, labels, APS(), [temperature], Randomness())
    return np.asarray(found)


_SLOPES = 25  # temperatures at which derivatives are taken
_DEEPEST = 650.0  # (z_1 - z_y) / T whose exponential is still an ordinary number


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Brief):
    """The theory and the data side by side.

    `slopes` and `classes` say what moves the mean size of APS sets and the coverage of classes, at up to 25
    temperatures of the grid with all rows as the population, and not where probabilities of labels underflow.
    """

    n_classes: int
    critical: float  # temperature of the theory, from C alone: the minimum of the proof's bound b(T)
    peaks: Mapping[str, Peak]  # of mean set sizes: "aps" and "raps" (u drawn), "aps, u = 1"
    slopes: SizeSlopes
    classes: ClassCoverage
    limit: RankLimit  # where size and class coverage end as T grows
    curves: Sweep  # mean set sizes with u drawn, over random splits


def explain(
    logits: Any,
    labels: Any = None,
    *,
    alpha: Alpha = 0.1,
    temperatures: Iterable[float] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **protocol: Any,
) -> Explanation:
    """Compare the theory with labelled rows: what it says of sizes and classes, and what sets of random splits show.

    `temperatures` are those of the measured curves; `protocol` goes to `sweep` (trials, calibration_fraction,
    cp_fraction, random_state).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 20, size=2000)
    >>> logits = 3 * (rng.normal(size=(2000, 20)) + 3 * np.eye(20)[labels])
    >>> found = explain(logits, labels, temperatures=[0.5, 1, 2.5, 5, 8], trials=20)
    >>> round(found.critical, 2), found.peaks["aps"].temperature
    (1.64, 2.5)
    >>> found.slopes.peaks.round(1)  # where scores fall as fast as the threshold
    array([2.4])
    """
    data = finite_logits(logits, labels)
    own = label_logits(data, data.require_labels("explain"))
    tell = progress or (lambda _done, _total: None)
    asked = {"temperatures": None if temperatures is None else list(temperatures), "alphas": [alpha], **protocol}
    curves = size_sweep(data, methods=["aps", "raps"], progress=lambda i, n: tell(i, 2 * n), **asked)
    plain = size_sweep(data, methods=["aps"], randomized=False, progress=lambda i, n: tell(n + i, 2 * n), **asked)
    peaks = {method: measured_peak(curves, method) for method in curves.methods}
    able = curves.temperatures[curves.temperatures * _DEEPEST >= distances(own.own, own.top, 1.0).max()]
    grid = able[np.linspace(0, len(able) - 1, min(len(able), _SLOPES)).round().astype(int)].tolist()
    return Explanation(
        n_classes=data.n_classes,
        critical=critical_temperature(data.n_classes),
        peaks={**peaks, "aps, u = 1": measured_peak(plain)},
        slopes=size_slopes(data, temperatures=grid, alpha=alpha),
        classes=class_coverage(data, temperatures=grid, alpha=alpha),
        limit=rank_limit(data, alpha=alpha),
        curves=curves,
    )
