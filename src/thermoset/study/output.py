"""The folder a study leaves: tables as csv, Markdown and LaTeX, figures as PNG and PDF, one page, one document."""

import base64
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.io.files import write_whole
from thermoset.study.document import study_json
from thermoset.study.figures import CAPTIONS, drawn_figures
from thermoset.study.pairs import PairStudy
from thermoset.study.tables import KEY, Table, cells_csv, study_tables

__all__ = ["figure_files", "summary_files", "write_files"]

_DPI = 90
_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1400px;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0;font-size:12.5px;display:block;overflow-x:auto}"
    "caption{text-align:left;font-weight:600;padding:.3rem 0}td,th{border:1px solid #ccc;padding:.2rem .45rem;"
    "text-align:left;white-space:nowrap}tr:nth-child(even){background:#f6f6f6}img{max-width:100%}figure{margin:1rem 0}"
    "figcaption{color:#555}"
)


def figure_files(study: PairStudy, data: Logits) -> dict[str, bytes]:
    """The figures of one file, by path within the folder."""
    parts = study.measured, study.differences, study.low, study.comparison.single_trials, study.settings
    made = {}
    for name, draw in drawn_figures(data, *parts).items():
        figure = draw()
        for suffix, options in (("png", {"dpi": _DPI}), ("pdf", {"dpi": _DPI, "metadata": {"CreationDate": None}})):
            stream = io.BytesIO()
            figure.savefig(stream, format=suffix, **options)
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
    studies: Sequence[PairStudy], tables: Sequence[Table], figures: Mapping[str, bytes], skipped: dict[str, str]
) -> Iterator[str]:
    """One page with everything in it: it can be sent as it is."""
    settings = studies[0].settings
    yield f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Study</title><style>{_STYLE}</style>"
    yield "<h1>Temperature scaling and conformal prediction: the study</h1>"
    yield f"<p>{settings.trials} random splits, seed {settings.random_state}. {html.escape(KEY)}</p>"
    for name, reason in skipped.items():
        yield f"<p>Not studied: {html.escape(name)} ({html.escape(reason)})</p>"
    yield "<h2>Tables</h2>"
    for table in tables:
        yield table.html()
    for study in studies:
        yield f"<h2>{html.escape(study.title)}</h2>"
        yield f"<p>{html.escape(study.name)}: {study.n_rows:,} rows, {study.n_classes:,} classes</p>"
        for name, caption in CAPTIONS.items():
            content = base64.b64encode(figures[f"figures/{study.name}/{name}.png"]).decode()
            shown = html.escape(caption, quote=True)
            yield f"<figure><img alt='{shown}' src='data:image/png;base64,{content}'>"
            yield f"<figcaption>{shown}</figcaption></figure>"
    yield "</html>\n"


def write_files(out: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files by path within the folder, each whole or not at all."""
    try:
        for name, content in contents.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            with write_whole(out / name) as stream:
                stream.write(content)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror or error}). Name another folder.") from None
    return [out / name for name in contents]
