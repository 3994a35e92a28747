"""`thermoset adapt`: a predictor for rows that have changed: a new threshold, or other shares of the classes."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermoset.cli.options import (
    ADVANCED,
    KINDS,
    ClusterWork,
    Json,
    Predictor,
    Scores,
    WeightedColumns,
    files_in,
    opened_logits,
)
from thermoset.cli.output import (
    ProgressBar,
    Screen,
    check_files,
    made_folder,
    print_json,
    tell,
    telling_warnings,
    undecided_line,
    weights_line,
    working,
)
from thermoset.cli.tune import promised_coverage
from thermoset.errors import InputError

if TYPE_CHECKING:
    from thermoset.data import Logits
    from thermoset.monitor.report import CheckReport
    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.label_shift import LabelShift
    from thermoset.predictor.leakage import Leakage
    from thermoset.predictor.sets import Inference

_SHOWN = 10  # classes


def adapt(
    predictor: Predictor,
    rows: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="LOGITS",
            help=f"New rows ({KINDS}): files, a folder, or a glob in quotes. They need labels, except with --shift or "
            "--priors.",
        ),
    ] = None,
    *,
    columns: WeightedColumns,
    work: ClusterWork,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The predictor to write. It may be PREDICTOR itself, which is then replaced as a whole.",
        ),
    ],
    shift: Annotated[
        bool,
        typer.Option(
            "--shift", help="Only the shares of the classes have changed: estimate them from rows without labels."
        ),
    ] = False,
    priors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Only the shares of the classes have changed, and are known: csv with a class and its share per line, "
            "or a JSON object.",
        ),
    ] = None,
    as_json: Json = False,
    bootstrap: Annotated[
        int,
        typer.Option(
            help="With --shift: resamples for the errors of the shares; 0 for no errors.", rich_help_panel=ADVANCED
        ),
    ] = 200,
    seed: Annotated[int, typer.Option(help="With --shift: seed of the resamples.", rich_help_panel=ADVANCED)] = 0,
    scores: Scores = None,
) -> None:
    """Set a new threshold from new labelled rows; with --shift or --priors, adapt to other shares of the classes."""
    from thermoset.predictor import TwoTemperaturePredictor

    if shift and priors is not None:
        raise InputError("--shift estimates the shares that --priors gives. Pass one of them.")
    if not rows and priors is None:
        raise InputError(
            "thermoset adapt needs new rows: with labels for a new threshold, or without and --shift for other class "
            "shares. Pass them after the predictor."
        )
    # The predictor may be written to: it is read whole before, and replaced whole or not at all.
    reads = [*(files_in(rows) if rows else ()), *columns.files, *([] if priors is None else [priors])]
    check_files(out.parent, [out.name], reads)
    model = TwoTemperaturePredictor.load(predictor)
    if shift or priors is not None:
        if columns.weights is not None:
            raise InputError("--weights is not used where class shares change. Omit it, or omit --shift and --priors.")
        result: _Recalibrated | _Shifted = _shift(model, rows or [], columns, work, priors, (bootstrap, seed))
        scores = True if scores is None else scores
    else:
        result = _recalibrate(model, rows or [], columns, work)
    with made_folder(out.parent):
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
    """The predictor with its new threshold, and the old and the new one on the same rows."""

    old: "Inference"
    new: "TwoTemperaturePredictor"
    reports: "tuple[CheckReport | None, CheckReport | None]"
    leakage: "Leakage"

    def to_json_dict(self) -> dict[str, Any]:
        """What changed, before and after."""
        both = self.old, self.new._inference
        return {
            "temperature": self.new.temperature_,
            "temperature_sets": self.new.temperature_sets_,
            "promised": promised_coverage(self.new),
            "rows_of_old_threshold": self.leakage.conformal.rows if self.leakage.conformal.leaked else 0,
            **{
                when: {
                    "conformal_rows": inference.document.provenance.conformal_rows,
                    "coverage": None if report is None else report.marginal.coverage,
                    "mean_size": None if report is None else report.avg_size,
                    "empty_share": None if report is None else report.empty_share,
                }
                for when, inference, report in zip(("before", "after"), both, self.reports, strict=True)
            },
        }

    def show(self, screen: Screen) -> None:
        """The old predictor and the new one side by side, and what is promised now."""
        both, after = (self.old, self.new._inference), self.new.document_
        several = both[1].thresholds.size > 1
        lines = [
            ["rows behind the threshold", *(f"{one.document.provenance.conformal_rows:,}" for one in both)],
            ["thresholds, lowest to highest" if several else "threshold", *map(_threshold, both)],
        ]
        coverage, sizes, empty = zip(*map(_cells, self.reports), strict=True)
        lines += [["coverage of the new rows", *coverage], ["labels in a set", *sizes], ["empty sets", *empty]]
        screen.table(["on the same rows", "before", "after"], lines)
        promised = f"Promised for rows like the new ones: coverage {promised_coverage(self.new)}."
        screen.say(after.training_signs or promised)
        if line := weights_line(after):
            screen.say(line)
        undecided = next((measure for measure in after.measures if measure.name == "undecided_share"), None)
        if undecided is not None:
            n_rows = after.provenance.conformal_rows
            screen.say(undecided_line(n_rows, round(undecided.value * n_rows)))
        kept = f"T* = {after.temperature:.3f} and T-hat = {after.temperature_sets:.3f}"
        screen.say(f"The new rows alone set the new threshold; {kept} are unchanged. Check it on other fresh rows.")
        if self.leakage.conformal.leaked:
            screen.say(
                f"{self.leakage.about}{self.leakage.conformal.rows:,} of the {self.leakage.rows:,} rows also set the "
                "old threshold: the promise holds if all of them are like future rows.",
                lead="Note",
                style="bold yellow",
            )


def _recalibrate(
    model: "TwoTemperaturePredictor", paths: list[Path], columns: WeightedColumns, work: ClusterWork
) -> _Recalibrated:
    """Give the predictor a new threshold."""
    from thermoset.predictor.leakage import find_leakage

    old = model._inference
    with working(work.quiet, "Recalibrating"), opened_logits(paths, columns, work, document=old.document) as data:
        weights = columns.read_row_values(paths, "--weights", len(data))
        leakage = find_leakage(old.document, data)
        model.recalibrate(data, weights=weights)
        reports = _judge(old, data, weights), _judge(model._inference, data, weights)
    return _Recalibrated(old, model, reports, leakage)


def _judge(inference: "Inference", data: "Logits", weights: Any) -> "CheckReport | None":
    """Sets and coverage of rows; None where a predictor does not know their groups, or needs their weights."""
    from thermoset.monitor.check import check_rows

    own = weights if inference.document.is_weighted else None
    try:
        return check_rows(inference, data, data.require_labels("adapt"), weights=own)
    except InputError:
        return None


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
    sizes: tuple[float, float] | None

    @property
    def shift(self) -> "LabelShift":
        """The shares."""
        shift = self.new.document_.shift
        assert shift is not None  # noqa: S101 (it has just been made)
        return shift

    def to_json_dict(self) -> dict[str, Any]:
        """The shares, and what they do to the sets."""
        shift, classes = self.shift, self.new.document_.classes
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
            "mean_size_before": None if self.sizes is None else self.sizes[0],
            "mean_size_after": None if self.sizes is None else self.sizes[1],
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
        title = "Class shares" + (f", the {_SHOWN} that changed most" if len(order) > _SHOWN else "")
        head = ["class", "share before", "after", *([] if shift.ends is None else ["95%"]), "ratio"]
        screen.say(f"{title}:")
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
    columns: WeightedColumns,
    work: ClusterWork,
    priors: Path | None,
    resampling: tuple[int, int],
) -> _Shifted:
    """Make the predictor for other class shares: those of a file, or estimated from rows."""
    from thermoset.io.delimited import read_shares

    given: Any = None if priors is None else read_shares(priors)
    if not paths:
        with telling_warnings():
            return _Shifted(model.shifted(priors=given), None)
    bootstrap, seed = resampling
    rows = opened_logits(paths, columns, work, document=model.document_)
    with telling_warnings(), rows as data, ProgressBar(work.quiet, "Estimating class shares") as bar:
        if given is None:
            given = model.estimate_priors(data, bootstrap=bootstrap, random_state=seed, progress=bar.tell)
        new = model.shifted(priors=given)
        sizes = float(model.set_sizes(data).mean()), float(new.set_sizes(data).mean())
        if data.labels is not None:
            whence = "the logits alone" if priors is None else priors.name
            tell(f"the labels of the target rows were not used: class shares come from {whence}.")
    return _Shifted(new, sizes)
