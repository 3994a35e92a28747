"""`thermoset check`: whether fresh labelled rows bear out what was promised."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from thermoset.cli.options import Labelled, Labels, Predictor, Probabilities, Quiet, parts
from thermoset.cli.progress import working

if TYPE_CHECKING:
    from rich.console import Console

    from thermoset.monitor.checking import CheckReport

__all__ = ["check"]

_WORST = 5  # classes shown


def check(
    predictor: Predictor,
    logits: Labelled,
    fail_on: Annotated[
        str, typer.Option(help="Also fail on: classes (under-covered ones), calibration; with commas.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    labels: Labels = None,
    probabilities: Probabilities = False,
    quiet: Quiet = False,
) -> None:
    """Report coverage, class gaps and calibration; exit code 1 when a promise is broken."""
    from rich.console import Console

    from thermoset.io import load
    from thermoset.predictor import TwoTemperaturePredictor

    model = TwoTemperaturePredictor.load(predictor)
    with working(quiet, "Checking"):
        data = load(logits, labels=labels, probabilities=probabilities, n_options=model.artifact_.n_classes)
        report = model.check(data, fail_on=parts(fail_on))
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
    table.add_column(f"{report.rows:,} rows")
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
    table.add_row("labels in a set", f"{report.avg_size:.2f}", "", "")
    table.add_row("empty sets", f"{report.empty_share:.1%}", "", "")
    table.add_row(
        "ECE", f"{sure.ece:.4f}", f"chance: {sure.ece_mean:.4f}, 95%: {sure.ece_95:.4f}", f"{sure.p_value:.2g}"
    )
    table.add_row("NLL, accuracy", f"{sure.nll:.3f}, {sure.accuracy:.3f}", "", "")
    console.print(table)
    _show_classes(console, report)
    for sentence in report.broken:
        console.print(Text.assemble(("Broken", "bold red"), f" {sentence}"))
    if report.ok:
        console.print("[bold green]Kept[/] Nothing that was promised is broken.", highlight=False)


def _show_classes(console: "Console", report: "CheckReport") -> None:
    import numpy as np
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    classes = report.classes
    under = classes.under_covered
    worst = [int(i) for i in np.argsort(classes.coverage, kind="stable")[:_WORST] if classes.rows[i]]
    what = "promised for each" if classes.law == "beta-binomial" else "not promised for any"
    console.print(
        f"{len(under)} of {classes.tested:,} classes are covered significantly less than {classes.promised:g} "
        f"({what}). The lowest:",
        highlight=False,
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("class", "coverage", "95%", "rows", "p (Holm)"):
        table.add_column(column, justify="left" if column == "class" else "right", no_wrap=column != "class")
    for i in worst:
        name = Text(report.class_names[i] if report.class_names else str(i))
        interval = f"{classes.low[i]:.2f} to {classes.high[i]:.2f}"
        table.add_row(name, f"{classes.coverage[i]:.3f}", interval, f"{classes.rows[i]:,}", f"{classes.p_holm[i]:.2g}")
    console.print(table)
