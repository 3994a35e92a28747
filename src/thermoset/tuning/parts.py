"""What coverage is evened over: the classes, or groups of rows such as sites or devices.

Losses, gaps, tests and worst tenths ask how the rows of each part are covered. Scores and thresholds do not know parts:
they come from labels alone. So the same formulas serve for classes and for groups.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np

from thermoset.arrays import Ints
from thermoset.data import Logits
from thermoset.data.groups import listed_groups
from thermoset.errors import CoverageWarning, InputError
from thermoset.quoting import quoted

__all__ = ["WORDS", "EvenOver", "Parts", "Words", "checked_even", "parts_of", "parts_without_rows", "tell_missing"]

EvenOver = Literal["class", "group"]
"""What a choice evens out or protects."""


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
        """The title of a class metric, applied to these parts.

        >>> WORDS["class"].title("TopCovGap"), WORDS["group"].title("TopCovGap")
        ('TopCovGap', 'TopCovGap over groups')
        """
        return title if self.one == "class" else f"{title} over {self.many}"


WORDS: dict[EvenOver, Words] = {
    "class": Words("class", "classes", "top_coverage_gap"),
    "group": Words("group", "groups", "top_group_coverage_gap"),
}
"""Words by what is evened out."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The part of each row, from 0 to count - 1; some parts may have no rows."""

    codes: Ints
    count: int

    @cached_property
    def rows(self) -> Ints:
        """Rows of each part."""
        return np.bincount(self.codes, minlength=self.count)

    def __len__(self) -> int:
        return len(self.codes)


def parts_of(data: Logits, even: EvenOver) -> Parts:
    """The classes or the groups of labelled rows.

    >>> data = Logits(np.zeros((3, 5)), labels=[4, 0, 0], groups=["b", "a", "b"])
    >>> [parts_of(data, even).rows.tolist() for even in ("class", "group")]
    [[2, 0, 0, 0, 1], [1, 2]]
    """
    labels = data.require_labels("choosing a temperature")
    if even == "class":
        return Parts(labels, data.n_classes)
    if data.groups is None:
        raise InputError(
            "even='group' evens out coverage over groups of rows, but these rows have no groups. Pass groups=, one "
            "name per row."
        )
    names = data.groups.names
    if len(names) < 2:
        raise InputError(
            f"even='group' needs at least two groups; every row is in {quoted(names[0])}. Use even='class'."
        )
    return Parts(data.groups.codes, len(names))


def checked_even(even: object) -> EvenOver:
    """One of the two words.

    >>> checked_even("group")
    'group'
    """
    for known in get_args(EvenOver):
        if isinstance(even, str) and even == known:
            return known  # type: ignore[no-any-return]
    raise InputError(f"even must be 'class' or 'group'; got {quoted(even)}.")


def parts_without_rows(rows: Logits, even: EvenOver) -> list[str]:
    """The names of classes or groups that no row belongs to.

    >>> parts_without_rows(Logits(np.zeros((2, 3)), [0, 2]), "class")
    ['1']
    """
    groups = rows.groups
    if even == "group" and groups is not None:
        names, counts = groups.names, groups.counts
    else:
        names = rows.classes or tuple(map(str, range(rows.n_classes)))
        counts = np.bincount(rows.require_labels("choosing a temperature"), minlength=rows.n_classes)
    return [names[place] for place in np.flatnonzero(counts == 0)]


def tell_missing(rows: Logits, even: EvenOver) -> None:
    """Warn of classes or groups without calibration rows."""
    missing, words = parts_without_rows(rows, even), WORDS[even]
    if missing:
        warnings.warn(
            f"no calibration row belongs to {words.one if len(missing) == 1 else words.many} {listed_groups(missing)}: "
            f"the choice is based on the other {words.many}. Add rows for {'it' if len(missing) == 1 else 'them'}.",
            CoverageWarning,
            stacklevel=4,
        )
