"""A monitor of fitted predictors, from rows to where it stands."""

import subprocess
import sys
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import thermoset as ts
from law import generated
from thermoset.calibration import confidence_at
from thermoset.predictor.document import read_document, write_document
from thermoset.predictor.stored import ConfidenceReference


def rows_of(n_rows, seed=0, n_classes=4, **more):
    return ts.Logits(*generated(n_rows, n_classes, signal=0.3, seed=seed), **more)


@pytest.fixture(scope="module")
def predictor():
    return ts.TwoTemperaturePredictor(alpha=0.1).fit(rows_of(1500))


@pytest.fixture(scope="module")
def fresh():
    return rows_of(2000, seed=1)


def state_of(monitor):
    return msgspec.json.encode(monitor.state)


def test_hits_sizes_and_confidence_are_those_of_the_predictor(predictor, fresh):
    labels = np.where(np.arange(2000) % 3, fresh.labels, -1)
    monitor = ts.Monitor(predictor)
    batch = monitor.add(fresh.logits, labels).batches[0]
    sets, probs, has = predictor.predict_set(fresh), predictor.predict_proba(fresh), labels >= 0
    hit = sets[np.arange(2000), fresh.labels]
    assert (batch.rows, batch.labelled, batch.hits) == (2000, has.sum(), (hit & has).sum())
    assert batch.mean_size == sets.sum() / 2000
    assert batch.empty == (~sets.any(axis=1)).sum()
    assert batch.correct == ((probs.argmax(axis=1) == fresh.labels) & has).sum()
    assert batch.mean_confidence == pytest.approx(probs.max(axis=1).mean(), rel=1e-12)
    assert monitor.state.size.seen[:5] == tuple(np.bincount(sets.sum(axis=1), minlength=5))
    reference = predictor.document_.confidence
    assert monitor.state.confidence.seen == tuple(np.bincount(reference.bins(probs.max(axis=1)), minlength=64))


@pytest.mark.parametrize(
    ("missing", "make"),
    [
        (-1, np.array),
        (np.nan, lambda labels: np.array(labels, dtype=float)),
        (None, list),
        ("", lambda labels: ["abcd"[one] if isinstance(one, (int, np.integer)) else one for one in labels]),
    ],
)
def test_missing_labels_in_every_form(predictor, fresh, missing, make):
    some = fresh.take(slice(0, 60))
    labels = some.labels.tolist()
    known = [label if i % 2 else missing for i, label in enumerate(labels)]
    data = ts.Logits(some.logits, classes=list("abcd")) if missing == "" else some.logits
    assert ts.Monitor(predictor).add(data, make(known)).labelled == 30


def test_a_wrong_batch_is_refused_and_changes_nothing(predictor, fresh):
    monitor = ts.Monitor(predictor)
    monitor.add(fresh.take(slice(0, 100)))
    before, some = state_of(monitor), fresh.take(slice(100, 150))
    bad = some.logits.copy()
    bad[3, 1] = np.nan
    wrong = {
        r"labels\[49\] is 4; must be in 0\.\.3": (some.logits, [*some.labels[:49], 4]),
        "must be in 0..3": (some.logits, some.labels + 1),
        "is NaN": (bad, None),
        "is expecting 4 features": (some.logits[:, :3], None),
        r"labels must have shape \(50,\)": (some.logits, some.labels[:10]),
        "has no new labels": (fresh.logits[:100], None),
    }
    for said, (logits, labels) in wrong.items():
        with pytest.raises(ts.InputError, match=said):
            monitor.add(logits, labels)
        assert state_of(monitor) == before
    for name in ("", 7, "x" * 201):
        with pytest.raises(ts.InputError, match="name must be"):
            monitor.add(some, name=name)
    assert state_of(monitor) == before


def test_rows_with_other_ids_are_other_rows(predictor, fresh):
    monitor, some = ts.Monitor(predictor), fresh.logits[:50]
    monitor.add(some, ids=range(50))
    assert monitor.add(some, ids=range(50, 100)).rows == 100
    with pytest.raises(ts.InputError, match="has no new labels"):
        monitor.add(some, ids=range(50))


def test_a_monitor_needs_a_document_and_its_sets_alone(predictor, fresh):
    bare = SimpleNamespace(document_=predictor.document_, _inference=predictor._inference)
    assert ts.Monitor(bare).add(fresh) == ts.Monitor(predictor).add(fresh)
    with pytest.raises(NotFittedError):
        ts.Monitor(ts.TwoTemperaturePredictor())


@pytest.mark.parametrize(
    "settings", [{"delta": 0}, {"delta": 0.9}, {"delta": "x"}, {"run_length": 0}, {"run_length": 1.5}]
)
def test_settings_are_checked(predictor, settings):
    with pytest.raises(ts.InputError, match=next(iter(settings))):
        ts.Monitor(predictor, **settings)


def test_a_monitor_is_saved_and_read_again(predictor, fresh, tmp_path):
    monitor, path = ts.Monitor(predictor, delta=0.05, run_length=None), tmp_path / "state.json"
    monitor.add(fresh.take(slice(0, 500)))
    monitor.save(path)
    predictor.save(tmp_path / "predictor.json", scores=False)
    read = ts.Monitor.load(path, ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json"))
    assert read.status == monitor.status
    assert read.add(fresh.take(slice(500, 900))) == monitor.add(fresh.take(slice(500, 900)))
    with pytest.raises(ts.InputError, match="another predictor"):
        ts.Monitor.load(path, predictor.at(0.2))


def test_an_open_state_is_written_at_the_end_or_not_at_all(predictor, fresh, tmp_path):
    path = tmp_path / "state.json"
    with ts.Monitor.open(path, predictor, delta=0.05) as monitor:
        monitor.add(fresh.take(slice(0, 100)))
    before = path.read_bytes()
    with pytest.raises(ts.InputError, match="has no new labels"), ts.Monitor.open(path, predictor) as monitor:
        assert monitor.add(fresh.take(slice(100, 200))) == monitor.add(fresh.take(slice(100, 200)))
    assert path.read_bytes() == before
    with pytest.raises(ts.InputError, match=r"0\.05; got 0\.01"), ts.Monitor.open(path, predictor, delta=0.01):
        pass
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


ADD = """
import sys, numpy as np, thermoset as ts
predictor = ts.TwoTemperaturePredictor.load("predictor.json")
rng = np.random.default_rng(int(sys.argv[1]))
for i in range(4):
    with ts.Monitor.open("state.json", predictor) as monitor:
        monitor.add(rng.normal(size=(20, 4)), name=f"{sys.argv[1]}-{i}")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no locks on Windows")
def test_two_writers_at_once_lose_nothing(predictor, tmp_path):
    predictor.save(tmp_path / "predictor.json")
    runs = [subprocess.Popen([sys.executable, "-c", ADD, str(i)], cwd=tmp_path) for i in range(2)]
    assert [run.wait() for run in runs] == [0, 0]
    names = {batch.name for batch in ts.Monitor.load(tmp_path / "state.json", predictor).status.batches}
    assert names == {f"{run}-{i}" for run in range(2) for i in range(4)}


@pytest.mark.slow
def test_a_stream_of_real_rows_and_a_planted_change():
    glyphs = ts.datasets.load_glyphs().logits
    order = np.random.default_rng(0).permutation(len(glyphs))[:6000]
    fit, rest = glyphs.take(np.sort(order[:3000])), glyphs.take(order[3000:])
    monitor = ts.Monitor(ts.TwoTemperaturePredictor(alpha=0.1, method="lac", prefer="small").fit(fit))
    for i in range(10):
        status = monitor.add(rest.take(slice(200 * i, 200 * i + 200)), time=f"2026-01-{i + 1:02}", name=f"day {i + 1}")
        assert not status.alarm, status
    rng = np.random.default_rng(1)
    for i in range(10, 15):
        some = rest.take(slice(200 * i, 200 * i + 200))
        noise = rng.random(200) < 0.2
        labels = np.where(noise, rng.integers(0, glyphs.n_classes, 200), some.labels)
        status = monitor.add(some.logits, labels, time=f"2026-01-{i + 1:02}", name=f"day {i + 1}")
    assert status.alarm
    assert status.batches[status.since].name == "day 11"
    assert status.after_high < 0.9 < status.before + 0.02
    said = str(status)
    assert "This most likely began with day 11 (2026-01-11): coverage has been 0." in said
    assert "points below the promise" in said
    assert "thermoset adapt" in said


def test_harder_rows_without_labels_raise_an_alarm(predictor):
    logits, _ = generated(1500, 4, signal=-0.8, seed=5)
    monitor = ts.Monitor(predictor)
    alarms = [monitor.add(logits[i : i + 300]).alarm for i in range(0, 1500, 300)]
    assert alarms[-1]
    crossed = {test.name for test in monitor.status.tests if test.crossed_batch is not None}
    assert crossed <= {"size", "confidence"}


@pytest.mark.parametrize("grouping", ["class", "cluster", "rc3p"])
def test_predictors_with_thresholds_by_class(grouping, fresh):
    predictor = ts.TwoTemperaturePredictor(alpha=0.1, grouping=grouping, prefer="small").fit(rows_of(1500))
    status = ts.Monitor(predictor).add(fresh)
    assert [test.name for test in status.tests] == ["under", "parts", "size", "confidence"]
    assert not status.alarm
    assert sum(part.rows for part in status.parts) == 2000
    assert status.part_kind == ("cluster" if grouping == "cluster" else "class")
    # Of clusters, those of rare classes promise nothing: there half of the rows of every class are wrong.
    half = np.where(np.arange(2000) % 2, (fresh.labels + 1) % 4, fresh.labels)
    labels = half if grouping == "cluster" else np.where(fresh.labels == 2, 3, fresh.labels)
    wrong = ts.Monitor(predictor).add(fresh.logits, labels)
    assert wrong.alarm
    if grouping != "cluster":
        assert [part.name for part in wrong.parts if part.alarm] == ["3"]
        assert "Coverage of classes is lower than promised: 3 (" in str(wrong)


def test_predictors_with_thresholds_by_group(fresh):
    sites = np.array(["north", "south"])
    fit = rows_of(1500, groups=sites[np.arange(1500) % 2])
    predictor = ts.TwoTemperaturePredictor(alpha=0.1, grouping="group", prefer="small").fit(fit)
    monitor, where = ts.Monitor(predictor), sites[np.arange(2000) % 2]
    status = monitor.add(fresh.take(slice(0, 1000)), groups=where[:1000])
    assert (status.part_kind, status.alarm) == ("group", False)
    before = state_of(monitor)
    with pytest.raises(ts.InputError, match="needs groups"):
        monitor.add(fresh.take(slice(1000, 2000)))
    with pytest.raises(ts.InputError, match="mars"):
        monitor.add(fresh.take(slice(1000, 2000)), groups=["mars"] * 1000)
    assert state_of(monitor) == before
    some = fresh.take(slice(1000, 2000))
    labels = np.where(where[1000:] == "south", np.roll(some.labels, 1), some.labels)
    status = monitor.add(some.logits, labels, groups=where[1000:])
    assert [part.name for part in status.parts if part.alarm] == ["south"]


def test_groups_of_a_predictor_with_one_threshold_are_notes(predictor, fresh):
    where = np.where(np.arange(2000) % 2, "north", "south")
    status = ts.Monitor(predictor).add(fresh, groups=where)
    assert status.part_kind == "group"
    assert {part.name for part in status.parts} == {"north", "south"}
    assert not any(part.promised or part.alarm for part in status.parts)


@pytest.mark.parametrize(
    "asked", [{"method": "aps", "randomized": False}, {"allow_empty": False}, {"prefer": "protect"}]
)
def test_promises_of_at_least_have_no_test_of_too_many_hits(asked, fresh):
    predictor = ts.TwoTemperaturePredictor(alpha=0.1, **asked).fit(rows_of(600))
    monitor = ts.Monitor(predictor)
    if monitor.status.exact:
        assert asked == {"prefer": "protect"}  # it may find nothing to protect
        return
    assert not monitor.state.coverage.law.exact
    assert monitor.add(fresh).alarm is False
    assert [test.name for test in monitor.status.tests] == ["under", "size", "confidence"]


def test_interpolated_thresholds_are_shown_and_not_tested(fresh):
    predictor = ts.TwoTemperaturePredictor(alpha=0.1, grouping="interpolated", prefer="small").fit(rows_of(1500))
    status = ts.Monitor(predictor).add(fresh.logits, np.roll(fresh.labels, 1))
    assert "Coverage is shown but not tested" in str(status)
    assert status.batches[0].coverage_high < 0.9
    assert not status.alarm


@pytest.mark.slow
def test_rows_that_hold_their_largest_logits(predictor, fresh):
    rows = rows_of(1500, n_classes=8)
    some = rows_of(800, seed=2, n_classes=8)
    top = ts.TwoTemperaturePredictor(alpha=0.1, prefer="small").fit(ts.compact(rows, top=5))
    assert top.document_.confidence is None
    monitor = ts.Monitor(top)
    status = monitor.add(ts.compact(some, top=5))
    assert [test.name for test in status.tests] == ["under"]
    assert "not tested for changes in set sizes and confidence" in str(status)
    with pytest.raises(ts.InputError, match="has no new labels"):
        monitor.add(ts.compact(some, top=5))
    whole = ts.TwoTemperaturePredictor(alpha=0.1, prefer="small").fit(rows)
    with pytest.raises(ts.InputError, match="fitted on whole rows"):
        ts.Monitor(whole).add(ts.compact(some, top=5))


@pytest.mark.slow
def test_the_reference_counts_the_conformal_rows():
    calibration, conformal, new = rows_of(600), rows_of(500, seed=3), rows_of(300, seed=4)
    predictor = ts.TwoTemperaturePredictor(alpha=0.1, prefer="small").fit_split(calibration, conformal)
    reference = predictor.document_.confidence
    at = predictor.temperature_
    seen = np.sort(confidence_at(calibration.logits, at))
    assert set(reference.cuts) <= set(seen)  # cut points are calibration rows, and no conformal row has chosen any
    assert reference.cuts[31] == seen[int(np.ceil(600 * 32 / 64)) - 1]
    rank = np.digitize(confidence_at(conformal.logits, at), reference.cuts)
    assert reference.counts == tuple(np.bincount(rank, minlength=64))
    predictor.recalibrate(new)
    renewed = predictor.document_.confidence
    assert renewed.cuts == reference.cuts
    assert sum(renewed.counts) == 300
    old = msgspec.structs.replace(predictor.document_, confidence=None)
    predictor._adopt(old)
    predictor.recalibrate(conformal)
    assert predictor.document_.confidence is None


@pytest.mark.parametrize(
    ("cuts", "counts"),
    [
        ((), (500,)),
        (tuple((np.arange(1, 65) / 65).tolist()), (500,) + (0,) * 64),
        ((0.5, 0.5), (500, 0, 0)),
        ((0.0,), (500, 0)),
        ((0.5,), (500,)),
        ((0.5,), (499, 0)),
        ((0.5,), (501, -1)),
    ],
)
def test_a_reference_that_makes_no_sense_is_refused(predictor, tmp_path, cuts, counts):
    scale = predictor.document_.provenance.conformal_rows - 500
    wrong = ConfidenceReference(cuts=cuts, counts=(counts[0] + scale, *counts[1:]))
    write_document(tmp_path / "p.json", predictor.document_.change(confidence=wrong))
    with pytest.raises(ts.FileFormatError, match="confidence"):
        read_document(tmp_path / "p.json")


def test_rows_that_the_predictor_was_fitted_on_are_refused(predictor, fresh):
    monitor = ts.Monitor(predictor)
    with pytest.raises(ts.InputError, match="used to fit"):
        monitor.add(rows_of(1500).logits)
    assert monitor.add(fresh).rows == 2000


def test_shifted_thresholds_are_shown_and_not_tested(predictor, fresh):
    shifted = predictor.shifted(priors=[0.4, 0.2, 0.2, 0.2])
    status = ts.Monitor(shifted).add(fresh.logits, np.roll(fresh.labels, 1))
    assert (status.tests, status.alarm) == ((), False)
    assert "thresholds adjusted for label shift, it follows no known law" in str(status)
    hit = shifted.predict_set(fresh)[np.arange(2000), np.roll(fresh.labels, 1)]
    assert status.hits == hit.sum()
    assert status.batches[0].correct == (shifted.predict(fresh) == np.roll(fresh.labels, 1)).sum()


def test_a_predictor_with_weighted_rows_is_refused():
    rows = rows_of(600)
    weighted = ts.TwoTemperaturePredictor(alpha=0.1, prefer="small").fit(rows, weights=np.linspace(1, 2, 600))
    with pytest.raises(ts.InputError, match="weighted"):
        ts.Monitor(weighted)
