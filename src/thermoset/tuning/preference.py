"""What the user wants of the sets, read from a word, a number or a budget."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from thermoset.bounds import exact_number, shown
from thermoset.errors import InputError

__all__ = ["Preference", "read_preference"]

_BUDGET = re.compile(r"(size|gap)\s*<=\s*(\S+)")
_LEAST_SIZE, _MOST_SIZE = 1e-9, 1e9  # labels in a set on average
_HELP = (
    "prefer must be 'size', 'coverage', a number from 0 (size) to 1 (coverage), or a budget such as 'size<=3' or "
    "'gap<=0.03'"
)


@dataclass(frozen=True)
class Preference:
    """`blend` trades size (0) against even class coverage (1); the budgets bound one and make the most of the other."""

    kind: Literal["blend", "size_budget", "gap_budget"]
    amount: float

    @property
    def text(self) -> str:
        """As one would type it."""
        amount = repr(self.amount).removesuffix(".0")
        if self.kind == "blend":
            return {0.0: "size", 1.0: "coverage"}.get(self.amount, amount)
        return f"{self.kind.removesuffix('_budget')}<={amount}"


def read_preference(prefer: str | float) -> Preference:
    """Read what `prefer=` and `--prefer` take.

    >>> read_preference("coverage"), read_preference(0.25).text, read_preference("size <= 3").text
    (Preference(kind='blend', amount=1.0), '0.25', 'size<=3')
    """
    if isinstance(prefer, str) and prefer in ("size", "coverage"):
        return Preference("blend", float(prefer == "coverage"))
    text = prefer.strip() if isinstance(prefer, str) else prefer
    budget = _BUDGET.fullmatch(text) if isinstance(text, str) else None
    amount = _number(budget.group(2) if budget else text)
    if budget and budget.group(1) == "size":
        if not _LEAST_SIZE <= amount <= _MOST_SIZE:
            raise InputError(
                f"a size budget must be a number of labels > 0, from {_LEAST_SIZE:g} to {_MOST_SIZE:g}; got "
                f"{shown(prefer)}. Try 'size<=3'."
            )
        return Preference("size_budget", amount)
    if budget:
        if not 0 <= amount < 1:
            raise InputError(f"a gap budget must be a share from 0 to 1; got {shown(prefer)}. Try 'gap<=0.03'.")
        return Preference("gap_budget", amount)
    if not 0 <= amount <= 1:
        raise InputError(f"{_HELP}; got {shown(prefer)}.")
    return Preference("blend", amount)


def _number(value: object) -> float:
    """The number, or NaN: every comparison with it is false."""
    found = exact_number(value)
    return math.nan if found is None or abs(found) > _MOST_SIZE else float(found)
