"""Set metrics: hand arithmetic, identities, and plain-Python references in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermoset import metrics
from thermoset.errors import InputError

OF_SETS = {name: metric for name, metric in metrics.METRICS.items() if metric.is_of_sets}
ALPHAS = st.sampled_from(["0.01", "0.05", "0.1", "0.18", "0.3", "0.5", "0.9"])


@st.composite
def problems(draw, max_rows=40, max_classes=45):
    """Boolean sets (n, C) and labels (n,): wide enough for the top 5% to be two classes, often with absent classes."""
    n, n_classes = draw(st.integers(1, max_rows)), draw(st.integers(1, max_classes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sets = rng.random((n, n_classes)) < draw(st.sampled_from([0.0, 0.05, 0.3, 0.9, 1.0]))
    return sets, rng.integers(0, n_classes, n)


# --- references: loops and fractions, sharing nothing with the library ---------------------------------------------


def reference_class_gaps(sets, labels, alpha):
    gaps = []
    for c in range(len(sets[0])):
        rows = [i for i in range(len(sets)) if labels[i] == c]
        if rows:
            gaps.append(abs(Fraction(sum(bool(sets[i][c]) for i in rows), len(rows)) - (1 - Fraction(alpha))))
    return gaps


def reference_top_gap(sets, labels, alpha):
    m = max(int(Fraction(5, 100) * len(sets[0])), 1)
    worst = sorted(reference_class_gaps(sets, labels, alpha), reverse=True)[:m]
    return sum(worst) / len(worst)


def reference_class_coverages(sets, labels):
    found = []
    for c in range(len(sets[0])):
        rows = [i for i in range(len(sets)) if labels[i] == c]
        if rows:
            found.append(Fraction(sum(bool(sets[i][c]) for i in rows), len(rows)))
    return found


def reference_worst_tenth(sets, labels):
    m = max(round(Fraction(len(sets[0]), 10)), 1)
    least = sorted(reference_class_coverages(sets, labels))[:m]
    return sum(least) / len(least)


def reference_sscv(sets, labels, alpha):
    worst = Fraction(0)
    for low, high in [(0, 1), (2, 3), (4, 10), (11, 100), (101, 10**9)]:
        rows = [i for i in range(len(sets)) if low <= sum(map(int, sets[i])) <= high]
        if rows:
            coverage = Fraction(sum(bool(sets[i][labels[i]]) for i in rows), len(rows))
            worst = max(worst, abs(coverage - (1 - Fraction(alpha))))
    return worst


@given(problems(), ALPHAS)
def test_every_metric_agrees_with_loops_and_fractions(problem, alpha):
    sets, labels = problem
    n = len(labels)
    sizes = [sum(map(int, row)) for row in sets]
    coverage = Fraction(sum(bool(sets[i][labels[i]]) for i in range(n)), n)
    gaps, classes = reference_class_gaps(sets, labels, alpha), reference_class_coverages(sets, labels)
    expected = {
        "avg_size": Fraction(sum(sizes), n),
        "empty_share": Fraction(sizes.count(0), n),
        "marginal_coverage": coverage,
        "marginal_coverage_gap": abs(coverage - (1 - Fraction(alpha))),
        "avg_coverage_gap": sum(gaps) / len(gaps),
        "top_coverage_gap": reference_top_gap(sets, labels, alpha),
        "sscv": reference_sscv(sets, labels, alpha),
        "worst_tenth_coverage": reference_worst_tenth(sets, labels),
        "macro_coverage": sum(classes) / len(classes),
        "classes_below": Fraction(sum(one < 1 - Fraction(alpha) for one in classes), len(classes)),
    }
    assert expected.keys() == OF_SETS.keys()
    for name, metric in OF_SETS.items():
        assert metric(sets, labels, alpha) == pytest.approx(float(expected[name]), abs=1e-14), name


def test_sscv_reaches_every_stratum():
    # One row of each size, all covered, alpha = 1/4: gap 1/4 everywhere. Then the label leaves one set after
    # another; the stratum of that row alone drops to coverage 0, a gap of 3/4.
    sizes = [1, 2, 4, 11, 101]
    sets = np.arange(150) < np.array(sizes)[:, None]
    inside = np.zeros(5, dtype=int)
    assert metrics.size_stratified_coverage_violation(sets, inside, 0.25) == 0.25
    for row in range(5):
        labels = inside.copy()
        labels[row] = 149
        assert metrics.size_stratified_coverage_violation(sets, labels, 0.25) == 0.75


@pytest.mark.parametrize(("size", "neighbour"), [(1, 0), (3, 2), (10, 4), (100, 11), (140, 101)])
def test_sscv_strata_end_where_the_definition_says(size, neighbour):
    # Two sizes of one stratum, one row covered and one not: coverage 1/2, and alpha = 1/2 gives gap 0.
    # One label more (or one fewer at the top) would split them: coverages 0 and 1, gap 1/2.
    sets = np.arange(150) < np.array([size, neighbour])[:, None]
    labels = np.array([0, 149])
    assert metrics.size_stratified_coverage_violation(sets, labels, 0.5) == 0
    if size < 140:
        moved = np.arange(150) < np.array([size + 1, neighbour])[:, None]
        assert metrics.size_stratified_coverage_violation(moved, labels, 0.5) == 0.5


def test_top_coverage_gap_by_hand():
    # C = 40: m = 2. Classes 0, 1, 2 have 4 rows each with 4, 2, 1 hits, the others none: coverages 1, 1/2, 1/4;
    # alpha = 1/4: gaps 1/4, 1/4, 1/2. Top two: (1/2 + 1/4) / 2 = 3/8. All: (1/4 + 1/4 + 1/2) / 3 = 1/3.
    labels = np.repeat([0, 1, 2], 4)
    sets = np.zeros((12, 40), dtype=bool)
    for row in [0, 1, 2, 3, 4, 5, 8]:
        sets[row, labels[row]] = True
    assert metrics.top_coverage_gap(sets, labels, 0.25) == 0.375
    assert metrics.avg_coverage_gap(sets, labels, 0.25) == pytest.approx(1 / 3, abs=1e-15)


def test_worst_tenth_by_hand():
    # C = 20: m = 2. Classes 0, 1, 2 have 4 rows each with 4, 2, 1 hits, the others none: coverages 1, 1/2, 1/4.
    # Covered least are two of the three: (1/2 + 1/4) / 2 = 3/8. A class covered too much is no fault here.
    labels = np.repeat([0, 1, 2], 4)
    sets = np.zeros((12, 20), dtype=bool)
    for row in [0, 1, 2, 3, 4, 5, 8]:
        sets[row, labels[row]] = True
    assert metrics.worst_tenth_coverage(sets, labels) == 0.375
    assert metrics.worst_tenth_coverage(sets[:, :14], labels) == 0.25  # 1.4 classes are one


def test_macro_coverage_and_classes_below_by_hand():
    # 9 rows of class 0 with 9 hits, 10 of class 1 with 9, 1 of class 2 with none: coverages 1, 0.9 and 0
    labels = np.repeat([0, 1, 2], [9, 10, 1])
    sets = np.zeros((20, 4), dtype=bool)
    sets[np.arange(18), labels[:18]] = True
    assert metrics.macro_coverage(sets, labels) == pytest.approx(1.9 / 3, abs=1e-15)
    assert metrics.classes_below(sets, labels, 0.1) == pytest.approx(1 / 3), "0.9 is not below 0.9"
    assert metrics.classes_below(sets, labels, 0.09) == pytest.approx(2 / 3)


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


def test_worst_tenth_with_fewer_classes_present_than_m():
    # C = 100: m = 10, but two classes are present: (0.5 + 0.25) / 2. Left out or NaN is the same.
    coverage = np.full((2, 100), np.nan)
    coverage[0, [3, 70]] = 0.5, 0.25
    np.testing.assert_array_equal(metrics.worst_tenth(coverage, 100), [0.375, np.nan])
    assert metrics.worst_tenth([0.5, 0.25], 100) == 0.375


@pytest.mark.parametrize("coverage", [0.5, [], [1.5], [-0.1], ["a"]])
def test_worst_tenth_refuses_what_is_no_coverage(coverage):
    with pytest.raises(InputError, match="coverage must be"):
        metrics.worst_tenth(coverage, 3)


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


def test_top_gap_with_fewer_classes_present_than_m():
    # C = 100: m = 5, but two classes are present: (0.5 + 0.25) / 2. Left out or NaN is the same.
    gaps = np.full(100, np.nan)
    gaps[[3, 70]] = 0.5, 0.25
    assert metrics.top_gap(gaps, 100) == metrics.top_gap([0.5, 0.25], 100) == 0.375


def test_gaps_work_on_trials_by_classes():
    hits = np.array([[1, 2, 0], [2, 0, 4]])
    counts = np.array([[2, 2, 0], [2, 4, 4]])
    gaps = metrics.coverage_gaps(hits, counts, 0.25)  # coverages .5, 1, none | 1, 0, 1 against .75
    np.testing.assert_array_equal(gaps, [[0.25, 0.25, np.nan], [0.25, 0.75, 0.25]])
    np.testing.assert_array_equal(metrics.top_gap(gaps, 3), [0.25, 0.75])
    np.testing.assert_allclose(metrics.avg_gap(gaps), [0.25, 1.25 / 3], atol=1e-15)


def test_no_class_present_is_nan_without_a_warning():
    gaps = metrics.coverage_gaps([0, 0], [0, 0], 0.1)
    assert np.isnan(gaps).all()
    assert np.isnan(metrics.top_gap(gaps, 2))
    assert np.isnan(metrics.avg_gap(gaps))


@given(problems(), ALPHAS)
def test_counts_and_sets_give_the_same_numbers(problem, alpha):
    sets, labels = problem
    table = metrics.class_coverage(sets, labels)
    gaps = metrics.coverage_gaps(table.hits, table.count, alpha)
    assert metrics.top_coverage_gap(sets, labels, alpha) == metrics.top_gap(gaps, sets.shape[1])
    assert metrics.avg_coverage_gap(sets, labels, alpha) == metrics.avg_gap(gaps)
    # Hits of the classes add up to the hits of all.
    assert table.hits.sum() / len(labels) == metrics.marginal_coverage(sets, labels)
    np.testing.assert_array_equal(np.isnan(table.coverage), table.count == 0)


@given(problems(), ALPHAS)
def test_marginal_gap_is_at_most_the_weighted_class_gap(problem, alpha):
    # Triangle inequality: |sum_c w_c (cov_c - level)| <= sum_c w_c |cov_c - level|.
    sets, labels = problem
    table = metrics.class_coverage(sets, labels)
    gaps = np.nan_to_num(metrics.coverage_gaps(table.hits, table.count, alpha))
    assert metrics.marginal_coverage_gap(sets, labels, alpha) <= gaps @ table.count / len(labels) + 1e-12
    assert metrics.avg_coverage_gap(sets, labels, alpha) <= metrics.top_coverage_gap(sets, labels, alpha) + 1e-12


@pytest.mark.parametrize("metric", OF_SETS.values(), ids=OF_SETS)
class TestContract:
    """What every member of the registry does."""

    rng = np.random.default_rng(5)
    sets = rng.random((300, 60)) < 0.2
    labels = rng.integers(0, 60, 300)

    def test_gives_a_python_float(self, metric):
        assert type(metric(self.sets, self.labels, 0.1)) is float

    def test_order_of_rows_does_not_matter(self, metric):
        order = np.random.default_rng(1).permutation(300)
        assert metric(self.sets[order], self.labels[order], 0.1) == metric(self.sets, self.labels, 0.1)

    def test_names_of_classes_do_not_matter(self, metric):
        place = np.random.default_rng(2).permutation(60)
        renamed = np.empty_like(self.sets)
        renamed[:, place] = self.sets
        value = metric(self.sets, self.labels, 0.1)
        assert metric(renamed, place[self.labels], 0.1) == pytest.approx(value, abs=1e-15)

    def test_rows_twice_change_nothing(self, metric):
        twice = metric(np.vstack([self.sets, self.sets]), np.tile(self.labels, 2), 0.1)
        assert twice == pytest.approx(metric(self.sets, self.labels, 0.1), abs=1e-15)

    def test_inputs_are_left_alone(self, metric):
        sets, labels = self.sets.copy(), self.labels.copy()
        sets.flags.writeable = labels.flags.writeable = False
        metric(sets, labels, 0.1)
        np.testing.assert_array_equal(sets, self.sets)
        np.testing.assert_array_equal(labels, self.labels)

    @pytest.mark.parametrize(
        ("sets", "message"),
        [
            ([[1, 0], [0, 1]], r"sets must be a boolean array; got dtype int64"),
            ([True, False], r"sets must have shape \(rows, classes\).*got \(2,\)"),
            (np.zeros((0, 3), dtype=bool), r"at least one row and one class; got \(0, 3\)"),
            (np.zeros((3, 0), dtype=bool), r"at least one row and one class; got \(3, 0\)"),
            ([[True], [True, False]], r"sets must be a rectangular array"),
        ],
    )
    def test_bad_sets(self, metric, sets, message):
        with pytest.raises(InputError, match=message):
            metric(sets, [0, 1], 0.1)


LABELLED = {name: OF_SETS[name] for name in OF_SETS if name not in {"avg_size", "empty_share"}}
PROMISED = {name: LABELLED[name] for name in LABELLED if name != "marginal_coverage"}


@pytest.mark.parametrize("metric", LABELLED.values(), ids=LABELLED)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 1], r"labels must have shape \(2,\) to match sets \(2, 2\); got \(3,\)"),
        ([[0], [1]], r"labels must have shape \(2,\) to match sets \(2, 2\); got \(2, 1\)"),
        ([0, 2], r"labels\[1\] is 2; 1 such values.*0\.\.1"),
        ([-1, -1], r"labels\[0\] is -1; 2 such values"),
        ([0.0, 1.0], r"labels must be integer class indices; got dtype float64"),
        (["cat", "dog"], r"labels must be integer class indices"),
    ],
)
def test_bad_labels(metric, labels, message):
    with pytest.raises(InputError, match=message):
        metric([[True, False], [True, True]], labels, 0.1)


@pytest.mark.parametrize("metric", PROMISED.values(), ids=PROMISED)
@pytest.mark.parametrize("alpha", [0, 1, -0.1, float("nan"), "much", True])
def test_bad_alpha(metric, alpha):
    with pytest.raises(InputError, match="alpha must be a number strictly between 0 and 1"):
        metric([[True, False], [True, True]], [0, 1], alpha)


@pytest.mark.parametrize(
    ("hits", "counts", "message"),
    [
        ([3], [2], r"hits must lie between 0 and counts; got 3 of 2 at index \(0,\)"),
        ([[1, 1], [1, -1]], [2, 2], r"got -1 of 2 at index \(1, 1\)"),
        ([0.5], [1], r"hits must be integers; got dtype float64"),
        ([1, 1, 1], [2, 2], r"shapes that match; got \(3,\) and \(2,\)"),
    ],
)
def test_bad_counts(hits, counts, message):
    with pytest.raises(InputError, match=message):
        metrics.coverage_gaps(hits, counts, 0.1)


def test_bad_gaps():
    with pytest.raises(InputError, match=r"gaps must be absolute; got -0\.5"):
        metrics.top_gap([0.5, -0.5], 2)
    with pytest.raises(InputError, match=r"classes on the last axis; got shape \(\)"):
        metrics.avg_gap(0.5)
    with pytest.raises(InputError, match=r"n_classes must be a whole number from 1 to .*; got 0"):
        metrics.top_gap([0.5], 0)
