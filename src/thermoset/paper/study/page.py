"""The folder a study leaves: one page, tables as csv, the paper's own as LaTeX, figures as PNG and PDF."""

import base64
import html
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING

from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.io import files_of
from thermoset.io.files import check_folder, check_targets, write_all
from thermoset.levels import exact_level
from thermoset.paper.study.cells import Cell
from thermoset.paper.study.claims import Claim
from thermoset.paper.study.figures import captions, drawn_figures, figure_1
from thermoset.paper.study.pairs import PairStudy
from thermoset.paper.study.tables import KEY, Section, paper_tables, study_sections
from thermoset.report.shell import page_file
from thermoset.report.words import GLOSSARY_BUTTON, glossary_html, study_words
from thermoset.text_tables import csv_text, inert

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLE = "Temperature scaling and conformal prediction"
_LOOKS = (
    "In every figure LAC is blue with circles, APS orange with squares, RAPS green with triangles. Where curves "
    "coincide, their marks alternate."
)
# two of these fit next to each other
_NARROW = ("reliability", "differences", "margins", "last-index", "bound", "bound-share")


def study_page(
    studies: Sequence[PairStudy], sections: Sequence[Section], figures: Mapping[str, bytes], skipped: Mapping[str, str]
) -> str:
    """The page; `figures` holds the PNG files by path within the folder."""
    settings = studies[0].settings
    levels = " and ".join(f"{alpha:g}" for alpha in settings.alphas)
    sizes = ", ".join(f"{cp}%" for cp in settings.cp_percents)
    protocol = (
        f"{settings.trials} random splits, seed {settings.random_state}; alpha {levels}; CP sets of {sizes}; "
        f"temperatures {settings.temperatures}."
    )
    remarks = [study.remark for study in studies if study.remark]
    remarks += [f"Skipped {name}: {reason}" for name, reason in skipped.items()]
    return "".join(
        [
            "<!doctype html><html lang='en'><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width'>",
            f"<title>{_TITLE}: the study</title><style>{page_file('study.css')}{page_file('shared.css')}</style>",
            "<body><div class='page'>",
            *_contents(studies, sections),
            f"<main><h1>{_TITLE}: the study</h1><p>{html.escape(protocol)}</p>",
            *(f"<p class='dim'>{html.escape(text)}</p>" for text in (KEY, _LOOKS)),
            *(f"<p>{html.escape(text)}</p>" for text in remarks),
            *(part for section in sections for part in _section(section, studies, figures)),
            f"</main></div>{glossary_html(study_words())}",
            f"<script>{page_file('scrolling.js')}</script></body></html>\n",
        ]
    )


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
        first, more = section.folded[0].title, len(section.folded)
        title = first if more == 1 else f"{more} more tables for other sizes of the CP set"
        yield f"<details><summary>{html.escape(title)}</summary>"
        yield from (table.to_html() for table in section.folded)
        yield "</details>"
    about = captions(studies[0].settings)
    for name in section.shared:
        yield _figure(figures[f"{name}.png"], about[name])
    if section.figures:
        narrow = all(name in _NARROW for name in section.figures)
        by_file = len(section.figures) == 1 and narrow  # small figures of all files share a row
        yield f"<div class='figures{' narrow' if by_file else ''}'>"
        for i, study in enumerate(studies):
            yield f"<div id='part-{section.name}-{i}'><h3>{html.escape(study.title)}</h3>"
            yield f"<div class='figures{' narrow' if narrow and not by_file else ''}'>"
            for name in section.figures:
                yield _figure(figures[f"figures/{study.name}/{name}.png"], about[name])
            yield "</div></div>"
        yield "</div>"
    yield "</section>"


def _figure(content: bytes, caption: str) -> str:
    shown, encoded = html.escape(caption, quote=True), base64.b64encode(content).decode()
    return f"<figure><img alt='{shown}' src='data:image/png;base64,{encoded}'><figcaption>{shown}</figcaption></figure>"


def csv_files(studies: Sequence[PairStudy]) -> dict[str, str]:
    """Every cell, every point of the curves, and what each rule took in each trial, by name of the csv file."""
    cells: list[list[object]] = [["file", *(field.name for field in fields(Cell))]]
    curves: list[list[object]] = [
        ["file", "cp_percent", "method", "temperature", "alpha", "metric", "mean", "standard_error", "median_of_means"]
    ]
    chosen: list[list[object]] = [["file", "score", "rule", "trial", "temperature", "taken", "alpha"]]
    for study in studies:
        cells += [[study.name, *astuple(cell)] for cell in (*study.cells, *study.comparison.cells)]
        for cp, sweep in study.measured.curves.items():
            curves += [[study.name, cp, *line] for line in zip(*sweep.columns().values(), strict=True)]
        ways = {name: rule.ways for rule in study.comparison.rules for name in rule.names}
        for name, temperatures in study.comparison.temperatures.items():
            for t, temperature in enumerate(temperatures.tolist()):
                way = ways[name][t] if name in ways else None
                taken = ["", ""] if way is None else [repr(way.scores[0]), float(exact_level(way.levels[0]))]
                chosen.append([study.name, *name, t, temperature, *taken])
    tables = {"cells.csv": cells, "curves.csv": curves, "temperatures.csv": chosen}
    return {name: csv_text([inert(str(file)), *cells] for file, *cells in lines) for name, lines in tables.items()}


_DPI = 100


def check_places(out: Path, names: Iterable[str], sources: Iterable[Path]) -> None:
    """Refuse, before the work, folders that cannot be created and files that must not be replaced."""
    folders = [out / "tables", *(out / "figures" / name for name in names)]
    for folder in folders:
        check_folder(folder)
    there = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    alone = ("cells.csv", "curves.csv", "temperatures.csv", "index.html", "figure-1.png", "figure-1.pdf")
    written = [*(out / name for name in alone), *there]
    check_targets(written, [part for source in sources for part in files_of(source)])


def figure_files(study: PairStudy, data: Logits) -> dict[str, bytes]:
    """The figures of one file, by path within the folder."""
    files = {}
    for name, draw in drawn_figures(data, study).items():
        files.update(_png_and_pdf(f"figures/{study.name}/{name}", draw()))
    return files


def _png_and_pdf(name: str, figure: "Figure") -> dict[str, bytes]:
    files = {}
    for suffix, options in (("png", {"dpi": _DPI}), ("pdf", {"dpi": _DPI, "metadata": {"CreationDate": None}})):
        stream = io.BytesIO()
        figure.savefig(stream, format=suffix, **options)
        figure.set_layout_engine("none")  # both have the layout of the first
        files[f"{name}.{suffix}"] = stream.getvalue()
    return files


def summary_files(
    studies: Sequence[PairStudy], together: Sequence[Claim], figures: Mapping[str, bytes], skipped: Mapping[str, str]
) -> dict[str, bytes]:
    """Tables, first figure and page of all files; `figures` are those already drawn, for the page."""
    first = _png_and_pdf("figure-1", figure_1(studies))
    sections = study_sections(studies, together)
    texts = csv_files(studies)
    for table in (table for section in sections for table in (*section.tables, *section.folded)):
        texts[f"tables/{table.name}.csv"] = table.to_csv()
    texts.update({f"tables/{name}.tex": table for name, table in paper_tables(studies).items()})
    texts["index.html"] = study_page(studies, sections, {**figures, **first}, skipped)
    return {**first, **{name: text.encode() for name, text in texts.items()}}


def write_files(out: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files by path within the folder, each whole or not at all."""
    try:
        return write_all(out, contents)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror or error}). Name another folder.") from None
