"""Scores in plain NumPy: what they are given, what they may return, and that the general path says what kernels say."""

import functools
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import thermoset as ts
from law import generated, z_over_splits
from on_arrays import label_scores, predict_sets, score_matrix
from thermoset.conformal import ConformalClassifier, scores
from thermoset.errors import InputError
from thermoset.scores import SCORES, Margin, OwnScore, PlainScore, resolve
from thermoset.sweeping import Protocol
from thermoset.uniforms import Randomness

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(scale=3, size=(200, 7))
LABELS = RNG.integers(0, 7, 200)


def lac_again(probs, rank, u):
    return 1 - probs


def aps_again(probs, rank, u):
    return np.cumsum(probs, axis=1) - (1 - u) * probs


def raps_again(probs, rank, u):
    return aps_again(probs, rank, u) + 0.01 * np.maximum(rank - 5, 0)


def saps_again(probs, rank, u):
    return np.where(rank == 1, u * probs, probs[:, :1] + (rank - 2 + u) * 0.2)


def topk_again(probs, rank, u):
    return rank + u


def margin_again(probs, rank, u):
    second = np.where(rank == 1, probs[:, 1:2], probs[:, :1])
    return second - probs


def wavy(probs, rank, u):
    """Rises and falls with the rank, and bends with u: nothing that a compiled score may do."""
    return np.sin(3.0 * rank) + probs + u**2


AGAIN = {"lac": lac_again, "aps": aps_again, "raps": raps_again, "saps": saps_again, "topk": topk_again}
AGAIN["margin"] = margin_again
PAIRS = pytest.mark.parametrize(("name", "own"), AGAIN.items(), ids=AGAIN)


@PAIRS
def test_a_score_written_again_has_the_same_values(name, own):
    for temperature in (0.5, 1.0, 5.0):
        np.testing.assert_allclose(
            scores(own, LOGITS, temperature=temperature, u=0.3),
            scores(name, LOGITS, temperature=temperature, u=0.3),
            rtol=0,
            atol=1e-14 if temperature >= 1 else 2.0**-32,  # masses that are nearer to 1 count as 1
        )


@PAIRS
@pytest.mark.parametrize("grouping", [None, "class"])
@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_a_score_written_again_makes_the_same_sets(name, own, grouping, allow_empty):
    options = {"alpha": 0.2, "allow_empty": allow_empty, "grouping": grouping}
    fast, slow = (ConformalClassifier(method, **options).fit(LOGITS, LABELS) for method in (name, own))
    u = np.random.default_rng(1).random(300)
    fresh = np.random.default_rng(2).normal(scale=3, size=(300, 7))
    np.testing.assert_array_equal(slow.predict_set(fresh, u=u), fast.predict_set(fresh, u=u))
    np.testing.assert_array_equal(slow.set_sizes(fresh, u=u), fast.set_sizes(fresh, u=u))
    np.testing.assert_array_equal(slow.predict_sets(fresh, [0.1, 0.4], u=u), fast.predict_sets(fresh, [0.1, 0.4], u=u))


@pytest.mark.parametrize("grouping", [None, "class", "cluster"])
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_a_sweep_with_a_score_written_again_is_the_compiled_one(grouping):
    logits, labels = generated(500, 5, signal=0.2)
    methods = ["aps", aps_again, "margin", margin_again]
    result = ts.sweep(logits, labels, [0.5, 2.0], methods, [0.1, 0.3], 4, 0, 0.5, grouping=grouping)
    assert result.methods == ("aps", "aps_again", "margin", "margin_again")
    for metric in result.metrics:
        for one, other in (("aps", "aps_again"), ("margin", "margin_again")):
            for alpha in result.alphas:
                np.testing.assert_allclose(
                    result.of_trials(metric, other, alpha), result.of_trials(metric, one, alpha), rtol=0, atol=1e-12
                )


@pytest.mark.scaled
def test_sets_with_holes_follow_the_law():
    logits, labels = generated(1200, 10, signal=0.3)

    def predict(conformal, own, fresh):
        return ConformalClassifier(wavy).fit(conformal, own).predict_set(fresh)

    assert abs(z_over_splits(predict, logits, labels, alpha="0.1", n_conformal=200, n_evaluation=400)) < 5
    sets = predict(logits[:600], labels[:600], logits[600:])
    ranked = np.take_along_axis(sets, np.argsort(-logits[600:], axis=1), axis=1)
    assert (ranked[:, 1:] & ~ranked[:, :-1]).any()


def test_the_general_path_equals_its_plain_composition():
    from sweeping.composition import assert_equal_to_composition

    logits, labels = generated(300, 6, signal=0.2)
    methods, protocol = [wavy, "margin", "raps"], Protocol(0.1, 0.3, 5)
    for allow_empty in (True, False):
        result = ts.sweep(logits, labels, [0.05, 1.0], methods, [0.1, 0.3], 3, 0.1, 0.3, 5, allow_empty=allow_empty)
        assert_equal_to_composition(
            result, logits, labels, methods, [0.05, 1.0], [0.1, 0.3], protocol, allow_empty=allow_empty
        )


@pytest.mark.slow
def test_threads_and_blocks_do_not_change_a_bit(monkeypatch):
    def everything():
        found = []
        for score in (Margin(), OwnScore(wavy)):
            own = label_scores(LOGITS, LABELS, score, 0.05, Randomness(seed=7))
            matrix = score_matrix(LOGITS, score, 0.05, Randomness(seed=7))
            sets = predict_sets(LOGITS, score, 0.05, Randomness(seed=7), own[None, None, :7])
            found += [own, matrix, sets]
        return [array.tobytes() for array in found]

    expected = everything()
    for threads in ("1", "3"):
        for block in (8, 56 * 10, 2**30):  # one row, ten rows, all
            monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
            monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", block)
            assert everything() == expected


def test_margins_that_float64_cannot_tell_apart_stay_in_order():
    # 1 + value of the top label and 1 - value of the second are about 2 exp(-gap / T): 60 / .01 = 6000
    gaps = np.linspace(1, 60, 60)
    logits = np.stack([np.zeros(60), -gaps, -gaps - 1], axis=1)
    for label, saturated, sign in ((0, -1.0, -1), (1, 1.0, 1)):
        pairs = label_scores(logits, np.full(60, label), Margin(), 0.01, Randomness())
        assert set(pairs.real) == {saturated}
        assert np.all(sign * np.diff(pairs.imag) > 0)
        assert abs(pairs.imag[-1]) == pytest.approx(6000 - math.log(2), abs=1e-9)


def test_a_function_sees_read_only_sorted_probabilities():
    def look(probs, rank, u):
        assert probs.shape == (len(u), 3)
        assert u.shape == (len(u), 1)
        assert rank.tolist() == [1, 2, 3]
        assert np.all(np.diff(probs, axis=1) <= 0)
        np.testing.assert_allclose(probs[0], [0.5, 0.3, 0.2], rtol=0, atol=1e-15)
        for given in (probs, rank, u):
            with pytest.raises(ValueError, match="read-only"):
                given[0] = 1
        return rank - probs

    # labels 2, 0, 1 rank first, second, third: 1 - .5, 2 - .3, 3 - .2
    np.testing.assert_allclose(scores(look, np.log([[0.3, 0.2, 0.5]])), [[1.7, 2.8, 0.5]], rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("returned", "because"),
    [
        (
            lambda p: p[:, 0],
            r"must return one number for each row and rank, the shape \(200, 7\) of probs; got \(200,\)",
        ),
        (lambda p: p[:, :-1], r"got \(200, 6\)"),
        (lambda p: 1.0, r"got \(\)"),
        (lambda p: None, r"got \(\)"),
        (lambda p: "bad", "must return an array, or a pair .* got str"),
        (lambda p: (p, p, p), r"got \(3, 200, 7\)"),
        (lambda p: (p, p[:, 0]), r"got \(200,\)"),
        (lambda p: np.where(p < p[:, :1], np.nan, p), r"score 'mine' at rank 2 \(probability .*, u = 1\) is NaN"),
        (lambda p: (p, p * np.nan), "is NaN"),
        (lambda p: np.log(0 * p), "is -inf; it must be finite"),
    ],
)
def test_what_a_function_must_not_return(returned, because):
    score = OwnScore(lambda probs, rank, u: returned(probs), "mine")
    with pytest.raises(InputError, match=because):
        scores(score, LOGITS)


@pytest.mark.parametrize(
    "wrong",
    [lambda: 1.0, lambda probs: probs, lambda probs, rank: probs, lambda a, b, c, d: a, lambda a, b, c, *, d: a],
)
def test_a_function_of_other_arguments_is_refused_at_once(wrong):
    for use in (
        lambda: OwnScore(wrong, "mine"),
        lambda: ConformalClassifier(wrong).fit(LOGITS, LABELS),
        lambda: ts.sweep(LOGITS, LABELS, [1.0], wrong, trials=1),
    ):
        with pytest.raises(InputError, match="three arguments"):
            use()


def test_any_function_that_takes_three_arguments_will_do():
    for right in (lambda *a: a[0], lambda a, b, c=0: a, lambda a, b, c, d=0: a, np.fmax, functools.partial(wavy)):
        assert OwnScore(right, "mine").function is right


def test_masked_classes_are_beyond_every_threshold():
    logits = np.array([[0.0, -np.inf, 3.0, -np.inf]])
    assert np.isposinf(scores(lambda probs, rank, u: np.log(probs), logits)).tolist() == [[False, True, False, True]]


def test_a_pair_decides_ties():
    def coarse(probs, rank, u):
        return np.ones_like(probs), rank - probs

    plain = ConformalClassifier(lambda probs, rank, u: rank - probs).fit(LOGITS, LABELS)
    paired = ConformalClassifier(coarse).fit(LOGITS, LABELS)
    assert paired.threshold_ == 1
    np.testing.assert_array_equal(paired.predict_set(LOGITS), plain.predict_set(LOGITS))


def test_names_and_equality():
    assert resolve(wavy) == OwnScore(wavy) == OwnScore(wavy, "wavy")
    assert hash(resolve(wavy)) == hash(OwnScore(wavy))
    assert OwnScore(wavy) != OwnScore(wavy, "other")
    assert OwnScore(wavy) != OwnScore(aps_again, "wavy")
    assert OwnScore(wavy) != OwnScore(wavy, uses_u=False)
    assert repr(resolve(wavy)) == "OwnScore('wavy')"
    assert pickle.loads(pickle.dumps(resolve(wavy))) == resolve(wavy)  # noqa: S301 - our own
    assert clone(ConformalClassifier(wavy)).method is wavy
    assert not resolve(wavy).compiled

    def raps(probs, rank, u):
        return rank - probs

    with pytest.raises(InputError, match=r"'raps' is already a built-in score. Try .*'my_raps'"):
        ConformalClassifier(raps).fit(LOGITS, LABELS)
    with pytest.raises(InputError, match="must be a function"):
        OwnScore("aps")
    two = [lambda probs, rank, u: rank - probs, lambda probs, rank, u: rank - 2 * probs]
    with pytest.raises(InputError, match="methods must differ; '<lambda>' appears twice"):
        ts.sweep(LOGITS, LABELS, [1.0], two)


def test_a_custom_class_sees_logarithms_without_underflow():
    class Odds(PlainScore):
        name, uses_u = "odds", False

        def pairs(self, rows):
            return -rows.gaps

    logits, labels = generated(1200, 10, signal=0.3)

    def predict(conformal, own, fresh):
        return ConformalClassifier(Odds(), temperature=0.01).fit(conformal, own).predict_set(fresh)

    assert abs(z_over_splits(predict, logits, labels, alpha="0.1", n_conformal=200, n_evaluation=400, splits=50)) < 5
    assert Odds() == Odds()
    assert ts.sweep(LOGITS, LABELS, [1.0], Odds(), trials=1, cp_fraction=0.5).methods == ("odds()",)


def test_a_class_without_pairs_says_what_is_missing():
    class Nothing(PlainScore):
        name = "nothing"

    with pytest.raises(NotImplementedError, match=r"Nothing has no pairs\(rows\)"):
        scores(Nothing(), LOGITS)


def test_what_needs_a_compiled_score_says_so():
    with pytest.raises(InputError, match="evaluation='integrated' needs a closed form, which 'wavy' does not have"):
        ts.sweep(LOGITS, LABELS, [1.0], ["aps", wavy], evaluation="integrated")
    with pytest.raises(InputError, match="needs a compiled score, such as 'raps', but score 'margin' is not"):
        _ = SCORES["margin"].terms
    data = ts.Logits(*generated(400, 4))
    with pytest.raises(InputError, match="'wavy'"):
        ts.TwoTemperaturePredictor(wavy, prefer="gap<=0.1").fit(data)


@pytest.mark.parametrize("prefer", ["small", "even", "size<=4"])
def test_a_predictor_with_a_score_of_ones_own(prefer, tmp_path):
    logits, labels = generated(1500, 4, signal=0.2)
    data, fresh = ts.Logits(logits[:1000], labels[:1000]), logits[1000:]
    fitted = ts.TwoTemperaturePredictor(raps_again, prefer=prefer).fit(data)
    sets = fitted.predict_set(fresh)
    assert 0.8 < sets[np.arange(500), labels[1000:]].mean() < 0.98
    plain = ConformalClassifier(raps_again, 0.1, fitted.temperature_sets_)
    np.testing.assert_array_equal(
        plain.fit(data.split(0.5)[1]).predict_set(fresh), sets, err_msg="the threshold is not that of the score"
    )
    assert fitted.check(fresh, labels[1000:]) is not None
    fitted.recalibrate(fresh, labels[1000:])
    assert fitted.predict_set(fresh).shape == sets.shape
    path = tmp_path / "predictor.json"
    with pytest.raises(InputError, match=r"a custom score \('raps_again'\) cannot be saved"):
        fitted.save(path)
    assert not path.exists()
    assert fitted.document_.recipe.score == resolve(raps_again)


def test_margin_is_saved_and_loaded(tmp_path):
    logits, labels = generated(1000, 4, signal=0.2)
    fitted = ts.TwoTemperaturePredictor("margin", prefer="small").fit(logits, labels)
    fitted.save(tmp_path / "predictor.json")
    again = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    assert again.method == Margin()
    assert again._inference.thresholds == fitted._inference.thresholds
    np.testing.assert_array_equal(again.predict_set(logits), fitted.predict_set(logits))


def test_a_class_of_ones_own_named_like_ours_cannot_pass_for_it(tmp_path):
    class Impostor(PlainScore):
        name = "aps"

        def pairs(self, rows):
            return rows.rank - rows.probs

    fitted = ts.TwoTemperaturePredictor(Impostor(), prefer="small").fit(*generated(400, 4))
    with pytest.raises(InputError, match="cannot be saved"):
        fitted.save(tmp_path / "predictor.json")
