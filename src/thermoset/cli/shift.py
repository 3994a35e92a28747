"""`thermoset shift`: the predictor for rows in which classes have other shares."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermoset.cli.options import (
    KINDS,
    Classes,
    Columns,
    IdColumn,
    Ignore,
    Labels,
    Memory,
    Predictor,
    Probabilities,
    Quiet,
    Scheduler,
    files_in,
    opened_logits,
    told_warnings,
)
from thermoset.cli.output import check_file, name_files, tell
from thermoset.cli.progress import ProgressBar
from thermoset.errors import InputError
from thermoset.quoting import printable

if TYPE_CHECKING:
    from rich.console import Console

    from thermoset.data import Logits
    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.label_shift import LabelShift

__all__ = ["shift"]

_SHOWN = 10  # classes


def shift(
    predictor: Predictor,
    target: Annotated[
        list[Path] | None,
        typer.Argument(help=f"Unlabelled target rows ({KINDS}): a file, several, a folder, or a glob in quotes."),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="File for the new predictor, such as shifted.json.")],
    priors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Class shares of the target, if they are known: csv with a class and its share per line, or a JSON "
            "object. Otherwise they are estimated from the target rows.",
        ),
    ] = None,
    bootstrap: Annotated[
        int, typer.Option(help="Resamples for the errors of estimated shares; 0 for no errors.")
    ] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    labels: Labels = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    ignore: Ignore = None,
    probabilities: Probabilities = False,
    memory: Memory = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
) -> None:
    """Adapt a predictor to other class shares (label shift): given, or estimated from rows without labels."""
    from rich.console import Console

    from thermoset.io.class_shares import read_shares
    from thermoset.predictor import TwoTemperaturePredictor

    if target is None and priors is None:
        raise InputError("thermoset shift needs target rows, or their class shares (--priors FILE).")
    check_file(out, [predictor, *(files_in(target) if target else []), *([priors] if priors else [])])
    model = TwoTemperaturePredictor.load(predictor)
    given: Any = None if priors is None else read_shares(priors)
    sizes: tuple[float, float] | None = None
    labelled = False
    with told_warnings():
        if target is None:
            new = model.shifted(priors=given)
        else:
            columns = Columns(labels, classes, id_column, ignore=ignore, probabilities=probabilities)
            rows = opened_logits(target, columns, made=model.document_, memory=memory, scheduler=scheduler)
            with rows as data, ProgressBar(quiet, "Estimating class shares") as bar:
                if given is None:
                    given = model.estimate_priors(data, bootstrap=bootstrap, random_state=seed, progress=bar.tell)
                new = model.shifted(priors=given)
                sizes = _sizes(model, new, data)
                labelled = data.labels is not None
    new.save(out, scores=True)
    if labelled:
        tell(f"the labels of the target rows were not used: class shares come from {_whence(priors)}")
    _report(Console(emoji=False), new, sizes, out, as_json)


def _whence(priors: Path | None) -> str:
    return "the logits alone." if priors is None else f"{priors.name}."


def _sizes(before: "TwoTemperaturePredictor", after: "TwoTemperaturePredictor", data: "Logits") -> tuple[float, float]:
    """Labels in a set on average, before and after, on the target rows."""
    return float(before.set_sizes(data).mean()), float(after.set_sizes(data).mean())


def _report(
    console: "Console", new: "TwoTemperaturePredictor", sizes: tuple[float, float] | None, out: Path, as_json: bool
) -> None:
    made = new.document_
    found = made.shift
    if found is None:  # what was just made has one
        raise InputError("the predictor was not shifted.")
    if as_json:
        said = _as_dict(found, made.classes, sizes) | {"out": str(out)}
        sys.stdout.write(json.dumps(said, indent=1, allow_nan=False) + "\n")
        return
    _show_classes(console, found, made.classes)
    for sentence in _sentences(new, found, sizes):
        console.print(sentence, highlight=False)
    name_files(console, [out])


def _show_classes(console: "Console", found: "LabelShift", classes: tuple[str, ...] | None) -> None:
    """The classes whose share changed most."""
    import numpy as np
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    source, target = np.array(found.source), np.array(found.target)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("class")
    for column in ("share before", "after", *(["95%"] if found.error else []), "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    for c in np.argsort(-np.abs(target - source), kind="stable")[:_SHOWN].tolist():
        ends = [] if found.ends is None else [f"{found.ends[0][c]:.4f} to {found.ends[1][c]:.4f}"]
        name = Text(printable(classes[c]) if classes else str(c))
        table.add_row(name, f"{source[c]:.4f}", f"{target[c]:.4f}", *ends, f"{target[c] / source[c]:.2f}")
    left = len(source) - _SHOWN
    console.print(f"Class shares{f', the {_SHOWN} that changed most' if left > 0 else ''}:", highlight=False)
    console.print(table)


def _sentences(new: "TwoTemperaturePredictor", found: "LabelShift", sizes: tuple[float, float] | None) -> list[str]:
    """What was done, what it does to the sets, and what it rests on."""
    whence = f"estimated from {found.target_rows:,} rows" if found.estimated else "given"
    rows, promised = new.document_.provenance.conformal_rows, new.promise.promised
    worth = f"{rows:,} rows are worth {found.effective_rows:,.0f} equally weighted rows"
    said = [f"Conformal rows are weighted for class shares that were {whence}: {worth}."]
    if sizes is not None:
        said.append(f"Labels in a set on the target rows, on average: {sizes[0]:.2f} before, {sizes[1]:.2f} after.")
    rests = ""
    if found.estimated and (tried := new.document_.shares) is not None:
        rests = (
            " Tried on the predictor's own rows, estimated shares changed coverage by "
            f"{-tried.coverage_loss:+.3f} and accuracy by {-tried.accuracy_loss:+.3f} at worst."
        )
    said.append(
        f"If the classes have these shares, a set contains the true label with probability at least {promised:g} on "
        f"average, as long as the rows of each class look as before.{rests}"
    )
    return said


def _as_dict(found: "LabelShift", classes: tuple[str, ...] | None, sizes: tuple[float, float] | None) -> dict[str, Any]:
    return {
        "classes": list(classes) if classes else list(range(len(found.source))),
        "source": list(found.source),
        "target": list(found.target),
        "error": None if found.error is None else list(found.error),
        "low": None if found.ends is None else found.ends[0].tolist(),
        "high": None if found.ends is None else found.ends[1].tolist(),
        "estimated": found.estimated,
        "target_rows": found.target_rows,
        "effective_rows": found.effective_rows,
        "mean_size_before": None if sizes is None else sizes[0],
        "mean_size_after": None if sizes is None else sizes[1],
    }
