"""Predictors that answer some rows alone: actions, sets of the others, documents, engines, refusals."""

import csv
import json

import msgspec
import numpy as np
import pytest

import thermoset as ts
from engines import ENGINES, by_exported_torch
from law import generated
from parts import require
from thermoset.arrays import pairs
from thermoset.calibration.confidence import top_odds
from thermoset.errors import BudgetWarning, FileFormatError, InputError
from thermoset.integrations.batches import Predictor
from thermoset.predictor.many_files import predict_shards
from thermoset.predictor.sets import ACTIONS, ANSWER, CHOOSE, REVIEW
from thermoset.predictor.stored import Thresholds

N = 6000


def rows_of(seed=0, n=N, n_classes=8):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    sharp = np.where(rng.random(n) < 0.6, 6.0, 1.5)[:, None]
    return ts.Logits(rng.normal(size=(n, n_classes)) + sharp * np.eye(n_classes)[labels], labels)


def fitted(method="lac", answer="error<=0.05", data=None, **options):
    data = rows_of() if data is None else data
    return ts.TwoTemperaturePredictor(method, prefer="small", answer=answer, review="size>4", **options).fit(data)


@pytest.fixture(scope="module", params=["lac", "aps"])
def predictor(request):
    return fitted(request.param)


@pytest.fixture(scope="module")
def fresh():
    return rows_of(1, 4000)


def test_answered_rows_have_their_label_alone(predictor, fresh):
    found, sets = predictor.predict_actions(fresh), predictor.predict_set(fresh)
    answered = found == "answer"
    g = top_odds(predictor._inference.correct(fresh), predictor.temperature_)[0]
    assert predictor.answer_.met
    assert 0.3 < answered.mean() < 0.95
    np.testing.assert_array_equal(answered, g >= predictor.answer_.threshold)
    np.testing.assert_array_equal(sets[answered], np.eye(8, dtype=bool)[predictor.predict(fresh)[answered]])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_files_of_predictions_have_the_action(predictor, fresh, suffix, tmp_path):
    ts.save(tmp_path / "new.npz", fresh)
    target = tmp_path / "made"
    predict_shards(predictor, tmp_path / "new.npz", target, kind=suffix[1:])
    (made,) = target.glob(f"*{suffix}")
    if suffix == ".parquet":
        found = require("pyarrow.parquet", "io").read_table(made).column("action").to_pylist()
    elif suffix == ".csv":
        with made.open(newline="") as stream:
            found = [row["action"] for row in csv.DictReader(stream)]
    else:
        found = [json.loads(line)["action"] for line in made.read_text().splitlines()]
    assert found == predictor.predict_actions(fresh).tolist()


def test_sizes_decide_between_choice_and_review(predictor, fresh):
    found, sizes = predictor.predict_actions(fresh), predictor.set_sizes(fresh)
    others = found != "answer"
    np.testing.assert_array_equal(found[others] == "review", (sizes[others] == 0) | (sizes[others] > 4))
    assert set(found) == set(ACTIONS)


def test_sets_are_chosen_for_the_rows_that_people_see(predictor, fresh):
    others = predictor.predict_actions(fresh) != "answer"
    low, high = predictor.choice_.outlook.size_ends
    assert low < predictor.set_sizes(fresh)[others].mean() < high
    assert predictor.set_sizes(fresh).mean() < low


def test_records_arrays_and_batches_have_the_same_actions(predictor, fresh):
    found = predictor.predict_actions(fresh).tolist()
    arrays = predictor.predict_arrays(fresh)
    assert [ACTIONS[one] for one in arrays.actions] == found
    assert [record.action for record in predictor.predict_records(fresh)] == found
    batch = Predictor(predictor)({"logits": fresh.logits})
    assert batch["action"].tolist() == found
    np.testing.assert_array_equal(batch["size"], predictor.set_sizes(fresh))
    one_by_one = [predictor.predict_actions(fresh.logits[i : i + 1])[0] for i in range(50)]
    assert one_by_one == found[:50]


def test_order_of_rows_and_of_known_rows_changes_nothing(fresh):
    predictor, data = fitted(), rows_of()
    order = np.random.default_rng(3).permutation(len(fresh))
    np.testing.assert_array_equal(predictor.predict_actions(fresh.take(order)), predictor.predict_actions(fresh)[order])
    halves = data.take(slice(0, 2000)), data.take(slice(2000, None))
    turned = data.take(slice(0, 2000)), data.take(slice(2000, None)).take(np.arange(N - 2001, -1, -1))
    one, two = (ts.TwoTemperaturePredictor("lac", answer="error<=0.05").fit_split(*parts) for parts in (halves, turned))
    assert one.answer_ == two.answer_
    assert one.threshold_ == two.threshold_


def test_p_values_give_the_sets_of_unanswered_rows(predictor, fresh):
    others = predictor.predict_actions(fresh) != "answer"
    p = predictor.predict_p(fresh)
    for alpha in ("0.1", "0.03", "0.4"):
        at = predictor.at(alpha)
        assert at.answer_ == predictor.answer_
        np.testing.assert_array_equal((p > float(alpha))[others], at.predict_set(fresh)[others])


def test_threshold_of_the_top_label_alone():
    """Rows between the two thresholds of the rule: their top label may have a larger threshold than other labels."""
    predictor, data = fitted("aps"), rows_of(2, 3000)
    q = predictor._inference.thresholds.ravel()[0]
    rule = msgspec.structs.replace(predictor.document_.answers, kinds=b"")
    stored = Thresholds.of(pairs([0.2, 0.9], [0.0, 0.0]))
    changed = predictor.document_.change(scores=None, thresholds=stored, answers=rule)
    plain = predictor.document_.change(
        scores=None, thresholds=Thresholds.of(pairs([0.2, 0.2], [0.0, 0.0])), answers=rule
    )
    before, after = (ts.TwoTemperaturePredictor("aps") for _ in range(2))
    before._adopt(plain)
    after._adopt(changed)
    g, claim = top_odds(predictor._inference.correct(data), predictor.temperature_)[0], predictor.answer_
    block = (g >= float(claim.below)) & (g < claim.threshold)
    differ = (after.predict_set(data) != before.predict_set(data)).any(axis=1)
    assert differ.any()
    assert not differ[~block].any()
    assert np.isfinite(q)
    for engine in ENGINES.values():
        found = engine(after, data.logits)
        np.testing.assert_array_equal(found["sets"], after.predict_set(data))
        np.testing.assert_array_equal(found["action"], after.predict_arrays(data).actions)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [*ENGINES.values(), by_exported_torch], ids=[*ENGINES, "exported"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_engines_act_alike(engine, dtype, predictor, fresh):
    logits = fresh.logits.astype(dtype)
    found, expected = engine(predictor, logits), predictor.predict_arrays(logits)
    np.testing.assert_array_equal(found["action"], expected.actions)
    np.testing.assert_array_equal(found["sets"], expected.sets)
    assert found["action"].dtype == np.int64


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_engines_cut_tied_rows_alike(engine):
    """Logits of few values: many rows have exactly the log-odds at which the rule cuts."""
    rng = np.random.default_rng(4)
    labels = rng.integers(5, size=5000)
    logits = np.round(rng.normal(size=(5000, 5)) + 3 * np.eye(5)[labels])
    logits[rng.random(logits.shape) < 0.05] = -np.inf
    logits[np.arange(5000), labels] = np.maximum(logits[np.arange(5000), labels], 0.0)
    predictor = fitted(data=ts.Logits(logits[:3000], labels[:3000]))
    found = engine(predictor, logits[3000:])
    np.testing.assert_array_equal(found["action"], predictor.predict_arrays(logits[3000:]).actions)


def test_rows_that_an_engine_cannot_refuse_are_for_review(predictor):
    bad = np.zeros((2, 8))
    bad[0, 3], bad[1] = np.nan, -np.inf
    for engine in ENGINES.values():
        assert engine(predictor, bad)["action"].tolist() == [REVIEW, REVIEW]


def test_saved_predictor_decides_the_same(predictor, fresh, tmp_path):
    for scores in (True, False):
        predictor.save(tmp_path / "p.json", scores=scores)
        again = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
        assert (again.answer, again.review, again.answer_) == ("error<=0.05", "size>4", predictor.answer_)
        np.testing.assert_array_equal(again.predict_set(fresh), predictor.predict_set(fresh))
        assert again._inference.identity == predictor._inference.identity
        served = ts.TwoTemperaturePredictor.load(tmp_path / "p.json", engine="numpy")
        np.testing.assert_array_equal(served.predict_arrays(fresh).actions, predictor.predict_arrays(fresh).actions)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kinds", "AAAA"),
        ("start", 99),
        ("review_above", -1),
        ("claim.rows", 5),
        ("claim.errors", 4000),
        ("claim.level", 99),
        ("risk", lambda risk: [-1e-9, *risk[1:]]),
    ],
)
def test_damaged_answers_are_refused(field, value, tmp_path):
    from thermoset.predictor.document import Document, checksum_of

    path = tmp_path / "p.json"
    fitted().save(path)
    content = json.loads(path.read_text())
    place = content["answers"]
    *outer, last = field.split(".")
    for name in outer:
        place = place[name]
    place[last] = value(place[last]) if callable(value) else value
    content["checksum"] = ""
    try:
        sealed = checksum_of(msgspec.json.decode(json.dumps(content), type=Document))
    except msgspec.ValidationError:
        sealed = ""
    path.write_text(json.dumps(content | {"checksum": sealed}))
    with pytest.raises(FileFormatError):
        ts.TwoTemperaturePredictor.load(path)


def test_recalibrated_rule_is_proved_on_the_new_rows(predictor, fresh):
    other = ts.TwoTemperaturePredictor("lac")
    other._adopt(predictor.document_)
    other.recalibrate(fresh)
    assert other.answer_.rows == len(fresh)
    assert other.document_.answers.thresholds == predictor.document_.answers.thresholds
    g = top_odds(other._inference.correct(fresh), other.temperature_)[0]
    assert other.answer_.answered == np.count_nonzero(g >= other.answer_.threshold)


def test_all_rows_may_be_answered():
    logits, labels = generated(4000, 3, seed=1)
    seen = np.where(np.arange(4000) % 200 == 0, (labels + 1) % 3, labels)
    sure = ts.Logits(20.0 * np.eye(3)[seen] + 0.01 * logits, labels)
    predictor = fitted(data=sure)
    assert predictor.answer_.threshold == -np.inf
    assert set(predictor.predict_actions(sure)) == {"answer"}
    for engine in ENGINES.values():
        assert set(engine(predictor, sure.logits)["action"].tolist()) == {ANSWER}


def test_no_row_is_answered_where_nothing_is_proved():
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=3000)
    data = ts.Logits(rng.normal(size=(3000, 4)) + 0.5 * np.eye(4)[labels], labels)
    with pytest.warns(BudgetWarning):
        predictor = fitted(data=data)
    assert not predictor.answer_.met
    assert not (predictor.predict_actions(data) == "answer").any()
    covered = predictor.predict_set(data)[np.arange(3000), labels].mean()
    assert abs(covered - 0.9) < 0.03
    for engine in ENGINES.values():
        assert set(engine(predictor, data.logits)["action"].tolist()) <= {CHOOSE, REVIEW}


@pytest.mark.parametrize(
    "options",
    [
        {"grouping": "class"},
        {"prefer": "protect"},
        {"prefer": "classes>=0.8"},
        {"answer": "error<=2"},
        {"answer": "error<=0.0005"},
        {"review": "size<3"},
        {"review": "size>x"},
        {"answer": None},
    ],
)
def test_what_does_not_go_together_is_refused(options):
    given = {"method": "lac", "answer": "error<=0.05", "review": "size>4"} | options
    with pytest.raises(InputError):
        ts.TwoTemperaturePredictor(**given).fit(rows_of(n=2000))


def test_weights_and_shares_are_refused(predictor, fresh):
    weights = np.ones(N)
    with pytest.raises(InputError):
        ts.TwoTemperaturePredictor("lac", answer="error<=0.05").fit(rows_of(), weights=weights)
    with pytest.raises(InputError):
        predictor.shifted(priors=np.full(8, 1 / 8))
    with pytest.raises(InputError):
        predictor.predict_set(ts.compact(fresh, 3))


def test_actions_need_a_rule(fresh):
    plain = ts.TwoTemperaturePredictor("lac", prefer="small").fit(rows_of(n=2000))
    for ask in (plain.predict_actions, lambda rows: plain.check(rows, fail_on="answers")):
        with pytest.raises(InputError):
            ask(fresh)


def test_most_rows_prove_where_answers_are_asked_for():
    data = rows_of()
    came = fitted(data=data).document_.provenance
    assert (came.calibration_rows, came.conformal_rows) == (1200, 4800)
    came = ts.TwoTemperaturePredictor("lac", prefer="even").fit(data).document_.provenance
    assert came.calibration_rows == 3000


# ---- checks and monitors ---------------------------------------------------------------------------------------------


def test_check_looks_at_each_kind_of_rows(predictor, fresh):
    report = predictor.check(fresh)
    answered = predictor.predict_actions(fresh) == "answer"
    wrong = predictor.predict(fresh) != fresh.labels
    assert report.ok
    assert (report.rows, report.answers.answered) == (int((~answered).sum()), int(answered.sum()))
    assert report.answers.errors == int(wrong[answered].sum())
    hits = predictor.predict_set(fresh)[np.arange(len(fresh)), fresh.labels]
    assert report.marginal.hits == int(hits[~answered].sum())
    assert report.calibration.accuracy == pytest.approx(1 - wrong.mean())


def test_monitor_alarms_on_wrong_answers_alone(predictor, fresh):
    answered = predictor.predict_actions(fresh) == "answer"
    monitor = ts.Monitor(predictor)
    status = monitor.add(fresh.logits[:2000])
    assert not status.alarm
    rng = np.random.default_rng(0)
    noise = answered & (rng.random(len(fresh)) < 0.15)
    audited = np.where(
        answered & (rng.random(len(fresh)) < 0.5), np.where(noise, (fresh.labels + 1) % 8, fresh.labels), -1
    )
    good = np.where(audited >= 0, fresh.labels, -1)
    assert not monitor.add(fresh.logits[:2000], good[:2000]).alarm
    status = monitor.add(fresh.logits[2000:], audited[2000:])
    assert [test.name for test in status.tests if test.crossed_batch is not None] == ["answers"]
    assert status.labelled == 0  # nothing that people see


def test_monitor_keeps_its_level_on_answers_at_the_bound():
    """Evidence against an error of 5% that is exactly 5%: it ever reaches 1 / delta with probability at most delta."""
    from thermoset.monitor.evidence import fixed_evidence

    rng, ever = np.random.default_rng(0), 0
    for _ in range(400):
        wrong = np.cumsum(rng.random(2000) < 0.05)
        seen = np.arange(1, 2001)
        ever += bool((fixed_evidence(seen - wrong, seen, 0.95) >= np.log(20)).any())
    assert ever <= 35  # 20 are expected at most; more than 35 have probability 0.001


def test_saved_monitor_goes_on(predictor, fresh, tmp_path):
    monitor = ts.Monitor(predictor)
    monitor.add(fresh.logits[:1000], fresh.labels[:1000])
    monitor.save(tmp_path / "state.json")
    again = ts.Monitor.load(tmp_path / "state.json", predictor)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "state.json").read_bytes()
    assert again.state.audited[0] == np.count_nonzero(predictor.predict_actions(fresh.logits[:1000]) == "answer")
