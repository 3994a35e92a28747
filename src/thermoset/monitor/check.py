"""Is the promise kept? Coverage and calibration of a fitted predictor on fresh labelled rows.

Coverage is compared with its law (see `promise`), and where nothing was promised with coverage of exactly 1 - alpha;
confidence with what calibrated confidence shows by chance.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from thermoset import metrics
from thermoset.arrays import Block, Bools, Floats, Ints
from thermoset.calibration.calibrator import CalibratedSoftmax
from thermoset.data import Logits
from thermoset.data.groups import Groups, read_groups
from thermoset.data.labels import checked_weights
from thermoset.data.top_k import tops_of
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.metrics.counts import check_labels, check_sets, coverage_by_confidence, coverage_by_size
from thermoset.metrics.probabilities import (
    N_BINS,
    BinCounts,
    add_bins,
    brier_terms,
    calibration_of_bins,
    check_probs,
    mean_nll,
    no_bins,
)
from thermoset.monitor.promise import Promise, lower_tails, marginal_coverage, part_laws, union_coverage
from thermoset.monitor.report import (
    FAIL_ON,
    AnswerCheck,
    CalibrationCheck,
    CheckReport,
    ConfidenceRange,
    CoverageTable,
    PartGap,
    PartTable,
)
from thermoset.predictor.sets import ANSWER, Inference, RowSets
from thermoset.rows import block_rows, map_rows, sum_rows
from thermoset.uniforms import stream

_SIMULATIONS = 4999  # with the observed one 5,000: the smallest p-value is 0.0002
_STRATA = 512  # above so many rows, those of neighbouring confidence are drawn together


def holm(p_values: ArrayLike) -> Floats:
    """Holm's adjusted p-values: for any true hypothesis, below a level a with probability at most a (Holm 1979)."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise InputError(f"p_values must be numbers from 0 to 1, shape (tests,); got {p_values!r}.")
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


def coverage_table(index: Ints, rows: Ints, hits: Ints, p_value: Floats, promised: float, law: str) -> CoverageTable:
    """Table of shares and intervals, with known p-values."""
    present, tested = rows > 0, ~np.isnan(p_value)
    interval, adjusted = metrics.clopper_pearson(hits, rows), np.full(len(rows), np.nan)
    adjusted[tested] = holm(p_value[tested])
    coverage = np.divide(hits, rows, out=np.full(len(rows), np.nan), where=present)
    low, high = (np.where(present, end, np.nan) for end in interval)
    return CoverageTable(index, rows, hits, coverage, low, high, p_value, adjusted, promised, law)


def yardstick(rows: Ints, hits: Ints, promised: float) -> CoverageTable:
    """Entries for which nothing was promised, compared with coverage 1 - alpha of the predictor as it is."""
    p_value = np.where(rows > 0, binom.cdf(hits, rows, promised), np.nan)
    return coverage_table(np.arange(len(rows)), rows, hits, p_value, promised, "binomial")


def part_table(sizes: Ints, confidence: Floats, hit: Bools, alpha: Alpha) -> PartTable:
    """Coverage of rows by set size, in the strata of SSCV, and by confidence, in tenths of the rows."""
    by_size, by_confidence = coverage_by_size(sizes, hit), coverage_by_confidence(confidence, hit)
    strata = [f"{a} to {b - 1}" for a, b in pairwise(metrics.SIZE_STRATA)] + [f"{metrics.SIZE_STRATA[-1]} or more"]
    tenths = [f"{low:.3f} to {high:.3f}" for low, high in zip(by_confidence.low, by_confidence.high, strict=True)]
    by, names, gaps, counts = [], [], [], []
    for kind, seen, called in (("size", by_size, strata), ("confidence", by_confidence, tenths)):
        some = np.flatnonzero(seen.count)
        rows, hits = seen.count[some], seen.hits[some]
        gap = float(metrics.coverage_gaps(hits, rows, alpha).max())
        gaps.append(PartGap(kind, gap, metrics.noise_floor_of_counts(rows, alpha)))
        counts.append((rows, hits))
        names += [called[i] for i in some]
        by += [kind] * len(some)
    rows, hits = (np.concatenate(both) for both in zip(*counts, strict=True))
    return PartTable(tuple(by), tuple(names), yardstick(rows, hits, float(1 - exact_level(alpha))), tuple(gaps))


# ---- confidence ------------------------------------------------------------------------------------------------------


class RowFacts(NamedTuple):
    """The facts that a check needs of each row, arrays (n,).

    hit : whether the row's set holds its label; correct : whether that is the likeliest; confidence, own : probability
    of the likeliest, and of the label; distance : squared distance of the probabilities from the label.
    """

    size: Ints
    hit: Bools
    correct: Bools
    confidence: Floats
    own: Floats
    distance: Floats

    @classmethod
    def of(cls, sets: Bools, probs: NDArray[np.floating], labels: Ints) -> "RowFacts":
        """From sets and probabilities, (n, C) each."""
        row = np.arange(len(labels))
        return cls(
            size=np.count_nonzero(sets, axis=1),
            hit=sets[row, labels],
            correct=probs.argmax(axis=1) == labels,
            confidence=np.minimum(probs.max(axis=1), 1).astype(np.float64),
            own=probs[row, labels].astype(np.float64),
            distance=brier_terms(probs, labels),
        )

    def take(self, rows: Ints) -> "RowFacts":
        """Those of some rows."""
        columns: Any = (column[rows] for column in self)
        return RowFacts(*columns)


def calibration_check(facts: RowFacts, n_bins: int = N_BINS) -> CalibrationCheck:
    """Measure the probabilities and test whether confidence is calibrated.

    Each row is simulated to be right with a probability equal to its confidence. The p-value is the share of models,
    the observed one among them, with an ECE at least as large: valid for any number of rows and of simulations, as a
    z-test is not (of 1,000 rows with confidence 0.9999, two are wrong with probability 0.005, and Spiegelhalter's test
    says 2e-9).
    """
    confidence, correct = facts.confidence, facts.correct
    bins = metrics.reliability_from_confidence(confidence, correct, n_bins)
    filled = bins.count > 0
    right = np.rint(bins.accuracy[filled] * bins.count[filled])
    observed, chance = _simulate_ece(np.sort(confidence), bins.count[filled], right)
    return CalibrationCheck(
        ece=bins.ece,
        ece_mean=float(chance.mean()),
        ece_95=float(np.quantile(chance, 0.95, method="inverted_cdf")),
        p_value=(1 + int(np.count_nonzero(chance >= observed))) / (1 + len(chance)),
        nll=mean_nll(facts.own),
        brier=float(facts.distance.mean()),
        accuracy=float(correct.mean()),
        confidence=float(confidence.mean()),
        n_bins=n_bins,
        worst=_worst_range(confidence, correct),
    )


def _simulate_ece(confidence: Floats, count: Ints, right: Floats) -> tuple[float, Floats]:
    """ECE of `right` labels by bin, and of simulated ones, in the same arithmetic so that equal counts are equal.

    `count` says how many of the rows, sorted by confidence, each bin holds. If rows are many, strata of neighbours with
    their mean are drawn: a binomial in place of a sum of nearly equal Bernoullis.
    """
    ends = np.cumsum(count)
    n = int(ends[-1])
    edges = np.unique(np.concatenate([np.arange(0, n, -(-n // _STRATA)), ends]))
    starts, sizes = edges[:-1], np.diff(edges)
    means = np.minimum(np.add.reduceat(confidence, starts) / sizes, 1.0)
    first = np.searchsorted(starts, ends - count)  # stratum at which a bin begins
    expected = np.add.reduceat(sizes * means, first)
    drawn = stream(0, "confidence").binomial(sizes[:, None], means[:, None], (len(sizes), _SIMULATIONS))
    chance: Floats = np.abs(np.add.reduceat(drawn, first) - expected[:, None]).sum(axis=0) / n
    return float(np.abs(right - expected).sum() / n), chance


def _worst_range(confidence: Floats, correct: Bools) -> ConfidenceRange:
    """Neighbouring tenths of confidence in which right answers are farthest from the expected number of them.

    Far is in standard deviations of a calibrated model, with one answer added so that few rows do not count for much.
    """
    tenth = np.minimum((10 * confidence).astype(np.int64), 9)
    columns = np.ones(len(tenth)), correct, confidence, confidence * (1 - confidence)
    sums = np.array([np.bincount(tenth, weights=column, minlength=10) for column in columns])
    ends = np.concatenate([np.zeros((4, 1)), np.cumsum(sums, axis=1)], axis=1)
    # Of ranges that are equally far, the narrowest: it begins and ends where there are answers.
    ranges = sorted(((a, b) for b in range(1, 11) for a in range(b)), key=lambda ends: ends[1] - ends[0])
    each = np.array([ends[:, b] - ends[:, a] for a, b in ranges])
    far = np.abs(each[:, 1] - each[:, 2]) / np.sqrt(each[:, 3] + 1)
    at = int(np.where(each[:, 0] > 0, far, -1.0).argmax())
    (low, high), (rows, right, total, _) = ranges[at], each[at].tolist()
    return ConfidenceRange(low / 10, high / 10, round(rows), round(right), min(total / rows, 1.0))


# ---- the check -------------------------------------------------------------------------------------------------------


def check(
    sets: ArrayLike,
    probs: ArrayLike,
    labels: ArrayLike,
    promise: Promise,
    *,
    n_bins: int = N_BINS,
    fail_on: str | Iterable[str] = (),
    class_names: Sequence[str] | None = None,
    groups: object = None,
) -> CheckReport:
    """Compare sets (n, C) and probabilities (n, C) of fresh rows with their labels and with the promise.

    The promise is broken if marginal coverage is below 1 - alpha, significantly so (p < 0.001); with thresholds by
    class, cluster or group, also if this holds for one of them with a Holm-adjusted p-value. `groups`, one name or
    number per row, adds the coverage of each group of rows. `fail_on` adds further tests at the same level: "classes"
    and "groups" (one of them has coverage below 1 - alpha, even if nothing was promised for it), "confidence"
    (answers are right less or more often than their confidence says) and "answers" (more of the rows that a predictor
    answers alone are wrong than was claimed). A predictor that keeps its promise fails each
    test at most once in a thousand times.

    >>> sets = np.eye(2, dtype=bool)[[0] * 82 + [1] * 18]
    >>> probs = np.where(sets, 0.8, 0.2)
    >>> report = check(sets, probs, labels=[0] * 100, promise=Promise(0.1, [999]))
    >>> report.ok, report.marginal.p_value < 0.05  # 82 hits where 90 are expected: suspicious, and not enough
    (True, True)
    >>> report = check(sets, probs, labels=[1] * 100, promise=Promise(0.1, [999]))
    >>> report.ok, report.marginal.coverage, report.calibration.accuracy
    (False, 0.18, 0.18)
    """
    inside, table = check_sets(sets), check_probs(probs)
    truth = check_labels(labels, inside.shape[1], len(inside))
    if table.shape != inside.shape:
        raise InputError(
            f"sets and probs must have the same shape (rows, classes); got {inside.shape} and {table.shape}. "
            "Pass both for the same rows."
        )
    return check_facts(
        RowFacts.of(inside, table, truth),
        truth,
        inside.shape[1],
        promise,
        n_bins=n_bins,
        fail_on=fail_on,
        class_names=class_names,
        groups=None if groups is None else read_groups(groups, len(truth)),
        classwise=metrics.classwise_calibration(probs, truth, n_bins),
    )


def check_rows(
    inference: Inference, data: Logits, labels: Ints, fail_on: str | Iterable[str] = (), weights: Any = None
) -> CheckReport:
    """The same for the sets and the probabilities that a document gives to rows."""
    promise, bins, whole = Promise.of(inference), no_bins(data.n_classes, N_BINS), tops_of(data) is None
    answered, rule = np.zeros(len(data), dtype=np.bool_), inference.document.answers
    flags = np.empty((2, len(data)), dtype=np.bool_)
    facts = RowFacts(np.empty(len(data), dtype=np.int64), *flags, *np.empty((3, len(data))))
    if whole:
        per_row, rows = [labels, inference.rows(data, None, weights)], inference.correct(data)
        map_rows(rows, _facts_of_block, [*facts, answered], per_row=per_row, fixed=[inference.softmax])
        zero = partial(no_bins, data.n_classes, N_BINS)
        bins = BinCounts(*sum_rows(rows, _add_bins, zero, per_row=[labels], fixed=[inference.softmax]))
    else:  # sets by their bounds, probabilities as completed rows have them
        own, step = None if weights is None else checked_weights(weights, len(data)), block_rows(data.n_classes)
        for start in range(0, len(data), step):
            place = slice(start, min(start + step, len(data)))
            some, probs = data.take(place), inference.probabilities(data.take(place))
            add_bins(probs, labels[place], bins)
            sets = inference.sets(some, None, None if own is None else own[place])
            for column, part in zip(facts, RowFacts.of(sets, probs, labels[place]), strict=True):
                column[place] = part
    if rule is None and "answers" in fail_on:
        raise InputError("fail_on='answers' needs a predictor with an answer rule. Fit it with answer=.")
    # Those that sets are for; a table needs rows.
    others = np.flatnonzero(np.ones_like(answered) if answered.all() else ~answered)
    report = check_facts(
        facts.take(others),
        labels[others],
        data.n_classes,
        promise if whole else replace(promise, exact=False),
        fail_on=fail_on,
        class_names=inference.document.classes,
        groups=None if data.groups is None else data.groups.take(others),
        classwise=calibration_of_bins(bins),
    )
    if rule is not None:
        return _with_answers(report, facts, answered, rule.claim.bound)
    return report if whole else replace(report, undecided=int(inference.undecided(data, None, weights).sum()))


def _with_answers(report: CheckReport, facts: RowFacts, answered: Bools, bound: float) -> CheckReport:
    """The report of the other rows, with the errors of answered ones and the confidence of all."""
    rows, n, errors = len(answered), int(answered.sum()), int(np.count_nonzero(answered & ~facts.correct))
    if n == rows:  # nothing is promised of sets that nobody sees
        nothing = replace(report.marginal, rows=0, hits=0, coverage=np.nan, p_value=1.0)
        report = replace(report, rows=0, marginal=nothing)
    low, high = (float(end) for end in metrics.clopper_pearson(errors, n))
    answers = AnswerCheck(rows, n, errors, bound, low, high, float(binom.sf(errors - 1, n, bound)))
    return replace(report, calibration=calibration_check(facts), answers=answers)


def _facts_of_block(block: Block, labels: Ints, rows: RowSets, softmax: CalibratedSoftmax) -> tuple[Any, ...]:
    sets, actions = rows.decide(block)
    return *RowFacts.of(sets, softmax.of_block(block), labels), actions == ANSWER


def _add_bins(block: Block, bins: BinCounts, labels: Ints, softmax: CalibratedSoftmax) -> None:
    add_bins(softmax.of_block(block), labels, bins)


def check_facts(
    facts: RowFacts,
    labels: Ints,
    n_classes: int,
    promise: Promise,
    *,
    n_bins: int = N_BINS,
    fail_on: str | Iterable[str] = (),
    class_names: Sequence[str] | None = None,
    groups: Groups | None = None,
    classwise: metrics.ClasswiseCalibration | None = None,
) -> CheckReport:
    """The same from the facts of each row: sets and probabilities need not be in memory all at once."""
    wanted = (fail_on,) if isinstance(fail_on, str) else tuple(fail_on)
    if unknown := [name for name in wanted if name not in FAIL_ON]:
        *others, last = (repr(name) for name in FAIL_ON)
        raise InputError(
            f"fail_on accepts {', '.join(others)} and {last}; got {unknown[0]!r}. The promised coverage is always "
            "checked."
        )
    if class_names is not None and len(class_names) != n_classes:
        raise InputError(f"class_names must name the {n_classes} classes of the sets; got {len(class_names)}.")
    kind = promise.kind
    by_row = kind is not None and kind.of_rows
    if groups is None and (by_row or "groups" in wanted):
        raise InputError("checking groups needs the group of each row, but these rows have none. Pass groups=.")

    def counts(codes: Ints, n_parts: int) -> tuple[Ints, Ints]:
        """Rows and hits of each part."""
        return np.bincount(codes, minlength=n_parts), np.bincount(codes[facts.hit], minlength=n_parts)

    of_class, group_table = counts(labels, n_classes), None
    if by_row and groups is not None:
        names = tuple(dict.fromkeys((*(promise.group_names or ()), *groups.names)))  # those with a threshold first
        groups, parts = Groups(names, groups.codes_among(names)), promise.group_parts(names)
        rows, hits = counts(groups.codes, len(names))
    else:
        parts = promise.class_parts(n_classes)
        rows, hits = (parts.total(count) for count in of_class)
        if groups is not None:
            group_table = yardstick(*counts(groups.codes, len(groups.names)), promise.promised)
    laws = part_laws(parts, rows, promise)
    table = coverage_table(parts.index, rows, hits, lower_tails(laws, hits), promise.promised, "beta-binomial")
    of_all = marginal_coverage if kind is None or kind.exact else union_coverage
    gaps = metrics.coverage_gaps(of_class[1], of_class[0], promise.alpha)
    return CheckReport(
        promise=promise,
        fail_on=wanted,
        class_names=None if class_names is None else tuple(class_names),
        rows=len(labels),
        marginal=of_all(laws, rows, hits, promise),
        avg_size=float(facts.size.sum() / len(labels)),
        empty_share=float(np.count_nonzero(facts.size == 0) / len(labels)),
        classes=table if kind and kind.each_class else yardstick(*of_class, promise.promised),
        clusters=table if kind and kind.exact and not kind.each_class and not by_row else None,
        top_gap=float(metrics.top_gap(gaps, n_classes)),
        avg_gap=float(metrics.avg_gap(gaps)),
        floor=metrics.noise_floor_of_counts(of_class[0], promise.alpha),
        calibration=calibration_check(facts, n_bins),
        groups=table if by_row else group_table,
        group_names=None if groups is None else groups.names,
        parts=part_table(facts.size, facts.confidence, facts.hit, promise.alpha),
        classwise=classwise,
    )
