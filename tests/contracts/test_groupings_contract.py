"""What every grouping must be, collected from the registry: a new grouping is tested by being in it."""

import math
import typing

import numpy as np
import pytest

import thermoset as ts
from law import generated, law
from thermoset.arrays import pairs
from thermoset.cli import options
from thermoset.conformal.groupings import GROUPINGS, NULL_GROUP, Division, Grouping, resolve_grouping
from thermoset.conformal.scoring import predict_sets
from thermoset.monitor.promise import Promise

ALL = pytest.mark.parametrize("name", list(GROUPINGS))
OF_CLASSES = pytest.mark.parametrize("name", [name for name, one in GROUPINGS.items() if not one.of_rows])
EXACT = pytest.mark.parametrize("name", [name for name, one in GROUPINGS.items() if one.exact and not one.of_rows])
ALPHA = "0.2"
SPLITS = 100


def uneven(n_rows, n_classes=6, seed=0):
    """Rows of a classifier that finds some classes much harder than others."""
    logits, labels = generated(n_rows, n_classes, signal=0.0, seed=seed)
    logits[np.arange(n_rows), labels] += 6.0 * (labels % 3)
    return logits, labels


@ALL
def test_a_grouping_says_what_it_is(name):
    grouping = resolve_grouping(name)
    assert grouping is GROUPINGS[name]
    assert grouping.name == name
    assert all((grouping.title, grouping.unit, grouping.units))
    assert isinstance(grouping.each_class, bool)
    assert isinstance(grouping.of_rows, bool)


def test_commands_take_every_grouping():
    (choices, _) = typing.get_args(typing.get_args(options.Grouping)[0])
    assert sorted(typing.get_args(choices)) == sorted(GROUPINGS)


@OF_CLASSES
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_a_division_names_groups_of_classes_and_their_rows(name):
    scores, (_, labels) = pairs(*np.random.default_rng(0).random((2, 500))), uneven(500)
    made = GROUPINGS[name].divide(scores, labels, 8, ALPHA, 3)  # two classes have no row
    assert made.group_of_class.shape == (8,)
    assert ((made.group_of_class >= NULL_GROUP) & (made.group_of_class < 8)).all()
    if GROUPINGS[name].each_class:
        np.testing.assert_array_equal(made.group_of_class, np.arange(8))
    rows = np.arange(500) if made.rows is None else made.rows
    assert (np.diff(rows) > 0).all(), "in file order, none twice"
    assert 0 <= rows[0] <= rows[-1] < 500
    again = GROUPINGS[name].divide(scores, labels, 8, ALPHA, 3)
    np.testing.assert_array_equal(again.group_of_class, made.group_of_class)


@EXACT
def test_each_group_follows_the_exact_law(name):
    """Hits of a group's rows are Beta-Binomial, with as many rows behind its threshold as `pool_sizes` says.

    The rows of a group have the laws of their split, so that the standardised hits of independent splits add up.
    """
    excess = variance = 0.0
    for seed in range(SPLITS):
        logits, labels = uneven(900, seed=seed)
        model = ts.ConformalClassifier("aps", ALPHA, grouping=name, random_state=seed).fit(logits[:600], labels[:600])
        sets, fresh = model.predict_set(logits[600:]), labels[600:]
        groups, pools = model.calibration_.group_of_class, model.calibration_.pool_sizes()
        hit = sets[np.arange(300), fresh]
        for group in set(groups.tolist()) - {NULL_GROUP}:
            inside = groups[fresh] == group
            mean, spread = law(int(pools[groups == group][0]), int(inside.sum()), ALPHA)
            excess += hit[inside].sum() - mean
            variance += spread
    assert variance > 0, "there were groups with a promise"
    assert abs(excess) / math.sqrt(variance) < 5


@OF_CLASSES
@pytest.mark.parametrize("allow_empty", [True, False])
def test_with_equal_thresholds_sets_are_those_of_one_threshold(name, allow_empty):
    logits, labels = uneven(400)
    whole = ts.ConformalClassifier("raps", ALPHA, allow_empty=allow_empty).fit(logits, labels)
    grouped = ts.ConformalClassifier("raps", ALPHA, allow_empty=allow_empty, grouping=name).fit(logits, labels)
    q = whole.thresholds_
    scoring, u = whole.calibration_.scoring, whole.calibration_.scoring.randomness(None, len(logits))
    if not GROUPINGS[name].limits_ranks:
        assert scoring == grouped.calibration_.scoring
    one, equal = (
        predict_sets(ts.Logits(logits), scoring.score, scoring.temperature, u, table[None], None)
        for table in (q, np.repeat(q, 6, axis=1))
    )
    np.testing.assert_array_equal(one, equal)


@EXACT
def test_thresholds_are_those_of_the_rows_of_a_group(name):
    """By hand: the k-th smallest score of the rows whose class is in the group."""
    logits, labels = uneven(900)
    model = ts.ConformalClassifier("aps", ALPHA, grouping=name).fit(logits, labels)
    kept = model.calibration_
    for label in range(6):
        own = np.isin(kept.labels, np.flatnonzero(kept.group_of_class == kept.group_of_class[label]))
        if kept.group_of_class[label] == NULL_GROUP:
            own[:] = True
        k = -(-(own.sum() + 1) * 4 // 5)  # ceil((n + 1) * 0.8)
        values = np.sort(kept.scores.real[own])
        assert model.threshold_[label] == (values[k - 1] if k <= len(values) else np.inf)


@OF_CLASSES
def test_the_promise_checks_out_from_fit_to_file(name, tmp_path):
    predictor = ts.TwoTemperaturePredictor("aps", ALPHA, "small", grouping=name).fit(*uneven(3000))
    predictor.save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    fresh = ts.Logits(*uneven(1500, seed=1))
    np.testing.assert_array_equal(read.predict_set(fresh), predictor.predict_set(fresh))
    report = read.check(fresh)
    assert report.ok
    kind = GROUPINGS[name]
    assert (report.clusters is None) is (kind.each_class or not kind.exact)
    assert report.promise.kind == kind
    with pytest.warns(ts.SuspiciousRowsWarning, match="another order"):
        bad = read.check(ts.Logits(fresh.logits, (fresh.labels + 1) % 6))
    assert any((kind.units if kind.exact else "Coverage is") in said for said in bad.broken), bad.broken


def test_groups_come_from_the_grouping():
    assert Promise(ALPHA, [9, 9], "class").class_parts(2).index.tolist() == [0, 1]
    assert Promise(ALPHA, [9]).class_parts(2).index.tolist() == [0]


class ByParity(Grouping):
    """A user's grouping: even classes share a threshold, and odd ones do."""

    name = "parity"
    title = "by parity"
    unit = "parity"
    units = "parities"
    each_class = False

    def divide(self, scores, labels, n_classes, alpha, seed):
        return Division(np.arange(n_classes) % 2)


def test_a_custom_grouping_needs_only_its_line_in_the_registry(monkeypatch, tmp_path):
    monkeypatch.setattr("thermoset.conformal.groupings.GROUPINGS", {**GROUPINGS, "parity": ByParity()})
    predictor = ts.TwoTemperaturePredictor("aps", ALPHA, "small", grouping="parity").fit(*uneven(3000))
    predictor.save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert len(set(read.threshold_.tolist())) == 2
    fresh = ts.Logits(*uneven(1500, seed=1))
    report = read.check(fresh)
    assert report.ok
    assert report.clusters.index.tolist() == [0, 1]
    with pytest.warns(ts.SuspiciousRowsWarning, match="another order"):
        bad = read.check(ts.Logits(fresh.logits, (fresh.labels + 1) % 6))
    assert any("in 2 of 2 parities" in said for said in bad.broken), bad.broken
    swept = ts.sweep(fresh, temperatures=[1.0], methods=["aps"], alphas=[ALPHA], trials=2, grouping="parity")
    assert swept.settings["grouping"] == "parity"
    rare = ts.ConformalClassifier("aps", 0.01, grouping="parity")
    with pytest.warns(ts.CoverageWarning, match="at least 99 rows of each parity"):
        rare.fit(*uneven(60))
