"""The record of a choice: which setting, why, what it costs, who pays, and how certain it is.

The records are part of the predictor's file, so they refuse fields that they do not know when they are read.
"""

from itertools import pairwise
from typing import Annotated

import msgspec

from thermoset.conformal.recipe import Recipe
from thermoset.errors import InputError
from thermoset.notebook import html_paragraphs
from thermoset.text_tables import TextTable, interval, number, plus_minus
from thermoset.tuning.parts import WORDS, EvenOver, Words
from thermoset.tuning.preferences import AnyPreference

__all__ = ["Choice", "Curve", "Outlook", "Payers", "Signal", "TradeOff"]

_NORMAL = 1.96  # standard errors of a 95% interval


class Payers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who pays for the misses that alpha allows.

    easy : coverage of the tenth of classes (or groups) that are covered best; None where unknown.
    left_out : share of all rows whose top label is correct but not in the set.
    empty : share of empty sets in each fifth of the rows, from the least to the most confident (at T*).
    """

    easy: float | None
    left_out: float
    empty: tuple[float, ...]


class Outlook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What sets of one setting are expected to show on fresh rows; errors are standard errors.

    `class_gap` is the root mean square over classes of class coverage minus overall coverage, corrected for sampling
    noise, and `class_gap_ends` its 95% interval; None where there is no closed form. `worst_tenth` is the mean coverage
    of the tenth of classes covered least, with its 90% interval. `top_gap` is TopCovGap on the calibration rows, each
    half with the threshold of the other: compare it with `Choice.noise_floor`, which is for the same number of rows. It
    is None where some class has fewer than 30 rows. In a choice for groups (see `Choice.even`) all of these are over
    groups of rows instead of classes.
    """

    name: str
    setting: Recipe
    size: float
    size_error: float
    empty_share: float
    class_gap: float | None = None
    class_gap_ends: tuple[float, float] | None = None
    worst_tenth: float | None = None
    worst_tenth_ends: tuple[float, float] | None = None
    top_gap: float | None = None
    payers: Payers | None = None

    @property
    def temperature(self) -> float:
        """Of the setting."""
        return self.setting.temperature


class TradeOff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What T-hat gains and costs compared with another temperature: differences, T-hat minus the other.

    `class_gap_ends` is the 95% interval of the difference in class gap, and `tells_apart` says whether the rows can
    distinguish the two; None where there is no closed form, or the levels differ.
    """

    name: str
    temperature: float
    size: float
    size_error: float | None
    class_gap: float | None
    class_gap_ends: tuple[float, float] | None
    tells_apart: bool | None


class Signal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether the rows show any differences that a choice for even coverage could rest on.

    p_value : how often equally covered classes (or groups) would look as different as these do; None if not tested.
    beats : the probability that the chosen setting has a lower class gap than T = 1; None if not tested.
    tried : the best estimate, where it was rejected in favour of T = 1; else None.
    """

    p_value: float | None = None
    beats: float | None = None
    tried: float | None = None


class Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the choice was made from: expected size and class loss at each temperature searched."""

    temperatures: tuple[float, ...]
    size: tuple[float, ...]
    size_error: tuple[float, ...]
    loss: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse columns of different lengths, and temperatures that do not rise."""
        lengths = {len(self.temperatures), len(self.size), len(self.size_error), len(self.loss)}
        rising = all(a < b for a, b in pairwise((0.0, *self.temperatures)))
        if len(lengths) > 1 or not self.temperatures or not rising:
            raise InputError("a curve must have one entry for each of its temperatures, which must increase.")


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A setting for the sets, and why.

    Attributes
    ----------
    preference : Preference
        What was requested; `prefer` is the same as you would type it.
    alpha : str
        The promised level; the setting's own may be stricter.
    methods : tuple of str
        The kinds of sets that were searched: one, or many with method="auto".
    met : bool
        Whether a budget is met, or the claim about classes holds; True if there is neither.
    sure : float or None
        The probability that a claim about classes holds, given the rows; None if there is no claim.
    peak : float or None
        T_c, the temperature of the largest sets; the search stops there. None where the curve has no peak.
    spread : (float, float) or None
        The interval in which 90% of random halves of the rows put T-hat; None where the choice does not rest on class
        coverage.
    outlooks : tuple of Outlook
        At T = 1 and T* with the promised level, and at the choice.
    comparisons : tuple of TradeOff
        The choice compared with T = 1 and T*.
    frontier : tuple of Outlook
        Settings that no other beats in both size and worst-tenth coverage, and named ones to compare with.
    signal : Signal
        Whether the rows can support a choice for class coverage.
    noise_floor, noise_floor_95 : float
        Mean and 95% quantile that TopCovGap would have on these rows if every class were covered equally.
    n_rows : int
        Number of calibration rows behind the choice.
    rows_needed : int or None
        About how many of them would show that a budget is met, or that T = 1 is beaten; None if no number would.
    curve : Curve
        The search results for the chosen kind of sets.
    even : "class" or "group"
        What coverage is evened over or protected; with "group", read "groups of rows" for "classes" above.
    """

    preference: AnyPreference
    alpha: str
    methods: tuple[str, ...]
    met: bool
    sure: float | None
    peak: float | None
    spread: tuple[float, float] | None
    outlooks: Annotated[tuple[Outlook, ...], msgspec.Meta(min_length=3, max_length=3)]
    comparisons: Annotated[tuple[TradeOff, ...], msgspec.Meta(min_length=2, max_length=2)]
    frontier: tuple[Outlook, ...]
    signal: Signal
    noise_floor: float
    noise_floor_95: float
    n_rows: int
    rows_needed: int | None
    curve: Curve
    even: EvenOver = "class"

    @property
    def words(self) -> Words:
        """What sentences and tables call the classes, or the groups."""
        return WORDS[self.even]

    @property
    def prefer(self) -> str:
        """What was requested, as you would type it."""
        return self.preference.text

    @property
    def target(self) -> float | None:
        """The coverage requested for the worst tenth of classes or groups; None if none was."""
        return self.preference.target(self.alpha)

    @property
    def outlook(self) -> Outlook:
        """At the choice."""
        return self.outlooks[-1]

    @property
    def setting(self) -> Recipe:
        """What was chosen."""
        return self.outlook.setting

    @property
    def temperature(self) -> float:
        """T-hat."""
        return self.setting.temperature

    @property
    def sentences(self) -> tuple[str, ...]:
        """The recommendation, what it gains and costs (± is 95%), who pays, and how certain it is."""
        others = [
            versus for versus, at in zip(self.comparisons, self.outlooks, strict=False) if at.setting != self.setting
        ]
        traded = (_traded(versus, self.words.gap) for versus in others)
        by_hand = len(self.curve.temperatures) == 1
        why = f"T-hat = {self.temperature:.2f} was set by hand." if by_hand else self.preference.reason(self)
        return (why, *traded, *self._paid(), *self._doubts())

    @property
    def legend(self) -> tuple[tuple[str, str], ...]:
        """The terms used in the table and the sentences, explained."""
        terms = [
            ("T*", "the temperature whose probabilities fit the labels best"),
            ("T-hat", "the temperature chosen for the prediction sets"),
        ]
        if self.peak is not None:
            terms.append(("T_c", "the temperature at which sets are largest on average; T-hat is never above it"))
        words = self.words
        if self.outlook.class_gap is not None:
            typical = f"the typical distance between the coverage of a {words.one} and overall coverage"
            terms.append((words.gap, f"{typical} (root mean square over {words.many})"))
        if self.outlook.worst_tenth is not None:
            few = "; with fewer than 15 groups, the coverage of the worst one" if self.even == "group" else ""
            terms.append(("worst tenth", f"the mean coverage of the 10% of {words.many} with the lowest coverage{few}"))
        return tuple(terms)

    @property
    def why(self) -> str:
        """All sentences as one text."""
        return " ".join(self.sentences)

    def __str__(self) -> str:
        return self.why

    def __repr__(self) -> str:
        return f"Choice({self.setting.title}; prefer {self.prefer}; from {self.n_rows:,} rows)"

    def _repr_html_(self) -> str:
        """What a notebook shows: the reasons, and the table."""
        return html_paragraphs(self.why) + self.to_table().to_html()

    def to_table(self) -> TextTable:
        """T = 1, T* and the choice side by side; ± and ranges are 95%, of the worst tenth 90%."""
        head = ("sets at", "T", self.words.gap, "worst tenth", "labels", "empty")
        lines = [(at.name, f"{at.temperature:.2f}", *_cells(at)) for at in self.outlooks]
        return TextTable("choice", f"{self.setting.kind}, from {self.n_rows:,} calibration rows", head, tuple(lines))

    def frontier_table(self) -> TextTable:
        """Every setting of the frontier by size, and what the named ones are called."""
        head = ("", "sets", self.words.gap, "worst tenth", "labels", "empty")
        lines = [(at.name, at.setting.title, *_cells(at)) for at in sorted(self.frontier, key=lambda at: at.size)]
        return TextTable("frontier", f"Alternatives, from {self.n_rows:,} calibration rows", head, tuple(lines))

    def to_markdown(self) -> str:
        """`to_table` for a README or an issue."""
        return self.to_table().to_markdown()

    def to_latex(self) -> str:
        """`to_table` for a paper."""
        return self.to_table().to_latex()

    def _paid(self) -> list[str]:
        pays, one = self.outlook.payers, self.outlooks[0].payers
        if pays is None or one is None or max(pays.left_out, one.left_out) < 0.0005:
            return []
        said = f"{pays.left_out:.1%} of all rows have a correct top label that the set leaves out"
        if self.setting == self.outlooks[0].setting:
            return [f"{said}."]
        return [f"{said} ({self.outlooks[0].name}: {one.left_out:.1%})."]

    def _doubts(self) -> list[str]:
        said = []
        if self.spread is not None and self.signal.tried is None:
            said.append(
                f"Refitting on random halves of the {self.n_rows:,} rows gives T-hat between {self.spread[0]:.2f} and "
                f"{self.spread[1]:.2f} in 90% of cases."
            )
        alike = [c.name for c in self.comparisons if c.tells_apart is False and c.temperature != self.temperature]
        if alike:
            said.append(
                f"On these rows its {self.words.gap} cannot be distinguished from that at {' and '.join(alike)}: the "
                "difference is within the noise."
            )
        return said


def _cells(at: Outlook) -> tuple[str, ...]:
    """What a setting shows, as cells of a table."""
    return (
        interval(at.class_gap, at.class_gap_ends),
        interval(at.worst_tenth, at.worst_tenth_ends),
        plus_minus(at.size, _NORMAL * at.size_error, ".2f"),
        number(at.empty_share, ".1%"),
    )


def _traded(versus: TradeOff, name: str) -> str:
    size = _change(versus.size, versus.size_error, "labels larger", "labels smaller", 2)
    if versus.class_gap is None or versus.class_gap_ends is None:
        return f"Compared with {versus.name}, sets are {size}."
    low, high = versus.class_gap_ends
    change = f"{abs(versus.class_gap):.3f} {'higher' if versus.class_gap > 0 else 'lower'}"
    gap = f"the {name} is {'the same' if round(versus.class_gap, 3) == 0 else change}"
    return f"Compared with {versus.name}, sets are {size} and {gap} (95% interval: {low:+.3f} to {high:+.3f})."


def _change(value: float, error: float | None, more: str, less: str, digits: int) -> str:
    give = "" if error is None else f" ± {_NORMAL * error:.{digits}f}"
    return f"{abs(value):.{digits}f}{give} {more if value > 0 else less}"
