"""`thermoset demo`: the main job on the bundled data, in a minute."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thermoset.cli.options import Quiet, told_warnings
from thermoset.cli.output import check_files, missing_of, name_files, png, tell_skipped
from thermoset.cli.progress import ProgressBar
from thermoset.cli.report import page_files
from thermoset.cli.tune import PREDICTOR_FILES, show_predictor, write_predictor

if TYPE_CHECKING:
    from rich.console import Console

    from thermoset.data import Logits
    from thermoset.datasets import Glyphs
    from thermoset.predictor import TwoTemperaturePredictor

__all__ = ["demo"]

_ALPHA = 0.1
_SHOWN = 6  # characters whose sets are shown
_SPLITS = 100  # by row, and by font family


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the predictor and the figures.")] = Path("demo-output"),
    quiet: Quiet = False,
) -> None:
    """Which character is this? Calibrated confidence and prediction sets for glyphs of unseen fonts."""
    from rich.console import Console

    from thermoset.data.splits import split_indices
    from thermoset.datasets import load_glyphs
    from thermoset.predictor import TwoTemperaturePredictor

    check_files(out, [*PREDICTOR_FILES, "reliability.png"])
    glyphs = load_glyphs()
    rows = split_indices(len(glyphs.logits), 0.7)
    known, fresh = (glyphs.logits.take(part) for part in rows)
    with ProgressBar(quiet, "Tuning") as bar, told_warnings():
        predictor = TwoTemperaturePredictor("auto", _ALPHA, "protect").fit(known, progress=bar.tell)
    place = {row: i for i, row in enumerate(rows[1].tolist())}
    pictures = zip(glyphs.thumbnail_rows.tolist(), glyphs.thumbnails, strict=True)
    images = {place[row]: picture for row, picture in pictures if row in place}
    page = page_files(predictor, fresh, "glyphs of fonts that the network has not seen", quiet, images=images)
    files = write_predictor(predictor, out, {**_figures(predictor, fresh), **page})
    console = Console(emoji=False)
    show_predictor(console, predictor, "glyphs, a network that reads characters of fonts it was not trained on")
    _show_fresh(console, predictor, fresh)
    _show_families(console, predictor, glyphs)
    console.print()
    name_files(console, files)
    tell_skipped("the figures", ("matplotlib",), "plot")
    console.print("\nOn your own logits: [bold]thermoset tune val.npz[/], with arrays 'logits' and 'labels'.")


def _figures(predictor: "TwoTemperaturePredictor", fresh: "Logits") -> dict[str, bytes]:
    """Reliability diagrams before and after T*, on rows that neither temperature saw; none without Matplotlib."""
    if missing_of(("matplotlib",)):
        return {}
    from thermoset.calibration import probabilities
    from thermoset.metrics import reliability_table
    from thermoset.plots import figure, plot_reliability

    labels = fresh.require_labels("the demo")
    made, panels = figure(2)
    for ax, name, temperature in zip(panels, ("T = 1", "T = T*"), (1.0, predictor.temperature_), strict=True):
        plot_reliability(reliability_table(probabilities(fresh, temperature), labels), ax=ax, title=name)
    return {"reliability.png": png(made)}


def _show_fresh(console: "Console", predictor: "TwoTemperaturePredictor", fresh: "Logits") -> None:
    """What sets look like for characters that the predictor has not seen."""
    import numpy as np
    from rich.markup import escape

    from thermoset.metrics import avg_size, marginal_coverage

    answers = predictor.predict_arrays(fresh)
    labels = fresh.require_labels("the demo")
    console.print(
        f"\n[bold]On {len(fresh):,} fresh characters[/] the set contains the right one in "
        f"{marginal_coverage(answers.sets, labels):.1%} of cases, with {avg_size(answers.sets):.2f} labels on average. "
        "Examples:",
        highlight=False,
    )
    sizes = answers.sets.sum(axis=1)
    doubtful = np.flatnonzero((sizes > 1) & (sizes < 5))
    names = fresh.classes or ()
    few = doubtful[:: max(len(doubtful) // _SHOWN, 1)][:_SHOWN]
    for i, record in zip(few, predictor.predict_records(fresh.take(few)), strict=True):
        members = ", ".join(str(member) for member in record.set)
        console.print(
            f"  {escape(names[labels[i]])}: {{{escape(members)}}}, most likely {escape(str(record.label))} "
            f"({record.confidence:.0%})",
            highlight=False,
        )


def _show_families(console: "Console", predictor: "TwoTemperaturePredictor", glyphs: "Glyphs") -> None:
    """What it does to the promise that rows of one font family are not independent."""
    from thermoset.metrics import coverage_law
    from thermoset.sweeping import sweep

    recipe, n_rows = predictor.document_.recipe, len(glyphs.logits)
    half = n_rows // 2
    found = []
    for together in (None, glyphs.family):
        splits = sweep(
            glyphs.logits,
            temperatures=[predictor.temperature_sets_],
            methods=[recipe.score],
            alphas=[recipe.alpha],
            trials=_SPLITS,
            calibration_fraction=0,
            cp_fraction=0.5,
            randomized=recipe.randomized,
            allow_empty=recipe.allow_empty,
            grouping=recipe.grouping,
            split_by=together,
        )
        found.append(splits.trial_values[0, 0, 0, splits.metrics.index("marginal_coverage")])
    by_row, by_family = found
    law = coverage_law(half, n_rows - half, recipe.alpha).std() / (n_rows - half)
    console.print(
        f"\n[bold]A new font[/] is a harder question: rows of one font family are not independent, and a random split "
        f"puts them on both sides. Over {_SPLITS} splits that hold out whole families (`split_by`), coverage is "
        f"{by_family.mean():.3f} on average, with a standard deviation of {by_family.std(ddof=1):.3f}; over random "
        f"splits it is {by_row.mean():.3f} and {by_row.std(ddof=1):.4f}; the law for independent rows says {law:.4f}.",
        highlight=False,
    )
