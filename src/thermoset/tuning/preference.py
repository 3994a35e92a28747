"""What a preference is: it parses the value of `prefer=`, picks among estimates, and explains the pick.

They are defined in `aims` (optimise one thing) and `budgets` (meet a bound); `preferences` lists them. A
preference is part of a `Choice`, and so of the predictor's file, under its kind.
"""

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Floats
from thermoset.bounds import exact_number
from thermoset.levels import Alpha
from thermoset.tuning.parts import EvenOver

if TYPE_CHECKING:
    from thermoset.tuning.choice import Choice
    from thermoset.tuning.closed_form import Curves

__all__ = [
    "MOST_SIZE",
    "NORMAL",
    "Estimates",
    "Pick",
    "Preference",
    "Searched",
    "bounded",
    "brief",
    "chosen",
    "least",
    "smallest",
    "where",
]

MOST_SIZE = 1e9  # labels in a set on average
NORMAL = 1.96  # standard errors of a 95% interval

Searched = NDArray[np.bool_]
"""Which temperatures of the curves may be picked."""


@dataclass(frozen=True)
class Pick:
    """The place of a choice among temperatures, whether it keeps the budget, and what random halves choose.

    `rows_needed`: about how many calibration rows would show that a budget is kept; None where none would, or it is.
    """

    index: int
    met: bool = True
    of_halves: Floats = field(default_factory=lambda: np.empty(0))
    rows_needed: int | None = None


class Estimates(Protocol):
    """What may be asked for beyond the curves."""

    def size_gain(self, temperature: float) -> tuple[float, float]:
        """How much smaller sets are at a temperature than at T = 1, and the standard error of that."""
        ...


class Preference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What a setting is chosen for."""

    needs_closed_form: ClassVar[bool] = False
    """Whether it applies only to sets with a closed form: see `Recipe.closed_form`."""

    evens_out: ClassVar[bool] = False
    """Whether settings that meet the request are ranked by class loss; if not, by size."""

    @classmethod
    def read(cls, prefer: object) -> "Preference | None":
        """Read what `prefer=` takes, or None if it names something else."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """As one would type it."""
        raise NotImplementedError

    def pick(self, curves: "Curves", searched: Searched) -> Pick:
        """Pick one of the temperatures searched."""
        raise NotImplementedError

    def settled(self, temperature: float, estimates: Estimates) -> float:  # noqa: ARG002
        """The same temperature, or another where the rows do not support it."""
        return temperature

    def target(self, alpha: Alpha) -> float | None:  # noqa: ARG002
        """The coverage that hard classes must reach at a promised level; None where there is no such demand."""
        return None

    @property
    def over(self) -> EvenOver | None:
        """What it applies to: "class" or "group", or None for both."""
        return None

    def reason(self, choice: "Choice") -> str:
        """The recommendation in a sentence."""
        raise NotImplementedError

    def shortfall(self, choice: "Choice") -> str:
        """What the closest setting reaches, where none meets the request."""
        raise NotImplementedError


def chosen(choice: "Choice") -> str:
    """The choice in a word or two: the temperature, and the kind of sets and level where these were chosen too."""
    if len(choice.methods) > 1 or choice.setting.alpha != choice.alpha:
        return choice.setting.title
    return f"T-hat = {choice.temperature:.2f}"


def where(choice: "Choice") -> str:
    """What was searched."""
    if len(choice.methods) > 1:
        return f"among {len(choice.methods)} kinds of sets"
    return "among the temperatures searched" if choice.peak is None else f"up to the size peak T_c = {choice.peak:.2f}"


def least(values: Floats, among: Searched) -> int:
    """Where the least of some values is."""
    return int(np.argmin(np.where(among, values, np.inf)))


def smallest(curves: "Curves", searched: Searched) -> Pick:
    """The smallest sets."""
    return Pick(least(curves.size, searched))


def bounded(prefer: object, bound: str, sign: str = "<=") -> float | None:
    """The number in "bound <= number" (NaN if it is not one), or None if the text is something else."""
    budget = re.fullmatch(rf"{bound}\s*{sign}\s*(\S+)", prefer.strip()) if isinstance(prefer, str) else None
    return None if budget is None else _number(budget.group(1))


def brief(amount: float) -> str:
    """A number as one would type it."""
    return repr(amount).removesuffix(".0")


def _number(value: str) -> float:
    """The number, or NaN: every comparison with it is false."""
    found = exact_number(value)
    return math.nan if found is None or abs(found) > MOST_SIZE else float(found)
