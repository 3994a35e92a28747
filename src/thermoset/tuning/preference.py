"""What the user wants of the sets. A registry: a preference is a class here, with its rule and what it says.

A preference reads itself from what `prefer=` takes, picks among the estimates of the search, and explains the pick. It
is part of a `Choice`, and so of the predictor's file, under its kind.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, cast, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import exact_number
from thermoset.errors import InputError
from thermoset.quoting import quoted
from thermoset.tuning.closed_form import Curves, Floats

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
_ONE_SIDED = 1.645  # standard errors a budget is kept by
_NORMAL = 1.96  # of a 95% interval

Searched = NDArray[np.bool_]
"""Which temperatures of the curves may be picked."""


@dataclass(frozen=True)
class Pick:
    """The place of a choice among temperatures, whether it keeps the budget, and what random halves choose."""

    index: int
    met: bool = True
    of_halves: Floats = field(default_factory=lambda: np.empty(0))


Rule = Callable[[Curves, Searched], Pick]


class Estimates(Protocol):
    """What a rule may ask for beyond the curves."""

    def gap_floor(self) -> float:
        """Mean TopCovGap by chance alone."""
        ...

    def upper_gaps(self, temperatures: Floats, errors: float) -> Floats:
        """TopCovGap at each temperature, and so many standard errors more."""
        ...


class Preference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What T-hat is chosen for."""

    parts: ClassVar[int] = 2
    """Parts of the calibration rows that thresholds are taken from: each needs as many rows as alpha asks for."""

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

    def rules(self, estimates: Estimates) -> Sequence[Rule]:
        """How to pick: by one rule, or by several whose temperatures `combined` makes into one."""
        raise NotImplementedError

    def combined(self, picks: Sequence[float], of_halves: Floats) -> tuple[float, Floats]:
        """The temperature from those that the rules picked, and the same of random halves of the rows."""
        return picks[0], of_halves

    def reason(self, choice: "Choice") -> str:
        """The recommendation in a sentence."""
        raise NotImplementedError

    def shortfall(self, choice: "Choice") -> str:
        """What the closest temperature has, where no temperature keeps a budget."""
        raise NotImplementedError

    def doubts(self, choice: "Choice") -> Sequence[str]:  # noqa: ARG002
        """Sentences about what the rows cannot tell, if there are any."""
        return []


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

    def rules(self, estimates: Estimates) -> Sequence[Rule]:  # noqa: ARG002
        """The least expected size."""
        return [_smallest]

    def reason(self, choice: "Choice") -> str:
        """Where, and how many sets are empty: that is how sets become very small."""
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

    def rules(self, estimates: Estimates) -> Sequence[Rule]:  # noqa: ARG002
        """The least class loss."""
        return [_most_even]

    def reason(self, choice: "Choice") -> str:
        """Where."""
        return f"{_chosen(choice)} covers the classes most evenly {_where(choice)}."


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

    def rules(self, estimates: Estimates) -> Sequence[Rule]:  # noqa: ARG002
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
        return f"No temperature keeps {self.text} {sure}; {_chosen(choice)} comes closest."


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

    def rules(self, estimates: Estimates) -> Sequence[Rule]:  # noqa: ARG002
        """The least class loss among temperatures whose sets are small enough, with confidence."""

        def within(curves: Curves, searched: Searched) -> Pick:
            upper = curves.size + _ONE_SIDED * np.nan_to_num(curves.size_error)  # the paper's way knows no error
            return _within(upper, self.amount, curves.loss, searched)

        return [within]

    def shortfall(self, choice: "Choice") -> str:
        """Labels, with their interval."""
        return f"{choice.outlook.size:.2f} labels (± {_NORMAL * (choice.outlook.size_error or 0):.2f})"


class GapBudget(_Budget, frozen=True, tag="gap_budget"):
    """The smallest sets whose TopCovGap exceeds its noise floor by at most so much."""

    bound = "gap"
    most = "the smallest sets"
    parts = 4  # halves of halves tell how sure the gap is
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

    def rules(self, estimates: Estimates) -> Sequence[Rule]:
        """The least size among temperatures whose gap is small enough, with confidence."""
        most = self.amount + estimates.gap_floor()

        def within(curves: Curves, searched: Searched) -> Pick:
            upper = np.full(len(searched), np.inf)
            upper[searched] = estimates.upper_gaps(curves.temperatures[searched], _ONE_SIDED)
            return _within(upper, most, curves.size, searched)

        return [within]

    def shortfall(self, choice: "Choice") -> str:
        """The gap beside its floor."""
        return f"a TopCovGap of {choice.outlook.top_gap:.3f} over a noise floor of {choice.noise_floor:.3f}"

    def doubts(self, choice: "Choice") -> Sequence[str]:
        """Whether chance alone may exceed the budget."""
        room = choice.noise_floor_95 - choice.noise_floor
        if room <= self.amount:
            return []
        told = f"On {choice.n_rows:,} rows TopCovGap exceeds its floor by up to {room:.3f} by chance alone"
        return [f"{told}: too few to see whether this budget is kept."]


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
