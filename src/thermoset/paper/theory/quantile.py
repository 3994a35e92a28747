"""The quantile sample: the row whose score is the threshold (paper, section 4.2 and appendix B.6)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Pairs
from thermoset.bounds import checked_temperature
from thermoset.conformal.scoring import label_ranks, label_scores
from thermoset.data import Logits
from thermoset.levels import Alpha
from thermoset.paper.theory.gaps import last_index, margins
from thermoset.paper.theory.sorted_rows import Floats, Ints, checked_rank, finite_logits, log_softmax
from thermoset.quoting import Brief
from thermoset.scores import APS
from thermoset.uniforms import Randomness

__all__ = ["QuantileSamples", "quantile_samples", "score_order"]

_TOP = 5  # probabilities the paper prints


@dataclass(frozen=True, eq=False, repr=False)
class QuantileSamples(Brief):
    """The quantile sample at each temperature; arrays of one entry a temperature.

    Attributes
    ----------
    temperature, threshold
        T, and the deterministic APS threshold there.
    row, rank
        Row number of the sample, and the rank L^q of its label.
    margin
        Its dz.
    last_index
        Its s_T; 0 at T = 1.
    tied
        Rows with the same score, the sample among them: more than 1 where the threshold is the score of a last rank.
    top_probs : (n_temperatures, 5)
        Its largest probabilities, at T = 1 whatever the temperature that picked it. NaN beyond C.
    """

    temperature: Floats
    threshold: Floats
    row: Ints
    rank: Ints
    margin: Floats
    last_index: Ints
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
