"""Selective prediction: how wrong a model is on the rows it is most confident about.

`score` is any number per row, higher = more confident; `right` says whether the row's answer was right. Rows with equal
scores are answered together, since nothing tells them apart: no result depends on the order of rows.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Floats, Ints
from thermoset.bounds import exact_number
from thermoset.errors import InputError
from thermoset.metrics.counts import AnyArray, check_row_values
from thermoset.quoting import quoted


class RiskCoverage(NamedTuple):
    """The risk-coverage curve: one entry for each distinct score, from the most confident on.

    Attributes
    ----------
    rows : (m,)
        Rows that are answered: those with this score or a higher one.
    share : (m,)
        They as a share of all rows. The last entry is 1.
    error : (m,)
        Share of wrong answers among them. The last entry is the error of all rows.
    score : (m,)
        The scores, descending.
    """

    rows: Ints
    share: Floats
    error: Floats
    score: AnyArray


def risk_coverage_curve(score: ArrayLike, right: ArrayLike) -> RiskCoverage:
    """Share of rows answered, from the most confident on, and the error among them; see `RiskCoverage`.

    >>> curve = risk_coverage_curve([0.9, 0.6, 0.8, 0.6], right=[True, False, True, True])
    >>> curve.share.tolist(), curve.error.tolist(), curve.score.tolist()  # the two rows at 0.6 are answered together
    ([0.25, 0.5, 1.0], [0.0, 0.0, 0.25], [0.9, 0.8, 0.6])
    """
    level = check_row_values(score, "score", "fiu", "Pass a confidence, higher where an answer is surer.")
    correct = check_row_values(right, "right", "b", "Pass whether each answer was right.", len(level)).astype(bool)
    distinct, place, rows = np.unique(level, return_inverse=True, return_counts=True)
    wrong = np.bincount(place[~correct], minlength=len(distinct))
    answered = np.cumsum(rows[::-1])
    return RiskCoverage(answered, answered / len(level), np.cumsum(wrong[::-1]) / answered, distinct[::-1])


def area_under_risk_coverage(score: ArrayLike, right: ArrayLike) -> float:
    """AURC (Geifman, Uziel and El-Yaniv 2019): the mean over rows of the selective risk. Lower is better.

    The selective risk of a row is the error among all rows with its score or a higher one. Without ties this is the
    usual mean over k = 1 .. n of the error among the k most confident rows. If all scores are equal, it is the error of
    all rows.

    >>> area_under_risk_coverage([0.9, 0.8, 0.7, 0.6], right=[True, True, False, True])  # (0 + 0 + 1/3 + 1/4) / 4
    0.14583333333333331
    """
    curve = risk_coverage_curve(score, right)
    return float(curve.error @ np.diff(curve.rows, prepend=0) / curve.rows[-1])


def error_at_coverage(score: ArrayLike, right: ArrayLike, share: float | str) -> float:
    """Error among the most confident rows that are at least this share of all rows; `share` is in (0, 1].

    These are the ceil(share n) most confident rows, `share` read as the decimal that was typed, and all rows that tie
    with the last of them.

    >>> error_at_coverage([0.9, 0.8, 0.7, 0.6], right=[True, True, False, True], share=0.75)
    0.3333333333333333
    """
    curve = risk_coverage_curve(score, right)
    wanted = exact_number(share)
    if wanted is None or not 0 < wanted <= 1:
        raise InputError(f"share must be a number above 0 and at most 1; got {quoted(share)}. Try share=0.9.")
    fewest = math.ceil(wanted * int(curve.rows[-1]))
    return float(curve.error[np.searchsorted(curve.rows, fewest)])
