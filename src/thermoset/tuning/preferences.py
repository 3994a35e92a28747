"""The preferences users can choose from. To register one, write a class and add it to the union below."""

from typing import cast, get_args

from thermoset.errors import InputError
from thermoset.quoting import quoted
from thermoset.tuning.aims import Even, Small
from thermoset.tuning.budgets import GapBudget, Protect, ProtectGroups, SizeBudget
from thermoset.tuning.preference import Preference

__all__ = ["PREFERENCES", "AnyPreference", "read_preference"]

AnyPreference = Small | Even | Protect | ProtectGroups | SizeBudget | GapBudget
"""What a file may hold: every preference, told apart by its kind."""

PREFERENCES: tuple[type[Preference], ...] = get_args(AnyPreference)
"""Every preference, in the order in which they are tried on what `prefer=` was given."""

_HELP = (
    "prefer must be 'small', 'even', 'protect', or a bound such as 'classes>=0.85' ('groups>=0.85' with "
    "even='group'), 'size<=3' or 'gap<=0.03'"
)


def read_preference(prefer: str) -> AnyPreference:
    """Parse the value of `prefer=` or `--prefer`.

    >>> read_preference("even"), read_preference("classes >= 0.85"), read_preference("size<=3.0").text
    (Even(), Protect(least=0.85), 'size<=3')
    """
    for kind in PREFERENCES:
        read = kind.read(prefer)
        if read is not None:
            return cast("AnyPreference", read)  # the registry is made from it
    raise InputError(f"{_HELP}; got {quoted(prefer)}.")
