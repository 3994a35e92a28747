"""`thermoset check` and `thermoset monitor`: whether a promise is kept, on one sample or batch after batch."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermoset.cli.options import (
    KINDS,
    Json,
    Labelled,
    Predictor,
    Rows,
    WeightedRows,
    files_in,
    option,
    split_names,
    title_of,
)
from thermoset.cli.output import BROKEN, Screen, check_file, need_page, print_json, print_warnings, progress, write_file
from thermoset.errors import InputError
from thermoset.quoting import printable

if TYPE_CHECKING:
    from thermoset.monitor.report import CheckReport
    from thermoset.monitor.status import MonitorStatus

_WORST = 5  # classes shown
_LATEST = 10  # batches shown


def check(
    predictor: Predictor,
    logits: Labelled,
    rows: WeightedRows,
    fail_on: Annotated[
        str,
        option(
            "What else to fail on, with commas. classes, groups: one of them is covered too seldom. confidence: it "
            "does not match accuracy. answers: more are wrong than was claimed.",
            "NAMES",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Test the promise on fresh labelled rows, once; the exit code is 1 if it is broken."""
    from thermoset.predictor import TwoTemperaturePredictor

    model = TwoTemperaturePredictor.load(predictor)
    data_of = rows.open(logits, document=model.document_)
    with print_warnings(), progress(rows.quiet, "Checking"), data_of as data:
        report = model.check(data, weights=rows.values(logits, len(data)), fail_on=split_names(fail_on))
    if as_json:
        print_json(report.to_json_dict())
    else:
        show_check(Screen(), report)
    if not report.ok:
        raise typer.Exit(BROKEN)


def show_check(screen: Screen, report: "CheckReport") -> None:
    """One screen: the numbers and what is expected, the classes or groups covered least, and the verdict."""
    from thermoset.metrics import METRICS

    def chance(mean: float, high: float) -> str:
        return f"chance: {mean:.4f}, 95%: {high:.4f}"

    seen, floor, sure, kind = report.marginal, report.floor, report.calibration, report.promise.kind
    allowed = f"{seen.allowed.low:.4f} to {seen.allowed.high:.4f}"
    of_rows = f" of {seen.rows:,} rows in {kind.units}" if kind and seen.rows != report.rows else ""
    lines = [
        [f"coverage{of_rows}", f"{seen.coverage:.4f}", allowed, f"{seen.p_value:.2g}"],
        [METRICS["top_coverage_gap"].title, f"{report.top_gap:.4f}", chance(floor.top_mean, floor.top_95), ""],
        [METRICS["avg_coverage_gap"].title, f"{report.avg_gap:.4f}", chance(floor.avg_mean, floor.avg_95), ""],
    ]
    for part in report.parts.gaps:
        by = "set size" if part.by == "size" else part.by
        lines.append([f"gap by {by}", f"{part.gap:.4f}", chance(part.floor.top_mean, part.floor.top_95), ""])
    lines += [
        ["labels in a set", f"{report.avg_size:.2f}", "", ""],
        ["empty sets", f"{report.empty_share:.1%}", "", ""],
        ["ECE", f"{sure.ece:.4f}", chance(sure.ece_mean, sure.ece_95), f"{sure.p_value:.2g}"],
    ]
    if report.classwise is not None:
        lines.append(["classwise ECE", f"{report.classwise.ece:.4f}", f"chance: {report.classwise.ece_chance:.4f}", ""])
    alone = report.answers
    if alone is not None and alone.answered:
        rate, claimed = f"{alone.errors / alone.answered:.4f}", f"claimed: at most {alone.bound:g}"
        lines.append([f"errors of {alone.answered:,} answers", rate, claimed, f"{alone.p_value:.2g}"])
    lines += [["NLL", f"{sure.nll:.3f}", "", ""], ["accuracy", f"{sure.accuracy:.3f}", "", ""]]
    head = f"{report.rows:,} rows" + ("" if alone is None else " that people see")
    screen.table([head, "seen", "expected", "p"], lines)
    if report.undecided is not None:
        screen.say_undecided(report.rows, report.undecided)
    tables = [("classes", report.classes, report.to_table())]
    if report.groups is not None:
        tables.insert(0, ("groups", report.groups, report.group_table()))
    for what, table, lowest in tables:
        promised = "promised for each" if table.law == "beta-binomial" else "not promised for any"
        screen.say(
            f"{len(table.under_covered)} of {table.tested:,} {what} have coverage significantly below "
            f"{table.promised:g} ({promised}). The lowest:"
        )
        known = [line for line in lowest.lines if line[1] != "0"][:_WORST]
        screen.table(lowest.head, [["" if cell == "-" else cell for cell in line] for line in known])
    for sentence in report.notes:
        screen.say(sentence, lead="Note", style="bold yellow")
    for sentence in report.broken:
        screen.say(sentence, lead="FAIL:", style="bold red")
    if report.ok:
        screen.say(report.verdict.removeprefix("PASS: "), lead="PASS:", style="bold green")
    screen.note(
        "Repeated checks are not independent, and each has its own false alarm rate of 1 in 1,000. To watch a "
        "predictor over time, use thermoset monitor."
    )


# ---- over time -------------------------------------------------------------------------------------------------------


def monitor(
    predictor: Predictor,
    batch: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="BATCH",
            help=f"New rows ({KINDS}), with all, some or no labels; missing ones are -1, NaN or blank. Without a "
            "batch: the current status.",
        ),
    ] = None,
    *,
    rows: Rows,
    state: Annotated[Path, option("State of the monitor; a new file begins a new state.", "FILE")],
    name: Annotated[str | None, option("Name of the batch; by default that of its file.")] = None,
    time: Annotated[str | None, option("When the rows arrived, in any words.")] = None,
    page: Annotated[Path | None, option("Write a page over time (html).", "FILE")] = None,
    prometheus: Annotated[
        Path | None,
        option(
            "Write metrics for the textfile collector of Prometheus' node exporter. The name of the file, such as "
            "digits.prom, becomes the label that tells predictors apart.",
            "FILE",
        ),
    ] = None,
    as_json: Json = False,
    delta: Annotated[float | None, option("Chance that any test ever gives a false alarm; 0.01 by default.")] = None,
    run_length: Annotated[
        int | None,
        option(
            "Rows between false alarms of a change detector, at least, on average; 1,000,000 by default; 0: no "
            "detectors."
        ),
    ] = None,
) -> None:
    """Add a batch, and say whether coverage or the rows have changed; the exit code is 1 on an alarm."""
    from thermoset.io import read_partial_labels
    from thermoset.monitor.monitor import Monitor
    from thermoset.predictor import TwoTemperaturePredictor

    paths = batch or []
    reads = [predictor, *(files_in(paths) if paths else ()), *rows.files]
    _check_targets(state, page, prometheus, reads)
    if not paths and not state.exists():
        raise InputError(f"{state}: there is no such file. Pass a batch to start one.")
    settings: dict[str, Any] = {} if delta is None else {"delta": delta}
    settings |= {} if run_length is None else {"run_length": run_length or None}
    with print_warnings(), progress(rows.quiet, "Monitoring"):
        model = TwoTemperaturePredictor.load(predictor)
        if paths:
            with rows.open(paths, with_labels=False, document=model.document_) as data:
                labels = read_partial_labels(paths, data, **rows.how)
                with Monitor.open(state, model, **settings) as watching:
                    status = watching.add(data, labels, time=time, name=name or title_of(paths))
        else:
            status = Monitor.load(state, model).status
    written = []
    if page is not None:
        from thermoset.report import write_monitor_page

        write_monitor_page(status, page, predictor.name)
        written.append(page)
    if prometheus is not None:
        from thermoset.monitor.prometheus import prometheus_text

        written.append(write_file(prometheus, prometheus_text(status, prometheus.stem)))
    if as_json:
        print_json(status.to_json_dict())
    else:
        screen = Screen()
        _show_status(screen, status)
        screen.wrote(*written)
    if status.alarm:
        raise typer.Exit(BROKEN)


def _check_targets(state: Path, page: Path | None, prometheus: Path | None, reads: list[Path]) -> None:
    """Refuse, before the work, files that must not be written, and a page that cannot be drawn."""
    check_file(state, reads)
    for what, path in (("page", page), ("metrics", prometheus)):
        if path is not None:
            check_file(path, reads)
            if path.resolve() == state.resolve():
                raise InputError(f"{path}: is named for both the state and the {what}. Name two different files.")
    if page is not None:
        need_page("--page")
    if prometheus is not None and prometheus.suffix != ".prom":
        raise InputError(f"--prometheus {prometheus} must end in .prom: the textfile collector reads no other files.")


def _show_status(screen: Screen, status: "MonitorStatus") -> None:
    """The latest batches, the tests, what was found, and what to do."""
    lines = []
    for one in status.batches[-_LATEST:]:
        called = printable(one.name, 40) + ("" if one.time is None else f", {printable(one.time, 40)}")
        coverage = f"{one.hits / one.labelled:.3f}" if one.labelled else ""
        seen = "" if one.coverage_low is None else f"{one.coverage_low:.3f} to {one.coverage_high:.3f}"
        lines.append([called, f"{one.rows:,}", f"{one.labelled:,}", coverage, seen, f"{one.mean_size:.2f}"])
    screen.table(["batch", "rows", "labelled", "coverage", "all so far", "set size"], lines)
    tests = [[test.title, _odds(test.log_e), _odds(test.log_bar)] for test in status.tests]
    screen.table(["test", "evidence", "alarm from"], tests)
    for sentence in status.sentences:
        screen.say(sentence)
    for sentence in status.advice:
        screen.say(sentence, lead="To do", style="bold yellow")
    if status.alarm:
        screen.say(lead="Alarm", style="bold red")


def _odds(log_e: float) -> str:
    """Evidence as odds; very large and very small ones as powers of ten."""
    power = log_e / math.log(10)
    return f"{math.exp(log_e):,.3g}" if -6 < power < 6 else f"1e{power:+.0f}"
