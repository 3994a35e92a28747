"""`thermoset tune`: from a file of logits to a predictor one can deploy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from thermoset.cli.options import Grouping, Labelled, Probabilities, Quiet, Seed, told_warnings
from thermoset.cli.output import check_files, made_folder, name_files, png, write_files
from thermoset.cli.progress import ProgressBar
from thermoset.cli.report import page_files

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.artifact import Measure
    from thermoset.predictor.members import Member
    from thermoset.tuning import Choice

__all__ = ["PREDICTOR_FILES", "show_predictor", "tune", "write_predictor"]

PREDICTOR_FILES = ("predictor.json", "temperature.png", "report.html")
"""What may be written."""


def tune(
    logits: Labelled,
    alpha: Annotated[str, typer.Option(help="Miscoverage: sets hold the truth with probability 1 - alpha.")] = "0.1",
    method: Annotated[str, typer.Option(help="The score: lac, aps, raps or saps.")] = "raps",
    prefer: Annotated[
        str, typer.Option(help="size, coverage, a number from 0 to 1 in between, size<=S or gap<=G.")
    ] = "coverage",
    out: Annotated[Path, typer.Option(help="Folder for the predictor and the figures.")] = Path("tune-output"),
    objective: Annotated[Literal["nll", "ece"], typer.Option(help="What T* minimises.")] = "nll",
    grouping: Grouping = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Sets without randomisation: larger.")] = False,
    no_empty: Annotated[bool, typer.Option("--no-empty", help="No empty sets: the top label is always in.")] = False,
    calibration_fraction: Annotated[
        str, typer.Option(help="Part of the rows for the temperatures; the others set the threshold.")
    ] = "0.5",
    selection: Annotated[
        Literal["calibration", "paper", "full"],
        typer.Option(help="full: all rows for everything; paper: appendix C, without the exact guarantee."),
    ] = "calibration",
    seed: Seed = 0,
    no_report: Annotated[bool, typer.Option("--no-report", help="No report.html.")] = False,
    probabilities: Probabilities = False,
    quiet: Quiet = False,
) -> None:
    """Choose both temperatures and the threshold, and write predictor.json and report.html."""
    from rich.console import Console

    from thermoset.io import load
    from thermoset.predictor import TwoTemperaturePredictor

    # What can be refused is refused before the work, and nothing is written before it is done.
    check_files(out, PREDICTOR_FILES, [logits])
    data = load(logits, probabilities=probabilities)
    predictor = TwoTemperaturePredictor(
        method,
        alpha,
        prefer,
        objective,
        randomized=not deterministic,
        allow_empty=not no_empty,
        grouping=grouping,
        random_state=seed,
        selection=selection,
        calibration_fraction=calibration_fraction,
    )
    with ProgressBar(quiet, "Tuning") as bar, told_warnings():
        predictor.fit(data, progress=bar.tell)
    no_judges = selection == "full"  # every row set the threshold: a report would show nothing
    page = {} if no_report or no_judges else page_files(predictor, data, logits.name, quiet, {})
    files = write_predictor(predictor, out, page)
    console = Console(emoji=False)
    show_predictor(console, predictor, logits.name)
    console.print()
    name_files(console, files)
    if no_judges and not no_report:
        console.print("For report.html, give thermoset report labelled rows that are not among these.")


def write_predictor(predictor: "TwoTemperaturePredictor", out: Path, more: Mapping[str, bytes]) -> list[Path]:
    """Write the predictor, its figure where matplotlib is installed, and `more` files; each whole or not at all."""
    pictures = _pictures(predictor) | dict(more)
    file = out / "predictor.json"
    with made_folder(out):
        predictor.save(file)
    return [file, *write_files(out, pictures)]


def _pictures(predictor: "TwoTemperaturePredictor") -> dict[str, bytes]:
    """The curves behind the choice; nothing without matplotlib."""
    try:
        from thermoset.plots import choice_figure
    except ImportError:
        return {}
    return {"temperature.png": png(choice_figure(predictor.choice_, predictor.temperature_))}


def show_predictor(console: "Console", predictor: "TwoTemperaturePredictor", name: str) -> None:
    """One screen: the data, both temperatures, what they do, and the recommendation."""
    from rich.markup import escape

    from thermoset.conformal.groupings import GROUPINGS
    from thermoset.quoting import printable

    made, choice = predictor.artifact_, predictor.choice_
    came = made.provenance
    measures = {m.name: m for m in made.measures}
    rows = f"{came.calibration_rows:,} rows for the temperatures, {came.conformal_rows:,} for the threshold"
    if came.selection == "full" and not came.recalibrated:
        rows = f"{came.conformal_rows:,} rows for the temperatures and the threshold"
    console.print(f"[bold]Data[/] {escape(printable(name))}: {made.n_classes:,} classes; {rows}", highlight=False)
    console.print(f"\n[bold]Confidence[/] T* = {made.temperature:.3f} ({came.objective.upper()})", highlight=False)
    table = _table("softmax at", "ECE", "NLL")
    for label, when in (("T = 1", "before"), ("T*", "after")):
        cells = [measures[f"{metric}_{when}"] for metric in ("ece", "nll")]
        reach = [(m.high - m.low) / 2 for m in cells if m.high is not None and m.low is not None]
        table.add_row(label, *(f"{m.value:.3f} ± {r:.3f}" for m, r in zip(cells, reach, strict=True)))
    console.print(table)
    conditional = f", {GROUPINGS[made.grouping].title}" if made.grouping else ""
    console.print(
        f"[bold]Sets[/] {made.method.name.upper()}, alpha = {made.alpha}{conditional}, prefer {choice.prefer}: "
        f"T-hat = {made.temperature_sets:.3f}",
        highlight=False,
    )
    console.print(f"  coverage {_coverage(predictor, measures.get('coverage'))}", highlight=False)
    if made.members:
        console.print(f"  {_united(made.members, measures['avg_size'].value)}", highlight=False)
    console.print(_sets_table(choice))
    first, *others = choice.sentences
    console.print(f"[bold]Recommendation[/] {first}", highlight=False)
    for sentence in others:
        console.print(f"  {sentence}", highlight=False)
    for term, meaning in choice.legend:
        console.print(f"  [dim]{term}: {meaning}[/]", highlight=False)


def _united(members: "Sequence[Member]", size: float) -> str:
    """What sets are made of where all rows did both; the table has sets at T-hat alone."""
    *others, last = [f"{member.temperature:.2f}" for member in members]
    return f"sets are unions of those at T = {', '.join(others)} and {last}: {size:.2f} labels"


def _sets_table(choice: "Choice") -> "Table":
    """What sets will look like: first what the choice rests on, then sizes; TopCovGap where classes can carry it."""
    from thermoset.metrics import METRICS

    top = METRICS["top_coverage_gap"].title
    known = {
        "class gap": any(at.class_gap is not None for at in choice.outlooks),
        top: any(at.top_gap is not None for at in choice.outlooks),
    }
    table = _table("sets at", "T", *(["class gap"] if known["class gap"] else []), "labels", "empty",
                   *([top] if known[top] else []))  # fmt: skip
    for at in choice.outlooks:
        size = f"{at.size:.2f}" + ("" if at.size_error is None else f" ± {1.96 * at.size_error:.2f}")
        cells = [at.name, f"{at.temperature:.2f}"]
        if at.class_gap is not None and at.class_gap_ends is not None:
            cells.append(f"{at.class_gap:.3f} ({at.class_gap_ends[0]:.3f} to {at.class_gap_ends[1]:.3f})")
        cells += [size, f"{at.empty_share:.1%}"]
        if at.top_gap is not None:
            cells.append(f"{at.top_gap:.3f}")
        table.add_row(*cells)
    table.caption = "± and ranges: 95%."
    if known[top]:
        table.caption += f" {top} by chance alone on these rows: {choice.noise_floor:.3f}."
    return table


def _coverage(predictor: "TwoTemperaturePredictor", law: "Measure | None") -> str:
    """What is promised: by class, exactly and between which ends, at least, or (the paper's selection) about."""
    if law is None:
        return "by class"
    if predictor.artifact_.provenance.selection == "paper":
        return f"about {law.value:.3f}"
    if not predictor.promise.exact:
        return f"at least {law.value:.3f}"
    return f"{law.value:.3f} on average; this predictor: {law.low:.3f} to {law.high:.3f} (95%)"


def _table(*columns: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column.endswith("at") else "right", no_wrap=True)
    return table
