"""The paper's protocol: temperatures, and random splits into calibration, conformal and evaluation rows.

Grids of temperatures are inclusive, and built in fractions so that T = 1 is exactly 1.0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import islice

import numpy as np

from thermoset.arrays import Counts, Floats, Ints
from thermoset.bounds import checked_temperature, exact_number
from thermoset.data import split_indices
from thermoset.errors import InputError
from thermoset.levels import Alpha
from thermoset.quoting import quoted
from thermoset.rows import row_array, run_tasks
from thermoset.sweeping.engine import Trials, block_uniforms
from thermoset.uniforms import trial_keys

DEFAULT_GRID = "0.3:5:0.1"
"""The default temperatures of a sweep: those of the paper's appendix and published code."""

PAPER_GRID = "0.5:5:0.1"
"""The temperatures of the paper's section 3.1."""

_MOST = 10_000


def temperature_grid(text: str) -> Floats:
    """Read `start:stop:step`, both ends included, or comma-separated numbers.

    >>> temperature_grid("0.5:1.5:0.25")
    array([0.5 , 0.75, 1.  , 1.25, 1.5 ])
    >>> 1.0 in temperature_grid(PAPER_GRID)
    True
    >>> temperature_grid("1,2,4")
    array([1., 2., 4.])
    """
    parts = text.replace(",", ":").split(":")
    numbers = [number for number in map(exact_number, parts) if number is not None]
    if len(numbers) < len(parts):
        raise InputError(
            f"temperatures must be start:stop:step or comma-separated numbers; got {quoted(text)}. Try {DEFAULT_GRID}."
        )
    if ":" not in text:
        return checked_temperatures(numbers)
    if len(numbers) != 3 or "," in text or numbers[2] <= 0 or numbers[1] < numbers[0]:
        raise InputError(f"temperatures must be start:stop:step with start <= stop, step > 0; got {quoted(text)}.")
    start, stop, step = numbers
    count = (stop - start) // step + 1
    if count > _MOST:
        raise InputError(f"temperatures {quoted(text)} are more than {_MOST:,} values. Use a larger step.")
    return checked_temperatures(start + k * step for k in range(count))


def checked_temperatures(temperatures: Iterable[float | Fraction] | str) -> Floats:
    """Read temperatures: at least one and at most 10,000, finite, above 0, increasing."""
    if isinstance(temperatures, str):  # an iterable of digits
        raise InputError(
            f"temperatures must be numbers; got {quoted(temperatures)}. Pass temperature_grid({quoted(temperatures)})."
        )
    try:
        values = list(islice(temperatures, _MOST + 1))
    except TypeError:
        raise InputError(f"temperatures must be numbers; got {quoted(temperatures)}.") from None
    if not values:
        raise InputError("temperatures must contain at least one; got none. Try [1.0].")
    if len(values) > _MOST:
        raise InputError(f"there must be at most {_MOST:,} temperatures; got more. Use a coarser grid.")
    grid = np.array([checked_temperature(t, "each temperature") for t in values])
    wrong = np.flatnonzero(np.diff(grid) <= 0)
    if wrong.size:
        i = int(wrong[0])
        kind = "twice" if grid[i] == grid[i + 1] else "out of order"
        raise InputError(
            f"temperatures must increase; {grid[i + 1]:g} comes {kind} after {grid[i]:g}. "
            "Pass sorted(set(temperatures))."
        )
    return grid


@dataclass(frozen=True)
class Protocol:
    """How rows are split; fractions are read as typed. The calibration part may be 0.

    `split_by` has one value for each row: rows with the same value stay together, and parts are as large as that
    allows.
    """

    calibration_fraction: Alpha = 0.1
    cp_fraction: Alpha = 0.1
    random_state: int = 0
    randomized: bool = True
    split_by: object = field(default=None, repr=False, compare=False)

    def split(self, n_rows: int, trial: int) -> "Split":
        """The parts of one trial; the same whatever other trials are drawn."""
        both = self.calibration_fraction, self.cp_fraction
        fractions = both[1:] if exact_number(self.calibration_fraction) == 0 else both
        seed = self.random_state, trial  # what no named stream begins with
        *calibration, conformal, evaluation = split_indices(
            n_rows, *fractions, random_state=seed, split_by=self.split_by
        )
        return Split(calibration[0] if calibration else np.empty(0, dtype=np.int64), conformal, evaluation)


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the parts of a trial."""

    calibration: Ints
    conformal: Ints
    evaluation: Ints


@dataclass(frozen=True, eq=False)
class Trial(Split):
    """One random split, and every row's u."""

    u: Floats


def draw_trial(n_rows: int, trial: int, protocol: Protocol) -> Trial:
    """Draw trial number `trial`; the same whatever other trials are drawn.

    >>> one = draw_trial(100, 0, Protocol())
    >>> len(one.calibration), len(one.conformal), len(one.evaluation)
    (10, 10, 80)
    """
    parts = protocol.split(n_rows, trial)
    u = block_uniforms(trial_keys(protocol.random_state, [trial]), range(n_rows), protocol.randomized)[:, 0]
    return Trial(parts.calibration, parts.conformal, parts.evaluation, u)


def draw_trials(labels: Ints, n_classes: int, numbers: Sequence[int], protocol: Protocol) -> Trials:
    """Draw trials of a protocol by their numbers, as the kernels want them."""
    n_rows, trials = len(labels), len(numbers)
    evaluation = row_array((n_rows, trials), np.bool_)
    evaluation[:] = False
    counts = np.empty((trials, n_classes), dtype=np.int64)
    conformal = row_array((trials, len(protocol.split(n_rows, numbers[0]).conformal)), np.int32)
    others: dict[int, Counts] = {}  # of trials with another number, where whole groups are drawn

    def pack(t: int) -> None:
        parts = protocol.split(n_rows, numbers[t])
        evaluation[parts.evaluation, t] = True
        counts[t] = np.bincount(labels[parts.evaluation], minlength=n_classes)
        rows = np.sort(parts.conformal)
        if len(rows) == conformal.shape[1]:
            conformal[t] = rows
        else:
            others[t] = rows.astype(np.int32)

    run_tasks([partial(pack, t) for t in range(trials)])
    rows = tuple(others.get(t, conformal[t]) for t in range(trials)) if others else conformal
    return Trials(rows, evaluation, counts, trial_keys(protocol.random_state, numbers), protocol.randomized)
