"""RC3P: against a naive implementation, the exact law in each class, rank limits in files, ties."""

import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest

import thermoset as ts
from law import generated, law
from on_arrays import ArrayRows
from thermoset.conformal.groupings import set_aside
from thermoset.conformal.recipe import rank_limits
from thermoset.conformal.scoring import label_ranks
from thermoset.errors import FileFormatError, InputError
from thermoset.integrations.program import Program
from thermoset.predictor.document import write_document
from thermoset.scores import BEYOND, RankLimited

ALPHA = "0.2"


def ranks_of(logits):
    """Ranks (n, C) from 1; of equal logits the lower label comes first."""
    order = np.argsort(-logits, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, logits.shape[1] + 1)[None], axis=1)
    return ranks


def naive_sets(probs, ranks, limits, q):
    """Labels within their rank and their threshold; q holds (False, s), or (True, s) beyond the limit."""
    sets = np.zeros(probs.shape, dtype=bool)
    for i, y in np.ndindex(probs.shape):
        sets[i, y] = (ranks[i, y] > limits[y], 1 - probs[i, y]) <= q[y]
    return sets


@pytest.mark.parametrize("seed", range(3))
def test_sets_are_those_of_a_naive_implementation(seed):
    logits, labels = generated(900, 7, signal=-0.5, seed=seed)
    conformal, fresh = slice(0, 600), slice(600, None)
    model = ts.ConformalClassifier("lac", ALPHA, grouping="rc3p", random_state=seed)
    model.fit(logits[conformal], labels[conformal])
    probs, ranks = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), ranks_of(logits)
    some, rest = set_aside(600, 1 / 5, seed)
    limits, q = [], []
    for y in range(7):
        seen = np.sort(ranks[some, y][labels[some] == y])
        k = math.ceil((len(seen) + 1) * (1 - Fraction(ALPHA)))
        limits.append(seen[k - 1] if k <= len(seen) else 7)
        own = rest[labels[rest] == y]
        scores = sorted((bool(ranks[i, y] > limits[y]), 1 - probs[i, y]) for i in own)
        q.append(scores[math.ceil((len(own) + 1) * (1 - Fraction(ALPHA))) - 1])
    assert model.calibration_.scoring.score.limits == tuple(limits)
    assert any(limit < 7 for limit in limits)
    np.testing.assert_array_equal(model.predict_set(logits[fresh]), naive_sets(probs[fresh], ranks[fresh], limits, q))


def test_a_threshold_beyond_the_limit_lets_in_all_labels_within():
    """Where more rows than alpha allows are beyond the last rank, thresholds say so, and no label enters every set."""
    logits, labels = generated(3000, 5, signal=-1.5, seed=4)
    score = RankLimited(ts.LAC(), (1, 1, 1, 1, 1))
    model = ts.ConformalClassifier(score, ALPHA, grouping="rc3p").fit(logits[:1000], labels[:1000])
    assert (model.thresholds_.real == BEYOND).all()
    sets = model.predict_set(logits[1000:])
    assert sets[np.arange(2000), logits[1000:].argmax(axis=1)].all()
    assert not sets.all(axis=0).any()
    hits = sets[np.arange(2000), labels[1000:]].sum()
    pools = model.calibration_.pool_sizes()
    laws = np.array([law(int(pools[y]), int((labels[1000:] == y).sum()), ALPHA) for y in range(5)]).sum(axis=0)
    assert abs(hits - laws[0]) < 5 * math.sqrt(laws[1])


@pytest.mark.parametrize("method", ["lac", "aps", "margin"])
def test_each_class_follows_the_exact_law_over_200_splits(method):
    logits, labels = generated(1500, 4, signal=-0.5, seed=5)
    seen, rng = np.zeros((3, 4)), np.random.default_rng(1)  # hits, means and variances by class
    for split in range(200):
        rows = rng.permutation(1500)
        conformal, fresh = rows[:400], rows[400:]
        model = ts.ConformalClassifier(method, ALPHA, 0.7, grouping="rc3p", random_state=split)
        sets = model.fit(logits[conformal], labels[conformal]).predict_set(logits[fresh])
        hit, pools = sets[np.arange(len(fresh)), labels[fresh]], model.calibration_.pool_sizes()
        for y in range(4):
            mine = labels[fresh] == y
            seen[:, y] += [hit[mine].sum(), *law(int(pools[y]), int(mine.sum()), ALPHA)]
    assert np.all(np.abs(seen[0] - seen[1]) < 5 * np.sqrt(seen[2]))


def test_tied_logits_rank_by_label():
    rows = np.random.default_rng(0).integers(-2, 3, size=(200, 6)).astype(np.float64)
    labels = np.arange(200) % 6
    np.testing.assert_array_equal(label_ranks(ArrayRows(rows), labels), ranks_of(rows)[np.arange(200), labels])
    score = RankLimited(ts.LAC(), (1, 2, 3, 4, 5, 6))
    matrix = ts.conformal.scores(score, rows)
    np.testing.assert_array_equal(matrix == BEYOND, ranks_of(rows) > np.arange(1, 7))


def test_limits_by_hand():
    # 9 rows at alpha 0.2: k = ceil(10 * 0.8) = 8, the eighth smallest rank; three rows are too few for any
    ranks, labels = np.array([1, 1, 1, 1, 1, 1, 2, 3, 9, 4, 4, 4]), np.array([0] * 9 + [1] * 3)
    assert rank_limits(ranks, labels, 10, ALPHA).tolist() == [3] + [10] * 9


def test_limits_come_from_the_calibration_rows_and_are_saved(tmp_path):
    calibration, conformal, fresh = (ts.Logits(*generated(1500, 6, signal=-0.5, seed=seed)) for seed in range(3))
    predictor = ts.TwoTemperaturePredictor("aps", ALPHA, prefer="small", grouping="rc3p")
    predictor.fit_split(calibration, conformal)
    ranks = ranks_of(calibration.logits)[np.arange(1500), calibration.labels]
    limits = predictor.document_.recipe.method.limits
    assert limits == tuple(rank_limits(ranks, calibration.labels, 6, ALPHA))
    assert sum(predictor.document_.pool_rows) == 1500, "every conformal row sets a threshold"
    predictor.save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    np.testing.assert_array_equal(read.predict_set(fresh), predictor.predict_set(fresh))
    assert read.recalibrate(fresh).document_.recipe.method.limits == limits
    for bad in (None, (1, 2), (0, 1, 1, 1, 1, 1), (7, 1, 1, 1, 1, 1)):
        method = msgspec.structs.replace(predictor.document_.recipe.method, limits=bad)
        recipe = predictor.document_.recipe.change(method=method)
        write_document(tmp_path / "q.json", predictor.document_.change(recipe=recipe))
        with pytest.raises(FileFormatError, match="limits"):
            ts.TwoTemperaturePredictor.load(tmp_path / "q.json")


def test_rows_that_keep_their_largest_logits_are_refused():
    rows = ts.compact(ts.Logits(*generated(400, 20)), 5)
    with pytest.raises(InputError, match="grouping='rc3p' needs the ranks of all labels"):
        ts.ConformalClassifier("lac", grouping="rc3p").fit(rows)


@pytest.mark.parametrize("method", ["lac", "aps", "margin", "pas"])
def test_without_empty_sets_the_top_label_is_in_every_set(method):
    logits, labels = generated(900, 5, signal=-0.5, seed=6)
    model = ts.ConformalClassifier(method, ALPHA, grouping="rc3p", allow_empty=False).fit(logits[:600], labels[:600])
    sets = model.predict_set(logits[600:])
    assert sets[np.arange(300), logits[600:].argmax(axis=1)].all()
    np.testing.assert_array_equal(model.set_sizes(logits[600:]), sets.sum(axis=1))


def test_a_predictor_with_rank_limits_is_not_exported():
    predictor = ts.TwoTemperaturePredictor("lac", ALPHA, prefer="small", grouping="rc3p")
    predictor.fit(*generated(1500, 5, signal=-0.5))
    with pytest.raises(InputError, match="grouping='rc3p' cannot be exported"):
        Program(predictor)
