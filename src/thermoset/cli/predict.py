"""`thermoset predict`: labels, confidences and sets for a file of any length."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from thermoset.cli.options import Predictor, Probabilities, Quiet
from thermoset.cli.output import check_file, tell
from thermoset.cli.progress import ProgressBar
from thermoset.quoting import printable

__all__ = ["predict"]


def predict(
    predictor: Predictor,
    logits: Annotated[Path, typer.Argument(help="Logits: npz, npy, csv, parquet, json, safetensors or pt.")],
    out: Annotated[Path, typer.Option(help="File for the predictions: parquet, csv, jsonl or npz.")],
    probabilities: Probabilities = False,
    id_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column of the csv, parquet or json file (array of the npz) that holds ids: a row's set then depends "
            "on the seed, its logits and its id, and the ids are written with the predictions.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write label, confidence and set of every row; the file is read in blocks and may be longer than the memory."""
    import numpy as np

    from thermoset.io import open_blocks, open_predictions
    from thermoset.monitor.drift import size_drift
    from thermoset.predictor import TwoTemperaturePredictor

    check_file(out, [predictor, logits])
    model = TwoTemperaturePredictor.load(predictor)
    n_classes = model.artifact_.n_classes
    sizes = np.zeros(n_classes + 1, dtype=np.int64)
    rows = 0
    with (
        open_blocks(logits, probabilities=probabilities, id_column=id_column, n_options=n_classes) as blocks,
        open_predictions(out, model.artifact_.classes, ids=blocks.id_kind) as written,
        ProgressBar(quiet, "Predicting") as bar,
    ):
        for block, ids in ((block, None) for block in blocks) if id_column is None else blocks.with_ids():
            answers = model.answers(block, ids=ids)
            written.write(*answers, ids=ids)
            sizes += np.bincount(answers.sets.sum(axis=1), minlength=len(sizes))
            rows += len(block)
            bar.tell(rows, blocks.n_rows)
    mean = float(sizes @ np.arange(len(sizes))) / rows
    sets = f"{mean:.2f} labels in a set on average, {sizes[0] / rows:.1%} empty"
    sys.stdout.write(f"Wrote {printable(str(out))}: {rows:,} rows, {sets}\n")
    drift = size_drift(np.array(model.artifact_.sizes), sizes)
    if drift.drifted:
        tell(f"warning: {drift.message}")
