"""The state of one test and of the detector beside it."""

import math
from collections.abc import Callable

import msgspec
import numpy as np

from thermoset.core.betting import Purse, Track
from thermoset.core.exponentials import Floats

__all__ = ["MOST_CHANGES", "Sequential"]

MOST_CHANGES = 1000
"""Alarms of a detector that a state keeps: the latest ones."""

Bet = Callable[[Purse, float, Track], None]


class Sequential(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One test, with the detector beside it: where they stand after some rows.

    Attributes
    ----------
    log_bar : float
        The test gives an alarm when its value reaches this, as a logarithm: log(1 / delta).
    run_length : int, optional
        The detector gives a false alarm once in so many rows, on average, at most. None: there is no detector.
    rows : int
        Rows so far.
    log_e, peak : float
        Value of the test, as a logarithm: now, and the largest so far.
    crossed : int, optional
        Row, counted from 1, at which the value first reached the bar.
    changes : tuple of int
        Rows, counted from 1, at which the detector gave an alarm; the latest `MOST_CHANGES`.
    stake, steady, deep, fresh, rising
        What the bets hold; see `thermoset.core.betting.Purse`.
    """

    log_bar: float
    run_length: int | None = None
    rows: int = 0
    log_e: float = 0.0
    peak: float = 0.0
    crossed: int | None = None
    changes: tuple[int, ...] = ()
    stake: float = 0.0
    steady: tuple[float, ...] = ()
    deep: tuple[int, ...] = ()
    fresh: tuple[float, ...] = ()
    rising: tuple[float, ...] = ()

    @classmethod
    def start(cls, *, delta: float, run_length: int | None, steady: int, fresh: int, share: float) -> "Sequential":
        """A test at level delta with so many steady bets and so many fresh ones, which get this share of the stakes."""
        return cls(
            log_bar=-math.log(delta),
            run_length=run_length if fresh else None,
            stake=share if fresh else 0.0,
            steady=((1.0 - share) / steady,) * steady if steady else (),
            deep=(0,) * steady,
            fresh=(0.0,) * fresh,
            rising=(0.0,) * fresh,
        )

    @property
    def alarm(self) -> bool:
        """Whether the value ever reached the bar."""
        return self.crossed is not None

    def after(self, rows: int, bet: Bet) -> "Sequential":
        """Where it stands after so many rows more, on which `bet` acts."""
        if not rows or not (self.steady or self.fresh):
            return msgspec.structs.replace(self, rows=self.rows + rows)
        purse = Purse(
            np.array(self.steady),
            np.array(self.deep, dtype=np.int64),
            np.array(self.fresh),
            np.array(self.rising),
            self.stake,
        )
        track = Track(np.empty(rows), np.empty(rows, dtype=np.bool_))
        bet(purse, math.inf if self.run_length is None else float(self.run_length), track)
        return msgspec.structs.replace(
            self,
            rows=self.rows + rows,
            log_e=math.log(track.value[-1]),
            peak=max(self.peak, math.log(track.value.max())),
            crossed=self.crossed or self._first_crossing(track.value),
            changes=(self.changes + tuple((self.rows + 1 + np.flatnonzero(track.alarm)).tolist()))[-MOST_CHANGES:],
            steady=tuple(purse.steady.tolist()),
            deep=tuple(purse.deep.tolist()),
            fresh=tuple(purse.fresh.tolist()),
            rising=tuple(purse.rising.tolist()),
        )

    def _first_crossing(self, value: Floats) -> int | None:
        above = value >= math.exp(self.log_bar)
        return self.rows + 1 + int(above.argmax()) if above.any() else None
