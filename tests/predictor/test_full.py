"""Predictors with selection="full": unions over the temperatures that could have been chosen."""

import msgspec
import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.core.sources import ArrayRows, RankedRows
from thermoset.errors import FileFormatError, InputError
from thermoset.predictor.artifact import checksum_of, read_artifact
from thermoset.predictor.members import Member, Thresholds
from thermoset.tuning import read_preference
from thermoset.tuning.full import temperature_menu, winners

N = 300
LOGITS, LABELS = generated(N + 1000, 5, signal=-0.5, seed=1)
KNOWN, FRESH = ts.Logits(LOGITS[:N], LABELS[:N]), ts.Logits(LOGITS[N:], LABELS[N:])


def fitted(data=KNOWN, **parameters):
    return ts.TwoTemperaturePredictor(selection="full", **parameters).fit(data)


@pytest.fixture(scope="module")
def predictor():
    made = fitted(prefer="coverage", random_state=4)
    assert len(made.artifact_.members) > 1  # or the tests below test nothing
    assert any(member.classes is not None for member in made.artifact_.members)
    return made


def union(recipe, prefer, data, fresh):
    """The definition: a label is in if a temperature that could win with a row of that class lets it in."""
    found = winners(RankedRows(ArrayRows(data.logits)), data, recipe, read_preference(prefer))
    sets = np.zeros(fresh.logits.shape, dtype=bool)
    for may_win, temperature in zip(found.may_win, temperature_menu(), strict=True):
        model = ts.ConformalClassifier.of(recipe, float(temperature)).fit(data)
        sets |= model.predict_set(fresh) & may_win
    return sets


@pytest.mark.parametrize("prefer", ["size", "coverage"])
@pytest.mark.parametrize("method", ["lac", "raps"])
def test_sets_are_what_the_definition_says(method, prefer):
    made = fitted(method=method, prefer=prefer, random_state=2)
    recipe = ts.Recipe(method, random_state=2)
    assert (made.predict_set(FRESH) == union(recipe, prefer, KNOWN, FRESH)).all()


def test_every_answer_comes_from_the_union(predictor):
    sets = predictor.predict_set(FRESH)
    assert (predictor.set_sizes(FRESH) == sets.sum(axis=1)).all()
    assert (predictor.answers(FRESH).sets == sets).all()
    assert [set(row.set) for row in predictor.predict_records(FRESH)] == [set(np.flatnonzero(row)) for row in sets]
    report = predictor.check(FRESH)
    assert report.marginal.hits == sets[np.arange(len(FRESH)), FRESH.labels].sum()
    own = predictor.predict_set(KNOWN).sum(axis=1)
    assert predictor.artifact_.sizes == tuple(np.bincount(own))
    measures = {made.name: made for made in predictor.artifact_.measures}
    assert measures["avg_size"].value == own.mean()
    assert measures["avg_size"].low < own.mean() < measures["avg_size"].high
    assert measures["empty_share"].value == (own == 0).mean()
    assert "class_gap" not in measures  # the choice has that of the sets at T-hat


def test_one_row_at_a_time_gives_the_same(predictor):
    whole = predictor.predict_set(FRESH)[:20]
    assert [predictor.predict_set(FRESH.take([i]))[0].tolist() for i in range(20)] == whole.tolist()


def test_both_temperatures_and_the_threshold_come_from_all_rows(predictor):
    made = predictor.artifact_
    assert predictor.temperature_ == ts.TemperatureScaler().fit(KNOWN).temperature_
    alone = ts.ConformalClassifier("raps", temperature=predictor.temperature_sets_, random_state=4).fit(KNOWN)
    assert predictor.threshold_ == alone.threshold_
    came = made.provenance
    assert (came.calibration_rows, came.conformal_rows, made.pool_sizes) == (N, N, (N,))
    assert came.calibration_sha256 == came.conformal_sha256
    assert not predictor.promise.exact


def test_a_file_gives_the_same_predictor(predictor, tmp_path):
    predictor.save(tmp_path / "p.json")
    loaded = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert (loaded.selection, loaded.artifact_.members) == ("full", predictor.artifact_.members)
    assert (loaded.predict_set(FRESH) == predictor.predict_set(FRESH)).all()
    assert (loaded.set_sizes(FRESH) == predictor.set_sizes(FRESH)).all()
    assert not loaded.promise.exact
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "p.json").read_bytes()


def test_the_order_of_rows_does_not_matter(predictor):
    mixed = KNOWN.take(np.random.default_rng(0).permutation(N))
    other = fitted(mixed, prefer="coverage", random_state=4)
    assert other.artifact_.members == predictor.artifact_.members
    assert (other.predict_set(FRESH) == predictor.predict_set(FRESH)).all()


def test_where_one_temperature_is_left_the_predictor_is_an_ordinary_one():
    logits, labels = generated(5000, 20, signal=-1.0, seed=3)
    known, fresh = ts.Logits(0.2 * logits, labels).split(4000)  # unsure of its classes: sets grow fast with T
    made = fitted(known, method="aps", prefer="size")
    assert made.artifact_.members == ()
    alone = ts.ConformalClassifier("aps", temperature=made.temperature_sets_).fit(known)
    assert (made.predict_set(fresh) == alone.predict_set(fresh)).all()
    assert {"class_gap", "avg_size"} <= {measure.name for measure in made.artifact_.measures}
    assert not made.promise.exact


def test_no_set_is_empty_where_that_is_not_allowed():
    """Also where the member that puts the top label in may not speak for it."""
    made = fitted(allow_empty=False, alpha=0.4, method="aps")
    assert len(made.artifact_.members) > 1
    assert made.set_sizes(FRESH).min() >= 1


def test_recalibrated_it_has_the_sets_of_t_hat_and_their_exact_law(predictor):
    new, rest = FRESH.split(500)
    made = fitted(prefer="coverage", random_state=4).recalibrate(new)
    alone = ts.ConformalClassifier("raps", temperature=predictor.temperature_sets_, random_state=4).fit(new)
    assert made.artifact_.members == ()
    assert (made.predict_set(rest) == alone.predict_set(rest)).all()
    assert made.promise.exact


def test_ids_decide_u():
    ids = np.arange(N)
    one, other = (
        ts.TwoTemperaturePredictor(selection="full", random_state=4).fit(KNOWN, ids=some) for some in (ids, ids + 7)
    )
    assert one.threshold_ != other.threshold_
    new = np.arange(len(FRESH))
    assert (one.set_sizes(FRESH, ids=new) == one.predict_set(FRESH, ids=new).sum(axis=1)).all()
    assert (one.predict_set(FRESH, ids=new) != one.predict_set(FRESH, ids=new + 3)).any()


def test_a_split_and_groups_are_refused():
    model = ts.TwoTemperaturePredictor(selection="full")
    with pytest.raises(InputError, match=r"uses all rows for everything\. Call fit"):
        model.fit_split(KNOWN, FRESH)
    with pytest.raises(InputError, match="selection='full' does not split"):
        model.fit(KNOWN, split_by=np.arange(N))
    with pytest.raises(InputError, match="needs labels"):
        model.fit(KNOWN.logits)


def changed(member, **changes):
    return msgspec.structs.replace(member, **changes)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda m: (*m[:-1], changed(m[-1], temperature=1e301)), "temperatures must be finite"),
        (lambda m: m[::-1], "temperatures of members must increase"),
        (lambda m: tuple(changed(one, classes=(0,)) for one in m), "members must cover every class"),
        (lambda m: (changed(m[0], classes=(1, 0)), *m[1:]), "classes of members must be columns"),
        (lambda m: (changed(m[0], classes=(5,)), *m[1:]), "classes of members must be columns"),
        (lambda m: (Member(temperature=0.2, thresholds=Thresholds(value=(1.0, 1.0), refine=(1.0,)), classes=None), *m),
         "a member must have one threshold"),
        (lambda m: (Member(temperature=9.0, thresholds=m[0].thresholds, classes=None),),
         "members must include T-hat and its threshold"),
    ],
)  # fmt: skip
def test_forged_members_are_refused(predictor, tmp_path, edit, said):
    forged = msgspec.structs.replace(predictor.artifact_, members=edit(predictor.artifact_.members))
    sealed = msgspec.structs.replace(forged, checksum=checksum_of(forged))
    (tmp_path / "p.json").write_bytes(msgspec.json.encode(sealed))
    with pytest.raises(FileFormatError, match=said):
        read_artifact(tmp_path / "p.json")


def test_members_of_another_selection_are_refused(predictor, tmp_path):
    made = predictor.artifact_
    came = msgspec.structs.replace(made.provenance, recalibrated=True)
    forged = msgspec.structs.replace(made, provenance=came)
    sealed = msgspec.structs.replace(forged, checksum=checksum_of(forged))
    (tmp_path / "p.json").write_bytes(msgspec.json.encode(sealed))
    with pytest.raises(FileFormatError, match="members must be used only with selection full"):
        read_artifact(tmp_path / "p.json")
