"""Temperature scaling: one number that brings confidence closer to accuracy (Guo et al. 2017; paper, section 2.1)."""

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from thermoset.arrays import Block, Bools, Floats, Ints, as_float64, as_int64
from thermoset.bounds import checked_temperature
from thermoset.data import Logits, as_logits
from thermoset.data.estimator import Estimator, fit_data, predict_data, remember_classes
from thermoset.data.guards import input_kind_of
from thermoset.errors import BoundWarning, InputError, ZeroProbabilityWarning
from thermoset.kernels import confidences, likelihoods, softmax
from thermoset.metrics import reliability_from_confidence
from thermoset.rows import Source, map_rows, row_array, top_labels

T_MIN = 0.01
T_MAX = 100.0
_WARM_START_ROWS = 2_000  # Newton begins on this many rows: full passes then start next to the answer
_MAX_STEPS = 100
_LAST_STEP = 1e-8  # Newton converges quadratically: after a relative step this small the error is below rounding
_GRID = 49  # temperatures of the first ECE scan, even in log T
_BRACKETS = 3  # how many of its best temperatures are looked at closely
_NODES = 9  # temperatures between two of the first scan that a polynomial goes through
_FURTHEST = 1e100  # of a label below the top: the square of its loss is summed over rows
_FINEST = 1 + 1e-5  # ratio of temperatures at which the scans end: far below the sampling error of any ECE


class LabelLogits(NamedTuple):
    """Of each row: the logit of its label, the largest one, and whether a finite logit is below that. Arrays (n,)."""

    own: Floats
    top: Floats
    uneven: Bools


def label_logits(source: Source, labels: Ints) -> LabelLogits:
    """Where the label of each row stands."""
    n = source.n_rows
    result = LabelLogits(np.empty(n), np.empty(n), np.empty(n, dtype=np.bool_))
    map_rows(source, _label_logits_of_block, result, per_row=[labels])
    return result


def _label_logits_of_block(block: Block, labels: Ints) -> LabelLogits:
    top, own = block.max(axis=1), block[np.arange(len(block)), labels]
    uneven = (np.isfinite(block) & (block < top[:, None])).any(axis=1)
    return LabelLogits(own.astype(np.float64), top.astype(np.float64), uneven)


@dataclass(frozen=True)
class Fit:
    """A fitted temperature, the objective there, and the evaluations it took."""

    temperature: float
    loss: float
    n_iter: int

    @property
    def at_bound(self) -> bool:
        """Whether the search stopped at T_MIN or T_MAX."""
        return self.temperature in (T_MIN, T_MAX)


class _Moments(NamedTuple):
    """Mean NLL at one inverse temperature with its first two derivatives, and the size of the slope's terms."""

    loss: float
    slope: float
    curvature: float
    scale: float


def _moments(data: Logits, labels: Ints, inverse: float) -> _Moments:
    each: Floats = row_array((3, len(data)))
    map_rows(data, _likelihoods_of_block, each, per_row=[as_int64(labels)], fixed=[inverse])
    loss, slope, curvature = map(float, each.mean(axis=1))
    return _Moments(loss, slope, curvature, float(np.abs(each[1]).mean()))


def _likelihoods_of_block(block: Block, labels: Ints, inverse: float) -> Floats:
    out = np.empty((3, len(block)))
    likelihoods(as_float64(block), as_int64(labels), inverse, out)
    return out


def _newton(data: Logits, labels: Ints, start: float) -> tuple[float, float, int]:
    """Minimise the mean NLL, convex in 1/T, over [1/T_MAX, 1/T_MIN] from `start`; return 1/T, loss and steps.

    Newton on the slope, safeguarded: where it is slow (the slope dies out exponentially when rows are nearly
    separable) the step doubles until the root is bracketed, and from then on a step that is slow or leaves the
    bracket is replaced by the bracket's geometric middle. It ends at the root, or at a bound that the slope still
    points beyond.
    """
    lowest, highest = 1.0 / T_MAX, 1.0 / T_MIN
    low, high = 0.0, math.inf  # where the slope was seen below and above zero
    inverse, stretch, last_slope = start, 1.0, math.inf
    for steps in range(1, _MAX_STEPS + 1):  # noqa: B007 (returned)
        at = _moments(data, labels, inverse)
        if at.slope > 0:
            high = inverse
        else:
            low = inverse
        if abs(at.slope) <= np.finfo(float).eps * at.scale or low >= highest or high <= lowest:
            break
        newton = -at.slope / at.curvature if at.curvature > 0 else -at.slope * math.inf
        if abs(newton) <= _LAST_STEP * inverse:  # before the safeguards: at this point the slope may be rounding noise
            inverse += newton
            break
        slow = abs(at.slope) > abs(last_slope) / 4
        bracketed = low > 0 and high < math.inf
        stretch = 2 * stretch if slow else 1.0
        proposal = min(max(inverse + stretch * newton, lowest), highest)
        if not low < proposal < high or (slow and bracketed):
            proposal = math.sqrt(max(low, lowest) * min(high, highest))
        inverse, last_slope = proposal, at.slope
    return inverse, at.loss, steps


def fit_nll(data: Logits) -> Fit:
    """Minimise the mean negative log-likelihood to machine precision.

    Rows whose label has probability zero (a logit of -inf) are left out: their loss is infinite at every temperature,
    and with any floor for the probability it would be the same at every temperature, which moves no minimum.
    """
    labels = data.require_labels("temperature scaling")
    seen = label_logits(data, labels)
    zero = np.isneginf(seen.own)
    if zero.all():
        return Fit(1.0, math.inf, 0)  # no temperature is better than another
    if zero.any():
        kept = np.flatnonzero(~zero)
        data, labels = data.take(kept), labels[kept]
        seen = LabelLogits(seen.own[kept], seen.top[kept], seen.uneven[kept])
    # Where all labels are on top, sharper is better without end, unless no logits differ and every T is as good.
    if not np.any(seen.own < seen.top) and np.any(seen.uneven):
        return Fit(T_MIN, _moments(data, labels, 1.0 / T_MIN).loss, 1)
    start, warm_steps = 1.0, 0
    if len(data) > 4 * _WARM_START_ROWS:
        rows = np.linspace(0, len(data) - 1, _WARM_START_ROWS).astype(np.int64)
        start, _, warm_steps = _newton(data.take(rows), labels[rows], start)
    inverse, loss, steps = _newton(data, labels, start)
    bounds = {1.0 / T_MIN: T_MIN, 1.0 / T_MAX: T_MAX}
    return Fit(bounds.get(inverse, 1.0 / inverse), loss, warm_steps + steps)


def fit_ece(data: Logits, n_bins: int = 15) -> Fit:
    """Minimise the expected calibration error, which is piecewise and not convex in T.

    A scan of [0.01, 100] even in log T, then ever finer scans around the best few temperatures of the first, to
    a ratio of 1 + 1e-5. Deterministic; among equal errors the temperature nearest 1 in ratio wins. Fine scans read
    confidences off a polynomial through a few temperatures; the minima are evaluated in full.
    """
    labels = data.require_labels("temperature scaling")
    correct = top_labels(data) == labels
    grid = np.geomspace(T_MIN, T_MAX, _GRID)
    grid[0], grid[-1] = T_MIN, T_MAX
    n_iter, between = _GRID, {}

    def error_of(confidence: Floats) -> float:
        return float(reliability_from_confidence(confidence, correct, n_bins).ece)

    def estimate(t: float) -> float:
        """The error at a temperature of a fine scan."""
        nonlocal n_iter
        place = min(int(np.searchsorted(grid, t, side="right")), _GRID - 1) - 1
        if place not in between:
            between[place] = _LogOdds.between(data, grid[place], grid[place + 1])
            n_iter += _NODES
        return error_of(between[place].confidence(t))

    def evaluate(temperatures: Floats) -> dict[float, float]:
        levels = confidences_at(data, temperatures)
        return {float(t): error_of(level) for t, level in zip(temperatures, levels, strict=True)}

    def rank(t: float) -> tuple[float, float]:
        return seen[t], abs(math.log(t))

    exact = evaluate(grid)
    seen, minima, ratio = dict(exact), [], (T_MAX / T_MIN) ** (1 / (_GRID - 1))
    for centre in sorted(seen, key=rank)[:_BRACKETS]:
        best, width = centre, ratio
        while width > _FINEST:
            low, high = max(best / width, T_MIN), min(best * width, T_MAX)
            scan = [low, *map(float, np.geomspace(low, high, 9)[1:-1]), high]
            seen |= {t: estimate(t) for t in scan if t not in seen}
            best, width = min(scan, key=rank), width ** (1 / 4)
        minima.append(best)
    seen = exact | evaluate(np.array(minima))
    temperature = min(seen, key=rank)
    return Fit(temperature, seen[temperature], n_iter + _BRACKETS)


@dataclass(frozen=True, eq=False)
class _LogOdds:
    """Log-odds against each row's top class at the Chebyshev nodes of an interval of log T, (nodes, n).

    They are smooth: between two temperatures of the first scan the polynomial is right to 1e-8 and mostly far better.
    The nearest place where log sum e**(z / T) is not analytic belongs to rows of many classes and a confidence near
    1/2.
    """

    nodes: Floats
    odds: Floats

    @classmethod
    def between(cls, data: Logits, low: float, high: float) -> "_LogOdds":
        """Evaluate them."""
        cosines = np.cos((np.arange(_NODES) + 0.5) * np.pi / _NODES)
        nodes = (math.log(low) + math.log(high)) / 2 + (math.log(high) - math.log(low)) / 2 * cosines
        odds = confidences_at(data, np.exp(nodes))  # modified in place below: it may be in a file
        np.subtract(np.divide(1.0, odds, out=odds), 1.0, out=odds)
        return cls(nodes, np.log(np.maximum(odds, np.finfo(float).tiny, out=odds), out=odds))

    def confidence(self, temperature: float) -> Floats:
        """The confidence of each row at a temperature in the interval."""
        apart = math.log(temperature) - self.nodes
        weights = (-1.0) ** np.arange(_NODES) * np.sin((np.arange(_NODES) + 0.5) * np.pi / _NODES)
        if not np.all(apart):
            return np.asarray(1.0 / (1.0 + np.exp(self.odds[np.argmin(np.abs(apart))])))
        weights = weights / apart
        log_odds = np.zeros(self.odds.shape[1])
        for weight, odds in zip(weights / weights.sum(), self.odds, strict=True):  # in one order, whatever BLAS does
            log_odds += weight * odds
        return np.asarray(1.0 / (1.0 + np.exp(log_odds)))


def confidences_at(data: Logits, temperatures: Floats) -> Floats:
    """Probability of each row's top class at each of several temperatures, (n_temperatures, n)."""
    out: Floats = row_array((len(temperatures), len(data)))
    map_rows(data, block_confidences, out, fixed=[temperatures])
    return out


def block_confidences(block: Block, temperatures: Floats) -> Floats:
    """The same of a block of rows."""
    out = np.empty((len(temperatures), len(block)))
    confidences(as_float64(block), temperatures, np.empty(block.shape[1]), out)
    return out


def probabilities(logits: Any, temperature: float = 1.0) -> Floats:
    """Softmax of logits at a temperature, (n, C).

    >>> probabilities([[0.0, 0.0]]).tolist()
    [[0.5, 0.5]]
    """
    data = as_logits(logits)
    probs = np.empty((len(data), data.n_classes))
    map_rows(data, block_probabilities, probs, fixed=[checked_temperature(temperature)], axis=-2)
    return probs


def block_probabilities(block: Block, temperature: float) -> Floats:
    """Softmax of a block of rows at a temperature, (n, C)."""
    probs = np.empty(block.shape)
    softmax(as_float64(block), temperature, probs)
    return probs


def confidence_at(logits: Any, temperature: float = 1.0) -> Floats:
    """Probability of each row's top class at a temperature, (n,), without computing the others."""
    data = as_logits(logits)
    top: Floats = confidences_at(data, np.array([checked_temperature(temperature)]))[0]
    return top


class TemperatureScaler(Estimator):
    """Calibrated probabilities: softmax(logits / T*) with T* fitted on held-out rows.

    Parameters
    ----------
    objective : "nll" or "ece"
        What T* minimises: the negative log-likelihood (convex, to machine precision) or the expected calibration
        error of the predicted label (a global search).
    n_bins : int
        Equal-width bins of the ECE objective.

    Attributes
    ----------
    temperature_ : float
        T*, within [0.01, 100].
    loss_ : float
        The objective at T*.
    at_bound_ : bool
        Whether the search ended at a bound, as for NLL when every row is correct (or none is better than chance).
    n_iter_ : int
        Number of evaluations of the objective.
    zero_labels_ : int
        Number of rows whose label has probability zero (a logit of -inf). Their NLL is infinite at every temperature,
        so NLL leaves them out; ECE counts them as wrong.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, size=400)
    >>> honest = rng.normal(size=(400, 3)) + 2 * np.eye(3)[labels]
    >>> scaler = ts.TemperatureScaler().fit(3 * 2 * honest, labels)  # overconfident by a factor of about 3
    >>> bool(2.5 < scaler.temperature_ < 3.5)
    True
    >>> scaler.predict_proba(6 * honest).sum(axis=1).round(12).tolist()[:2]
    [1.0, 1.0]
    """

    def __init__(self, objective: Literal["nll", "ece"] = "nll", n_bins: int = 15) -> None:
        self.objective = objective
        self.n_bins = n_bins

    def fit(self, logits: Any, labels: Any = None) -> "TemperatureScaler":
        """Find T* on labelled rows."""
        data = fit_data(self, logits, labels)
        self.learn(data)
        self.warn_at_bound()
        warn_of_zero_labels(self.zero_labels_, len(data))
        return self

    def learn(self, data: Logits) -> "TemperatureScaler":
        """Find T* without a warning, for those who have more to say about the rows."""
        self.zero_labels_ = _checked_zero_labels(data)
        if self.objective == "nll":
            fit = fit_nll(data)
        elif self.objective == "ece":
            fit = fit_ece(data, self.n_bins)
        else:
            raise InputError(f"objective must be 'nll' or 'ece'; got {self.objective!r}.")
        self.temperature_, self.loss_ = fit.temperature, fit.loss
        self.n_iter_, self.at_bound_ = fit.n_iter, fit.at_bound
        remember_classes(self, data.n_classes, data.classes, input_kind_of(data))
        return self

    def warn_at_bound(self) -> None:
        """Say so where the search ended at a bound."""
        if self.at_bound_:
            right = "every row is classified correctly, so a sharper softmax is always better"
            why = right if self.temperature_ == T_MIN else "the logits predict the labels no better than chance"
            message = f"the temperature stopped at its bound {self.temperature_}: {why}. Fit on more, held-out rows."
            warnings.warn(message, BoundWarning, stacklevel=3)

    def predict_proba(self, logits: Any) -> Floats:
        """Calibrated probabilities, (n, C)."""
        return probabilities(predict_data(self, logits), self.temperature_)


def zero_labels(data: Logits) -> int:
    """How many rows have a label of probability zero."""
    seen = label_logits(data, data.require_labels("labels of probability zero"))
    return int(np.count_nonzero(np.isneginf(seen.own)))


def _checked_zero_labels(data: Logits) -> int:
    """The same for rows to be fitted on: labels whose loss, or its square, is no number are refused."""
    own, top, _ = label_logits(data, data.require_labels("temperature scaling"))
    zero = np.isneginf(own)
    # halves: the whole may be beyond the largest number
    far = np.flatnonzero((top / 2 - own / 2 > _FURTHEST / 2) & ~zero)
    if far.size:
        row = far[0]
        raise InputError(
            f"has its label at {own[row]:g} and its top at {top[row]:g}, more than {_FURTHEST:g} apart; "
            f"{far.size} such row(s). No temperature up to {T_MAX:g} helps: divide all logits by a large number.",
            row=int(row),
            name="logits",
        )
    return int(np.count_nonzero(zero))


def warn_of_zero_labels(n_zero: int, n_rows: int) -> None:
    """Say how many labels have probability zero, if some have."""
    if n_zero:
        warnings.warn(
            f"the labels of {n_zero:,} of {n_rows:,} rows have probability zero (a logit of -inf), and no temperature "
            "changes that. They count as misses, so that coverage is what is promised; T* by NLL leaves them out.",
            ZeroProbabilityWarning,
            stacklevel=4,
        )
