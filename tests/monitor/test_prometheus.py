"""A monitor's metrics, read by Prometheus' own client."""

import math
import re

import numpy as np
import pytest

import thermoset as ts
from monitor_statuses import status_of
from parts import require
from thermoset.monitor.prometheus import prometheus_text
from thermoset.monitor.status import AnswerCounts

parser = require("prometheus_client.parser", "test")


def families(text):
    """The metric families of a text by name."""
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def values(text):
    """Every sample by its name and, where it has one, its test; all have the same predictor."""
    samples = [one for family in families(text).values() for one in family.samples]
    assert len({one.labels["predictor"] for one in samples}) == 1
    found = {}
    for one in samples:
        key = one.name.removeprefix("thermoset_monitor_"), one.labels.get("test")
        assert key not in found, "a sample stands there once"
        found[key] = one.value
    return found


ANSWERS = AnswerCounts(rows=3000, labelled=400, errors=10, bound=0.02)


@pytest.mark.parametrize("answers", [None, ANSWERS])
@pytest.mark.parametrize("drop", [None, 5])
def test_every_number_of_the_status_is_a_sample(drop, answers):
    status = status_of(12, drop_from=drop, answers=answers)
    found, last = values(prometheus_text(status, "digits")), status.batches[-1]
    assert found["alarm", None] == (drop is not None) == status.alarm
    assert found["coverage_ratio", None] == status.hits / status.labelled
    assert found["rows_total", None] == 12 * 200
    assert found["labelled_rows_total", None] == status.labelled
    assert found["covered_rows_total", None] == status.hits
    assert found["coverage_low_ratio", None] == last.coverage_low
    assert found["batch_set_size_labels", None] == last.mean_size
    assert found["batch_confidence_ratio", None] == last.mean_confidence
    assert found["batch_coverage_ratio", None] == last.hits / 200
    for test in status.tests:
        assert found["wealth", test.name] == pytest.approx(math.exp(test.log_e), rel=1e-15)
        assert found["wealth_alarm_level", test.name] == pytest.approx(math.exp(test.log_bar), rel=1e-15)
        assert found["test_alarm", test.name] == (test.crossed_batch is not None)
    if answers is None:
        assert not any("answer" in name or "error" in name for name, _ in found)
    else:
        assert found["answered_rows_total", None] == 3000
        assert found["answer_error_ratio", None] == 10 / 400
        assert found["claimed_error_ratio", None] == 0.02
        assert found["batch_answered_ratio", None] == last.answered / last.rows


def test_names_follow_the_conventions():
    text = prometheus_text(status_of(3, answers=ANSWERS), "digits")
    for name, family in families(text).items():
        assert re.fullmatch(r"thermoset_monitor_[a-z_]+[a-z]", name)
        assert family.documentation.endswith(".")
        assert family.type in ("gauge", "counter")
        assert (family.type == "counter") == (f"# TYPE {name}_total counter\n" in text)
    assert text.endswith("\n")
    helps = re.findall(r"^# HELP (\S+)", text, flags=re.MULTILINE)
    assert helps == re.findall(r"^# TYPE (\S+)", text, flags=re.MULTILINE)
    assert len(helps) == len(set(helps))


def test_what_is_not_known_is_left_out():
    found = values(prometheus_text(status_of(3, labelled=False), "x"))
    assert not any("coverage_" in name for name, _ in found if name != "promised_coverage_ratio")
    assert found["labelled_rows_total", None] == 0
    assert not np.isnan(list(found.values())).any()


@pytest.mark.parametrize("name", ['a "quoted" \\ name', "two\nlines", "größe", "{}=,"])
def test_any_name_is_read_back(name):
    (sample,) = families(prometheus_text(status_of(1), name))["thermoset_monitor_alarm"].samples
    assert sample.labels == {"predictor": name}


def test_very_large_evidence_is_infinite_wealth():
    status = status_of(1)
    high, *others = status.tests
    sure = status_of(1, tests=(type(high)(**vars(high) | {"log_e": 5000.0}), *others))
    assert values(prometheus_text(sure, "x"))["wealth", high.name] == math.inf


def test_a_monitor_counts_what_is_answered_alone():
    rng = np.random.default_rng(0)
    labels = rng.integers(8, size=5000)
    sharp = np.where(rng.random(5000) < 0.6, 6.0, 1.5)[:, None]
    rows = ts.Logits(rng.normal(size=(5000, 8)) + sharp * np.eye(8)[labels], labels)
    predictor = ts.TwoTemperaturePredictor(answer="error<=0.05").fit(rows.take(slice(0, 3000)))
    monitor = ts.Monitor(predictor)
    first, second = (rows.take(slice(start, start + 1000)) for start in (3000, 4000))
    monitor.add(first.logits)
    monitor.add(second.logits, second.labels)
    answered = [predictor.predict_actions(one) == "answer" for one in (first, second)]
    assert all(0 < one.sum() < 1000 for one in answered)
    found = values(monitor.to_prometheus())
    assert found["answered_rows_total", None] == answered[0].sum() + answered[1].sum()
    assert found["batch_answered_ratio", None] == answered[1].mean()
    assert found["audited_answers_total", None] == answered[1].sum()
    wrong = (predictor.predict(second.logits) != second.labels) & answered[1]
    assert found["wrong_answers_total", None] == wrong.sum()
    assert found["labelled_rows_total", None] == 1000 - answered[1].sum()
    (sample,) = families(monitor.to_prometheus())["thermoset_monitor_alarm"].samples
    assert len(sample.labels["predictor"]) == 12
