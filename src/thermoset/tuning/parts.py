"""What coverage is evened over: the classes, or groups of rows such as sites or devices.

Losses, gaps, tests and worst tenths ask how the rows of each part are covered. Scores and thresholds do not know parts:
they come from labels alone. So the same formulas serve for classes and for groups.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np

from thermoset.core.exponentials import Ints
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["WORDS", "EvenOver", "Parts", "Words", "checked_even", "parts_of"]

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
