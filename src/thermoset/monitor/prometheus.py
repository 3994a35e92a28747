"""A monitor's status in the text format that Prometheus and the node exporter's textfile collector read."""

import math

from thermoset.monitor.status import MonitorStatus

_PREFIX = "thermoset_monitor_"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def prometheus_text(status: MonitorStatus, name: str) -> str:
    """Every metric with its HELP and TYPE line; `name` becomes the label that tells predictors apart.

    What is not known, such as the coverage of rows without labels, is left out. Counters count all rows since the
    state was started, so the `increase` of two of them gives a share over any stretch of time.
    """
    tests, answers = {test.name: test for test in status.tests}, status.answers
    alarms = {key: float(test.crossed_batch is not None) for key, test in tests.items()}
    wealth, bars = ({key: _exp(getattr(test, at)) for key, test in tests.items()} for at in ("log_e", "log_bar"))
    coverage = _ratio(status.hits, status.labelled)
    each: list[tuple[str, str, dict[str, float] | float | None]] = [
        ("alarm", "1 if a test has ever alarmed or a change was detected in the last batch, else 0.", status.alarm),
        ("test_alarm", "1 if this test has ever alarmed, else 0.", alarms),
        ("wealth", "Evidence against the promise, as the wealth of a bettor who started with 1.", wealth),
        ("wealth_alarm_level", "Wealth from which on a test alarms.", bars),
        ("promised_coverage_ratio", "Promised share of rows whose set holds the label.", status.promised),
        ("coverage_ratio", "Share of labelled rows whose set holds the label, since the state was started.", coverage),
        ("batches_total", "Batches added.", len(status.batches)),
        ("rows_total", "Rows added.", status.rows),
        ("labelled_rows_total", "Rows with a label by now, without those answered alone.", status.labelled),
        ("covered_rows_total", "Labelled rows whose set holds the label.", status.hits),
        ("reference_set_size_labels", "Mean size of the sets of the conformal rows.", status.reference_size),
    ]
    if answers is not None:
        error = _ratio(answers.errors, answers.labelled)
        seen = "Share of wrong answers among answered rows with a label, since the state was started."
        each += [
            ("claimed_error_ratio", "Claimed upper bound on the share of wrong answers.", answers.bound),
            ("answer_error_ratio", seen, error),
            ("answered_rows_total", "Rows answered alone.", answers.rows),
            ("audited_answers_total", "Answered rows with a label by now.", answers.labelled),
            ("wrong_answers_total", "Answered rows with a label whose answer is wrong.", answers.errors),
        ]
    if status.batches:
        last = status.batches[-1]
        each += [
            ("coverage_low_ratio", "Lower end of the confidence sequence of coverage.", last.coverage_low),
            ("coverage_high_ratio", "Upper end of the confidence sequence of coverage.", last.coverage_high),
            ("batch_rows", "Rows of the last batch.", last.rows),
            ("batch_coverage_ratio", "Coverage of the last batch.", _ratio(last.hits, last.labelled)),
            ("batch_set_size_labels", "Mean size of a set in the last batch.", last.mean_size),
            ("batch_empty_sets_ratio", "Share of empty sets in the last batch.", _ratio(last.empty, last.rows)),
            ("batch_confidence_ratio", "Mean confidence in the last batch.", last.mean_confidence),
        ]
        if answers is not None:
            share = _ratio(last.answered, last.rows)
            each.append(("batch_answered_ratio", "Share of rows answered alone in the last batch.", share))
    own, lines = f'predictor="{name.translate(_ESCAPES)}"', []
    for metric, meaning, value in each:
        samples = (
            {f'{own},test="{key}"': one for key, one in value.items()} if isinstance(value, dict) else {own: value}
        )
        known = [f"{_PREFIX}{metric}{{{labels}}} {_number(one)}" for labels, one in samples.items() if one is not None]
        if known:
            kind = "counter" if metric.endswith("_total") else "gauge"
            lines += [f"# HELP {_PREFIX}{metric} {meaning}", f"# TYPE {_PREFIX}{metric} {kind}", *known]
    return "\n".join(lines) + "\n"


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _exp(log_e: float) -> float:
    return math.exp(log_e) if log_e < 709 else math.inf


def _number(value: float) -> str:
    """The shortest digits that read back the same."""
    return "+Inf" if value == math.inf else repr(int(value)) if value == int(value) else repr(float(value))
