"""What the paper says happens, and whether it happens on a file."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thermoset.core.exponentials import Floats
from thermoset.metrics import METRICS
from thermoset.paper.study.comparison import ALPHA, RuleComparison
from thermoset.paper.study.measure import METHODS, Measured, Settings
from thermoset.sweeping import standard_error

__all__ = ["Claim", "check_claims"]


_FAR = 3.0  # standard errors of the mean difference, trial by trial, beyond which a change is one
_FEW = 20  # conformal rows of a class: no more than twice what a threshold at alpha 0.1 needs
_LITTLE = 0.5  # LAC moves little: by less than this part of what APS moves
_SIZE, _GAP = METRICS["avg_size"], METRICS["top_coverage_gap"]
_ADAPTIVE = {METHODS.index(method): method for method in ("aps", "raps")}


@dataclass(frozen=True)
class Claim:
    """A claim of the paper on one file.

    Attributes
    ----------
    text, source : str
        What is claimed, and where.
    found : str
        What the file shows.
    holds : bool or None
        Whether that is what is claimed; None where sampling error leaves it open.
    """

    text: str
    source: str
    found: str
    holds: bool | None


def check_claims(found: Measured, comparison: RuleComparison, settings: Settings) -> tuple[Claim, ...]:
    """Hold the paper's claims against one file: alpha 0.1, the 10% conformal set (or the first that was asked for)."""
    cp = 10 if 10 in settings.cp_percents else settings.cp_percents[0]
    a = settings.alphas.index(ALPHA)
    claims = [*_scaling(found, a, cp), *_curves(found, cp)]
    evaluated = float(found.before[cp].counts.mean())  # rows of a class
    rows = evaluated * cp / (100 - settings.calibration_percent - cp)
    if rows < _FEW:  # of more the paper says nothing
        claims.extend(_against_mondrian(comparison, cp, rows))
    return tuple(claims)


def _scaling(found: Measured, a: int, cp: int) -> Iterator[Claim]:
    """What calibration does to sets."""
    parts = found.before[cp], found.after[cp]
    size, gap = ([part.of(metric.name)[:, a] for part in parts] for metric in (_SIZE, _GAP))
    way, sign = ("T* > 1, TS enlarges", 1) if found.ece > 1 else ("T* < 1, TS shrinks", -1)
    for m, method in _ADAPTIVE.items():
        text = f"Where {way} the sets of {method.upper()}"
        yield _change(text, size[0][m], size[1][m], sign, f"{_SIZE.title} {{:.2f}} to {{:.2f}}")
    if found.ece > 1:  # of the other case the paper says nothing
        for m, method in _ADAPTIVE.items():
            text = f"Where T* > 1, TS lowers the {_GAP.title} of {method.upper()}"
            yield _change(text, gap[0][m], gap[1][m], -1, f"{_GAP.title} {{:.3f}} to {{:.3f}}")
    lac, aps = (float(size[1][m].mean() / size[0][m].mean() - 1) for m in (0, 1))
    shown = f"{_SIZE.title} of LAC {lac:+.1%}, of APS {aps:+.1%}"
    yield Claim("TS moves the sets of LAC little", "Section 3.2", shown, abs(lac) < _LITTLE * abs(aps))


def _change(text: str, before: Floats, after: Floats, sign: int, shown: str) -> Claim:
    """A claim on the sign of a change, trial by trial; `shown` has places for both means."""
    difference = sign * (after - before)
    mean, reach = float(difference.mean()), _FAR * float(standard_error(difference))
    means = shown.format(before.mean(), after.mean())
    return Claim(text, "Section 3.2", means, mean > 0 if abs(mean) > reach else None)


def _curves(found: Measured, cp: int) -> Iterator[Claim]:
    """What temperature does beyond calibration."""
    curves = found.curves[cp]
    for method in _ADAPTIVE.values():
        steps = np.diff(curves.of_trials("threshold", method, ALPHA), axis=0)
        text = f"The threshold of {method.upper()} falls as T rises"
        yield Claim(
            text, "Corollary 4.2", f"{np.mean(steps < 0):.1%} of the steps of all trials fall", not np.any(steps > 0)
        )
    for method in _ADAPTIVE.values():
        sizes, temperatures = curves.curve("avg_size", method, ALPHA), curves.temperatures
        peak = int(sizes.argmax())
        text = f"{_SIZE.title} of {method.upper()} rises to a peak at T_c and falls"
        shown = ", ".join(f"{sizes[i]:.2f} at T = {temperatures[i]:g}" for i in (0, peak, -1))
        yield Claim(text, "Section 3.3", shown, 0 < peak < len(sizes) - 1)


def _against_mondrian(comparison: RuleComparison, cp: int, rows: float) -> Iterator[Claim]:
    """The temperature of appendix C beside thresholds by class."""
    value = {
        (cell.at, cell.metric): cell.value for cell in comparison.cells if (cell.mode, cell.cp_percent) == ("exact", cp)
    }
    if not value:  # a size of the conformal set that the table does not have
        return
    hat, mondrian = ([value[at, metric] for metric in ("avg_size", "top_coverage_gap")] for at in ("t_hat", "mondrian"))
    shown = f"{_SIZE.title} {hat[0]:.2f} and {mondrian[0]:.2f}, {_GAP.title} {hat[1]:.3f} and {mondrian[1]:.3f}"
    text = f"With few rows a class (here {rows:.3g}), T-hat beats Mondrian thresholds on size and on {_GAP.title}"
    yield Claim(text, "Appendix D", shown, hat[0] < mondrian[0] and hat[1] < mondrian[1])
