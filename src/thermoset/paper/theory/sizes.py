"""Set sizes as the paper's section 4 counts them, L = min{l : the score of rank l >= q}, for one row or ten thousand.

The score of rank l is the mass of the first l ranks (u = 1), or that of the first l - 1 and the part u of the l-th. So
L is one more than the number of labels with a score below q. Scores and thresholds are compared as the classifier
does, by pairs that still differ where the numbers round to 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Pairs, pairs
from thermoset.bounds import checked_seed, checked_temperature, real_number
from thermoset.conformal.scoring import predict_sizes
from thermoset.errors import InputError
from thermoset.kernels import SATURATED
from thermoset.paper.theory.sorted_rows import Floats, Ints, finite_logits
from thermoset.quoting import quoted
from thermoset.scores import APS
from thermoset.uniforms import Randomness, draw_uniforms

__all__ = ["Threshold", "as_threshold", "checked_u", "paper_sizes", "row_u"]


@dataclass(frozen=True)
class Threshold:
    """A threshold q of APS: the largest pair that is below it, and the logarithm of 1 - q."""

    value: float
    below: Pairs
    log_left: float


def as_threshold(q: Any, name: str = "q") -> Threshold:
    """Read a threshold: a number in (0, 1], or the pair a fitted classifier keeps in `thresholds_`."""
    if isinstance(q, np.ndarray) and q.shape == (1, 1) and np.iscomplexobj(q):
        value, tie = float(q[0, 0].real), float(q[0, 0].imag)
        if value == np.inf:
            raise InputError(f"{name} is infinite: too few rows for alpha. Add rows or raise alpha.")
    else:
        value = real_number(q, name, 5e-324, 1, "a threshold of APS, in (0, 1]", "Pass thresholds_ of a classifier.")
        with np.errstate(divide="ignore"):
            tie = -float(np.log1p(-value))
        if value < SATURATED:  # a number says nothing of tie-breaks: every score with this value reaches it
            return Threshold(value, pairs(value, -np.inf).reshape(1, 1, 1), -tie)
    below = pairs(1.0 if value >= SATURATED else value, np.nextafter(tie, -np.inf))
    return Threshold(value, below.reshape(1, 1, 1), -tie)


def paper_sizes(logits: Any, temperature: float, q: float | Pairs, *, u: ArrayLike = 1.0) -> Ints:
    """Size L of each row's APS set in the paper's sense: the first rank whose score reaches the threshold q.

    Without ties it is one more than the number of labels in the set {score <= q}. With u < 1 the last score is below
    1, and L is C + 1 where even that is below q. `q` is a number or `thresholds_` of a fitted classifier, which is
    exact where the number has been rounded.

    >>> import numpy as np
    >>> z = np.log([[0.5, 0.25, 0.125, 0.125]])  # scores 0.5, 0.75, 0.875, 1
    >>> [int(paper_sizes(z, 1.0, q)[0]) for q in (0.25, 0.5, 0.51, 0.8, 1.0)]
    [1, 1, 2, 3, 4]
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    threshold, given = as_threshold(q), checked_u(u, len(data))
    sizes: Ints = 1 + predict_sizes(data, APS(), t, Randomness(given=given), threshold.below, None)[0]
    return sizes


def row_u(logits: Any, random_state: int = 0) -> Floats:
    """Each row's u as `ConformalClassifier` draws it: a hash of the seed and the row's content.

    >>> u = row_u([[3.0, 1.0], [1.0, 3.0], [2.0, 0.5]])
    >>> bool(u[0] == u[1]), bool(u[0] == u[2])
    (True, False)
    """
    return draw_uniforms(finite_logits(logits), checked_seed(random_state))


def checked_u(u: ArrayLike, n_rows: int) -> Floats:
    """Read u: one number in [0, 1], or one for each row."""
    try:
        given = np.asarray(u, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"u must be one number in [0, 1], or one for each of {n_rows} rows; got {quoted(u)}."
        ) from None
    if given.shape not in ((), (n_rows,)) or not np.all((given >= 0) & (given <= 1)):
        raise InputError(f"u must be one number in [0, 1], or one for each of {n_rows} rows; got shape {given.shape}.")
    return np.broadcast_to(given, (n_rows,)).copy()
