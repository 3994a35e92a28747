"""The alternatives to the choice: the named settings of its frontier, and the frontier itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from thermoset.levels import exact_level
from thermoset.tuning.choice import Choice, Outlook

__all__ = [
    "FRONTS",
    "Alternative",
    "Front",
    "alternatives",
    "drawable",
    "front",
    "front_titles",
    "is_stricter",
    "settings_of",
    "target_of",
    "tells_setting",
]

Front = Literal["worst_tenth", "class_gap"]

FRONTS: tuple[Front, ...] = get_args(Front)
"""What the size of sets is weighed against."""

_CHOSEN = "recommended"
_NORMAL = 1.96  # standard errors of a 95% interval


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
        """The 95% interval of the size, never below 0."""
        reach = _NORMAL * self.outlook.size_error
        return max(self.outlook.size - reach, 0.0), self.outlook.size + reach

    def interval(self, metric: Front) -> tuple[float, float]:
        """The interval of a metric: 90% for the worst tenth, 95% for the class gap; the value, twice, without one."""
        value: float = getattr(self.outlook, metric)
        ends: tuple[float, float] | None = getattr(self.outlook, f"{metric}_ends")
        return (value, value) if ends is None else ends

    def bars(self, metric: Front) -> tuple[tuple[tuple[float, float], tuple[float, float]], ...]:
        """Both intervals as lines from one point to another, sizes first."""
        value: float = getattr(self.outlook, metric)
        left, right = (max(end, self.outlook.size / 2) for end in self.size_interval)  # an axis may be logarithmic
        low, high = self.interval(metric)
        return ((left, value), (right, value)), ((self.outlook.size, low), (self.outlook.size, high))

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
    found = [Alternative((_CHOSEN,), choice.outlook, chosen=True)]
    for at in sorted(choice.frontier, key=lambda at: at.size):
        place = next((i for i, one in enumerate(found) if one.outlook.setting == at.setting), None)
        names = (at.name,) if at.name else ()
        if place is None:
            found.append(Alternative(names, at))
        elif not set(names) <= set(found[place].names):
            found[place] = replace(found[place], names=(*found[place].names, *names))
    return tuple(found)


def alternatives(choice: Choice) -> tuple[Alternative, ...]:
    """The named settings: the recommended one first, then those to compare it with.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 800)
    >>> predictor = ts.TwoTemperaturePredictor().fit(3 * (rng.normal(size=(800, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> alternatives(predictor.choice_)[0].names[0]
    'recommended'
    """
    return tuple(one for one in settings_of(choice) if one.names)


def drawable(choice: Choice, metric: Front) -> tuple[Alternative, ...]:
    """The settings whose metric is known."""
    every = settings_of(choice)
    return tuple(one for one in every if getattr(one.outlook, metric) is not None and one.outlook.size > 0)


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
