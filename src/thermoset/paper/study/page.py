"""The folder a study leaves: one page that can be sent, tables as csv and LaTeX, figures as PNG and PDF, one document.

`index.html` has every figure beside the tables it belongs to, `cells.csv` every cell, `study.json` every number and
setting.
"""

import base64
import html
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thermoset._version import __version__
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.io import files_of
from thermoset.io.files import check_folder, check_targets, write_all
from thermoset.levels import exact_level
from thermoset.paper.study.cells import Cell
from thermoset.paper.study.claims import Claim
from thermoset.paper.study.figures import captions, drawn_figures, figure_1
from thermoset.paper.study.measure import Way
from thermoset.paper.study.pairs import PairStudy
from thermoset.paper.study.row_by_row import LowTemperatures, SizeDifferences
from thermoset.paper.study.tables import KEY, Section, paper_tables, study_sections
from thermoset.report.glossary import GLOSSARY_BUTTON, glossary_html
from thermoset.report.shell import page_file
from thermoset.report.words import study_words
from thermoset.sweeping import Sweep, median_of_means, standard_error
from thermoset.text_tables import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLE = "Temperature scaling and conformal prediction"
_LOOKS = (
    "In every figure LAC is blue with circles, APS orange with squares, RAPS green with triangles. Where curves "
    "coincide, their marks alternate."
)
_NARROW = (
    "reliability",
    "differences",
    "margins",
    "last-index",
    "bound",
    "bound-share",
)  # two of them fit beside each other


def study_page(
    studies: Sequence[PairStudy],
    sections: Sequence[Section],
    figures: Mapping[str, bytes],
    skipped: Mapping[str, str],
) -> str:
    """The page; `figures` holds the PNG files by path within the folder."""
    return "".join(_page(studies, sections, figures, skipped))


def _page(
    studies: Sequence[PairStudy],
    sections: Sequence[Section],
    figures: Mapping[str, bytes],
    skipped: Mapping[str, str],
) -> Iterator[str]:
    settings = studies[0].settings
    yield "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    style = page_file("study.css") + page_file("shared.css")
    yield f"<title>{_TITLE}: the study</title><style>{style}</style><body><div class='page'>"
    yield from _contents(studies, sections)
    yield f"<main><h1>{_TITLE}: the study</h1>"
    levels = " and ".join(f"{alpha:g}" for alpha in settings.alphas)
    sizes = ", ".join(f"{cp}%" for cp in settings.cp_percents)
    yield f"<p>{settings.trials} random splits, seed {settings.random_state}; alpha {levels}; CP sets of {sizes}; "
    yield f"temperatures {html.escape(settings.temperatures)}.</p>"
    yield f"<p class='dim'>{html.escape(KEY)}</p><p class='dim'>{html.escape(_LOOKS)}</p>"
    for remark in filter(None, (study.remark for study in studies)):
        yield f"<p>{html.escape(remark)}</p>"
    for name, reason in skipped.items():
        yield f"<p>Skipped {html.escape(name)}: {html.escape(reason)}</p>"
    for section in sections:
        yield from _section(section, studies, figures)
    yield f"</main></div>{glossary_html(study_words())}<script>{page_file('scrolling.js')}</script></body></html>\n"


def _contents(studies: Sequence[PairStudy], sections: Sequence[Section]) -> Iterator[str]:
    """A table of contents: sections, and under each its tables and the files it has figures of."""
    yield f"<nav aria-label='Contents'>{GLOSSARY_BUTTON}<ol>"
    for section in sections:
        within = len(section.tables) + len(section.figures) * len(studies)
        link = f"<a href='#part-{section.name}'>{html.escape(section.title)}</a>"
        if within < 2:
            yield f"<li class='plain'>{link}</li>"
            continue
        yield f"<li><details><summary>{link}</summary><ol>"
        for table in section.tables:
            yield f"<li><a href='#{table.name}'>{html.escape(table.title)}</a></li>"
        if section.figures:
            for i, study in enumerate(studies):
                yield f"<li><a href='#part-{section.name}-{i}'>Figures: {html.escape(study.title)}</a></li>"
        yield "</ol></details></li>"
    yield "</ol></nav>"


def _section(section: Section, studies: Sequence[PairStudy], figures: Mapping[str, bytes]) -> Iterator[str]:
    yield f"<section id='part-{section.name}'><h2>{html.escape(section.title)}</h2>"
    if section.about:
        yield f"<p class='dim'>{html.escape(section.about)}</p>"
    for table in section.tables:
        yield table.to_html()
    if section.folded:
        yield f"<details><summary>{html.escape(_folded(section))}</summary>"
        for table in section.folded:
            yield table.to_html()
        yield "</details>"
    told = captions(studies[0].settings)
    for name in section.shared:
        yield _figure(figures[f"{name}.png"], told[name])
    if section.figures:
        narrow = all(name in _NARROW for name in section.figures)
        by_file = len(section.figures) == 1 and narrow  # small figures of all files share a row
        yield f"<div class='figures{' narrow' if by_file else ''}'>"
        for i, study in enumerate(studies):
            yield f"<div id='part-{section.name}-{i}'><h3>{html.escape(study.title)}</h3>"
            yield f"<div class='figures{' narrow' if narrow and not by_file else ''}'>"
            for name in section.figures:
                yield _figure(figures[f"figures/{study.name}/{name}.png"], told[name])
            yield "</div></div>"
        yield "</div>"
    yield "</section>"


def _folded(section: Section) -> str:
    """What unfolding shows."""
    first = section.folded[0].title
    return first if len(section.folded) == 1 else f"{len(section.folded)} more tables for other sizes of the CP set"


def _figure(content: bytes, caption: str) -> str:
    shown, encoded = html.escape(caption, quote=True), base64.b64encode(content).decode()
    return f"<figure><img alt='{shown}' src='data:image/png;base64,{encoded}'><figcaption>{shown}</figcaption></figure>"


_POINTS = 201  # of a curve over rows


def study_json(studies: Sequence[PairStudy], together: Sequence[Claim], skipped: dict[str, str]) -> str:
    """The document, with null for what is not a finite number."""
    whole = {
        "thermoset": __version__,
        "settings": asdict(studies[0].settings),
        "claims_on_all_files": [asdict(claim) for claim in together],
        "files": [_pair(study) for study in studies],
        "skipped": skipped,
    }
    return json.dumps(_plain(whole), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _pair(study: PairStudy) -> dict[str, Any]:
    found = study.measured
    return {
        "file": study.name,
        "pair": None if study.pair is None else asdict(study.pair),
        "rows": study.n_rows,
        "classes": study.n_classes,
        "accuracy": {"top1": found.top1, "top5": found.top5},
        "temperature": {
            "ece": found.ece,
            "nll": found.nll,
            "of_published_mode": found.printed_temperature,
            "trials_ece": found.trial_ece,
            "trials_nll": found.trial_nll,
        },
        "agreement": [asdict(one) for one in study.agreement],
        "reliability": dict(zip(("T = 1", "T*"), map(asdict, found.reliability), strict=True)),
        "claims": [asdict(claim) for claim in study.claims],
        "cells": [asdict(cell) for cell in study.cells],
        "comparison": [asdict(cell) for cell in study.comparison.cells],
        "chosen_temperatures": {", ".join(name): chosen for name, chosen in study.comparison.temperatures.items()},
        "chosen_sets": {
            ", ".join(name): [_way(way) for way in rule.ways] for rule in study.comparison.rules for name in rule.names
        },
        "curves": {f"cp_{cp}": _curves(curves) for cp, curves in found.curves.items()},
        "single_trials": _runs(study.comparison.single_trials),
        "size_differences": [_differences(one) for one in study.differences],
        "low_temperatures": _low(study.low),
        "quantile_samples": asdict(study.quantiles),
        "margin_bounds": asdict(study.bounds),
        "statements": [asdict(one) for one in study.statements],
        "infinite_mondrian_thresholds": study.comparison.infinite,
    }


def _way(way: Way) -> dict[str, Any]:
    """What a rule that chooses one score and level chose."""
    (score,), (level,) = way.scores, way.levels
    return {"score": repr(score), "temperature": way.temperature, "alpha": float(exact_level(level))}


def _curves(curves: Sweep) -> dict[str, Any]:
    return {
        "axes": ["method", "temperature", "alpha", "metric"],
        "methods": curves.methods,
        "temperatures": curves.temperatures,
        "alphas": curves.alphas,
        "metrics": curves.metrics,
        "trials": curves.trials,
        "mean": curves.trial_values.mean(axis=-1),
        "standard_error": standard_error(curves.trial_values),
        "median_of_means": median_of_means(curves.trial_values),
    }


def _runs(curves: Sweep) -> dict[str, Any]:
    """The first three trials, value by value."""
    return {
        "axes": ["method", "temperature", "alpha", "metric", "run"],
        "methods": curves.methods,
        "temperatures": curves.temperatures,
        "metrics": curves.metrics,
        "values": curves.trial_values[..., :3],
    }


def _low(low: LowTemperatures) -> dict[str, Any]:
    naive = {
        kind: {
            metric: {"mean": values.mean(axis=-1), "standard_error": standard_error(values)}
            for metric, values in metrics.items()
        }
        for kind, metrics in low.naive.items()
    }
    return {"rows": low.n_rows, "thermoset": _curves(low.ours), "naive": naive}


def _differences(one: SizeDifferences) -> dict[str, Any]:
    places = np.linspace(0, len(one.mean_sorted) - 1, _POINTS).round().astype(int)
    return {
        "method": one.method,
        "trials": one.trials,
        "grow": one.grow,
        "stay": one.stay,
        "shrink": one.shrink,
        "share_of_rows": places / len(one.mean_sorted),
        "mean_sorted": one.mean_sorted[places],
    }


def _plain(value: Any) -> Any:
    """The same in types that JSON has."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def cells_csv(studies: Sequence[PairStudy]) -> str:
    """One line for each cell of each file."""
    heads = ["file", *(field.name for field in fields(Cell))]
    lines = [
        [study.name, *(getattr(cell, field.name) for field in fields(Cell))]
        for study in studies
        for cell in (*study.cells, *study.comparison.cells)
    ]
    return csv_text([heads, *lines])


_DPI = 100


def check_places(out: Path, names: Iterable[str], sources: Iterable[Path]) -> None:
    """Refuse, before the work, folders that cannot be made and files that must not be replaced: see `check_targets`."""
    folders = [out / "tables", *(out / "figures" / name for name in names)]
    for folder in folders:
        check_folder(folder)
    there = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    alone = ("cells.csv", "index.html", "study.json", "figure-1.png", "figure-1.pdf")
    written = [*(out / name for name in alone), *there]
    check_targets(written, [part for source in sources for part in files_of(source)])


def figure_files(study: PairStudy, data: Logits) -> dict[str, bytes]:
    """The figures of one file, by path within the folder."""
    made = {}
    for name, draw in drawn_figures(data, study).items():
        made.update(_png_and_pdf(f"figures/{study.name}/{name}", draw()))
    return made


def _png_and_pdf(name: str, figure: "Figure") -> dict[str, bytes]:
    made = {}
    for suffix, options in (("png", {"dpi": _DPI}), ("pdf", {"dpi": _DPI, "metadata": {"CreationDate": None}})):
        stream = io.BytesIO()
        figure.savefig(stream, format=suffix, **options)
        figure.set_layout_engine("none")  # both have the layout that the first has found
        made[f"{name}.{suffix}"] = stream.getvalue()
    return made


def summary_files(
    studies: Sequence[PairStudy], together: Sequence[Claim], figures: Mapping[str, bytes], skipped: dict[str, str]
) -> dict[str, bytes]:
    """Tables, first figure, page and document of all files; `figures` are those already made, for the page."""
    first = _png_and_pdf("figure-1", figure_1(studies))
    sections = study_sections(studies, together)
    texts = {"cells.csv": cells_csv(studies), "study.json": study_json(studies, together, skipped)}
    for table in (table for section in sections for table in (*section.tables, *section.folded)):
        texts[f"tables/{table.name}.csv"] = table.to_csv()
        texts[f"tables/{table.name}.tex"] = table.to_latex()
    texts.update({f"tables/{name}.tex": table for name, table in paper_tables(studies).items()})
    texts["index.html"] = study_page(studies, sections, {**figures, **first}, skipped)
    return {**first, **{name: text.encode() for name, text in texts.items()}}


def write_files(out: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files by path within the folder, each whole or not at all."""
    try:
        return write_all(out, contents)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror or error}). Name another folder.") from None
