"""What records show of themselves: short in a terminal, a table in a notebook, Markdown and LaTeX for papers."""

import dataclasses

import numpy as np
import pytest

import thermoset as ts
from choices import made_choice
from monitor_statuses import status_of
from thermoset.errors import InputError
from thermoset.metrics import class_coverage, reliability_table
from thermoset.monitor.check import Promise, check
from thermoset.monitor.drift import size_drift
from thermoset.paper import study
from thermoset.quoting import Brief
from thermoset.report import Report

CLASSES = 300


@pytest.fixture(scope="module")
def checked():
    """300 classes of ten rows; sets of class 7 never hold their label, all others always do."""
    labels = np.repeat(np.arange(CLASSES), 10)
    sets = np.eye(CLASSES, dtype=bool)[np.where(labels == 7, 8, labels)]
    probs = np.where(sets, 0.9, 0.1 / (CLASSES - 1))
    names = tuple(f"class_{i} & co" for i in range(CLASSES))
    return check(sets, probs, labels, Promise(0.1, [2999]), class_names=names, groups=labels % 2)


def swept():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    return ts.sweep(rng.normal(size=(300, 3)) + np.eye(3)[labels], labels, [0.5, 1, 2], ["aps", "lac"], trials=3)


def test_a_check_prints_a_paragraph(checked):
    told = str(checked)
    assert len(told) < 900
    assert "\n" not in told
    # 2,990 of 3,000: all but the ten rows of class 7
    for part in ("PASS: coverage is consistent with the promised 0.9", "2,990 of 3,000 sets", "0.9967", "1.00 labels"):
        assert part in told
    assert repr(checked) == "CheckReport(PASS: coverage 0.9967 of 3,000 rows, promised 0.9; 1.00 labels in a set)"


def test_a_broken_promise_is_said_first():
    sets = np.eye(2, dtype=bool)[[0] * 82 + [1] * 18]
    found = check(sets, np.where(sets, 0.8, 0.2), labels=[1] * 100, promise=Promise(0.1, [999]))
    assert str(found).startswith("FAIL: Coverage is 0.1800 on 100 rows, below the promised 0.9")
    assert repr(found).startswith("CheckReport(FAIL: coverage 0.1800 of 100 rows")


def test_a_check_lists_its_classes_the_least_covered_first(checked):
    table = checked.to_table()
    assert len(table.lines) == CLASSES
    assert table.lines[0][:4] == ("class_7 & co", "10", "0", "0.000")
    assert table.lines[1][3] == "1.000"
    assert "| class\\_7 &amp; co | 10 | 0 | 0.000 |" in checked.to_markdown()
    assert r"class\_7 \& co & 10 & 0 & 0.000 &" in checked.to_latex()
    groups = checked.group_table()
    assert [line[0] for line in groups.lines] == ["1", "0"], "class 7 is odd"
    assert groups.lines[0][1:3] == ("1,500", "1,490")
    assert checked._repr_html_().count("<tr>") == 1 + 2
    assert len(checked.parts.to_table().lines) == len(checked.parts.names)
    with pytest.raises(InputError, match="Pass groups"):
        dataclasses.replace(checked, groups=None).group_table()


def test_a_choice_prints_its_reasons_and_its_table():
    choice = made_choice()
    assert str(choice) == " ".join(choice.sentences)
    assert repr(choice) == f"Choice({choice.setting.title}; prefer {choice.prefer}; from 2,000 rows)"
    lines = choice.to_table().lines
    assert [line[0] for line in lines] == ["T = 1", "T*", "T-hat"]
    for line, at in zip(lines, choice.outlooks, strict=True):
        assert line[1] == f"{at.temperature:.2f}"
        assert line[4].startswith(f"{at.size:.2f}")
        assert line[3].startswith(f"{at.worst_tenth:.3f} ({at.worst_tenth_ends[0]:.3f} to ")
    front = choice.frontier_table()
    assert [float(line[4].split()[0]) for line in front.lines] == pytest.approx(
        sorted(round(at.size, 2) for at in choice.frontier)
    )
    assert choice.to_markdown() == choice.to_table().to_markdown()
    assert choice.to_latex() == choice.to_table().to_latex()
    assert choice._repr_html_().count("<tr>") == 4


def test_a_sweep_is_a_table_of_means_with_two_standard_errors():
    found = swept()
    table = found.to_table(["avg_size", "threshold"], temperatures=[1, 2])
    assert table.head == ("method", "alpha", "T", "AvgSize", "threshold")
    assert [line[:3] for line in table.lines] == [
        (method, "0.1", t) for method in ("APS", "LAC") for t in ("1", "2")
    ]  # fmt: skip
    trials = found.of_trials("avg_size", "aps")[1]
    reach = 2 * trials.std(ddof=1) / np.sqrt(3)
    assert table.lines[0][3] == f"{trials.mean():.2f} ± {reach:.2f}"
    assert len(found.to_table().lines) == 2 * 3
    assert found.to_latex().count(r" \\") == 1 + 2 * 3
    with pytest.raises(InputError, match="temperature must be one of"):
        found.to_table(temperatures=[3])


def test_a_status_lists_its_batches():
    status = status_of(n=3)
    assert len(repr(status)) < 200
    assert repr(status).startswith("MonitorStatus(")
    assert len(status.to_table().lines) == len(status.batches)
    assert "<table" in status._repr_html_()


def test_a_drift_prints_its_message():
    drift = size_drift([50, 900, 50], [0, 2, 18])
    assert str(drift).startswith("Set sizes differ from those of the 1,000 conformal rows")


def test_records_of_arrays_are_brief():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 500, 5000)
    sets = rng.random((5000, 500)) < 0.1
    assert repr(class_coverage(sets, labels)).startswith("PartCoverage(count=<array 500>, hits=<array 500>")
    assert len(repr(class_coverage(sets, labels))) < 150
    table = reliability_table([[0.75, 0.25], [0.75, 0.25]], labels=[0, 1], n_bins=10)
    assert len(repr(table)) < 150
    assert len(table.to_table().lines) == 10
    for kind in (Report, study.Study, study.PairStudy, study.Measured):
        assert kind.__repr__ is Brief.__repr__


def test_brief_tells_kinds_and_numbers():
    @dataclasses.dataclass(repr=False)
    class Found(Brief):
        a: object

    for value, told in (
        (None, "None"), (True, "True"), (3, "3"), (0.123456, "0.1235"), ([1], "<1 item>"), ({}, "<0 items>"),
        (np.ones((2, 3)), "<array 2x3>"), (np.float64(0.5), "0.5"), (object(), "<object>"),
    ):  # fmt: skip
        assert repr(Found(value)) == f"Found(a={told})"
    assert len(repr(Found("x" * 500))) < 120
