"""`thermoset sweep`: sizes and class gaps of prediction sets at every temperature, as a table and a figure."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from thermoset.cli.options import (
    Classes,
    Columns,
    Grouping,
    Groups,
    IdColumn,
    Ignore,
    Labelled,
    Labels,
    Memory,
    Probabilities,
    Quiet,
    Scheduler,
    Seed,
    SplitBy,
    files_in,
    kept_together,
    opened_logits,
    parts,
    told_warnings,
)
from thermoset.cli.output import check_files, made_folder, missing_of, name_files, png, tell_skipped, write_files
from thermoset.cli.progress import ProgressBar

if TYPE_CHECKING:
    from thermoset.data import Logits
    from thermoset.sweeping import Sweep

__all__ = ["sweep"]


def sweep(
    logits: Labelled,
    methods: Annotated[str, typer.Option(help="Scores, comma-separated: lac, aps, raps, saps ...")] = "lac,aps,raps",
    temperatures: Annotated[
        str | None, typer.Option(help="start:stop:step, or comma-separated numbers; 0.3:5:0.1 by default.")
    ] = None,
    alphas: Annotated[str, typer.Option(help="Miscoverage levels, comma-separated.")] = "0.1",
    trials: Annotated[int, typer.Option(help="Random splits.")] = 100,
    calibration_fraction: Annotated[
        str, typer.Option(help="Fraction of the rows set aside for calibration; 0 for none.")
    ] = "0.1",
    cp_fraction: Annotated[str, typer.Option(help="Fraction of the rows that sets thresholds.")] = "0.1",
    seed: Seed = 0,
    evaluation: Annotated[
        Literal["drawn", "integrated"], typer.Option(help="Draw u on evaluation rows, or average sizes over it.")
    ] = "drawn",
    grouping: Grouping = None,
    metrics: Annotated[
        str,
        typer.Option(help="More metrics, comma-separated: sscv, confidence_coverage_gap."),
    ] = "",
    labels: Labels = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    groups: Groups = None,
    ignore: Ignore = None,
    split_by: SplitBy = None,
    probabilities: Probabilities = False,
    out: Annotated[Path, typer.Option(help="Folder for the table and the figure.")] = Path("sweep-output"),
    table_format: Annotated[Literal["csv", "parquet"], typer.Option("--format", help="Format of the table.")] = "csv",
    per_trial: Annotated[bool, typer.Option("--per-trial", help="One row per trial instead of means.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
    memory: Memory = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
) -> None:
    """Sweep temperatures: AvgSize, coverage, class gaps and thresholds over random splits of a file of logits."""
    from thermoset.io.files import need
    from thermoset.sweeping import sweep as run
    from thermoset.sweeping import temperature_grid

    # Bad input is rejected before any computation, and nothing is written until all of it is done.
    if table_format == "parquet":
        need("pyarrow", "io", "--format parquet")
    grid = None if temperatures is None else temperature_grid(temperatures)
    columns = Columns(labels, classes, id_column, groups, ignore, probabilities, split_by)
    check_files(out, [f"sweep.{table_format}", "sweep.png"], [*files_in(logits), *columns.files])
    rows = opened_logits(logits, columns, memory=memory, scheduler=scheduler)
    with told_warnings(), rows as data, ProgressBar(quiet, "Sweeping") as bar:
        result = run(
            data,
            temperatures=grid,
            methods=parts(methods),
            alphas=parts(alphas),
            trials=trials,
            calibration_fraction=calibration_fraction,
            cp_fraction=cp_fraction,
            random_state=seed,
            evaluation=evaluation,
            grouping=grouping,
            metrics=parts(metrics),
            split_by=kept_together(logits, columns, len(data)),
            n_jobs=jobs,
            progress=bar.tell,
        )
    files = _write(result, out, table_format, per_trial)
    _show(result, data, files)
    tell_skipped("the figure", ("matplotlib",), "plot")


def _write(result: "Sweep", out: Path, table_format: str, per_trial: bool) -> list[Path]:
    """Draw, where Matplotlib is installed, then write the files, each whole or not at all."""
    pictures = {}
    if not missing_of(("matplotlib",)):
        from thermoset.plots import sweep_figure

        pictures = {"sweep.png": png(sweep_figure(result))}
    table = out / f"sweep.{table_format}"
    with made_folder(out):
        result.save(table, per_trial=per_trial)
    return [table, *write_files(out, pictures)]


def _show(result: "Sweep", data: "Logits", files: list[Path]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from thermoset.metrics import METRICS

    console, size_title, gap_title = Console(), METRICS["avg_size"].title, METRICS["top_coverage_gap"].title
    console.print(
        f"{len(data):,} rows, {data.n_classes:,} classes; {len(result.temperatures)} temperatures "
        f"{result.temperatures[0]:g} to {result.temperatures[-1]:g}; mean of {result.trials} random splits"
    )
    at_one = result.temperatures.tolist().index(1.0) if 1.0 in result.temperatures else None
    caption = "(T): where; ≤ or ≥ at an edge of the grid"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, caption=caption, caption_justify="left")
    sought = (f"smallest\n{size_title} (T)", f"largest\n{size_title} (T)", f"smallest\n{gap_title} (T)")
    for column in ("score", "alpha", *sought):
        table.add_column(column, justify="left" if column == "score" else "right", no_wrap=True)
    if at_one is not None:
        table.add_column("at T = 1\nsize, gap", justify="right", no_wrap=True)
    for method in result.methods:
        for alpha in result.alphas:
            size = result.curve("avg_size", method, alpha)
            gap = result.curve("top_coverage_gap", method, alpha)
            cells = [
                f"{size.min():.2f} ({_place(result, int(size.argmin()))})",
                f"{size.max():.2f} ({_place(result, int(size.argmax()))})",
                f"{gap.min():.3f} ({_place(result, int(gap.argmin()))})",
            ]
            if at_one is not None:
                cells.append(f"{size[at_one]:.2f}, {gap[at_one]:.3f}")
            table.add_row(method, f"{alpha:g}", *cells)
    console.print(table)
    name_files(console, files)


def _place(result: "Sweep", j: int) -> str:
    """T at place j of the grid; marked when that is an edge, beyond which it might go on."""
    edge = "" if len(result.temperatures) == 1 else {0: "≤", len(result.temperatures) - 1: "≥"}.get(j, "")
    return f"{edge}{result.temperatures[j]:g}"
