"""Rows and streams of hits as a monitor sees them, drawn from the law that a promise gives: no predictor is fitted."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.stats import binomtest

from thermoset.levels import conformal_rank
from thermoset.monitor.evidence import HitLaw
from thermoset.monitor.promise import Promise
from thermoset.monitor.state import BatchRows, MonitorState, Reference

N_CLASSES = 4


def reference(promise=None, *, sizes=(0, 600, 300, 100), confidence=(250, 250, 250, 249), n_rows=999):
    """What a monitor knows of a predictor with one threshold, or with another promise."""
    promise = promise or Promise("0.1", [n_rows])
    rank = conformal_rank(n_rows, promise.alpha)
    return Reference(
        predictor="sha",
        promise=promise,
        law=HitLaw(rank, n_rows, promise.exact) if promise.grouping is None else None,
        n_classes=N_CLASSES,
        classes=("ant", "bee", "cat", "dog"),
        sizes=sizes,
        confidence=confidence,
        rows=n_rows,
    )


def drawn(n_rows, seed, *, coverage=0.9, labelled=1.0, part=None):
    """Rows like the conformal rows, whose sets hold the label with this probability."""
    rng = np.random.default_rng(seed)
    label = np.where(rng.random(n_rows) < labelled, rng.integers(0, N_CLASSES, n_rows), -1)
    has = label >= 0
    return BatchRows(
        name="batch",
        time=None,
        part_kind="class",
        groups=(),
        size=rng.choice(4, n_rows, p=(0, 0.6, 0.3, 0.1)),
        confidence=rng.random(n_rows),
        bins=rng.integers(0, 4, n_rows),
        key=rng.integers(0, 2**48, n_rows, dtype=np.uint64),
        label=label,
        hit=has & (rng.random(n_rows) < coverage),
        correct=has & (rng.random(n_rows) < 0.7),
        part=label if part is None else np.where(has, part, -1),
        answered=np.zeros(n_rows, dtype=np.bool_),
    )


def cut(rows, place):
    """Some of the rows."""
    return replace(
        rows, **{name: column[place] for name, column in vars(rows).items() if isinstance(column, np.ndarray)}
    )


def unlabelled(rows):
    """The same rows before their labels are known."""
    nothing = np.zeros(len(rows.label), dtype=bool)
    missing = np.full(len(rows.label), -1)
    return replace(rows, label=missing, hit=nothing, correct=nothing, part=missing)


def started(of, delta=0.01, run_length=None):
    return MonitorState.start(of, "1.0", delta, run_length)


def after(state, of, rows, name="batch", kind="class", groups=()):
    return state.after(of, replace(rows, name=name, part_kind=kind, groups=groups))


# ---- streams of hits


def law_of(n, alpha="0.1", *, exact=True):
    """The law of n conformal rows."""
    return HitLaw(math.ceil((n + 1) * (1 - Fraction(alpha))), n, exact)


def kept(law, streams, rows, seed=0):
    """Hits (streams, rows) under the promise: the coverage of each stream is drawn from its law."""
    rng = np.random.default_rng(seed)
    coverage = rng.beta(law.rank, law.pool + 1 - law.rank, streams).astype(np.float32)
    return rng.random((streams, rows), dtype=np.float32) < coverage[:, None]


def dropped(law, streams, rows, drop, at, seed=0):
    """The same, but the coverage falls by `drop` after the first `at` rows."""
    rng = np.random.default_rng(seed)
    coverage = rng.beta(law.rank, law.pool + 1 - law.rank, streams).astype(np.float32)[:, None]
    level = np.where(np.arange(rows) < at, coverage, coverage - np.float32(drop))
    return rng.random((streams, rows), dtype=np.float32) < level


def too_many(alarms, streams, level):
    """Whether so many alarms among so many streams refute that each has at most this probability of one."""
    return binomtest(int(alarms), streams, level, alternative="greater").pvalue < 1e-4
