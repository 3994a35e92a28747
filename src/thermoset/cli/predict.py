"""`thermoset predict`: labels, confidences and sets for files of any length, one after the other."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from thermoset.cli.options import (
    KINDS,
    Classes,
    Columns,
    Groups,
    Ignore,
    Labels,
    Memory,
    Predictor,
    Probabilities,
    Quiet,
    Scheduler,
    Weights,
    files_in,
    is_one_file,
    on_cluster,
    told_warnings,
    weighed,
)
from thermoset.cli.output import check_file, tell, undecided_line
from thermoset.cli.progress import ProgressBar
from thermoset.errors import InputError
from thermoset.quoting import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.many_files import Predicted, RunShards

__all__ = ["predict"]


def predict(
    predictor: Predictor,
    logits: Annotated[
        list[Path], typer.Argument(help=f"Logits ({KINDS}): a file, several, a folder, or a glob in quotes.")
    ],
    out: Annotated[
        Path,
        typer.Option(help="File for the predictions: parquet, csv or jsonl; or a folder, for one file each."),
    ],
    file_format: Annotated[
        Literal["parquet", "csv", "jsonl"] | None,
        typer.Option("--format", help="Format of the files in a folder; parquet by default."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue where an earlier run into the folder stopped.")
    ] = False,
    p_values: Annotated[
        bool,
        typer.Option(
            "--p-values", help="Write p-values of all labels too, with each row's credibility and conformal confidence."
        ),
    ] = False,
    probabilities: Probabilities = False,
    labels: Labels = None,
    classes: Classes = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the csv, parquet, Arrow or json file (array of the npz) that holds ids, which are written "
            "with the predictions, under the same name.",
        ),
    ] = None,
    u: Annotated[
        Literal["row", "ids"],
        typer.Option(
            "--u",
            help="Where the randomness of a set comes from: the seed and the row's logits, or the seed and its id, "
            "so that noise in the logits cannot change it.",
        ),
    ] = "row",
    groups: Groups = None,
    ignore: Ignore = None,
    weights: Weights = None,
    memory: Memory = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
) -> None:
    """Write label, confidence and set of every row; files are read in blocks and may be larger than memory."""
    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.many_files import Predicted, Reading, ShardJob, predict_shard, predict_shards

    columns = Columns(labels, classes, id_column, groups, ignore, probabilities, weights=weights)
    how = {**columns.how, "weights": weights, "p_values": p_values, "u": u, "memory": memory}
    reading = Reading(**how)
    source = _only_file(logits, out, resume, file_format, reading.sidecars)
    if source is not None:
        check_file(out, [predictor, source])
        if scheduler is not None:
            raise InputError(f"--scheduler works on shards, but --out {out} is one file. Name a folder.")
    model = TwoTemperaturePredictor.load(predictor)
    if p_values:
        model._inference.require_p_values()
    with told_warnings(), ProgressBar(quiet, "Predicting") as bar:
        if source is not None:
            job = ShardJob(source, out, source.name, out.name, reading)
            found = Predicted((predict_shard(model, job, bar.tell),))
            done = f"Wrote {printable(str(out))}:"
        else:
            try:
                with on_cluster(scheduler) as client:
                    found = predict_shards(
                        model,
                        logits,
                        out,
                        kind=file_format or "parquet",
                        resume=resume,
                        run=None if client is None else _on(client),
                        progress=bar.tell,
                        **how,
                    )
            except (KeyboardInterrupt, SystemExit) as ended:
                for note in getattr(ended, "__notes__", ()):
                    tell(f"{note}. Continue with the same command and --resume.")
                raise
            done = _done(found, out)
    _sum_up(model, found, done)


def _on(client: Any) -> "RunShards":
    from thermoset.integrations.dask import run_shards

    return run_shards(client)


def _only_file(
    logits: list[Path], out: Path, resume: bool, file_format: str | None, sidecars: "Sequence[str]"
) -> Path | None:
    """The file of logits, if --out names a file for its predictions; None if --out names a folder."""
    from thermoset.io import PREDICTION_SUFFIXES

    named_file = out.suffix and not out.is_dir() and is_one_file(logits)  # with a suffix that is perhaps a slip
    if not named_file and out.suffix.lower() not in PREDICTION_SUFFIXES:
        return None
    files = files_in(logits, sidecars=sidecars)
    if len(files) > 1:
        raise InputError(f"--out {out} is one file, but there are {len(files):,} files of logits. Name a folder.")
    if resume or file_format:
        which = "--resume" if resume else "--format"
        raise InputError(f"{which} is for a folder of predictions, but --out {out} is one file. Omit it.")
    return files[0]


def _done(found: "Predicted", out: Path) -> str:
    folder, n_shards = printable(str(out)), len(found.shards)
    if found.found == n_shards:
        return f"Nothing to do: all {n_shards:,} shards in {folder} are finished:"
    before = f" ({found.found:,} of them earlier)" if found.found else ""
    return f"Wrote {n_shards:,} shards{before} to {folder}:"


def _sum_up(model: "TwoTemperaturePredictor", found: "Predicted", done: str) -> None:
    """Say what was written, and whether set sizes have drifted."""
    import numpy as np

    from thermoset.monitor.drift import size_drift

    rows, sizes = found.rows, found.sizes
    if rows == 0:
        sys.stdout.write(f"{done} no rows, as in the logits\n")
        return
    mean = float(sizes @ np.arange(len(sizes))) / rows
    sets = f"{mean:.2f} labels in a set on average, {sizes[0] / rows:.1%} empty"
    sys.stdout.write(f"{done} {rows:,} rows, {sets}\n")
    if (told := weighed(model.document_)) is not None:
        sys.stdout.write(f"{told}\n")
    undecided = sum(one.undecided for one in found.shards)
    if undecided:
        sys.stdout.write(f"{undecided_line(rows, undecided)}\n")
    known = model.document_.sizes
    if not known:  # the level was changed without the conformal rows
        return
    drift = size_drift(np.array(known), sizes)
    if drift.drifted:
        tell(f"warning: {drift.message}")
