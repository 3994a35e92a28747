"""The record of a choice: which temperature, why, what it costs, and how sure the rows are.

The records are part of the predictor's file, so they refuse fields that they do not know when they are read.
"""

import msgspec

from thermoset.tuning.preference import AnyPreference

__all__ = ["Choice", "Curve", "Outlook", "TradeOff"]

_NORMAL = 1.96  # standard errors of a 95% interval


class Outlook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What sets at one temperature are expected to show on fresh rows; errors are standard errors, None if unknown.

    `top_gap` is TopCovGap as the calibration rows show it, each half with the threshold of the other: read it beside
    `Choice.noise_floor`, which is for as many rows.
    """

    name: str
    temperature: float
    size: float
    size_error: float | None
    empty_share: float
    top_gap: float
    top_gap_error: float | None


class TradeOff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What T-hat gives and takes against another temperature: differences T-hat minus the other.

    `tells_apart` says whether the rows can tell the class gaps of the two apart: their difference, free of the noise
    of class means, exceeds 1.96 standard errors (a paired test over classes). None where that is unknown.
    """

    name: str
    temperature: float
    size: float
    size_error: float | None
    top_gap: float
    top_gap_error: float | None
    tells_apart: bool | None


class Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the choice was made from: expected size and class loss at each temperature searched."""

    temperatures: tuple[float, ...]
    size: tuple[float, ...]
    size_error: tuple[float | None, ...]
    loss: tuple[float, ...]


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A temperature for the sets, and why.

    Attributes
    ----------
    temperature : float
        T-hat.
    preference : Preference
        What was asked for; `prefer` is the same as one would type it.
    selection : str
        Where thresholds came from while choosing: "calibration" or "paper".
    met : bool
        Whether a budget is kept; True without one.
    peak : float or None
        T_c, the temperature of the largest sets, beyond which nothing is searched; None where the curve has no peak.
    spread : (float, float) or None
        Where 90% of random halves of the rows put T-hat; None where the choice does not rest on class coverage.
    outlooks : tuple of Outlook
        At T = 1, T* and T-hat.
    comparisons : tuple of TradeOff
        T-hat against T = 1 and T*.
    noise_floor, noise_floor_95 : float
        Mean and 95% point of TopCovGap if every class were covered alike, on these rows.
    n_rows : int
        Calibration rows it was chosen from.
    curve : Curve
        What was searched.
    """

    temperature: float
    preference: AnyPreference
    selection: str
    met: bool
    peak: float | None
    spread: tuple[float, float] | None
    outlooks: tuple[Outlook, ...]
    comparisons: tuple[TradeOff, ...]
    noise_floor: float
    noise_floor_95: float
    n_rows: int
    curve: Curve

    @property
    def prefer(self) -> str:
        """What was asked for, as one would type it."""
        return self.preference.text

    @property
    def outlook(self) -> Outlook:
        """At T-hat."""
        return self.outlooks[-1]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The recommendation, what it gives and takes (± is 95%), and how sure the rows are."""
        return (self.preference.reason(self), *map(_traded, self.comparisons), *self._doubts())

    @property
    def why(self) -> str:
        """All sentences as one text."""
        return " ".join(self.sentences)

    def _doubts(self) -> list[str]:
        said = list(self.preference.doubts(self))
        if self.spread is not None:
            said.append(f"Random halves of the {self.n_rows:,} rows choose {_span(self.spread)} (90% of them).")
        alike = [c.name for c in self.comparisons if c.tells_apart is False and c.temperature != self.temperature]
        if alike:
            said.append(
                f"These rows cannot tell its class coverage from that at {' and '.join(alike)}: the difference is "
                "within the noise."
            )
        return said


def _span(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.2f} to {ends[1]:.2f}"


def _traded(versus: TradeOff) -> str:
    size = _change(versus.size, versus.size_error, "labels larger", "labels smaller", 2)
    gap = _change(versus.top_gap, versus.top_gap_error, "higher", "lower", 3)
    return f"Against {versus.name}: sets {size}, TopCovGap {gap}."


def _change(value: float, error: float | None, more: str, less: str, digits: int) -> str:
    give = "" if error is None else f" ± {_NORMAL * error:.{digits}f}"
    return f"{abs(value):.{digits}f}{give} {more if value > 0 else less}"
