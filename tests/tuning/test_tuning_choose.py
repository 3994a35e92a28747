"""Choosing T-hat: rules, budgets, invariances, bad input."""

import warnings

import numpy as np
import pytest

import thermoset as ts
from law import generated
from on_arrays import top_gaps
from thermoset.errors import BudgetWarning, CoverageWarning, InputError
from thermoset.tuning import choose, default_grid
from thermoset.tuning.estimates import _HALVINGS
from thermoset.uniforms import stream

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


def test_even_has_the_least_loss_up_to_the_peak_and_small_is_no_larger(chosen):
    even, small = chosen("even"), chosen("small")
    t, loss, size = (np.array(getattr(even.curve, name)) for name in ("temperatures", "loss", "size"))
    assert even.peak == t[np.argmax(size)]
    assert even.temperature == t[t <= even.peak][np.argmin(loss[t <= even.peak])]
    assert even.signal.beats >= 2 / 3
    best = size[t <= even.peak].min()
    assert small.outlook.size == pytest.approx(best) or small.temperature == 1.0
    assert even.met
    assert small.met


def test_small_is_lac_at_one_unless_the_rows_show_more():
    """Of forty temperatures of four scores the luckiest is a little smaller, by chance."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 2000)
    logits = (
        rng.normal(size=(2000, 10)) + 2 * np.eye(10)[labels]
    )  # true probabilities: LAC at T = 1 is the best there is
    choice = choose(ts.Logits(2 * logits, labels).take(slice(0, 500)), calibrated=1.0)
    assert choice.setting.kind == "LAC"
    assert choice.is_simplest
    flat = choose(uneven(3000), ts.Recipe("aps"), prefer="small", calibrated=2.0)
    assert flat.temperature != 1.0  # and where a temperature is clearly better, it is taken


def test_even_with_several_kinds_takes_the_smallest_that_cannot_be_told_apart(rows):
    choice = choose(rows, prefer="even", calibrated=2.0)
    raps = choose(rows, ts.Recipe("raps"), prefer="even", calibrated=2.0)
    assert choice.outlook.size <= raps.outlook.size + 1e-9
    if choice.tied:
        assert "cannot tell from the most even" in choice.sentences[0]


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


def test_a_size_budget_that_cannot_be_kept_is_said(rows):
    with pytest.warns(BudgetWarning):
        choice = choose(rows, ts.Recipe("aps"), prefer="size<=0.1", calibrated=2.0)
    assert not choice.met


def test_a_gap_budget_takes_the_smallest_sets_that_keep_it(chosen):
    loose, tight = chosen("gap<=0.9"), chosen("gap<=0.05")
    t, size = np.array(loose.curve.temperatures), np.array(loose.curve.size)
    assert loose.temperature == t[t <= loose.peak][np.argmin(size[t <= loose.peak])]
    assert loose.met
    if tight.met:
        assert tight.outlook.class_gap <= 0.05
    else:
        assert tight.temperature == 1.0  # the gap that looks smallest is mostly the noisiest


def test_the_report_compares_with_one_and_with_the_calibrated_temperature(chosen):
    choice = chosen("even")
    assert [at.name for at in choice.outlooks] == ["T = 1", "T*", "T-hat"]
    assert [at.temperature for at in choice.outlooks] == [1.0, 2.0, choice.temperature]
    for versus, at in zip(choice.comparisons, choice.outlooks, strict=False):
        assert versus.size == pytest.approx(choice.outlook.size - at.size)
        assert versus.class_gap == pytest.approx(choice.outlook.class_gap - at.class_gap)
        assert versus.class_gap_ends[0] <= versus.class_gap_ends[1]
        assert versus.size_ends[0] < versus.size < versus.size_ends[1]
    assert choice.spread[0] <= choice.temperature <= choice.spread[1]
    assert chosen("small").spread is None


def test_scaling_logits_scales_the_temperature():
    """z / T is all that matters: with logits and grid times 4, the choice is 4 times as hot, to the bit."""
    grid = default_grid(3.0)
    # "small" and thresholds by class look back at T = 1, which is another temperature of scaled logits.
    recipe = ts.Recipe("raps")
    plain = choose(uneven(600), recipe, prefer="even", calibrated=3.0, temperatures=grid)
    scaled = choose(uneven(600, scale=12.0), recipe, prefer="even", calibrated=12.0, temperatures=4 * grid)
    assert scaled.temperature == 4 * plain.temperature
    assert scaled.curve.size == plain.curve.size


def test_temperatures_that_cannot_be_told_apart_are_named():
    """Classes that differ in nothing have no best temperature, and the choice says so."""
    told = 0
    for seed in range(20):
        logits, labels = generated(400, 10, signal=-0.5, seed=seed)
        recipe = ts.Recipe(random_state=seed)
        choice = choose(ts.Logits(logits, labels), recipe, prefer="even", calibrated=2.0)
        told += "class gap cannot be distinguished" in choice.why
    assert told >= 12  # each of two comparisons errs in about 7% of cases; T-hat is also the luckiest temperature


def test_a_curve_without_a_peak_is_searched_whole():
    choice = choose(uneven(800), ts.Recipe("lac"), calibrated=3.0)
    if choice.peak is None:
        assert "size peak" not in choice.why
    assert choice.curve.temperatures[0] <= 0.33
    assert choice.curve.temperatures[-1] >= 12.0


@pytest.mark.parametrize(
    ("calibrated", "low", "high"), [(1.0, 0.3, 5), (3.0, 0.3, 12), (0.05, 0.05, 5), (60, 0.3, 100)]
)
@pytest.mark.parametrize("coarse", [False, True])
def test_the_grid_reaches_where_the_data_is(calibrated, low, high, coarse):
    grid = default_grid(calibrated, coarse=coarse)
    assert low <= grid[0] <= 1.09 * low
    assert high <= grid[-1] <= min(1.09 * high, 100)
    assert 1.0 in grid
    assert (np.diff(grid) > 0).all()


@pytest.mark.parametrize("kind", ["class", "cluster"])
def test_grouping_sets_have_a_choice_too(kind):
    data = uneven(600, n_classes=4)
    choice = choose(data, ts.Recipe(grouping=kind), prefer="small", calibrated=3.0, temperatures=[0.5, 1, 2, 4])
    assert choice.temperature in (0.5, 1, 2, 4)
    assert choice.comparisons[0].tells_apart is None
    with pytest.raises(InputError, match="needs one threshold"):
        choose(data, ts.Recipe(grouping=kind), prefer="gap<=0.1", calibrated=3.0)


def test_cross_fitted_gaps_are_those_of_the_classifier():
    """Each half of the rows with the threshold of the other, in the classifier's own hands."""
    data = uneven(301, n_classes=3, seed=4)
    made = ts.Recipe("raps", 0.1, random_state=7)
    gaps = top_gaps(data, made, np.array([0.5, 2.0]))
    expected = np.zeros(2)
    for t in range(_HALVINGS):
        rng = stream(7, "halvings", t)
        mixed, u = rng.permutation(301), rng.random(301)
        for j, temperature in enumerate((0.5, 2.0)):
            sets = np.zeros((301, 3), dtype=bool)
            for fitted, judged in ((mixed[:150], mixed[150:]), (mixed[150:300], mixed[:150])):
                model = ts.ConformalClassifier("raps", 0.1, temperature).fit(data.take(fitted), u=u[fitted])
                sets[judged] = model.predict_set(data.take(judged), u=u[judged])
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
        assert choice.outlook.class_gap_ends is None  # for fewer misses than 25 there is no interval


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
    assert len({done for done, _ in told}) > 1, "it moves in between"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"prefer": "tiny"}, "prefer must be"),
        ({"calibration": ts.Logits(np.zeros((9, 2)))}, "labels"),
        (
            {"recipe": "aps"},
            "recipe must be a Recipe, .* got 'aps'",
        ),
        ({"calibrated": -1.0}, "temperature must be"),
        ({"temperatures": [2, 1]}, "temperatures must increase"),
        *(({"n_conformal": n}, "n_conformal must be a whole number") for n in (0, -1, 1.5, float("nan"), 10**400)),
        ({"recipe": ts.Recipe(alpha=0.001)}, "needs at least 1998 calibration rows; got 1500"),
        ({"recipe": ts.Recipe(alpha=0.001), "prefer": "gap<=0.1"}, "needs at least 1998 calibration rows; got 1500"),
    ],
)
def test_bad_input(rows, arguments, said):
    with pytest.raises(InputError, match=said):
        choose(**{"calibration": rows, "calibrated": 3.0, **arguments})


def test_a_grid_of_one_temperature_leaves_no_choice():
    data = ts.Logits(*generated(100, 3, seed=0))
    made = ts.tuning.choose(data, calibrated=2.0, temperatures=[1.5])
    assert made.temperature == 1.5
    assert made.curve.temperatures == (1.5,)


def test_a_class_without_calibration_rows_is_named():
    logits, labels = generated(400, 6, signal=0.5)
    rows = ts.Logits(logits, np.where(labels == 4, 1, labels), classes=list("abcdef"))
    with pytest.warns(
        CoverageWarning, match="no calibration row belongs to class e: the choice is based on the other cla"
    ):
        ts.tuning.choose(rows, ts.Recipe("aps"), calibrated=1.5, prefer="even")
    ts.tuning.choose(rows, ts.Recipe("aps"), calibrated=1.5, prefer="small")  # small sets ask nothing of classes
