"""`thermoset adapt`: a predictor for rows that have changed: a new threshold, or other shares of the classes."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from thermoset.cli.options import Json, Predictor, Scores, WeightedRows, advanced, files_in, option, rows_argument
from thermoset.cli.output import Screen, check_files, make_folder, print_json, print_warnings, progress, tell
from thermoset.cli.tune import promised_coverage
from thermoset.errors import InputError

if TYPE_CHECKING:
    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.label_shift import LabelShift
    from thermoset.predictor.leakage import Leakage
    from thermoset.predictor.sets import Inference

_SHOWN = 10  # classes


def adapt(
    predictor: Predictor,
    logits: Annotated[
        list[Path] | None, rows_argument("New rows {}. They need labels, except with --shift or --priors.")
    ] = None,
    *,
    rows: WeightedRows,
    out: Annotated[
        Path, option("The predictor to write. It may be PREDICTOR itself, which is then replaced as a whole.", "FILE")
    ],
    shift: Annotated[
        bool,
        option("Only the shares of the classes have changed: estimate them from rows without labels.", name="--shift"),
    ] = False,
    priors: Annotated[
        Path | None,
        option(
            "Only the shares of the classes have changed, and are known: csv with a class and its share per line, or a "
            "JSON object.",
            "FILE",
        ),
    ] = None,
    as_json: Json = False,
    bootstrap: Annotated[int, advanced("With --shift: resamples for the errors of the shares; 0 for no errors.")] = 200,
    seed: Annotated[int, advanced("With --shift: seed of the resamples.")] = 0,
    scores: Scores = None,
) -> None:
    """Set a new threshold from new labelled rows; with --shift or --priors, adapt to other shares of the classes."""
    from thermoset.predictor import TwoTemperaturePredictor

    paths = logits or []
    if shift and priors is not None:
        raise InputError("--shift estimates the shares that --priors gives. Pass one of them.")
    if not paths and priors is None:
        raise InputError(
            "thermoset adapt needs new rows: with labels for a new threshold, or without and --shift for other class "
            "shares. Pass them after the predictor."
        )
    # The predictor may be written to: it is read whole before, and replaced whole or not at all.
    reads = [*(files_in(paths) if paths else ()), *rows.files, *([] if priors is None else [priors])]
    check_files(out.parent, [out.name], reads)
    model = TwoTemperaturePredictor.load(predictor)
    if shift or priors is not None:
        if rows.weights is not None:
            raise InputError("--weights is not used where class shares change. Omit it, or omit --shift and --priors.")
        new, facts, show = _shift(model, paths, rows, priors, (bootstrap, seed))
        scores = True if scores is None else scores
    else:
        new, facts, show = _recalibrate(model, paths, rows)
    with make_folder(out.parent):
        new.save(out, scores=scores)
    if as_json:
        print_json(facts | {"out": str(out)})
    else:
        screen = Screen()
        show(screen)
        screen.wrote(out)


class _Adapted(NamedTuple):
    """The new predictor, and what changed, for machines and on the screen."""

    new: "TwoTemperaturePredictor"
    facts: dict[str, Any]
    show: Callable[[Screen], None]


# ---- a new threshold -------------------------------------------------------------------------------------------------


def _recalibrate(model: "TwoTemperaturePredictor", paths: list[Path], rows: WeightedRows) -> _Adapted:
    """The predictor with a new threshold, and the old and the new one on the same rows.

    There is nothing to compare where a predictor does not know the groups of the rows, or needs their weights.
    """
    from thermoset.monitor.check import check_rows
    from thermoset.predictor.leakage import find_leakage

    old = model._inference
    compared: dict[str, Any] = {}
    data_of = rows.open(paths, document=old.document)
    with print_warnings(), progress(rows.quiet, "Recalibrating"), data_of as data:
        weights = rows.values(paths, len(data))
        leakage = find_leakage(old.document, data)
        model.recalibrate(data, weights=weights)
        for when, one in (("before", old), ("after", model._inference)):
            own = weights if one.document.is_weighted else None
            report = None
            with suppress(InputError):
                report = check_rows(one, data, data.require_labels("adapt"), weights=own)
            compared[when] = {
                "conformal_rows": one.document.provenance.conformal_rows,
                "coverage": None if report is None else report.marginal.coverage,
                "mean_size": None if report is None else report.avg_size,
                "empty_share": None if report is None else report.empty_share,
            }
    facts = {
        "temperature": model.temperature_,
        "temperature_sets": model.temperature_sets_,
        "promised": promised_coverage(model),
        "rows_of_old_threshold": leakage.conformal.rows if leakage.conformal.leaked else 0,
        **compared,
    }
    return _Adapted(model, facts, partial(_show_recalibrated, old, model, compared, leakage))


def _show_recalibrated(
    old: "Inference", new: "TwoTemperaturePredictor", compared: dict[str, Any], leakage: "Leakage", screen: Screen
) -> None:
    """The old predictor and the new one side by side, and what is promised now."""
    columns = []
    for one, seen in zip((old, new._inference), compared.values(), strict=True):
        cells = ["", "", ""]
        if seen["coverage"] is not None:
            cells = [f"{seen['coverage']:.4f}", f"{seen['mean_size']:.2f}", f"{seen['empty_share']:.1%}"]
        columns.append([f"{seen['conformal_rows']:,}", _threshold(one), *cells])
    after, several = new.document_, new._inference.thresholds.size > 1
    names = ["rows behind the threshold", "thresholds, lowest to highest" if several else "threshold"]
    names += ["coverage of the new rows", "labels in a set", "empty sets"]
    screen.table(["on the same rows", "before", "after"], zip(names, *columns, strict=True))
    screen.say(after.training_signs or f"Promised for rows like the new ones: coverage {promised_coverage(new)}.")
    screen.say_document(after)
    kept = f"T* = {after.temperature:.3f} and T-hat = {after.temperature_sets:.3f}"
    screen.say(f"The new rows alone set the new threshold; {kept} are unchanged. Check it on other fresh rows.")
    if leakage.conformal.leaked:
        screen.say(
            f"{leakage.about}{leakage.conformal.rows:,} of the {leakage.rows:,} rows also set the "
            "old threshold: the promise holds if all of them are like future rows.",
            lead="Note",
            style="bold yellow",
        )


def _threshold(inference: "Inference") -> str:
    """The threshold as the score's value, or the lowest and the highest of several."""
    values = inference.thresholds.real.ravel()
    low, high = f"{values.min():.5g}", f"{values.max():.5g}"
    return low if len(values) == 1 else f"{low} to {high}"


# ---- other class shares ----------------------------------------------------------------------------------------------


def _shift(
    model: "TwoTemperaturePredictor",
    paths: list[Path],
    rows: WeightedRows,
    priors: Path | None,
    resampling: tuple[int, int],
) -> _Adapted:
    """The predictor for other class shares: those of a file, or estimated from rows."""
    from thermoset.io.delimited import read_shares

    shares: Any = None if priors is None else read_shares(priors)
    sizes = None
    with print_warnings():
        if not paths:
            new = model.shifted(priors=shares)
        else:
            bootstrap, seed = resampling
            data_of = rows.open(paths, document=model.document_)
            with data_of as data, progress(rows.quiet, "Estimating class shares") as show:
                if shares is None:
                    shares = model.estimate_priors(data, bootstrap=bootstrap, random_state=seed, progress=show)
                new = model.shifted(priors=shares)
                sizes = float(model.set_sizes(data).mean()), float(new.set_sizes(data).mean())
                if data.labels is not None:
                    whence = "the logits alone" if priors is None else priors.name
                    tell(f"the labels of the target rows were not used: class shares come from {whence}.")
    shift, classes = new.document_.shift, new.document_.classes
    assert shift is not None  # noqa: S101 (`shifted` has just set it)
    facts = {
        "classes": list(classes) if classes else list(range(len(shift.source))),
        "source": list(shift.source),
        "target": list(shift.target),
        "error": None if shift.error is None else list(shift.error),
        "low": None if shift.ends is None else shift.ends[0].tolist(),
        "high": None if shift.ends is None else shift.ends[1].tolist(),
        "estimated": shift.estimated,
        "target_rows": shift.target_rows,
        "effective_rows": shift.effective_rows,
        "mean_size_before": None if sizes is None else sizes[0],
        "mean_size_after": None if sizes is None else sizes[1],
    }
    return _Adapted(new, facts, partial(_show_shifted, new, shift, sizes))


def _show_shifted(
    new: "TwoTemperaturePredictor", shift: "LabelShift", sizes: tuple[float, float] | None, screen: Screen
) -> None:
    """The classes whose share changed most, what that does to the sets, and what it rests on."""
    document, ends = new.document_, shift.ends
    order = sorted(range(len(shift.source)), key=lambda c: -abs(shift.target[c] - shift.source[c]))
    lines = []
    for c in order[:_SHOWN]:
        before, after = shift.source[c], shift.target[c]
        interval = [] if ends is None else [f"{ends[0][c]:.4f} to {ends[1][c]:.4f}"]
        name = document.classes[c] if document.classes else str(c)
        lines.append([name, f"{before:.4f}", f"{after:.4f}", *interval, f"{after / before:.2f}"])
    screen.say("Class shares" + (f", the {_SHOWN} that changed most:" if len(order) > _SHOWN else ":"))
    screen.table(["class", "share before", "after", *([] if ends is None else ["95%"]), "ratio"], lines)
    whence = f"estimated from {shift.target_rows:,} rows" if shift.estimated else "given"
    n_rows, promised = document.provenance.conformal_rows, new._promise.promised
    worth = f"{n_rows:,} rows are worth {shift.effective_rows:,.0f} equally weighted rows"
    screen.say(f"Conformal rows are weighted for class shares that were {whence}: {worth}.")
    if sizes is not None:
        screen.say(f"Labels in a set on the target rows, on average: {sizes[0]:.2f} before, {sizes[1]:.2f} after.")
    rests = ""
    if shift.estimated and (tried := document.shares) is not None:
        rests = (
            " Tried on the predictor's own rows, estimated shares changed coverage by "
            f"{-tried.coverage_loss:+.3f} and accuracy by {-tried.accuracy_loss:+.3f} at worst."
        )
    screen.say(
        f"If the classes have these shares, a set contains the true label with probability at least {promised:g} "
        f"on average, as long as the rows of each class look as before.{rests}"
    )
