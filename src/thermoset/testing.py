"""A check that a custom score keeps its contract; run it in a notebook or in your tests."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.conformal import ConformalClassifier
from thermoset.conformal.scoring import label_scores, score_matrix
from thermoset.data import Logits
from thermoset.errors import CoverageWarning, InputError
from thermoset.metrics import coverage_law
from thermoset.rows import sorted_order
from thermoset.scores import Score, ScoreLike, resolve
from thermoset.uniforms import Randomness, stream

_SIGMAS = 5
_SPLITS, _CONFORMAL, _EVALUATION, _ALPHA = 100, 100, 300, 0.1
_CLASSES = 10
_ALONE = 5  # rows that are scored by themselves as well


@dataclass(frozen=True)
class ScoreReport:
    """What `check_score` reports on a score that passed.

    Attributes
    ----------
    name : str
        Of the score.
    compiled : bool
        Whether it takes the fast path.
    monotone : bool
        Whether it never falls as the rank grows, so sets contain the top labels of a row. A score need not be monotone.
    distinct : bool
        Whether no two rows have equal scores. Coverage is then exactly as promised; ties can only raise it. Where
        values saturate, return a pair (value, tie-break) to keep them apart.
    coverage : float
        Share of hits over all splits; 1 - alpha is 0.9.
    """

    name: str
    compiled: bool
    monotone: bool
    distinct: bool
    coverage: float


def check_score(
    method: ScoreLike, *, temperatures: Sequence[float] = (0.3, 1.0, 5.0), random_state: int = 0
) -> ScoreReport:
    """Try a score on generated rows at several temperatures; the first problem raises an `InputError`.

    A score must return one finite number (or a pair) for each row and rank, even for tied and masked classes and for u
    of 0 and 1; depend only on its own row and u; depend on u only if it declares so; and give exact coverage: over 100
    random splits, hits stay within 5 standard deviations of the promise.

    >>> import numpy as np
    >>> def mine(probs, rank, u):
    ...     return np.sqrt(rank) + u - probs
    >>> report = check_score(mine)
    >>> report.monotone, report.distinct, abs(report.coverage - 0.9) < 0.02
    (True, True, True)
    >>> check_score(lambda probs, rank, u: probs.sum(axis=1))
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: score '<lambda>' must return one number for each row and rank, the shape (64, 10) \
of probs; got (64,).
    """
    score = resolve(method)
    monotone, distinct, hits = True, True, 0
    for temperature in temperatures:
        for logits in _odd_rows(random_state):
            for u in (0.0, 2.0**-53, 0.5, 1.0):
                monotone &= _check_values(score, logits, temperature, np.full(len(logits), u))
        logits, labels = _generate_rows(random_state)
        _check_use_of_u(score, logits, temperature)
        (own,) = label_scores(Logits.from_checked(logits), labels, score, [temperature], Randomness(random_state))
        apart = len(np.unique(own)) == len(labels)
        hits += _check_law(score, logits, labels, temperature, apart)
        distinct &= apart
    shown = _SPLITS * _EVALUATION * len(temperatures)
    return ScoreReport(score.name, score.compiled, bool(monotone), distinct, hits / shown)


def _odd_rows(random_state: int) -> Iterator[Floats]:
    """Rows without ties, with many, all alike, with masked classes, and of two classes."""
    rng = stream(random_state, "rows")
    plain = 3 * rng.normal(size=(64, _CLASSES))
    yield plain
    yield np.round(plain)
    yield np.zeros((2, _CLASSES))
    masked = np.where(rng.random(plain.shape) < 0.3, -np.inf, plain)
    masked[:, 0] = plain[:, 0]
    masked[0, 1:] = -np.inf
    yield masked
    yield plain[:, :2]


def _generate_rows(random_state: int) -> tuple[Floats, Ints]:
    """Logits of an overconfident classifier, without ties."""
    rng = stream(random_state, "splits")
    labels = rng.integers(0, _CLASSES, 2 * (_CONFORMAL + _EVALUATION))
    return 5 * (rng.normal(size=(len(labels), _CLASSES)) + 2.5 * np.eye(_CLASSES)[labels]), labels


def _check_values(score: Score, logits: Floats, temperature: float, u: Floats) -> bool:
    """Refuse scores that depend on other rows; return whether they never fall with the rank."""
    whole = score_matrix(Logits.from_checked(logits), score, temperature, Randomness(given=u))
    few = logits[:_ALONE]
    alone = [
        score_matrix(Logits.from_checked(row[None]), score, temperature, Randomness(given=u[:1])).real for row in few
    ]
    # Sums over rows of other lengths may round otherwise; a mean over rows is far outside.
    if not np.allclose(whole.real[:_ALONE], np.concatenate(alone), rtol=1e-9, atol=1e-12):
        raise InputError(
            f"score {score.name!r} of a row changes with the other rows; it must depend only on its own row."
        )
    by_rank = np.take_along_axis(whole, sorted_order(logits)[1], axis=1)
    return bool(np.all(by_rank[:, 1:] >= by_rank[:, :-1]))


def _check_use_of_u(score: Score, logits: Floats, temperature: float) -> None:
    low, high = (
        score_matrix(Logits.from_checked(logits), score, temperature, Randomness(given=np.full(len(logits), u)))
        for u in (0.25, 0.75)
    )
    if not score.uses_u and not np.array_equal(low, high):
        raise InputError(f"score {score.name!r} declares that it does not use u, but changes with it. Set uses_u=True.")


def _check_law(score: Score, logits: Floats, labels: Ints, temperature: float, distinct: bool) -> int:
    """Hits over random splits, which follow Beta-Binomial(m; k, n + 1 - k) where scores are distinct."""
    rng = stream(0, "coverage")
    model = ConformalClassifier(score, _ALPHA, temperature)
    hits = 0
    for _ in range(_SPLITS):
        rows = rng.permutation(len(labels))
        conformal, fresh = rows[:_CONFORMAL], rows[_CONFORMAL : _CONFORMAL + _EVALUATION]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)  # of classes that so few rows do not have
            model.fit(logits[conformal], labels[conformal])
        sets = model.predict_set(logits[fresh])
        hits += int(np.count_nonzero(sets[np.arange(len(fresh)), labels[fresh]]))
    behind = int(model.calibration_.pool_sizes()[0])  # fewer where a part of the rows completes the score
    law = coverage_law(behind, _EVALUATION, _ALPHA)
    z = (hits - _SPLITS * law.mean()) / math.sqrt(_SPLITS * law.var())
    if z < -_SIGMAS or (distinct and z > _SIGMAS):
        raise InputError(
            f"score {score.name!r} at T = {temperature:g} covers {hits / (_SPLITS * _EVALUATION):.3f} where "
            f"{law.mean() / _EVALUATION:.3f} was "
            f"promised, {abs(z):.0f} standard deviations off. It must always give the same value for the same row."
        )
    return hits
