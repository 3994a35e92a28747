"""Four tiers of tests: `make quick`, `make test`, `make test-long` and `make evidence` (CONTRIBUTING.md).

A test belongs to `make test` unless a marker says otherwise:

- `slow`: not part of `make quick`, which also takes only the first case of each test;
- `long`: part of `make test-long` alone;
- `evidence`: the large simulations behind statistical claims; hours, and not in CI;
- `scaled`: in `make test` with few repetitions, and again in `make test-long` with many: see `scaled()`. Property tests
  are run twice in the same way.

Of a test with several parameters `make test` runs a selection in which every two values meet, and `make test-long` the
other cases.
"""

import itertools
import os
from collections.abc import Hashable, Mapping, Sequence

TIERS = ("quick", "test", "long", "evidence", "all")
VARIABLE = "THERMOSET_TIER"  # set by the option --tier; read where tests are defined


def scaled(few: int, many: int, most: int | None = None) -> int:
    """How often to repeat something: `few` times in `make test`, `many` in `make test-long`, `most` for evidence."""
    tier = os.environ.get(VARIABLE, "test")
    if tier == "evidence" and most is not None:
        return most
    return many if tier in ("long", "evidence", "all") else few


def cases(n: int) -> int:
    """How many files to damage, targets to try or moments to kill at; fifty times as many for evidence."""
    return scaled(n, n, 50 * n)


def examples(many: int) -> int:
    """How many examples of a property to draw in `make test-long`; a quarter in `make test`, ten in `make quick`."""
    few = 10 if os.environ.get(VARIABLE) == "quick" else max(many // 4, 10)
    return scaled(min(few, many), many)


def pairwise(cases: Sequence[Mapping[str, Hashable]]) -> list[int]:
    """Places of cases in which every two values of different parameters meet that meet in any of the cases.

    Greedy: the case with the most pairs that are still missing comes next, the first of several.

    >>> pairwise([{"a": a, "b": b, "c": c} for a in range(2) for b in range(2) for c in range(2)])
    [0, 3, 5, 6]
    """
    pairs = [set(itertools.combinations(case.items(), 2)) for case in cases]
    missing, found = set().union(*pairs), list[int]()
    while missing:
        best = max(range(len(cases)), key=lambda place: (len(pairs[place] & missing), -place))
        missing -= pairs[best]
        found.append(best)
    return sorted(found) or list(range(len(cases)))
