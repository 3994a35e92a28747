"""The folder a study leaves: tables as csv, Markdown and LaTeX, figures as PNG and PDF, one page, one document."""

import base64
import html
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.io import files_of
from thermoset.io.files import check_folder, check_targets, write_all
from thermoset.paper.study.document import study_json
from thermoset.paper.study.figures import CAPTIONS, drawn_figures
from thermoset.paper.study.pairs import PairStudy
from thermoset.paper.study.printouts import KEY, PrintedTable, cells_csv, study_tables

__all__ = ["check_places", "figure_files", "summary_files", "write_files"]

_DPI = 90
_STYLE = """
:root { color-scheme: light dark; --line: #8885; --dim: #666; --band: #8881; --off: #b3380022; }
@media (prefers-color-scheme: dark) { :root { --dim: #aaa; --off: #ff8a5033; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1400px; padding: 0 1rem; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }
table { border-collapse: collapse; margin: 1.2rem 0; font-size: 12.5px; display: block; overflow-x: auto; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
td, th { border: 1px solid var(--line); padding: .2rem .45rem; text-align: left; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; } td.off { background: var(--off); }
tr:nth-child(even) { background: var(--band); }
figure { margin: 1.2rem 0; } img { max-width: 100%; background: #fff; } figcaption, .dim { color: var(--dim); }
"""


def check_places(out: Path, names: Iterable[str], sources: Iterable[Path]) -> None:
    """Refuse, before the work, folders that cannot be made and files that must not be replaced: see `check_targets`."""
    folders = [out / "tables", *(out / "figures" / name for name in names)]
    for folder in folders:
        check_folder(folder)
    there = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    written = [out / "cells.csv", out / "index.html", out / "study.json", *there]
    check_targets(written, [part for source in sources for part in files_of(source)])


def figure_files(study: PairStudy, data: Logits) -> dict[str, bytes]:
    """The figures of one file, by path within the folder."""
    parts = study.measured, study.differences, study.low, study.comparison.single_trials, study.settings
    made = {}
    for name, draw in drawn_figures(data, *parts).items():
        figure = draw()
        for suffix, options in (("png", {"dpi": _DPI}), ("pdf", {"dpi": _DPI, "metadata": {"CreationDate": None}})):
            stream = io.BytesIO()
            figure.savefig(stream, format=suffix, **options)
            figure.set_layout_engine("none")  # both have the layout that the first has found
            made[f"figures/{study.name}/{name}.{suffix}"] = stream.getvalue()
    return made


def summary_files(
    studies: Sequence[PairStudy], figures: Mapping[str, bytes], skipped: dict[str, str]
) -> dict[str, bytes]:
    """Tables, page and document of all files; `figures` are those already made, for the page."""
    tables = study_tables(studies)
    texts = {"cells.csv": cells_csv(studies), "study.json": study_json(studies, skipped)}
    for table in tables:
        texts[f"tables/{table.name}.csv"] = table.csv()
        texts[f"tables/{table.name}.md"] = table.markdown()
        texts[f"tables/{table.name}.tex"] = table.latex()
    texts["index.html"] = "".join(_page(studies, tables, figures, skipped))
    return {name: text.encode() for name, text in texts.items()}


def _page(
    studies: Sequence[PairStudy], tables: Sequence[PrintedTable], figures: Mapping[str, bytes], skipped: dict[str, str]
) -> Iterator[str]:
    """One page with everything in it: it can be sent as it is."""
    settings = studies[0].settings
    yield "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    yield f"<title>Temperature scaling and conformal prediction</title><style>{_STYLE}</style>"
    yield "<h1>Temperature scaling and conformal prediction: the study</h1>"
    yield f"<p>{settings.trials} random splits, seed {settings.random_state}. {html.escape(KEY)}</p><ul>"
    for study in studies:
        yield f"<li>{html.escape(_in_short(study))}</li>"
    yield "</ul>"
    for name, reason in skipped.items():
        yield f"<p>Not studied: {html.escape(name)} ({html.escape(reason)})</p>"
    yield "<nav><a href='#tables'>Tables</a>"
    for i, study in enumerate(studies):
        yield f"<a href='#figures-{i}'>Figures: {html.escape(study.title)}</a>"
    yield "</nav><h2 id='tables'>Tables</h2>"
    for table in tables:
        yield table.html()
    for i, study in enumerate(studies):
        yield f"<h2 id='figures-{i}'>{html.escape(study.title)}</h2>"
        yield f"<p class='dim'>{html.escape(study.name)}: {study.n_rows:,} rows, {study.n_classes:,} classes</p>"
        for name, caption in CAPTIONS.items():
            content = base64.b64encode(figures[f"figures/{study.name}/{name}.png"]).decode()
            shown = html.escape(caption, quote=True)
            yield f"<figure><img alt='{shown}' src='data:image/png;base64,{content}'>"
            yield f"<figcaption>{shown}</figcaption></figure>"
    yield "</html>\n"


def _in_short(study: PairStudy) -> str:
    """A file in one sentence."""
    agree, printed = study.agreement
    told = [claim.holds for claim in study.claims]
    cells = (
        f"{agree} of {printed} printed cells agree (mode published)" if printed else "the paper prints nothing of it"
    )
    return f"{study.title}: {cells}; {told.count(True)} of {len(told)} of the paper's claims hold."


def write_files(out: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files by path within the folder, each whole or not at all."""
    try:
        return write_all(out, contents)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror or error}). Name another folder.") from None
