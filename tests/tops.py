"""Rows cut down to their largest logits in the plainest way, for tests: a full sort, and sums by NumPy or mpmath."""

import numpy as np
from hypothesis import strategies as st

from thermoset.data.tail_mass import Stated
from thermoset.data.top_k import TopRows

TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0, 5.0)
KINDS = {"nothing": ((), False), "all": ((1.0,), True), "rest": (TEMPERATURES, False), "one": ((1.0,), False)}
"""What is stated beside the largest logits: at which temperatures, and whether of all classes."""


def cut_down(logits, top, kind="rest"):
    """The `top` largest logits of each row; of equal ones those of the lower classes."""
    temperatures, of_all = KINDS[kind]
    order = np.argsort(-logits.astype(np.float64), axis=1, kind="stable")
    kept, others = order[:, :top], np.take_along_axis(logits, order[:, top:], axis=1).astype(np.float64)
    summed = logits.astype(np.float64) if of_all else others
    sums = np.empty((len(logits), len(temperatures)), dtype=np.float64 if logits.dtype == np.float64 else np.float32)
    for s, temperature in enumerate(temperatures):
        with np.errstate(invalid="ignore"):
            sums[:, s] = np.logaddexp.reduce(summed / temperature, axis=1)
    stated = Stated(np.array(temperatures), sums, of_all)
    return TopRows(np.take_along_axis(logits, kept, axis=1), kept, logits.shape[1], stated)


@st.composite
def rows(draw):
    """One row of any type, with ties, masked classes and gaps of any size, how many logits are kept, and T."""
    n_classes = draw(st.integers(5, 24))
    spread = draw(st.sampled_from([0.5, 3.0, 40.0]))
    number = st.floats(-spread, spread, width=16) | st.integers(-3, 3).map(float) | st.just(-np.inf)
    row = draw(st.lists(number, min_size=n_classes, max_size=n_classes))
    row[draw(st.integers(0, n_classes - 1))] = draw(st.floats(-spread, spread, width=16))  # one is not masked
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    top = draw(st.integers(4, n_classes - 1))
    return np.array([row], dtype=dtype), top, draw(st.floats(0.05, 20.0))
