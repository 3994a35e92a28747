"""What sets are chosen for: each preference reads `prefer=`, says which rows and rules it needs, and explains itself.

A preference is a class below, in the union `AnyPreference`; nothing else names one. It is part of a `Choice`, and so of
the predictor's file, under its kind.
"""

import math
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, cast, get_args

import msgspec

from thermoset.bounds import exact_number
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.quoting import quoted

if TYPE_CHECKING:
    from thermoset.tuning.choice import Choice
    from thermoset.tuning.estimates import Estimates, Pick

EvenOver = Literal["class", "group"]
"""What a choice evens out or protects."""

_MOST_SIZE, _LEAST_SIZE = 1e9, 1e-9  # labels in a set on average
_SHORT = 1.5  # without a number, hard classes may be missed this many times as often as all rows
_FEW_ROWS = 1_000  # calibration rows that are enough to choose for size, or half of all


def calibration_share(n_rows: int, fewest: int = _FEW_ROWS) -> str:
    """A fifth of the rows, but at least so many, or half of them: for what takes few calibration rows."""
    wanted = max(n_rows // 5, min(n_rows // 2, fewest))
    return "0.5" if wanted == n_rows // 2 else f"{math.ceil(wanted / n_rows * 10**9) / 10**9:.9f}".rstrip("0")


class Words(NamedTuple):
    """The words for messages: one part, several, and the registry name of the metrics of these parts."""

    one: str
    many: str
    top_gap: str

    @property
    def gap(self) -> str:
        """The gap of `class_gap`."""
        return f"{self.one} gap"

    def title(self, title: str) -> str:
        """The title of a class metric, applied to these parts."""
        return title if self.one == "class" else f"{title} over {self.many}"


WORDS: dict[EvenOver, Words] = {
    "class": Words("class", "classes", "top_coverage_gap"),
    "group": Words("group", "groups", "top_group_coverage_gap"),
}
"""Words by what is evened out."""


def checked_even(even: object) -> EvenOver:
    """One of the two words."""
    if isinstance(even, str) and even in get_args(EvenOver):
        return cast("EvenOver", even)
    raise InputError(f"even must be 'class' or 'group'; got {quoted(even)}.")


class Preference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What a setting is chosen for."""

    needs_closed_form: ClassVar[bool] = False
    """Whether it applies only to sets with a closed form: see `Recipe.closed_form`."""

    evens_out: ClassVar[bool] = False
    """Whether settings that meet the request are ranked by how evenly classes are covered; if not, by size."""

    may_go_by_class: ClassVar[bool] = False
    """Whether thresholds by class may take the place of a temperature, where they cover classes more evenly."""

    is_about_classes: ClassVar[bool] = True
    """Whether classes (or groups) without calibration rows matter to it."""

    over: ClassVar[EvenOver | None] = None
    """What it applies to: "class" or "group", or None for both."""

    word: ClassVar[str] = ""
    """How it is typed without a number, if it can be."""

    bound: ClassVar[str] = ""
    """How it is typed with a number, such as "size<=", if it can be; the number is `amount`."""

    tried: ClassVar[str] = ""
    """A number to try, for messages."""

    wanted: ClassVar[str] = ""
    """What the number must be, for messages."""

    amount: float | None = None

    @classmethod
    def read(cls, prefer: object) -> "Preference | None":
        """Read what `prefer=` takes, or None if it names something else."""
        if not isinstance(prefer, str):
            return None
        if cls.word and prefer == cls.word:
            return cls()
        sign = cls.bound[-2:]
        name, separator, number = prefer.strip().partition(sign) if sign else (prefer, "", "")
        if not separator or name.rstrip() != cls.bound[:-2] or len(number.split()) != 1:
            return None
        amount = exact_number(number.strip())
        if amount is None or abs(amount) > _MOST_SIZE or not cls.allows(float(amount)):
            raise InputError(f"{cls.wanted}; got {quoted(prefer)}. Try '{cls.bound}{cls.tried}'.")
        return cls(float(amount))

    @classmethod
    def allows(cls, amount: float) -> bool:
        """Whether the bound may be this number: a coverage, unless a preference says otherwise."""
        return 0 < amount < 1

    @property
    def text(self) -> str:
        """As one would type it."""
        return self.word if self.amount is None else f"{self.bound}{repr(self.amount).removesuffix('.0')}"

    def calibration_share(self, n_rows: int) -> str:  # noqa: ARG002
        """The share of labelled rows that choose; the others set the threshold."""
        return "0.5"

    def target(self, alpha: Alpha) -> float | None:  # noqa: ARG002
        """The coverage that hard classes must reach at a promised level; None where there is no such demand."""
        return None

    def pick(self, estimates: "Estimates") -> "Pick":
        """A temperature of one candidate, at the promised level."""
        raise NotImplementedError

    def reason(self, choice: "Choice") -> str:
        """The recommendation in a sentence."""
        raise NotImplementedError

    def shortfall(self, choice: "Choice") -> str:
        """What is reached, where the request is not met."""
        raise NotImplementedError


class Small(Preference, frozen=True, tag="small"):
    """The smallest sets; LAC at T = 1 unless the rows show that others are smaller."""

    word = "small"
    is_about_classes = False

    def calibration_share(self, n_rows: int) -> str:
        """Few: size takes few rows to judge."""
        return calibration_share(n_rows)

    def pick(self, estimates: "Estimates") -> "Pick":
        """The least size that is shown to be less than at T = 1."""
        return estimates.smallest()

    def reason(self, choice: "Choice") -> str:
        """Which setting, that simpler ones are larger, and how many sets are empty: that is how sets become small."""
        at = choice.outlook
        if choice.is_simplest:
            return f"{_title(choice)}: no {_what(choice)} gives sets smaller by more than the estimation error."
        empty = f"({at.empty_share:.1%} of them empty)"
        return f"{_title(choice)} gives the smallest sets {_where(choice)} {empty}."


class Even(Preference, frozen=True, tag="even"):
    """The most even coverage of classes or groups at exactly the promised coverage: the paper's aim, for classes."""

    word = "even"
    evens_out = True
    may_go_by_class = True

    def pick(self, estimates: "Estimates") -> "Pick":
        """The least class loss over random halves of the rows; T = 1 unless most of the halves are against it."""
        return estimates.most_even()

    def reason(self, choice: "Choice") -> str:
        """Which setting, and only as much as the rows can show; T = 1 where they show nothing."""
        signal, words, one = choice.signal, choice.words, choice.outlooks[0]
        rows = f"these {choice.n_rows:,} rows"
        if signal.tried is not None:
            return (
                f"Keep T = 1: {signal.tried:.2f} has the lowest {words.one} loss on {rows}, but covers the "
                f"{words.many} more evenly in only {signal.beats or 0:.0%} of random halves of them."
            )
        if choice.tied:
            return (
                f"{_title(choice)} has the smallest sets of all {_where(choice).removeprefix('among ')} that {rows} "
                f"cannot tell from the most even one."
            )
        if signal.beats is None or choice.temperature == 1.0:
            return f"{_title(choice)} covers the {words.many} most evenly {_where(choice)}."
        gaps = f"{words.gap} {choice.outlook.class_gap or 0:.3f} instead of {one.class_gap or 0:.3f}"
        return (
            f"{_title(choice)} covers the {words.many} more evenly than T = 1 in {signal.beats:.0%} of random halves "
            f"of {rows}: {gaps}."
        )


class Protect(Preference, frozen=True, tag="protect"):
    """The smallest sets whose worst tenth of classes or groups is covered so often: without a number, 1 - 1.5 alpha."""

    word = "protect"
    needs_closed_form = True

    def pick(self, estimates: "Estimates") -> "Pick":
        """The sets that stand where the claim cannot be made: as for "small"."""
        return estimates.smallest()

    def target(self, alpha: Alpha) -> float | None:
        """The coverage that the worst tenth of classes must reach."""
        return 1 - _SHORT * float(exact_level(alpha)) if self.amount is None else self.amount

    def reason(self, choice: "Choice") -> str:
        """The claim; or that the rows do not support it, and which kind of "not" that is."""
        target, at, claim = choice.target or 0.0, choice.outlook, choice.claim
        worst = f"the worst tenth of {choice.words.many}"
        if choice.met:
            return (
                f"{_title(choice)} gives the smallest sets {_where(choice)} that cover {worst} at least {target:.3g} "
                f"of the time, with 95% confidence: {at.size:.2f} labels on average, {_tenth(choice)}."
            )
        kept = f"The promised level is kept: {_title(choice)}."
        if claim is not None and not claim.enough_rows:
            return f"Too few rows to say how well {worst} is covered: {claim.shortage}. {kept}"
        return f"No level shows that {worst} is covered at least {target:.3g} of the time. {kept}"

    def shortfall(self, choice: "Choice") -> str:
        """What is missing: rows, or coverage."""
        claim = choice.claim
        if claim is not None and not claim.enough_rows:
            return f"too few rows: {claim.shortage}"
        return f"not reached: at the promised level, {_tenth(choice)}"


class ProtectClasses(Protect, frozen=True, tag="classes"):
    """The same for the hard classes, with a number."""

    word, bound, tried, over = "", "classes>=", "0.85", "class"
    wanted = "the coverage of hard classes must be between 0 and 1"


class ProtectGroups(Protect, frozen=True, tag="groups"):
    """The same for the hard groups of rows, with a number."""

    word, bound, tried, over = "", "groups>=", "0.85", "group"
    wanted = "the coverage of hard groups must be between 0 and 1"


class _Budget(Preference, frozen=True):
    """A bound on one quantity that optimises the other."""

    most: ClassVar[str]  # what the most is made of; {} is a class, or a group

    def reason(self, choice: "Choice") -> str:
        """How the choice meets the budget, or that none does."""
        if choice.met:
            most = self.most.format(choice.words.one)
            return f"{_title(choice)} gives {most} {_where(choice)} while meeting {self.text} with 95% confidence."
        return f"No {_what(choice)} meets {self.text} with 95% confidence; {_title(choice)} is kept."


class SizeBudget(_Budget, frozen=True, tag="size_budget"):
    """The most even class coverage with at most a given number of labels on average."""

    bound, tried = "size<=", "3"
    wanted = f"a size budget must be a positive number of labels, from {_LEAST_SIZE:g} to {_MOST_SIZE:g}"
    most = "the most even {} coverage"
    evens_out = True

    @classmethod
    def allows(cls, amount: float) -> bool:
        """Any number of labels."""
        return _LEAST_SIZE <= amount <= _MOST_SIZE

    def pick(self, estimates: "Estimates") -> "Pick":
        """The lowest class loss among temperatures whose sets are small enough, with confidence in all at once."""
        return estimates.most_even_within(self.amount or 0.0)

    def shortfall(self, choice: "Choice") -> str:
        """Labels, with their interval."""
        low, high = choice.outlook.size_ends
        return f"{choice.outlook.size:.2f} labels (95%: {low:.2f} to {high:.2f})"


class GapBudget(_Budget, frozen=True, tag="gap_budget"):
    """The smallest sets whose class gap is at most a given value; see `class_gap`."""

    bound, tried = "gap<=", "0.03"
    wanted = "a gap budget must be a number from 0 to 1"
    most = "the smallest sets"
    needs_closed_form = True

    @classmethod
    def allows(cls, amount: float) -> bool:
        """A difference of two shares."""
        return 0 <= amount < 1

    def pick(self, estimates: "Estimates") -> "Pick":
        """The least size among temperatures whose class gap is small enough, with confidence in all at once."""
        return estimates.smallest_within(self.amount or 0.0)

    def shortfall(self, choice: "Choice") -> str:
        """The gap, with its interval."""
        at = choice.outlook
        if at.class_gap is None or at.class_gap_ends is None:
            return f"a {choice.words.title('TopCovGap')} of {at.top_gap or math.nan:.3f}"
        low, high = at.class_gap_ends
        return f"a {choice.words.gap} of {at.class_gap:.3f} (95%: {low:.3f} to {high:.3f})"


AnyPreference = Small | Even | Protect | ProtectClasses | ProtectGroups | SizeBudget | GapBudget
"""What a file may hold: every preference, distinguished by its kind."""

PREFERENCES: tuple[type[Preference], ...] = get_args(AnyPreference)
"""Every preference, in the order in which they are tried on what `prefer=` was given."""


def read_preference(prefer: str) -> AnyPreference:
    """Parse the value of `prefer=` or `--prefer`.

    >>> read_preference("even"), read_preference("classes >= 0.85"), read_preference("size<=3.0").text
    (Even(amount=None), ProtectClasses(amount=0.85), 'size<=3')
    """
    for kind in PREFERENCES:
        read = kind.read(prefer)
        if read is not None:
            return cast("AnyPreference", read)  # the registry is made from it
    raise InputError(
        "prefer must be 'small', 'even', 'protect', or a bound such as 'classes>=0.85' ('groups>=0.85' with "
        f"even='group'), 'size<=3' or 'gap<=0.03'; got {quoted(prefer)}."
    )


def _title(choice: "Choice") -> str:
    """The choice in a word or two: the temperature, and the kind of sets and level where these were chosen too."""
    if len(choice.methods) > 1 or choice.setting.alpha != choice.alpha:
        return choice.setting.title
    return f"T-hat = {choice.temperature:.2f}"


def _where(choice: "Choice") -> str:
    """What was searched."""
    if len(choice.methods) > 1:
        return f"among {len(choice.methods)} kinds of sets"
    return "among the temperatures searched" if choice.peak is None else f"up to the size peak T_c = {choice.peak:.2f}"


def _what(choice: "Choice") -> str:
    """What the alternatives were."""
    return "other temperature" if len(choice.methods) == 1 else "other setting"


def _tenth(choice: "Choice") -> str:
    at = choice.outlook
    if at.worst_tenth is None or at.worst_tenth_ends is None:
        return "worst-tenth coverage unknown"
    low, high = at.worst_tenth_ends
    return f"worst-tenth coverage {at.worst_tenth:.3f} ({low:.3f} to {high:.3f})"
