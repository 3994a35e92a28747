"""The page over time: its numbers are the record's, names are text, and any number of batches can be drawn."""

import json
import math
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from monitor_statuses import parts_of, renamed, status_of, untimed
from pages import HOSTILE, is_rounded
from parts import require
from thermoset.errors import InputError
from thermoset.report import build_monitor_page, write_monitor_page
from thermoset.report.monitor_charts import Timeline, monitor_charts
from thermoset.report.over_time import headline

for module in ("vl_convert", "jinja2"):
    require(module, "report")

pytestmark = pytest.mark.slow


class Read(HTMLParser):
    """Numbers by key, headline, tags and attributes of a page."""

    def __init__(self, page):
        super().__init__()
        self.numbers, self.tags, self.attributes, self.texts, self.within = {}, set(), set(), {}, []
        self.key = None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        held = dict(attrs)
        self.tags.add(tag)
        self.attributes |= set(held)
        if tag not in ("meta", "link", "br", "img", "u", "s", "i"):
            self.within.append(tag)
        if tag == "data":
            assert held["data-key"] not in self.numbers, held["data-key"]
            self.key = held["data-key"]
            self.numbers[self.key] = [float(held["value"]) if held["value"] else None, ""]

    def handle_endtag(self, tag):
        if tag in self.within:
            while self.within.pop() != tag:
                pass
        self.key = None if tag == "data" else self.key

    def handle_data(self, text):
        if self.key:
            self.numbers[self.key][1] += text
        for tag in {*self.within}:
            self.texts[tag] = self.texts.get(tag, "") + text


def exact(hits, rows):
    """Clopper and Pearson, from the beta law."""
    low = beta.ppf(0.025, hits, rows - hits + 1) if hits else 0.0
    high = beta.ppf(0.975, hits + 1, rows - hits) if hits < rows else 1.0
    return low, high


ALARM = status_of(26, drop_from=14)


@cache
def page():
    return build_monitor_page(ALARM, "front camera")


@cache
def read():
    return Read(page())


def headline_of(status):
    return Read(f"<h1>{headline(status, Timeline(status.batches))}</h1>").texts["h1"]


# --- numbers --------------------------------------------------------------------------------------------------------


def expected(status):
    """Every number of the page by key, from the record."""
    last = status.batches[-1]
    sizes, rows = [b.mean_size for b in status.batches], [b.rows for b in status.batches]
    found = {
        "batches": 26, "batches.again": 26, "rows": 5200, "labelled": 5200, "labelled.share": 1.0,
        "coverage": status.hits / 5200, "coverage.low": last.coverage_low, "coverage.high": last.coverage_high,
        "promised": 0.9, "after": status.after, "after.low": status.after_low, "after.high": status.after_high,
        "before": status.before, "size": np.average(sizes, weights=rows), "size.reference": 1.87,
        "empty": sum(b.empty for b in status.batches) / 5200, "alarms": 2, "tests": 5, "changes": 2,
        "confidence.level": 0.99, "reference_rows": 1000, "delta": 0.01, "run_length": 1_000_000,
        "parts.alarms": 1, "parts.count": 6, "parts.promised": 6,
    }  # fmt: skip
    found |= {f"head.{key}": found[key] for key in ("promised", "after", "after.low", "after.high", "before")}
    for i, batch in enumerate(status.batches):
        low, high = exact(batch.hits, batch.labelled)
        row = {"number": i + 1, "rows": batch.rows, "labelled": batch.labelled, "low": low, "high": high}
        row |= {"coverage": batch.hits / batch.labelled, "accuracy": batch.correct / batch.labelled}
        row |= {"size": batch.mean_size, "empty": batch.empty / batch.rows, "confidence": batch.mean_confidence}
        row |= {f"e_{name}": getattr(batch, f"log_{name}") for name in ("under", "over", "size", "confidence")}
        found |= {f"b.{i}.{key}": value for key, value in row.items()}
    for i, part in enumerate(status.parts):
        low, high = exact(part.hits, part.rows)
        row = {"coverage": part.hits / part.rows, "low": low, "high": high, "rows": part.rows, "log_e": part.log_e}
        found |= {f"part.{i}.{key}": value for key, value in row.items()}
    for test in status.tests:
        found |= {f"test.{test.name}.log_e": test.log_e, f"test.{test.name}.log_bar": test.log_bar}
        if test.crossed_batch is not None:
            found |= {f"test.{test.name}.row": test.crossed_row, f"test.{test.name}.changes": 1}
    return found


def test_every_number_is_the_records():
    wanted = expected(ALARM)
    assert read().numbers.keys() == wanted.keys()
    for key, value in wanted.items():
        assert read().numbers[key][0] == pytest.approx(value, rel=1e-9, abs=1e-12), key
        if "log_" not in key and ".e_" not in key:
            assert is_rounded(read().numbers[key][1], value), key


@pytest.mark.parametrize(
    ("log_e", "shown"),
    [(-800.0, "< 0.001"), (0.0, "1"), (math.log(200), "200"), (math.log(3.2e7), "3.2 × 10⁷"), (1e4, "8.8 × 10⁴³⁴²")],
)
def test_e_values_of_any_size_can_be_read(log_e, shown):
    tests = tuple(replace(test, log_e=log_e) for test in ALARM.tests)
    read = Read(build_monitor_page(replace(ALARM, tests=tests)))
    assert read.numbers["test.over.log_e"] == [log_e, shown]


def test_the_same_record_gives_the_same_page():
    assert build_monitor_page(ALARM, "front camera") == page()
    assert len(page().encode()) < 1_500_000


# --- the headline ---------------------------------------------------------------------------------------------------


def alarmed(*names, **changes):
    """A record in which these tests have alarmed in the third batch."""
    base = status_of(5)
    tests = tuple(replace(t, crossed_batch=2 if t.name in names else None, crossed_row=None) for t in base.tests)
    return replace(base, tests=tests, alarm=True, **changes)


def test_the_head_of_the_page_says_alarm_or_pass():
    assert read().texts["h1"] == f"ALARM {headline_of(ALARM)}"
    good = status_of(2)
    assert Read(build_monitor_page(good)).texts["h1"] == f"PASS {headline_of(good)}"


def test_a_loss_of_coverage_is_said_with_since_when_and_how_much():
    assert headline_of(ALARM) == (
        f"Coverage went from {ALARM.before:.3f} to {ALARM.after:.3f} ({ALARM.after_low:.3f} to "
        f"{ALARM.after_high:.3f}), below the promised 0.9, since week 15 (2026-04-13). Recalibrate."
    )


def test_no_alarm_says_pass():
    status = status_of(8)
    assert headline_of(status) == (
        f"Coverage is {status.hits / 1600:.3f} over 1,600 labelled rows ({status.batches[-1].hits / 200:.3f} in the "
        "last batch), in line with the promised 0.9."
    )
    assert headline_of(status_of(8, labelled=False)).endswith("Without labels, coverage is not known.")
    assert headline_of(status_of(0, parts=())) == "No batch so far."


def test_coverage_that_was_never_as_promised_or_is_higher_is_said_so():
    low = alarmed("under", since=0, before=None, after=0.8, after_low=0.7, after_high=0.85)
    assert (
        headline_of(low)
        == "Coverage has been below the promised 0.9 from the start: 0.800 (0.700 to 0.850). Recalibrate."
    )
    high = alarmed("over", since=3, before=0.9, after=0.97, after_low=0.95, after_high=0.99)
    assert "Coverage went from 0.900 to 0.970 (0.950 to 0.990), above the promised 0.9, since week 4" in headline_of(
        high
    )


def test_an_alarm_without_a_change_of_coverage_is_said_as_the_record_says_it():
    assert headline_of(alarmed("size")) == "Second one, about T\u0302."


def test_what_to_type_is_set_as_code_and_sentences_are_kept():
    assert "<code>thermoset adapt</code>" in page()
    for sentence in ("First sentence of the record.", "Second one, about T\u0302."):
        assert sentence in read().texts["li"]


# --- names are text -------------------------------------------------------------------------------------------------


def test_no_name_becomes_html():
    names = list(HOSTILE)
    status = renamed(status_of(len(names), parts=parts_of(len(names), names=names)), names)
    batches = tuple(replace(batch, time=name) for batch, name in zip(status.batches, names, strict=True))
    spoken = tuple(names)
    for some in (names[:5], names[5:]):
        tests = tuple(replace(test, title=name) for test, name in zip(status.tests, some, strict=True))
        hostile = replace(status, batches=batches, tests=tests, sentences=spoken, advice=spoken, alpha=some[0])
        read = Read(build_monitor_page(hostile, title=some[1]))
        assert not {"img", "b onclick"} & read.tags
        assert not {"onerror", "onclick", "onmouseover", "x"} & read.attributes
        assert len(read.texts["title"]) < 100


# --- charts ---------------------------------------------------------------------------------------------------------


def charts_of(status):
    return monitor_charts(status, Timeline(status.batches))[0]


def values(spec, layer):
    held = layer["data"]
    return held["values"] if "values" in held else spec["datasets"][held["name"]]


CASES = {
    "alarm": ALARM,
    "no labels": status_of(7, labelled=False),
    "one batch": status_of(1),
    "one without labels": status_of(1, labelled=False, reference_size=None),
    "two without times or tests": untimed(status_of(2, tests=())),
}


@pytest.mark.parametrize("name", CASES)
def test_every_chart_is_valid_and_has_a_place_on_the_page(name):
    page = build_monitor_page(CASES[name])
    charts = charts_of(CASES[name])
    for chart, spec in charts.items():
        if name == "alarm" or chart == "coverage":  # the others are the same, or simpler; the schema takes its time
            assert require("vl_convert", "report").vegalite_to_vega(spec)["marks"]
        assert len(spec["description"]) > 20
        assert f'id="chart-{chart}"' in page
    assert page.count('class="chart"') == len(charts)
    json.dumps(charts, allow_nan=False)
    assert ("coverage" in charts) == bool(CASES[name].labelled)


def test_coverage_is_drawn_with_exact_intervals_and_its_confidence_sequence():
    spec = charts_of(ALARM)["coverage"]
    layers = spec["layer"]
    points = values(spec, layers[3])
    total = np.cumsum([batch.hits for batch in ALARM.batches]) / np.cumsum([batch.labelled for batch in ALARM.batches])
    for batch, point, mean, seen in zip(ALARM.batches, points, values(spec, layers[4]), total, strict=True):
        drawn = point["c"], point["lo"], point["hi"], mean["c"], mean["lo"], mean["hi"]
        wanted = batch.hits / batch.labelled, *exact(batch.hits, batch.labelled), seen
        assert drawn == pytest.approx((*wanted, batch.coverage_low, batch.coverage_high), rel=1e-5)
    marked = {row["n"]: row["x"] for layer in layers for row in values(spec, layer) if layer["mark"]["type"] == "text"}
    places = Timeline(ALARM.batches).places
    assert marked == {"most likely change": places[14], "first alarm": places[ALARM.tests[0].crossed_batch]}


def test_evidence_is_drawn_as_powers_of_ten_with_alarms_where_they_were():
    charts = charts_of(ALARM)
    for chart, names in (("evidence-labelled", ("under", "over")), ("evidence-unlabelled", ("size", "confidence"))):
        lines = [layer for layer in charts[chart]["layer"] if layer["mark"]["type"] == "line"]
        for name, line in zip(names, lines, strict=True):
            wanted = [getattr(batch, f"log_{name}") / math.log(10) for batch in ALARM.batches]
            assert [row["v"] for row in values(charts[chart], line)] == pytest.approx(wanted, rel=1e-5)
    spec = charts["evidence-labelled"]
    shapes = {layer["mark"].get("shape"): values(spec, layer) for layer in spec["layer"]}
    under = ALARM.tests[0]
    assert [row["n"] for row in shapes["diamond"]] == [f"week {under.crossed_batch + 1}"]
    assert [row["n"] for row in shapes["triangle-up"]] == [f"week {under.change_batches[0] + 1}"]
    gained = next(layer for layer in charts["drift"]["layer"] if layer["mark"]["type"] == "bar")
    wanted = np.diff([0.0, *(batch.log_size for batch in ALARM.batches)]) / math.log(10)
    assert [row["v"] for row in values(charts["drift"], gained)] == pytest.approx(wanted, abs=1e-5)


def test_labels_that_came_late_are_part_of_the_line_and_of_its_band():
    """Batches recorded no interval, since no label was known while they were the latest; the band has one for each."""
    late = tuple(replace(batch, coverage_low=None, coverage_high=None) for batch in ALARM.batches[:-1])
    drawn = charts_of(replace(ALARM, batches=(*late, ALARM.batches[-1])))["coverage"]["datasets"]["so far"]
    assert drawn == charts_of(ALARM)["coverage"]["datasets"]["so far"]
    assert all(row["lo"] < row["c"] < row["hi"] for row in drawn)


# --- any number of batches ------------------------------------------------------------------------------------------


def test_a_thousand_batches_stay_readable_and_small():
    names = [f"a camera with quite a long name, in the hall, day {i}" for i in range(1000)]
    status = renamed(status_of(1000, drop_from=700, rows=20, parts=parts_of(1000)), names)
    page = build_monitor_page(status)
    assert len(page.encode()) < 3_000_000
    read = Read(page)
    assert read.numbers["together"][0] == 9
    assert {key for key in read.numbers if key.endswith(".number")} == {f"b.{i}.number" for i in range(500, 1000)}
    points = charts_of(status)["coverage"]["datasets"]["batches"]
    assert len(points) == 112
    assert sum(row["r"] for row in points) == status.labelled


@given(n=st.integers(0, 4000))
def test_points_hold_every_batch_once_and_lines_end_at_the_last(n):
    batch = status_of(1).batches[0]
    timeline = Timeline([batch] * n)
    spans, steps = timeline.spans(), timeline.steps()
    assert sum(len(span.batches) for span in spans) == n
    assert len(spans) <= 120
    assert len(steps) <= 500
    assert steps == sorted(set(steps))
    assert steps[-1:] == ([n - 1] if n else [])


@pytest.mark.parametrize(
    ("times", "by_time"),
    [
        (("2026-01-01", "2026-01-02"), True),
        (("2026-01-01T10:00:00+02:00", "2026-01-01T09:00:00"), True),  # 8:00 and 9:00 UTC
        (("2026-01-02", "2026-01-01"), False),
        (("2026-01-01", "2026-01-01"), False),
        (("2026-01-01", None), False),
        (("week 1", "week 2"), False),
    ],
)
def test_time_is_the_axis_only_where_it_can_be(times, by_time):
    batches = [replace(status_of(1).batches[0], time=time) for time in times]
    timeline = Timeline(batches)
    assert timeline.by_time == by_time
    assert timeline.places == ([1, 2] if not by_time else sorted(timeline.places))


# --- files ----------------------------------------------------------------------------------------------------------


def test_it_is_written_whole_and_only_as_html(tmp_path):
    write_monitor_page(ALARM, tmp_path / "over-time.html", "front camera")
    assert (tmp_path / "over-time.html").read_text(encoding="utf-8") == page()
    with pytest.raises(InputError, match=r"ends in \.html"):
        write_monitor_page(ALARM, tmp_path / "over-time.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["over-time.html"]
