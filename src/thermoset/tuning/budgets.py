"""Preferences that meet a bound: on size, on the class gap, or on the coverage of the hard classes.

Where a choice evens out groups of rows, read "groups" for "classes".
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from thermoset.arrays import Floats
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.quoting import quoted
from thermoset.tuning.class_gap import ClassGaps, ClassHits
from thermoset.tuning.parts import EvenOver
from thermoset.tuning.preference import (
    MOST_SIZE,
    NORMAL,
    Pick,
    Preference,
    Searched,
    bounded,
    brief,
    chosen,
    least,
    smallest,
    where,
)

if TYPE_CHECKING:
    from thermoset.tuning.choice import Choice
    from thermoset.tuning.closed_form import Curves

__all__ = ["GapBudget", "Protect", "ProtectGroups", "SizeBudget"]

_LEAST_SIZE = 1e-9  # labels in a set on average
_SHORT = 1.5  # without a number, hard classes may be missed this many times as often as all rows


class _Budget(Preference, frozen=True):
    """A bound on one quantity that optimises the other."""

    amount: float

    bound: ClassVar[str]  # what is bounded, as one types it
    most: ClassVar[str]  # what the most is made of; {} is a class, or a group

    @property
    def text(self) -> str:
        """What is bounded, and by how much."""
        return f"{self.bound}<={brief(self.amount)}"

    def reason(self, choice: "Choice") -> str:
        """How the choice meets the budget, or that none does."""
        sure = "with 95% confidence"
        if choice.met:
            most = self.most.format(choice.words.one)
            return f"{chosen(choice)} gives {most} {where(choice)} while meeting {self.text} {sure}."
        what = "temperature" if len(choice.methods) == 1 else "setting"
        said = f"No {what} meets {self.text} {sure}; {chosen(choice)} comes closest."
        more = choice.rows_needed
        return said if more is None else f"{said} About {more:,} calibration rows would be needed to show it."


class SizeBudget(_Budget, frozen=True, tag="size_budget"):
    """The most even class coverage with at most a given number of labels on average."""

    bound = "size"
    most = "the most even {} coverage"
    evens_out = True

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """Such as "size<=3"."""
        amount = bounded(prefer, cls.bound)
        if amount is None:
            return None
        if not _LEAST_SIZE <= amount <= MOST_SIZE:
            raise InputError(
                f"a size budget must be a positive number of labels, from {_LEAST_SIZE:g} to {MOST_SIZE:g}; got "
                f"{quoted(prefer)}. Try 'size<=3'."
            )
        return cls(amount)

    def pick(self, curves: "Curves", searched: Searched) -> Pick:
        """The lowest class loss among temperatures whose sets are small enough, with confidence."""
        upper = np.full(len(searched), np.inf)
        upper[searched] = curves.largest_sizes(searched, curves.confidence)
        return _within(upper, self.amount, curves.loss, searched)

    def shortfall(self, choice: "Choice") -> str:
        """Labels, with their interval."""
        return f"{choice.outlook.size:.2f} labels (± {NORMAL * choice.outlook.size_error:.2f})"


class GapBudget(_Budget, frozen=True, tag="gap_budget"):
    """The smallest sets whose class gap is at most a given value; see `class_gap`."""

    bound = "gap"
    most = "the smallest sets"
    needs_closed_form = True

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """Such as "gap<=0.03"."""
        amount = bounded(prefer, cls.bound)
        if amount is None:
            return None
        if not 0 <= amount < 1:
            raise InputError(f"a gap budget must be a number from 0 to 1; got {quoted(prefer)}. Try 'gap<=0.03'.")
        return cls(amount)

    def pick(self, curves: "Curves", searched: Searched) -> Pick:
        """The least size among temperatures whose class gap is small enough, with confidence."""
        classes = cast("ClassHits", curves.classes)  # a closed form has them
        gaps = ClassGaps(classes.at(searched))
        excess = np.full(len(searched), np.inf)
        excess[searched] = gaps.excess(self.amount, curves.kinds)
        few = classes.sample.rows_wanted(classes.level)
        if few is not None:
            return Pick(least(excess, searched), met=False, rows_needed=few)
        pick = _within(excess, 0.0, curves.size, searched)
        if pick.met:
            return pick
        return replace(pick, rows_needed=gaps.rows_for(self.amount, int(searched[: pick.index].sum())))

    def shortfall(self, choice: "Choice") -> str:
        """The gap, with its interval."""
        at = choice.outlook
        if at.class_gap is None or at.class_gap_ends is None:
            return f"a {choice.words.title('TopCovGap')} of {at.top_gap or math.nan:.3f}"
        low, high = at.class_gap_ends
        return f"a {choice.words.gap} of {at.class_gap:.3f} (95%: {low:.3f} to {high:.3f})"


class Protect(Preference, frozen=True, tag="classes"):
    """The smallest sets whose coverage of the hard classes, the worst tenth, reaches a given level.

    `least` is None for the bare word: hard classes may then be missed 1.5 times as often as rows overall.
    """

    needs_closed_form = True

    least: float | None = None

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """The word, or such as "classes>=0.85"."""
        if isinstance(prefer, str) and prefer == "protect":
            return cls()
        amount = _least_coverage(prefer, "classes")
        return None if amount is None else cls(amount)

    @property
    def text(self) -> str:
        """The word, or the bound."""
        return "protect" if self.least is None else f"classes>={brief(self.least)}"

    @property
    def over(self) -> EvenOver | None:
        """Classes if they are named; the bare word protects whatever the choice evens out."""
        return None if self.least is None else "class"

    def pick(self, curves: "Curves", searched: Searched) -> Pick:
        """The least expected size, of settings that are strict enough: see `protection`."""
        return smallest(curves, searched)

    def target(self, alpha: Alpha) -> float | None:
        """The coverage that the worst tenth of classes must reach."""
        return 1 - _SHORT * float(exact_level(alpha)) if self.least is None else self.least

    def reason(self, choice: "Choice") -> str:
        """The claim and its probability; or that the rows cannot support it."""
        target, at = choice.target or 0.0, choice.outlook
        if choice.met:
            return (
                f"{chosen(choice)} gives the smallest sets {where(choice)} that cover the worst tenth of "
                f"{choice.words.many} at least {target:.3g} of the time ({choice.sure or 0:.0%} probability): "
                f"{at.size:.2f} labels on average, {_tenth(choice)}."
            )
        more = choice.rows_needed
        needed = "" if more is None else f" About {more:,} rows would be needed."
        worst = f"the worst tenth of {choice.words.many}"
        return f"These rows cannot show that {worst} is covered at least {target:.3g} of the time.{needed}"

    def shortfall(self, choice: "Choice") -> str:
        """What the worst tenth has, with its interval."""
        return f"{_tenth(choice)} (probability of reaching {choice.target:.3g}: {choice.sure or 0:.0%})"


class ProtectGroups(Protect, frozen=True, tag="groups"):
    """The same for the hard groups of rows, by name; the bare word is `Protect`."""

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """Such as "groups>=0.85"."""
        amount = _least_coverage(prefer, "groups")
        return None if amount is None else cls(amount)

    @property
    def text(self) -> str:
        """The bound."""
        return f"groups>={brief(self.least or 0.0)}"

    @property
    def over(self) -> EvenOver | None:
        """Groups."""
        return "group"


def _least_coverage(prefer: object, bound: str) -> float | None:
    """The share in "bound >= share", or None where something else is written."""
    amount = bounded(prefer, bound, ">=")
    if amount is not None and not 0 < amount < 1:
        raise InputError(
            f"the coverage of hard {bound} must be between 0 and 1; got {quoted(prefer)}. Try '{bound}>=0.85'."
        )
    return amount


def _tenth(choice: "Choice") -> str:
    at = choice.outlook
    if at.worst_tenth is None or at.worst_tenth_ends is None:
        return "worst-tenth coverage unknown"
    low, high = at.worst_tenth_ends
    return f"worst-tenth coverage {at.worst_tenth:.3f} ({low:.3f} to {high:.3f})"


def _within(upper: Floats, budget: float, wanted: Floats, searched: Searched) -> Pick:
    """The best setting among those that meet the budget; if none does, the closest."""
    kept = searched & (upper <= budget)
    return Pick(least(wanted, kept)) if kept.any() else Pick(least(upper, searched), met=False)
