"""The page as a reader sees it: headless, offline, and every number compared with the library's."""

import json

import numpy as np
import pytest

from thermoset.calibration import probabilities
from thermoset.metrics import (
    brier_score,
    class_coverage,
    clopper_pearson,
    expected_calibration_error,
    marginal_coverage,
    negative_log_likelihood,
    reliability_table,
    size_stratified_coverage,
)
from thermoset.theory import critical_temperature

WINDOWS = ((390, "light"), (390, "dark"), (768, "light"), (2200, "dark"))
METRICS = ("avg_size", "marginal_coverage", "top_coverage_gap", "avg_coverage_gap", "threshold", "empty_share")
READ_DATA = "all => all.map(e => [e.dataset.key, e.getAttribute('value'), e.textContent])"


def numbers(seen):
    """Every number of the page: key to exact value, and what is shown."""
    read = seen.page.eval_on_selector_all("data", READ_DATA)
    keys = [key for key, _, _ in read]
    assert len(keys) == len(set(keys)), "a key names one number"
    return {key: (float(value) if value else np.nan, shown) for key, value, shown in read}


# --- it opens, alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_from_disk_without_a_complaint_or_a_request(opened, glyphs_page, scheme):
    seen = opened(glyphs_page.path, scheme=scheme)
    assert seen.complaints == []
    asked = [url for url in seen.requests if not url.startswith("data:")]
    assert asked == [glyphs_page.path.as_uri()]
    assert seen.page.locator(".chart svg").count() == seen.page.locator(".chart").count() > 10
    seen.shot(f"report-{scheme}", full_page=True)


def test_it_is_small_and_names_no_other_host(glyphs_page):
    text = glyphs_page.path.read_text(encoding="utf-8")
    assert len(text.encode()) < 3_000_000
    assert '<link rel="stylesheet' not in text
    assert 'src="http' not in text


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_nothing_overflows(opened, glyphs_page, width, scheme):
    seen = opened(glyphs_page.path, width=width, scheme=scheme)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    seen.shot(f"report-{width}-{scheme}", full_page=True)


def test_dark_is_dark_and_follows_the_system(opened, glyphs_page):
    seen = opened(glyphs_page.path, scheme="dark")
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    assert seen.page.evaluate(shade) < 3 * 60
    seen.page.emulate_media(color_scheme="light")
    seen.page.wait_for_selector("html[data-drawn=light]")
    assert seen.page.evaluate(shade) > 3 * 200


def test_it_prints(opened, glyphs_page, tmp_path):
    seen = opened(glyphs_page.path)
    seen.page.emulate_media(media="print")
    assert not seen.page.locator("nav.toc").is_visible()
    assert seen.page.locator("table.long tbody tr:visible").count() == 40
    seen.shot("report-print", full_page=True)
    assert seen.page.pdf(path=tmp_path / "report.pdf").startswith(b"%PDF")


# --- names are text -------------------------------------------------------------------------------------------------


def test_hostile_names_are_shown_as_text(opened, hostile_page):
    names = hostile_page.rows.classes
    seen = opened(hostile_page.path)
    assert seen.complaints == []
    assert seen.page.locator("img").count() == 0
    assert seen.page.locator("b[onclick]").count() == 0
    shown = seen.page.locator("table.sortable tbody tr td:first-child").all_text_contents()
    assert sorted(name.removesuffix(" low") for name in shown) == sorted(names)
    assert "<b onclick=alert(3)>val.npz</b>" in seen.page.locator(".eyebrow").text_content()
    chips = set(seen.page.locator(".live-set .chip").all_text_contents())
    assert chips <= set(names)
    seen.shot("report-hostile", full_page=True)


# --- the slider -----------------------------------------------------------------------------------------------------


def readout(seen, metric):
    output = seen.page.locator(f"output[data-metric={metric}]")
    return float(output.get_attribute("data-value")), output.text_content()


def move(seen, place, level):
    seen.page.locator("#slider-t").evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", place)
    seen.page.select_option("#slider-alpha", str(level))


def test_the_slider_shows_the_sweep_table(opened, glyphs_page):
    seen, sweep = opened(glyphs_page.path), glyphs_page.report.own
    for place in (0, 7, 20, len(sweep.temperatures) - 1):
        for level, alpha in enumerate(sweep.alphas):
            move(seen, place, level)
            assert seen.page.locator("#at-temperature").text_content() == f"{sweep.temperatures[place]:.2f}"
            for metric in METRICS:
                value, shown = readout(seen, metric)
                assert value == sweep.curve(metric, "raps", alpha)[place]
                digits = len(shown.rstrip("%").partition(".")[2]) + 2 * shown.endswith("%")
                read = float(shown.rstrip("%")) / (100 if shown.endswith("%") else 1)
                assert abs(read - value) <= 0.5000001 * 10.0**-digits


def test_the_slider_changes_the_example_sets(opened, glyphs_page):
    seen, examples = opened(glyphs_page.path), glyphs_page.report.examples
    for place, level in ((0, 0), (7, 1), (30, 2)):
        move(seen, place, level)
        sets = seen.page.locator(".live-set")
        sizes = [int(sets.nth(i).get_attribute("data-size")) for i in range(sets.count())]
        assert sizes == examples.swept[place, level].sum(axis=1).tolist()
        for i, members in enumerate(examples.swept[place, level]):
            chips = sets.nth(i).locator(".chip").evaluate_all("all => all.map(e => +e.dataset.label)")
            assert all(members[y] for y in chips)
            assert len(chips) == min(members.sum(), 16), "the others are counted"
    seen.page.locator("#examples").scroll_into_view_if_needed()
    seen.shot("report-slider")


def test_the_slider_starts_at_t_hat_and_listens_to_keys(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    temperatures = glyphs_page.report.own.temperatures
    hat = temperatures.tolist().index(glyphs_page.predictor.temperature_sets_)
    assert seen.page.locator("#slider-t").input_value() == str(hat)
    seen.page.focus("#slider-t")
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.locator("#at-temperature").text_content() == f"{temperatures[hat + 1]:.2f}"
    seen.page.get_by_role("button", name="T = 1", exact=True).press("Enter")
    assert seen.page.locator("#at-temperature").text_content() == "1.00"
    assert seen.page.locator("#slider-t").get_attribute("aria-valuetext") == "T = 1.00"


def test_pointing_at_one_panel_reads_all_four(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    seen.page.locator("#chart-trade-avg_size svg").hover(position={"x": 200, "y": 100})
    told = seen.page.locator("#hover-readout")
    told.get_by_text("T = ").wait_for() if told.text_content().startswith("Point") else None
    sweep = glyphs_page.report.own
    t = float(told.text_content().split(":")[0].removeprefix("T = "))
    place = int(np.argmin(np.abs(sweep.temperatures - t)))
    assert f"{sweep.curve('avg_size', 'raps', 0.1)[place]:.2f} labels" in told.text_content()
    lit = """all => all.map(svg => [...svg.querySelectorAll('.mark-symbol path')]
                                   .filter(dot => dot.getAttribute('opacity') === '1').length)"""
    seen.page.wait_for_timeout(100)
    assert seen.page.eval_on_selector_all("[id^=chart-trade-] svg", lit) == [3, 3, 3, 3]
    seen.page.locator("#chart-trade-avg_size svg").click(position={"x": 200, "y": 100})
    assert seen.page.locator("#at-temperature").text_content() == f"{sweep.temperatures[place]:.2f}"
    seen.shot("report-hover")


# --- the table of classes -------------------------------------------------------------------------------------------


def test_columns_sort_both_ways(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    for heading, column in (("rows", 5), ("labels in a set", 6), ("coverage", 1), ("p (Holm)", 7)):
        sorts(seen, heading, column)


def sorts(seen, heading, column):
    button = seen.page.locator("table.sortable thead").get_by_role("button", name=heading, exact=True)
    read = f"rows => rows.map(r => r.cells[{column}].querySelector('data').value)"

    def values():
        return [float(v) for v in seen.page.eval_on_selector_all("table.sortable tbody tr", read) if v]

    first = sorted(values())
    seen.page.locator("table.sortable thead").get_by_role("button", name="class", exact=True).click()
    button.click()
    assert values() == first
    button.press("Enter")
    assert values() == first[::-1]
    assert seen.page.locator("th[aria-sort=descending]").text_content() == heading


def test_the_least_covered_class_comes_first(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    coverage = class_coverage(glyphs_page.predictor.predict_set(glyphs_page.rows), glyphs_page.rows.labels).coverage
    name = seen.page.locator("table.sortable tbody tr td:first-child").first.text_content()
    assert coverage[glyphs_page.rows.classes.index(name)] == np.nanmin(coverage)


# --- readers who do not see ------------------------------------------------------------------------------------------


def test_charts_have_text_and_controls_have_names(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    told = seen.page.eval_on_selector_all(".chart", "all => all.map(e => e.getAttribute('aria-label'))")
    assert all(text and len(text) > 20 for text in told)
    assert seen.page.get_by_label("T =").count() >= 1
    unnamed = "all => all.filter(e => !e.textContent.trim()).length"
    assert seen.page.eval_on_selector_all("button, a", unnamed) == 0
    assert seen.page.eval_on_selector_all("img", "all => all.filter(e => !e.alt).length") == 0


# --- every number ---------------------------------------------------------------------------------------------------


def expected(page, judged):
    """The numbers of the page, from the library's functions; not from the record behind the page."""
    predictor, report = page.predictor, page.report
    labels, sets = judged.labels, predictor.predict_set(judged)
    made = predictor.artifact_
    check = predictor.check(judged)
    law = next(m for m in made.measures if m.name == "coverage")
    found = {
        "n_classes": judged.n_classes,
        "rows": len(judged),
        "rows.again": len(judged),
        "temperature": predictor.temperature_,
        "temperature.tile": predictor.temperature_,
        "temperature_sets": predictor.temperature_sets_,
        "temperature_sets.tile": predictor.temperature_sets_,
        "coverage.law": law.value,
        "coverage.law.again": law.value,
        "coverage.low": law.low,
        "coverage.low.again": law.low,
        "coverage.high": law.high,
        "coverage.high.again": law.high,
        "coverage.seen": marginal_coverage(sets, labels),
        "coverage.hits": int(sets[np.arange(len(sets)), labels].sum()),
        "coverage.rows": len(judged),
        "coverage.allowed.low": check.marginal.allowed.low,
        "coverage.allowed.high": check.marginal.allowed.high,
        "spread.low": predictor.choice_.spread[0],
        "spread.high": predictor.choice_.spread[1],
        "avg_size": sets.sum(axis=1).mean(),
        "empty_share": (sets.sum(axis=1) == 0).mean(),
        "top_gap": check.top_gap,
        "floor.top_mean": check.floor.top_mean,
        "floor.top_95": check.floor.top_95,
        "critical": critical_temperature(judged.n_classes),
        "trials": report.curves.trials,
        "conditional.trials": 5,
        "sweep.rows": len(page.rows),
        "sweep.rows.again": len(page.rows),
        "accuracy": (judged.logits.argmax(axis=1) == labels).mean(),
        "confidence": probabilities(judged, predictor.temperature_).max(axis=1).mean(),
        "check.bins": 15,
        "check.ece": expected_calibration_error(probabilities(judged, predictor.temperature_), labels),
        "check.ece_mean": check.calibration.ece_mean,
        "check.ece_p": check.calibration.p_value,
        "classes.tested": np.count_nonzero(np.bincount(labels, minlength=judged.n_classes)),
        "classes.flagged": len(check.classes.under_covered),
        "compared_rows": report.compared_rows,
        "reference_rows": len(page.rows) - report.compared_rows,
        "calibration_rows": made.provenance.calibration_rows,
        "conformal_rows": made.provenance.conformal_rows,
        "conformal_rows.again": made.provenance.conformal_rows,
    }
    return found | of_calibration(predictor, judged) | of_classes(sets, labels, check) | of_record(page, sets)


def of_calibration(predictor, judged):
    found, labels = {}, judged.labels
    for i, t in enumerate((1.0, predictor.temperature_)):
        probs = probabilities(judged, t)
        bins = reliability_table(probs, labels, 10)
        found |= {
            f"calibration.{i}.temperature": t,
            f"calibration.{i}.ece": expected_calibration_error(probs, labels, 10),
            f"calibration.{i}.nll": negative_log_likelihood(probs, labels),
            f"calibration.{i}.brier": brier_score(probs, labels),
            ("ece.before.tile", "ece.after.tile")[i]: bins.ece,
        }
        for b in range(10):
            found |= {f"bins.{i}.{b}.{key}": getattr(bins, key)[b] for key in ("count", "confidence", "accuracy")}
    return found


def of_classes(sets, labels, check):
    found = {}
    classes = class_coverage(sets, labels)
    low, high = clopper_pearson(classes.hits, classes.count)
    for y in range(sets.shape[1]):
        own = sets[labels == y].sum(axis=1)
        found |= {
            f"class.{y}.coverage": classes.coverage[y],
            f"class.{y}.low": low[y],
            f"class.{y}.high": high[y],
            f"class.{y}.rows": classes.count[y],
            f"class.{y}.size": own.mean(),
            f"class.{y}.p_holm": check.classes.p_holm[y],
        }
    strata = size_stratified_coverage(sets, labels)
    low, high = clopper_pearson(strata.hits, strata.count)
    for place, s in enumerate(np.flatnonzero(strata.count)):
        columns = {"rows": strata.count, "hits": strata.hits, "coverage": strata.coverage, "low": low, "high": high}
        found |= {f"stratum.{place}.{key}": column[s] for key, column in columns.items()}
    return found


def of_record(page, sets):
    found, report = {}, page.report
    sweep = report.own
    for i, t in enumerate(sweep.temperatures.tolist()):
        found[f"sweep.{i}.temperature"] = t
        for m, metric in enumerate(METRICS):
            found[f"sweep.{m}.{t}.{metric}"] = sweep.curve(metric, sweep.methods[0], report.alpha)[i]
    for i, pair in enumerate(report.sets.pairs):
        found[f"pair.{i}.{pair.first}.{pair.second}"] = np.sum(sets[:, pair.first] & sets[:, pair.second])
    shown = page.rows.take(report.examples.rows)
    for i, answer in enumerate(page.predictor.predict_records(shown)):
        found[f"example.{i}.confidence"] = answer.confidence
        for name, members in report.examples.named.items():
            found[f"example.{list(report.examples.named).index(name) + 1}.{report.examples.rows[i]}.{name}"] = members[
                i
            ].sum()
    for i, move in enumerate(report.movements):
        found[f"movement.{i}.temperature"] = move.temperature
        for key in ("grown", "same", "shrunk"):
            found[f"movement.{i}.{key}"] = getattr(move, key)
            found[f"movement.{i}.{key}.share"] = getattr(move, key) / report.compared_rows
    return found


def judged_rows(page):
    if page.report.origin == "fresh":
        return page.rows
    came = page.predictor.artifact_.provenance
    return page.rows.split(came.calibration_fraction, random_state=came.random_state)[0]


@pytest.mark.parametrize("name", ["glyphs_page", "hostile_page"])
def test_every_number_is_the_librarys(opened, request, name):
    page = request.getfixturevalue(name)
    read = numbers(opened(page.path))
    wanted = expected(page, judged_rows(page))
    assert set(read) == set(wanted)
    wrong = {
        key: (value, wanted[key])
        for key, (value, _) in read.items()
        if value != pytest.approx(float(wanted[key]), rel=1e-12, abs=1e-15, nan_ok=True)
    }
    assert wrong == {}


@pytest.mark.parametrize("name", ["glyphs_page", "hostile_page"])
def test_what_is_shown_is_the_value_rounded(opened, request, name):
    for key, (value, shown) in numbers(opened(request.getfixturevalue(name).path)).items():
        if np.isnan(value):
            assert shown == "–", key
            continue
        plain = shown.replace(",", "")
        read = float(plain.rstrip("%")) / (100 if plain.endswith("%") else 1)
        digits = len(plain.rstrip("%").partition(".")[2]) + 2 * plain.endswith("%")
        if "e" in plain or key.endswith(("p_holm", "ece_p")):  # two significant digits
            assert read == pytest.approx(value, rel=0.05), key
        else:
            assert abs(read - value) <= 0.5000001 * 10.0**-digits, key


def test_charts_draw_the_sweep(glyphs_page):
    from thermoset.report.charts import all_charts

    spec = all_charts(glyphs_page.report)["trade-avg_size"]
    rows = [row for row in spec["datasets"]["curves"] if row["m"] == "APS" and row["a"] == 0.05]
    curve = glyphs_page.report.curves.curve("avg_size", "aps", 0.05)
    assert [row["v"] for row in rows] == pytest.approx(curve.tolist(), rel=1e-5)
    json.dumps(spec, allow_nan=False)
