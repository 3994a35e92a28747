"""A sweep written plainly: fit, predict and measure, for each trial, score, temperature and alpha."""

import warnings

import numpy as np

from thermoset import ConformalClassifier
from thermoset.errors import CoverageWarning
from thermoset.metrics import counts_of_sets, swept_metrics
from thermoset.scores import BEYOND
from thermoset.sweeping import Protocol, draw_trial


def measure(model, sets, labels, alpha):
    """What a sweep reports, from one fitted classifier and its sets."""
    q = np.atleast_1d(model.threshold_)
    finite = q[np.isfinite(q) & (q < BEYOND)]
    counts = counts_of_sets(sets, labels, alpha)  # once for all metrics, each of which would count again
    found = {metric.name: float(metric.of(counts)) for metric in swept_metrics() if metric.is_of_sets}
    return {**found, "threshold": float(finite.mean() if finite.size else q.max())}


def composition(logits, labels, methods, temperatures, alphas, trials, protocol, **classifier):
    """Values as `Sweep.trial_values` has them: a dict of metric to (methods, temperatures, alphas, trials)."""
    values = {}
    for t in range(trials):
        drawn = draw_trial(len(labels), t, protocol)
        rows, fresh = drawn.conformal, drawn.evaluation
        for index in np.ndindex(len(methods), len(temperatures), len(alphas)):
            alpha = alphas[index[2]]
            model = ConformalClassifier(
                methods[index[0]],
                alpha,
                temperatures[index[1]],
                randomized=protocol.randomized,
                random_state=protocol.random_state,
                **classifier,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoverageWarning)
                model.fit(logits[rows], labels[rows], u=drawn.u[rows])
            sets = model.predict_set(logits[fresh], u=drawn.u[fresh])
            for name, value in measure(model, sets, labels[fresh], alpha).items():
                shape = (len(methods), len(temperatures), len(alphas), trials)
                values.setdefault(name, np.full(shape, np.nan))[(*index, t)] = value
    return values


def assert_equal_to_composition(result, logits, labels, methods, temperatures, alphas, protocol=None, **classifier):
    """Thresholds, sizes and counts to the last bit, and the gaps, which are sums over classes, but for rounding."""
    want = composition(
        logits, labels, methods, temperatures, alphas, result.trials, protocol or Protocol(), **classifier
    )
    assert set(want) == set(result.metrics)
    for name, values in want.items():
        got = result.trial_values[:, :, :, result.metrics.index(name)]
        if name.endswith("_gap"):
            np.testing.assert_allclose(got, values, rtol=0, atol=1e-14, err_msg=name)
        else:
            np.testing.assert_array_equal(got, values, err_msg=name)
