"""`thermoset monitor`: whether a promise is still kept, batch after batch."""

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from thermoset.cli.options import (
    KINDS,
    Classes,
    Columns,
    Groups,
    IdColumn,
    Ignore,
    Memory,
    Predictor,
    Probabilities,
    Quiet,
    files_in,
    opened_logits,
    title_of,
    told_warnings,
)
from thermoset.cli.output import check_file, name_files
from thermoset.cli.progress import working
from thermoset.errors import InputError
from thermoset.quoting import printable

if TYPE_CHECKING:
    from rich.console import Console

    from thermoset.monitor.status import MonitorStatus
    from thermoset.predictor import TwoTemperaturePredictor

__all__ = ["monitor"]

_LATEST = 10  # batches shown


def monitor(
    predictor: Predictor,
    batch: Annotated[
        list[Path] | None,
        typer.Argument(help=f"New rows, with or without labels ({KINDS}); without a batch, show the current status."),
    ] = None,
    state: Annotated[
        Path, typer.Option(metavar="FILE", help="State file of the monitor; a new file starts a new state.")
    ] = ...,  # type: ignore[assignment]
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|FILE",
            help="Column or array with the labels, or a file of them: npy, or txt with one per line; missing: -1, NaN "
            "or a blank line.",
        ),
    ] = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    groups: Groups = None,
    ignore: Ignore = None,
    probabilities: Probabilities = False,
    time: Annotated[str | None, typer.Option(help="When the rows arrived (any text).")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the batch; by default its file name.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Chance that any test ever gives a false alarm; 0.01 by default.")
    ] = None,
    run_length: Annotated[
        int | None,
        typer.Option(
            help="Minimum average number of rows between false alarms of a change detector; 1,000,000 by default; 0 "
            "switches detectors off."
        ),
    ] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page over time (html).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
    memory: Memory = None,
    quiet: Quiet = False,
) -> None:
    """Add a batch and check whether coverage or rows have changed; exit code 1 on an alarm."""
    from rich.console import Console

    from thermoset.predictor import TwoTemperaturePredictor

    columns = Columns(labels, classes, id_column, groups, ignore, probabilities)
    asked = _Batch(batch or [], columns, time, name or title_of(batch or [Path("batch")]), memory)
    _check_targets(state, page, [predictor, *asked.files])
    settings: dict[str, Any] = {} if delta is None else {"delta": delta}
    settings |= {} if run_length is None else {"run_length": run_length or None}
    with working(quiet, "Monitoring"):
        model = TwoTemperaturePredictor.load(predictor)
        status = _added(model, state, asked, settings) if asked.paths else _read(model, state)
    if page is not None:
        from thermoset.report.over_time import write_monitor_page

        write_monitor_page(status, page, predictor.name)
    if as_json:
        sys.stdout.write(json.dumps(status.to_json_dict(), indent=1, allow_nan=False) + "\n")
    else:
        _show(Console(emoji=False), status, [] if page is None else [page])
    if status.alarm:
        raise typer.Exit(1)


class _Batch(NamedTuple):
    """The rows to add, and what was said of them."""

    paths: list[Path]
    columns: Columns
    time: str | None
    name: str
    memory: str | None

    @property
    def files(self) -> list[Path]:
        """What is read."""
        return [*(files_in(self.paths) if self.paths else ()), *self.columns.files]


def _added(model: "TwoTemperaturePredictor", state: Path, asked: _Batch, settings: dict[str, Any]) -> "MonitorStatus":
    """Where the monitor stands after the batch."""
    from thermoset.io import read_partial_labels
    from thermoset.monitor.monitor import Monitor

    columns = asked.columns
    opened = opened_logits(asked.paths, columns, with_labels=False, memory=asked.memory, made=model.document_)
    with told_warnings(), opened as rows:
        labels = read_partial_labels(asked.paths, rows, **columns.how)
        with Monitor.open(state, model, **settings) as monitor:
            return monitor.add(rows, labels, time=asked.time, name=asked.name)


def _read(model: "TwoTemperaturePredictor", state: Path) -> "MonitorStatus":
    """Where the monitor stands as it is."""
    from thermoset.monitor.monitor import Monitor

    if not state.exists():
        raise InputError(f"{state}: there is no such file. Pass a batch to start one.")
    return Monitor.load(state, model).status


def _check_targets(state: Path, page: Path | None, reads: list[Path]) -> None:
    """Refuse, before the work, files that must not be written, and a page that cannot be drawn."""
    check_file(state, reads)
    if page is not None:
        from thermoset.io.files import need

        check_file(page, reads)
        if page.resolve() == state.resolve():
            raise InputError(f"{page}: is named for both the state and the page. Name two different files.")
        for module in ("altair", "vl_convert", "jinja2"):
            need(module, "report", "--page")


def _show(console: "Console", status: "MonitorStatus", written: list[Path]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("batch")
    for column in ("rows", "labelled", "coverage", "all so far", "set size"):
        table.add_column(column, justify="right", no_wrap=True)
    for batch in status.batches[-_LATEST:]:
        coverage = f"{batch.hits / batch.labelled:.3f}" if batch.labelled else ""
        seen = "" if batch.coverage_low is None else f"{batch.coverage_low:.3f} to {batch.coverage_high:.3f}"
        called = printable(batch.name, 40) + ("" if batch.time is None else f", {printable(batch.time, 40)}")
        table.add_row(Text(called), f"{batch.rows:,}", f"{batch.labelled:,}", coverage, seen, f"{batch.mean_size:.2f}")
    console.print(table)
    tests = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("test", "evidence", "alarm from"):
        tests.add_column(column, justify="left" if column == "test" else "right", no_wrap=True)
    for test in status.tests:
        tests.add_row(test.title, _odds(test.log_e), _odds(test.log_bar))
    console.print(tests)
    for sentence in status.sentences:
        console.print(Text(sentence))
    for sentence in status.advice:
        console.print(Text.assemble(("To do", "bold yellow"), f" {sentence}"))
    if status.alarm:
        console.print("[bold red]Alarm[/]", highlight=False)
    name_files(console, written)


def _odds(log_e: float) -> str:
    """Evidence as odds; very large and very small ones as powers of ten."""
    power = log_e / math.log(10)
    return f"{math.exp(log_e):,.3g}" if -6 < power < 6 else f"1e{power:+.0f}"
