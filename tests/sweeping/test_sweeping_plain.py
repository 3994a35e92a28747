"""Class-conditional sets in a sweep: a fit and a prediction for each trial, as one would write it."""

import numpy as np
import pytest

from law import generated
from sweeping.composition import assert_equal_to_composition
from thermoset import RAPS, ConformalClassifier, Logits, metrics, sweep
from thermoset.conformal import GROUPINGS
from thermoset.sweeping import Protocol, draw_trial

pytestmark = pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
METHODS = ("lac", "aps", RAPS(penalty=0.1, k_reg=1), "pas")


@pytest.mark.parametrize("kind", [None, *(name for name, one in GROUPINGS.items() if not one.of_rows)])
@pytest.mark.parametrize(("randomized", "allow_empty"), [(True, True), (False, False)])
def test_equals_the_composition(kind, randomized, allow_empty):
    logits, labels = generated(400, 4, signal=0.2)
    protocol = Protocol(0.1, 0.5, 2, randomized)
    grid, alphas = [0.05, 1.0], [0.1, 0.3]
    result = sweep(
        logits, labels, grid, METHODS, alphas, 2, 0.1, 0.5, 2,
        grouping=kind, randomized=randomized, allow_empty=allow_empty,
    )  # fmt: skip
    assert_equal_to_composition(
        result, logits, labels, METHODS, grid, alphas, protocol, grouping=kind, allow_empty=allow_empty
    )
    assert result.settings["grouping"] == kind


@pytest.mark.parametrize("method", ["lac", "aps", "margin", "pas"])
def test_thresholds_by_group_equal_the_composition(method):
    """Trial by trial: what a classifier fitted on the conformal rows gives the others, with the trial's u."""
    rows = Logits(*generated(400, 4, signal=0.2), groups=np.arange(400) % 3)
    result = sweep(rows, None, [0.5, 2.0], [method], [0.2], 3, 0.1, 0.5, 2, grouping="group")
    for t in range(3):
        trial = draw_trial(400, t, Protocol(0.1, 0.5, 2))
        conformal, fresh = rows.take(trial.conformal), rows.take(trial.evaluation)
        for j, temperature in enumerate((0.5, 2.0)):
            model = ConformalClassifier(method, 0.2, temperature, grouping="group", random_state=2)
            sets = model.fit(conformal, u=trial.u[trial.conformal]).predict_set(fresh, u=trial.u[trial.evaluation])
            assert result.of_trials("avg_size", method)[j, t] == metrics.avg_size(sets)
            covered = metrics.marginal_coverage(sets, fresh.labels)
            assert result.of_trials("marginal_coverage", method)[j, t] == covered
            by_group = metrics.avg_group_coverage_gap(sets, fresh.labels, fresh.groups, 0.2)
            assert result.of_trials("avg_group_coverage_gap", method)[j, t] == by_group


def test_classes_with_too_few_rows_have_full_sets():
    logits, labels = generated(60, 10)
    result = sweep(logits, labels, [1.0], ["aps"], trials=2, grouping="class")
    assert np.isposinf(result.curve("threshold", "aps")).all()
    assert result.curve("avg_size", "aps").tolist() == [10.0]
