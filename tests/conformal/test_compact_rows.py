"""Rows that keep their largest logits: thresholds and sets against those of whole rows, and the promise."""

import math
import warnings

import numpy as np
import pytest

import thermoset as ts
from law import generated, law
from thermoset.errors import CoverageWarning, InputError
from thermoset.scores import SCORES

ALL = pytest.mark.parametrize("method", [name for name, score in SCORES.items() if score.by_rank])
LOGITS, LABELS = generated(700, 60, signal=1.0)
ROWS = ts.Logits(LOGITS / 3, LABELS)
CUT = ts.compact(ROWS, 20)


@ALL
@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("randomized", [True, False])
def test_sets_hold_those_of_whole_rows(method, allow_empty, randomized):
    for temperature in (0.2, 1.0, 1.3, 4.0):
        options = {"temperature": temperature, "allow_empty": allow_empty, "randomized": randomized, "random_state": 5}
        whole, cut = (
            ts.ConformalClassifier(method, alpha=0.2, **options).fit(rows.take(slice(0, 400))) for rows in (ROWS, CUT)
        )
        assert (whole.thresholds_ <= cut.thresholds_).all()
        fresh, same = ROWS.take(slice(400, None)), CUT.take(slice(400, None))
        sets, wider = whole.predict_set(fresh), cut.predict_set(same)
        assert not (sets & ~wider).any()
        assert (cut.set_sizes(same) == wider.sum(axis=1)).all()
        assert (wider[~cut.undecided(same)] == cut.predict_set(fresh)[~cut.undecided(same)]).all()
        assert not cut.undecided(fresh).any()  # of whole rows nothing is open
        if not allow_empty:
            assert wider[np.arange(300), fresh.logits.argmax(axis=1)].all()


@ALL
def test_nested_levels_by_class_and_by_id(method):
    for grouping in (None, "class"):
        model = ts.ConformalClassifier(method, alpha=0.4, grouping=grouping, temperature=1.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)
            whole, cut = (type(model)(**model.get_params()).fit(rows, ids=range(700)) for rows in (ROWS, CUT))
            sets, wider = (m.predict_sets(r, [0.2, 0.4], ids=range(700)) for m, r in ((whole, ROWS), (cut, CUT)))
        assert not (sets & ~wider).any()
        assert not (wider[1] & ~wider[0]).any()
        assert (cut.set_sizes(CUT, ids=range(700)) == wider[1].sum(axis=1)).all()


@ALL
def test_rows_that_keep_everything_are_whole_rows(method):
    cut = ts.compact(ROWS, 60)
    whole, kept = (ts.ConformalClassifier(method, temperature=1.7).fit(rows) for rows in (ROWS, cut))
    assert whole.thresholds_.tobytes() == kept.thresholds_.tobytes()
    assert (whole.predict_set(ROWS) == kept.predict_set(cut)).all()
    assert not kept.undecided(cut).any()


def test_tightening_takes_rows_that_are_not_whole():
    loose = ts.ConformalClassifier("raps", alpha=0.2).fit(CUT.take(slice(0, 300)))
    before = loose.threshold_
    assert loose.tighten(0.05, CUT.take(slice(300, None))).threshold_ >= before


def test_labels_that_no_row_holds_make_a_threshold_infinite():
    labels = LOGITS.argmin(axis=1)  # never among the largest
    rows = ts.compact(ts.Logits(LOGITS, labels), 6)
    with pytest.warns(
        CoverageWarning, match="the label of 700 of 700 rows is such a class.*keep more logits of each row"
    ):
        model = ts.ConformalClassifier("raps").fit(rows)
    assert model.predict_set(rows).all()


def test_a_score_of_ones_own_needs_whole_rows():
    with pytest.raises(InputError, match="no proven bounds"):
        ts.ConformalClassifier(lambda probs, rank, u: -probs).fit(CUT)


def coverage_z(model, rows, whole, splits=200, n_conformal=99, n_evaluation=150):
    """How many standard deviations hits over random splits lie above the law of exact coverage."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(splits):
        order = rng.permutation(len(rows))[: n_conformal + n_evaluation]
        fitted = model.fit(rows.take(order[:n_conformal]))
        fresh = order[n_conformal:]
        sets = fitted.predict_set(rows.take(fresh))
        hits += int(sets[np.arange(n_evaluation), whole.labels[fresh]].sum())
    mean, variance = law(n_conformal, n_evaluation, str(model.alpha))
    return (hits - splits * mean) / math.sqrt(splits * variance)


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
def test_coverage_is_at_least_the_law(method):
    logits, labels = generated(600, 40, signal=0.5, seed=3)
    whole = ts.Logits(logits / 4, labels)
    cut = ts.compact(whole, 12)
    assert coverage_z(ts.ConformalClassifier(method, temperature=1.3), cut, whole) > -5


def test_coverage_does_not_rest_on_sums_being_right():
    # Whatever is stated, the lower end of a score is not above its upper end: that is all the promise needs.
    logits, labels = generated(600, 40, signal=0.5, seed=3)
    cut = ts.compact(ts.Logits(logits / 4, labels), 12)
    wrong = np.random.default_rng(1).uniform(-9, 0, size=(600, 2)) + cut.top_logits[:, -1:] / [1.0, 2.0]
    rows = ts.TopLogits(cut.top_logits, cut.top_indices, 40, log_rest=wrong, rest_temperatures=[1, 2], labels=labels)
    assert coverage_z(ts.ConformalClassifier("raps", temperature=1.3), rows, cut) > -5


@pytest.mark.filterwarnings("ignore::thermoset.CoverageWarning")
def test_the_test_of_coverage_can_fail():
    # What is often done: only kept labels are ever let in. Where labels are outside them, coverage is lost.
    logits, labels = generated(600, 40, signal=-1.5, seed=3)
    whole = ts.Logits(logits / 4, labels)

    class KeptAlone(ts.ConformalClassifier):
        def predict_set(self, logits, **more):
            sets, kept = np.zeros((len(logits), 40), dtype=bool), logits.top_indices.astype(int)
            inside = np.take_along_axis(super().predict_set(logits, **more), kept, axis=1)
            np.put_along_axis(sets, kept, inside, axis=1)
            return sets

    assert coverage_z(KeptAlone("lac", alpha=0.2, temperature=1.3), ts.compact(whole, 12), whole) < -5


@pytest.mark.parametrize("method", ["lac", "raps"])
def test_real_rows_lose_next_to_nothing(real, method):
    logits, labels = real("imagenet5k_efficientnet_lite0")
    rows = ts.Logits(logits, labels)
    cut = ts.compact(rows)
    whole, kept = (
        ts.ConformalClassifier(method, temperature=1.3).fit(part.take(slice(0, 2500))) for part in (rows, cut)
    )
    sets, wider = (model.predict_set(part.take(slice(2500, None))) for model, part in ((whole, rows), (kept, cut)))
    assert not (sets & ~wider).any()
    assert (sets == wider).all(axis=1).mean() > 0.9
    assert wider.sum() <= 1.1 * sets.sum()
