"""`thermoset predict`: labels, confidences and sets for files of any length, one after the other."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from thermoset.cli.options import (
    Json,
    Predictor,
    WeightedRows,
    advanced,
    cluster,
    files_in,
    is_one_file,
    option,
    rows_argument,
)
from thermoset.cli.output import Screen, check_file, print_json, print_warnings, progress, tell
from thermoset.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.many_files import Predicted


def predict(
    predictor: Predictor,
    logits: Annotated[list[Path], rows_argument("Logits {}.")],
    rows: WeightedRows,
    out: Annotated[
        Path, option("File for the predictions: parquet, csv or jsonl. Or a folder, for one file each.", "FILE|FOLDER")
    ],
    p_values: Annotated[
        bool,
        option("Also write the p-value of every label, and each row's credibility and confidence.", name="--p-values"),
    ] = False,
    as_json: Json = False,
    file_format: Annotated[
        Literal["parquet", "csv", "jsonl"] | None,
        option("Format of the files in a folder; parquet by default.", name="--format"),
    ] = None,
    resume: Annotated[bool, option("Continue where an earlier run into the folder stopped.", name="--resume")] = False,
    u: Annotated[
        Literal["row", "ids"],
        advanced(
            "What the random part of a set comes from, besides the seed: the row's logits, or its id, so that noise in "
            "the logits cannot change it.",
            name="--u",
        ),
    ] = "row",
) -> None:
    """Write label, confidence and set of every row; files may be larger than memory."""
    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.many_files import Predicted, Reading, ShardJob, predict_shard, predict_shards

    how = {**rows.how, "weights": rows.weights, "p_values": p_values, "u": u, "memory": rows.memory}
    reading = Reading(**how)
    source = _only_file(logits, out, resume, file_format, reading.sidecars)
    if source is not None:
        check_file(out, [predictor, source])
        if rows.scheduler is not None:
            raise InputError(f"--scheduler works on shards, but --out {out} is one file. Name a folder.")
    model = TwoTemperaturePredictor.load(predictor)
    if p_values:
        model._inference.require_p_values()
    with print_warnings(), progress(rows.quiet, "Predicting") as show:
        if source is not None:
            job = ShardJob(source, out, source.name, out.name, reading)
            result = Predicted((predict_shard(model, job, show),))
        else:
            kind = file_format or "parquet"
            try:
                with cluster(rows.scheduler) as client:
                    run = None
                    if client is not None:
                        from thermoset.integrations.dask import run_shards

                        run = run_shards(client)
                    result = predict_shards(model, logits, out, kind=kind, resume=resume, run=run, progress=show, **how)
            except (KeyboardInterrupt, SystemExit) as ended:
                for note in getattr(ended, "__notes__", ()):
                    tell(f"{note}. Continue with the same command and --resume.")
                raise
    _sum_up(model, result, out, source is not None, as_json)


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


def _sum_up(model: "TwoTemperaturePredictor", result: "Predicted", out: Path, one_file: bool, as_json: bool) -> None:
    """Say what was written, and whether set sizes have drifted."""
    import numpy as np

    from thermoset.monitor.drift import size_drift

    rows, sizes, known = result.rows, result.sizes, model.document_.sizes
    n_shards, undecided = len(result.shards), sum(one.undecided for one in result.shards)
    drift = size_drift(np.array(known), sizes) if known and rows else None  # none after a change of level
    mean = float(sizes @ np.arange(len(sizes))) / rows if rows else None
    facts: dict[str, Any] = {"out": str(out), "files": n_shards, "files_earlier": result.found, "rows": rows}
    facts |= {"mean_size": mean, "empty_share": sizes[0] / rows if rows else None, "undecided_rows": undecided}
    facts["drifted"] = None if drift is None else bool(drift.drifted)
    facts["drift_p_value"] = None if drift is None else float(drift.p_value)
    if as_json:
        print_json(facts)
    else:
        done = f"Wrote {out}:"
        if not one_file:
            before = f" ({result.found:,} of them earlier)" if result.found else ""
            done = f"Wrote {n_shards:,} shards{before} to {out}:"
            if result.found == n_shards:
                done = f"Nothing to do: all {n_shards:,} shards in {out} are finished:"
        what = f"{rows:,} rows, {mean:.2f} labels in a set on average, {sizes[0] / rows:.1%} empty" if rows else ""
        screen = Screen()
        screen.say(f"{done} {what or 'no rows, as in the logits'}", wrap=False)
        screen.say_weights(model.document_)
        if undecided:
            screen.say_undecided(rows, undecided)
    if drift is not None and drift.drifted:
        tell(f"warning: {drift.message}")
