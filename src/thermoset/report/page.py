"""The page: a template filled with a report's numbers."""

import base64
import io
import math
import os
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Bools, Floats
from thermoset.io.files import need
from thermoset.levels import exact_level
from thermoset.metrics import METRICS
from thermoset.monitor.report import CoverageTable
from thermoset.quoting import printable
from thermoset.report import charts, set_charts
from thermoset.report.record import Examples, Report
from thermoset.report.shell import along, bar_start, fill_template, markup, number, page_file, shorten, write_html
from thermoset.report.words import SCORE_WORDS, words
from thermoset.sweeping import standard_error
from thermoset.tuning.choice import alternatives, front_titles, is_stricter, tells_setting

_SHOWN_LABELS = 8  # of a set, and the true one; the others are counted
_SWEPT = ("avg_size", "marginal_coverage", "top_coverage_gap", "avg_coverage_gap", "threshold", "empty_share")
_TITLES = {name: METRICS[name].title for name in _SWEPT}


def write_page(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page to a file, whole or not at all."""
    write_html(path, "a report", lambda: render_page(report))


def render_page(report: Report) -> str:
    """The page as HTML: self-contained, it asks for nothing over a network."""
    return fill_template(
        "report.html",
        ("slider.js",),
        words(report),
        report=report,
        title=shorten(printable(report.name), f"{len(report.name):,} letters"),
        document=report.document,
        came=report.document.provenance,
        choice=report.document.choice,
        over=report.document.choice.words,
        headline=_headline(report),
        drawing=_drawing(report),
        measures={measure.name: measure for measure in report.document.measures},
        charts=charts.all_charts(report),
        panels=charts.TRADE_OFF,
        titles=_TITLES,
        series=charts.series_names(report),
        legend=charts.legend(report),
        instead=alternatives(report.document.choice),
        fronts=front_titles(report.document.choice),
        missed=report.with_misses,
        fifths=charts.FIFTHS,
        stricter=is_stricter(report.document.choice),
        whole_setting=tells_setting(report.document.choice),
        promised=float(1 - exact_level(report.document.choice.alpha)),
        level=lambda alpha: float(exact_level(alpha)),
        parts=list(_parts(report)),
        part_gaps=[(set_charts.PART_TITLES[of.by], of) for of in report.check.parts.gaps],
        classes=_coverage_record(report.check.classes, report.class_name, report.sets.class_sizes),
        groups=_groups(report),
        group_note=report.check.group_sentence if report.check.group_sentence in report.check.notes else None,
        kind=report.document.grouping,
        strip_from=set_charts.HEAT_STRIP_FROM,
        table=list(_sweep_rows(report)),
        slider=_slider(report),
        at_hat=_at_hat(report),
        examples=list(_examples(report)),
        picture=_picture,
    )


def _headline(report: Report) -> Any:
    """What one gets, before how: labels in a set, how often it holds the truth, and how often for hard classes."""
    seen, outlook = report.check, report.document.choice.outlook
    hard: Any = ""
    if outlook.worst_tenth is not None and not report.document.is_moved:
        tenth = number("head.worst_tenth", 100 * outlook.worst_tenth, ".0f")
        hard = markup("; in the hardest tenth of {}, about {} times").format(report.document.choice.words.many, tenth)
    size, coverage = (
        number("head.size", seen.avg_size, ".1f"),
        number("head.coverage", 100 * seen.marginal.coverage, ".0f"),
    )
    return markup("Sets of {} labels on average hold the true label {} times in 100{}.").format(size, coverage, hard)


def _drawing(report: Report) -> Any:
    """The two branches, with the temperatures and the score of this predictor."""
    document, name = report.document, report.document.recipe.method.name
    kind = document.grouping
    to_whom = "rows" if kind is None or not kind.exact else f"each {kind.unit.split()[0]}"
    score, covered = f"{name.upper()} score" if name in SCORE_WORDS else "score", f"{1 - report.alpha:.4g} of {to_whom}"
    return markup(
        guideline(f"T* = {document.temperature:.2f}", f"T\u0302 = {document.temperature_sets:.2f}", score, covered)
    )


class _Covered(NamedTuple):
    """Classes or groups, the least covered first, those without rows last, with what the template shows of them."""

    table: CoverageTable
    order: list[int]
    low: set[int]
    name: Callable[[int], str]
    sizes: Floats
    bar_from: float
    along: Callable[[float], str]


def _coverage_record(table: CoverageTable, name: Callable[[int], str], sizes: Floats) -> _Covered:
    start = bar_start(table.low)
    return _Covered(table, table.order, set(table.under_covered.tolist()), name, sizes, start, partial(along, start))


def _groups(report: Report) -> _Covered | None:
    """Groups that have rows; None without groups."""
    table, sizes = report.check.groups, report.sets.group_sizes
    if table is None or sizes is None:
        return None
    covered = _coverage_record(table, report.group_name, sizes)
    return covered._replace(order=[i for i in covered.order if table.rows[i]])


def _parts(report: Report) -> Any:
    """Parts of the rows: whether they are covered too little, what they are called, and their columns of the table."""
    parts, table = report.check.parts, report.check.parts.table
    columns = (table.rows, table.hits, table.coverage, table.low, table.high, table.p_holm)
    flagged = set(table.under_covered.tolist())
    for i, row in enumerate(zip(parts.phrases, *(c.tolist() for c in columns), strict=True)):
        yield i in flagged, *row


def _sweep_rows(report: Report) -> Any:
    """The predictor's own curve at its alpha: temperature, then each metric with two standard errors."""
    sweep = report.own
    curves = {}
    for metric in _TITLES:
        trials = sweep.of_trials(metric, sweep.methods[0], report.alpha)
        curves[metric] = list(zip(trials.mean(axis=-1).tolist(), (2 * standard_error(trials)).tolist(), strict=True))
    for i, t in enumerate(sweep.temperatures.tolist()):
        yield t, {metric: pairs[i] for metric, pairs in curves.items()}


def _at_hat(report: Report) -> dict[str, float]:
    """What the slider shows at T-hat, which tiles show of the predictor itself."""
    sweep = report.own
    place = sweep.temperatures.tolist().index(report.document.temperature_sets)
    return {
        metric: float(sweep.curve(metric, sweep.methods[0], report.alpha)[place])
        for metric in ("avg_size", "top_coverage_gap")
    }


def _slider(report: Report) -> dict[str, Any]:
    """What the script needs to show any temperature and level."""
    sweep, shown = report.own, report.examples
    sets = [
        [[_set_to_show(shown, i, members[i]) for members in at_alpha] for at_alpha in np.moveaxis(shown.swept, 1, 0)]
        for i in range(len(shown.rows))
    ]
    used = {y for of_row in sets for at_alpha in of_row for listed in at_alpha for y in listed[1:]}
    return {
        "temperatures": sweep.temperatures.tolist(),
        "alphas": list(sweep.alphas),
        "alpha": report.alpha,
        "hat": report.document.temperature_sets,
        "titles": _TITLES,
        "metrics": {
            metric: [
                [float(x) if math.isfinite(x) else None for x in sweep.curve(metric, sweep.methods[0], alpha)]
                for alpha in sweep.alphas
            ]
            for metric in _TITLES
        },
        "names": {y: report.short_name(y) for y in sorted(used)},
        "truth": shown.labels.tolist(),
        "sets": sets,
    }


def _set_to_show(shown: Examples, i: int, members: Bools) -> list[int]:
    """Size of a set of example i, then its likeliest labels in order, and the true one if it is a member."""
    ranked = shown.order[i][members[shown.order[i]]].tolist()
    truth = [int(shown.labels[i])]
    late = truth if truth[0] in ranked[_SHOWN_LABELS:] else []
    return [len(ranked), *ranked[:_SHOWN_LABELS], *late]


def _examples(report: Report) -> Any:
    """Example rows with what they show."""
    shown = report.examples
    columns = shown.rows.tolist(), shown.labels.tolist(), shown.predicted.tolist(), shown.confidence.tolist()
    for i, (row, truth, predicted, confidence) in enumerate(zip(*columns, strict=True)):
        sets = {name: _set_to_show(shown, i, members[i]) for name, members in shown.named.items()}
        facts = {"row": row, "truth": truth, "predicted": predicted, "confidence": confidence, "sets": sets}
        yield facts | {"image": shown.images[i]}


def _picture(image: NDArray[np.generic]) -> str:
    """A 2-d array as a PNG to be put into the page: True is ink; other arrays are grey levels from 0 to 255."""
    pixels = np.where(image, 0, 255) if image.dtype == np.bool_ else np.asarray(image)
    stream = io.BytesIO()
    need("PIL.Image", "report", "a page with pictures").fromarray(pixels.astype(np.uint8)).save(stream, "PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def guideline(
    star: str = "T*", hat: str = "T\u0302", score: str = "score", coverage: str = "1 \u2212 \u03b1 of rows"
) -> str:
    """The paper's guideline as SVG that stands alone: the same logits, one temperature for confidence, one for sets.

    Where a page has colours of its own it takes those.

    >>> drawing = guideline("T* = 1.23", score="RAPS score")
    >>> "\u00f7 T* = 1.23</text>" in drawing, "RAPS score</text>" in drawing
    (True, True)
    """
    filled = {"star": star, "hat": hat, "score": score, "coverage": coverage}
    return page_file("guideline.svg").format(**{name: escape(text) for name, text in filled.items()})
