"""`thermoset adapt`: a predictor for rows that have changed: a new threshold, or other shares of the classes."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from thermoset.cli.options import Json, Predictor, Scores, WeightedRows, advanced, files_in, option, rows_argument
from thermoset.cli.output import Screen, check_files, make_folder, print_json, print_warnings, progress, tell
from thermoset.cli.tune import promised_coverage
from thermoset.errors import InputError

if TYPE_CHECKING:
    from thermoset.monitor.report import CheckReport
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
        result: _Recalibrated | _Shifted = _shift(model, paths, rows, priors, (bootstrap, seed))
        scores = True if scores is None else scores
    else:
        result = _recalibrate(model, paths, rows)
    with make_folder(out.parent):
        result.new.save(out, scores=scores)
    if as_json:
        print_json(result.to_json_dict() | {"out": str(out)})
    else:
        screen = Screen()
        result.show(screen)
        screen.wrote(out)


# ---- a new threshold -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Recalibrated:
    """The predictor with its new threshold, and the old and the new one on the same rows.

    A report is None where a predictor does not know the groups of the rows, or needs their weights.
    """

    old: "Inference"
    new: "TwoTemperaturePredictor"
    reports: "tuple[CheckReport | None, CheckReport | None]"
    leakage: "Leakage"

    def to_json_dict(self) -> dict[str, Any]:
        """What changed, before and after."""
        facts: dict[str, Any] = {
            "temperature": self.new.temperature_,
            "temperature_sets": self.new.temperature_sets_,
            "promised": promised_coverage(self.new),
            "rows_of_old_threshold": self.leakage.conformal.rows if self.leakage.conformal.leaked else 0,
        }
        documents = self.old.document, self.new.document_
        for when, document, report in zip(("before", "after"), documents, self.reports, strict=True):
            facts[when] = {
                "conformal_rows": document.provenance.conformal_rows,
                "coverage": None if report is None else report.marginal.coverage,
                "mean_size": None if report is None else report.avg_size,
                "empty_share": None if report is None else report.empty_share,
            }
        return facts

    def show(self, screen: Screen) -> None:
        """The old predictor and the new one side by side, and what is promised now."""
        both, after = (self.old, self.new._inference), self.new.document_
        several = both[1].thresholds.size > 1
        columns = [
            [f"{one.document.provenance.conformal_rows:,}", _threshold(one), *_cells(report)]
            for one, report in zip(both, self.reports, strict=True)
        ]
        names = ["rows behind the threshold", "thresholds, lowest to highest" if several else "threshold"]
        names += ["coverage of the new rows", "labels in a set", "empty sets"]
        screen.table(["on the same rows", "before", "after"], zip(names, *columns, strict=True))
        promised = f"Promised for rows like the new ones: coverage {promised_coverage(self.new)}."
        screen.say(after.training_signs or promised)
        screen.say_document(after)
        kept = f"T* = {after.temperature:.3f} and T-hat = {after.temperature_sets:.3f}"
        screen.say(f"The new rows alone set the new threshold; {kept} are unchanged. Check it on other fresh rows.")
        if self.leakage.conformal.leaked:
            screen.say(
                f"{self.leakage.about}{self.leakage.conformal.rows:,} of the {self.leakage.rows:,} rows also set the "
                "old threshold: the promise holds if all of them are like future rows.",
                lead="Note",
                style="bold yellow",
            )


def _recalibrate(model: "TwoTemperaturePredictor", paths: list[Path], rows: WeightedRows) -> _Recalibrated:
    """Give the predictor a new threshold."""
    from thermoset.monitor.check import check_rows
    from thermoset.predictor.leakage import find_leakage

    old = model._inference
    reports: list[CheckReport | None] = [None, None]
    data_of = rows.open(paths, document=old.document)
    with print_warnings(), progress(rows.quiet, "Recalibrating"), data_of as data:
        weights = rows.values(paths, len(data))
        leakage = find_leakage(old.document, data)
        model.recalibrate(data, weights=weights)
        for i, one in enumerate((old, model._inference)):
            own = weights if one.document.is_weighted else None
            with suppress(InputError):
                reports[i] = check_rows(one, data, data.require_labels("adapt"), weights=own)
    return _Recalibrated(old, model, (reports[0], reports[1]), leakage)


def _cells(report: "CheckReport | None") -> tuple[str, str, str]:
    """Coverage, set size and empty sets as text."""
    if report is None:
        return "", "", ""
    return f"{report.marginal.coverage:.4f}", f"{report.avg_size:.2f}", f"{report.empty_share:.1%}"


def _threshold(inference: "Inference") -> str:
    """The threshold as the score's value, or the lowest and the highest of several."""
    values = inference.thresholds.real.ravel()
    low, high = f"{values.min():.5g}", f"{values.max():.5g}"
    return low if len(values) == 1 else f"{low} to {high}"


# ---- other class shares ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shifted:
    """The predictor for other class shares, and the mean set size before and after on rows, if there are any."""

    new: "TwoTemperaturePredictor"
    shift: "LabelShift"
    sizes: tuple[float, float] | None

    def to_json_dict(self) -> dict[str, Any]:
        """The shares, and what they do to the sets."""
        shift, classes = self.shift, self.new.document_.classes
        before, after = (None, None) if self.sizes is None else self.sizes
        return {
            "classes": list(classes) if classes else list(range(len(shift.source))),
            "source": list(shift.source),
            "target": list(shift.target),
            "error": None if shift.error is None else list(shift.error),
            "low": None if shift.ends is None else shift.ends[0].tolist(),
            "high": None if shift.ends is None else shift.ends[1].tolist(),
            "estimated": shift.estimated,
            "target_rows": shift.target_rows,
            "effective_rows": shift.effective_rows,
            "mean_size_before": before,
            "mean_size_after": after,
        }

    def show(self, screen: Screen) -> None:
        """The classes whose share changed most, what that does to the sets, and what it rests on."""
        shift, document = self.shift, self.new.document_
        order = sorted(range(len(shift.source)), key=lambda c: -abs(shift.target[c] - shift.source[c]))
        lines = []
        for c in order[:_SHOWN]:
            before, after = shift.source[c], shift.target[c]
            ends = [] if shift.ends is None else [f"{shift.ends[0][c]:.4f} to {shift.ends[1][c]:.4f}"]
            name = document.classes[c] if document.classes else str(c)
            lines.append([name, f"{before:.4f}", f"{after:.4f}", *ends, f"{after / before:.2f}"])
        screen.say("Class shares" + (f", the {_SHOWN} that changed most:" if len(order) > _SHOWN else ":"))
        head = ["class", "share before", "after", *([] if shift.ends is None else ["95%"]), "ratio"]
        screen.table(head, lines)
        whence = f"estimated from {shift.target_rows:,} rows" if shift.estimated else "given"
        rows, promised = document.provenance.conformal_rows, self.new._promise.promised
        worth = f"{rows:,} rows are worth {shift.effective_rows:,.0f} equally weighted rows"
        screen.say(f"Conformal rows are weighted for class shares that were {whence}: {worth}.")
        if self.sizes is not None:
            before, after = self.sizes
            screen.say(f"Labels in a set on the target rows, on average: {before:.2f} before, {after:.2f} after.")
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


def _shift(
    model: "TwoTemperaturePredictor",
    paths: list[Path],
    rows: WeightedRows,
    priors: Path | None,
    resampling: tuple[int, int],
) -> _Shifted:
    """Make the predictor for other class shares: those of a file, or estimated from rows."""
    from thermoset.io.delimited import read_shares

    given: Any = None if priors is None else read_shares(priors)
    sizes = None
    with print_warnings():
        if not paths:
            new = model.shifted(priors=given)
        else:
            bootstrap, seed = resampling
            data_of = rows.open(paths, document=model.document_)
            with data_of as data, progress(rows.quiet, "Estimating class shares") as show:
                if given is None:
                    given = model.estimate_priors(data, bootstrap=bootstrap, random_state=seed, progress=show)
                new = model.shifted(priors=given)
                sizes = float(model.set_sizes(data).mean()), float(new.set_sizes(data).mean())
                if data.labels is not None:
                    whence = "the logits alone" if priors is None else priors.name
                    tell(f"the labels of the target rows were not used: class shares come from {whence}.")
    shift = new.document_.shift
    assert shift is not None  # noqa: S101 (it has just been made)
    return _Shifted(new, shift, sizes)
