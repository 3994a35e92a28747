"""The bounds of section 4 on a file's margins: where they lie, and for how many rows they say which way sets change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from thermoset.arrays import Floats
from thermoset.data import Logits
from thermoset.paper.theory import bound, bound_share, critical_temperature, sharp_bound, sharp_share
from thermoset.text_tables import TextTable

if TYPE_CHECKING:
    from thermoset.paper.study.pairs import PairStudy

__all__ = ["BOUNDS_AT", "MarginBounds", "bounds_table", "margin_bounds"]

BOUNDS_AT = ("T=0.5", "T=T*", "minimum of b(T)", "T=2")
"""Temperatures of the bounds; b(T) is least, above 1, at the critical temperature of the theory."""


@dataclass(frozen=True, eq=False)
class MarginBounds:
    """The paper's bound b(T) and the sharp one at `BOUNDS_AT`, each with the share of rows whose margin is above it."""

    temperature: Floats
    bound: Floats
    above_bound: Floats
    sharp_bound: Floats
    above_sharp_bound: Floats


def margin_bounds(data: Logits, temperature: float) -> MarginBounds:
    """Compare the margins of logits with both bounds; `temperature` is T*.

    >>> found = margin_bounds(Logits([[9.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), 1.5)
    >>> found.temperature.round(4), found.above_bound
    (array([0.5   , 1.5   , 3.6926, 2.    ]), array([0.5, 0.5, 0.5, 0.5]))
    """
    at = np.array([0.5, temperature, critical_temperature(data.n_classes), 2.0])
    return MarginBounds(
        at, bound(at, data.n_classes), bound_share(data, at), sharp_bound(at, data.n_classes), sharp_share(data, at)
    )


def bounds_table(studies: "Sequence[PairStudy]") -> TextTable:
    """The bounds of every file."""
    lines = [
        (study.title, f"{study.n_classes:,}", at, f"{t:.3f}", f"{b:.2f}", f"{above:.1%}", f"{sharp:.2f}", f"{rows:.1%}")
        for study in studies
        for found in [study.bounds]
        for at, t, b, above, sharp, rows in zip(
            BOUNDS_AT,
            found.temperature,
            found.bound,
            found.above_bound,
            found.sharp_bound,
            found.above_sharp_bound,
            strict=True,
        )
    ]
    head = ("file", "classes", "at", "T", "b(T)", "margins above b(T)", "sharp b*(T)", "margins above b*(T)")
    return TextTable("bounds", "Section 4. The bounds on the margin, and the rows above them", head, tuple(lines))
