"""Coverage by the exact law through an exported graph, over 200 splits."""

import numpy as np
import pytest

from engines import ENGINES
from exports import predictor_at
from law import generated, z_over_splits

pytestmark = pytest.mark.long

SIGMAS = 5


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(("method", "temperature"), [("raps", 1.3), ("aps", 0.05), ("lac", 0.3)])
def test_coverage_through_an_export(method, temperature, engine):
    logits, labels = generated(1200, 10, seed=10)

    def predict(conformal, own, fresh):
        return engine(predictor_at(temperature, conformal, own, method=method, alpha="0.1"), fresh)["sets"]

    z = z_over_splits(predict, logits, labels, alpha="0.1", n_conformal=200, n_evaluation=400)
    assert abs(z) < SIGMAS


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_the_test_can_fail(engine):
    """A threshold for 0.12 where 0.1 is promised is seen."""
    logits, labels = generated(1200, 10, seed=10)

    def predict(conformal, own, fresh):
        return engine(predictor_at(1.0, conformal, own, method="aps", alpha="0.12"), fresh)["sets"]

    z = z_over_splits(predict, logits, labels, alpha="0.1", n_conformal=200, n_evaluation=400, splits=100)
    assert np.abs(z) > SIGMAS
