"""What the paper says happens, and whether it happens on a file.

A claim holds, does not hold, or is open. Changes are judged trial by trial, by 3 standard errors of their mean; whole
curves as `shapes` says. Trials are random splits of one file: the verdict is on this file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.levels import exact_level
from thermoset.metrics import METRICS
from thermoset.paper.study.comparison import RuleComparison
from thermoset.paper.study.measure import METHODS, Measured, Settings
from thermoset.paper.study.row_by_row import SizeDifferences
from thermoset.paper.study.shapes import rise_and_fall
from thermoset.paper.theory import QuantileSamples
from thermoset.sweeping import Sweep, standard_error

__all__ = ["Claim", "Effect", "Peak", "check_claims", "compare_effects", "compare_peaks", "effects_of", "peaks_of"]


_FAR = 3.0  # standard errors beyond which a difference is one
_FEW_ROWS = 20  # conformal rows of a class: no more than twice what a threshold at alpha 0.1 needs
_LITTLE = 0.5  # LAC moves little: by less than this part of what APS moves
_FEW_SETS = 0.1  # a small minority of the sets
_CLOSE = 0.1  # T* by NLL is close to that by ECE: by this part of it
_ALIKE = 0.9  # correlation of curves that mirror each other
_KEPT = 0.01  # marginal coverage is kept: within this of 1 - alpha
_SAME = 0.1  # sizes are the same: by this part of them
_ANY_INFINITE = 0.01  # share of infinite Mondrian thresholds from which they decide the size of Mondrian sets
_SIZE, _GAP, _MEAN_GAP = METRICS["avg_size"], METRICS["top_coverage_gap"], METRICS["avg_coverage_gap"]
_ADAPTIVE = {METHODS.index(method): method for method in ("aps", "raps")}


@dataclass(frozen=True)
class Claim:
    """A claim of the paper on one file, or on all of them.

    Attributes
    ----------
    text, source : str
        What is claimed, and where.
    found : str
        What the file shows.
    holds : bool or None
        Whether that is what is claimed; None where sampling error leaves it open.
    alpha, cp_percent : float, int or None
        The setting that was looked at, where the claim depends on it.
    """

    text: str
    source: str
    found: str
    holds: bool | None
    alpha: float | None = None
    cp_percent: int | None = None


@dataclass(frozen=True)
class _Setting:
    """A file at one level and one size of the conformal set."""

    found: Measured
    alpha: float
    a: int
    cp: int

    def claim(self, text: str, source: str, shown: str, holds: bool | None) -> Claim:
        return Claim(text, source, shown, holds, self.alpha, self.cp)

    def sizes_and_gaps(self) -> tuple[list[Floats], list[Floats]]:
        """Sizes before and after temperature scaling, and class gaps: (methods, trials) each."""
        parts = self.found.before[self.cp], self.found.after[self.cp]
        size, gap = ([part.of(metric.name)[:, self.a] for part in parts] for metric in (_SIZE, _GAP))
        return size, gap


def check_claims(
    found: Measured,
    comparison: RuleComparison,
    differences: Sequence[SizeDifferences],
    quantiles: QuantileSamples,
    settings: Settings,
) -> tuple[Claim, ...]:
    """Test the paper's claims on one file, at every level and size of the conformal set that was asked for."""
    claims: list[Claim] = [_objectives(found), _overconfident(found)]
    for a, alpha in enumerate(settings.alphas):
        for cp in settings.cp_percents:
            here = _Setting(found, alpha, a, cp)
            claims.extend((_coverage(here), *_scaling(here), *_of_lac(here), *_curves(here), *_no_pattern(here)))
    claims.extend((*_conformal_sizes(found, settings), *_levels(found, settings)))
    if found.ece > 1:
        claims.extend(_few_shrink(one, *settings.main) for one in differences)
    alpha, cp = settings.main
    claims.extend(_single_trials(found.curves[cp], comparison.single_trials, alpha, cp))
    claims.append(_one_quantile_row(quantiles, alpha))
    evaluated = float(found.before[cp].counts.mean())  # rows of a class
    rows = evaluated * cp / (100 - settings.calibration_percent - cp)
    if rows < _FEW_ROWS:  # of more the paper says nothing
        claims.extend(_against_mondrian(comparison, alpha, cp, rows))
    return tuple(claims)


def _sign(values: Floats) -> int:
    """Sign of a mean over trials that is beyond 3 standard errors of nothing, or 0."""
    mean = float(values.mean())
    return int(np.sign(mean)) if abs(mean) > _FAR * float(standard_error(values)) else 0


def _verdict(*signs: int) -> bool | None:
    """Of changes that a claim wants positive: all of them are, one is not, or it is open."""
    if all(sign > 0 for sign in signs):
        return True
    return False if any(sign < 0 for sign in signs) else None


def _objectives(found: Measured) -> Claim:
    """T* by NLL and by ECE."""
    apart = found.trial_nll / found.trial_ece - 1
    shown = (
        f"{found.trial_nll.mean():.3f} by NLL, {found.trial_ece.mean():.3f} by ECE: "
        f"{apart.mean():+.1%} ± {float(standard_error(apart)):.1%}"
    )
    text = f"T* by NLL is close to T* by ECE (within {_CLOSE:.0%})"
    return Claim(text, "Section 3.1, appendix B.3", shown, _verdict(_within(apart, _CLOSE)))


def _overconfident(found: Measured) -> Claim:
    """T* above 1."""
    shown = f"T* by ECE {found.trial_ece.mean():.3f} ± {float(standard_error(found.trial_ece)):.3f}, mean over trials"
    return Claim(
        "T* is above 1: the network is overconfident", "Section 3.2", shown, _verdict(_sign(found.trial_ece - 1))
    )


def _within(values: Floats, limit: float) -> int:
    """Whether a mean is nearer to 0 than a limit: 1, -1, or 0 where sampling error leaves it open."""
    return _sign(limit - float(np.sign(values.mean())) * values)


def _coverage(here: _Setting) -> Claim:
    """Marginal coverage with and without temperature scaling."""
    promised = float(1 - exact_level(here.alpha))
    parts = here.found.before[here.cp], here.found.after[here.cp]
    coverage = [part.of("marginal_coverage")[m, here.a] for part in parts for m in range(3)]
    means = [values.mean() for values in coverage]
    shown = f"coverage {min(means):.4f} to {max(means):.4f} over LAC, APS and RAPS at T = 1 and T*"
    text = f"Marginal coverage is kept (within {_KEPT:g} of 1 - alpha), with and without TS"
    return here.claim(text, "Section 3.2", shown, _verdict(*(_within(values - promised, _KEPT) for values in coverage)))


def _conformal_sizes(found: Measured, settings: Settings) -> Iterator[Claim]:
    """The smallest conformal set beside the largest."""
    few, many = min(settings.cp_percents), max(settings.cp_percents)
    for a, alpha in enumerate(settings.alphas if few < many else ()):
        changes = []
        for parts in (found.before, found.after):
            for m in range(3):
                small, large = (parts[cp].of(_SIZE.name)[m, a] for cp in (few, many))
                changes.append((small - large) / large.mean())
        means = [change.mean() for change in changes]
        shown = (
            f"{_SIZE.title} differs by {min(means):+.1%} to {max(means):+.1%} over LAC, APS and RAPS at T = 1 and T*"
        )
        text = f"A CP set of {few}% suffices: sizes are those of {many}% (within {_SAME:.0%})"
        yield Claim(text, "Appendix B.4", shown, _verdict(*(_within(change, _SAME) for change in changes)), alpha)


def _levels(found: Measured, settings: Settings) -> Iterator[Claim]:
    """The strictest level beside the laxest."""
    strict, lax = min(settings.alphas), max(settings.alphas)
    s, x = settings.alphas.index(strict), settings.alphas.index(lax)
    for cp in settings.cp_percents if strict < lax else ():
        signs: list[int] = []
        shown = []
        for m, method in enumerate(METHODS[:3]):
            for at, part in (("T = 1", found.before[cp]), ("T*", found.after[cp])):
                size, gap = (part.of(metric.name)[m] for metric in (_SIZE, _GAP))
                signs.extend((_sign(size[s] - size[x]), _sign(gap[x] - gap[s])))
                shown.append(
                    f"{method.upper()} at {at} {size[x].mean():.2f} to {size[s].mean():.2f}, "
                    f"{_GAP.title} {gap[x].mean():.3f} to {gap[s].mean():.3f}"
                )
        text = f"At alpha {strict:g}, sets are larger than at {lax:g} and {_GAP.title} is smaller"
        yield Claim(text, "Appendix B.4", "; ".join(shown), _verdict(*signs), None, cp)


def _no_pattern(here: _Setting) -> Iterator[Claim]:
    """LAC over the temperatures."""
    curves = here.found.curves[here.cp]
    for metric in (_SIZE, _GAP):
        values, t = curves.of_trials(metric.name, "lac", here.alpha), curves.temperatures
        up, down = (rise_and_fall(sign * values) for sign in (1, -1))
        mean, digits = values.mean(axis=-1), 2 if metric.unit == "labels" else 3
        turn = down if down.holds else up
        shown = ", ".join(f"{mean[i]:.{digits}f} at T = {t[i]:g}" for i in (0, turn.peak, len(t) - 1))
        holds = False if up.holds or down.holds else (None if None in (up.holds, down.holds) else True)
        text = f"{metric.title} of LAC has no pattern over T (neither rise and fall, nor fall and rise)"
        yield here.claim(text, "Section 3.3", shown, holds)


def _single_trials(curves: Sweep, single: Sweep, alpha: float, cp: int) -> Iterator[Claim]:
    """Curves of one trial on its calibration rows beside the mean of all trials on the evaluation rows."""
    for method in _ADAPTIVE.values():
        for metric in (_SIZE, _GAP):
            whole = curves.of_trials(metric.name, method, alpha).mean(axis=-1)
            alike = np.array([_correlation(one, whole) for one in single.of_trials(metric.name, method, alpha).T])
            shown = f"correlation {np.nanmean(alike):.3f}, in nine of ten trials above {np.nanquantile(alike, 0.1):.3f}"
            text = f"The curve of {metric.title} of {method.upper()} in one trial resembles the averaged one "
            holds = None if np.isnan(alike).any() else _verdict(_sign(alike - _ALIKE))
            yield Claim(f"{text}(correlation above {_ALIKE:g})", "Appendix C", shown, holds, alpha, cp)


def _correlation(a: Floats, b: Floats) -> float:
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0 and np.ptp(b) > 0 else np.nan


def _one_quantile_row(samples: QuantileSamples, alpha: float) -> Claim:
    """The row whose score is the threshold."""
    rows = ", ".join(
        f"row {row} (margin {margin:.1f}) at T = {t:.3g}"
        for row, margin, t in zip(samples.row, samples.margin, samples.temperature, strict=True)
    )
    text = "One row sets the threshold of APS (u = 1) at T = 1, T*, 0.5 and 2"
    return Claim(text, "Section 4.2, appendix B.6", rows, len(set(samples.row.tolist())) == 1, alpha)


def _scaling(here: _Setting) -> Iterator[Claim]:
    """What calibration does to sets."""
    size, gap = here.sizes_and_gaps()
    over = here.found.ece > 1
    way, sign, where = ("T* > 1, TS enlarges", 1, "3.2") if over else ("T* < 1, TS shrinks", -1, "4.2")
    for m, method in _ADAPTIVE.items():
        shown = f"{_SIZE.title} {size[0][m].mean():.2f} to {size[1][m].mean():.2f}"
        holds = _verdict(_sign(sign * (size[1][m] - size[0][m])))
        yield here.claim(f"Where {way} the sets of {method.upper()}", f"Section {where}", shown, holds)
    if over:  # of the other case the paper says nothing
        for m, method in _ADAPTIVE.items():
            shown = f"{_GAP.title} {gap[0][m].mean():.3f} to {gap[1][m].mean():.3f}"
            text = f"Where T* > 1, TS lowers the {_GAP.title} of {method.upper()}"
            yield here.claim(text, "Section 3.2", shown, _verdict(_sign(gap[0][m] - gap[1][m])))


def _of_lac(here: _Setting) -> Iterator[Claim]:
    """LAC beside the adaptive scores."""
    size, gap = here.sizes_and_gaps()
    lac, aps = (size[1][m] / size[0][m].mean() - size[0][m] / size[0][m].mean() for m in (0, 1))
    less = _LITTLE * np.sign(aps.mean()) * aps - np.sign(lac.mean()) * lac
    shown = f"{_SIZE.title} of LAC {lac.mean():+.1%}, of APS {aps.mean():+.1%}"
    text = f"TS moves the sets of LAC little (less than {_LITTLE:g} times as much as those of APS)"
    yield here.claim(text, "Section 3.2", shown, _verdict(_sign(less)))
    for m, method in _ADAPTIVE.items():
        smaller = [_sign(part[m] - part[0]) for part in size]
        uneven = [_sign(part[0] - part[m]) for part in gap]
        shown = "; ".join(
            f"{name}: {_SIZE.title} {s[0].mean():.2f} and {s[m].mean():.2f}, "
            f"{_GAP.title} {g[0].mean():.3f} and {g[m].mean():.3f}"
            for name, s, g in zip(("T = 1", "T*"), size, gap, strict=True)
        )
        text = f"LAC has smaller sets than {method.upper()} and a larger {_GAP.title}"
        yield here.claim(text, "Section 3.2", shown, _verdict(*smaller, *uneven))


def _curves(here: _Setting) -> Iterator[Claim]:
    """What temperature does beyond calibration."""
    curves = here.found.curves[here.cp]
    for method in _ADAPTIVE.values():
        name = method.upper()
        steps = np.diff(curves.of_trials("threshold", method, here.alpha), axis=0)
        shown = f"it falls in {np.mean(steps < 0):.1%} of the steps of all trials"
        yield here.claim(f"The threshold of {name} falls as T rises", "Corollary 4.2", shown, not np.any(steps > 0))
        text = f"{_SIZE.title} of {name} rises to a peak at T_c and then falls"
        yield here.claim(text, "Section 3.3", *_shape(curves, _SIZE.name, method, here.alpha, 1))
        text = f"{_GAP.title} of {name} falls to a minimum and then rises"
        yield here.claim(text, "Section 3.3", *_shape(curves, _GAP.name, method, here.alpha, -1))
        text = f"{_MEAN_GAP.title} of {name} mirrors its {_GAP.title} (correlation over T above {_ALIKE:g})"
        yield here.claim(text, "Section 3.1, appendix B.5", *_mirrored(curves, method, here.alpha))


def _shape(curves: Sweep, metric: str, method: str, alpha: float, sign: int) -> tuple[str, bool | None]:
    """Whether a curve rises and falls (sign 1), or falls and rises (-1), and the change that speaks against it."""
    values, t = curves.of_trials(metric, method, alpha), curves.temperatures
    shape, mean = rise_and_fall(sign * values), values.mean(axis=-1)
    digits = 2 if METRICS[metric].unit == "labels" else 3
    shown = ", ".join(f"{mean[i]:.{digits}f} at T = {t[i]:g}" for i in (0, shape.peak, len(t) - 1))
    if shape.against is not None:
        i, j = shape.against
        way = "rises" if mean[j] > mean[i] else "falls"
        shown += f"; but it {way} from {mean[i]:.{digits}f} at T = {t[i]:g} to {mean[j]:.{digits}f} at T = {t[j]:g}"
    return shown, shape.holds


def _mirrored(curves: Sweep, method: str, alpha: float) -> tuple[str, bool | None]:
    """Correlation of the two class gaps over the temperatures; its error by leaving out a tenth of the trials."""
    top, mean = (curves.of_trials(metric.name, method, alpha) for metric in (_GAP, _MEAN_GAP))

    def alike(trials: Ints) -> float:
        return _correlation(top[:, trials].mean(axis=-1), mean[:, trials].mean(axis=-1))

    trials = np.arange(top.shape[1])
    groups = np.array_split(trials, min(10, len(trials)))
    left = np.array([alike(np.delete(trials, group)) for group in groups])
    whole, error = alike(trials), float(np.sqrt((len(left) - 1) * np.var(left)))
    lowest = [f"{curves.temperatures[part.mean(axis=-1).argmin()]:g}" for part in (top, mean)]
    shown = f"correlation {whole:.3f} ± {error:.3f}; least at T = {lowest[0]} and {lowest[1]}"
    return shown, None if not abs(whole - _ALIKE) > _FAR * error else whole > _ALIKE


def _few_shrink(one: SizeDifferences, alpha: float, cp: int) -> Claim:
    """Sets row by row."""
    grow, _, shrink = one.trial_shares
    holds = _verdict(_sign(_FEW_SETS - shrink), _sign(grow - shrink))
    shown = f"{one.grow:.1%} grow, {one.stay:.1%} stay, {one.shrink:.1%} shrink"
    text = f"From T = 1 to T*, few sets of {one.method.upper()} shrink (under {_FEW_SETS:.0%}, and fewer than grow)"
    return Claim(text, "Section 3.2, appendix B.4", shown, holds, alpha, cp)


def _against_mondrian(comparison: RuleComparison, alpha: float, cp: int, rows: float) -> Iterator[Claim]:
    """The temperature of appendix C beside thresholds by class."""
    raps = (cell for cell in comparison.cells if (cell.mode, cell.method, cell.cp_percent) == ("exact", "raps", cp))
    cells = {(cell.at, cell.metric): cell for cell in raps}
    if not cells:  # a size of the conformal set that the table does not have
        return
    pairs = [(cells["t_hat", metric.name], cells["mondrian", metric.name]) for metric in (_SIZE, _GAP)]
    gains = [b.value - a.value for a, b in pairs]
    errors = [float(np.hypot(a.standard_error, b.standard_error)) for a, b in pairs]
    signs = [int(np.sign(gain)) if abs(gain) > _FAR * error else 0 for gain, error in zip(gains, errors, strict=True)]
    (size, by_class), (gap, gap_by_class) = [(a.value, b.value) for a, b in pairs]
    shown = f"{_SIZE.title} {size:.2f} and {by_class:.2f}, {_GAP.title} {gap:.3f} and {gap_by_class:.3f}"
    text = f"With few rows per class (under {_FEW_ROWS}), T-hat beats Mondrian thresholds on size and {_GAP.title}"
    shown += f"; {rows:.3g} rows per class"
    holds, infinite = _verdict(*signs), comparison.infinite.get(cp, 0.0)
    if infinite > _ANY_INFINITE:  # the paper's were not
        holds = None
        shown += f"; open, because {infinite:.0%} of the Mondrian thresholds are infinite for lack of rows"
    yield Claim(text, "Appendix D", shown, holds, alpha, cp)


@dataclass(frozen=True)
class Peak:
    """Where AvgSize of a score peaks in a file: mean over the trials, and its standard error."""

    file: str
    n_classes: int
    method: str
    temperature: float
    error: float


def peaks_of(file: str, n_classes: int, found: Measured, settings: Settings) -> list[Peak]:
    """The peaks of a file's adaptive scores; none where the size does not rise and fall."""
    alpha, cp = settings.main
    curves, peaks = found.curves[cp], []
    for method in _ADAPTIVE.values():
        values = curves.of_trials(_SIZE.name, method, alpha)
        if rise_and_fall(values).holds:
            at = curves.temperatures[values.argmax(axis=0)]
            peaks.append(Peak(file, n_classes, method, float(at.mean()), float(standard_error(at))))
    return peaks


def compare_peaks(peaks: Sequence[Peak], settings: Settings) -> tuple[Claim, ...]:
    """Whether T_c is lower where there are more classes: in every two files whose peaks can be told apart."""
    claims = []
    for method in _ADAPTIVE.values():
        mine = sorted((peak for peak in peaks if peak.method == method), key=lambda peak: peak.n_classes)
        two = [(a, b) for i, a in enumerate(mine) for b in mine[i + 1 :] if a.n_classes < b.n_classes]
        if not two:
            continue
        signs = [_apart(a, b) for a, b in two]
        shown = ", ".join(f"{p.file} ({p.n_classes:,} classes) {p.temperature:.2f} ± {p.error:.2f}" for p in mine)
        against = [f"{b.file} is above {a.file}" for (a, b), sign in zip(two, signs, strict=True) if sign < 0]
        found = f"T_c: {shown}" + (f"; but {'; '.join(against)}" if against else "")
        text = f"The peak T_c of {method.upper()} is lower with more classes"
        claims.append(Claim(text, "Section 4.2", found, _verdict(*signs), *settings.main))
    return tuple(claims)


def _apart(few: Peak, many: Peak) -> int:
    """1 if the file of many classes peaks lower beyond 3 standard errors, -1 if higher, else 0."""
    return _far(few.temperature - many.temperature, few.error, many.error)


def _far(difference: float, error: float, other: float) -> int:
    """Sign of a difference beyond 3 standard errors of it, or 0."""
    return int(np.sign(difference)) if abs(difference) > _FAR * float(np.hypot(error, other)) else 0


@dataclass(frozen=True)
class Effect:
    """What TS does to a score's sets in a file: T*, and the change from T = 1 to T*, each with its standard error."""

    file: str
    method: str
    metric: str
    temperature: float
    temperature_error: float
    change: float
    error: float

    def cooler_than(self, other: "Effect") -> bool:
        """Whether its T* is lower beyond 3 standard errors."""
        return _far(other.temperature - self.temperature, other.temperature_error, self.temperature_error) > 0


def effects_of(file: str, found: Measured, settings: Settings) -> list[Effect]:
    """By how much TS enlarges the adaptive sets of a file (logarithm of the sizes) and lowers their TopCovGap."""
    alpha, cp = settings.main
    a, t = settings.alphas.index(alpha), found.trial_ece
    effects = []
    for m, method in _ADAPTIVE.items():
        size, gap = (
            [part[cp].of(metric.name)[m, a] for part in (found.before, found.after)] for metric in (_SIZE, _GAP)
        )
        for metric, change in ((_SIZE.name, np.log(size[1] / size[0])), (_GAP.name, gap[0] - gap[1])):
            told = float(t.mean()), float(standard_error(t)), float(change.mean()), float(standard_error(change))
            effects.append(Effect(file, method, metric, *told))
    return effects


def compare_effects(effects: Sequence[Effect], settings: Settings) -> tuple[Claim, ...]:
    """Whether TS does more where T* is higher: in every two files with T* above 1 that can be told apart."""
    claims = []
    for method in _ADAPTIVE.values():
        for metric, does in ((_SIZE, "enlarges the sets"), (_GAP, f"lowers the {_GAP.title}")):
            mine = [one for one in effects if (one.method, one.metric) == (method, metric.name) and one.temperature > 1]
            mine.sort(key=lambda one: one.temperature)
            two = [(a, b) for i, a in enumerate(mine) for b in mine[i + 1 :] if a.cooler_than(b)]
            if not two:
                continue
            signs = [_far(b.change - a.change, b.error, a.error) for a, b in two]
            shown = ", ".join(f"{one.file} (T* {one.temperature:.2f}) {_changed(one)}" for one in mine)
            text = f"The higher T*, the more TS {does} of {method.upper()}"
            claims.append(Claim(text, "Section 3.2", shown, _verdict(*signs), *settings.main))
    return tuple(claims)


def _changed(one: Effect) -> str:
    return f"{np.expm1(one.change):+.0%}" if one.metric == _SIZE.name else f"{-one.change:+.3f}"
