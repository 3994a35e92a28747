"""Streams of hits that follow a promise, and what a promise says of them."""

import math
from fractions import Fraction

import numpy as np
from scipy.stats import binomtest

from thermoset.monitor.evidence import HitLaw


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
