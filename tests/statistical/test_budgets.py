"""Budgets on published logits: the file is the population, rows are drawn from it, the truth is the whole file's."""

import warnings

import numpy as np
import pytest

import thermoset as ts
from on_arrays import estimates_of
from thermoset.errors import BudgetWarning

pytestmark = pytest.mark.long

DRAWS, N_ROWS = 25, 1000
GRID = [0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0]


@pytest.mark.parametrize(
    ("name", "budget"),
    [("cifar10_resnet50", "gap<=0.02"), ("cifar10_resnet50", "size<=1.05"), ("banking77_bert", "gap<=0.05")],
)
def test_a_budget_that_is_said_to_be_kept_is_kept(real, name, budget):
    everyone, recipe = ts.Logits(*real(name)), ts.Recipe("raps")
    kind, most = budget.split("<=")
    rng, said, broken = np.random.default_rng(0), 0, 0
    for _ in range(DRAWS):
        rows = everyone.take(rng.integers(0, len(everyone), N_ROWS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            choice = ts.tuning.choose(rows, recipe, prefer=budget, calibrated=1.5, temperatures=GRID)
        if choice.met:
            true = estimates_of(everyone, recipe, np.array([choice.temperature]), N_ROWS)
            value = true.size[0, true.level] if kind == "size" else np.sqrt((true.gaps.gap**2).mean())
            said, broken = said + 1, broken + (value > float(most))
    assert said > 0
    assert broken <= 0.05 * DRAWS + 3 * np.sqrt(DRAWS * 0.05 * 0.95)
