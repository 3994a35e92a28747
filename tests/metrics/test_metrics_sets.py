"""Metrics of sets: hand arithmetic, identities, references in loops and fractions, and the registry they come from."""

import ast
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from thermoset import metrics
from thermoset.errors import InputError

METRICS = metrics.METRICS
OF_SETS = {name: metric for name, metric in METRICS.items() if metric.is_of_sets}
MEASURED = {
    name: metric for name, metric in METRICS.items() if metric.needs in ("counts", "sizes", "groups", "confidence")
}
ALPHAS = st.sampled_from(["0.01", "0.05", "0.1", "0.18", "0.3", "0.5", "0.9"])


@st.composite
def problems(draw, max_rows=60, max_classes=45):
    """Sets (n, C), labels, groups and confidences (n,): two classes or groups may be the top 5%; some are absent."""
    n, n_classes, n_groups = draw(st.integers(1, max_rows)), draw(st.integers(1, max_classes)), draw(st.integers(1, 45))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sets = rng.random((n, n_classes)) < draw(st.sampled_from([0.0, 0.05, 0.3, 0.9, 1.0]))
    confidence = rng.integers(0, draw(st.integers(1, 100)), n) / 100
    return sets, rng.integers(0, n_classes, n), rng.integers(0, n_groups, n), confidence


def count_by(parts, sets, labels):
    """Rows and hits of each part, by a loop."""
    found = {}
    for i, part in enumerate(parts):
        rows, hits = found.get(part, (0, 0))
        found[part] = rows + 1, hits + bool(sets[i][labels[i]])
    return found


def reference(sets, labels, groups, confidence, alpha):
    """Every metric by loops and fractions, sharing nothing with the library."""
    level, n, sizes = 1 - Fraction(alpha), len(labels), [sum(map(int, row)) for row in sets]

    def coverages(parts):
        return [Fraction(hits, rows) for rows, hits in count_by(parts, sets, labels).values()]

    def mean(values):
        return sum(values) / len(values)

    def gaps(parts):
        return sorted((abs(coverage - level) for coverage in coverages(parts)), reverse=True)

    def top(parts, n_parts):
        return mean(gaps(parts)[: max(int(Fraction(5, 100) * n_parts), 1)])

    def tenth(parts, n_parts):
        return mean(sorted(coverages(parts))[: max(round(Fraction(n_parts, 10)), 1)])

    classes, groups = labels.tolist(), groups.tolist()
    n_classes, n_groups = len(sets[0]), len(set(groups))
    strata = [next(k for k, last in enumerate([1, 3, 10, 100, 10**9]) if size <= last) for size in sizes]
    surer = [sum(other < own for other in confidence) * 10 // n for own in confidence]
    (coverage,) = coverages([0] * n)
    return {
        "avg_size": Fraction(sum(sizes), n),
        "empty_share": Fraction(sizes.count(0), n),
        "marginal_coverage": coverage,
        "marginal_coverage_gap": abs(coverage - level),
        "avg_coverage_gap": mean(gaps(classes)),
        "top_coverage_gap": top(classes, n_classes),
        "worst_tenth_coverage": tenth(classes, n_classes),
        "macro_coverage": mean(coverages(classes)),
        "classes_below": mean([Fraction(one < level) for one in coverages(classes)]),
        "sscv": max(gaps(strata)),
        "avg_group_coverage_gap": mean(gaps(groups)),
        "top_group_coverage_gap": top(groups, n_groups),
        "worst_group_coverage": tenth(groups, n_groups),
        "confidence_coverage_gap": max(gaps(surer)),
    }


def call_function(name, sets, labels, groups, confidence, alpha):
    """The public function of a metric."""
    function = getattr(metrics, "size_stratified_coverage_violation" if name == "sscv" else name)
    arguments = {
        **dict.fromkeys(["avg_size", "empty_share"], ()),
        **dict.fromkeys(["marginal_coverage", "worst_tenth_coverage", "macro_coverage"], (labels,)),
        **dict.fromkeys(["avg_group_coverage_gap", "top_group_coverage_gap"], (labels, groups, alpha)),
        "worst_group_coverage": (labels, groups),
        "confidence_coverage_gap": (labels, confidence, alpha),
    }
    return function(sets, *arguments.get(name, (labels, alpha)))


@given(problems(), ALPHAS)
def test_records_and_functions_agree_with_loops_and_fractions(problem, alpha):
    sets, labels, groups, confidence = problem
    expected = reference(*problem, alpha)
    assert expected.keys() == MEASURED.keys()
    for name, metric in MEASURED.items():
        value = metric(sets, labels, alpha, groups=groups, confidence=confidence)
        assert value == pytest.approx(float(expected[name]), abs=1e-14), name
        assert type(value) is float
        assert call_function(name, *problem, alpha) == value


@given(problems(), st.randoms(use_true_random=False))
def test_order_and_names_do_not_matter(problem, random):
    sets, labels, groups, confidence = problem
    order, place = list(range(len(sets))), list(range(sets.shape[1]))
    random.shuffle(order)
    random.shuffle(place)
    renamed = np.empty_like(sets)
    renamed[:, place] = sets
    mixed = renamed[order], np.array(place)[labels][order]
    names = np.array([f"group {100 - g}" for g in groups])[order]
    for name, metric in MEASURED.items():
        value = metric(sets, labels, 0.1, groups=groups, confidence=confidence)
        got = metric(*mixed, 0.1, groups=names, confidence=confidence[order])
        assert got == pytest.approx(value, abs=1e-15), name
        twice = metric(
            np.vstack([sets, sets]), [*labels, *labels], 0.1, groups=[*groups] * 2, confidence=[*confidence] * 2
        )
        assert twice == pytest.approx(value, abs=1e-15), name


@given(problems())
def test_groups_that_are_the_classes_give_the_class_metrics(problem):
    sets, labels, _, _ = problem
    sets = sets[:, np.unique(labels)]  # every class has rows, as every group has
    labels = np.unique(labels, return_inverse=True)[1]
    classes, table = metrics.class_coverage(sets, labels), metrics.group_coverage(sets, labels, labels)
    for name in ("coverage", "count", "hits"):
        assert np.array_equal(getattr(classes, name), getattr(table, name))
    for of_groups, of_classes in (
        ("top_group_coverage_gap", "top_coverage_gap"),
        ("avg_group_coverage_gap", "avg_coverage_gap"),
        ("worst_group_coverage", "worst_tenth_coverage"),
    ):
        assert METRICS[of_groups](sets, labels, 0.1, groups=labels) == METRICS[of_classes](sets, labels, 0.1)


@given(problems(), ALPHAS)
def test_counts_give_the_metrics_of_sets(problem, alpha):
    sets, labels, _, _ = problem
    table = metrics.class_coverage(sets, labels)
    gaps = metrics.coverage_gaps(table.hits, table.count, alpha)
    assert metrics.top_coverage_gap(sets, labels, alpha) == metrics.top_gap(gaps, sets.shape[1])
    assert metrics.avg_coverage_gap(sets, labels, alpha) == metrics.avg_gap(gaps)
    assert metrics.worst_tenth_coverage(sets, labels) == metrics.worst_tenth(table.coverage, sets.shape[1])
    assert table.hits.sum() / len(labels) == metrics.marginal_coverage(sets, labels)
    assert np.array_equal(np.isnan(table.coverage), table.count == 0)
    # |sum_c w_c (cov_c - level)| <= sum_c w_c |cov_c - level|
    weighted = np.nan_to_num(gaps) @ table.count / len(labels)
    assert metrics.marginal_coverage_gap(sets, labels, alpha) <= weighted + 1e-12
    assert metrics.avg_gap(gaps) <= metrics.top_gap(gaps, sets.shape[1]) + 1e-12


# --- by hand --------------------------------------------------------------------------------------------------------


def test_class_gaps_by_hand():
    # Classes 0, 1, 2 have 4 rows each with 4, 2, 1 hits, the others none: coverages 1, 1/2, 1/4; alpha = 1/4: gaps
    # 1/4, 1/4, 1/2. C = 40: m = 2, so (1/2 + 1/4) / 2 = 3/8. All: 1/3. The two of C = 20 covered least: 3/8.
    labels = np.repeat([0, 1, 2], 4)
    sets = np.zeros((12, 40), dtype=bool)
    for row in [0, 1, 2, 3, 4, 5, 8]:
        sets[row, labels[row]] = True
    assert metrics.top_coverage_gap(sets, labels, 0.25) == 0.375
    assert metrics.avg_coverage_gap(sets, labels, 0.25) == pytest.approx(1 / 3, abs=1e-15)
    assert metrics.worst_tenth_coverage(sets[:, :20], labels) == 0.375
    assert metrics.worst_tenth_coverage(sets[:, :14], labels) == 0.25  # 1.4 classes are one


def test_macro_coverage_and_classes_below_by_hand():
    # 9 rows of class 0 with 9 hits, 10 of class 1 with 9, 1 of class 2 with none: coverages 1, 0.9 and 0
    labels = np.repeat([0, 1, 2], [9, 10, 1])
    sets = np.zeros((20, 4), dtype=bool)
    sets[np.arange(18), labels[:18]] = True
    assert metrics.macro_coverage(sets, labels) == pytest.approx(1.9 / 3, abs=1e-15)
    assert metrics.classes_below(sets, labels, 0.1) == pytest.approx(1 / 3), "0.9 is not below 0.9"
    assert metrics.classes_below(sets, labels, 0.09) == pytest.approx(2 / 3)


@pytest.mark.parametrize(("size", "neighbour"), [(1, 0), (3, 2), (10, 4), (100, 11), (140, 101)])
def test_sscv_strata_end_where_the_definition_says(size, neighbour):
    # Two sizes of one stratum, one row covered and one not: coverage 1/2, and alpha = 1/2 gives gap 0.
    # One label more would split them: coverages 0 and 1, gap 1/2.
    sets = np.arange(150) < np.array([size, neighbour])[:, None]
    labels = np.array([0, 149])
    assert metrics.size_stratified_coverage_violation(sets, labels, 0.5) == 0
    if size < 140:
        moved = np.arange(150) < np.array([size + 1, neighbour])[:, None]
        assert metrics.size_stratified_coverage_violation(moved, labels, 0.5) == 0.5


SETS = [[True, False, False], [True, True, False], [False, False, True], [True, False, False], [True, True, True]]
LABELS = [0, 2, 2, 1, 1]
SITES = ["north", "south", "north", "north", "south"]


def test_groups_by_hand():
    # north: rows 0, 2 and 3, of which 0 and 2 hit; south: rows 1 and 4, of which 4 hits; west has no row left
    groups = ts.Logits(np.zeros((6, 3)), groups=[*SITES, "west"]).groups.take(slice(5))
    table = metrics.group_coverage(SETS, LABELS, groups)
    assert table.names == ("north", "south", "west")
    assert (table.count.tolist(), table.hits.tolist()) == ([3, 2, 0], [2, 1, 0])
    np.testing.assert_array_equal(table.coverage, [2 / 3, 1 / 2, np.nan])
    np.testing.assert_array_equal(table.avg_size, [1.0, 2.5, np.nan])
    for given_groups in (SITES, groups):
        gaps = [1 / 12, 1 / 4]
        assert metrics.top_group_coverage_gap(SETS, LABELS, given_groups, "0.25") == max(gaps)
        assert metrics.avg_group_coverage_gap(SETS, LABELS, given_groups, "0.25") == pytest.approx(sum(gaps) / 2)
        assert metrics.worst_group_coverage(SETS, LABELS, given_groups) == 1 / 2


def test_strata_of_confidence_by_hand():
    # ten rows in five strata: two each, by rank
    confidence = np.array([0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.4, 0.5, 1.0])
    assert metrics.confidence_strata(confidence, 5).tolist() == [4, 0, 3, 0, 3, 1, 2, 1, 2, 4]
    # equal ones stay together: seven rows at 1.0 begin at rank 3 of 10, in the second of five strata
    assert metrics.confidence_strata([1.0] * 7 + [0.1, 0.2, 0.3], 5).tolist() == [1] * 7 + [0, 0, 1]
    assert metrics.confidence_strata([0.5], 10).tolist() == [0]


@given(problems(), st.integers(1, 30))
def test_strata_of_confidence_are_in_order_and_even(problem, n_strata):
    sets, labels, _, confidence = problem
    strata, n = metrics.confidence_strata(confidence, n_strata), len(confidence)
    assert np.all(np.diff(strata[np.argsort(confidence, kind="stable")]) >= 0)
    assert all(len(set(strata[confidence == c])) == 1 for c in confidence)
    assert 0 <= strata.min() <= strata.max() < n_strata
    if len(set(confidence.tolist())) == n:
        counts = np.bincount(strata, minlength=n_strata)
        assert counts.max() - counts.min() <= 1
    table = metrics.confidence_stratified_coverage(sets, labels, confidence, n_strata)
    counted = count_by(strata.tolist(), sets, labels)
    for s in range(n_strata):
        assert (table.count[s], table.hits[s]) == counted.get(s, (0, 0))
        inside = confidence[strata == s]
        ends = (inside.min(), inside.max()) if len(inside) else (np.nan, np.nan)
        np.testing.assert_array_equal([table.low[s], table.high[s]], ends)


# --- gaps and coverages of classes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_classes", "m"), [(1, 1), (19, 1), (20, 1), (39, 1), (40, 2), (100, 5), (119, 5), (1000, 50)]
)
def test_top_gap_averages_the_right_number_of_classes(n_classes, m):
    # The m largest gaps are 1, the rest 0: averaging m gives 1, averaging m + 1 gives less.
    gaps = np.zeros(n_classes)
    gaps[:m] = 1
    assert metrics.top_gap(gaps, n_classes) == 1
    if m < n_classes:
        gaps[0] = 0
        assert metrics.top_gap(gaps, n_classes) == pytest.approx((m - 1) / m, abs=1e-15)


@pytest.mark.parametrize(
    ("n_classes", "m"), [(1, 1), (5, 1), (14, 1), (15, 2), (16, 2), (25, 2), (26, 3), (77, 8), (100, 10), (1000, 100)]
)
def test_worst_tenth_averages_the_right_number_of_classes(n_classes, m):
    # The m smallest coverages are 0, the rest 1: averaging m gives 0, averaging m + 1 gives more.
    coverage = np.ones(n_classes)
    coverage[:m] = 0
    assert metrics.worst_tenth(coverage, n_classes) == 0
    coverage[0] = 1
    assert metrics.worst_tenth(coverage, n_classes) == pytest.approx(1 / m if n_classes > 1 else 1, abs=1e-15)


@pytest.mark.parametrize("mean", [metrics.top_gap, metrics.worst_tenth])
def test_with_fewer_classes_present_than_m(mean):
    # C = 100: m = 5 or 10, but two classes are present: (0.5 + 0.25) / 2. Left out or NaN is the same; none is NaN.
    values = np.full((2, 100), np.nan)
    values[0, [3, 70]] = 0.5, 0.25
    np.testing.assert_array_equal(mean(values, 100), [0.375, np.nan])
    assert mean([0.5, 0.25], 100) == 0.375


def test_gaps_work_on_trials_by_classes():
    hits = np.array([[1, 2, 0], [2, 0, 4], [0, 0, 0]])
    counts = np.array([[2, 2, 0], [2, 4, 4], [0, 0, 0]])
    gaps = metrics.coverage_gaps(hits, counts, 0.25)  # coverages .5, 1, none | 1, 0, 1 | none, against .75
    np.testing.assert_array_equal(gaps, [[0.25, 0.25, np.nan], [0.25, 0.75, 0.25], [np.nan] * 3])
    np.testing.assert_array_equal(metrics.top_gap(gaps, 3), [0.25, 0.75, np.nan])
    np.testing.assert_allclose(metrics.avg_gap(gaps), [0.25, 1.25 / 3, np.nan], atol=1e-15)


# --- the registry ---------------------------------------------------------------------------------------------------

SOURCE = Path(ts.__file__).parent
TITLES = {metric.title for metric in METRICS.values() if re.fullmatch(r"[A-Z]\w+[A-Z]\w*", metric.title)}


def texts(path):
    """Strings of a module that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [node.value for node in strings if id(node) not in bare]


def test_a_title_is_written_once():
    assert {"AvgSize", "MarCovGap", "TopCovGap", "AvgCovGap", "SSCV"} == TITLES
    packages = [SOURCE / name for name in ("sweeping", "plots", "report", "paper/study", "monitor", "predictor", "cli")]
    paths = [path for package in packages for path in package.rglob("*.py")]
    assert len(paths) > 30
    assert {path.name: text for path in paths for text in texts(path) for title in TITLES if title in text} == {}
    for page in (SOURCE / "report" / "files").iterdir():
        content = page.read_text(encoding="utf-8")
        assert not any(title in content for title in TITLES), page.name
    written = texts(SOURCE / "metrics" / "sets.py")
    assert all(written.count(title) == 1 for title in TITLES)


def test_records_say_what_they_are():
    assert [metric.name for metric in METRICS.values()] == list(METRICS)
    assert {metric.unit for metric in METRICS.values()} == {"labels", "share", "score"}
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)
    assert METRICS["avg_size"].heading == "AvgSize: labels in a set"
    assert METRICS["threshold"].heading == "Threshold"


def test_the_metrics_of_sweeps():
    drawn = [metric.name for metric in metrics.swept_metrics()]
    assert drawn == [
        "avg_size", "marginal_coverage", "marginal_coverage_gap", "top_coverage_gap", "avg_coverage_gap", "threshold",
        "empty_share", "worst_tenth_coverage", "macro_coverage", "classes_below",
    ]  # fmt: skip
    smooth = metrics.swept_metrics("integrated")
    assert [metric.name for metric in smooth[: len(drawn)]] == drawn
    assert all(metric.averages and not metric.is_swept for metric in smooth[len(drawn) :])
    assert [metric.name for metric in metrics.asked_metrics(["sscv", "sscv"])] == ["sscv"]
    for name in ("avg_size", "no_such_metric", "top_group_coverage_gap"):
        with pytest.raises(InputError, match=name):
            metrics.asked_metrics([name])


def test_what_was_not_counted_is_nan():
    rows = np.array([[2, 3], [4, 0]])
    counts = metrics.SetCounts(rows=rows, members=np.array([5, 8]))
    covered = metrics.SetCounts(rows=rows, hits=rows)  # alpha is not known
    known = {"marginal_coverage", "worst_tenth_coverage", "macro_coverage", "integrated_worst_tenth_coverage"}
    for name, metric in METRICS.items():
        want = [1.0, 2.0] if name == "avg_size" else [np.nan, np.nan]
        np.testing.assert_array_equal(np.broadcast_to(metric.of(counts), 2), want, name)
        want = [1.0, 1.0] if name in known else [np.nan, np.nan]
        np.testing.assert_array_equal(np.broadcast_to(metric.of(covered), 2), want, name)


@pytest.mark.parametrize("name", sorted(METRICS.keys() - OF_SETS.keys()))
def test_what_sets_and_labels_do_not_show_is_refused(name):
    with pytest.raises(InputError, match=name):
        METRICS[name](SETS, LABELS, 0.1)


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", MEASURED.values(), ids=MEASURED)
@pytest.mark.parametrize(
    ("sets", "labels", "alpha", "word"),
    [
        ([[1, 0], [0, 1]], [0, 1], 0.1, "sets.*int64"),
        ([True, False], [0, 1], 0.1, r"sets.*\(2,\)"),
        (np.zeros((0, 3), dtype=bool), [], 0.1, r"sets.*\(0, 3\)"),
        (np.zeros((3, 0), dtype=bool), [0, 0, 0], 0.1, r"sets.*\(3, 0\)"),
        ([[True], [True, False]], [0, 1], 0.1, "sets.*rectangular"),
        ([[True, False], [True, True]], [0, 1, 1], 0.1, r"labels.*\(2,\).*\(3,\)"),
        ([[True, False], [True, True]], [[0], [1]], 0.1, r"labels.*\(2, 1\)"),
        ([[True, False], [True, True]], [0, 2], 0.1, r"labels\[1\] is 2"),
        ([[True, False], [True, True]], [-1, -1], 0.1, r"labels\[0\] is -1; 2 such"),
        ([[True, False], [True, True]], np.array([0, 2**64 - 1], dtype=np.uint64), 0.1, r"labels\[1\]"),
        ([[True, False], [True, True]], [0.0, 1.0], 0.1, "labels.*float64"),
        ([[True, False], [True, True]], ["cat", "dog"], 0.1, "labels.*integer"),
        *(([[True, False], [True, True]], [0, 1], alpha, "alpha") for alpha in (0, 1, -0.1, np.nan, "much", True)),
    ],
)
def test_bad_sets_labels_and_alphas(metric, sets, labels, alpha, word):
    with pytest.raises(InputError, match=word) as caught:
        metric(sets, labels, alpha, groups=[0, 1], confidence=[0.5, 1.0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: metrics.coverage_gaps([3], [2], 0.1), r"hits.*3 of 2 at index \(0,\)"),
        (lambda: metrics.coverage_gaps([[1, 1], [1, -1]], [2, 2], 0.1), r"-1 of 2 at index \(1, 1\)"),
        (lambda: metrics.coverage_gaps([0.5], [1], 0.1), "hits.*float64"),
        (lambda: metrics.coverage_gaps([1, 1, 1], [2, 2], 0.1), "shapes"),
        (lambda: metrics.top_gap([0.5, -0.5], 2), "gaps.*-0.5"),
        (lambda: metrics.avg_gap(0.5), "last axis"),
        (lambda: metrics.top_gap([0.5], 0), "n_classes"),
        *((lambda bad=bad: metrics.worst_tenth(bad, 3), "coverage") for bad in (0.5, [], [1.5], [-0.1], ["a"])),
        (lambda: metrics.group_coverage(SETS, LABELS, SITES[:3]), r"groups.*\(5,\)"),
        (lambda: metrics.group_coverage(SETS, LABELS, [*SITES[:4], None]), r"groups\[4\]"),
        (lambda: metrics.confidence_strata([]), "confidence.*rows"),
        (lambda: metrics.confidence_strata([0.5, np.nan]), r"confidence\[1\] is nan"),
        (lambda: metrics.confidence_strata([0.5], 0), "n_strata"),
        (lambda: metrics.confidence_coverage_gap(SETS, LABELS, [0.5], 0.1), r"confidence.*\(5,\)"),
    ],
)
def test_bad_counts_gaps_groups_and_confidences(call, word):
    with pytest.raises(InputError, match=word) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_inputs_are_left_alone():
    sets, labels, confidence = np.array(SETS), np.array(LABELS), np.linspace(0.5, 1, 5)
    for array in (sets, labels, confidence):
        array.flags.writeable = False
    for metric in MEASURED.values():
        metric(sets, labels, 0.1, groups=SITES, confidence=confidence)
    assert (sets.tolist(), labels.tolist()) == (SETS, LABELS)
