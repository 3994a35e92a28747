"""`thermoset report`: the page that explains a predictor; and the same page for the commands that make one."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermoset.cli.options import (
    Classes,
    Columns,
    Groups,
    IdColumn,
    Ignore,
    Labelled,
    Labels,
    Memory,
    Predictor,
    Probabilities,
    Quiet,
    Scheduler,
    SplitBy,
    files_in,
    kept_together,
    opened_logits,
    title_of,
    told_warnings,
)
from thermoset.cli.output import check_files, missing_of, name_files, tell_skipped, write_files
from thermoset.cli.progress import ProgressBar
from thermoset.errors import InputError

if TYPE_CHECKING:
    from thermoset.data import Logits
    from thermoset.predictor import TwoTemperaturePredictor

__all__ = ["page_files", "report"]


def report(
    predictor: Predictor,
    logits: Labelled,
    out: Annotated[Path, typer.Option(help="The page to write: an .html file.")] = Path("report.html"),
    name: Annotated[str, typer.Option(help="Name of the data on the page; by default the file name.")] = "",
    trials: Annotated[int, typer.Option(help="Random splits behind the curves.")] = 100,
    labels: Labels = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    groups: Groups = None,
    ignore: Ignore = None,
    split_by: SplitBy = None,
    probabilities: Probabilities = False,
    memory: Memory = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
) -> None:
    """Write a self-contained HTML page about a predictor, from fresh labelled rows or from those it was fitted on."""
    from rich.console import Console

    from thermoset.io.files import need
    from thermoset.predictor import TwoTemperaturePredictor

    for module in _NEEDED:
        need(module, "report", "an HTML report")
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out {out} must be an HTML file. Name one that ends in .html.")
    columns = Columns(labels, classes, id_column, groups, ignore, probabilities, split_by)
    check_files(out.parent, [out.name], [predictor, *files_in(logits), *columns.files])
    model = TwoTemperaturePredictor.load(predictor)
    rows = opened_logits(logits, columns, made=model.document_, memory=memory, scheduler=scheduler)
    with told_warnings(), rows as data:
        together = kept_together(logits, columns, len(data))
        page = _page(model, data, name or title_of(logits), quiet, {"trials": trials, "split_by": together})
    name_files(Console(emoji=False), write_files(out.parent, {out.name: page}))


_NEEDED = ("altair", "vl_convert", "jinja2")


def page_files(
    predictor: "TwoTemperaturePredictor",
    data: "Logits",
    name: str,
    quiet: bool,
    *,
    images: Mapping[int, Any] | None = None,
    split_by: Any = None,
) -> dict[str, bytes]:
    """The page as a file by name; nothing without the extra, and a line that says so."""
    if missing_of(_NEEDED):
        tell_skipped("report.html", _NEEDED, "report")
        return {}
    return {"report.html": _page(predictor, data, name, quiet, {"images": images, "split_by": split_by})}


def _page(
    predictor: "TwoTemperaturePredictor",
    data: "Logits",
    name: str,
    quiet: bool,
    options: Mapping[str, Any],
) -> bytes:
    from thermoset.report import build_report, render_page

    with ProgressBar(quiet, "Report") as bar:
        found = build_report(predictor, data, name=name, progress=bar.tell, **options)
        page: str = render_page(found)
    return page.encode()
