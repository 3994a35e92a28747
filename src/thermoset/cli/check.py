"""`thermoset check`: whether coverage on fresh labelled rows is what was promised."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

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
    Weights,
    opened_logits,
    parts,
    told_warnings,
    weights_of,
)
from thermoset.cli.output import undecided_line
from thermoset.cli.progress import working
from thermoset.quoting import printable

if TYPE_CHECKING:
    from rich.console import Console

    from thermoset.monitor.report import CheckReport, CoverageTable

__all__ = ["check"]

_WORST = 5  # classes shown
_REPEATED = (
    "Repeated checks are not independent, and each has its own false alarm rate of 1 in 1,000. "
    "To watch a predictor over time, use thermoset monitor."
)
_KINDS = {"size": "set size", "confidence": "confidence"}


def check(
    predictor: Predictor,
    logits: Labelled,
    fail_on: Annotated[
        str,
        typer.Option(
            help="Also fail on: classes, groups (too little coverage), confidence (unlike accuracy), answers (more "
            "wrong ones than claimed); comma-separated."
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    labels: Labels = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    groups: Groups = None,
    ignore: Ignore = None,
    weights: Weights = None,
    probabilities: Probabilities = False,
    memory: Memory = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
) -> None:
    """Report coverage, class gaps and calibration; exit code 1 when a promise is broken."""
    from rich.console import Console

    from thermoset.predictor import TwoTemperaturePredictor

    model = TwoTemperaturePredictor.load(predictor)
    columns = Columns(labels, classes, id_column, groups, ignore, probabilities, weights=weights)
    rows = opened_logits(logits, columns, made=model.document_, memory=memory, scheduler=scheduler)
    with working(quiet, "Checking"), told_warnings(), rows as data:
        own = weights_of(logits, columns, len(data))
        report = model.check(data, weights=own, fail_on=parts(fail_on))
    if as_json:
        sys.stdout.write(json.dumps(report.to_json_dict(), indent=1, allow_nan=False) + "\n")
    else:
        _show(Console(emoji=False), report)
    if not report.ok:
        raise typer.Exit(1)


def _show(console: "Console", report: "CheckReport") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from thermoset.metrics import METRICS

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"{report.rows:,} rows" + ("" if report.answers is None else " that people see"))
    for column in ("seen", "expected", "p"):
        table.add_column(column, justify="right", no_wrap=True)
    seen, floor, sure = report.marginal, report.floor, report.calibration
    kind = report.promise.kind
    of_rows = f" of {seen.rows:,} rows in {kind.units}" if kind and seen.rows != report.rows else ""
    allowed = f"{seen.allowed.low:.4f} to {seen.allowed.high:.4f}"
    table.add_row(f"coverage{of_rows}", f"{seen.coverage:.4f}", allowed, f"{seen.p_value:.2g}")
    top, avg = METRICS["top_coverage_gap"].title, METRICS["avg_coverage_gap"].title
    table.add_row(top, f"{report.top_gap:.4f}", f"chance: {floor.top_mean:.4f}, 95%: {floor.top_95:.4f}", "")
    table.add_row(avg, f"{report.avg_gap:.4f}", f"chance: {floor.avg_mean:.4f}, 95%: {floor.avg_95:.4f}", "")
    for part in report.parts.gaps:
        expected = f"chance: {part.floor.top_mean:.4f}, 95%: {part.floor.top_95:.4f}"
        table.add_row(f"gap by {_KINDS[part.by]}", f"{part.gap:.4f}", expected, "")
    table.add_row("labels in a set", f"{report.avg_size:.2f}", "", "")
    table.add_row("empty sets", f"{report.empty_share:.1%}", "", "")
    table.add_row(
        "ECE", f"{sure.ece:.4f}", f"chance: {sure.ece_mean:.4f}, 95%: {sure.ece_95:.4f}", f"{sure.p_value:.2g}"
    )
    if report.classwise is not None:
        chance = f"chance: {report.classwise.ece_chance:.4f}"
        table.add_row("classwise ECE", f"{report.classwise.ece:.4f}", chance, "")
    if (alone := report.answers) is not None and alone.answered:
        rate, claimed = f"{alone.errors / alone.answered:.4f}", f"claimed: at most {alone.bound:g}"
        table.add_row(f"errors of {alone.answered:,} answers", rate, claimed, f"{alone.p_value:.2g}")
    table.add_row("NLL, accuracy", f"{sure.nll:.3f}, {sure.accuracy:.3f}", "", "")
    console.print(table)
    if report.undecided is not None:
        console.print(undecided_line(report.rows, report.undecided), highlight=False)
    if report.groups is not None:
        _show_table(console, report.groups, ("group", "groups"), report.group_names)
    _show_table(console, report.classes, ("class", "classes"), report.class_names)
    for sentence in report.notes:
        console.print(Text.assemble(("Note", "bold yellow"), f" {sentence}"))
    for sentence in report.broken:
        console.print(Text.assemble(("FAIL:", "bold red"), f" {sentence}"))
    if report.ok:
        console.print(Text.assemble(("PASS:", "bold green"), report.verdict.removeprefix("PASS:")))
    console.print(f"[dim]{_REPEATED}[/]", highlight=False)


def _show_table(
    console: "Console", found: "CoverageTable", words: tuple[str, str], names: tuple[str, ...] | None
) -> None:
    """The lowest coverage of classes or groups, and how many are significantly low."""
    import numpy as np
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    worst = [int(i) for i in np.argsort(found.coverage, kind="stable")[:_WORST] if found.rows[i]]
    what = "promised for each" if found.law == "beta-binomial" else "not promised for any"
    console.print(
        f"{len(found.under_covered)} of {found.tested:,} {words[1]} have coverage significantly below "
        f"{found.promised:g} ({what}). The lowest:",
        highlight=False,
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in (words[0], "coverage", "95%", "rows", "p (Holm)"):
        table.add_column(column, justify="left" if column == words[0] else "right", no_wrap=column != words[0])
    for i in worst:
        interval, p = f"{found.low[i]:.2f} to {found.high[i]:.2f}", found.p_holm[i]
        told = "" if np.isnan(p) else f"{p:.2g}"
        table.add_row(
            Text(printable(names[i]) if names else str(i)),
            f"{found.coverage[i]:.3f}",
            interval,
            f"{found.rows[i]:,}",
            told,
        )
    console.print(table)
