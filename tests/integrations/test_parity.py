"""An export answers what the library answers: 0 differing sets, but for scores within rounding of the threshold.

Differences that rounding explains are counted and printed; `python -m benchmarks parity` prints them for every file,
score, grouping, temperature and type.
"""

import sys

import numpy as np
import pytest

from conftest import REAL, real_file
from engines import ENGINES, by_exported_torch
from exports import TEMPERATURES, compared, predictor_at
from law import generated
from thermoset import RAPS, SAPS, SCORES, datasets
from thermoset.conformal import GROUPINGS

pytestmark = pytest.mark.slow

ROWS = 10_000
SETTINGS = (
    ("float32", {}),
    ("float64", {"allow_empty": False}),
    ("float64", {"randomized": False}),
)


def assert_same(engine, predictor, logits, probabilities=1e-12):
    found = engine(predictor, logits)
    parity = compared(predictor, logits, found["sets"])
    if parity.differing:
        title = predictor.document_.recipe.title
        sys.stdout.write(f"{title}: {parity.differing} of {len(logits)} sets differ within rounding\n")
    assert parity.unexplained == 0
    np.testing.assert_array_equal(found["label"], predictor.predict(logits))
    np.testing.assert_array_equal(found["sizes"], found["sets"].sum(axis=1))
    np.testing.assert_allclose(found["probabilities"], predictor.predict_proba(logits), rtol=0, atol=probabilities)
    np.testing.assert_array_equal(found["confidence"], found["probabilities"].max(axis=1))
    return parity.differing


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(
    "grouping", [None, *(name for name, one in GROUPINGS.items() if not (one.of_rows or one.limits_ranks))]
)
@pytest.mark.parametrize("method", SCORES)
def test_random_rows(method, grouping, engine):
    logits, labels = generated(ROWS + 1000, 12, seed=3)
    for turn, temperature in enumerate(TEMPERATURES):
        dtype, recipe = SETTINGS[turn % len(SETTINGS)]
        rows = logits.astype(dtype)
        predictor = predictor_at(temperature, rows[ROWS:], labels[ROWS:], method=method, grouping=grouping, **recipe)
        assert assert_same(engine, predictor, rows) == 0, (temperature, dtype, recipe)


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("method", SCORES)
@pytest.mark.parametrize("name", REAL)
def test_published_rows(name, method, engine):
    with np.load(real_file(name), allow_pickle=False) as arrays:
        n_rows = min(3000, 1_500_000 // arrays["logits"].shape[1])
        order = np.random.default_rng(0).permutation(len(arrays["logits"]))[:n_rows]
        logits, labels = arrays["logits"][order].astype(np.float32), arrays["labels"][order].astype(np.int64)
    for temperature, grouping in ((0.05, None), (0.3, "class"), (1.0, None), (5.0, "class"), (20.0, None)):
        predictor = predictor_at(temperature, logits[:1000], labels[:1000], method=method, grouping=grouping)
        assert_same(engine, predictor, logits)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("method", SCORES)
def test_glyphs(method, engine):
    data = datasets.load_glyphs().logits.take(slice(0, None, 8))
    for temperature in (0.1, 1.3):
        predictor = predictor_at(temperature, data.logits[:1000], data.labels[:1000], method=method)
        assert assert_same(engine, predictor, data.logits) == 0


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("grouping", [None, "class"])
@pytest.mark.parametrize("method", [*SCORES, RAPS(penalty=0.3, k_reg=1), RAPS(penalty=0.0), SAPS(weight=0.0)], ids=repr)
def test_masked_and_tied_rows(method, grouping, engine):
    """Whole numbers tie everywhere, so ranks hang on the order of labels; masked classes are in no finite set."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 6, 4000)
    logits = rng.integers(-3, 4, size=(4000, 6)) + 3.0 * np.eye(6)[labels]
    masked = rng.random(logits.shape) < 0.3
    masked[np.arange(4000), labels] = False
    logits[masked] = -np.inf
    for temperature in (0.05, 0.7, 5.0):
        predictor = predictor_at(temperature, logits[:500], labels[:500], method=method, grouping=grouping)
        assert_same(engine, predictor, logits)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("temperature", [1e-3, 0.01, 0.05])
@pytest.mark.parametrize("method", SCORES)
def test_masses_far_below_the_smallest_float(method, temperature, engine):
    """Tie-breaks of thousands, which differ by class: the program needs several scales at once."""
    logits, labels = generated(3000, 8, signal=0.0, seed=9)
    predictor = predictor_at(temperature, logits[:500], labels[:500], method=method, grouping="class")
    if method in ("lac", "aps", "margin"):
        finite = predictor._inference.thresholds.imag
        assert np.ptp(np.abs(finite[np.isfinite(finite)])) > 50, "the case does not test what it says"
    assert assert_same(engine, predictor, logits) == 0


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_few_classes(n_classes, engine):
    """u is made of four logits, and there are fewer."""
    logits, labels = generated(3000, n_classes, signal=0.0, seed=n_classes)
    for method in SCORES:
        predictor = predictor_at(1.0, logits[:500], labels[:500], method=method)
        assert assert_same(engine, predictor, logits) == 0


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_sets_that_reach_far_down(engine):
    """More classes than torch looks at first, and sets of hundreds."""
    logits, labels = generated(600, 400, signal=-2.0, seed=1)
    for method, grouping in (("aps", None), ("saps", None), ("raps", None), ("aps", "class")):
        predictor = predictor_at(3.0, logits[:300], labels[:300], method=method, grouping=grouping)
        assert predictor.predict_set(logits).sum(axis=1).max() > 100
        assert assert_same(engine, predictor, logits.round(1)) == 0


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_thresholds_without_end(engine):
    """Too few rows for alpha: every label is in, masked ones too."""
    logits, labels = generated(300, 5)
    logits[7, labels[7] - 1] = -np.inf
    for grouping in (None, "class"):
        predictor = predictor_at(1.0, logits[:8], labels[:8], method="aps", grouping=grouping)
        assert_same(engine, predictor, logits)


@pytest.mark.parametrize("method", ["raps", "lac", "margin"])
def test_torch_export_gives_the_same(method):
    logits, labels = generated(5000, 12, seed=3)
    for grouping in (None, "class"):
        predictor = predictor_at(0.3, logits[:500], labels[:500], method=method, grouping=grouping)
        assert assert_same(by_exported_torch, predictor, logits.astype(np.float32)) == 0
