"""Thresholds by group of rows: which threshold a row has, and what a group without conformal rows gets.

Each group's threshold comes from its own conformal rows, so that its coverage follows its own exact law: with n rows
behind the threshold and k = ceil((n + 1)(1 - alpha)), hits among m fresh rows of the group are Beta-Binomial(m; k,
n + 1 - k), whatever the shares of the groups are by then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thermoset.core.exponentials import Ints
from thermoset.core.levels import Alpha, rows_needed
from thermoset.core.thresholds import ScorePairs
from thermoset.data import Logits
from thermoset.data.groups import Groups, listed_groups
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = [
    "FALLBACKS",
    "Applied",
    "RowThresholds",
    "check_fallback",
    "codes_of",
    "fitted_groups",
    "largest",
    "stacked",
    "too_few_rows",
]

FALLBACKS = ("pooled", "strictest")
"""Fallbacks for a group without its own threshold: that of all rows together, or the largest of any group."""

_NAMED = 5  # groups a message names before it says how many more there are


def check_fallback(fallback: Any, grouping: str | None) -> None:
    """Refuse an unknown fallback, or one that cannot apply.

    >>> check_fallback("pooled", None)
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: fallback is only for grouping='group'; got grouping=None. Omit fallback.
    """
    if fallback is None:
        return
    if not isinstance(fallback, str) or fallback not in FALLBACKS:
        names = " or ".join(repr(name) for name in FALLBACKS)
        raise InputError(f"fallback must be None, {names}; got {quoted(fallback)}. None rejects unknown groups.")
    if grouping != "group":
        raise InputError(f"fallback is only for grouping='group'; got grouping={quoted(grouping)}. Omit fallback.")


def fitted_groups(data: Logits, purpose: str) -> Groups:
    """The groups of conformal rows; refused where nearly every row has one of its own."""
    groups = data.require_groups(purpose)
    found = int(np.count_nonzero(groups.counts))
    if found > max(len(groups) // 2, 1):
        raise InputError(
            f"groups has {found:,} different values in {len(groups):,} rows: a threshold needs many rows of each "
            "group, and this looks like one id per row. Pass a column whose values many rows share, such as site or "
            "device."
        )
    return groups


class Applied(NamedTuple):
    """Thresholds of some levels, and which of them each row has; None where that does not depend on the row."""

    table: ScorePairs
    codes: Ints | None


def stacked(thresholds: Sequence[ScorePairs]) -> ScorePairs:
    """Thresholds of several levels in one table, (n_levels, ...)."""
    return ScorePairs(np.stack([q.value for q in thresholds]), np.stack([q.refine for q in thresholds]))


@dataclass(frozen=True, eq=False)
class RowThresholds:
    """Thresholds by group, and how rows find theirs.

    names : the groups that have one, (G,); table : (n_levels, G), and at the end one for other groups if there is a
    fallback.
    """

    names: tuple[str, ...]
    table: ScorePairs

    @classmethod
    def of(cls, names: tuple[str, ...], thresholds: ScorePairs, other: ScorePairs | None) -> "RowThresholds":
        """From thresholds (n_levels, G), and those of other groups, (n_levels, 1), if there is a fallback."""
        if other is None:
            return cls(names, thresholds)
        value = np.concatenate([thresholds.value, other.value], axis=1)
        return cls(names, ScorePairs(value, np.concatenate([thresholds.refine, other.refine], axis=1)))

    @property
    def falls_back(self) -> bool:
        """Whether there is a threshold for groups that have none of their own."""
        return bool(self.table.value.shape[1] > len(self.names))

    def applied(self, data: Logits, purpose: str) -> Applied:
        """The thresholds, and which of them each row has."""
        return Applied(self.table, self.codes(data, purpose))

    def codes(self, data: Logits, purpose: str) -> Ints:
        """Where the threshold of each row stands in the table; an unknown group is refused unless there is a fallback.

        >>> rows = Logits([[0.0, 1.0]] * 2, groups=["south", "mars"])
        >>> RowThresholds.of(("north", "south"), ScorePairs(*np.zeros((2, 1, 2))), None).codes(rows, "predict_set")
        Traceback (most recent call last):
            ...
        thermoset.errors.InputError: group 'mars' has no threshold: the conformal rows had none of it (known: north, \
south). Fit again with rows of it, or choose fallback='pooled' or 'strictest' when you fit.
        """
        return codes_of(data, self.names, self.falls_back, purpose)


def codes_of(data: Logits, names: tuple[str, ...], falls_back: bool, purpose: str) -> Ints:
    """Where each row's group stands in the names; an unknown one beyond them if there is a fallback, else refused."""
    groups = data.require_groups(purpose)
    codes = groups.codes_among(names)
    unknown = codes < 0
    if falls_back:
        codes[unknown] = len(names)
    elif unknown.any():
        raise InputError(_unknown([groups.names[g] for g in np.unique(groups.codes[unknown])], names))
    return codes


def _unknown(names: list[str], known: tuple[str, ...]) -> str:
    what = f"group {quoted(names[0])} has" if len(names) == 1 else f"groups {listed_groups(names)} have"
    them = "it" if len(names) == 1 else "them"
    return (
        f"{what} no threshold: the conformal rows had none of {them} (known: {listed_groups(known)}). Fit again with "
        f"rows of {them}, or choose fallback='pooled' or 'strictest' when you fit."
    )


def largest(thresholds: ScorePairs) -> ScorePairs:
    """The largest of some thresholds, (1,); pairs compared as pairs.

    >>> largest(ScorePairs(np.array([0.5, 0.9, 0.9]), np.array([7.0, 1.0, 2.0])))
    ScorePairs(value=array([0.9]), refine=array([2.]))
    """
    return thresholds[np.lexsort((thresholds.refine, thresholds.value))[-1:]]


def too_few_rows(names: tuple[str, ...], pools: Ints, alpha: Alpha) -> str:
    """What to say of groups with too few rows for a finite threshold, or with none.

    >>> too_few_rows(("a", "b", "c"), np.array([5, 0, 40]), 0.1)
    "alpha=0.1 needs at least 9 rows of each group for a finite threshold; too few for 2 of 3 groups: 'a' (5), 'b' (0, \
it had no conformal row). Sets of their rows hold all classes: add rows, raise alpha, or merge small groups."
    """
    few = np.flatnonzero(pools < rows_needed(alpha))
    told = [f"{quoted(names[g])} ({pools[g]:,}{'' if pools[g] else ', it had no conformal row'})" for g in few[:_NAMED]]
    more = f" and {len(few) - _NAMED:,} more" if len(few) > _NAMED else ""
    return (
        f"alpha={alpha} needs at least {rows_needed(alpha):,} rows of each group for a finite threshold; too few for "
        f"{len(few):,} of {len(names):,} groups: {', '.join(told)}{more}. Sets of their rows hold all classes: add "
        "rows, raise alpha, or merge small groups."
    )
