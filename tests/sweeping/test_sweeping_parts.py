"""Groups, strata of confidence and sizes in a sweep: what the metrics give for a classifier's own sets."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import thermoset as ts
from law import generated
from sweeping.composition import assert_equal_to_composition
from thermoset import metrics
from thermoset.calibration import confidence_at
from thermoset.data.top_k import compact
from thermoset.errors import BoundWarning, CoverageWarning, InputError
from thermoset.rows import memory_budget
from thermoset.sweeping import Protocol, draw_trial, sweep
from thermoset.sweeping.engine import Misses

ASKED = ("sscv", "confidence_coverage_gap")
GROUPED = ("top_group_coverage_gap", "avg_group_coverage_gap", "worst_group_coverage")
METHODS = ["lac", "aps", "raps", ts.SAPS(weight=0.02), "margin"]


def data_of(n_rows=300, n_classes=12, masked=False, seed=3):
    logits, labels = generated(n_rows, n_classes, signal=0.5, seed=seed)
    logits = (logits / 5).astype(np.float32)
    if masked:
        logits[::3, -1] = -np.inf
        logits[np.arange(n_rows), labels] = np.maximum(logits[np.arange(n_rows), labels], 0)
    sites = np.array(["north", "south", "east", "west"])[np.random.default_rng(seed).integers(0, 4, n_rows)]
    return ts.Logits(logits, labels, groups=sites)


def strata_by_hand(data):
    """Ten strata of about as many rows each by confidence at T*, written as ranks."""
    temperature = ts.TemperatureScaler().fit(data).temperature_
    confidence = confidence_at(data, temperature)
    return temperature, np.array([10 * int((confidence < c).sum()) // len(confidence) for c in confidence])


def of_sets(data, sets, rows, alpha, strata):
    """The metrics of the sets of some rows of a sweep."""
    labels, groups = data.labels[rows], np.asarray(data.groups)[rows]
    by_stratum = metrics.group_coverage(sets, labels, strata[rows])
    return {
        "sscv": metrics.size_stratified_coverage_violation(sets, labels, alpha),
        "confidence_coverage_gap": np.abs(by_stratum.coverage - (1 - alpha)).max(),
        "top_group_coverage_gap": metrics.top_group_coverage_gap(sets, labels, groups, alpha),
        "avg_group_coverage_gap": metrics.avg_group_coverage_gap(sets, labels, groups, alpha),
        "worst_group_coverage": metrics.worst_group_coverage(sets, labels, groups),
    }


@pytest.mark.parametrize("grouping", [None, "class", "cluster"])
@pytest.mark.parametrize(("randomized", "allow_empty"), [(True, True), (False, False)])
@pytest.mark.parametrize("masked", [False, True])
def test_a_sweep_gives_the_metrics_of_a_classifiers_sets(grouping, randomized, allow_empty, masked):
    data, grid, alphas, seed, trials = data_of(masked=masked), [0.3, 2.0], [0.1, 0.4], 7, 3
    options = {"allow_empty": allow_empty, "grouping": grouping}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        result = sweep(
            data, None, grid, METHODS, alphas, trials, 0.1, 0.3, seed, randomized=randomized, metrics=ASKED, **options
        )
    temperature, strata = strata_by_hand(data)
    assert result.settings["confidence_temperature"] == temperature
    for t in range(trials):
        drawn = draw_trial(len(data), t, Protocol(0.1, 0.3, seed, randomized))
        rows, fresh = drawn.conformal, np.sort(drawn.evaluation)
        for m, j, a in np.ndindex(len(METHODS), 2, 2):
            model = ts.ConformalClassifier(
                METHODS[m], alphas[a], grid[j], randomized=randomized, random_state=seed, **options
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoverageWarning)
                model.fit(data.take(rows), u=drawn.u[rows])
            sets = model.predict_set(data.take(fresh), u=drawn.u[fresh])
            for name, want in of_sets(data, sets, fresh, alphas[a], strata).items():
                got = result.trial_values[m, j, a, result.metrics.index(name), t]
                assert got == pytest.approx(want, abs=1e-14), (name, METHODS[m], grid[j], alphas[a], t)


def test_what_is_added_changes_no_other_value():
    data = data_of()
    plain = sweep(data.logits, data.labels, [0.5, 2.0], trials=4)
    whole = sweep(data, temperatures=[0.5, 2.0], trials=4, metrics=ASKED)
    assert whole.metrics == (*plain.metrics, *GROUPED, *ASKED)
    assert whole.trial_values[:, :, :, : len(plain.metrics)].tobytes() == plain.trial_values.tobytes()
    assert "confidence_temperature" not in plain.settings


def test_groups_equal_to_classes_give_the_class_metrics():
    logits, labels = generated(600, 25, seed=1)
    result = sweep(ts.Logits(logits, labels, groups=labels), temperatures=[0.5, 1.0], trials=5)
    for of_groups, of_classes in zip(
        GROUPED, ("top_coverage_gap", "avg_coverage_gap", "worst_tenth_coverage"), strict=True
    ):
        for method in result.methods:
            assert np.array_equal(result.of_trials(of_groups, method), result.of_trials(of_classes, method))


@pytest.mark.parametrize("evaluation", ["drawn", "integrated"])
def test_added_metrics_use_drawn_u_whatever_the_evaluation(evaluation):
    data = data_of()
    drawn = sweep(data, temperatures=[1.0], methods=["aps"], trials=3, metrics=ASKED)
    result = sweep(data, temperatures=[1.0], methods=["aps"], trials=3, metrics=ASKED, evaluation=evaluation)
    for name in (*GROUPED, *ASKED):
        assert np.array_equal(result.of_trials(name, "aps"), drawn.of_trials(name, "aps"))


@pytest.mark.parametrize("grouping", [None, "class"])
def test_threads_blocks_and_memory_change_no_bit(grouping, monkeypatch):
    data = data_of(n_rows=500)

    def run(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)
            return sweep(
                data, temperatures=[0.5, 1.0, 2.0], trials=4, metrics=ASKED, grouping=grouping, **options
            ).trial_values.tobytes()

    want = run(n_jobs=1)
    assert run(n_jobs=3) == want
    monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", 8 * 12 * 7)  # seven rows
    assert run(n_jobs=2) == want
    with memory_budget("1MiB"):
        assert run() == want


@pytest.mark.parametrize("n_classes", [2, 3, 5, 12, 120])
def test_sizes_beyond_the_number_of_classes_have_no_rows(n_classes):
    logits, labels = generated(200, n_classes, signal=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        result = sweep(logits, labels, [50.0], ["aps"], [0.02], trials=2, cp_fraction=0.1, metrics=["sscv"])
    assert result.curve("sscv", "aps") == pytest.approx(0.02)  # 20 rows are too few: every set is full and right


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["sccv"], "metrics can be 'sscv', 'confidence_coverage_gap'; got 'sccv'"),
        (["avg_size"], "got 'avg_size'. Every sweep includes that one"),
        ([3], "got 3"),
    ],
)
def test_unknown_names_are_refused_before_the_work(asked, message):
    with pytest.raises(InputError, match=message):
        sweep(data_of(), metrics=asked)


def test_one_name_needs_no_list_and_a_name_given_twice_is_one():
    data = data_of().logits, data_of().labels
    assert sweep(*data, [1.0], "aps", trials=1, metrics="sscv").metrics[-1] == "sscv"
    assert sweep(*data, [1.0], "aps", trials=1, metrics=["sscv", "sscv"]).metrics.count("sscv") == 1


def test_rows_that_are_all_right_have_strata_and_no_warning():
    labels = np.arange(200) % 4
    logits = np.eye(4)[labels] * np.linspace(1, 3, 200)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error", BoundWarning)
        result = sweep(logits, labels, [1.0], ["lac"], trials=2, metrics=["confidence_coverage_gap"])
    assert np.isfinite(result.trial_values).all()


def test_rows_of_largest_logits_are_measured_as_completed():
    data = data_of()
    kept = compact(ts.Logits(data.logits, data.labels), top=6)
    found = [
        sweep(rows, temperatures=[1.0], methods=["aps"], trials=2, metrics=ASKED).trial_values
        for rows in (kept, ts.Logits(kept.logits, data.labels))
    ]
    assert found[0].tobytes() == found[1].tobytes()


def test_misses_by_hand():
    # two questions: the label, counted in cell 0 or 1; and two labels or more, counted in cell 2
    asked = Misses(np.array([[0, 2], [1, 2], [0, 2]]), np.array([1, 2]), np.array([True, False]), 3)
    missed = asked.count(np.array([1, 2, 3]), np.array([False, False, True]), slice(3))
    assert missed.tolist() == [1, 1, 1]
    assert asked.required_sizes(np.array([0, 3, 2])).tolist() == [[1, 2], [4, 2], [3, 2]]


def test_equal_to_the_composition_with_groups_too():
    data = data_of()
    result = sweep(data, temperatures=[1.0], methods=["aps"], alphas=[0.2], trials=3)
    usual = tuple(name for name in result.metrics if name not in GROUPED)
    places = [result.metrics.index(name) for name in usual]
    alone = replace(result, metrics=usual, trial_values=result.trial_values[:, :, :, places])
    assert_equal_to_composition(alone, data.logits, data.labels, ["aps"], [1.0], [0.2], Protocol())
