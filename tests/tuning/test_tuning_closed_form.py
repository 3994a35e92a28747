"""The closed form against averages over many u, hand arithmetic, and the law of its errors."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from on_arrays import in_closed_form, label_scores, predict_sizes, top_gaps
from thermoset.arrays import pairs
from thermoset.rows import ArrayRows, SortedRows, memory_budget
from thermoset.scores import SCORES
from thermoset.sweeping.engine import expected_hits, expected_sizes, label_parts, solve_thresholds
from thermoset.tuning import closed_form as module
from thermoset.tuning.closed_form import LEVELS, Curves, joined
from thermoset.tuning.parts import parts_of
from thermoset.uniforms import Randomness, stream
from tiers import examples

pytestmark = pytest.mark.slow

STRATA = 200


def setting(method="raps", alpha=0.1, randomized=True, allow_empty=True):
    return ts.Recipe(method, alpha, randomized, allow_empty)


def nothing(_):
    """Progress that nobody looks at."""


def solved(data, made, temperature, targets):
    rows, at = SortedRows(ArrayRows(data.logits)), np.array([temperature])
    labels, score = label_parts(rows, data.labels, at), made.set_score
    q = solve_thresholds(labels, score, 0, np.array(targets, dtype=np.float64), randomized=made.draws_u)
    hits = expected_hits(labels, score, 0, q, randomized=made.draws_u)
    return q, hits, expected_sizes(rows, labels, score, q[:, None], randomized=made.draws_u)[0]


def averaged(data, made, temperature, q):
    """Hits and sizes of the classifier's own arithmetic, averaged over evenly spaced u."""
    hits, sizes = np.zeros(len(data)), np.zeros(len(data))
    for u in (np.arange(STRATA) + 0.5) / STRATA if made.draws_u else [1.0]:
        randomness = Randomness(given=np.full(len(data), u))
        scores = label_scores(data.logits, data.labels, made.set_score, temperature, randomness)
        threshold = pairs(*q)
        hits += scores <= threshold
        sizes += predict_sizes(data.logits, made.set_score, temperature, randomness, threshold[None, None, None])[0]
    count = STRATA if made.draws_u else 1
    return hits / count, sizes / count


@pytest.mark.parametrize("method", [name for name, score in SCORES.items() if score.prefixes])
@pytest.mark.parametrize("temperature", [0.02, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("allow_empty", [True, False])
def test_hits_and_sizes_are_averages_over_u(method, temperature, randomized, allow_empty):
    # Right in some 60% of the rows where sets are never empty: the last threshold is then -inf.
    data = ts.Logits(*generated(300, 12, signal=2.0 if allow_empty else -0.3, seed=3))
    made = setting(method, randomized=randomized, allow_empty=allow_empty)
    q, hits, sizes = solved(data, made, temperature, [0.9 * 301, 0.7 * 301, 0.4 * 301])
    assert np.isneginf(q).tolist() == [[False, False, not allow_empty]] * 2
    for k in range(3):
        mean_hits, mean_sizes = averaged(data, made, temperature, q[:, k])
        # One label a row depends on u, so an average over STRATA values of u is within one of them of the integral.
        np.testing.assert_allclose(hits[k], mean_hits, atol=1.01 / STRATA)
        np.testing.assert_allclose(sizes[k], mean_sizes, atol=1.01 / STRATA)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.005, 0.05, 0.3, 1.0, 10.0]),
    method=st.sampled_from(["aps", "raps", "saps"]),
    share=st.floats(0.05, 0.99),
)
def test_the_threshold_lets_in_what_was_asked_for(seed, temperature, method, share):
    """Also where scores saturate: at T = 0.005 all values are 0 or 1 in floating point.

    A score that rises by 1e-14 over all u has a hundred floats to do it in: where the threshold is such a row, one
    float more or less lets in a hundredth of it. SAPS ties whole rows there.
    """
    data = ts.Logits(*generated(60, 6, seed=seed))
    target = share * 60
    _, hits, _ = solved(data, setting(method), temperature, [target])
    assert hits.sum() == pytest.approx(target, abs=0.03) or (method == "saps" and abs(hits.sum() - target) <= 1)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.5, 1.0, 10.0]),
    method=st.sampled_from(["aps", "raps", "saps", "topk"]),
    share=st.floats(0.05, 0.99),
)
def test_without_empty_sets_the_threshold_lets_in_what_was_asked_for_or_all_that_are_right(
    seed, temperature, method, share
):
    data = ts.Logits(*generated(60, 30, signal=-0.3, seed=seed))
    target, right = share * 60, (data.logits.argmax(axis=1) == data.labels).sum()
    q, hits, sizes = solved(data, setting(method, allow_empty=False), temperature, [target])
    if right >= target:
        assert np.isneginf(q).all()
        assert hits.sum() == right
        assert (sizes == 1).all()
    else:
        assert np.isfinite(q[0]).all()
        assert hits.sum() == pytest.approx(target, abs=0.03)


def test_the_threshold_of_a_score_without_u_is_an_order_statistic():
    data = ts.Logits(*generated(101, 5, seed=1))
    for method, made in (("lac", setting("lac")), ("aps", setting("aps", randomized=False))):
        q, hits, _ = solved(data, made, 1.0, [80.0])
        assert hits.sum() == 80, method
        scores = label_scores(data.logits, data.labels, made.score, 1.0, Randomness())
        np.testing.assert_allclose(q[0, 0], np.sort(scores)[79].real, rtol=1e-14)


def test_more_rows_than_there_are_means_an_infinite_threshold():
    data = ts.Logits(*generated(50, 4, seed=2))
    q, hits, sizes = solved(data, setting(), 1.0, [50.5])
    assert np.isposinf(q).all()
    assert (hits == 1).all()
    assert (sizes == 4).all()


def test_masked_labels_are_inside_only_when_everything_is():
    logits, labels = generated(40, 4, seed=5)
    labels[:] = np.where(labels == 3, 0, labels)
    logits[:, 3] = -np.inf
    _, hits, sizes = solved(ts.Logits(logits, labels), setting(), 1.0, [35.0])
    assert hits.sum() == pytest.approx(35)
    assert sizes.max() <= 3


def test_the_top_label_is_kept_where_sets_may_not_be_empty():
    data = ts.Logits(*generated(400, 6, signal=0.0, seed=4))
    top = data.logits.argmax(axis=1) == data.labels
    assert 0.6 < top.mean() < 0.8
    for alpha in (0.1, 0.5):
        curves, rows = in_closed_form(data, setting(alpha=alpha, allow_empty=False), np.array([3.0]), 100, nothing)
        np.testing.assert_array_equal(rows.hit[0][top], 1.0)
        assert (rows.size >= 1).all()
        assert curves.empty_share.tolist() == [0.0]
        # coverage is the level's, and no less than the accuracy
        assert rows.hit.mean() == pytest.approx(max((1 - alpha) * 401 / 400, top.mean()), abs=1e-9)
    assert (rows.size == 1).all()  # alpha = 0.5: more rows are right than need be


def test_the_loss_is_the_formula():
    """Two classes, LAC: hits are 0 or 1, and the class means are counted by hand."""
    # p of the true label falls with the row; class 0 has rows 0-3, class 1 rows 4-7
    p = np.array([0.95, 0.9, 0.85, 0.3, 0.8, 0.75, 0.35, 0.2])
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    probs = np.empty((8, 2))
    probs[np.arange(8), labels], probs[np.arange(8), 1 - labels] = p, 1 - p
    data = ts.Logits.from_probabilities(probs, labels)
    curves, _ = in_closed_form(data, setting("lac", alpha=0.4), np.ones(1), 10, nothing)
    total = 0.0
    for factor in LEVELS:
        level = float(min(0.4 * factor, 0.8))
        inside = int(np.ceil((1 - level) * 9 - 1e-9))  # the smallest number of rows that reaches (1 - a)(n + 1)
        hit = np.isin(np.arange(8), np.argsort(-p)[:inside])
        gaps = np.array([hit[:4].mean(), hit[4:].mean()]) - (1 - level)
        total += (gaps**2).mean() / (level * (1 - level))
    assert curves.loss[0] == pytest.approx(total, rel=1e-12)


def test_halves_are_halves_of_the_rows():
    data = ts.Logits(*generated(320, 4, seed=6))
    halves = module._Halves(parts_of(data, "class"), seed=0)
    loss, of_halves = halves.losses(np.ones((1, 320)), [0.1])
    # Every label is in: gaps are 0.1 in every class and half, squared over 0.1 * 0.9.
    assert loss == pytest.approx(1 / 9)
    np.testing.assert_allclose(of_halves, 1 / 9)
    counts = halves._counts
    np.testing.assert_array_equal(counts[0], np.bincount(data.labels))
    np.testing.assert_array_equal(counts[1:].sum(axis=1), 160)


def dense_losses(data, hits, levels):
    """The losses of `_Halves` with a column for every class, there or not."""
    rng = stream(0, "halves", len(data))
    cell = (rng.permutation(len(data)) % module._GROUPS) * data.n_classes + data.labels
    halves = [rng.permutation(module._GROUPS)[: module._GROUPS // 2] for _ in range(module._HALVES)]

    def sums(weights):
        of_groups = np.bincount(cell, weights, module._GROUPS * data.n_classes).reshape(module._GROUPS, data.n_classes)
        return np.vstack([of_groups.sum(axis=0), of_groups[halves].sum(axis=1)])

    counts, total = sums(None), 0.0
    for level, hit in zip(levels, hits, strict=True):
        gaps = sums(hit) / np.maximum(counts, 1) - (1 - level)
        total += np.where(counts > 0, gaps**2, 0.0).sum(axis=1) / (level * (1 - level))
    return total / (counts > 0).sum(axis=1)


@pytest.mark.parametrize(("n_rows", "n_classes", "top"), [(60, 5000, 5000), (200, 30, 30), (90, 700, 1), (50, 3, 2)])
def test_classes_without_rows_change_no_bit_of_the_losses(n_rows, n_classes, top):
    rng = np.random.default_rng(n_classes)
    data = ts.Logits(np.zeros((n_rows, n_classes)), rng.integers(n_classes - top, n_classes, n_rows))
    hits = rng.random((3, n_rows))
    levels = [0.05, 0.1, 0.2]
    loss, of_halves = module._Halves(parts_of(data, "class"), 0).losses(hits, levels)
    np.testing.assert_array_equal([loss, *of_halves], dense_losses(data, hits, levels))


def test_many_classes_of_few_rows_take_no_room_in_the_halves():
    """A table of groups by class for every half would be eight times as large as that of the losses."""
    n_classes = 50_000
    data = ts.Logits(np.zeros((60, n_classes), dtype=np.float16), np.arange(60) * 800)
    peak = traced(lambda: module._Halves(parts_of(data, "class"), 0).losses(np.ones((5, 60)), [0.1] * 5))
    assert peak < 2 * 8 * (1 + module._HALVES) * n_classes
    rows = 60 * n_classes * 4  # one widened copy, and one to sort
    assert traced(lambda: top_gaps(data, setting(), np.ones(1))) < 3 * rows


def traced(work):
    """Most bytes that some work held at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_errors_of_sizes_are_right():
    """Over fresh calibration and conformal rows, (measured size - estimate) / error has standard deviation 1."""
    logits, labels = generated(60_000, 10, signal=-0.5, seed=7)
    population = ts.Logits(logits, labels)
    made, grid = setting("aps"), np.array([0.5, 2.0])
    rng = np.random.default_rng(8)
    z, z_difference = [], []
    for _ in range(150):
        rows = rng.permutation(60_000)
        calibration, conformal, fresh = (population.take(part) for part in (rows[:300], rows[300:500], rows[500:8500]))
        curves, of_rows = in_closed_form(calibration, made, grid, 200, nothing)
        sizes = [ts.ConformalClassifier("aps", 0.1, t).fit(conformal).set_sizes(fresh).mean() for t in grid.tolist()]
        z.append((np.array(sizes) - curves.size) / curves.size_error)
        difference = (sizes[1] - sizes[0]) - (curves.size[1] - curves.size[0])
        z_difference.append(difference / of_rows.difference_error(1, 0, 200))
    # The standard deviation of 150 normal numbers is 1 within 0.058; a threshold's order statistic adds little bias.
    for values in (np.array(z)[:, 0], np.array(z)[:, 1], np.array(z_difference)):
        assert 0.71 < values.std() < 1.29
        assert abs(values.mean()) < 5 / np.sqrt(150) + 0.2


def test_arrays_in_files_give_the_same_bits():
    data = ts.Logits(*generated(2000, 5, seed=11))
    grid = np.array([0.4, 1.0, 1.7, 2.5])
    whole, told = in_closed_form(data, setting(), grid, 100, nothing)[0], []
    with memory_budget("1MiB"):
        spilled = in_closed_form(data, setting(), grid, 100, told.append)[0]
    assert sum(told) == len(grid)
    assert_same(whole, spilled)


def assert_same(first, second):
    """Every array of two curves is equal to the bit, those of the classes included."""
    for name in Curves.__dataclass_fields__:
        if name != "classes":
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    for name in ("mean", "variance", "residual", "squares"):
        np.testing.assert_array_equal(getattr(first.classes, name), getattr(second.classes, name))


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads_do_not_change_the_answer(monkeypatch, threads):
    data = ts.Logits(*generated(3000, 30, seed=12))
    grid = np.array([0.5, 1.0, 2.0])
    reference = in_closed_form(data, setting(), grid, 100, nothing)[0]
    monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
    monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", 30 * 8 * 37)
    other = in_closed_form(data, setting(), grid, 100, nothing)[0]
    assert_same(reference, other)


def test_joined_curves_rise():
    def curves(*t):
        values = np.array(t, dtype=np.float64)
        return Curves(values, values * 2, values, values, values, values[:, None], values[:, None])

    both = joined(curves(1, 3), curves(2, 4))
    assert both.temperatures.tolist() == [1, 2, 3, 4]
    assert both.size.tolist() == [2, 4, 6, 8]
    assert both.loss_of_halves.tolist() == [[1], [2], [3], [4]]
