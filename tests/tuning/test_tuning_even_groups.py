"""Choices for groups of rows: those of classes with groups in their place, and what they gain where groups differ."""

import warnings

import msgspec
import numpy as np
import pytest
from scipy.stats import binomtest

import thermoset as ts
from on_arrays import estimates_of, top_gaps
from sites import SCALE, sites
from thermoset.errors import BudgetWarning, CoverageWarning, InputError
from thermoset.metrics import noise_floor_of_counts
from thermoset.tuning import Choice, Search, choose, menu, read_preference, select
from thermoset.tuning.estimates import Engine, Sample, parts_of

pytestmark = pytest.mark.slow

GRID = [0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0]
APS = ts.Recipe("aps", 0.1)


def uneven(n_rows, seed, n_classes=8):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    noise = (0.5 + labels[:, None] / n_classes) * rng.normal(size=(n_rows, n_classes))
    return ts.Logits(2.5 * (noise + 2.2 * np.eye(n_classes)[labels]), labels)


def quietly(data, recipe, **asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        return choose(data, recipe, calibrated=1.4, **asked)


def said_of_classes(choice):
    """A choice for groups as one for classes: the words alone are other ones."""
    preference = read_preference(choice.prefer.replace("groups", "classes"))
    return msgspec.structs.replace(choice, even="class", preference=preference)


@pytest.mark.parametrize(
    ("method", "prefer"),
    [("raps", prefer) for prefer in ("even", "small", "size<=3", "gap<=0.04", "protect", "classes>=0.8")]
    + [("lac", "even"), ("auto", "even"), ("auto", "protect")],
)
def test_with_classes_as_groups_every_number_is_that_of_classes(method, prefer):
    rows = uneven(700, seed=0)
    grouped = ts.Logits(rows.logits, rows.labels, groups=rows.labels)
    recipe = menu(0.1) if method == "auto" else ts.Recipe(method, 0.1)
    given = {"n_conformal": 60}  # too few for thresholds by class, which method="auto" may prefer for classes
    over_classes = quietly(rows, recipe, prefer=prefer, **given)
    asked = prefer.replace("classes", "groups")
    over_groups = quietly(grouped, recipe, prefer=asked, even="group", **given)
    assert over_groups.even == "group"
    assert said_of_classes(over_groups) == over_classes
    assert isinstance(over_groups, Choice)


def test_losses_and_gaps_by_hand():
    """Two groups that share their classes: the loss is the mean of squared gaps over the groups."""
    data = sites(300, seed=3)
    labels, codes = data.labels, data.groups.codes
    curves = estimates_of(data, APS, np.array([2.0]), 300, "group")
    _, (hit,) = Engine(Sample(data, "group"), np.array([2.0]), 300).solve(APS, 2.0, [0.1])
    means = np.array([hit[codes == site].mean() for site in range(5)])
    np.testing.assert_allclose(curves.gaps.mean[0], means, rtol=1e-12)
    variances = np.array([hit[codes == site].var(ddof=1) / (codes == site).sum() for site in range(5)])
    shares = np.bincount(codes) / 300
    held = variances * (1 - 2 * shares) + (variances * shares**2).sum()
    np.testing.assert_allclose(curves.gaps.squares[0], ((means - 0.9) ** 2 - held).mean(), rtol=1e-9)
    assert len(np.unique(labels)) == 10


def test_top_gaps_and_floors_are_those_of_the_groups():
    """With the labels hidden in other names, TopCovGap over groups is that over these classes."""
    rows = uneven(301, seed=4, n_classes=3)
    named = ts.Logits(rows.logits, rows.labels, groups=np.array(["a", "b", "c"])[rows.labels])
    grid = np.array([0.5, 2.0])
    np.testing.assert_array_equal(top_gaps(named, APS, grid, "group"), top_gaps(rows, APS, grid))
    data = sites(500, seed=5)
    choice = choose(data, APS, prefer="even", even="group", calibrated=3.0, temperatures=GRID)
    floor = noise_floor_of_counts(data.groups.counts, 0.1, random_state=0)
    assert (choice.noise_floor, choice.noise_floor_95) == (floor.top_mean, floor.top_95)


@pytest.fixture(scope="module")
def everyone():
    return sites(20_000, seed=99)


@pytest.fixture(scope="module")
def group_gap(everyone):
    """The group gap of the population at any temperature."""
    grid = np.geomspace(0.25, 16, 25)
    curves = estimates_of(everyone, APS, grid, 1000, "group")
    gaps = curves.gaps.values
    return lambda temperature: np.interp(np.log(temperature), np.log(grid), gaps)


def test_sites_are_covered_alike_at_the_temperature_that_makes_probabilities_true(group_gap):
    """So that the tests below test what they say: at T = 3 nothing is left, at T = 1 much is."""
    assert group_gap(SCALE) < 0.006  # the noise of 4,000 rows of each
    assert group_gap(1.0) > 0.03


def settled(data, even, prefer="even"):
    given = {"calibration": data, "candidates": (APS,), "calibrated": 3.0, "n_conformal": len(data)}
    return select(Search(**given, even=even, only=np.array(GRID)), read_preference(prefer)).setting.temperature


@pytest.mark.parametrize("bias", [0.0, 1.0], ids=["classes alike", "classes differ"])
def test_the_choice_for_groups_has_a_lower_group_gap_than_that_for_classes_and_than_one(group_gap, bias):
    """Paired over 24 samples, by an exact sign test."""
    samples = [sites(1000, seed, bias=bias) for seed in range(24)]
    over_groups, over_classes = ([group_gap(settled(data, even)) for data in samples] for even in ("group", "class"))
    for others in (over_classes, [group_gap(1.0)] * 24):
        won = sum(mine < other for mine, other in zip(over_groups, others, strict=True))
        lost = sum(mine > other for mine, other in zip(over_groups, others, strict=True))
        assert binomtest(won, won + lost, alternative="greater").pvalue < 0.001
        assert np.mean(over_groups) < 0.6 * np.mean(others)


def test_the_estimate_of_the_squared_group_gap_is_unbiased(everyone):
    rng = np.random.default_rng(0)
    grid = np.array([1.0, SCALE])
    true = estimates_of(everyone, APS, grid, 1000, "group").gaps.gap ** 2
    found = [
        estimates_of(everyone.take(rng.integers(0, 20_000, 250)), APS, grid, 250, "group").gaps.squares
        for _ in range(250)
    ]
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    np.testing.assert_array_less(np.abs(np.mean(found, axis=0) - true.mean(axis=1)), 4 * error)
    # So that the test can tell: the noise of group means is larger than that.
    assert (8 * error < 0.09 / 50).all()


@pytest.mark.long
def test_intervals_cover_and_budgets_are_kept(everyone):
    grid, rng, draws = np.array([1.0, 1.5, 2.0, SCALE, 5.0]), np.random.default_rng(1), 80
    whole = estimates_of(everyone, APS, grid, 1000, "group")
    true = np.sqrt((whole.gaps.gap**2).mean(axis=1))
    inside, broken, said, budget = np.zeros(2), 0, 0, 1.1 * float(true[2])
    for _ in range(draws):
        some = everyone.take(rng.integers(0, len(everyone), 600))
        curves = estimates_of(some, APS, grid, 600, "group")
        low, high = curves.gaps.at([0, 3]).intervals().T
        inside += (low <= true[[0, 3]]) & (true[[0, 3]] <= high)
        kept = curves.gaps.excess(budget) <= 0
        if kept.any():
            chosen = np.flatnonzero(kept)[np.argmin(curves.size[kept, curves.level])]
            said, broken = said + 1, broken + (true[chosen] > budget)
    assert (inside / draws > 0.95 - 4 * np.sqrt(0.05 * 0.95 / draws)).all()
    assert said > 0
    assert broken <= 0.05 * draws + 3 * np.sqrt(draws * 0.05 * 0.95)


def alike(n_rows, seed, n_groups=6):
    """Groups that are drawn without a look at the rows; some are rare."""
    data, rng = sites(n_rows, seed, spread=0.0), np.random.default_rng((seed, 1))
    weights = np.arange(1, n_groups + 1)
    return ts.Logits(data.logits, data.labels, groups=rng.choice(n_groups, n_rows, p=weights / weights.sum()))


def test_a_temperature_kept_for_want_of_a_majority_is_said():
    asked = {"prefer": "even", "even": "group", "calibrated": 3.0, "temperatures": GRID}
    choices = [choose(alike(300, s), APS, **asked) for s in range(12)]
    for choice in choices:
        kept = choice.signal.tried is not None
        assert kept <= (choice.temperature == 1.0)
        assert choice.sentences[0].startswith("Keep T = 1") == kept
        assert not any("class" in text for text in choice.sentences)
        assert choice.signal.beats is None or (choice.signal.beats < 2 / 3) == kept


def test_protected_groups_get_what_was_asked_for(everyone):
    """The worst of five sites, on fresh rows."""
    hard = sites(3000, seed=7, spread=3.0)
    predictor = ts.TwoTemperaturePredictor("lac", 0.1, "groups>=0.84", even="group").fit(hard)
    fresh = sites(20_000, seed=8, spread=3.0)
    hits = predictor.predict_set(fresh)[np.arange(20_000), fresh.labels]
    assert predictor.choice_.met
    assert min(hits[fresh.groups.codes == site].mean() for site in range(5)) > 0.84
    # So that the test can tell: at the promised level the hardest site is covered less.
    plain = ts.ConformalClassifier("lac", 0.1, predictor.temperature_sets_).fit(hard)
    hits = plain.predict_set(fresh)[np.arange(20_000), fresh.labels]
    assert min(hits[fresh.groups.codes == site].mean() for site in range(5)) < 0.84


@pytest.mark.parametrize("prefer", ["even", "protect", "groups>=0.999", "gap<=0.00001", "size<=4", "small"])
def test_what_is_said_of_groups_does_not_speak_of_classes(prefer):
    data = sites(600, seed=11)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        choice = choose(data, APS, prefer=prefer, even="group", calibrated=3.0, temperatures=GRID)
    said = [*choice.sentences, *(text for pair in choice.legend for text in pair), *(str(w.message) for w in caught)]
    assert not any("class" in text for text in said), said
    assert any("group gap" in text for text in said)
    assert choice.met == (not caught)


def test_groups_without_rows_are_named():
    data = sites(600, seed=1)
    some = data.take(np.flatnonzero((data.groups.codes != 2) & (data.groups.codes != 4)))
    with pytest.warns(
        CoverageWarning, match=r"no calibration row belongs to groups 2, 4: the choice is based on the other"
    ):
        choice = choose(some, APS, prefer="even", even="group", calibrated=3.0, temperatures=GRID)
    assert choice.outlook.top_gap is None  # some group has fewer than thirty rows
    assert parts_of(some, "group").counts.tolist()[2::2] == [0, 0]


def test_a_thousand_groups_have_an_interval_and_one_of_six_with_one_row_has_none():
    many, few = uneven(4000, seed=0), sites(500, seed=1)
    codes = np.arange(4000) % 1000, np.where(np.arange(500) == 0, 9, few.groups.codes)
    asked = {"prefer": "even", "even": "group", "calibrated": 3.0, "temperatures": GRID}
    thousand, six = (
        choose(ts.Logits(rows.logits, rows.labels, groups=groups), APS, **asked).outlook
        for rows, groups in zip((many, few), codes, strict=True)
    )
    assert thousand.class_gap_ends[0] <= thousand.class_gap <= thousand.class_gap_ends[1]
    assert six.class_gap is not None
    assert six.class_gap_ends is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"even": "site"}, "even must be 'class' or 'group'; got 'site'"),
        ({"even": ["group"]}, "even must be 'class' or 'group'"),
        ({"prefer": "classes>=0.8"}, "about classes, but even='group'. Use even='class', or 'groups>=...'"),
        ({"prefer": "groups>=0.8", "even": "class"}, "about groups, but even='class'. Use even='group', or 'classes>="),
        (
            {"recipe": ts.Recipe("aps", grouping="class")},
            "one threshold for all classes and a compiled score; got group",
        ),
    ],
)
def test_what_cannot_be_chosen_for_groups_is_said(changed, said):
    given = {"even": "group", "calibrated": 3.0, "recipe": APS} | changed
    with pytest.raises(InputError, match=said):
        choose(sites(200, seed=0), **given)


def test_rows_need_groups_and_more_than_one():
    data = sites(200, seed=0)
    with pytest.raises(InputError, match=r"these rows have no groups\. Pass groups="):
        choose(ts.Logits(data.logits, data.labels), APS, even="group", calibrated=3.0)
    with pytest.raises(InputError, match="needs at least two groups; every row is in 'north'"):
        choose(ts.Logits(data.logits, data.labels, groups=["north"] * 200), APS, even="group", calibrated=3.0)
