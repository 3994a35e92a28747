"""Estimates with u integrated out: averages over many u, hand arithmetic, and the law of their errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from on_arrays import ArrayRows, estimates_of, label_scores, predict_sizes
from thermoset.arrays import pairs
from thermoset.rows import SortedRows, memory_budget
from thermoset.scores import SCORES
from thermoset.sweeping.engine import label_parts
from thermoset.sweeping.expectations import expected_hits, expected_sizes, solve_thresholds
from thermoset.tuning.estimates import (
    FIFTHS,
    STRICTER,
    Engine,
    Estimates,
    Request,
    Sample,
    largest_error,
    levels_between,
    own_ranks,
)
from thermoset.uniforms import Randomness
from tiers import examples

pytestmark = pytest.mark.slow

STRATA = 200


def solved(data, made, temperature, targets):
    rows, at = SortedRows(ArrayRows(data.logits)), np.array([temperature])
    labels, score = label_parts(rows, data.labels, at), made.set_score
    q = solve_thresholds(labels, score, 0, np.array(targets, dtype=np.float64), randomized=made.uses_u)
    hits = expected_hits(labels, score, 0, q, randomized=made.uses_u)
    return q, hits, expected_sizes(rows, labels, score, q[:, None], randomized=made.uses_u)[0]


def averaged(data, made, temperature, q):
    """Hits and sizes of the classifier's own arithmetic, averaged over evenly spaced u."""
    hits, sizes = np.zeros(len(data)), np.zeros(len(data))
    for u in (np.arange(STRATA) + 0.5) / STRATA if made.uses_u else [1.0]:
        randomness = Randomness(given=np.full(len(data), u))
        scores = label_scores(data.logits, data.labels, made.set_score, temperature, randomness)
        threshold = pairs(*q)
        hits += scores <= threshold
        sizes += predict_sizes(data.logits, made.set_score, temperature, randomness, threshold[None, None, None])[0]
    count = STRATA if made.uses_u else 1
    return hits / count, sizes / count


@pytest.mark.parametrize("method", [name for name, score in SCORES.items() if score.prefixes])
@pytest.mark.parametrize("temperature", [0.02, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("allow_empty", [True, False])
def test_hits_and_sizes_are_averages_over_u(method, temperature, randomized, allow_empty):
    # Right in some 60% of the rows where sets are never empty: the last threshold is then -inf.
    data = ts.Logits(*generated(300, 12, signal=2.0 if allow_empty else -0.3, seed=3))
    made = ts.Recipe(method, randomized=randomized, allow_empty=allow_empty)
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
    _, hits, _ = solved(data, ts.Recipe(method), temperature, [target])
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
    q, hits, sizes = solved(data, ts.Recipe(method, allow_empty=False), temperature, [target])
    if right >= target:
        assert np.isneginf(q).all()
        assert hits.sum() == right
        assert (sizes == 1).all()
    else:
        assert np.isfinite(q[0]).all()
        assert hits.sum() == pytest.approx(target, abs=0.03)


def test_the_threshold_of_a_score_without_u_is_an_order_statistic():
    data = ts.Logits(*generated(101, 5, seed=1))
    for method, made in (("lac", ts.Recipe("lac")), ("aps", ts.Recipe("aps", randomized=False))):
        q, hits, _ = solved(data, made, 1.0, [80.0])
        assert hits.sum() == 80, method
        scores = label_scores(data.logits, data.labels, made.score, 1.0, Randomness())
        np.testing.assert_allclose(q[0, 0], np.sort(scores)[79].real, rtol=1e-14)


def test_more_rows_than_there_are_means_an_infinite_threshold():
    data = ts.Logits(*generated(50, 4, seed=2))
    q, hits, sizes = solved(data, ts.Recipe(), 1.0, [50.5])
    assert np.isposinf(q).all()
    assert (hits == 1).all()
    assert (sizes == 4).all()


def test_masked_labels_are_inside_only_when_everything_is():
    logits, labels = generated(40, 4, seed=5)
    labels[:] = np.where(labels == 3, 0, labels)
    logits[:, 3] = -np.inf
    _, hits, sizes = solved(ts.Logits(logits, labels), ts.Recipe(), 1.0, [35.0])
    assert hits.sum() == pytest.approx(35)
    assert sizes.max() <= 3


def test_the_top_label_is_kept_where_sets_may_not_be_empty():
    data = ts.Logits(*generated(400, 6, signal=0.0, seed=4))
    top = data.logits.argmax(axis=1) == data.labels
    assert 0.6 < top.mean() < 0.8
    for alpha in (0.1, 0.5):
        found = estimates_of(data, ts.Recipe(alpha=alpha, allow_empty=False), np.array([3.0]), 100)
        made = ts.tuning.choose(data, found.recipe, calibrated=3.0, temperatures=[3.0])
        assert made.outlook.misses.left_out == made.outlook.empty_share == 0.0
        # coverage is the level's, and no less than the accuracy
        covered = 1 - found.missed[0, found.level].sum() / 400
        assert covered == pytest.approx(max((1 - alpha) * 401 / 400, top.mean()), abs=1e-9)
    assert found.size[0, found.level] == 1.0  # alpha = 0.5: more rows are right than need be


def test_the_loss_is_the_formula():
    """Two classes, LAC: hits are 0 or 1, and the class means are counted by hand."""
    # p of the true label falls with the row; class 0 has rows 0-3, class 1 rows 4-7
    p = np.array([0.95, 0.9, 0.85, 0.3, 0.8, 0.75, 0.35, 0.2])
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    probs = np.empty((8, 2))
    probs[np.arange(8), labels], probs[np.arange(8), 1 - labels] = p, 1 - p
    data = ts.Logits.from_probabilities(probs, labels)
    total = 0.0
    for factor in (0.5, 0.7, 1.0, 1.4, 2.0):
        level = min(0.4 * factor, 0.8)
        inside = int(np.ceil((1 - level) * 9 - 1e-9))  # the smallest number of rows that reaches (1 - a)(n + 1)
        hit = np.isin(np.arange(8), np.argsort(-p)[:inside])
        gaps = np.array([hit[:4].mean(), hit[4:].mean()]) - (1 - level)
        total += (gaps**2).mean() / (level * (1 - level))
    found = estimates_of(data, ts.Recipe("lac", alpha=0.4), np.ones(1), 10)
    assert found.losses[0, 0] == pytest.approx(total, rel=1e-12)


def test_halves_are_halves_of_the_rows():
    data = ts.Logits(*generated(320, 4, seed=6))
    sample = Sample(data)
    losses = sample.losses(np.ones((1, 320)), [0.1])
    assert losses[0] == pytest.approx(1 / 9)  # every label is in: gaps are 0.1 in every class, over 0.1 * 0.9
    np.testing.assert_allclose(losses[1:], 0.0, atol=1e-30)  # and none is covered more than the others
    np.testing.assert_array_equal(sample._half_counts[0], np.bincount(data.labels))
    np.testing.assert_array_equal(sample._half_counts[1:].sum(axis=1), 160)


@pytest.mark.parametrize("n_classes", [30, 5000])
def test_classes_without_rows_change_nothing(n_classes):
    rng = np.random.default_rng(0)
    labels, hits = rng.integers(0, 20, 200), rng.random((3, 200))
    few, many = (Sample(ts.Logits(np.zeros((200, n)), labels)) for n in (20, n_classes))
    np.testing.assert_array_equal(few.losses(hits, [0.05, 0.1, 0.2]), many.losses(hits, [0.05, 0.1, 0.2]))


def test_errors_of_sizes_and_of_their_differences_are_right():
    """Over fresh calibration and conformal rows, (measured size - estimate) / error has standard deviation 1."""
    population = ts.Logits(*generated(60_000, 10, signal=-0.5, seed=7))
    made, grid = ts.Recipe("aps"), np.array([0.5, 2.0])
    rng = np.random.default_rng(8)
    z, exceeded, plain = [], 0, 0
    for _ in range(150):
        rows = rng.permutation(60_000)
        calibration, conformal, fresh = (population.take(part) for part in (rows[:300], rows[300:500], rows[500:8500]))
        found = estimates_of(calibration, made, grid, 200)
        size, errors = found.size[:, found.level], found.errors[:, found.level]
        sizes = [ts.ConformalClassifier("aps", 0.1, t).fit(conformal).set_sizes(fresh).mean() for t in grid.tolist()]
        apart = np.sqrt(((errors[1] - errors[0]) ** 2).sum())
        both = (np.array(sizes) - size) / [found.size_error(j) for j in range(2)]
        z.append([*both, ((sizes[1] - sizes[0]) - (size[1] - size[0])) / apart])
        exceeded += (both > largest_error(errors)).any()
        plain += (both > 0).any()
    # The standard deviation of 150 normal numbers is 1 within 0.058; a threshold's order statistic adds little bias.
    assert ((np.std(z, axis=0) > 0.71) & (np.std(z, axis=0) < 1.29)).all()
    assert (np.abs(np.mean(z, axis=0)) < 5 / np.sqrt(150) + 0.2).all()
    # The bound for all temperatures at once, and that the estimates themselves are exceeded half of the time.
    assert exceeded <= 0.05 * 150 + 4 * np.sqrt(150 * 0.05 * 0.95)
    assert plain > 60


@pytest.fixture(scope="module")
def rows():
    logits, labels = generated(900, 8, signal=-0.5, seed=3)
    logits[np.arange(900), labels] += 0.6 * labels  # some classes are easier than others
    return ts.Logits(logits, labels)


GRID = np.array([0.5, 1.0, 2.0])


def test_several_candidates_do_not_disturb_each_other(rows):
    engine, levels = Engine(Sample(rows), GRID, 900), levels_between("0.1", STRICTER)
    requests = [Request(ts.Recipe(name), GRID, levels) for name in ("lac", "aps")]
    together, alone = engine.measure(requests, 1.0)[0], engine.measure(requests[1:], 1.0)[0]
    assert together[1].size.tolist() == alone[0].size.tolist()
    assert together[1].losses.tolist() == alone[0].losses.tolist()


@pytest.mark.parametrize("level", ["0.1", "0.045"])
def test_sizes_are_those_of_the_rows_one_by_one(rows, level):
    found = estimates_of(rows, ts.Recipe("raps"), GRID, factors=STRICTER)
    _, _, sizes = solved(rows, ts.Recipe("raps"), 2.0, [(1 - float(level)) * 901])
    assert found.size[2, found.levels.index(level)] == pytest.approx(sizes[0].mean(), rel=1e-6)


def test_which_rows_lose_coverage_is_what_sets_show(rows):
    """Correct top labels left out, and empty sets by confidence, as drawn sets show them on average."""
    found = estimates_of(rows, ts.Recipe("raps"), GRID[::-1].copy()[:1])
    top = rows.logits.argmax(axis=1)
    confidence = ts.calibration.confidence_at(rows, 2.0)
    order = np.argsort(np.argsort(confidence, kind="stable"), kind="stable") * FIFTHS // len(rows)
    draws, rng = 60, np.random.default_rng(0)
    left, empty = np.zeros(draws), np.zeros((draws, FIFTHS))
    for t in range(draws):
        u = rng.random(len(rows))
        sets = ts.ConformalClassifier("raps", 0.1, 2.0).fit(rows, u=u).predict_set(rows, u=u)
        left[t] = ((top == rows.labels) & ~sets[np.arange(len(rows)), top]).mean()
        empty[t] = [(~sets.any(axis=1))[order == k].mean() for k in range(FIFTHS)]
    made = ts.tuning.choose(rows, found.recipe, calibrated=2.0, temperatures=[2.0])
    assert abs(left.mean() - made.outlook.misses.left_out) < 5 * left.std() / np.sqrt(draws) + 2e-3
    np.testing.assert_allclose(empty.mean(axis=0), found.empty_fifths[0, found.level], atol=0.02)
    assert found.empty_fifths[0, found.level, -1] > found.empty_fifths[0, found.level, 0]


def test_sets_by_class_are_measured_at_the_rows_they_will_have(rows):
    """Sizes of classifiers that are really fitted on so many rows, on average."""
    everyone = ts.Logits(*generated(30_000, 4, signal=-0.5, seed=5))
    recipe, rng = ts.Recipe("lac", grouping="class"), np.random.default_rng(6)
    estimated, seen = [], []
    for _ in range(12):
        calibration, conformal, fresh = (everyone.take(rng.integers(0, 30_000, n)) for n in (800, 250, 2000))
        engine = Engine(Sample(calibration), np.ones(1), 250)
        asked = Request(ts.Recipe("lac"), np.ones(1), ("0.12", "0.1", "0.08"))
        _, own = engine.measure([asked], 1.0, Request(recipe, np.ones(1), ("0.1",)))
        estimated.append((own.size[0, 0], own.size_error(0)))
        seen.append(ts.ConformalClassifier.of(recipe).fit(conformal).set_sizes(fresh).mean())
    (sizes, errors), spread = np.array(estimated).T, np.std(np.array(estimated)[:, 0] - seen, ddof=1)
    assert abs(np.mean(sizes - seen)) < 4 * spread / np.sqrt(12) + 0.01
    assert 0.4 < spread / errors.mean() < 2  # thresholds of a few rows each move sizes more than the rows do
    assert own_ranks(np.array([80, 20]), 50, 0.1)[0].tolist() == [40, 10]


def same(first, second):
    """Every array of two estimates is equal to the bit, those of the classes included."""
    for name in Estimates.__dataclass_fields__:
        if name not in ("gaps", "sample", "recipe", "levels", "allowed", "kinds"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    for name in ("mean", "variance", "residual", "squares"):
        np.testing.assert_array_equal(getattr(first.gaps, name), getattr(second.gaps, name))


def test_arrays_in_files_give_the_same_bits():
    data = ts.Logits(*generated(2000, 5, seed=11))
    whole = estimates_of(data, ts.Recipe(), GRID)
    with memory_budget("1MiB"):
        same(whole, estimates_of(data, ts.Recipe(), GRID))


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads_and_blocks_do_not_change_the_answer(monkeypatch, threads):
    data = ts.Logits(*generated(3000, 30, seed=12))
    reference = estimates_of(data, ts.Recipe(), GRID)
    monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
    monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", 30 * 8 * 37)
    same(reference, estimates_of(data, ts.Recipe(), GRID))


def test_a_choice_passes_over_the_rows_twice(monkeypatch, rows):
    """Once for the shares around labels, and once for sizes."""
    passes = []
    for name in ("map_rows", "sum_rows"):
        for module in ("thermoset.sweeping.engine", "thermoset.tuning.estimates", "thermoset.calibration.temperature"):
            work = getattr(__import__(module, fromlist=["x"]), name, None)
            if work is not None:
                monkeypatch.setattr(f"{module}.{name}", lambda *a, _w=work, **k: (passes.append(1), _w(*a, **k))[1])
    for prefer in ("small", "even"):
        ts.tuning.choose(rows, prefer=prefer, calibrated=1.3)
    assert len(passes) == 4
