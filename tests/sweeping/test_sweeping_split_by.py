"""Sweeps over splits that keep rows together: the same arithmetic, with as many conformal rows as groups allow."""

import numpy as np
import pytest

import thermoset as ts
from law import generated
from sweeping.composition import assert_equal_to_composition
from thermoset.errors import InputError
from thermoset.sweeping import Protocol, draw_trial

LOGITS, LABELS = generated(240, 4, signal=0.3)
PATIENTS = np.random.default_rng(2).integers(0, 19, size=240)  # of different sizes, so that parts differ too
GRID, ALPHAS, TRIALS = [0.7, 1.0, 2.0], [0.1, 0.3], 7
EVALUATIONS = ("drawn", "integrated")
PARTS = {"calibration_fraction": 0.1, "cp_fraction": 0.4}


def swept(**options):
    given = {"temperatures": GRID, "alphas": ALPHAS, "trials": TRIALS, "split_by": PATIENTS, **PARTS}
    return ts.sweep(LOGITS, LABELS, **(given | options))


def test_rows_of_one_value_stay_together():
    sizes = set()
    for t in range(TRIALS):
        drawn = draw_trial(240, t, Protocol(0.1, 0.4, split_by=PATIENTS))
        parts = [set(PATIENTS[rows]) for rows in (drawn.calibration, drawn.conformal, drawn.evaluation)]
        assert sum(map(len, parts)) == len(set(PATIENTS))  # no patient in two parts
        sizes.add(len(drawn.conformal))
    assert len(sizes) > 1


@pytest.mark.parametrize("grouping", [None, "class", "cluster"])
def test_a_sweep_is_fit_predict_and_measure(grouping):
    methods = ["lac", "aps", "raps", "margin"]
    protocol = Protocol(**PARTS, split_by=PATIENTS)
    result = swept(methods=methods, grouping=grouping)
    assert_equal_to_composition(result, LOGITS, LABELS, methods, GRID, ALPHAS, protocol, grouping=grouping)
    assert result.settings["split_by"] == 19


def test_threads_memory_and_names_do_not_matter():
    one = swept(methods=["aps"], n_jobs=1)
    names = [f"patient {i}" for i in PATIENTS]
    for other in (swept(methods=["aps"], n_jobs=3, memory="1MiB"), swept(methods=["aps"], split_by=names)):
        assert other.trial_values.tobytes() == one.trial_values.tobytes()


def test_integrated_sizes_are_the_mean_over_u():
    """Trials share their thresholds: what is left is the noise of u, which has mean zero."""
    drawn, averaged = (swept(methods=["aps"], temperatures=[1.0], evaluation=how, trials=60) for how in EVALUATIONS)
    one, other = (result.trial_values[0, 0, 0, result.metrics.index("avg_size")] for result in (drawn, averaged))
    apart = one - other
    assert apart.std() > 0
    assert abs(apart.mean()) < 5 * apart.std(ddof=1) / np.sqrt(len(apart))


def test_a_value_for_each_row_is_a_plain_split():
    """With one row for each value sizes are met exactly, in every trial."""
    protocol = Protocol(**PARTS, split_by=np.arange(240))
    assert {len(draw_trial(240, t, protocol).conformal) for t in range(TRIALS)} == {96}
    result = swept(split_by=np.arange(240), methods=["lac"])
    assert_equal_to_composition(result, LOGITS, LABELS, ["lac"], GRID, ALPHAS, protocol)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (PATIENTS[:-1], "split_by must have one value for each of 240 rows; got 239"),
        ([None, *PATIENTS[1:]], r"split_by\[0\] is missing"),
        (np.zeros(240), "at least 3 different values"),
    ],
)
def test_bad_values_are_refused(bad, said):
    with pytest.raises(InputError, match=said):
        swept(split_by=bad)
