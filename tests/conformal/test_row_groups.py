"""A threshold for each group of rows: what it is, who gets which, and what is refused."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thermoset as ts
from law import generated, with_prior
from thermoset.errors import CoverageWarning, InputError
from thermoset.io import save
from thermoset.rows import block_rows
from thermoset.scores import SCORES
from thermoset.sweeping import Protocol, draw_trial

SITES = ("east", "north", "west")
ALPHA = 0.2


def rows(n_rows, n_classes=6, names=SITES, seed=0):
    """Labelled rows of sites, some of which are harder than others."""
    logits, labels = generated(n_rows, n_classes, signal=0.5, seed=seed)
    codes = np.random.default_rng((seed, 1)).integers(0, len(names), n_rows)
    noise = np.random.default_rng((seed, 2)).normal(size=logits.shape)
    return ts.Logits(logits + 4 * codes[:, None] * noise, labels, groups=np.array(names)[codes])


def of_site(data, name):
    return np.flatnonzero(np.asarray(data.groups) == name)


FITTED, FRESH = rows(500), rows(300, seed=1)


@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("method", list(SCORES))
def test_each_group_has_what_a_classifier_of_its_rows_alone_has(method, allow_empty):
    method = with_prior(method, FITTED.n_classes)
    options = {"alpha": ALPHA, "temperature": 0.7, "allow_empty": allow_empty}
    model = ts.ConformalClassifier(method, grouping="group", **options).fit(FITTED)
    sets, sizes = model.predict_set(FRESH), model.set_sizes(FRESH)
    several = model.predict_sets(FRESH, [0.1, ALPHA])
    assert model.group_names_ == SITES
    for number, name in enumerate(SITES):
        alone = ts.ConformalClassifier(method, **options).fit(FITTED.take(of_site(FITTED, name)))
        fresh = of_site(FRESH, name)
        assert model.threshold_[number] == alone.threshold_
        np.testing.assert_array_equal(sets[fresh], alone.predict_set(FRESH.take(fresh)))
        np.testing.assert_array_equal(sizes[fresh], sets[fresh].sum(axis=1))
        np.testing.assert_array_equal(several[:, fresh], alone.predict_sets(FRESH.take(fresh), [0.1, ALPHA]))


@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("method", list(SCORES))
def test_one_group_is_no_group(method, randomized):
    one = rows(200, names=["only"])
    options = {"alpha": ALPHA, "randomized": randomized}
    grouped = ts.ConformalClassifier(method, grouping="group", **options).fit(one)
    plain = ts.ConformalClassifier(method, **options).fit(one)
    assert grouped.threshold_.tolist() == [plain.threshold_]
    fresh = rows(200, names=["only"], seed=1)
    np.testing.assert_array_equal(grouped.predict_set(fresh), plain.predict_set(fresh))


layouts = st.lists(st.sampled_from("abcde"), min_size=40, max_size=120)


@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
@settings(deadline=None)
@given(layout=layouts, fresh=st.lists(st.sampled_from("abcde"), min_size=1, max_size=30), seed=st.integers(0, 9))
def test_any_layout_of_groups(layout, fresh, seed):
    """A row's set depends on its group's conformal rows and on itself, and on nothing else."""
    logits, labels = generated(len(layout) + len(fresh), 4, signal=0.0, seed=seed)
    n = len(layout)
    model = ts.ConformalClassifier("aps", ALPHA, grouping="group", fallback="pooled")
    sets = model.fit(logits[:n], labels[:n], groups=layout).predict_set(logits[n:], groups=fresh)
    for name in set(fresh):
        own = [i for i, one in enumerate(layout) if one == name] or range(n)  # unknown groups get all rows
        alone = ts.ConformalClassifier("aps", ALPHA).fit(logits[own], labels[own])
        here = [i for i, one in enumerate(fresh) if one == name]
        np.testing.assert_array_equal(sets[here], alone.predict_set(logits[n:][here]))


def test_blocks_threads_files_and_order_do_not_matter(monkeypatch, tmp_path):
    model = ts.ConformalClassifier("raps", ALPHA, grouping="group").fit(FITTED)
    sets = model.predict_set(FRESH)
    stored = tmp_path / "rows.npz"
    save(stored, ts.Logits(FRESH.logits))
    lazy = ts.open(stored)
    np.testing.assert_array_equal(model.predict_set(lazy, groups=FRESH.groups), sets)
    np.testing.assert_array_equal(model.set_sizes(lazy, groups=FRESH.groups), sets.sum(axis=1))
    mixed = np.random.default_rng(0).permutation(len(FRESH))
    np.testing.assert_array_equal(model.predict_set(FRESH.take(mixed)), sets[mixed])
    for threads in ("1", "3"):
        monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
        for block in (1, 7, 300):
            monkeypatch.setattr("thermoset.rows.block_rows", lambda _, block=block: block)
            np.testing.assert_array_equal(model.predict_set(FRESH), sets)
            np.testing.assert_array_equal(model.set_sizes(FRESH), sets.sum(axis=1))
    monkeypatch.undo()
    assert block_rows(6) > 300, "all rows were one block before"


@pytest.mark.parametrize("method", ["lac", "aps", "margin"])
def test_rows_of_which_the_largest_logits_are_kept(method):
    """Four logits of six: never fewer labels than whole rows have, and those of a classifier of the group alone."""
    model = ts.ConformalClassifier(method, ALPHA, grouping="group").fit(FITTED)
    whole = model.predict_set(FRESH)
    tops = ts.compact(FRESH, top=4)
    wide = model.predict_set(tops)
    assert tops.groups == FRESH.groups
    assert not (whole & ~wide).any()
    np.testing.assert_array_equal(model.set_sizes(tops), wide.sum(axis=1))
    closed = ~model.undecided(tops)
    np.testing.assert_array_equal(wide[closed], whole[closed])
    for name in SITES:
        alone = ts.ConformalClassifier(method, ALPHA).fit(FITTED.take(of_site(FITTED, name)))
        fresh = of_site(FRESH, name)
        np.testing.assert_array_equal(wide[fresh], alone.predict_set(tops.take(fresh)))


def test_given_u_and_ids_go_with_the_rows():
    u = np.random.default_rng(0).random(len(FITTED))
    model = ts.ConformalClassifier("aps", ALPHA, grouping="group").fit(FITTED, u=u)
    alone = ts.ConformalClassifier("aps", ALPHA).fit(FITTED.take(of_site(FITTED, "west")), u=u[of_site(FITTED, "west")])
    assert model.threshold_[2] == alone.threshold_
    ids, fresh = np.arange(len(FRESH)), of_site(FRESH, "west")
    by_id = model.predict_set(FRESH, ids=ids)
    np.testing.assert_array_equal(by_id[fresh], alone.predict_set(FRESH.take(fresh), ids=fresh))


def test_an_unknown_group_is_refused_by_name():
    model = ts.ConformalClassifier("aps", ALPHA, grouping="group").fit(FITTED)
    with pytest.raises(InputError, match=r"group 'mars' has no threshold.*\(known: east, north, west\).*fallback="):
        model.predict_set(FRESH.logits[:2], groups=["mars", "east"])
    with pytest.raises(InputError, match=r"groups 1, 2, 3, 4, 5 and 2 more have no threshold"):
        model.predict_set(FRESH.logits[:7], groups=np.arange(1, 8))
    np.testing.assert_array_equal(  # a name that no row has is no harm
        model.predict_set(ts.Logits(FRESH.logits[:2], groups=["east", "mars"]).take([0])),
        model.predict_set(FRESH.logits[:1], groups=["east"]),
    )


def test_rows_without_groups_are_refused():
    model = ts.ConformalClassifier("aps", ALPHA, grouping="group")
    with pytest.raises(InputError, match="grouping='group' needs groups"):
        model.fit(FITTED.logits, FITTED.labels)
    model.fit(FITTED)
    for call in (model.predict_set, model.set_sizes, model.undecided):
        with pytest.raises(InputError, match="grouping='group' needs groups"):
            call(FRESH.logits)
    with pytest.raises(InputError, match=r"groups must have shape \(300,\)"):
        model.predict_set(FRESH.logits, groups=["east"])


@pytest.mark.parametrize("fallback", ["pooled", "strictest"])
@pytest.mark.parametrize("method", ["lac", "margin"])
def test_a_fallback_is_for_unknown_groups_alone(method, fallback):
    strict = ts.ConformalClassifier(method, ALPHA, grouping="group").fit(FITTED)
    model = ts.ConformalClassifier(method, ALPHA, grouping="group", fallback=fallback).fit(FITTED)
    np.testing.assert_array_equal(model.predict_set(FRESH), strict.predict_set(FRESH))
    unknown = model.predict_set(FRESH.logits, groups=["mars"] * len(FRESH))
    if fallback == "pooled":
        expected = ts.ConformalClassifier(method, ALPHA).fit(FITTED).predict_set(FRESH.logits)
    else:
        widest = SITES[int(np.argmax(strict.threshold_))]
        expected = strict.predict_set(FRESH.logits, groups=[widest] * len(FRESH))
    np.testing.assert_array_equal(unknown, expected)
    several = model.predict_sets(FRESH.logits, [0.05, ALPHA], groups=["mars"] * len(FRESH))
    np.testing.assert_array_equal(several[1], expected)
    model.set_params(fallback=None, alpha=0.5)
    np.testing.assert_array_equal(model.predict_set(FRESH.logits, groups=["mars"] * len(FRESH)), expected)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grouping": "group", "fallback": "mean"}, "fallback must be None, 'pooled' or 'strictest'; got 'mean'"),
        ({"grouping": "group", "fallback": 1}, "fallback must be None"),
        ({"fallback": "pooled"}, "fallback is only for grouping='group'"),
        ({"grouping": "class", "fallback": "pooled"}, "got grouping='class'"),
        ({"grouping": "groups"}, "grouping must be None, .*'group'.*; got 'groups'"),
    ],
)
def test_a_fallback_that_makes_no_sense_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        ts.ConformalClassifier("aps", **options).fit(FITTED)


def test_groups_with_too_few_rows_are_named():
    """alpha = 0.2 needs 4 rows: with 3 no order statistic is high enough."""
    groups = np.array(["big"] * 94 + ["small"] * 3 + ["tiny"] * 1 + ["nobody"] * 2)
    data = ts.Logits(FITTED.logits[:100], FITTED.labels[:100], groups=groups).take(np.arange(98))
    model = ts.ConformalClassifier("aps", ALPHA, grouping="group")
    with pytest.warns(CoverageWarning, match=r"at least 4 rows of each group.*too few for 3 of 4 groups") as said:
        model.fit(data)
    message = str(said[0].message)
    assert all(part in message for part in ("'small' (3)", "'tiny' (1)", "'nobody' (0, it had no conformal row)")), (
        message
    )
    assert "big" not in message
    assert np.isposinf(model.threshold_).tolist() == [False, True, True, True]
    sets = model.predict_set(FRESH.logits[:4], groups=["small", "tiny", "nobody", "big"])
    assert sets[:3].all()
    assert not sets[3].all()
    with pytest.warns(CoverageWarning, match="needs at least 99 rows of each group.*'big' \\(94\\)"):
        model.predict_sets(FRESH.logits[:4], [0.01], groups=["big"] * 4)
    with pytest.warns(CoverageWarning):
        strictest = ts.ConformalClassifier("aps", ALPHA, grouping="group", fallback="strictest").fit(data)
    assert strictest.predict_set(FRESH.logits[:1], groups=["mars"]).all(), "the largest of any group is infinite"


def test_an_id_column_is_refused():
    with pytest.raises(InputError, match=r"groups has 500 different values in 500 rows.*looks like one id"):
        ts.ConformalClassifier("aps", grouping="group").fit(FITTED.logits, FITTED.labels, groups=np.arange(500))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        ts.ConformalClassifier("aps", grouping="group").fit(FITTED.logits, FITTED.labels, groups=np.arange(500) // 2)


def test_a_thousand_groups():
    logits, labels = generated(30_000, 3, signal=0.0, seed=3)
    groups = np.arange(30_000) % 1000
    model = ts.ConformalClassifier("lac", ALPHA, grouping="group").fit(
        logits[:20_000], labels[:20_000], groups=groups[:20_000]
    )
    assert model.group_names_[:3] == ("0", "1", "2")
    assert np.isfinite(model.threshold_).all()
    fresh = np.flatnonzero(groups[20_000:] == 777) + 20_000
    own = np.flatnonzero(groups[:20_000] == 777)
    alone = ts.ConformalClassifier("lac", ALPHA).fit(logits[own], labels[own])
    sets = model.predict_set(logits[20_000:], groups=groups[20_000:])
    np.testing.assert_array_equal(sets[fresh - 20_000], alone.predict_set(logits[fresh]))
    with pytest.warns(CoverageWarning, match=r"too few for 1,000 of 1,000 groups: '0' \(20\), .* and 995 more"):
        model.predict_sets(logits[:1], [0.01], groups=[0])


def test_groups_do_not_matter_to_other_groupings():
    plain = ts.ConformalClassifier("aps", ALPHA).fit(FITTED)
    np.testing.assert_array_equal(plain.predict_set(FRESH), plain.predict_set(FRESH.logits))
    assert plain.group_names_ is None


def test_a_sweep_by_group_measures_what_classifiers_show():
    """One trial again by hand: the split and u of the protocol, one classifier, counted."""
    swept = ts.sweep(
        FITTED, temperatures=[0.5, 2.0], methods=["aps"], alphas=[ALPHA], trials=2, cp_fraction=0.5, grouping="group"
    )
    for t in range(2):
        trial = draw_trial(len(FITTED), t, Protocol(0.1, 0.5, 0, True))
        u, fresh, conformal = trial.u, trial.evaluation, trial.conformal
        for j, temperature in enumerate([0.5, 2.0]):
            model = ts.ConformalClassifier("aps", ALPHA, temperature, grouping="group")
            sets = model.fit(FITTED.take(conformal), u=u[conformal]).predict_set(FITTED.take(fresh), u=u[fresh])
            hits = sets[np.arange(len(fresh)), FITTED.labels[fresh]].mean()
            assert swept.of_trials("avg_size", "aps")[j, t] == pytest.approx(sets.sum(axis=1).mean(), abs=1e-12)
            assert swept.of_trials("marginal_coverage", "aps")[j, t] == pytest.approx(hits, abs=1e-12)
    with pytest.raises(InputError, match="grouping='group' needs groups"):
        ts.sweep(FITTED.logits, FITTED.labels, temperatures=[1.0], trials=2, grouping="group")
