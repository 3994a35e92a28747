"""All rows for both: bounds of the criterion for every row that could be added, against the criterion itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from on_arrays import in_closed_form
from thermoset.core.sources import ArrayRows, RankedRows
from thermoset.errors import InputError
from thermoset.tuning import full as module
from thermoset.tuning import read_preference
from thermoset.tuning.full import choose_full, largest_counted, temperature_menu, winners

MENU = temperature_menu()
SIZE, EVEN = read_preference("size"), read_preference("coverage")


def found_in(data, recipe, preference):
    return winners(RankedRows(ArrayRows(data.logits)), data, recipe, preference)


def criterion(data, recipe, preference):
    """What the rule minimises, by the estimates of the search: they know nothing of bounds."""
    curves, rows = in_closed_form(data, recipe, MENU, len(data), lambda _: None)
    if preference == EVEN:
        return curves.loss
    return np.minimum(rows.size, largest_counted(data.n_classes)).mean(axis=1)


def with_row(data, row, label):
    return ts.Logits(np.vstack([data.logits, row]), np.append(data.labels, label))


def odd_rows(rng, n_classes, kind):
    """Rows of many kinds: sure, flat, tied, with a masked class, far out of scale."""
    row = rng.normal(size=n_classes) * rng.choice([0.01, 1.0, 5.0, 300.0])
    if kind == "tied":
        row = np.round(row)
    elif kind == "flat":
        row[:] = 1.5
    elif kind == "masked":
        row[1:][rng.random(n_classes - 1) < 0.5] = -np.inf
    elif kind == "sure":
        row[rng.integers(n_classes)] += 50
    return row


recipes = st.builds(
    ts.Recipe,
    st.sampled_from(["lac", "aps", "raps", "saps", "topk"]),
    st.sampled_from(["0.1", "0.25", "0.6"]),
    randomized=st.booleans(),
    allow_empty=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(
    recipes,
    st.sampled_from([SIZE, EVEN]),
    st.integers(2, 6),
    st.integers(20, 60),
    st.integers(0, 2**32),
)
def test_whatever_row_is_added_the_least_criterion_is_at_a_temperature_that_may_win(recipe, preference, c, n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, rng.integers(1, c + 1), n)  # some classes may have no row
    kinds = rng.choice(["plain", "plain", "sure", "tied"], n)
    logits = np.array([odd_rows(rng, c, kind) for kind in kinds]) + 2.0 * np.eye(c)[labels]
    data = ts.Logits(logits, labels)
    found = found_in(data, recipe, preference)
    bounds = module._class_losses if preference == EVEN else module._mean_sizes
    lower, upper = bounds(RankedRows(ArrayRows(data.logits)), data, recipe, MENU)
    for kind in ("plain", "sure", "tied", "flat", "masked"):
        row, label = odd_rows(rng, c, kind), int(rng.integers(c))
        values = criterion(with_row(data, row, label), recipe, preference)
        assert np.all(lower[:, label] <= values + 1e-9)
        assert np.all(values <= upper[:, label] + 1e-9)
        assert found.may_win[np.argmin(values), label]


def test_a_row_of_the_data_itself_keeps_to_the_bounds_too():
    """Duplicates tie with the row that is added, where thresholds jump over both."""
    logits, labels = generated(80, 4, seed=5)
    data = ts.Logits(logits, labels)
    for method in ("lac", "aps"):
        recipe = ts.Recipe(method, randomized=False)
        found = found_in(data, recipe, EVEN)
        for i in range(0, 80, 7):
            values = criterion(with_row(data, logits[i], labels[i]), recipe, EVEN)
            assert found.may_win[np.argmin(values), labels[i]]


def test_bounds_of_the_class_loss_by_hand():
    """Two classes of two rows at the level 1/2: t = 3, the threshold lies between those of two and three hits.

    One stretch: the sums of hits go from (1, 1) to (2, 1), and the added row is hit for certain where t - 3 = 0 rows
    are missing: not at all. Weights are 1/(1/2 x 1/2) = 4, the mean is over two classes.
    """
    sums = np.array([[[1.0, 1.0]], [[2.0, 1.0]]])
    lower, upper = module._loss_ends(sums, np.array([2.0, 2.0]), np.array([0.5]))
    # Class 0 gets the row: its mean is from 1/3 to 3/3, with 1/2 in between, so the gap is from 0 to 1/2; the other's
    # is 1/2. Class 1 gets it: its mean is from 1/3 to 2/3, the gap from 0 to 1/6; the other's mean is from 1/2 to 1.
    assert lower == pytest.approx([0, 0])
    assert upper == pytest.approx([4 * (1 / 4) / 2, 4 * (1 / 36 + 1 / 4) / 2])


def test_a_row_that_must_be_hit_narrows_the_bounds():
    """At the upper end only two of t = 3 hits are there: the added row is the third."""
    sums = np.array([[[1.0, 0.0]], [[1.0, 1.0]]])
    lower, upper = module._loss_ends(sums, np.array([2.0, 2.0]), np.array([0.5]))
    # Class 0 gets it: 2/3 and a mean of the other from 0 to 1/2. Class 1 gets it: from 1/3 to 2/3 and 1/2.
    assert lower == pytest.approx([4 * (1 / 36) / 2, 0])
    assert upper == pytest.approx([4 * (1 / 36 + 1 / 4) / 2, 4 * (1 / 36) / 2])


def test_a_class_without_rows_counts_once_a_row_is_added():
    sums = np.array([[[1.0, 0.0]], [[1.0, 0.0]]])
    lower, upper = module._loss_ends(sums, np.array([2.0, 0.0]), np.array([0.5]))
    # t = 1/2 x 4 = 2, one hit is there: the row is hit. Class 0 alone: (2/3 - 1/2)^2. Both: (0 + (1 - 1/2)^2) / 2.
    assert lower == pytest.approx([4 / 36, 4 * (1 / 4) / 2])
    assert upper == pytest.approx(lower)


@pytest.mark.parametrize("preference", [SIZE, EVEN])
def test_many_rows_leave_few_temperatures(preference):
    """The bounds are a row apart, and rows are many: a rule that let all fifteen speak would be valid, and useless."""
    logits, labels = generated(6000, 8, seed=1)
    logits[np.arange(6000), labels] += labels  # some classes are easier than others
    data = ts.Logits(logits, labels)
    few, many = (found_in(data.take(slice(n)), ts.Recipe("aps"), preference) for n in (100, 6000))
    assert len(many.members) <= 3
    assert len(many.members) < len(few.members)


def test_every_class_has_a_temperature_and_t_hat_speaks_for_most_rows():
    data = ts.Logits(*generated(300, 6, seed=2))
    found = found_in(data, ts.Recipe("raps"), EVEN)
    assert found.may_win.any(axis=0).all()
    served = found.may_win @ np.bincount(data.labels, minlength=6)
    assert served[found.best] == served.max()
    speaking = {t: range(6) if classes is None else classes for t, classes in found.members}
    assert [[t in speaking and c in speaking[t] for c in range(6)] for t in MENU.tolist()] == found.may_win.tolist()


def test_the_order_of_rows_does_not_matter():
    data = ts.Logits(*generated(500, 6, seed=3))
    mixed = np.random.default_rng(0).permutation(500)
    for preference in (SIZE, EVEN):
        one, other = (found_in(rows, ts.Recipe("raps"), preference) for rows in (data, data.take(mixed)))
        assert (one.may_win == other.may_win).all()
        assert one.best == other.best


def test_turns_of_temperatures_give_the_same(monkeypatch):
    data = ts.Logits(*generated(200, 4, seed=4))
    whole = found_in(data, ts.Recipe("aps"), EVEN)
    monkeypatch.setattr(module, "_SHARE_BYTES", 1)
    assert (found_in(data, ts.Recipe("aps"), EVEN).may_win == whole.may_win).all()


def test_the_choice_tells_of_t_hat_and_progress_ends():
    data, told = ts.Logits(*generated(400, 5, seed=6)), []
    choice, found = choose_full(
        data, ts.Recipe("raps"), EVEN, calibrated=2.0, progress=lambda done, total: told.append((done, total))
    )
    assert choice.temperature == MENU[found.best] == choice.outlook.temperature
    assert choice.curve.temperatures == tuple(MENU.tolist())
    assert (choice.selection, choice.n_rows, choice.met) == ("full", 400, True)
    assert choice.spread is not None
    assert told[-1][0] == told[-1][1]
    assert choose_full(data, ts.Recipe("raps"), SIZE, calibrated=2.0)[0].spread is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"preference": read_preference("size<=3")}, "supports only prefer='small' and 'even'; got 'size<=3'"),
        ({"preference": read_preference(0.5)}, "supports only prefer='small' and 'even'; got '0.5'"),
        ({"recipe": ts.Recipe("aps", grouping="class")}, "one threshold for all classes.*got grouping='class'"),
        ({"recipe": ts.Recipe("margin")}, "a compiled score; got the score 'margin'"),
        ({"recipe": ts.Recipe("aps", alpha=0.001)}, "needs at least 1998 rows; got 60"),
        ({"calibrated": 40.0}, r"T\* is 40: these logits are on a different scale"),
    ],
)
def test_what_cannot_be_done_is_refused(change, said):
    asked = {"recipe": ts.Recipe("aps"), "preference": EVEN, "calibrated": 1.5} | change
    with pytest.raises(InputError, match=said):
        choose_full(ts.Logits(*generated(60, 3)), **asked)
