"""What the user wants of the sets. A registry: a preference is a class here, with its rule and what it says.

A preference reads itself from what `prefer=` takes, picks among the estimates of the search, and explains the pick. It
is part of a `Choice`, and so of the predictor's file, under its kind.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, cast, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import exact_number
from thermoset.core.exponentials import Floats
from thermoset.errors import InputError
from thermoset.quoting import quoted
from thermoset.tuning.class_gap import ClassGaps
from thermoset.tuning.closed_form import Curves

if TYPE_CHECKING:
    from thermoset.tuning.choice import Choice

__all__ = [
    "PREFERENCES",
    "AnyPreference",
    "Blend",
    "Estimates",
    "EvenCoverage",
    "GapBudget",
    "Pick",
    "Preference",
    "Rule",
    "Size",
    "SizeBudget",
    "read_preference",
]

_LEAST_SIZE, _MOST_SIZE = 1e-9, 1e9  # labels in a set on average
_NORMAL = 1.96  # standard errors of a 95% interval

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


Rule = Callable[[Curves, Searched], Pick]


class Estimates(Protocol):
    """What may be asked for beyond the curves."""

    def size_gain(self, temperature: float) -> tuple[float, float]:
        """How much smaller sets are at a temperature than at T = 1, and the standard error of that (NaN: unknown)."""
        ...


class Preference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What T-hat is chosen for."""

    needs_closed_form: ClassVar[bool] = False
    """Whether it can only be asked of sets with a closed form: see `Recipe.closed_form`."""

    @classmethod
    def read(cls, prefer: object) -> "Preference | None":
        """Read what `prefer=` takes, or None if it names something else."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """As one would type it."""
        raise NotImplementedError

    @property
    def rules(self) -> Sequence[Rule]:
        """How to pick: by one rule, or by several whose temperatures `combined` makes into one."""
        raise NotImplementedError

    def combined(self, picks: Sequence[float], of_halves: Floats) -> tuple[float, Floats]:
        """The temperature from those that the rules picked, and the same of random halves of the rows."""
        return picks[0], of_halves

    def settled(self, temperature: float, estimates: Estimates) -> float:  # noqa: ARG002
        """The temperature once more, or another where the rows do not bear it out."""
        return temperature

    def reason(self, choice: "Choice") -> str:
        """The recommendation in a sentence."""
        raise NotImplementedError

    def shortfall(self, choice: "Choice") -> str:
        """What the closest temperature has, where no temperature keeps a budget."""
        raise NotImplementedError


class Size(Preference, frozen=True, tag="size"):
    """The smallest sets."""

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """The word, or 0: all the way at the end of small sets."""
        return cls() if _is(prefer, "size", 0) else None

    @property
    def text(self) -> str:
        """The word."""
        return "size"

    @property
    def rules(self) -> Sequence[Rule]:
        """The least expected size."""
        return [_smallest]

    def settled(self, temperature: float, estimates: Estimates) -> float:
        """T = 1 where the gain over it is within its error: the least of fifty estimates is too hopeful."""
        gain, error = estimates.size_gain(temperature)
        return 1.0 if gain <= _NORMAL * error else temperature

    def reason(self, choice: "Choice") -> str:
        """Where, and how many sets are empty: that is how sets become very small."""
        if choice.temperature == 1.0:
            return "T-hat = 1: no other temperature gives sets that are smaller by more than the error of the estimate."
        empty = f"({choice.outlook.empty_share:.1%} of them empty)"
        return f"{_chosen(choice)} gives the smallest sets {_where(choice)} {empty}."


class EvenCoverage(Preference, frozen=True, tag="coverage"):
    """The most even class coverage."""

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """The word, or 1: all the way at the end of even coverage."""
        return cls() if _is(prefer, "coverage", 1) else None

    @property
    def text(self) -> str:
        """The word."""
        return "coverage"

    @property
    def rules(self) -> Sequence[Rule]:
        """The least class loss."""
        return [_most_even]

    def reason(self, choice: "Choice") -> str:
        """Which temperature, and only as much as the rows can show."""
        versus, at_one = choice.comparisons[0], choice.outlooks[0]
        if versus.tells_apart is None or choice.temperature == 1.0:
            return f"{_chosen(choice)} covers the classes most evenly {_where(choice)}."
        if versus.tells_apart and (versus.class_gap or 0.0) < 0:
            gaps = f"class gap {choice.outlook.class_gap:.3f} instead of {at_one.class_gap:.3f}"
            return f"{_chosen(choice)} covers the classes more evenly than T = 1: {gaps}."
        return (
            f"{_chosen(choice)} is the best guess for even class coverage {_where(choice)}, but these rows cannot "
            "tell its class gap from that at T = 1."
        )


class Blend(Preference, frozen=True, tag="blend"):
    """A temperature part of the way from the smallest sets to the most even coverage (the published code's rule)."""

    amount: float

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """A number between 0 and 1."""
        amount = _number(prefer.strip() if isinstance(prefer, str) else prefer)
        return cls(amount) if 0 < amount < 1 else None

    @property
    def text(self) -> str:
        """The number."""
        return _brief(self.amount)

    @property
    def rules(self) -> Sequence[Rule]:
        """Both ends."""
        return [_smallest, _most_even]

    def combined(self, picks: Sequence[float], of_halves: Floats) -> tuple[float, Floats]:
        """Interpolate."""
        beta = self.amount
        return (1 - beta) * picks[0] + beta * picks[1], (1 - beta) * picks[0] + beta * of_halves

    def reason(self, choice: "Choice") -> str:
        """How far."""
        return f"{_chosen(choice)} lies {self.amount:.0%} of the way from the smallest sets to the most even coverage."


class _Budget(Preference, frozen=True):
    """A bound on one thing that makes the most of the other."""

    amount: float

    bound: ClassVar[str]  # what is bounded, as one types it
    most: ClassVar[str]  # what the most is made of

    @property
    def text(self) -> str:
        """What is bounded, and by how much."""
        return f"{self.bound}<={_brief(self.amount)}"

    def reason(self, choice: "Choice") -> str:
        """What the choice has that keeps the budget, or that none does."""
        sure = "with 95% confidence" if choice.selection == "calibration" else "on the calibration rows"
        if choice.met:
            return f"{_chosen(choice)} has {self.most} {_where(choice)} that keeps {self.text} {sure}."
        said = f"No temperature keeps {self.text} {sure}; {_chosen(choice)} comes closest."
        more = choice.rows_needed
        return said if more is None else f"{said} About {more:,} calibration rows would be needed to show it."


class SizeBudget(_Budget, frozen=True, tag="size_budget"):
    """The most even class coverage with at most so many labels on average."""

    bound = "size"
    most = "the most even class coverage"

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """Such as "size<=3"."""
        amount = _bounded(prefer, cls.bound)
        if amount is None:
            return None
        if not _LEAST_SIZE <= amount <= _MOST_SIZE:
            raise InputError(
                f"a size budget must be a number of labels > 0, from {_LEAST_SIZE:g} to {_MOST_SIZE:g}; got "
                f"{quoted(prefer)}. Try 'size<=3'."
            )
        return cls(amount)

    @property
    def rules(self) -> Sequence[Rule]:
        """The least class loss among temperatures whose sets are small enough, with confidence."""

        def within(curves: Curves, searched: Searched) -> Pick:
            upper = np.full(len(searched), np.inf)
            upper[searched] = curves.largest_sizes(searched)
            return _within(upper, self.amount, curves.loss, searched)

        return [within]

    def shortfall(self, choice: "Choice") -> str:
        """Labels, with their interval."""
        return f"{choice.outlook.size:.2f} labels (± {_NORMAL * (choice.outlook.size_error or 0):.2f})"


class GapBudget(_Budget, frozen=True, tag="gap_budget"):
    """The smallest sets with a class gap of at most so much; see `class_gap`."""

    bound = "gap"
    most = "the smallest sets"
    needs_closed_form = True

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """Such as "gap<=0.03"."""
        amount = _bounded(prefer, cls.bound)
        if amount is None:
            return None
        if not 0 <= amount < 1:
            raise InputError(f"a gap budget must be a share from 0 to 1; got {quoted(prefer)}. Try 'gap<=0.03'.")
        return cls(amount)

    @property
    def rules(self) -> Sequence[Rule]:
        """The least size among temperatures whose class gap is small enough, with confidence."""

        def within(curves: Curves, searched: Searched) -> Pick:
            if curves.classes is None:  # the paper's way: TopCovGap as it is seen
                return _within(curves.loss, self.amount, curves.size, searched)
            gaps = ClassGaps(curves.classes.at(searched))
            excess = np.full(len(searched), np.inf)
            excess[searched] = gaps.excess(self.amount)
            few = curves.classes.sample.rows_wanted(curves.classes.level)
            if few is not None:
                return Pick(_least(excess, searched), met=False, rows_needed=few)
            pick = _within(excess, 0.0, curves.size, searched)
            if pick.met:
                return pick
            return replace(pick, rows_needed=gaps.rows_for(self.amount, int(searched[: pick.index].sum())))

        return [within]

    def shortfall(self, choice: "Choice") -> str:
        """The gap, with its interval."""
        at = choice.outlook
        if at.class_gap is None or at.class_gap_ends is None:
            return f"a TopCovGap of {at.top_gap or math.nan:.3f}"
        return f"a class gap of {at.class_gap:.3f} (95%: {at.class_gap_ends[0]:.3f} to {at.class_gap_ends[1]:.3f})"


AnyPreference = Size | EvenCoverage | Blend | SizeBudget | GapBudget
"""What a file may hold: every preference, told apart by its kind."""

PREFERENCES: tuple[type[Preference], ...] = get_args(AnyPreference)
"""Every preference, in the order in which they are tried on what `prefer=` was given."""

_HELP = (
    "prefer must be 'size', 'coverage', a number from 0 (size) to 1 (coverage), or a budget such as 'size<=3' or "
    "'gap<=0.03'"
)


def read_preference(prefer: str | float) -> AnyPreference:
    """Read what `prefer=` and `--prefer` take.

    >>> read_preference("coverage"), read_preference(0.25).text, read_preference("size <= 3")
    (EvenCoverage(), '0.25', SizeBudget(amount=3.0))
    """
    for kind in PREFERENCES:
        read = kind.read(prefer)
        if read is not None:
            return cast("AnyPreference", read)  # the registry is made from it
    raise InputError(f"{_HELP}; got {quoted(prefer)}.")


def _chosen(choice: "Choice") -> str:
    return f"T-hat = {choice.temperature:.2f}"


def _where(choice: "Choice") -> str:
    return "of the temperatures searched" if choice.peak is None else f"up to the size peak T_c = {choice.peak:.2f}"


def _least(values: Floats, among: Searched) -> int:
    return int(np.argmin(np.where(among, values, np.inf)))


def _smallest(curves: Curves, searched: Searched) -> Pick:
    return Pick(_least(curves.size, searched))


def _most_even(curves: Curves, searched: Searched) -> Pick:
    halves = [curves.temperatures[_least(loss, searched)] for loss in curves.loss_of_halves.T]
    return Pick(_least(curves.loss, searched), of_halves=np.array(halves))


def _within(upper: Floats, budget: float, wanted: Floats, searched: Searched) -> Pick:
    """The least of what is wanted where the budget is kept; where it is nowhere, what comes closest."""
    kept = searched & (upper <= budget)
    return Pick(_least(wanted, kept)) if kept.any() else Pick(_least(upper, searched), met=False)


def _is(prefer: object, word: str, number: int) -> bool:
    """Whether it is the word, or the number, also as text."""
    if isinstance(prefer, str):
        return prefer == word or _number(prefer.strip()) == number
    return _number(prefer) == number


def _bounded(prefer: object, bound: str) -> float | None:
    """The number in "bound <= number" (NaN if it is none), or None where something else is written."""
    budget = re.fullmatch(rf"{bound}\s*<=\s*(\S+)", prefer.strip()) if isinstance(prefer, str) else None
    return None if budget is None else _number(budget.group(1))


def _brief(amount: float) -> str:
    return repr(amount).removesuffix(".0")


def _number(value: object) -> float:
    """The number, or NaN: every comparison with it is false."""
    found = exact_number(value)
    return math.nan if found is None or abs(found) > _MOST_SIZE else float(found)
