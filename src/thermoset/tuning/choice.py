"""The record of a choice, part of the predictor's file: which setting, why, what it costs, and how certain it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Literal, get_args

import msgspec

from thermoset.conformal.recipe import Recipe
from thermoset.errors import InputError
from thermoset.levels import exact_level
from thermoset.text_tables import AsTable, TextTable, html_paragraphs, interval, number, plus_minus
from thermoset.tuning.preferences import WORDS, AnyPreference, EvenOver, Protect, Words


class MissBreakdown(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which rows lose coverage.

    easy : coverage of the tenth of classes (or groups) that are covered best; None where unknown.
    left_out : share of all rows whose top label is correct but not in the set.
    empty : share of empty sets in each fifth of the rows, from the least to the most confident (at T*).
    """

    easy: float | None
    left_out: float
    empty: tuple[float, ...]


class Outlook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What sets of one setting are expected to show on fresh rows.

    `size_error` is a standard error, and `size_ends` reaches `reach` of them to both sides: 1.96, or more where the
    setting was chosen among many, so that the luckiest of these is covered too. `class_gap` is the root mean square
    over classes of class coverage minus overall coverage, corrected for sampling noise, and `class_gap_ends` its 95%
    interval; None where there is no closed form. `worst_tenth` is the mean coverage of the tenth of classes covered
    least, with its 90% interval. `top_gap` is TopCovGap on the calibration rows, each half with the threshold of the
    other: compare it with `Choice.noise_floor`, which is for the same number of rows. It is None where some class has
    fewer than 30 rows. In a choice for groups (see `Choice.even`) all of these are over groups of rows instead of
    classes.
    """

    name: str
    setting: Recipe
    size: float
    size_error: float
    empty_share: float
    reach: float = 1.96
    class_gap: float | None = None
    class_gap_ends: tuple[float, float] | None = None
    worst_tenth: float | None = None
    worst_tenth_ends: tuple[float, float] | None = None
    top_gap: float | None = None
    misses: MissBreakdown | None = None

    @property
    def temperature(self) -> float:
        """Of the setting."""
        return self.setting.temperature

    @property
    def size_ends(self) -> tuple[float, float]:
        """The 95% interval of the size, never below 0."""
        return max(self.size - self.reach * self.size_error, 0.0), self.size + self.reach * self.size_error


class TradeOff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What T-hat gains and costs compared with another temperature: differences, T-hat minus the other.

    `size_ends` and `class_gap_ends` are 95% intervals of the differences, whichever setting was chosen, and
    `tells_apart` says whether the rows can distinguish the class gaps of the two; None where there is no closed form,
    or the levels differ.
    """

    name: str
    temperature: float
    size: float
    size_ends: tuple[float, float] | None
    class_gap: float | None
    class_gap_ends: tuple[float, float] | None
    tells_apart: bool | None


class Signal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What random halves of the rows say for a choice of even coverage.

    beats : the share of halves in which the temperature is more even than T = 1; None if nothing was compared.
    tried : the best estimate, where it was rejected in favour of T = 1; else None.
    """

    beats: float | None = None
    tried: float | None = None


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What came of a request to cover the worst tenth of classes at least so much of the time.

    claims : what the claim rests on; shortage : which rows are missing for any claim, in words, or nothing.
    """

    claims: Literal["model", "distribution-free"]
    shortage: str = ""

    @property
    def enough_rows(self) -> bool:
        """Whether there are rows enough for a claim; whether it holds is `Choice.met`."""
        return not self.shortage


class Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What sets show at each temperature searched, at the level of the threshold (`alpha`).

    `class_gap` is that of an outlook; `loss` is the class loss, which ranks temperatures. None where not measured.
    """

    alpha: str
    temperatures: tuple[float, ...]
    size: tuple[float, ...]
    size_error: tuple[float, ...]
    class_gap: tuple[float, ...] | None = None
    loss: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse columns of different lengths, and temperatures that do not rise."""
        columns = (self.temperatures, self.size, self.size_error, self.class_gap, self.loss)
        lengths = {len(column) for column in columns if column is not None}
        rising = all(a < b for a, b in pairwise((0.0, *self.temperatures)))
        if len(lengths) > 1 or not self.temperatures or not rising:
            raise InputError("a curve must have one entry for each of its temperatures, which must increase.")


class Choice(AsTable, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A setting for the sets, and why.

    Attributes
    ----------
    preference : Preference
        What was requested; `prefer` is the same as you would type it.
    alpha : str
        The promised level; the setting's own may be stricter.
    methods : tuple of str
        The kinds of sets that were searched: one, or several with method="auto".
    met : bool
        Whether a budget is met, or the claim about classes is made; True if there is neither.
    sure : float or None
        The confidence of a claim about classes that is made, 0.95; None if none is.
    claim : Claim or None
        What came of a request about hard classes; None if there was none.
    tied : bool
        Whether another kind of sets looks more even, but the rows cannot show it, and this one has smaller sets.
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
        Named settings to compare with, and LAC at stricter levels.
    signal : Signal
        What random halves of the rows say for a choice of even coverage.
    noise_floor, noise_floor_95 : float
        Mean and 95% quantile that TopCovGap would have on these rows if every class were covered equally.
    n_rows : int
        Number of calibration rows behind the choice.
    curve : Curve
        What the chosen kind of sets shows at each temperature.
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
    curve: Curve
    claim: Claim | None = None
    tied: bool = False
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
    def is_simplest(self) -> bool:
        """Whether the first of the kinds of sets was chosen, at T = 1 and the promised level."""
        return self.temperature == 1.0 and self.setting.kind == self.methods[0] and not is_stricter(self)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The recommendation, what it gains and costs, what hard classes get, and how certain it is."""
        pairs = zip(self.comparisons, self.outlooks, strict=False)
        traded = (_comparison(versus, self.words.gap) for versus, at in pairs if at.setting != self.setting)
        by_hand = len(self.curve.temperatures) == 1
        why = f"T-hat = {self.temperature:.2f} was set by hand." if by_hand else self.preference.reason(self)
        return (why, *traded, *_left_out(self), *self.hard_classes, *_doubts(self))

    @property
    def hard_classes(self) -> tuple[str, ...]:
        """In up to three lines: what hard classes (or groups) get, and what more would cost."""
        at = self.outlook
        if at.worst_tenth is None or at.worst_tenth_ends is None:
            return ()
        low, high = at.worst_tenth_ends
        lines = [
            f"Worst tenth of {self.words.many}: covered {at.worst_tenth:.2f} of the time ({low:.2f} to {high:.2f})."
        ]
        by_name = {one.name: one for one in self.frontier}
        if self.target is None and (more := by_name.get(PREFER_PROTECT)) is not None:
            claimed = f"with at least {Protect().target(self.alpha):.3g} claimed"
            lines.append(f"With prefer protect it would be {_offer(more)}, {claimed}.")
        if (more := by_name.get(A_STRICTER_ALPHA)) is not None and more.setting.alpha != self.setting.alpha:
            lines.append(f"With alpha {more.setting.alpha} it would be {_offer(more)}.")
        return tuple(lines)

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
        """Every setting of the frontier once, by size, and what the named ones are called."""
        head = ("", "sets", self.words.gap, "worst tenth", "labels", "empty")
        by_size = sorted(settings_of(self), key=lambda one: one.outlook.size)
        lines = [(one.name, one.outlook.setting.title, *_cells(one.outlook)) for one in by_size]
        return TextTable("frontier", f"Alternatives, from {self.n_rows:,} calibration rows", head, tuple(lines))


def _cells(at: Outlook) -> tuple[str, ...]:
    """What a setting shows, as cells of a table."""
    return (
        interval(at.class_gap, at.class_gap_ends),
        interval(at.worst_tenth, at.worst_tenth_ends),
        plus_minus(at.size, at.reach * at.size_error, ".2f"),
        number(at.empty_share, ".1%"),
    )


# ---- in sentences ---------------------------------------------------------------------------------------------------

PREFER_PROTECT, A_STRICTER_ALPHA = "prefer protect", "a stricter alpha"
"""Names of settings of the frontier that a screen offers."""


def _offer(at: Outlook) -> str:
    return f"{at.worst_tenth or 0:.2f}, in sets of {at.size:.1f} labels"


def warning_of(choice: Choice, n_classes: int) -> str | None:
    """A warning where a request was not met, or where protecting hard classes takes more than half of all labels."""
    at, plain = choice.outlook, choice.outlooks[0]
    if not choice.met:
        short = choice.preference.shortfall(choice)
        if choice.target is None:
            what = "temperature" if len(choice.methods) == 1 else "setting"
            where = f"{choice.setting.title} has {short}"
            return f"no {what} meets {choice.prefer} with 95% confidence; {where}. Ask for less."
        advice = "Ask for less" if choice.claim is None or choice.claim.enough_rows else "Add rows"
        return (
            f"nothing is claimed about hard {choice.words.many} ({choice.prefer}); {short}. The promised level is "
            f"kept. {advice}."
        )
    if choice.target is None or at.size <= max(n_classes / 2, 1.5):  # one of two is not too many
        return None
    return (
        f"{choice.prefer} takes {at.size:.1f} of {n_classes:,} labels on average, more than half; {plain.name} at the "
        f"promised level has {plain.size:.1f}. Ask for less, or use prefer='small'."
    )


def _left_out(choice: Choice) -> list[str]:
    now, one = choice.outlook.misses, choice.outlooks[0].misses
    if now is None or one is None or max(now.left_out, one.left_out) < 0.0005:
        return []
    plain = choice.outlooks[0]
    versus = "" if choice.setting == plain.setting else f" ({plain.name}: {one.left_out:.1%})"
    return [f"{now.left_out:.1%} of all rows have a correct top label that the set leaves out{versus}."]


def _doubts(choice: Choice) -> list[str]:
    doubts = []
    if choice.spread is not None and choice.signal.tried is None:
        doubts.append(
            f"Refitting on random halves of the {choice.n_rows:,} rows gives T-hat between {choice.spread[0]:.2f} and "
            f"{choice.spread[1]:.2f} in 90% of cases."
        )
    alike = [c.name for c in choice.comparisons if c.tells_apart is False and c.temperature != choice.temperature]
    if alike:
        doubts.append(
            f"On these rows its {choice.words.gap} cannot be distinguished from that at {' and '.join(alike)}: the "
            "difference is within the noise."
        )
    return doubts


def _comparison(versus: TradeOff, name: str) -> str:
    more = "larger" if versus.size > 0 else "smaller"
    size = f"{abs(versus.size):.2f} labels {more}"
    if versus.size_ends is not None:
        size += f" (95% interval: {versus.size_ends[0]:+.2f} to {versus.size_ends[1]:+.2f})"
    if versus.class_gap is None or versus.class_gap_ends is None:
        return f"Compared with {versus.name}, sets are {size}."
    low, high = versus.class_gap_ends
    change = f"{abs(versus.class_gap):.3f} {'higher' if versus.class_gap > 0 else 'lower'}"
    gap = f"the {name} is {'the same' if round(versus.class_gap, 3) == 0 else change}"
    return f"Compared with {versus.name}, sets are {size} and {gap} (95% interval: {low:+.3f} to {high:+.3f})."


# ---- alternatives ----------------------------------------------------------------------------------------------------

Front = Literal["worst_tenth", "class_gap"]

FRONTS: tuple[Front, ...] = get_args(Front)
"""What the size of sets is weighed against."""


def front_titles(choice: Choice) -> dict[Front, str]:
    """What each frontier weighs size against, in words: for classes, or for the groups that the choice evens out."""
    words = choice.words
    return {"worst_tenth": f"coverage of the worst tenth of {words.many}", "class_gap": words.gap}


@dataclass(frozen=True)
class Alternative:
    """A setting and its names: the recommended one, another to compare it with, or one without a name."""

    names: tuple[str, ...]
    outlook: Outlook
    chosen: bool = False

    @property
    def size_interval(self) -> tuple[float, float]:
        """The 95% interval of the size."""
        return self.outlook.size_ends

    def interval(self, metric: Front) -> tuple[float, float]:
        """The interval of a metric: 90% for the worst tenth, 95% for the class gap; the value, twice, without one."""
        value: float = getattr(self.outlook, metric)
        ends: tuple[float, float] | None = getattr(self.outlook, f"{metric}_ends")
        return (value, value) if ends is None else ends

    @property
    def name(self) -> str:
        """All names in one."""
        return ", ".join(self.names)


def settings_of(choice: Choice) -> tuple[Alternative, ...]:
    """Every setting of the frontier once: the recommended one first, then by set size.

    A setting with several names is listed once, with all of them. A choice without a frontier gives an empty result.
    """
    if not choice.frontier:
        return ()
    settings = [Alternative(("recommended",), choice.outlook, chosen=True)]
    for at in sorted(choice.frontier, key=lambda at: at.size):
        place = next((i for i, one in enumerate(settings) if one.outlook.setting == at.setting), None)
        names = (at.name,) if at.name else ()
        if place is None:
            settings.append(Alternative(names, at))
        elif not set(names) <= set(settings[place].names):
            settings[place] = replace(settings[place], names=(*settings[place].names, *names))
    return tuple(settings)


def alternatives(choice: Choice) -> tuple[Alternative, ...]:
    """Settings with a name: the recommended one first, then the others."""
    return tuple(one for one in settings_of(choice) if one.names)


def drawable(choice: Choice, metric: Front) -> tuple[Alternative, ...]:
    """The settings whose metric is known."""
    return tuple(
        one for one in settings_of(choice) if getattr(one.outlook, metric) is not None and one.outlook.size > 0
    )


def target_of(choice: Choice, metric: Front) -> float | None:
    """The coverage requested for hard classes or groups, if any."""
    return choice.target if metric == "worst_tenth" else None


def front(outlooks: Sequence[Outlook], metric: Front) -> tuple[Outlook, ...]:
    """The outlooks that no other one beats in both size and the metric, smallest sets first.

    High coverage of the worst tenth is good, and so is a small class gap. Outlooks with an unknown metric are omitted.
    """
    sign = 1.0 if metric == "worst_tenth" else -1.0
    known = [(at.size, -sign * value, at) for at in outlooks if (value := getattr(at, metric)) is not None]
    kept: list[Outlook] = []
    best = float("inf")
    for _, value, at in sorted(known, key=lambda entry: entry[:2]):
        if value < best:
            best = value
            kept.append(at)
    return tuple(kept)


def is_stricter(choice: Choice) -> bool:
    """Whether the threshold is set for a stricter level than the promised one."""
    return exact_level(choice.setting.alpha) < exact_level(choice.alpha)


def tells_setting(choice: Choice) -> bool:
    """Whether more than a temperature was chosen: other scores or levels were candidates too."""
    return len(choice.methods) > 1 or is_stricter(choice)
