"""Rows of which only the K largest logits are kept: the stages, with the promise kept.

Calibration takes the upper end of each label's score, prediction lets a label in if its lower end is within the
threshold. So sets hold at least what whole rows would put there, and coverage is at least what was promised: whatever
the ends are, as long as the lower one is not above the upper one, the score of a fresh row's label is exchangeable with
those that set the threshold.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.pool import run_all
from thermoset.core.rest import rest_bounds
from thermoset.core.scores import Score
from thermoset.core.sources import block_rows, widened
from thermoset.core.thresholds import ScorePairs
from thermoset.core.top_ends import LOWER, UPPER, KeptRows, middle_confidences, require_ends, score_ends
from thermoset.core.top_rows import LEAST_KEPT, TopRows
from thermoset.core.uniforms import Randomness

__all__ = [
    "draws_of",
    "for_lower_scores",
    "kept_at",
    "upper_label_scores",
    "wide_confidences",
    "wide_filler",
    "wide_sets",
    "wide_sizes",
    "wide_undecided",
]

_WORK = 8  # arrays of K numbers that a row needs while it is worked on


def kept_at(rows: TopRows, temperature: float, u: Floats) -> KeptRows:
    """As kernels take them, at a temperature."""
    bounds = rest_bounds(rows.logits, rows.stated, rows.n_classes, temperature)
    return KeptRows(widened(rows.logits), bounds.low, bounds.high, rows.n_classes, u)


def draws_of(rows: TopRows, randomness: Randomness, place: slice) -> Floats:
    """U of each row: what whole rows have, because it is made of their largest logits, or of an id."""
    largest = np.ascontiguousarray(widened(rows.logits[:, :LEAST_KEPT])[:, ::-1])
    return randomness.rows(place).block(largest)


class _Ends(NamedTuple):
    """One end of the scores of some rows, (n, K + 1), and the classes in the first K columns."""

    pairs: ScorePairs
    indices: NDArray[np.integer[Any]]
    n_classes: int


def _ends(rows: TopRows, score: Score, temperature: float, u: Floats, side: float) -> _Ends:
    pairs = score_ends(score, kept_at(rows, temperature, u), temperature, side)
    return _Ends(pairs, rows.indices.astype(np.int64), rows.n_classes)


def _for_parts(rows: TopRows, work: Callable[[TopRows, slice], None], width: int = 0) -> None:
    """Call `work` for blocks of rows, on several threads; `width` is how many numbers it gives a row, if many."""
    step = block_rows(max(_WORK * rows.logits.shape[1], width))

    def parts() -> Iterator[Callable[[], None]]:
        for start in range(0, rows.n_rows, step):
            place = slice(start, min(start + step, rows.n_rows))
            yield partial(work, rows.part(place), place)

    run_all(parts())


def _within(pairs: ScorePairs, value: Floats, refine: Floats) -> Bools:
    """Which pairs are at most the threshold."""
    inside: Bools = (pairs.value < value) | ((pairs.value == value) & (pairs.refine <= refine))
    return inside


def _kept_inside(ends: _Ends, q: ScorePairs) -> Bools:
    """Which kept labels are inside, (n, K), under one threshold (1,), one for each row (n, 1) or each class (C,)."""
    kept = ScorePairs(ends.pairs.value[:, :-1], ends.pairs.refine[:, :-1])
    if q.value.shape[-1] == 1:
        return _within(kept, q.value, q.refine)
    return _within(kept, q.value[ends.indices], q.refine[ends.indices])


def _others_inside(ends: _Ends, q: ScorePairs) -> Bools:
    """Whether a label that is not kept would be inside: (n, C) under a threshold for each class, else (n, 1)."""
    return _within(ScorePairs(ends.pairs.value[:, -1:], ends.pairs.refine[:, -1:]), q.value, q.refine)


def _at(q: ScorePairs, codes: Ints | None, place: slice) -> ScorePairs:
    """Thresholds of one level as some rows are compared with them: those of their groups, (n, 1), with codes."""
    return q if codes is None else q[codes[place, None]]


def _fill_sets(ends: _Ends, q: ScorePairs, out: Bools) -> None:
    out[:] = _others_inside(ends, q)
    np.put_along_axis(out, ends.indices, _kept_inside(ends, q), axis=1)


def _sizes(ends: _Ends, q: ScorePairs) -> Ints:
    others = _others_inside(ends, q)
    kept: Ints = _kept_inside(ends, q).sum(axis=1)
    n_rest = ends.n_classes - ends.indices.shape[1]
    if others.shape[1] == 1:
        kept += n_rest * others[:, 0]
    else:
        kept += others.sum(axis=1) - np.take_along_axis(others, ends.indices, axis=1).sum(axis=1)
    return kept


def upper_label_scores(
    rows: TopRows, own: Ints, score: Score, temperatures: Sequence[float], randomness: Randomness
) -> list[ScorePairs]:
    """The upper end of the score of each row's own label, at every temperature."""
    require_ends(score)
    found = [ScorePairs(np.empty(rows.n_rows), np.empty(rows.n_rows)) for _ in temperatures]

    def work(some: TopRows, place: slice) -> None:
        hit = some.indices == own[place, None]
        column = np.where(hit.any(axis=1), hit.argmax(axis=1), hit.shape[1])[:, None]
        u = draws_of(some, randomness, place)
        for temperature, out in zip(temperatures, found, strict=True):
            pairs = _ends(some, score, temperature, u, UPPER).pairs
            out.value[place] = np.take_along_axis(pairs.value, column, axis=1)[:, 0]
            out.refine[place] = np.take_along_axis(pairs.refine, column, axis=1)[:, 0]

    _for_parts(rows, work)
    return found


FillWide = Callable[[TopRows, slice, Randomness, Bools], None]
"""Fills the sets (n_thresholds, n_rows, C) of some rows, which have their place among all rows for their u."""


def wide_filler(score: Score, temperature: float, thresholds: ScorePairs, codes: Ints | None = None) -> FillWide:
    """What makes sets under thresholds as `wide_sets` takes them: labels whose lower end is within."""
    require_ends(score)

    def fill(some: TopRows, place: slice, randomness: Randomness, out: Bools) -> None:
        ends = _ends(some, score, temperature, draws_of(some, randomness, place), LOWER)
        for t in range(len(thresholds.value)):
            _fill_sets(ends, _at(thresholds[t], codes, place), out[t])

    return fill


def wide_sets(
    rows: TopRows,
    score: Score,
    temperature: float,
    randomness: Randomness,
    thresholds: ScorePairs,
    codes: Ints | None = None,
) -> Bools:
    """Sets of all rows, (n_thresholds, n_rows, C), under thresholds (n_thresholds, 1) or (n_thresholds, C).

    With `codes`, which name one of them for each row: under thresholds (n_thresholds, G).
    """
    fill = wide_filler(score, temperature, thresholds, codes)
    sets = np.empty((len(thresholds.value), rows.n_rows, rows.n_classes), dtype=np.bool_)
    _for_parts(rows, lambda some, place: fill(some, place, randomness, sets[:, place]))
    return sets


def for_lower_scores(
    rows: TopRows,
    score: Score,
    temperature: float,
    randomness: Randomness,
    work: Callable[[TopRows, slice, ScorePairs], None],
) -> None:
    """Call `work` for blocks of rows with the lower end of every label's score, (n, C), on several threads."""
    require_ends(score)

    def spread(some: TopRows, place: slice) -> None:
        ends = _ends(some, score, temperature, draws_of(some, randomness, place), LOWER)
        shape = some.n_rows, some.n_classes
        whole = ScorePairs(*(np.broadcast_to(end[:, -1:], shape).copy() for end in ends.pairs.cuts))
        for all_of_row, end in zip(whole.cuts, ends.pairs.cuts, strict=True):
            np.put_along_axis(all_of_row, ends.indices, end[:, :-1], axis=1)
        work(some, place, whole)

    _for_parts(rows, spread, rows.n_classes)


def wide_sizes(
    rows: TopRows,
    score: Score,
    temperature: float,
    randomness: Randomness,
    thresholds: ScorePairs,
    codes: Ints | None = None,
) -> Ints:
    """Set sizes, (n_thresholds, n_rows), without forming the sets; thresholds and codes as in `wide_sets`."""
    require_ends(score)
    sizes = np.empty((len(thresholds.value), rows.n_rows), dtype=np.int64)

    def work(some: TopRows, place: slice) -> None:
        ends = _ends(some, score, temperature, draws_of(some, randomness, place), LOWER)
        for t in range(len(sizes)):
            sizes[t, place] = _sizes(ends, _at(thresholds[t], codes, place))

    _for_parts(rows, work)
    return sizes


def wide_undecided(
    rows: TopRows,
    score: Score,
    temperature: float,
    randomness: Randomness,
    thresholds: ScorePairs,
    codes: Ints | None = None,
) -> Bools:
    """Rows whose set holds labels that the bounds could not decide, (n_thresholds, n_rows).

    Such a label's lower end is within the threshold, and its upper end is not. The set by upper ends is part of that
    by lower ends, so they differ if and only if their sizes do.
    """
    require_ends(score)
    undecided = np.empty((len(thresholds.value), rows.n_rows), dtype=np.bool_)

    def work(some: TopRows, place: slice) -> None:
        u = draws_of(some, randomness, place)
        lower, upper = (_ends(some, score, temperature, u, side) for side in (LOWER, UPPER))
        for t in range(len(undecided)):
            q = _at(thresholds[t], codes, place)
            undecided[t, place] = _sizes(lower, q) != _sizes(upper, q)

    _for_parts(rows, work)
    return undecided


def wide_confidences(rows: TopRows, temperature: float) -> Floats:
    """The middle of the bounds of each row's top probability, (n,)."""
    found = np.empty(rows.n_rows)

    def work(some: TopRows, place: slice) -> None:
        found[place] = middle_confidences(kept_at(some, temperature, np.ones(some.n_rows)), temperature)

    _for_parts(rows, work)
    return found
