"""Choosing T-hat from the same rows that set the threshold, with coverage still guaranteed: `selection="full"`.

With halves, the temperature is chosen on rows that the threshold does not see. Here all rows do both, after the idea of
Liang, Zhu and Barber (2024): a rule that treats rows alike, applied to the n labelled rows *and* the row to be
predicted, chooses a temperature at which all n + 1 scores are exchangeable. The last row and its label are not known,
but the n rows bound what any row of a class could make of the criterion. Every temperature of a fixed menu that could
win for an added row of class y may speak for label y, and one of them is the temperature that the rule would choose:

    y is in the set  if  s_T(x, y) <= q_T  for some T that could win with a row of class y,

with q_T the usual order statistic of all n scores. Sets that hold more than one temperature asks for cover at least
1 - alpha. The proof is in the guide ("All rows for both").

The bounds. The criterion's threshold of a level is the least with sum of h >= t over the n + 1 rows, with h the
probability over u that a row's label is in its set. The added row has h in [0, 1], so the threshold lies between those
for sums of t - 1 and of t over the n rows. That stretch is cut into a few. Hits and sizes only grow with the threshold,
so on each of them every class sum lies between those at its ends, the added row has h >= t - (sum of h at the upper
end), and squared gaps and mean sizes have bounds. No score needs to be continuous for that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.recipes import Recipe
from thermoset.core.exponentials import Floats
from thermoset.core.integrated import expected_hits, expected_sizes, solve_thresholds
from thermoset.core.label_shares import SharesByTemperature, label_shares
from thermoset.core.levels import exact_level, rows_needed
from thermoset.core.pool import run_all
from thermoset.core.sources import RankedRows
from thermoset.core.thresholds import Cuts
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.tuning.aims import Even, Small
from thermoset.tuning.choice import Choice, Setting
from thermoset.tuning.closed_form import levels_around
from thermoset.tuning.comparing import Compared, report
from thermoset.tuning.parts import tell_missing
from thermoset.tuning.points import Sample
from thermoset.tuning.preferences import AnyPreference
from thermoset.tuning.search import Found, Progress, Search, Steps

__all__ = ["Winners", "choose_full", "largest_counted", "temperature_menu", "winners"]

_STEP = 1.25  # from one temperature of the menu to the next: finer menus let more of them win, coarser ones miss
_POWERS = range(-5, 10)
_CUTS = 4  # stretches that the way of a threshold is cut into; twice as many gain a tenth of what four do
_SLACK = 1e-9  # of the criterion: rounding of sums over rows, in whichever order
_INSTEAD = "Use selection='calibration'."
_SHARE_BYTES = 2**29  # temperatures are taken in turns whose shares need no more than this


def temperature_menu() -> Floats:
    """The temperatures to choose from: powers of 1.25 from 0.33 to 7.45, the same for all data.

    >>> [round(float(t), 2) for t in temperature_menu()]
    [0.33, 0.41, 0.51, 0.64, 0.8, 1.0, 1.25, 1.56, 1.95, 2.44, 3.05, 3.81, 4.77, 5.96, 7.45]
    """
    return np.array([_STEP**power for power in _POWERS])


def largest_counted(n_classes: int) -> float:
    """The size beyond which a set counts no more for "size": one row must not decide. It is the root of C, at least 2.

    >>> largest_counted(100), largest_counted(3)
    (10.0, 2.0)
    """
    return max(float(np.sqrt(n_classes)), 2.0)


@dataclass(frozen=True, eq=False)
class Winners:
    """Which temperatures of a menu could be chosen, given one more row.

    may_win : (temperatures, classes), by the class of that row.
    best : the place of T-hat, the temperature that may speak for the most of the rows.
    """

    temperatures: Floats
    may_win: NDArray[np.bool_]
    best: int

    @property
    def members(self) -> list[tuple[float, tuple[int, ...] | None]]:
        """Each temperature that could win, and the classes it may speak for (None: all)."""
        return [
            (float(t), None if some.all() else tuple(np.flatnonzero(some).tolist()))
            for t, some in zip(self.temperatures, self.may_win, strict=True)
            if some.any()
        ]


def choose_full(
    data: Logits,
    recipe: Recipe,
    preference: AnyPreference,
    *,
    calibrated: float,
    progress: Progress | None = None,
) -> tuple[Choice, Winners]:
    """T-hat from all rows, with what is said of it, and every temperature that could have been chosen.

    `calibrated` is T*, to compare with. The choice describes sets at T-hat alone.
    """
    _check(data, recipe, preference, calibrated)
    temperatures = temperature_menu()
    rows = RankedRows(data)
    search = Search(data, rows, recipe, len(data), "full", None, Steps(progress))
    search.steps.expect(2 * len(temperatures) + 3)
    found = winners(rows, data, recipe, preference, search.steps.take)
    curves = search.closed_form(temperatures)[0]
    halves = np.empty(0)
    if isinstance(preference, Even):
        halves = temperatures[np.argmin(curves.loss_of_halves, axis=0)]
    chosen = Found(recipe, float(temperatures[found.best]), curves, of_halves=halves)
    kind = Setting.of(recipe, 1.0).kind
    compared = Compared(recipe.alpha, calibrated, Sample(data, calibrated, rows), [], (kind,))
    choice = report(search, preference, chosen, compared)
    search.steps.finish()
    if isinstance(preference, Even):
        tell_missing(data, "class")
    return choice, found


def winners(
    rows: RankedRows,
    data: Logits,
    recipe: Recipe,
    preference: AnyPreference,
    tick: Callable[[int], None] = lambda _: None,
) -> Winners:
    """Every temperature of the menu that could have the least criterion once a row is added, by the row's class.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, size=2000)
    >>> data = Logits(3 * (rng.normal(size=(2000, 3)) + 2 * np.eye(3)[labels]), labels)
    >>> found = winners(RankedRows(data), data, Recipe("lac"), Small())
    >>> found.may_win.shape, bool(found.may_win[found.best].any())
    ((15, 3), True)
    """
    temperatures, parts = temperature_menu(), []
    bounds = _class_losses if isinstance(preference, Even) else _mean_sizes
    turn = max(1, _SHARE_BYTES // (SharesByTemperature.BYTES * len(data)))
    for start in range(0, len(temperatures), turn):
        some = temperatures[start : start + turn]
        parts.append(bounds(rows, data, recipe, some))
        tick(len(some))
    lower, upper = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    least = upper.min(axis=0)
    may_win = lower <= least + _SLACK * (1 + least)
    counts = np.bincount(data.require_labels("tuning"), minlength=data.n_classes)
    served = (may_win * counts).sum(axis=1)
    order = np.lexsort([(upper * counts).sum(axis=1), -served])
    return Winners(temperatures, may_win, int(order[0]))


Ends = tuple[Floats, Floats]
"""Lower and upper bounds of a criterion, (temperatures, classes of the added row)."""


def _class_losses(rows: RankedRows, data: Logits, recipe: Recipe, temperatures: Floats) -> Ends:
    """Bounds of the class loss J of `closed_form`, for n + 1 rows."""
    labels, n_classes = data.require_labels("tuning"), data.n_classes
    levels = np.array(levels_around(exact_level(recipe.alpha)))
    shares = label_shares(rows, labels, temperatures)
    counts = np.bincount(labels, minlength=n_classes).astype(np.float64)
    lower, upper = np.empty((2, len(temperatures), n_classes))

    def work(j: int) -> None:
        cuts, hits = _bracketing(recipe, shares, j, levels), np.empty(((_CUTS + 1) * len(levels), len(data)))
        expected_hits(recipe.law, shares.at(j), cuts, hits)
        sums = np.array([np.bincount(labels, hit, minlength=n_classes) for hit in hits])
        lower[j], upper[j] = _loss_ends(sums.reshape(_CUTS + 1, len(levels), n_classes), counts, levels)

    run_all([partial(work, j) for j in range(len(temperatures))])
    return lower, upper


def _loss_ends(sums: Floats, counts: Floats, levels: Floats) -> Ends:
    """Bounds of J by the class of the added row, from the sums of hits of the n rows, (cuts + 1, levels, classes)."""
    low, high = sums[:-1], sums[1:]
    seen, rows = counts > 0, np.maximum(counts, 1)
    targets = (1 - levels) * (counts.sum() + 2)
    least_hit = np.clip(targets - high.sum(axis=2), 0.0, 1.0)[:, :, None]
    others = _squared_gaps(low / rows, high / rows, levels)
    own = _squared_gaps((low + least_hit) / (counts + 1), (high + 1) / (counts + 1), levels)
    weights = 1 / (levels * (1 - levels))
    ends = []
    for other, added, extreme in zip(others, own, (np.min, np.max), strict=True):
        present = np.where(seen, other, 0.0)  # a class that no row has counts only once a row is added
        total = extreme(present.sum(axis=2, keepdims=True) - present + added, axis=0)
        ends.append((weights[:, None] * total).sum(axis=0) / (np.count_nonzero(seen) + ~seen))
    return ends[0], ends[1]


def _squared_gaps(low: Floats, high: Floats, levels: Floats) -> Ends:
    """Bounds of (m - (1 - a))^2 for m from low to high, (cuts, levels, classes)."""
    below, above = low - (1 - levels)[:, None], high - (1 - levels)[:, None]
    ends = below**2, above**2
    return np.where((below <= 0) & (above >= 0), 0.0, np.minimum(*ends)), np.maximum(*ends)


def _mean_sizes(rows: RankedRows, data: Logits, recipe: Recipe, temperatures: Floats) -> Ends:
    """Bounds of the mean size at alpha of n + 1 rows, a set counting for no more than `largest_counted`."""
    labels, most = data.require_labels("tuning"), largest_counted(data.n_classes)
    levels = np.array([float(exact_level(recipe.alpha))])
    shares = label_shares(rows, labels, temperatures)
    cuts = Cuts(*np.empty((2, len(temperatures), 2)))  # sizes gain nothing from stretches in between

    def work(j: int) -> None:
        cuts.value[j], cuts.refine[j] = (part[[0, -1]] for part in _bracketing(recipe, shares, j, levels))

    run_all([partial(work, j) for j in range(len(temperatures))])
    sizes = expected_sizes(rows, shares, temperatures, recipe.law, cuts)
    np.minimum(sizes, most, out=sizes)
    low, high = (sizes.sum(axis=2) + np.array([0.0, most])).T / (len(data) + 1)
    shape = len(temperatures), data.n_classes  # the label of the added row does not matter
    return np.broadcast_to(low[:, None], shape), np.broadcast_to(high[:, None], shape)


def _bracketing(recipe: Recipe, shares: SharesByTemperature, j: int, levels: Floats) -> Cuts:
    """Ends of the stretches that thresholds of n + 1 rows lie on, at temperature j: those of all levels, end by end."""
    labels = shares.at(j)
    targets = (1 - levels) * (len(labels.rank) + 2)  # (1 - a)(rows + 1), as in `closed_form`, for n + 1 rows
    cuts = Cuts(*np.empty((2, (_CUTS + 1) * len(levels))))
    less = np.arange(_CUTS, -1, -1) / _CUTS
    solve_thresholds(recipe.law, labels, (targets - less[:, None]).ravel(), cuts)
    return cuts


def _check(data: Logits, recipe: Recipe, preference: AnyPreference, calibrated: float) -> None:
    data.require_labels("choosing a temperature")
    if not isinstance(preference, Small | Even):
        raise InputError(
            f"selection='full' supports only prefer='small' and 'even'; got {preference.text!r}. {_INSTEAD}"
        )
    if not recipe.closed_form:
        what = f"grouping={recipe.grouping!r}" if recipe.grouping else f"the score {recipe.score.name!r}"
        raise InputError(
            f"selection='full' needs one threshold for all classes and a compiled score; got {what}. {_INSTEAD}"
        )
    needed = 2 * rows_needed(recipe.alpha)  # what is said of the sets needs a threshold from each half
    if len(data) < needed:
        raise InputError(
            f"choosing a temperature at alpha={recipe.alpha} needs at least {needed} rows; got {len(data)}. "
            "Add rows or raise alpha."
        )
    low, high = temperature_menu()[[0, -1]]
    if not low <= calibrated <= high:
        raise InputError(
            f"selection='full' chooses among temperatures from {low:.2f} to {high:.2f}, but T* is {calibrated:.3g}: "
            "these logits are on a different scale. Multiply them by a constant, here and at prediction, or use "
            "selection='calibration'."
        )
