"""Metrics by group and by stratum of confidence: hand arithmetic, identities, plain references in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from thermoset import metrics
from thermoset.errors import InputError


@st.composite
def problems(draw):
    """Sets (n, C), labels (n,), groups (n,) and confidences (n,), often tied."""
    n, n_classes, n_groups = draw(st.integers(1, 60)), draw(st.integers(1, 12)), draw(st.integers(1, 45))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sets = rng.random((n, n_classes)) < draw(st.sampled_from([0.0, 0.3, 0.9, 1.0]))
    confidence = rng.integers(0, draw(st.integers(1, 100)), n) / 100
    return sets, rng.integers(0, n_classes, n), rng.integers(0, n_groups, n), confidence


def hits_by(parts, sets, labels):
    """Rows and hits of each part, by loops."""
    found = {}
    for i, part in enumerate(parts):
        rows, hits = found.get(part, (0, 0))
        found[part] = rows + 1, hits + bool(sets[i][labels[i]])
    return found


SETS = [[True, False, False], [True, True, False], [False, False, True], [True, False, False], [True, True, True]]
LABELS = [0, 2, 2, 1, 1]
SITES = ["north", "south", "north", "north", "south"]


def test_groups_by_hand():
    table = metrics.group_coverage(SETS, LABELS, SITES)
    # north: rows 0, 2 and 3, of which 0 and 2 hit; south: rows 1 and 4, of which 4 hits
    assert table.names == ("north", "south")
    assert (table.count.tolist(), table.hits.tolist()) == ([3, 2], [2, 1])
    assert table.coverage.tolist() == [2 / 3, 1 / 2]
    assert table.avg_size.tolist() == [1.0, 2.5]
    assert metrics.top_group_coverage_gap(SETS, LABELS, SITES, "0.25") == 1 / 4
    assert metrics.avg_group_coverage_gap(SETS, LABELS, SITES, "0.25") == pytest.approx((1 / 12 + 1 / 4) / 2)
    assert metrics.worst_group_coverage(SETS, LABELS, SITES) == 1 / 2


def test_a_group_without_rows_counts_among_the_groups_and_has_no_coverage():
    groups = ts.Logits(np.zeros((6, 3)), groups=[*SITES, "west"]).groups.take(slice(5))
    table = metrics.group_coverage(SETS, LABELS, groups)
    assert table.names == ("north", "south", "west")
    assert table.count.tolist() == [3, 2, 0]
    assert np.isnan(table.coverage[2])
    assert np.isnan(table.avg_size[2])
    assert metrics.avg_group_coverage_gap(SETS, LABELS, groups, "0.25") == pytest.approx((1 / 12 + 1 / 4) / 2)


@given(problems())
def test_groups_against_loops(problem):
    sets, labels, groups, _ = problem
    table, counted = metrics.group_coverage(sets, labels, groups), hits_by(groups.tolist(), sets, labels)
    assert dict(
        zip(map(int, table.names), zip(table.count.tolist(), table.hits.tolist(), strict=True), strict=True)
    ) == (counted)
    gaps = sorted((abs(Fraction(h, n) - Fraction(9, 10)) for n, h in counted.values()), reverse=True)
    m = max(len(gaps) // 20, 1)
    assert metrics.top_group_coverage_gap(sets, labels, groups, "0.1") == pytest.approx(float(sum(gaps[:m]) / m))
    assert metrics.avg_group_coverage_gap(sets, labels, groups, "0.1") == pytest.approx(float(sum(gaps) / len(gaps)))
    least = sorted(Fraction(h, n) for n, h in counted.values())[: max(round(Fraction(len(counted), 10)), 1)]
    assert metrics.worst_group_coverage(sets, labels, groups) == pytest.approx(float(sum(least) / len(least)))


@given(problems())
def test_groups_that_are_the_classes_give_the_class_metrics_exactly(problem):
    sets, labels, _, _ = problem
    sets = sets[:, np.unique(labels)]  # every class has rows, as every group has
    labels = np.unique(labels, return_inverse=True)[1]
    classes, table = metrics.class_coverage(sets, labels), metrics.group_coverage(sets, labels, labels)
    for name in ("coverage", "count", "hits"):
        assert np.array_equal(getattr(classes, name), getattr(table, name))
    alpha = "0.1"
    assert metrics.top_group_coverage_gap(sets, labels, labels, alpha) == metrics.top_coverage_gap(sets, labels, alpha)
    assert metrics.avg_group_coverage_gap(sets, labels, labels, alpha) == metrics.avg_coverage_gap(sets, labels, alpha)
    assert metrics.worst_group_coverage(sets, labels, labels) == metrics.worst_tenth_coverage(sets, labels)


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_the_names_of_groups_do_not_matter(problem, random):
    sets, labels, groups, confidence = problem
    order = list(range(len(sets)))
    random.shuffle(order)
    mixed = sets[order], labels[order]
    renamed = np.array([f"group {100 - g}" for g in groups])[order]
    for name in ("top_group_coverage_gap", "avg_group_coverage_gap"):
        metric = getattr(metrics, name)
        assert metric(*mixed, renamed, 0.1) == pytest.approx(metric(sets, labels, groups, 0.1), abs=1e-15)
    assert metrics.confidence_coverage_gap(*mixed, confidence[order], 0.1) == metrics.confidence_coverage_gap(
        sets, labels, confidence, 0.1
    )


# --- confidence -----------------------------------------------------------------------------------------------------


def test_strata_by_hand():
    # ten rows in five strata: two each, by rank
    confidence = np.array([0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.4, 0.5, 1.0])
    assert metrics.confidence_strata(confidence, 5).tolist() == [4, 0, 3, 0, 3, 1, 2, 1, 2, 4]
    # equal ones stay together: seven rows at 1.0 begin at rank 3 of 10, in the second of five strata
    assert metrics.confidence_strata([1.0] * 7 + [0.1, 0.2, 0.3], 5).tolist() == [1] * 7 + [0, 0, 1]
    assert metrics.confidence_strata([0.5], 10).tolist() == [0]


@given(problems(), st.integers(1, 30))
def test_strata_are_in_order_and_even_as_far_as_ties_allow(problem, n_strata):
    confidence = problem[3]
    strata, n = metrics.confidence_strata(confidence, n_strata), len(confidence)
    order = np.argsort(confidence, kind="stable")
    assert np.all(np.diff(strata[order]) >= 0)
    assert all(len(set(strata[confidence == c])) == 1 for c in confidence)
    assert 0 <= strata.min() <= strata.max() < n_strata
    if len(set(confidence.tolist())) == n:
        counts = np.bincount(strata, minlength=n_strata)
        assert counts.max() - counts.min() <= 1


@given(problems())
def test_confidence_against_loops(problem):
    sets, labels, _, confidence = problem
    strata = metrics.confidence_strata(confidence).tolist()
    table, counted = metrics.confidence_stratified_coverage(sets, labels, confidence), hits_by(strata, sets, labels)
    for s in range(10):
        rows, hits = counted.get(s, (0, 0))
        assert (table.count[s], table.hits[s]) == (rows, hits)
        inside = confidence[np.array(strata) == s]
        if rows:
            assert (table.low[s], table.high[s], table.coverage[s]) == (inside.min(), inside.max(), hits / rows)
        else:
            assert np.isnan([table.low[s], table.high[s], table.coverage[s]]).all()
    worst = max(abs(Fraction(h, n) - Fraction(9, 10)) for n, h in counted.values())
    assert metrics.confidence_coverage_gap(sets, labels, confidence, "0.1") == pytest.approx(float(worst))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.group_coverage(SETS, LABELS, SITES[:3]), r"groups must have shape \(5,\)"),
        (lambda: metrics.group_coverage(SETS, LABELS, [*SITES[:4], None]), r"groups\[4\] is missing"),
        (lambda: metrics.confidence_strata([]), r"confidence must be numbers of shape \(rows,\)"),
        (lambda: metrics.confidence_strata([0.5, float("nan")]), r"confidence\[1\] is nan"),
        (lambda: metrics.confidence_strata([0.5], 0), "n_strata must be a whole number"),
        (
            lambda: metrics.confidence_coverage_gap(SETS, LABELS, [0.5], 0.1),
            r"confidence must be numbers of shape \(5,\)",
        ),
        (lambda: metrics.METRICS["top_group_coverage_gap"](SETS, LABELS, 0.1), "metrics.top_group_coverage_gap, which"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
