"""Preferences that optimise one thing: the smallest sets, or the most even coverage."""

from typing import TYPE_CHECKING

import numpy as np

from thermoset.tuning.preference import NORMAL, Estimates, Pick, Preference, Searched, chosen, least, smallest, where

if TYPE_CHECKING:
    from thermoset.tuning.choice import Choice
    from thermoset.tuning.closed_form import Curves

__all__ = ["Even", "Small"]


class Small(Preference, frozen=True, tag="small"):
    """The smallest sets."""

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """The word."""
        return cls() if isinstance(prefer, str) and prefer == "small" else None

    @property
    def text(self) -> str:
        """The word."""
        return "small"

    def pick(self, curves: "Curves", searched: Searched) -> Pick:
        """The least expected size."""
        return smallest(curves, searched)

    def settled(self, temperature: float, estimates: Estimates) -> float:
        """T = 1 where the gain over it is within its error: the least of fifty estimates is too hopeful."""
        gain, error = estimates.size_gain(temperature)
        return 1.0 if gain <= NORMAL * error else temperature

    def reason(self, choice: "Choice") -> str:
        """Where, and how many sets are empty: that is how sets become very small."""
        if choice.temperature == 1.0 and len(choice.methods) == 1:
            return "T-hat = 1: no other temperature gives sets that are smaller by more than the estimation error."
        empty = f"({choice.outlook.empty_share:.1%} of them empty)"
        return f"{chosen(choice)} gives the smallest sets {where(choice)} {empty}."


class Even(Preference, frozen=True, tag="even"):
    """The most even coverage of classes or groups at exactly the promised coverage: the paper's aim, for classes."""

    evens_out = True

    @classmethod
    def read(cls, prefer: object) -> Preference | None:
        """The word."""
        return cls() if isinstance(prefer, str) and prefer == "even" else None

    @property
    def text(self) -> str:
        """The word."""
        return "even"

    def pick(self, curves: "Curves", searched: Searched) -> Pick:
        """The least class loss, of all rows and of random halves."""
        halves = [curves.temperatures[least(loss, searched)] for loss in curves.loss_of_halves.T]
        return Pick(least(curves.loss, searched), of_halves=np.array(halves))

    def reason(self, choice: "Choice") -> str:
        """Which setting, and only as much as the rows can show; T = 1 where they show nothing."""
        if choice.signal.tried is not None:
            return _kept(choice)
        versus, at_one, words = choice.comparisons[0], choice.outlooks[0], choice.words
        if versus.tells_apart is None or choice.temperature == 1.0:
            return f"{chosen(choice)} covers the {words.many} most evenly {where(choice)}."
        gaps = f"{words.gap} {choice.outlook.class_gap:.3f} instead of {at_one.class_gap:.3f}"
        if versus.tells_apart and (versus.class_gap or 0.0) < 0:
            return f"{chosen(choice)} covers the {words.many} more evenly than T = 1: {gaps}."
        sure = "" if choice.signal.beats is None else f" (probability that it does: {choice.signal.beats:.0%})"
        more = "" if choice.rows_needed is None else f" About {choice.rows_needed:,} rows would settle it."
        return (
            f"{chosen(choice)} is the best estimate for even {words.one} coverage, but these rows do not show that it "
            f"beats T = 1{sure}: {gaps}.{more}"
        )


def _kept(choice: "Choice") -> str:
    """Why T = 1 is kept, and how many rows would settle it."""
    signal, rows, many = choice.signal, f"{choice.n_rows:,} rows", choice.words.many
    more = choice.rows_needed
    if signal.beats is None:
        said = (
            f"Keep T = 1: on these {rows}, coverage differs between {many} no more than by chance (p = "
            f"{signal.p_value:.2f}), so no temperature can be shown to cover them more evenly."
        )
        return said if more is None else f"{said} About {more:,} rows could show differences worth evening out."
    said = (
        f"Keep T = 1: no other temperature covers the {many} more evenly on these {rows}; the best of them, "
        f"{signal.tried:.2f}, is more even with a probability of only {signal.beats:.0%}."
    )
    return said if more is None else f"{said} About {more:,} rows would settle it."
