"""Every number on the page is the library's, read from the page and computed anew."""

import re

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import binom

import thermoset as ts
from pages import LABELS_SHOWN, METRICS, assert_glossary_opens, is_rounded
from thermoset.calibration import probabilities
from thermoset.levels import exact_level
from thermoset.metrics import (
    brier_score,
    class_coverage,
    classwise_calibration,
    classwise_calibration_error,
    clopper_pearson,
    confidence_stratified_coverage,
    expected_calibration_error,
    marginal_coverage,
    negative_log_likelihood,
    noise_floor_of_counts,
    reliability_table,
    size_stratified_coverage,
)
from thermoset.monitor.check import check_rows, holm
from thermoset.paper.theory import critical_temperature
from thermoset.sweeping import standard_error
from thermoset.tuning.choice import alternatives
from thermoset.tuning.choose import _CARRIED
from thermoset.uniforms import draw_uniforms

pytestmark = pytest.mark.long

every_page = pytest.mark.parametrize(
    "name",
    ["glyphs_page", "hostile_page", "mondrian_page", "two_page", "thousand_page", "protecting_page", "kept_page"],
)


def expected(page):
    """The numbers of the page, from the library's functions; not from the record behind the page."""
    predictor, judged = page.predictor, page.judged
    labels, sets = judged.labels, predictor.predict_set(judged)
    check = check_rows(predictor._inference, judged, labels)
    return {
        **of_head(page, sets, check),
        **of_choice(predictor.choice_),
        **of_instead(predictor.choice_),
        **of_law(predictor),
        **of_calibration(predictor, judged if page.report.origin == "fresh" else halves(page)[0]),
        **of_classes(sets, labels, check),
        **of_parts(page, sets),
        **of_sweep(page),
        **of_pairs(page, sets),
        **of_examples(page),
        **of_movements(page),
    }


def of_head(page, sets, check):
    predictor, judged, report = page.predictor, page.judged, page.report
    made, labels = predictor.document_, judged.labels
    kept = predictor.choice_.signal.tried is not None  # the spread of a guess that was given up says nothing
    spread, peak = None if kept else predictor.choice_.spread, predictor.choice_.peak
    temperatures = {"temperature": predictor.temperature_, "temperature_sets": predictor.temperature_sets_}
    tenth = predictor.choice_.outlook.worst_tenth
    return {
        **{f"{key}{where}": t for key, t in temperatures.items() for where in ("", ".tile")},
        "head.size": sets.sum(axis=1).mean(),
        "head.coverage": 100 * marginal_coverage(sets, labels),
        **({} if tenth is None else {"head.worst_tenth": 100 * tenth}),
        **{f"head.{key}": t for key, t in temperatures.items()},
        **({} if spread is None else {"spread.low": spread[0], "spread.high": spread[1]}),
        **({} if peak is None else {"peak": peak}),
        "n_classes": judged.n_classes,
        "rows": len(judged),
        "rows.again": len(judged),
        "rows.tiles": len(judged),
        "coverage.seen": marginal_coverage(sets, labels),
        "coverage.hits": int(sets[np.arange(len(sets)), labels].sum()),
        "coverage.rows": len(judged),
        "coverage.allowed.low": check.marginal.allowed.low,
        "coverage.allowed.high": check.marginal.allowed.high,
        "avg_size": sets.sum(axis=1).mean(),
        "avg_size.again": sets.sum(axis=1).mean(),
        "empty_share": (sets.sum(axis=1) == 0).mean(),
        "empty_share.again": (sets.sum(axis=1) == 0).mean(),
        "top_gap": check.top_gap,
        "top_gap.again": check.top_gap,
        "conformal_rows.slider": made.provenance.conformal_rows,
        "floor.top_mean": check.floor.top_mean,
        "floor.top_95": check.floor.top_95,
        "critical": critical_temperature(judged.n_classes),
        "trials": report.own.trials,
        "trials.again": report.own.trials,
        "conditional.trials": report.conditional.trials,
        "sweep.rows": len(page.rows),
        "sweep.rows.again": len(page.rows),
        "accuracy": (predictor.predict(judged) == labels).mean(),
        "confidence": predictor.predict_proba(judged).max(axis=1).mean(),
        "check.bins": 15,
        "check.ece": expected_calibration_error(predictor.predict_proba(judged), labels),
        "check.ece_mean": check.calibration.ece_mean,
        "check.ece_p": check.calibration.p_value,
        "classes.tested": np.count_nonzero(np.bincount(labels, minlength=judged.n_classes)),
        "classes.flagged": len(check.classes.under_covered),
        "compared_rows": report.compared_rows,
        "reference_rows": len(page.rows) - report.compared_rows,
        "calibration_rows": made.provenance.calibration_rows,
        "conformal_rows": made.provenance.conformal_rows,
    }


def of_choice(choice):
    """What decided: the table below the lead, and the tile of the class gap; nothing where nothing is known."""
    found = {"decided.rows": choice.n_rows}
    for i, at in enumerate(choice.outlooks):
        shown = {"temperature": at.temperature, "size": at.size, "empty": at.empty_share}
        if at.class_gap is not None:
            shown["class_gap"] = at.class_gap
        if at.class_gap_ends is not None:  # few rows give no interval
            shown |= dict(zip(("class_gap.low", "class_gap.high"), at.class_gap_ends, strict=True))
        if at.worst_tenth is not None:
            low, high = at.worst_tenth_ends
            shown |= {"worst_tenth": at.worst_tenth, "worst_tenth.low": low, "worst_tenth.high": high}
        shown["size.reach"] = at.reach * at.size_error
        if at.top_gap is not None:
            shown["top_gap"] = at.top_gap
            found["decided.floor"] = choice.noise_floor
        found |= {f"decided.{i}.{key}": value for key, value in shown.items()}
    tile = ("class_gap", "class_gap.low", "class_gap.high")
    hat = len(choice.outlooks) - 1
    return found | {
        key.replace("class_gap", "class_gap.tile"): found[f"decided.{hat}.{key}"]
        for key in tile
        if f"decided.{hat}.class_gap.low" in found
    }


def of_instead(choice):
    """The named settings, who pays, and what the head says of the choice; a file without a frontier has none of it."""
    found = {}
    if len(choice.methods) > 1:
        found["methods"] = len(choice.methods)
    if float(choice.setting.alpha) < float(choice.alpha):
        found["promised"] = 1 - float(choice.alpha)
    if choice.signal.tried is not None:
        found["signal.tried"] = choice.signal.tried
    if not choice.frontier:
        return found
    found["instead.rows"] = choice.n_rows
    ordered = [choice.outlook]
    for at in sorted(choice.frontier, key=lambda at: at.size):
        if at.name and at.setting not in [other.setting for other in ordered]:
            ordered.append(at)
    for i, at in enumerate(ordered):
        found |= of_setting(f"instead.{i}.", at)
    missed = [choice.outlooks[0], choice.outlook][choice.outlooks[0].setting == choice.setting :]
    for i, at in enumerate(missed if all(at.misses for at in missed) else []):
        if any(any(other.misses.empty) for other in missed):
            found |= {f"missed.{i}.empty.{fifth}": share for fifth, share in enumerate(at.misses.empty)}
        found |= {f"missed.{i}.left_out": at.misses.left_out}
        found |= {f"missed.{i}.easy": at.misses.easy, f"missed.{i}.worst_tenth": at.worst_tenth}
    return found


def of_setting(key, at):
    """A line of the table of settings: what is not known is a dash, an interval that is not known is not there."""
    pays = at.misses
    shown = {
        "temperature": at.temperature,
        "alpha": float(at.setting.alpha),
        "size": at.size,
        "worst_tenth": at.worst_tenth,
        "class_gap": at.class_gap,
        "easy": None if pays is None else pays.easy,
        "left_out": None if pays is None else pays.left_out,
        "empty": at.empty_share,
    }
    shown["size.reach"] = at.reach * at.size_error
    for metric in ("worst_tenth", "class_gap"):
        ends = getattr(at, f"{metric}_ends")
        shown |= {} if ends is None else {f"{metric}.low": ends[0], f"{metric}.high": ends[1]}
    return {f"{key}{name}": np.nan if value is None else value for name, value in shown.items()}


def of_law(predictor):
    """What is promised: an exact law, at least, or by class."""
    law = next((m for m in predictor.document_.measures if m.name == "coverage"), None)
    if law is None:
        return {"coverage.promised": 1 - float(predictor.alpha)}
    shown = {"coverage.law": law.value}
    if predictor._promise.exact:
        shown |= {"coverage.low": law.low, "coverage.high": law.high}
    again = {f"{key}.again": value for key, value in shown.items()}
    return shown | again | {"conformal_rows.again": predictor.document_.provenance.conformal_rows}


def of_calibration(predictor, judged):
    """Before, after T* alone where there are more steps, and after all of them."""
    made, labels, found = predictor.document_, judged.labels, {}
    stages = [(1.0, probabilities(judged, 1.0))]
    if made.correction is not None or made.confidence_map is not None:
        stages.append((made.plain_temperature, probabilities(judged, made.plain_temperature)))
    stages.append((predictor.temperature_, predictor.predict_proba(judged)))
    for i, (t, probs) in enumerate(stages):
        bins = reliability_table(probs, labels, 10)
        found |= {
            f"calibration.{i}.temperature": t,
            f"calibration.{i}.ece": expected_calibration_error(probs, labels, 10),
            f"calibration.{i}.classwise": classwise_calibration_error(probs, labels),
            f"calibration.{i}.classwise_chance": classwise_calibration(probs, labels).ece_chance,
            f"calibration.{i}.nll": negative_log_likelihood(probs, labels),
            f"calibration.{i}.brier": brier_score(probs, labels),
            "ece.after.tile" if i else "ece.before.tile": bins.ece,
        }
        for b in range(10):
            found |= {f"bins.{i}.{b}.{key}": getattr(bins, key)[b] for key in ("count", "confidence", "accuracy")}
    return found


def of_classes(sets, labels, check):
    found = {}
    classes = class_coverage(sets, labels)
    low, high = (np.where(classes.count, end, np.nan) for end in clopper_pearson(classes.hits, classes.count))
    for y in range(sets.shape[1]):
        own = sets[labels == y].sum(axis=1)
        found |= {
            f"class.{y}.coverage": classes.coverage[y],
            f"class.{y}.low": low[y],
            f"class.{y}.high": high[y],
            f"class.{y}.rows": classes.count[y],
            f"class.{y}.size": own.mean() if len(own) else np.nan,
            f"class.{y}.p_holm": check.classes.p_holm[y],
        }
    return found


def of_parts(page, sets):
    """Coverage by size and by confidence."""
    predictor, judged, labels = page.predictor, page.judged, page.judged.labels
    confidence = predictor.predict_proba(judged).max(axis=1)
    tables = {
        "size": size_stratified_coverage(sets, labels),
        "confidence": confidence_stratified_coverage(sets, labels, confidence),
    }
    counts = {by: (table.count[table.count > 0], table.hits[table.count > 0]) for by, table in tables.items()}
    found = {}
    rows, hits = (np.concatenate([pair[k] for pair in counts.values()]) for k in (0, 1))
    promised = float(1 - exact_level(predictor._promise.alpha))
    p_holm = holm(binom.cdf(hits, rows, promised))
    low, high = clopper_pearson(hits, rows)
    columns = {"rows": rows, "hits": hits, "coverage": hits / rows, "low": low, "high": high, "p_holm": p_holm}
    for place in range(len(rows)):
        found |= {f"part.{place}.{key}": column[place] for key, column in columns.items()}
    for by, (own, hit) in counts.items():
        floor = noise_floor_of_counts(own, predictor._promise.alpha)
        gap = np.abs(hit / own - promised).max()
        found |= {f"part_gap.{by}.gap": gap, f"part_gap.{by}.mean": floor.top_mean, f"part_gap.{by}.p95": floor.top_95}
    flagged = np.count_nonzero((p_holm < 0.001) & (hits / rows < promised))
    return found | {"parts.tested": len(rows), "parts.flagged": flagged}


def of_sweep(page):
    found, report = {}, page.report
    sweep = report.own
    for i, t in enumerate(sweep.temperatures.tolist()):
        found[f"sweep.{i}.temperature"] = t
        for metric in METRICS:
            trials = sweep.of_trials(metric, sweep.methods[0], float(page.predictor.alpha))
            found[f"sweep.{i}.{metric}"] = trials[i].mean()
            found[f"sweep.{i}.{metric}.reach"] = 2 * standard_error(trials[i])
    hat = sweep.temperatures.tolist().index(page.predictor.temperature_sets_)
    shown = {"hat.avg_size": "avg_size", "hat.top_gap": "top_coverage_gap"}
    return found | {key: found[f"sweep.{hat}.{metric}"] for key, metric in shown.items()}


def of_pairs(page, sets):
    """Counts are computed anew for the pairs that are shown; which ones these are, the test of the record says."""
    return {
        f"pair.{i}.{pair.first}.{pair.second}": np.sum(sets[:, pair.first] & sets[:, pair.second])
        for i, pair in enumerate(page.report.sets.pairs)
    }


def halves(page):
    """Rows that set thresholds at other temperatures, and rows that are shown at these."""
    made, known = page.predictor.document_, page.report.origin == "calibration"
    fraction = made.provenance.calibration_fraction if known else 0.5
    parts = page.rows.split(fraction, random_state=made.recipe.random_state)
    return parts[::-1] if known else parts


def sets_at(page, temperature, rows):
    """Sets as the predictor makes them, at T-hat or at another temperature."""
    predictor = page.predictor
    if temperature == predictor.temperature_sets_:
        return predictor.predict_set(rows)
    recipe = predictor.document_.recipe.change(temperature=temperature, alpha=predictor.alpha)
    model = ts.ConformalClassifier.of(recipe)
    reference, seed = halves(page)[0], predictor.document_.recipe.random_state
    model.fit(corrected(predictor, reference), u=draw_uniforms(reference, seed))
    return model.predict_set(corrected(predictor, rows), u=draw_uniforms(rows, seed))


def corrected(predictor, rows):
    """The rows that temperatures divide: V = scale * log softmax(z / T0) + shift, where that was learned."""
    found = predictor.document_.correction
    if found is None:
        return rows
    scale = np.ones(rows.n_classes) if found.scale is None else np.array(found.scale)
    logs = log_softmax(rows.logits.astype(float) / found.temperature, axis=1)
    return ts.Logits(scale * logs + np.array(found.shift), rows.labels, rows.classes, rows.groups)


def named_sets(page):
    """Sets of the example rows at T = 1, T* and T-hat."""
    shown = page.rows.take(page.report.examples.rows)
    at = {name: sets_at(page, t, shown) for name, t in (("T = 1", 1.0), ("T*", page.predictor.temperature_))}
    return at | {"T-hat": page.predictor.predict_set(shown)}


def of_examples(page):
    found, rows = {}, page.report.examples.rows
    sets = named_sets(page)
    for i, answer in enumerate(page.predictor.predict_records(page.rows.take(rows))):
        found[f"example.{i}.row"] = rows[i]
        found[f"example.{i}.confidence"] = answer.confidence
        found |= {f"example.{i}.{name}": members[i].sum() for name, members in sets.items()}
    return found


def of_movements(page):
    found, predictor, compared = {}, page.predictor, halves(page)[1]
    before = sets_at(page, 1.0, compared).sum(axis=1)
    t, hat = predictor.temperature_, predictor.temperature_sets_
    after = ((t, sets_at(page, t, compared)), (hat, predictor.predict_set(compared)))
    for i, (temperature, sets) in enumerate(after):
        change = np.sign(sets.sum(axis=1) - before)
        found[f"movement.{i}.temperature"] = temperature
        for key, sign in (("grown", 1), ("same", 0), ("shrunk", -1)):
            found[f"movement.{i}.{key}"] = np.sum(change == sign)
            found[f"movement.{i}.{key}.share"] = np.mean(change == sign)
    return found


def assert_numbers(page, read):
    """Every number of a page is the library's, and what is shown is the number rounded."""
    wanted = expected(page)
    assert set(read) == set(wanted)
    wrong = {
        key: (value, wanted[key])
        for key, (value, _) in read.items()
        if value != pytest.approx(float(wanted[key]), rel=1e-12, abs=1e-15, nan_ok=True)
    }
    assert wrong == {}
    for key, (value, shown) in read.items():
        if np.isnan(value):
            assert shown == "–", key
        elif "e" in shown or key.endswith(("p_holm", "ece_p")):  # two significant digits
            assert float(shown) == pytest.approx(value, rel=0.05), key
        else:
            assert is_rounded(shown, value), key


@every_page
@pytest.mark.filterwarnings("ignore::thermoset.CoverageWarning")
def test_every_number_is_the_librarys_and_what_is_shown_is_the_number_rounded(opened, request, name):
    page = request.getfixturevalue(name)
    assert_numbers(page, opened(page.path).numbers())


@every_page
def test_no_number_is_written_by_hand(opened, request, name):
    """Numbers in running text are in <data>, or are the level, versions, hashes and names that the next tests read."""
    page = request.getfixturevalue(name)
    loose = """() => {
        const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT), found = [];
        while (walk.nextNode()) {
            const at = walk.currentNode.parentElement;
            if (!at.closest('data, output, .chart, bdi, .chip, .live, .at-temperature, #slider-alpha, code, .more'))
                found.push(walk.currentNode.textContent);
        }
        return found.join(' ');
    }"""
    text = opened(page.path).page.evaluate(loose).replace(ts.__version__, "").replace("SHA-256", "")
    for line in page.predictor.document_.confidence_lines:  # the words of the library
        assert line in text
        text = text.replace(line, "")
    read = {number.rstrip(".,") for number in re.findall(r"(?<![\w.])\d[\d.,]*%?", text)}
    predictor = page.predictor
    level = {str(predictor.alpha), f"{1 - float(predictor.alpha):g}", f"{predictor.temperature_:.3f}"}
    level.add(f"{predictor.document_.plain_temperature:.3f}")
    tenths = {f"{b / 10:.1f}" for b in range(11)} | {f"{b / 10:g}" for b in range(11)}  # bins, ends of the bars
    strata = {"0", "1", "2", "3", "4", "10", "11", "100", "101"}
    words = {"95%", "90%", "95", "0.001", "15", "40", "100", str(predictor.random_state), str(page.rows.n_classes)}
    assert read <= level | tenths | strata | words


# --- words ----------------------------------------------------------------------------------------------------------


@every_page
def test_the_head_is_the_recommendation_and_its_reasons(opened, request, name):
    page = request.getfixturevalue(name)
    seen, predictor = opened(page.path), page.predictor
    t, hat = f"{predictor.temperature_:.2f}", f"{predictor.temperature_sets_:.2f}"
    choice = predictor.choice_
    kind = f"{choice.setting.kind} " if len(choice.methods) > 1 else ""
    make = f"Make {kind}sets at T\u0302 = {hat}" if choice.signal.tried is None else "Keep T = 1 for the sets"
    stricter = "" if choice.setting.alpha == choice.alpha else f" with α\xa0=\xa0{choice.setting.alpha}"
    (head,) = seen.texts("h1")  # for those who use the sets, before those who make them
    sets = predictor.predict_set(page.judged)
    assert f"{sets.sum(axis=1).mean():.1f} labels" in head
    assert f"{100 * marginal_coverage(sets, page.judged.labels):.0f} times in 100" in head
    assert ("hardest tenth" in head) is (choice.outlook.worst_tenth is not None)
    assert seen.texts(".lead.make") == [f"{make}{stricter} and read confidence at T* = {t}."]
    told = [text.replace("T\u0302", "T-hat").replace("Tc", "T_c") for text in seen.texts(".lead.why, .reasons li")]
    assert told == list(predictor.choice_.sentences)


@every_page
def test_what_decided_stands_right_below_the_recommendation(opened, request, name):
    page = request.getfixturevalue(name)
    seen, choice = opened(page.path), page.predictor.choice_
    assert seen.texts(".lead + .decided .by tbody th") == ["T = 1", "T*", "T\u0302"]
    gap_known, top_known = choice.outlook.class_gap is not None, choice.outlook.top_gap is not None
    tenth_known = choice.outlook.worst_tenth is not None
    columns = ["sets at", "T", *["class gap"] * gap_known, *["worst tenth"] * tenth_known, "labels", "empty"]
    assert seen.texts(".decided .by thead th") == [*columns, *["TopCovGap"] * top_known]
    left_out = f"fewer than {_CARRIED} of these rows"
    assert (left_out in seen.texts("#about-decided")[0]) is not top_known
    tiles = seen.texts(".tile > span")
    assert tiles[-1] == "TopCovGap on these rows"
    assert (tiles[-2] == "Class gap at T\u0302") is (choice.outlook.class_gap_ends is not None)


@every_page
def test_what_one_could_have_instead_is_named_with_the_recommended_setting_first(opened, request, name):
    page = request.getfixturevalue(name)
    seen, choice = opened(page.path), page.predictor.choice_
    told = [text.replace("T\u0302", "T-hat") for text in seen.texts("#instead .settings tbody th")]
    if not choice.frontier:
        assert told == seen.texts("#instead") == seen.texts("a[href='#instead']") == []
        return
    assert told[0].startswith("recommended")
    for one, text in zip(alternatives(choice), told, strict=True):
        at = one.outlook.setting
        level = f"{float(exact_level(at.alpha)):g}"
        assert text == f"{one.name}{at.kind}, T = {at.temperature:.2f}, α = {level}"
    assert seen.texts("#instead .settings tr.chosen th")[0].replace("T\u0302", "T-hat") == told[0]


def test_the_head_says_the_score_and_the_level_where_they_were_chosen_too(opened, protecting_page):
    seen = opened(protecting_page.path)
    assert seen.texts(".tile.hat small")[0] == "LAC, α = 0.06; promised: 0.9"
    line = next(text for text in seen.texts("header .hint") if text.startswith("Sets: "))
    assert "LAC, α = 0.06 (stricter than the promised 0.1), chosen among 3 kinds of sets, prefer small" in line


def test_where_rows_cannot_tell_the_page_says_keep_t_1(opened, kept_page):
    seen = opened(kept_page.path)
    assert seen.texts(".tile.hat b") == ["Keep T\xa0=\xa01"]
    assert seen.texts(".tile.hat small") == ["the best guess, 2.30, is not clearly better"]
    (line,) = seen.texts("p.make")
    assert line.startswith("Keep T = 1 ")


@every_page
def test_every_term_is_explained_one_click_away(opened, request, name):
    page = request.getfixturevalue(name)
    seen, choice = opened(page.path), page.predictor.choice_
    terms = [text.replace("T\u0302", "T-hat").replace("Tc", "T_c") for text in seen.texts("#words dt")]
    assert len(terms) == len(set(terms)) == seen.page.locator("#words dd").count()
    assert terms[: len(choice.legend)] == [term for term, _ in choice.legend]
    assert {"\u03b1", page.predictor.document_.recipe.method.name.upper(), "TopCovGap", "ECE", "NLL"} <= set(terms)
    assert_glossary_opens(seen)
    used = seen.page.locator("main .term, header .term").evaluate_all(
        "all => all.map(e => e.getAttribute('popovertarget'))"
    )
    assert len(used) > 8
    for place in set(used):
        assert len(seen.page.locator(f"#{place}").text_content()) > 30


def test_a_term_shows_its_meaning_where_it_stands(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    term = seen.page.locator(".tile .term").first
    assert term.text_content() == "ECE"
    term.press("Enter")
    shown = seen.page.locator("#word-ece")
    assert shown.is_visible()
    assert "how far confidence is from accuracy" in shown.text_content()
    seen.page.keyboard.press("Escape")
    assert not shown.is_visible()


@every_page
def test_it_says_how_it_was_made(opened, request, name):
    page = request.getfixturevalue(name)
    seen, came = opened(page.path), page.predictor.document_.provenance
    made = seen.page.locator("#made").text_content()
    assert seen.texts("#made .kv code") == [came.calibration_sha256, came.conformal_sha256, page.report.data_sha256]
    assert f"thermoset {came.version}, seed {page.predictor.document_.recipe.random_state}" in made
    assert f"made by thermoset {ts.__version__}" in made
    assert "exchangeable" in made
    by_class = page.predictor.grouping is not None
    assert ("For new rows of a class" in made) is by_class
    assert ("Coverage of each class" in made) is not by_class


def shown_name(page, y):
    return str(y) if page.rows.classes is None else page.rows.classes[y]


@pytest.mark.parametrize("name", ["glyphs_page", "mondrian_page", "two_page"])
def test_examples_are_the_rows_and_their_sets(opened, request, name):
    page = request.getfixturevalue(name)
    seen, rows = opened(page.path), page.report.examples.rows
    data, sets = page.rows.take(rows), named_sets(page)
    logits = corrected(page.predictor, data).logits
    top = logits.argmax(axis=1)
    for i in range(len(rows)):
        card = seen.page.locator(".example").nth(i)
        names = card.locator(".who bdi").all_text_contents()
        assert names == [shown_name(page, data.labels[i]), shown_name(page, top[i])]
        order = np.argsort(-logits[i], kind="stable")
        for at, members in sets.items():
            chips = card.locator(f"dd[data-at='{at}'] .chip")
            read = chips.evaluate_all("all => all.map(e => [+e.dataset.label, e.textContent])")
            inside = [int(y) for y in order if members[i, y]]
            late = [y for y in inside[LABELS_SHOWN:] if y == data.labels[i]]
            assert read == [[y, shown_name(page, y)] for y in inside[:LABELS_SHOWN] + late]
            ticked = card.locator(f"dd[data-at='{at}'] .chip.truth").count()
            assert ticked == members[i, data.labels[i]]


@pytest.mark.parametrize("name", ["glyphs_page", "two_page"])
def test_names_stand_beside_their_numbers(opened, request, name):
    page = request.getfixturevalue(name)
    seen, sets = opened(page.path), page.predictor.predict_set(page.judged)
    pairs = page.report.sets.pairs
    assert [text.rpartition(":")[0] for text in seen.texts(".pairs li")] == [
        f"{shown_name(page, pair.first)} and {shown_name(page, pair.second)}" for pair in pairs
    ]
    keys = "rows => rows.map(r => [r.querySelector('bdi').textContent, r.querySelector('data').dataset.key])"
    for text, key in seen.page.eval_on_selector_all("table.sortable tbody tr", keys):
        assert text == shown_name(page, int(key.split(".")[1]))
    first = seen.page.eval_on_selector_all("#beyond details tbody bdi", "all => all.map(e => e.textContent)")
    sizes = sets.sum(axis=1)
    spans = {"0 to 1": (0, 1), "2 to 3": (2, 3), "4 to 10": (4, 10), "11 to 100": (11, 100)}
    held = [text for text, (low, high) in spans.items() if np.any((sizes >= low) & (sizes <= high))]
    confidence = page.predictor.predict_proba(page.judged).max(axis=1)
    table = confidence_stratified_coverage(sets, page.judged.labels, confidence)
    ends = [f"{low:.3f} to {high:.3f}" for low, high, n in zip(table.low, table.high, table.count, strict=True) if n]
    wanted = [*(f"sets of {text} labels" for text in held), *(f"confidence {text}" for text in ends)]
    assert first == wanted
