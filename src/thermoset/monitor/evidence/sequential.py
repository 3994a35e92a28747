"""The state of one test and of its change detector."""

import math
from collections.abc import Callable
from typing import Annotated

import msgspec
import numpy as np

from thermoset.arrays import Floats
from thermoset.bounds import MOST_ROWS, real_number, whole_number
from thermoset.kernels import LEAST, Purse, Track

__all__ = ["MOST_CHANGES", "Count", "Sequential", "checked_delta"]

MOST_CHANGES = 1000
"""Alarms of a detector that a state keeps: the latest ones."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]
"""A number of rows in a state."""

_Held = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
_LEAST_DELTA = 1e-100
_LOG_E = Annotated[float, msgspec.Meta(ge=-1e300, le=1e3)]

Bet = Callable[[Purse, float, Track], None]


def checked_delta(delta: float, name: str = "delta") -> float:
    """Read a probability of a false alarm."""
    return real_number(delta, name, _LEAST_DELTA, 0.5, f"a number from {_LEAST_DELTA:g} to 0.5", f"Try {name}=0.01.")


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
        What the bets hold; see `kernels.Purse`.
    """

    log_bar: float
    run_length: Count | None = None
    rows: Count = 0
    log_e: _LOG_E = 0.0
    peak: _LOG_E = 0.0
    crossed: Count | None = None
    changes: tuple[Count, ...] = ()
    stake: _Held = 0.0
    steady: tuple[_Held, ...] = ()
    deep: tuple[Count, ...] = ()
    fresh: tuple[_Held, ...] = ()
    rising: tuple[_Held, ...] = ()

    def __post_init__(self) -> None:
        if len(self.deep) != len(self.steady) or len(self.rising) != len(self.fresh):
            raise ValueError("a test must hold two numbers for each of its bets")

    @classmethod
    def start(cls, *, delta: float, run_length: int | None, steady: int, fresh: int, share: float) -> "Sequential":
        """Begin a test at level delta with so many bets of both kinds; fresh ones get this share of the stakes."""
        wanted = run_length
        if run_length is not None:
            wanted = whole_number(run_length, "run_length", 1, MOST_ROWS, "Try 1_000_000, or None for no detector.")
        return cls(
            log_bar=-math.log(delta),
            run_length=wanted if fresh else None,
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
            log_e=math.log(max(track.value[-1], LEAST)),
            peak=max(self.peak, math.log(max(track.value.max(), LEAST))),
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
