"""Charts draw what the library says: the data of each specification against the functions that compute it."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

import thermoset as ts
from choices import made_choice, of_choice
from pages import rows_of
from parts import require
from thermoset.calibration import probabilities
from thermoset.metrics import (
    clopper_pearson,
    confidence_stratified_coverage,
    noise_floor_of_counts,
    reliability_table,
    size_stratified_coverage,
)
from thermoset.monitor.check import yardstick
from thermoset.report import build_report
from thermoset.report.charts import all_charts
from thermoset.report.set_charts import MOST_PARTS, coverage_of_parts
from thermoset.sweeping import standard_error
from thermoset.tuning.choice import alternatives, front, settings_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made():
    known, fresh = rows_of(3000, 32, seed=7).split(2000)
    predictor = ts.TwoTemperaturePredictor("raps", alpha="0.1", prefer="even", calibration="temperature").fit(known)
    report = build_report(predictor, fresh, trials=4)
    return predictor, fresh, report, all_charts(report)


def test_every_chart_can_be_compiled(made, protecting):
    compiler = require("vl_convert", "report")
    for name, spec in (made[3] | protecting[1]).items():
        assert compiler.vegalite_to_vega(spec)["marks"], name
        assert len(spec["description"]) > 20, name


def close(values, wanted):
    assert np.array(values, dtype=float) == pytest.approx(np.asarray(wanted, dtype=float), rel=1e-5, abs=1e-9)


def layers(spec, kind):
    """Layers of a chart by the kind of their marks."""
    return [part for part in spec["layer"] if part["mark"]["type"] == kind]


def values(spec, part):
    """Rows of a chart's data."""
    held = part.get("data", spec.get("data"))
    return held["values"] if "values" in held else spec["datasets"][held["name"]]


@pytest.mark.parametrize("metric", ["avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold"])
def test_the_trade_off_draws_the_sweep_with_bands_of_two_standard_errors(made, metric):
    _, _, report, charts = made
    rows = charts[f"trade-{metric}"]["datasets"]["curves"]
    for method in ("raps", "lac", "aps"):
        for alpha in report.curves.alphas:
            own = [row for row in rows if row["m"] == method.upper() and row["a"] == alpha]
            trials = report.curves.of_trials(metric, method, alpha)
            mean, error = trials.mean(axis=1), standard_error(trials)
            close([row["T"] for row in own], report.curves.temperatures)
            close([row["v"] for row in own], mean)
            close([row["lo"] for row in own], mean - 2 * error)
            close([row["hi"] for row in own], mean + 2 * error)
    json.dumps(charts, allow_nan=False)


def test_a_level_of_many_digits_finds_its_rows():
    """The page sets the signals to the numbers as they are: rows with rounded ones would not be drawn."""
    known, fresh = rows_of(900, 5, seed=7).split(600)
    report = build_report(ts.TwoTemperaturePredictor(alpha="1/7").fit(known), fresh, trials=2)
    spec = all_charts(report)["trade-top_coverage_gap"]
    signals = {param["name"]: param["value"] for param in spec["params"]}
    assert signals["level"] == 1 / 7
    assert {row["a"] for row in spec["datasets"]["curves"]} == set(report.curves.alphas)
    assert {row["T"] for row in spec["datasets"]["curves"]} == set(report.curves.temperatures.tolist())
    for kind in ("rect", "rule"):  # the noise floor
        assert signals["level"] in [row.get("a") for row in values(spec, layers(spec, kind)[0])]


def test_the_trade_off_marks_its_temperatures_and_the_noise_floor(made):
    predictor, fresh, _, charts = made
    spec = charts["trade-top_coverage_gap"]
    marks = {}
    for row in values(spec, layers(spec, "text")[0]):
        marks |= dict.fromkeys(row["n"].split(", "), row["T"])
    wanted = {"T = 1": 1.0, "T*": predictor.temperature_, "T\u0302": predictor.temperature_sets_}
    wanted |= {"theory": ts.theory.critical_temperature(32)}
    if predictor.choice_.peak is not None:
        wanted["T_c"] = predictor.choice_.peak
    assert marks == pytest.approx(wanted, rel=1e-5)
    half = np.ceil(np.bincount(fresh.labels, minlength=32) / 2).astype(int)
    for row in values(spec, layers(spec, "rect")[0]):
        floor = noise_floor_of_counts(half, row["a"])
        close([row["v"], row["hi"]], [floor.top_mean, floor.top_95])


@pytest.fixture(scope="module")
def protecting(made):
    """The same rows, with a choice made by hand."""
    _, _, report, _ = made
    choice = made_choice(report.document.temperature_sets)
    return choice, all_charts(replace(report, document=of_choice(report.document, choice)))


@pytest.mark.parametrize("metric", ["worst_tenth", "class_gap"])
def test_the_frontier_draws_every_setting_with_its_intervals_and_joins_the_front(protecting, metric):
    choice, charts = protecting
    spec = charts[f"frontier-{metric}"]
    every = [one.outlook for one in settings_of(choice)]
    rows = values(spec, layers(spec, "point")[0])
    close([row["s"] for row in rows], [at.size for at in every])
    close([row["v"] for row in rows], [getattr(at, metric) for at in every])
    close([[row["lo"], row["hi"]] for row in rows], [getattr(at, f"{metric}_ends") for at in every])
    reach = [at.reach * at.size_error for at in every]
    close([row["right"] - row["s"] for row in rows], reach)
    close([row["s"] - row["left"] for row in rows], reach)
    assert [row["t"] for row in rows] == [at.setting.title for at in every]
    line = values(spec, layers(spec, "line")[0])
    kept = front(every, metric)
    close([row["s"] for row in line], [at.size for at in kept])
    close([row["v"] for row in line], [getattr(at, metric) for at in kept])
    ring = values(spec, layers(spec, "point")[1])
    assert [row["t"] for row in ring] == [choice.setting.title]
    tips = {tip["title"] for tip in layers(spec, "point")[0]["encoding"]["tooltip"]}
    assert {"setting", "labels in a set", "coverage of the worst tenth of classes", "class gap"} <= tips


@pytest.mark.parametrize("metric", ["worst_tenth", "class_gap"])
def test_a_sentence_stands_in_for_the_frontier(protecting, metric):
    choice, charts = protecting
    told = charts[f"frontier-{metric}"]["description"]
    for one in alternatives(choice):
        assert f"{one.name}: {one.outlook.size:.2f} and {getattr(one.outlook, metric):.3f}" in told


def test_empty_sets_are_drawn_by_confidence_for_t_1_and_the_recommendation(protecting):
    choice, charts = protecting
    rows = charts["missed"]["layer"][0]["data"]["values"]
    for name, at in (("T = 1 (RAPS)", choice.outlooks[0]), ("recommended", choice.outlook)):
        close([row["v"] for row in rows if row["w"] == name], at.misses.empty)
    assert [row["f"] for row in rows[:5]] == ["least", "2nd", "3rd", "4th", "most"]


def test_without_a_frontier_there_are_no_charts_of_it_and_of_misses(made):
    report = made[2]
    bare = of_choice(report.document, made_choice(report.document.temperature_sets, frontier=()))
    assert not any(name.startswith(("frontier", "missed")) for name in all_charts(replace(report, document=bare)))


def test_where_no_set_is_empty_there_is_no_chart_of_empty_sets(made):
    report, choice = made[2], made_choice(made[2].document.temperature_sets)
    chosen = choice.outlook
    none = msgspec.structs.replace(choice, outlooks=(chosen, chosen, chosen))
    full = replace(report, document=of_choice(report.document, none))
    assert "missed" not in all_charts(full)


def test_size_against_gap_has_a_point_for_each_temperature_and_the_ring_at_t_hat(made):
    predictor, _, report, charts = made
    spec = charts["size-gap"]
    rows = values(spec, layers(spec, "line")[0])
    curves = [*((report.curves, m, m.upper()) for m in ("raps", "lac", "aps"))]
    for sweep, method, name in [*curves, (report.conditional, "raps", "RAPS, Mondrian")]:
        own = [row for row in rows if row["m"] == name]
        close([row["T"] for row in own], sweep.temperatures)
        close([row["s"] for row in own], sweep.curve("avg_size", method, 0.1))
        close([row["g"] for row in own], sweep.curve("top_coverage_gap", method, 0.1))
    ring = values(spec, layers(spec, "point")[1])
    close([row["T"] for row in ring], [predictor.temperature_sets_])


def test_reliability_and_confidence_draw_the_bins(made):
    predictor, fresh, _, charts = made
    for i, probs in enumerate((probabilities(fresh, 1.0), predictor.predict_proba(fresh))):
        bins = reliability_table(probs, fresh.labels, 10)
        used = bins.count > 0
        rows = values(charts[f"reliability-{i}"], layers(charts[f"reliability-{i}"], "bar")[0])
        close([row["c"] for row in rows], bins.confidence[used])
        close([row["acc"] for row in rows], bins.accuracy[used])
        close([row["lo"] for row in rows], bins.edges[:-1][used])
        rows = values(charts[f"confidence-{i}"], layers(charts[f"confidence-{i}"], "bar")[0])
        close([row["n"] for row in rows], bins.count)


def test_the_strip_has_every_class_by_coverage_and_says_how_many_are_low(made):
    predictor, fresh, _, charts = made
    coverage = ts.metrics.class_coverage(predictor.predict_set(fresh), fresh.labels).coverage
    rows = values(charts["strip"], layers(charts["strip"], "rect")[0])
    close([row["c"] for row in rows], np.sort(coverage[np.isfinite(coverage)]))
    close([row["c"] for row in rows], [coverage[int(row["n"])] for row in rows])
    (told,) = values(charts["strip"], layers(charts["strip"], "text")[0])
    low = np.count_nonzero(coverage < 0.9)
    assert (told["i"], told["n"]) == (low, f"{low} of {len(rows)} classes below 0.9")


def test_sizes_count_the_sets(made):
    predictor, fresh, _, charts = made
    sets = predictor.predict_set(fresh)
    rows = charts["sizes"]["layer"][0]["data"]["values"]
    drawn = {int(row["w"]): row["n"] for row in rows if row["n"]}
    assert drawn == {s: n for s, n in enumerate(np.bincount(sets.sum(axis=1)).tolist()) if n}


@pytest.mark.parametrize("by", ["size", "confidence"])
def test_parts_draw_the_strata_with_intervals(made, by):
    predictor, fresh, _, charts = made
    sets, labels = predictor.predict_set(fresh), fresh.labels
    confidence = predictor.predict_proba(fresh).max(axis=1)
    table = (
        size_stratified_coverage(sets, labels)
        if by == "size"
        else confidence_stratified_coverage(sets, labels, confidence)
    )
    used = table.count > 0
    rows = values(charts[f"parts-{by}"], layers(charts[f"parts-{by}"], "point")[0])
    low, high = clopper_pearson(table.hits[used], table.count[used])
    close([row["c"] for row in rows], table.coverage[used])
    close([row["lo"] for row in rows], low)
    close([row["hi"] for row in rows], high)
    assert [row["n"] for row in rows] == table.count[used].tolist()
    (line,) = values(charts[f"parts-{by}"], layers(charts[f"parts-{by}"], "rule")[-1])
    assert line == {"lo": 0.9}


def test_of_very_many_parts_the_least_covered_are_drawn_and_low_ones_stand_out():
    rows = np.full(60, 1000)
    hits = np.where(np.arange(60) % 2, 900, 400) - np.arange(60)
    chart = coverage_of_parts([f"group {i}" for i in range(60)], yardstick(rows, hits, 0.9), title="group", lowest=0.3)
    drawn = values(chart, layers(chart, "point")[0])
    assert len(drawn) == MOST_PARTS
    least = np.sort(np.argsort(hits)[:MOST_PARTS])
    assert [row["s"] for row in drawn] == [f"group {i}" for i in least]
    assert {row["s"] for row in drawn if row["f"] == "low"} >= {f"group {i}" for i in range(0, 60, 2)}


@pytest.mark.filterwarnings("ignore:no calibration row belongs to class")
def test_very_many_sizes_share_bars_and_none_is_lost():
    known, fresh = rows_of(1200, 150, seed=8).split(800)
    flat = ts.Logits(known.logits * 0.02, known.labels), ts.Logits(fresh.logits * 0.02, fresh.labels)
    predictor = ts.TwoTemperaturePredictor("aps").fit(flat[0])
    rows = all_charts(build_report(predictor, flat[1], trials=2))["sizes"]["layer"][0]["data"]["values"]
    assert len(rows) <= 60
    sizes = predictor.set_sizes(flat[1])
    for row in rows:
        first, _, last = row["w"].partition(" to ")
        assert row["n"] == np.count_nonzero((sizes >= int(first)) & (sizes <= int(last or first)))
    assert sum(row["n"] for row in rows) == len(sizes)


def test_the_map_of_pairs_is_symmetric_and_counts_sets(made):
    predictor, fresh, report, charts = made
    sets = predictor.predict_set(fresh)
    rows = charts["pairs"]["layer"][0]["data"]["values"]
    cells = {(int(row["a"]), int(row["b"])): row["n"] for row in rows}
    assert all(cells[b, a] == n == np.sum(sets[:, a] & sets[:, b]) for (a, b), n in cells.items())
    best = report.sets.pairs[0]
    assert cells[best.first, best.second] == max(cells.values())
