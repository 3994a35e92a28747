"""A sweep is the classifier's arithmetic: equal to fit, predict_set and metrics for every trial, given its u."""

import gc
import math
import warnings
import weakref

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from law import generated
from sweeping.composition import assert_equal_to_composition
from thermoset import APS, RAPS, SAPS, SCORES, ConformalClassifier, Logits, metrics, sweep
from thermoset.errors import CoverageWarning, InputError
from thermoset.rows import block_rows
from thermoset.sweeping import Protocol, draw_trial, job
from tiers import examples

INTEGRATED = (
    "integrated_top_coverage_gap",
    "integrated_avg_coverage_gap",
    "integrated_squared_coverage_gap",
    "integrated_worst_tenth_coverage",
)
THRESHOLD = [metric.name for metric in metrics.swept_metrics()].index("threshold")
METHODS = (*SCORES, RAPS(penalty=0.1, k_reg=1))
COMPILED = (*(name for name, score in SCORES.items() if score.prefixes), METHODS[-1])  # those with a closed form
KINDS = ("plain", "ties", "duplicates", "masked", "masked labels", "one winner")
quiet = pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")


def problem(kind, n_rows, n_classes, scale, dtype, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    logits = rng.normal(size=(n_rows, n_classes))
    logits[np.arange(n_rows), labels] += 1.5
    if kind == "ties":
        logits = np.round(logits)
    if kind == "one winner":
        logits = np.round(4 * logits * (rng.random(logits.shape) < 0.2)) / 4
    logits = (scale * logits).astype(dtype)
    if kind == "duplicates":
        rows = rng.integers(0, max(n_rows // 5, 1), n_rows)
        logits, labels = logits[rows], labels[rows]
    if kind.startswith("masked"):
        masked = rng.random(logits.shape) < 0.2
        masked[np.arange(n_rows), labels] &= kind == "masked labels"
        masked[:, 0] &= labels != 0  # never a whole row
        masked[np.arange(n_rows), logits.argmax(axis=1)] = False
        logits[masked] = -np.inf
    return logits, labels


cases = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "n_rows": st.integers(30, 200),
        "n_classes": st.integers(2, 12),
        "scale": st.sampled_from([0.1, 1.0, 5.0, 30.0]),
        "dtype": st.sampled_from([np.float16, np.float32, np.float64]),
        "seed": st.integers(0, 2**32),
    }
)
grids = st.lists(st.floats(-2, 2).map(lambda e: round(10**e, 3)), min_size=1, max_size=3, unique=True).map(sorted)
methods_drawn = st.lists(st.sampled_from(METHODS), min_size=1, max_size=3, unique_by=str)
levels = st.lists(st.sampled_from([0.02, 0.1, 0.18, 0.5, "0.3"]), min_size=1, max_size=2, unique=True)
PLAIN = {"kind": "plain", "n_rows": 120, "n_classes": 10, "scale": 5.0, "dtype": np.float32, "seed": 1}


@pytest.mark.slow
@quiet
@settings(max_examples=examples(100))
@given(cases, methods_drawn, grids, levels, st.booleans(), st.booleans(), st.sampled_from([0, 0.1]))
@example(PLAIN, METHODS, [0.01, 1.0, 100.0], [0.1], True, True, 0.1)
@example(PLAIN, METHODS, [0.01, 1.0, 100.0], [0.1], False, False, 0.1)
@example({**PLAIN, "kind": "duplicates"}, METHODS, [0.05, 2.0], [0.1, 0.02], False, True, 0)
@example({**PLAIN, "kind": "masked labels", "n_rows": 180}, METHODS, [0.5, 2.0], [0.18], True, True, 0)
@example({**PLAIN, "kind": "ties", "n_classes": 2}, METHODS, [0.05, 2.0], [0.1, 0.5], True, False, 0)
@example({**PLAIN, "dtype": np.float16, "scale": 30.0}, METHODS, [0.011, 0.1], [0.1], True, True, 0)
def test_drawn_u_equals_the_composition(case, methods, temperatures, alphas, randomized, allow_empty, calibration):
    logits, labels = problem(**case)
    protocol = Protocol(calibration, 0.3, case["seed"] % 1000, randomized)
    result = sweep(
        logits, labels, temperatures, methods, alphas, 6, calibration, 0.3, protocol.random_state,
        randomized=randomized, allow_empty=allow_empty,
    )  # fmt: skip
    assert_equal_to_composition(
        result, logits, labels, methods, temperatures, alphas, protocol, allow_empty=allow_empty
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "ties", "duplicates", "masked"])
@pytest.mark.parametrize(("randomized", "allow_empty"), [(True, True), (False, False)])
def test_drawn_u_equals_the_composition_on_flat_rows(kind, randomized, allow_empty):
    # Flat rows and few conformal rows: the trials' thresholds lie dozens of ranks apart.
    logits, _ = problem(kind, 150, 120, 0.3, np.float32, 4)
    labels = np.random.default_rng(2).integers(0, 120, 150)
    logits[np.arange(150), labels] = np.maximum(logits[np.arange(150), labels], -1)  # unmasked
    methods, grid, alphas = [*METHODS, SAPS(weight=0.01)], [0.3, 20.0], [0.1, 0.5]
    protocol = Protocol(0, 0.1, 0, randomized)
    with pytest.warns(CoverageWarning, match="no evaluation rows"):
        result = sweep(logits, labels, grid, methods, alphas, 8, 0, 0.1, randomized=randomized, allow_empty=allow_empty)
    sizes = result.of_trials("avg_size", "aps", 0.5)[1]
    assert np.ptp(sizes) > 20, "the case does not test what it says"
    assert_equal_to_composition(result, logits, labels, methods, grid, alphas, protocol, allow_empty=allow_empty)


@quiet
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("grouping", [None, "class", "cluster"])
def test_without_empty_sets_thresholds_may_be_minus_infinity(kind, randomized, grouping):
    """About as many rows are right as the levels ask for: thresholds are -inf in some trials, a score in others."""
    logits, labels = problem(kind, 240, 5, 1.0, np.float32, 5)
    right = (logits.argmax(axis=1) == labels).mean()
    methods, grid = METHODS, [0.05, 2.0]
    alphas = [round(1 - right, 3), round((1 - right) / 2, 3), 0.9]
    protocol = Protocol(0, 0.4, 3, randomized)
    options = {"allow_empty": False, "grouping": grouping}
    result = sweep(logits, labels, grid, methods, alphas, 6, 0, 0.4, 3, randomized=randomized, **options)
    assert_equal_to_composition(result, logits, labels, methods, grid, alphas, protocol, **options)
    assert not result.trial_values[:, :, :, result.metrics.index("empty_share")].any()
    infinite = np.isneginf(result.trial_values[:, :, :, THRESHOLD])
    if grouping is None:
        assert infinite[:, :, 2].all()
        assert 0 < infinite[0, 0, 0].sum() < 6, "the case does not test what it says"
        sizes = result.trial_values[:, :, :, result.metrics.index("avg_size")]
        assert (sizes[infinite] == 1).all()


def test_allow_empty_is_a_bool():
    with pytest.raises(InputError, match="allow_empty must be one of True, False; got 'patched'"):
        sweep(*generated(100, 3), [1.0], allow_empty="patched")


@pytest.mark.parametrize("score", [RAPS(penalty=1e6, k_reg=1), SAPS(weight=1e5)])
def test_large_parameters_do_not_blur_the_comparison(score):
    # A value near 1e6 is rounded to 1e-10, and second labels with that share lie a rounding or two from each other:
    # what counts as close must grow with the value.
    for seed in range(10):
        rng = np.random.default_rng(seed)
        logits = np.stack([np.zeros(600), -rng.uniform(16, 24, 600), np.full(600, -200.0)], axis=1)
        labels = (rng.random(600) < 0.5).astype(np.int64)
        labels[:10] = 2
        result = sweep(logits, labels, [1.0], [score], [0.1, 0.3], 1, 0, 0.3, seed)
        assert_equal_to_composition(result, logits, labels, [score], [1.0], [0.1, 0.3], Protocol(0, 0.3, seed))


@pytest.mark.long
@quiet
@pytest.mark.parametrize(("name", "rows"), [("cifar100_resnet50", 2000), ("imagenet5k_efficientnet_lite0", 500)])
def test_drawn_u_equals_the_composition_on_real_logits(real, name, rows):
    logits, labels = real(name)
    pick = np.random.default_rng(0).permutation(len(labels))[:rows]
    logits, labels = logits[pick], labels[pick]
    temperatures = [0.01, 0.05, 0.3, 1.0, 2.0, 5.0]
    result = sweep(logits, labels, temperatures, METHODS, [0.1, 0.05], 2, random_state=3)
    protocol = Protocol(random_state=3)
    assert_equal_to_composition(result, logits, labels, METHODS, temperatures, [0.1, 0.05], protocol)


def test_several_raps_are_named_by_what_differs():
    logits, labels = generated(300, 12, signal=-0.5)
    methods = [RAPS(), RAPS(penalty=0.1, k_reg=1), RAPS(k_reg=2), APS()]
    result = sweep(logits, labels, [0.5, 2.0], methods, trials=3)
    assert result.methods == (
        "raps", "raps(penalty=0.1, k_reg=1)", "raps(k_reg=2)", "aps",
    )  # fmt: skip
    assert_equal_to_composition(result, logits, labels, methods, [0.5, 2.0], [0.1])
    sizes = [result.curve("avg_size", name)[0] for name in result.methods]
    assert len(set(sizes)) == len(sizes), "the case does not tell the scores apart"


# ---- u integrated out


def over_many_u(logits, labels, method, temperature, alpha, draws, allow_empty=True):
    """Trial 0 by hand: its threshold, then many u for its evaluation rows: means, and 5 standard errors."""
    trial, rng = draw_trial(len(labels), 0, Protocol()), np.random.default_rng(7)
    rows, fresh = trial.conformal, trial.evaluation
    model = ConformalClassifier(method, alpha, temperature, allow_empty=allow_empty)
    model.fit(logits[rows], labels[rows], u=trial.u[rows])
    repeated, truth = np.tile(logits[fresh], (draws, 1)), np.tile(labels[fresh], draws)
    sets = model.predict_set(repeated, u=rng.random(len(repeated)))
    each = {
        "avg_size": sets.sum(axis=1),
        "marginal_coverage": sets[np.arange(len(sets)), truth],
        "empty_share": ~sets.any(axis=1),
    }
    means = {name: values.reshape(draws, -1).mean(axis=1) for name, values in each.items()}
    # What happens with a probability below 3 / rows may not have been seen at all.
    return {name: (m.mean(), 5 * m.std(ddof=1) / math.sqrt(draws) + 3 / len(sets)) for name, m in means.items()}


@pytest.mark.slow
@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("temperature", [0.01, 0.05, 0.5, 1.0, 5.0])
def test_integrated_u_is_the_average_over_drawn_u(temperature, allow_empty):
    logits, labels = generated(500, 10, signal=0.2)
    result = sweep(
        logits, labels, [temperature], COMPILED, [0.1, 0.3], 1, evaluation="integrated", allow_empty=allow_empty
    )
    for method, name in zip(COMPILED, result.methods, strict=True):
        for alpha in result.alphas:
            many = over_many_u(logits, labels, method, temperature, alpha, 300, allow_empty)
            for metric, (mean, error) in many.items():
                got = result.of_trials(metric, name, alpha)[0, 0]
                assert abs(got - mean) <= error, (name, alpha, metric, got, mean, error)
            coverage = result.of_trials("marginal_coverage", name, alpha)
            gap = result.of_trials("marginal_coverage_gap", name, alpha)
            assert gap == pytest.approx(np.abs(coverage - (1 - alpha)), abs=1e-12)


@quiet
@pytest.mark.parametrize(
    ("rows", "grid", "alphas", "draws"),
    [
        ("real", [0.05, 2.0], [0.1], 30),
        ("flat", [0.3, 20.0], [0.1, 0.5], 100),
        ("masked", [0.05, 1.0], [0.2], 300),
    ],
)
def test_integrated_u_is_the_average_on_harder_rows(rows, grid, alphas, draws, real):
    """Real logits; thresholds dozens of ranks apart; masked classes and ties."""
    if rows == "real":
        logits, labels = (array[:2000] for array in real("cifar100_resnet50"))
    elif rows == "flat":
        logits, labels = problem("plain", 150, 120, 0.3, np.float32, 4)
    else:
        logits, labels = problem("ties", 400, 8, 2.0, np.float64, 3)
        logits[(np.random.default_rng(0).random(logits.shape) < 0.2) & (np.eye(8)[labels] == 0)] = -np.inf
    result = sweep(logits, labels, grid, COMPILED, alphas, 1, evaluation="integrated")
    for method, name in zip(COMPILED, result.methods, strict=True):
        for j, temperature in enumerate(grid):
            for metric, (mean, error) in over_many_u(logits, labels, method, temperature, alphas[-1], draws).items():
                got = result.of_trials(metric, name, alphas[-1])[j, 0]
                assert abs(got - mean) <= error, (name, temperature, metric, got, mean, error)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_integrated_coverage_and_class_gaps_have_the_closed_form(temperature):
    # A label's hits over u are h = clip((q - sum of p above) / p, 0, 1) for APS; everything else is means of h.
    logits, labels = generated(800, 40, signal=0.2)
    alphas = [0.1, "0.18"]
    result = sweep(logits, labels, [temperature], ["aps"], alphas, 3, evaluation="integrated")
    p = np.exp(logits / temperature)
    p /= p.sum(axis=1, keepdims=True)
    own = p[np.arange(len(p)), labels]
    above = np.where(p > own[:, None], p, 0).sum(axis=1)
    for t in range(3):
        rows = draw_trial(len(labels), t, Protocol()).evaluation
        for alpha in result.alphas:
            q = result.of_trials("threshold", "aps", alpha)[0, t]
            h = np.clip((q - above) / own, 0, 1)[rows]
            by_class = [h[labels[rows] == c].mean() for c in range(40)]
            gaps = np.sort(np.abs(np.array(by_class) - (1 - alpha)))
            want = {
                "marginal_coverage": h.mean(),
                "integrated_top_coverage_gap": gaps[-2:].mean(),  # 5% of 40 classes
                "integrated_avg_coverage_gap": gaps.mean(),
                "integrated_squared_coverage_gap": (gaps**2).mean(),
            }
            for name, value in want.items():
                assert result.of_trials(name, "aps", alpha)[0, t] == pytest.approx(value, abs=1e-8), name


def test_integrating_leaves_class_gaps_and_thresholds_drawn():
    logits, labels = generated(500, 20, signal=0.2)
    grid = [0.05, 1.0, 3.0]
    drawn = sweep(logits, labels, grid, COMPILED, [0.1, 0.2], 5)
    smooth = sweep(logits, labels, grid, COMPILED, [0.1, 0.2], 5, evaluation="integrated")
    assert drawn.metrics == tuple(metric.name for metric in metrics.swept_metrics())
    assert smooth.metrics == drawn.metrics + INTEGRATED
    for name in ("top_coverage_gap", "avg_coverage_gap", "worst_tenth_coverage", "threshold"):
        k = drawn.metrics.index(name)
        assert drawn.trial_values[:, :, :, k].tobytes() == smooth.trial_values[:, :, :, k].tobytes(), name
    for name in ("avg_size", "marginal_coverage", "empty_share"):
        assert not np.array_equal(drawn.of_trials(name, "aps", 0.1), smooth.of_trials(name, "aps", 0.1))
    for name in ("avg_size", "marginal_coverage", "empty_share"):  # LAC has no u: nothing to integrate
        assert smooth.of_trials(name, "lac", 0.1) == pytest.approx(drawn.of_trials(name, "lac", 0.1), abs=1e-9)


def test_integrating_removes_nothing_but_noise():
    logits, labels = generated(1000, 10, signal=0.2)
    drawn = sweep(logits, labels, [0.3, 1.0], ["aps"], trials=200)
    smooth = sweep(logits, labels, [0.3, 1.0], ["aps"], trials=200, evaluation="integrated")
    for name in ("avg_size", "marginal_coverage"):
        one, other = drawn.of_trials(name, "aps"), smooth.of_trials(name, "aps")
        difference = one - other  # has mean 0: the same thresholds, u averaged
        error = difference.std(axis=1, ddof=1) / math.sqrt(200)
        assert np.all(np.abs(difference.mean(axis=1)) < 5 * error)
        assert np.all(error > 0)


# ---- threads, blocks, and what else must not matter


@pytest.mark.long
@pytest.mark.parametrize("evaluation", ["drawn", "integrated"])
def test_threads_and_blocks_change_no_bit(evaluation, monkeypatch):
    logits, labels = generated(700, 30, signal=0.0)
    logits[::7, 3] = np.where(labels[::7] == 3, logits[::7, 3], -np.inf)
    logits = logits.astype(np.float32)

    def run(n_jobs):
        grid = [0.02, 0.3, 1.0, 1.1, 2.2]
        methods = METHODS if evaluation == "drawn" else COMPILED
        return sweep(logits, labels, grid, methods, [0.1, 0.3], 12, n_jobs=n_jobs, evaluation=evaluation).trial_values

    once = run(1).tobytes()
    for n_jobs in (2, 5, None):
        assert run(n_jobs).tobytes() == once
    for rows in (1, 13, 256):
        monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", rows * 8 * 30)
        assert block_rows(30) == rows
        assert run(2).tobytes() == once
    monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", 2**40)
    assert run(3).tobytes() == once


def test_renaming_the_classes_changes_no_value():
    # Rows are split and randomised by their number, so only a renaming of classes can be tried.
    logits, labels = generated(400, 9)
    names = np.random.default_rng(2).permutation(9)
    renamed = np.empty_like(logits)
    renamed[:, names] = logits
    one = sweep(logits, labels, [0.05, 1.0], METHODS, trials=4)
    other = sweep(renamed, names[labels], [0.05, 1.0], METHODS, trials=4)
    np.testing.assert_allclose(one.trial_values, other.trial_values, rtol=0, atol=1e-14)


def test_what_else_is_swept_changes_no_value():
    logits, labels = generated(400, 10)
    everything = sweep(logits, labels, [0.05, 0.5, 1.0, 2.0], METHODS, [0.05, 0.1, 0.3], 5)
    for m, method in enumerate(METHODS):
        for j, temperature in enumerate(everything.temperatures):
            for a, alpha in enumerate(everything.alphas):
                alone = sweep(logits, labels, [temperature], [method], [alpha], 5)
                assert alone.trial_values[0, 0, 0].tobytes() == everything.trial_values[m, j, a].tobytes()


@pytest.mark.parametrize("evaluation", ["drawn", "integrated"])
def test_a_trial_is_the_same_however_many_are_run(evaluation):
    logits, labels = generated(400, 10)
    few, many = (
        sweep(logits, labels, [0.05, 1.0], COMPILED, trials=n, evaluation=evaluation).trial_values for n in (5, 20)
    )
    assert few.tobytes() == many[..., :5].tobytes()


def test_the_seed_decides():
    logits, labels = generated(400, 10)
    one, same, other = (sweep(logits, labels, [1.0], trials=5, random_state=s).trial_values for s in (4, 4, 5))
    assert one.tobytes() == same.tobytes()
    assert not np.any(one[:, :, :, THRESHOLD] == other[:, :, :, THRESHOLD])


def test_progress_rises_to_its_total():
    """In rows, of both passes over them."""
    logits, labels = generated(9000, 10)
    seen = []
    sweep(logits, labels, [0.5, 1.0], trials=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(set(seen))
    assert len(seen) > 2
    assert seen[-1] == (18_000, 18_000)
    assert {total for _, total in seen} == {18_000}


def test_an_error_in_progress_stops_the_sweep():
    logits, labels = generated(400, 10)

    def stop(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(logits, labels, [0.5, 1.0], trials=2, progress=stop, n_jobs=2)


def test_metrics_are_those_of_the_library():
    logits, labels = generated(400, 10)
    data = Logits(logits, labels, groups=labels % 3)
    asked = [metric.name for metric in metrics.METRICS.values() if metric.is_asked]
    result = sweep(data, temperatures=[1.0], methods=["aps"], trials=2, evaluation="integrated", metrics=asked)
    assert set(metrics.METRICS) - set(result.metrics) == {"left_out_share"}  # which needs the ranks of labels
    assert np.isfinite(result.trial_values).all()


def test_a_metric_that_joins_the_registry_is_in_every_table(monkeypatch):
    """A user adds a formula and a record, and touches nothing else."""
    doubled = metrics.Metric("doubled", "Doubled", "twice the labels", "labels", lambda counts: 2 * counts.members)
    monkeypatch.setitem(metrics.METRICS, "doubled", doubled)
    logits, labels = generated(400, 10)
    for choice in ({}, {"evaluation": "integrated"}, {"grouping": "class"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)
            result = sweep(logits, labels, [0.5, 1.0], ["aps"], trials=3, **choice)
        assert "doubled" in result.columns()["metric"]
        drawn = sweep(logits, labels, [0.5, 1.0], ["aps"], trials=3) if "evaluation" in choice else result
        rows = 320  # of 400, 10% and 10% are set aside
        np.testing.assert_allclose(
            result.curve("doubled", "aps"), 2 * rows * drawn.of_trials("avg_size", "aps").mean(axis=1), rtol=1e-12
        )
    assert doubled([[True, True], [False, True]], [0, 1], 0.1) == 6.0


@pytest.mark.slow
def test_a_turn_of_temperatures_is_let_go_at_once(monkeypatch):
    """Shares that wait for the garbage collector pile up, turn after turn: memory would grow with temperatures."""
    kept, made = [], job.label_parts

    def watched(*arguments, **options):
        shares = made(*arguments, **options)
        kept.append(weakref.ref(shares.parts))
        return shares

    monkeypatch.setattr(job, "label_parts", watched)
    monkeypatch.setattr(job, "budget_share", lambda _: 1)
    gc.collect()
    gc.disable()
    try:
        sweep(*generated(600, 5, seed=3), [0.5, 1.0, 2.0], trials=3)
        assert len(kept) >= 3
        assert all(shares() is None for shares in kept)
    finally:
        gc.enable()
