"""Preferences that keep a bound: on size, on the class gap, or on what the hard classes are covered at least.

Where a choice evens out groups of rows, read groups for classes.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thermoset.core.exponentials import Floats
from thermoset.core.levels import Alpha, exact_level
from thermoset.errors import InputError
from thermoset.quoting import quoted
from thermoset.tuning.class_gap import ClassGaps
from thermoset.tuning.parts import EvenOver
from thermoset.tuning.preference import (
    MOST_SIZE,
    NORMAL,
    Pick,
    Preference,
    Rule,
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
    """A bound on one thing that makes the most of the other."""

    amount: float

    bound: ClassVar[str]  # what is bounded, as one types it
    most: ClassVar[str]  # what the most is made of; {} is a class, or a group

    @property
    def text(self) -> str:
        """What is bounded, and by how much."""
        return f"{self.bound}<={brief(self.amount)}"

    def reason(self, choice: "Choice") -> str:
        """What the choice has that keeps the budget, or that none does."""
        sure = "with 95% confidence" if choice.selection == "calibration" else "on the calibration rows"
        if choice.met:
            most = self.most.format(choice.words.one)
            return f"{chosen(choice)} has {most} {where(choice)} that keeps {self.text} {sure}."
        what = "temperature" if len(choice.methods) == 1 else "setting"
        said = f"No {what} keeps {self.text} {sure}; {chosen(choice)} comes closest."
        more = choice.rows_needed
        return said if more is None else f"{said} About {more:,} calibration rows would be needed to show it."


class SizeBudget(_Budget, frozen=True, tag="size_budget"):
    """The most even class coverage with at most so many labels on average."""

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
                f"a size budget must be a number of labels > 0, from {_LEAST_SIZE:g} to {MOST_SIZE:g}; got "
                f"{quoted(prefer)}. Try 'size<=3'."
            )
        return cls(amount)

    @property
    def rules(self) -> Sequence[Rule]:
        """The least class loss among temperatures whose sets are small enough, with confidence."""

        def within(curves: "Curves", searched: Searched) -> Pick:
            upper = np.full(len(searched), np.inf)
            upper[searched] = curves.largest_sizes(searched, curves.confidence)
            return _within(upper, self.amount, curves.loss, searched)

        return [within]

    def shortfall(self, choice: "Choice") -> str:
        """Labels, with their interval."""
        return f"{choice.outlook.size:.2f} labels (± {NORMAL * (choice.outlook.size_error or 0):.2f})"


class GapBudget(_Budget, frozen=True, tag="gap_budget"):
    """The smallest sets with a class gap of at most so much; see `class_gap`."""

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
            raise InputError(f"a gap budget must be a share from 0 to 1; got {quoted(prefer)}. Try 'gap<=0.03'.")
        return cls(amount)

    @property
    def rules(self) -> Sequence[Rule]:
        """The least size among temperatures whose class gap is small enough, with confidence."""

        def within(curves: "Curves", searched: Searched) -> Pick:
            if curves.classes is None:  # the paper's way: TopCovGap as it is seen
                return _within(curves.loss, self.amount, curves.size, searched)
            gaps = ClassGaps(curves.classes.at(searched))
            excess = np.full(len(searched), np.inf)
            excess[searched] = gaps.excess(self.amount, curves.kinds)
            few = curves.classes.sample.rows_wanted(curves.classes.level)
            if few is not None:
                return Pick(least(excess, searched), met=False, rows_needed=few)
            pick = _within(excess, 0.0, curves.size, searched)
            if pick.met:
                return pick
            return replace(pick, rows_needed=gaps.rows_for(self.amount, int(searched[: pick.index].sum())))

        return [within]

    def shortfall(self, choice: "Choice") -> str:
        """The gap, with its interval."""
        at = choice.outlook
        if at.class_gap is None or at.class_gap_ends is None:
            return f"a {choice.words.title('TopCovGap')} of {at.top_gap or math.nan:.3f}"
        low, high = at.class_gap_ends
        return f"a {choice.words.gap} of {at.class_gap:.3f} (95%: {low:.3f} to {high:.3f})"


class Protect(Preference, frozen=True, tag="classes"):
    """The smallest sets that cover the hard classes, the worst tenth of all, at least so much.

    `least` is None for the word alone: hard classes may then be missed one and a half times as often as all rows.
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
        """Classes if they are named; the word alone protects whatever the choice evens out."""
        return None if self.least is None else "class"

    @property
    def rules(self) -> Sequence[Rule]:
        """The least expected size, of settings that are strict enough: see `protection`."""
        return [smallest]

    def target(self, alpha: Alpha) -> float | None:
        """What the worst tenth of classes is to be covered at least."""
        return 1 - _SHORT * float(exact_level(alpha)) if self.least is None else self.least

    def reason(self, choice: "Choice") -> str:
        """What is claimed, and how sure; or that the rows cannot carry it."""
        target, at = choice.target or 0.0, choice.outlook
        if choice.met:
            return (
                f"{chosen(choice)} gives the smallest sets {where(choice)} whose worst tenth of {choice.words.many} is "
                f"covered at least {target:.3g} with {choice.sure or 0:.0%} probability: {at.size:.2f} labels, "
                f"{_tenth(choice)}."
            )
        more = choice.rows_needed
        needed = "" if more is None else f" About {more:,} rows would be needed."
        many = choice.words.many
        return f"These rows cannot show that the worst tenth of {many} is covered at least {target:.3g}.{needed}"

    def shortfall(self, choice: "Choice") -> str:
        """What the worst tenth has, with its interval."""
        return f"{_tenth(choice)} ({choice.sure or 0:.0%} sure of {choice.target:.3g})"


class ProtectGroups(Protect, frozen=True, tag="groups"):
    """The same for the hard groups of rows, by name: the word alone is `Protect`."""

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
            f"the coverage of hard {bound} must be a share between 0 and 1; got {quoted(prefer)}. Try '{bound}>=0.85'."
        )
    return amount


def _tenth(choice: "Choice") -> str:
    at = choice.outlook
    if at.worst_tenth is None or at.worst_tenth_ends is None:
        return "the worst tenth unknown"
    low, high = at.worst_tenth_ends
    return f"the worst tenth covered {at.worst_tenth:.3f} ({low:.3f} to {high:.3f})"


def _within(upper: Floats, budget: float, wanted: Floats, searched: Searched) -> Pick:
    """The least of what is wanted where the budget is kept; where it is nowhere, what comes closest."""
    kept = searched & (upper <= budget)
    return Pick(least(wanted, kept)) if kept.any() else Pick(least(upper, searched), met=False)
