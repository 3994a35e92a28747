"""What the paper says happens, and whether it happens on a file.

A claim has evidence: the changes that it wants positive. It holds if each is positive by more than 3 standard errors
over the trials, does not hold if one is negative by as much, and is open otherwise. Trials are random splits of one
file: the verdict is on this file.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from thermoset.arrays import Floats, Ints
from thermoset.levels import exact_level
from thermoset.metrics import METRICS
from thermoset.paper.study.cells import find_cells
from thermoset.paper.study.measure import METHODS, Measured, Settings
from thermoset.paper.study.row_by_row import SizeDifferences
from thermoset.paper.study.rules import RuleComparison
from thermoset.paper.theory import QuantileSamples
from thermoset.sweeping import Sweep, standard_error

_LEVEL = 0.05  # of all the differences of a curve together
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


def significant_changes(values: Floats) -> NDArray[np.int8]:
    """Signs of the changes from each temperature to each other that chance does not explain, (n, n); 0 for the rest.

    `values` is (n_temperatures, trials); the trials of a change are paired. The bar is so high (Bonferroni) that in 95
    of 100 curves without any change none is found.
    """
    n, trials = values.shape
    bar = float(student.ppf(1 - _LEVEL / max(n * (n - 1), 2), max(trials - 1, 1)))
    signs = np.zeros((n, n), dtype=np.int8)
    for i, start in enumerate(values):
        changes = values - start
        mean = changes.mean(axis=-1)
        far = np.abs(mean) > bar * standard_error(changes)  # one that is the same in every trial has no error
        signs[i, far] = np.sign(mean[far])
    return signs


class Shape(NamedTuple):
    """Whether a curve rises to some inner temperature and falls after it.

    It does if both are beyond chance and no change on the way contradicts this; it does not if some change contradicts
    every inner temperature; None is open.
    """

    peak: int  # index of the largest mean
    holds: bool | None
    against: tuple[int, int] | None  # the largest change that contradicts `peak`, from one index to another


def rise_and_fall(values: Floats) -> Shape:
    """Decide whether a curve (n_temperatures, trials) rises and then falls."""
    mean, signs = values.mean(axis=-1), significant_changes(values)
    last, peak = len(mean) - 1, int(mean.argmax())
    later = np.triu(np.ones(signs.shape, dtype=bool), 1)
    falls, rises = later & (signs < 0), later & (signs > 0)
    possible = [k for k in range(1, last) if not falls[: k + 1, : k + 1].any() and not rises[k:, k:].any()]
    shown = any(signs[0, k] > 0 and signs[k, last] < 0 for k in possible)
    wrong = np.zeros(signs.shape, dtype=bool)  # a fall before the peak, or a rise after it
    wrong[: peak + 1, : peak + 1] = falls[: peak + 1, : peak + 1]
    wrong[peak:, peak:] |= rises[peak:, peak:]
    size = np.where(wrong, np.abs(mean[None] - mean[:, None]), -1.0)
    i, j = np.unravel_index(int(size.argmax()), size.shape)
    return Shape(peak, True if shown else (None if possible else False), (int(i), int(j)) if wrong.any() else None)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper on one file, or on all of them."""

    text: str  # what is claimed
    source: str  # and where
    found: str  # what the file shows
    holds: bool | None  # whether that is what is claimed; None where it is open
    alpha: float | None = None  # the setting that was looked at, where the claim depends on it
    cp_percent: int | None = None


class Change(NamedTuple):
    """A mean change over the trials that a claim wants positive, and its standard error."""

    gain: float
    error: float

    @property
    def sign(self) -> int:
        """1 or -1 beyond 3 standard errors, else 0."""
        return int(np.sign(self.gain)) if abs(self.gain) > _FAR * self.error else 0

    def minus(self, other: "Change") -> "Change":
        """The difference of two independent changes."""
        return Change(self.gain - other.gain, float(np.hypot(self.error, other.error)))


Evidence = Iterable[Change] | bool | None
Finding = tuple[str, str, str, Evidence]  # text, source, what the file shows, evidence


def _decide(evidence: Evidence) -> bool | None:
    if evidence is None or isinstance(evidence, bool):
        return evidence
    signs = [change.sign for change in evidence]
    return True if all(sign > 0 for sign in signs) else (False if any(sign < 0 for sign in signs) else None)


def _change(values: Floats) -> Change:
    return Change(float(values.mean()), float(standard_error(values)))


def _within(values: Floats, limit: float) -> Change:
    """By how much a mean is nearer to 0 than a limit."""
    return _change(limit - float(np.sign(values.mean())) * values)


class _View(NamedTuple):
    """A file as claims look at it, at one level and one size of the conformal set."""

    measured: Measured
    settings: Settings
    alpha: float
    cp: int

    def before_and_after(self, metric: str, alpha: float | None = None, cp: int | None = None) -> tuple[Floats, Floats]:
        """A metric at T = 1 and at T*: (methods, trials) each."""
        a, size = self.settings.alphas.index(alpha or self.alpha), cp or self.cp
        return self.measured.before[size].of(metric)[:, a], self.measured.after[size].of(metric)[:, a]

    def curve(self, metric: str, method: str) -> Floats:
        """A metric over the temperatures of the grid, (temperatures, trials)."""
        return self.measured.curves[self.cp].of_trials(metric, method, self.alpha)


def check_claims(
    measured: Measured,
    comparison: RuleComparison,
    differences: Sequence[SizeDifferences],
    quantiles: QuantileSamples,
    settings: Settings,
) -> tuple[Claim, ...]:
    """Test the paper's claims on one file, at every level and size of the conformal set of the settings."""
    claims: list[Claim] = []

    def add(findings: Iterable[Finding], alpha: float | None = None, cp: int | None = None) -> None:
        claims.extend(Claim(text, where, shown, _decide(facts), alpha, cp) for text, where, shown, facts in findings)

    main = _View(measured, settings, *settings.main)
    add(_of_temperatures(measured))
    for alpha, cp in itertools.product(settings.alphas, settings.cp_percents):
        view = _View(measured, settings, alpha, cp)
        add((*_scaling(view), *_of_lac(view), *_curves(view)), alpha, cp)
    if len(settings.cp_percents) > 1:
        for alpha in settings.alphas:
            add(_conformal_sizes(main._replace(alpha=alpha)), alpha)
    if len(settings.alphas) > 1:
        for cp in settings.cp_percents:
            add(_levels(main._replace(cp=cp)), None, cp)
    add(_few_shrink(differences if measured.ece > 1 else ()), main.alpha, main.cp)
    add(_single_trials(main, comparison.single_trials), main.alpha, main.cp)
    add(_one_quantile_row(quantiles), main.alpha)
    add(_against_mondrian(main, comparison), main.alpha, main.cp)
    return tuple(claims)


def _of_temperatures(measured: Measured) -> Iterator[Finding]:
    """T* by NLL and by ECE, and above 1."""
    apart, ece = measured.trial_nll / measured.trial_ece - 1, _change(measured.trial_ece)
    far = f"{apart.mean():+.1%} ± {float(standard_error(apart)):.1%}"
    shown = f"{measured.trial_nll.mean():.3f} by NLL, {ece.gain:.3f} by ECE: {far}"
    text = f"T* by NLL is close to T* by ECE (within {_CLOSE:.0%})"
    yield text, "Section 3.1, appendix B.3", shown, [_within(apart, _CLOSE)]
    shown = f"T* by ECE {ece.gain:.3f} ± {ece.error:.3f}, mean over trials"
    yield "T* is above 1: the network is overconfident", "Section 3.2", shown, [_change(measured.trial_ece - 1)]


def _scaling(view: _View) -> Iterator[Finding]:
    """What calibration does to coverage and sets; where T* is below 1 the paper speaks of sizes alone."""
    promised = float(1 - exact_level(view.alpha))
    coverage = [values[m] for values in view.before_and_after("marginal_coverage") for m in range(3)]
    means = [values.mean() for values in coverage]
    text = f"Marginal coverage is kept (within {_KEPT:g} of 1 - alpha), with and without TS"
    shown = f"coverage {min(means):.4f} to {max(means):.4f} over LAC, APS and RAPS at T = 1 and T*"
    yield text, "Section 3.2", shown, [_within(values - promised, _KEPT) for values in coverage]
    size, gap = view.before_and_after(_SIZE.name), view.before_and_after(_GAP.name)
    over = view.measured.ece > 1
    way, sign, where = ("T* > 1, TS enlarges", 1, "3.2") if over else ("T* < 1, TS shrinks", -1, "4.2")
    for m, method in _ADAPTIVE.items():
        shown = f"{_SIZE.title} {size[0][m].mean():.2f} to {size[1][m].mean():.2f}"
        facts = [_change(sign * (size[1][m] - size[0][m]))]
        yield f"Where {way} the sets of {method.upper()}", f"Section {where}", shown, facts
    for m, method in _ADAPTIVE.items() if over else ():
        shown = f"{_GAP.title} {gap[0][m].mean():.3f} to {gap[1][m].mean():.3f}"
        facts = [_change(gap[0][m] - gap[1][m])]
        yield f"Where T* > 1, TS lowers the {_GAP.title} of {method.upper()}", "Section 3.2", shown, facts


def _of_lac(view: _View) -> Iterator[Finding]:
    """LAC and the adaptive scores."""
    size, gap = view.before_and_after(_SIZE.name), view.before_and_after(_GAP.name)
    lac, aps = (size[1][m] / size[0][m].mean() - size[0][m] / size[0][m].mean() for m in (0, 1))
    less = _LITTLE * np.sign(aps.mean()) * aps - np.sign(lac.mean()) * lac
    text = f"TS moves the sets of LAC little (less than {_LITTLE:g} times as much as those of APS)"
    yield text, "Section 3.2", f"{_SIZE.title} of LAC {lac.mean():+.1%}, of APS {aps.mean():+.1%}", [_change(less)]
    for m, method in _ADAPTIVE.items():
        shown = "; ".join(
            f"{name}: {_SIZE.title} {s[0].mean():.2f} and {s[m].mean():.2f}, "
            f"{_GAP.title} {g[0].mean():.3f} and {g[m].mean():.3f}"
            for name, s, g in zip(("T = 1", "T*"), size, gap, strict=True)
        )
        facts = [*(_change(part[m] - part[0]) for part in size), *(_change(part[0] - part[m]) for part in gap)]
        yield f"LAC has smaller sets than {method.upper()} and a larger {_GAP.title}", "Section 3.2", shown, facts
    for metric in (_SIZE, _GAP):
        up, down = (_shape(view, metric.name, "lac", sign) for sign in (1, -1))
        verdicts = up[1], down[1]
        text = f"{metric.title} of LAC has no pattern over T (neither rise and fall, nor fall and rise)"
        holds = False if True in verdicts else (None if None in verdicts else True)
        yield text, "Section 3.3", (down if down[1] else up)[0].partition("; but")[0], holds


def _curves(view: _View) -> Iterator[Finding]:
    """What temperature does beyond calibration."""
    for method in _ADAPTIVE.values():
        name = method.upper()
        steps = np.diff(view.curve("threshold", method), axis=0)
        shown = f"it falls in {np.mean(steps < 0):.1%} of the steps of all trials"
        yield f"The threshold of {name} falls as T rises", "Corollary 4.2", shown, not np.any(steps > 0)
        text = f"{_SIZE.title} of {name} rises to a peak at T_c and then falls"
        yield text, "Section 3.3", *_shape(view, _SIZE.name, method, 1)
        text = f"{_GAP.title} of {name} falls to a minimum and then rises"
        yield text, "Section 3.3", *_shape(view, _GAP.name, method, -1)
        text = f"{_MEAN_GAP.title} of {name} mirrors its {_GAP.title} (correlation over T above {_ALIKE:g})"
        yield text, "Section 3.1, appendix B.5", *_gap_correlation(view, method)


def _shape(view: _View, metric: str, method: str, sign: int) -> tuple[str, bool | None]:
    """Whether a curve rises and falls (sign 1), or falls and rises (-1), and the change that contradicts it."""
    values, t = view.curve(metric, method), view.measured.curves[view.cp].temperatures
    shape, mean = rise_and_fall(sign * values), values.mean(axis=-1)
    digits = 2 if METRICS[metric].unit == "labels" else 3
    at = [f"{value:.{digits}f} at T = {where:g}" for value, where in zip(mean, t, strict=True)]
    shown = ", ".join(at[i] for i in (0, shape.peak, -1))
    if shape.against is not None:
        i, j = shape.against
        shown += f"; but it {'rises' if mean[j] > mean[i] else 'falls'} from {at[i]} to {at[j]}"
    return shown, shape.holds


def _gap_correlation(view: _View, method: str) -> tuple[str, Evidence]:
    """Correlation of the two class gaps over the temperatures; its error by leaving out a tenth of the trials."""
    top, mean = (view.curve(metric.name, method) for metric in (_GAP, _MEAN_GAP))

    def alike(trials: Ints) -> float:
        return _correlation(top[:, trials].mean(axis=-1), mean[:, trials].mean(axis=-1))

    trials = np.arange(top.shape[1])
    left = np.array([alike(np.delete(trials, group)) for group in np.array_split(trials, min(10, len(trials)))])
    whole, error = alike(trials), float(np.sqrt((len(left) - 1) * np.var(left)))
    t = view.measured.curves[view.cp].temperatures
    lowest = [f"{t[part.mean(axis=-1).argmin()]:g}" for part in (top, mean)]
    shown = f"correlation {whole:.3f} ± {error:.3f}; least at T = {lowest[0]} and {lowest[1]}"
    return shown, [Change(whole - _ALIKE, error)]


def _correlation(a: Floats, b: Floats) -> float:
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0 and np.ptp(b) > 0 else np.nan


def _conformal_sizes(view: _View) -> Iterator[Finding]:
    """The smallest conformal set and the largest."""
    few, many = min(view.settings.cp_percents), max(view.settings.cp_percents)
    sizes = zip(*(view.before_and_after(_SIZE.name, cp=cp) for cp in (few, many)), strict=True)
    changes = [(small[m] - large[m]) / large[m].mean() for small, large in sizes for m in range(3)]
    means = [change.mean() for change in changes]
    shown = f"{_SIZE.title} differs by {min(means):+.1%} to {max(means):+.1%} over LAC, APS and RAPS at T = 1 and T*"
    text = f"A CP set of {few}% suffices: sizes are those of {many}% (within {_SAME:.0%})"
    yield text, "Appendix B.4", shown, [_within(change, _SAME) for change in changes]


def _levels(view: _View) -> Iterator[Finding]:
    """The strictest level and the laxest."""
    strict, lax = min(view.settings.alphas), max(view.settings.alphas)
    facts, shown = [], []
    (size_s, gap_s), (size_x, gap_x) = (
        [view.before_and_after(metric.name, alpha) for metric in (_SIZE, _GAP)] for alpha in (strict, lax)
    )
    for (m, method), (i, at) in itertools.product(enumerate(METHODS), enumerate(("T = 1", "T*"))):
        size, larger, gap, smaller = size_x[i][m], size_s[i][m], gap_x[i][m], gap_s[i][m]
        facts += [_change(larger - size), _change(gap - smaller)]
        shown.append(
            f"{method.upper()} at {at} {size.mean():.2f} to {larger.mean():.2f}, "
            f"{_GAP.title} {gap.mean():.3f} to {smaller.mean():.3f}"
        )
    text = f"At alpha {strict:g}, sets are larger than at {lax:g} and {_GAP.title} is smaller"
    yield text, "Appendix B.4", "; ".join(shown), facts


def _few_shrink(differences: Sequence[SizeDifferences]) -> Iterator[Finding]:
    for one in differences:
        grow, _, shrink = one.trial_shares
        shown = f"{one.grow:.1%} grow, {one.stay:.1%} stay, {one.shrink:.1%} shrink"
        text = f"From T = 1 to T*, few sets of {one.method.upper()} shrink (under {_FEW_SETS:.0%}, and fewer than grow)"
        yield text, "Section 3.2, appendix B.4", shown, [_change(_FEW_SETS - shrink), _change(grow - shrink)]


def _single_trials(view: _View, single: Sweep) -> Iterator[Finding]:
    """Curves of one trial on its calibration rows, and the mean of all trials on the evaluation rows."""
    for method, metric in itertools.product(_ADAPTIVE.values(), (_SIZE, _GAP)):
        whole = view.curve(metric.name, method).mean(axis=-1)
        alike = np.array([_correlation(one, whole) for one in single.of_trials(metric.name, method, view.alpha).T])
        shown = f"correlation {np.nanmean(alike):.3f}, in nine of ten trials above {np.nanquantile(alike, 0.1):.3f}"
        text = f"The curve of {metric.title} of {method.upper()} in one trial resembles the averaged one "
        yield f"{text}(correlation above {_ALIKE:g})", "Appendix C", shown, [_change(alike - _ALIKE)]


def _one_quantile_row(samples: QuantileSamples) -> Iterator[Finding]:
    rows = ", ".join(
        f"row {row} (margin {margin:.1f}) at T = {t:.3g}"
        for row, margin, t in zip(samples.row, samples.margin, samples.temperature, strict=True)
    )
    text = "One row sets the threshold of APS (u = 1) at T = 1, T*, 0.5 and 2"
    yield text, "Section 4.2, appendix B.6", rows, len(set(samples.row.tolist())) == 1


def _against_mondrian(view: _View, comparison: RuleComparison) -> Iterator[Finding]:
    """The temperature of appendix C and thresholds by class, of which the paper speaks where rows are few."""
    evaluated = float(view.measured.before[view.cp].counts.mean())  # rows of a class
    rows = evaluated * view.cp / (100 - view.settings.calibration_percent - view.cp)
    cells = find_cells(comparison.cells, mode="exact", method="raps", cp_percent=view.cp)
    if rows >= _FEW_ROWS or not cells:  # the table has no other sizes of the conformal set
        return
    pairs = [[cells[metric.name, "raps", at] for at in ("t_hat", "mondrian")] for metric in (_SIZE, _GAP)]
    facts = [Change(b.value, b.standard_error).minus(Change(a.value, a.standard_error)) for a, b in pairs]
    (size, by_class), (gap, gap_by_class) = [(a.value, b.value) for a, b in pairs]
    shown = f"{_SIZE.title} {size:.2f} and {by_class:.2f}, {_GAP.title} {gap:.3f} and {gap_by_class:.3f}"
    shown += f"; {rows:.3g} rows per class"
    infinite = comparison.infinite.get(view.cp, 0.0)
    decided = infinite > _ANY_INFINITE  # the paper's were not
    if decided:
        shown += f"; open, because {infinite:.0%} of the Mondrian thresholds are infinite for lack of rows"
    text = f"With few rows per class (under {_FEW_ROWS}), T-hat beats Mondrian thresholds on size and {_GAP.title}"
    yield text, "Appendix D", shown, None if decided else facts


@dataclass(frozen=True)
class FileNumber:
    """What claims about several files compare: a mean over a file's trials, for one score.

    `what` is "peak" (where AvgSize peaks), or a metric whose change from T = 1 to T* is the value: the logarithm of the
    sizes, the fall of the class gap. `temperature` is T*.
    """

    file: str
    n_classes: int
    method: str
    what: str
    temperature: Change
    value: Change

    def __str__(self) -> str:
        """The number as a reader sees it."""
        gain, error = self.value
        if self.what == "peak":
            return f"{self.file} ({self.n_classes:,} classes) {gain:.2f} ± {error:.2f}"
        change = f"{np.expm1(gain):+.0%}" if self.what == _SIZE.name else f"{-gain:+.3f}"
        return f"{self.file} (T* {self.temperature.gain:.2f}) {change}"


def file_numbers(file: str, n_classes: int, measured: Measured, settings: Settings) -> Iterator[FileNumber]:
    """A file's numbers; no peak where the size does not rise and fall."""
    view, t_star = _View(measured, settings, *settings.main), _change(measured.trial_ece)
    size, gap = view.before_and_after(_SIZE.name), view.before_and_after(_GAP.name)
    for m, method in _ADAPTIVE.items():
        values = view.curve(_SIZE.name, method)
        if rise_and_fall(values).holds:
            at = measured.curves[view.cp].temperatures[values.argmax(axis=0)]
            yield FileNumber(file, n_classes, method, "peak", t_star, _change(at))
        for metric, change in ((_SIZE, np.log(size[1][m] / size[0][m])), (_GAP, gap[0][m] - gap[1][m])):
            yield FileNumber(file, n_classes, method, metric.name, t_star, _change(change))


def compare_files(numbers: Iterable[FileNumber], settings: Settings) -> tuple[Claim, ...]:
    """Claims about every two files that differ significantly.

    T_c is lower where there are more classes; TS does more where T* is higher, among files with T* above 1 and as many
    classes (with ten, the paper says, little happens whatever T* is).
    """
    known, claims = list(numbers), []
    texts = {
        "peak": "The peak T_c of {} is lower with more classes",
        _SIZE.name: "The higher T*, the more TS enlarges the sets of {}",
        _GAP.name: f"The higher T*, the more TS lowers the {_GAP.title} of {{}}",
    }
    for method, (what, text) in itertools.product(_ADAPTIVE.values(), texts.items()):
        mine = [one for one in known if (one.method, one.what) == (method, what)]
        if what == "peak":
            mine.sort(key=lambda one: one.n_classes)
            pairs = [(a, b) for a, b in itertools.combinations(mine, 2) if a.n_classes < b.n_classes]
            facts = [a.value.minus(b.value) for a, b in pairs]
            wrong = [f"{b.file} is above {a.file}" for (a, b), fact in zip(pairs, facts, strict=True) if fact.sign < 0]
            shown = f"T_c: {', '.join(map(str, mine))}{'; but ' if wrong else ''}{'; '.join(wrong)}"
        else:
            mine = sorted((one for one in mine if one.temperature.gain > 1), key=lambda one: one.temperature.gain)
            alike = [(a, b) for a, b in itertools.combinations(mine, 2) if a.n_classes == b.n_classes]
            pairs = [(a, b) for a, b in alike if b.temperature.minus(a.temperature).sign > 0]
            facts, shown = [b.value.minus(a.value) for a, b in pairs], ", ".join(map(str, mine))
        if pairs:
            where = f"Section {'4.2' if what == 'peak' else '3.2'}"
            claims.append(Claim(text.format(method.upper()), where, shown, _decide(facts), *settings.main))
    return tuple(claims)
