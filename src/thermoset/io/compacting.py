"""Whole rows from anywhere as a file of their largest logits, block by block."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.core.rest import rest_bounds
from thermoset.core.selecting import with_largest
from thermoset.core.top_rows import TopRows
from thermoset.data import Logits
from thermoset.data.compacting import TEMPERATURES, checked_top, stated_temperatures
from thermoset.data.top import TopLogits
from thermoset.io.compact import writing_top
from thermoset.io.files import FilePath

__all__ = ["Compacted", "compact_rows"]

_BLOCK_BYTES = 1 << 24


class Compacted(NamedTuple):
    """What was written: rows, classes, how many logits of each row; whether it is labelled.

    rest : the median and the largest share of a row's mass at T = 1 that the classes left out have, at most.
    """

    n_rows: int
    n_classes: int
    top: int
    labelled: bool
    rest: tuple[float, float]


def compact_rows(
    source: Logits,
    out: FilePath,
    *,
    top: int | None = None,
    temperatures: Sequence[float] = TEMPERATURES,
    classes: tuple[str, ...] | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Compacted:
    """Write the largest logits of each row, and the log-sums of the others; see `thermoset.compact`."""
    kept, at = checked_top(top, source.n_classes), stated_temperatures(temperatures)
    labels, groups, shares = source.labels, source.groups, []
    step = max(1, _BLOCK_BYTES // (8 * source.n_classes))
    with writing_top(out) as write:
        for place, block in source.blocks(step):
            rows = with_largest(block, kept, at)
            known = None if groups is None else groups.take(place)
            write(TopLogits.of(rows, None if labels is None else labels[place], classes, known))
            shares.append(_most_left_out(rows))
            if progress is not None:
                progress(place.stop, source.n_rows)
    share = np.concatenate(shares)
    rest = float(np.median(share)), float(share.max())
    return Compacted(len(share), source.n_classes, kept, labels is not None, rest)


def _most_left_out(rows: TopRows) -> NDArray[np.float64]:
    """The most that the share of the classes left out can be, at T = 1."""
    if rows.n_rest == 0:
        return np.zeros(rows.n_rows)
    most = np.exp(rest_bounds(rows.logits, rows.stated, rows.n_classes, 1.0).high)
    gaps = rows.logits.astype(np.float64) - rows.logits[:, :1].astype(np.float64)
    share: NDArray[np.float64] = most / (most + np.exp(gaps).sum(axis=1))
    return share
