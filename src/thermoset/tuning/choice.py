"""The record of a choice: which temperature, why, what it costs, and how sure the rows are.

The records are part of the predictor's file, so they refuse fields that they do not know when they are read.
"""

import msgspec

from thermoset.tuning.preference import AnyPreference

__all__ = ["Choice", "Curve", "Outlook", "TradeOff"]

_NORMAL = 1.96  # standard errors of a 95% interval


class Outlook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What sets at one temperature are expected to show on fresh rows; errors are standard errors, None if unknown.

    `class_gap` is the root mean square over classes of class coverage minus 1 - alpha, free of the noise of few rows,
    and `class_gap_ends` its 95% interval; None where there is no closed form. `top_gap` is TopCovGap as the calibration
    rows show it, each half with the threshold of the other: read it beside `Choice.noise_floor`, which is for as many
    rows. It is None where some class has fewer than 30 rows.
    """

    name: str
    temperature: float
    size: float
    size_error: float | None
    empty_share: float
    class_gap: float | None
    class_gap_ends: tuple[float, float] | None
    top_gap: float | None


class TradeOff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What T-hat gives and takes against another temperature: differences T-hat minus the other.

    `class_gap_ends` is the 95% interval of the difference of class gaps, and `tells_apart` says whether the rows can
    tell the two apart; None where there is no closed form.
    """

    name: str
    temperature: float
    size: float
    size_error: float | None
    class_gap: float | None
    class_gap_ends: tuple[float, float] | None
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
    rows_needed : int or None
        About how many of them would show that a budget is kept, where these do not; None where none would.
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
    rows_needed: int | None
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
    def legend(self) -> tuple[tuple[str, str], ...]:
        """The words of the table and the sentences, explained."""
        terms = [
            ("T*", "the temperature that makes confidence match accuracy"),
            ("T-hat", "the temperature chosen for the prediction sets"),
        ]
        if self.peak is not None:
            terms.append(("T_c", "the temperature at which sets are largest on average; T-hat is never above it"))
        if self.outlook.class_gap is not None:
            said = "how far the coverage of a class typically is from that of all rows (root mean square over classes)"
            terms.append(("class gap", said))
        return tuple(terms)

    @property
    def why(self) -> str:
        """All sentences as one text."""
        return " ".join(self.sentences)

    def _doubts(self) -> list[str]:
        said = []
        if self.spread is not None:
            said.append(
                f"Refitting on random halves of the {self.n_rows:,} rows gives T-hat between {self.spread[0]:.2f} and "
                f"{self.spread[1]:.2f} in 90% of cases."
            )
        alike = [c.name for c in self.comparisons if c.tells_apart is False and c.temperature != self.temperature]
        if alike:
            said.append(
                f"These rows cannot tell its class gap from that at {' and '.join(alike)}: the difference is within "
                "the noise."
            )
        return said


def _traded(versus: TradeOff) -> str:
    size = _change(versus.size, versus.size_error, "labels larger", "labels smaller", 2)
    if versus.class_gap is None or versus.class_gap_ends is None:
        return f"Against {versus.name}: sets {size}."
    low, high = versus.class_gap_ends
    change = f"{abs(versus.class_gap):.3f} {'higher' if versus.class_gap > 0 else 'lower'}"
    gap = "class gap the same" if round(versus.class_gap, 3) == 0 else f"class gap {change}"
    return f"Against {versus.name}: sets {size}, {gap} (95% interval: {low:+.3f} to {high:+.3f})."


def _change(value: float, error: float | None, more: str, less: str, digits: int) -> str:
    give = "" if error is None else f" ± {_NORMAL * error:.{digits}f}"
    return f"{abs(value):.{digits}f}{give} {more if value > 0 else less}"
