"""What is promised for the sets, in a sentence."""

from fractions import Fraction

from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.predictor import TwoTemperaturePredictor

__all__ = ["cross_bound", "cross_promise", "split_promise"]


def split_promise(predictor: TwoTemperaturePredictor) -> str:
    """The promise of sets whose threshold comes from rows that the model was not fitted on."""
    made, promise = predictor.document_, predictor._promise
    level = f"{promise.promised:.6g}"
    grouping = made.grouping
    if grouping is not None and not grouping.exact:
        return (
            "For new rows like those of fit, a set contains the true label with probability at least "
            f"{max(2 * promise.promised - 1, 0):.6g}, and in practice about {level}: thresholds are interpolated."
        )
    if grouping is not None:
        return (
            f"For new rows of each {grouping.unit} like those of fit, a set contains the true label with probability "
            f"at least {level}."
        )
    n, where = made.provenance.conformal_rows, "For new rows like those of fit, a set contains the true label"
    if not promise.exact:
        return f"{where} with probability at least {level}."
    k = conformal_rank(n, made.alpha)
    return (
        f"{where} with probability {k / (n + 1):.6g} = {k}/{n + 1}, from {n} rows that set the threshold: "
        "exactly if no two scores are equal, and at least that if some are."
    )


def cross_bound(n_rows: int, n_folds: int, alpha: Alpha) -> float:
    """The coverage that CV+ promises for n rows in K equal folds.

    1 - 2 alpha - min{ 2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1) } (Barber et al. 2021, theorem 4; Romano, Sesia and
    Candès 2020 for classification), and never below 0.

    >>> cross_bound(100, 100, 0.1)  # leave one out: 1 - 2 alpha
    0.8
    >>> round(cross_bound(1000, 5, 0.1), 6)  # 0.8 - min(1.6 / 201, 0.995 / 6)
    0.79204
    """
    n, folds = Fraction(n_rows), Fraction(n_folds)
    slack = min(2 * (1 - 1 / folds) / (n / folds + 1), (1 - folds / n) / (folds + 1))
    return max(0.0, float(1 - 2 * exact_level(alpha) - slack))


def cross_promise(n_rows: int, n_folds: int, alpha: Alpha) -> str:
    """The promise of cross-conformal sets."""
    bound, level = cross_bound(n_rows, n_folds, alpha), float(1 - exact_level(alpha))
    return (
        f"For new rows like those of fit, a set contains the true label with probability at least {bound:.4g}, and in "
        f"practice about {level:.6g}: cross-conformal sets (CV+) from {n_rows} rows in {n_folds} random folds of equal "
        "size. The theorem takes the two temperatures as given; here they were chosen from the same rows, which it "
        "does not cover."
    )
