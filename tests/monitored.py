"""Rows as a monitor sees them, drawn from the law that a promise gives: no predictor is fitted."""

import numpy as np

from thermoset.levels import conformal_rank
from thermoset.monitor.checking.promise import Promise
from thermoset.monitor.evidence import HitLaw
from thermoset.monitor.watching import Named, RowsSeen, Watched, advanced, begun

N_CLASSES = 4


def watched(promise=None, *, law=True, sizes=(0, 600, 300, 100), confidence=(250, 250, 250, 249), n_rows=999):
    """What a monitor knows of a predictor with one threshold, or with another promise."""
    promise = promise or Promise("0.1", [n_rows])
    rank = conformal_rank(n_rows, promise.alpha)
    return Watched(
        predictor="sha",
        promise=promise,
        law=HitLaw(rank, n_rows, promise.exact) if law and promise.grouping is None else None,
        n_classes=N_CLASSES,
        classes=("ant", "bee", "cat", "dog"),
        sizes=sizes,
        confidence=confidence,
        reference_rows=n_rows,
    )


def drawn(n_rows, seed, *, coverage=0.9, labelled=1.0, part=None):
    """Rows like the conformal rows, whose sets hold the label with this probability."""
    rng = np.random.default_rng(seed)
    label = np.where(rng.random(n_rows) < labelled, rng.integers(0, N_CLASSES, n_rows), -1)
    has = label >= 0
    return RowsSeen(
        size=rng.choice(4, n_rows, p=(0, 0.6, 0.3, 0.1)),
        confidence=rng.random(n_rows),
        bins=rng.integers(0, 4, n_rows),
        key=rng.integers(0, 2**48, n_rows, dtype=np.uint64),
        label=label,
        hit=has & (rng.random(n_rows) < coverage),
        correct=has & (rng.random(n_rows) < 0.7),
        part=label if part is None else np.where(has, part, -1),
    )


def cut(rows, place):
    """Some of the rows."""
    return RowsSeen(**{name: getattr(rows, name)[place] for name in vars(rows)})


def unlabelled(rows):
    """The same rows before their labels are known."""
    nothing = np.zeros(len(rows.label), dtype=bool)
    missing = np.full(len(rows.label), -1)
    return RowsSeen(rows.size, rows.confidence, rows.bins, rows.key, missing, nothing, nothing, missing)


def started(of, delta=0.01, run_length=None):
    return begun(of, "1.0", delta, run_length)


def after(state, of, rows, name="batch", kind="class", groups=()):
    return advanced(state, of, rows, Named(name, None, kind, groups))
