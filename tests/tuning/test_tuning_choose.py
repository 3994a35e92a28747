"""Choosing T-hat: rules, budgets, invariances, bad input."""

import warnings

import numpy as np
import pytest

import thermoset as ts
from law import generated
from on_arrays import top_gaps
from thermoset.errors import BudgetWarning, CoverageWarning, InputError
from thermoset.sweeping import Trial
from thermoset.sweeping.engine import block_uniforms
from thermoset.tuning import choose, default_grid
from thermoset.tuning.held_out import _HALVINGS
from thermoset.uniforms import stream, trial_keys

pytestmark = pytest.mark.slow


def uneven(n_rows=1500, n_classes=10, seed=0, scale=3.0):
    """Rows of an overconfident classifier that finds some classes harder than others."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    noise = 1 + labels[:, None] / n_classes
    return ts.Logits(scale * (noise * rng.normal(size=(n_rows, n_classes)) + 4 * np.eye(n_classes)[labels]), labels)


@pytest.fixture(scope="module")
def rows():
    return uneven()


@pytest.fixture(scope="module")
def chosen(rows):
    """Choices by preference, each made once."""
    made = {}

    def get(prefer):
        if prefer not in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BudgetWarning)
                made[prefer] = choose(rows, ts.Recipe("aps"), prefer=prefer, calibrated=2.0)
        return made[prefer]

    return get


def test_size_has_the_smallest_sets_and_coverage_the_smallest_loss_up_to_the_peak(chosen):
    for prefer, name in (("small", "size"), ("even", "loss")):
        choice = chosen(prefer)
        t, values = np.array(choice.curve.temperatures), np.array(getattr(choice.curve, name))
        assert choice.peak == t[np.argmax(choice.curve.size)]
        searched = t <= choice.peak
        assert choice.temperature == t[searched][np.argmin(values[searched])]
        assert choice.met


def test_refinement_goes_off_the_grid(rows):
    on_grid = choose(rows, ts.Recipe("aps"), prefer="even", calibrated=2.0, temperatures=[0.5, 1, 2, 3, 4, 6])
    assert len(on_grid.curve.temperatures) > 6
    fine = choose(rows, ts.Recipe("aps"), prefer="even", calibrated=2.0)
    coarse = np.interp(on_grid.temperature, fine.curve.temperatures, fine.curve.loss)
    assert coarse <= 1.05 * min(fine.curve.loss)


def test_a_size_budget_holds_with_confidence_and_covers_as_evenly_as_it_may(chosen):
    at_one = chosen("small").outlooks[0]
    budget = round(at_one.size * 1.1, 2)
    choice = chosen(f"size<={budget}")
    pointwise = np.array(choice.curve.size) + 1.645 * np.array(choice.curve.size_error)
    t, loss = np.array(choice.curve.temperatures), np.array(choice.curve.loss)
    may = (pointwise <= budget) & (t <= choice.peak)  # a bound for all temperatures at once allows fewer
    assert choice.temperature in t[may]
    assert choice.temperature <= t[may][np.argmin(loss[may])]
    assert choice.met
    assert "while meeting size<=" in choice.why


def test_a_budget_that_cannot_be_kept_gives_the_closest_and_says_so(rows):
    with pytest.warns(BudgetWarning, match=r"no temperature meets size<=0.1 with 95% confidence; the closest"):
        choice = choose(rows, ts.Recipe("aps"), prefer="size<=0.1", calibrated=2.0)
    assert not choice.met
    assert choice.why.startswith("No temperature meets size<=0.1")


def test_a_gap_budget_takes_the_smallest_sets_that_keep_it(chosen):
    loose, tight = chosen("gap<=0.9"), chosen("gap<=0.05")
    assert loose.temperature == pytest.approx(chosen("small").temperature)
    assert loose.met
    assert loose.temperature <= tight.temperature
    if tight.met:
        assert tight.outlook.class_gap <= 0.05
    else:
        assert "calibration rows would be needed" in tight.why


def test_the_report_compares_with_one_and_with_the_calibrated_temperature(chosen):
    choice = chosen("even")
    assert [at.name for at in choice.outlooks] == ["T = 1", "T*", "T-hat"]
    assert [at.temperature for at in choice.outlooks] == [1.0, 2.0, choice.temperature]
    for versus, at in zip(choice.comparisons, choice.outlooks, strict=False):
        assert versus.size == pytest.approx(choice.outlook.size - at.size)
        assert versus.class_gap == pytest.approx(choice.outlook.class_gap - at.class_gap)
        assert versus.class_gap_ends[0] <= versus.class_gap_ends[1]
        assert versus.size_error > 0
    assert choice.spread[0] <= choice.temperature <= choice.spread[1]
    assert chosen("small").spread is None


def test_scaling_logits_scales_the_temperature():
    """z / T is all that matters: with logits and grid times 4, the choice is 4 times as hot, to the bit."""
    grid = default_grid(3.0)
    # "small" looks back at T = 1, which is another temperature of scaled logits.
    plain = choose(uneven(600), prefer="even", calibrated=3.0, temperatures=grid)
    scaled = choose(uneven(600, scale=12.0), prefer="even", calibrated=12.0, temperatures=4 * grid)
    assert scaled.temperature == 4 * plain.temperature
    assert scaled.curve.size == plain.curve.size


def test_temperatures_that_cannot_be_told_apart_are_named():
    """Classes that differ in nothing have no best temperature, and the choice says so."""
    told = 0
    for seed in range(20):
        logits, labels = generated(400, 10, signal=-0.5, seed=seed)
        choice = choose(ts.Logits(logits, labels), ts.Recipe(random_state=seed), calibrated=2.0)
        told += "class gap cannot be distinguished" in choice.why
    assert told >= 12  # each of two comparisons errs in about 7% of cases; T-hat is also the luckiest temperature


def test_a_curve_without_a_peak_is_searched_whole():
    choice = choose(uneven(800), ts.Recipe("lac"), calibrated=3.0)
    if choice.peak is None:
        assert "size peak" not in choice.why
    assert choice.curve.temperatures[0] == 0.3
    assert choice.curve.temperatures[-1] == 12.0


@pytest.mark.parametrize(
    ("calibrated", "low", "high"),
    [(1.0, 0.3, 5.0), (1.3, 0.3, 5.2), (3.0, 0.3, 12.0), (0.05, 0.05, 5.0), (60, 0.3, 100.0)],
)
def test_the_grid_reaches_where_the_data_is(calibrated, low, high):
    grid = default_grid(calibrated)
    assert grid[0] == pytest.approx(low)
    assert grid[-1] == pytest.approx(high)
    assert 1.0 in grid
    assert (np.diff(grid) > 0).all()


@pytest.mark.parametrize("kind", ["class", "cluster"])
def test_grouping_sets_have_a_choice_too(kind):
    data = uneven(600, n_classes=4)
    choice = choose(data, ts.Recipe(grouping=kind), prefer="small", calibrated=3.0, temperatures=[0.5, 1, 2, 4])
    assert choice.temperature in (0.5, 1, 2, 4)
    assert choice.comparisons[0].tells_apart is None
    with pytest.raises(InputError, match="needs one threshold for all classes"):
        choose(data, ts.Recipe(grouping=kind), prefer="gap<=0.1", calibrated=3.0)


def test_cross_fitted_gaps_are_those_of_the_classifier():
    """Each half of the rows with the threshold of the other, in the classifier's own hands."""
    data = uneven(301, n_classes=3, seed=4)
    made = ts.Recipe("raps", 0.1, random_state=7)
    gaps = top_gaps(data, made, np.array([0.5, 2.0]))
    drawn = block_uniforms(trial_keys(7, np.arange(_HALVINGS)), range(301), True)
    expected = np.zeros(2)
    for t in range(_HALVINGS):
        mixed = stream(7, "halvings", t).permutation(np.arange(301))
        u = drawn[:, t].copy()
        halves = (
            Trial(mixed[:0], mixed[150:300], mixed[:150], u),
            Trial(mixed[:0], mixed[:150], mixed[150:], u),
        )
        for j, temperature in enumerate((0.5, 2.0)):
            sets = np.zeros((301, 3), dtype=bool)
            for half in halves:
                model = ts.ConformalClassifier("raps", 0.1, temperature)
                model.fit(data.take(half.conformal), u=u[half.conformal])
                sets[half.evaluation] = model.predict_set(data.take(half.evaluation), u=u[half.evaluation])
            expected[j] += ts.metrics.top_coverage_gap(sets, data.labels, 0.1) / _HALVINGS
    np.testing.assert_allclose(gaps, expected, rtol=1e-12)


def test_top_gaps_are_shown_where_every_class_has_thirty_rows():
    labels = np.repeat([0, 1, 2], [40, 40, 29])
    rng = np.random.default_rng(0)
    for some, carried in ((slice(None), False), (labels != 2, True)):
        kept = labels[some]
        logits = rng.normal(size=(len(kept), kept.max() + 1))
        choice = choose(ts.Logits(logits, kept), ts.Recipe(alpha=0.2), calibrated=3.0)
        assert (choice.outlook.top_gap is not None) == carried
        assert choice.outlook.class_gap_ends[0] <= choice.outlook.class_gap <= choice.outlook.class_gap_ends[1]


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_do_not_change_the_choice(monkeypatch, chosen, rows, threads):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
    assert choose(rows, ts.Recipe("aps"), prefer="even", calibrated=2.0) == chosen("even")


@pytest.mark.parametrize(
    "arguments", [{}, {"recipe": ts.Recipe(grouping="class"), "prefer": "small"}], ids=["closed form", "class"]
)
def test_progress_rises_to_its_total(arguments):
    told = []
    progress = {"progress": lambda done, total: told.append((done, total))}
    choose(uneven(200), calibrated=3.0, temperatures=[0.5, 1, 2, 4], **arguments, **progress)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1]
    assert len({done for done, _ in told}) > 2, "it moves in between"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"prefer": "tiny"}, "prefer must be"),
        (
            {"recipe": "aps"},
            r"recipe must be a Recipe, such as ts.Recipe\('aps', alpha=0.1\), or a sequence of them; got 'aps'",
        ),
        ({"calibrated": -1.0}, "temperature must be"),
        ({"temperatures": [2, 1]}, "temperatures must increase"),
        ({"recipe": ts.Recipe(alpha=0.001)}, "needs at least 1998 calibration rows; got 1500"),
        ({"recipe": ts.Recipe(alpha=0.001), "prefer": "gap<=0.1"}, "needs at least 1998 calibration rows; got 1500"),
    ],
)
def test_bad_input(rows, arguments, said):
    with pytest.raises(InputError, match=said):
        choose(rows, **{"calibrated": 3.0, **arguments})


def test_unlabelled_rows_are_refused(rows):
    with pytest.raises(InputError, match="labels"):
        choose(ts.Logits(rows.logits), calibrated=3.0)


def test_a_grid_of_one_temperature_leaves_no_choice():
    data = ts.Logits(*generated(100, 3, seed=0))
    made = ts.tuning.choose(data, calibrated=2.0, temperatures=[1.5])
    assert made.temperature == 1.5
    assert made.curve.temperatures == (1.5,)


@pytest.mark.parametrize("n_conformal", [0, -1, 1.5, float("nan"), 10**400])
def test_conformal_rows_are_a_number_of_rows(n_conformal):
    with pytest.raises(InputError, match="n_conformal must be a whole number from 1 to"):
        ts.tuning.choose(ts.Logits(*generated(100, 3, seed=0)), calibrated=2.0, n_conformal=n_conformal)


def test_a_class_without_calibration_rows_is_named():
    logits, labels = generated(400, 6, signal=0.5)
    rows = ts.Logits(logits, np.where(labels == 4, 1, labels), classes=list("abcdef"))
    with pytest.warns(
        CoverageWarning, match="no calibration row belongs to class e: the choice is based on the other cla"
    ):
        ts.tuning.choose(rows, ts.Recipe("aps"), calibrated=1.5)
    ts.tuning.choose(rows, ts.Recipe("aps"), calibrated=1.5, prefer="small")  # small sets ask nothing of classes
