"""`thermoset recalibrate`: a new threshold from new labelled rows, for a predictor whose temperatures stay."""

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
    Scores,
    Weights,
    files_in,
    opened_logits,
    told_warnings,
    weighed,
    weights_of,
)
from thermoset.cli.output import check_files, made_folder, name_files, undecided_line
from thermoset.cli.progress import working
from thermoset.cli.tune import promised_coverage
from thermoset.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from thermoset.data import Logits
    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.sets import Inference

__all__ = ["recalibrate"]


def recalibrate(
    predictor: Predictor,
    logits: Labelled,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The predictor to write, such as renewed.json. It may be PREDICTOR itself, which is then replaced.",
        ),
    ],
    scores: Scores = None,
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
    """Set a new threshold from new labelled rows; both temperatures stay."""
    from rich.console import Console

    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.leakage import find_leakage

    # PREDICTOR may be written to: it is read whole before, and replaced whole or not at all.
    columns = Columns(labels, classes, id_column, groups, ignore, probabilities, weights=weights)
    check_files(out.parent, [out.name], [*files_in(logits), *columns.files])
    model = TwoTemperaturePredictor.load(predictor)
    known = model._inference
    before = known.document
    rows = opened_logits(logits, columns, made=before, memory=memory, scheduler=scheduler)
    with working(quiet, "Recalibrating"), told_warnings(), rows as data:
        own = weights_of(logits, columns, len(data))
        sizes = [_mean_size(model, data, own)]
        sizes.append(_mean_size(model.recalibrate(data, weights=own), data, own))
        leakage = find_leakage(before, data)
    with made_folder(out.parent):
        model.save(out, scores=scores)
    console = Console(emoji=False)
    _show(console, known, model, sizes)
    if leakage.conformal.leaked:
        console.print(
            f"[bold yellow]Note[/] {leakage.about}{leakage.conformal.rows:,} of the {leakage.rows:,} rows also set the "
            "old threshold: the promise holds if all of them are like future rows.",
            highlight=False,
        )
    name_files(console, [out])


def _show(console: "Console", known: "Inference", model: "TwoTemperaturePredictor", sizes: list[str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    before, after = known.document, model.document_
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for column in ("before", "after"):
        table.add_column(column, justify="right", no_wrap=True)
    both = (before, after)
    table.add_row("rows behind the threshold", *(f"{made.provenance.conformal_rows:,}" for made in both))
    several = model._inference.thresholds.size > 1
    table.add_row(
        "thresholds, lowest to highest" if several else "threshold", *map(_threshold, (known, model._inference))
    )
    table.add_row("labels in a set, on the new rows", *sizes)
    console.print(table)
    console.print(f"Promised for rows like the new ones: coverage {promised_coverage(model)}.", highlight=False)
    if (told := weighed(after)) is not None:
        console.print(told, highlight=False)
    for measured in after.measures:
        if measured.name == "undecided_share":
            n_rows = after.provenance.conformal_rows
            console.print(undecided_line(n_rows, round(measured.value * n_rows)), highlight=False)
    kept = f"T* = {after.temperature:.3f} and T-hat = {after.temperature_sets:.3f}"
    console.print(f"The new threshold comes from the new rows alone; {kept} are unchanged.", highlight=False)


def _mean_size(model: "TwoTemperaturePredictor", rows: "Logits", weights: Any) -> str:
    """Of the sets of these rows; nothing where the predictor does not know their groups, or needs their weights."""
    try:
        sizes = model.set_sizes(rows, weights=weights if model.document_.is_weighted else None)
    except InputError:
        return ""
    return f"{sizes.mean():.2f}"


def _threshold(known: "Inference") -> str:
    """The threshold as the score's value, or the lowest and the highest of several."""
    values = known.thresholds.real.ravel()
    low, high = f"{values.min():.5g}", f"{values.max():.5g}"
    return low if len(values) == 1 else f"{low} to {high}"
