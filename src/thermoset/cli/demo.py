"""`thermoset demo`: the whole idea on real data, in a minute."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thermoset.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from thermoset.data import Logits

__all__ = ["demo"]

_ALPHA = 0.1
_METHODS = ("lac", "aps", "raps")
_SPLITS = 30


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the logits.")] = Path("demo-output"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train a small classifier on scikit-learn's digits, calibrate it, and build prediction sets."""
    from rich.console import Console

    from thermoset.io import save

    console = Console()
    data = _digits()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out} cannot be made a folder ({error.strerror}). Name another.") from None
    save(out / "digits.npz", data)
    console.print(
        f"[bold]Data[/] {len(data):,} handwritten digits that a logistic regression did not see in training, "
        f"{data.n_classes} classes"
    )
    temperature = _confidence(console, data, out)
    _sets(console, data, temperature, out, quiet)
    console.print("\n[bold]Written[/]")
    for name in ("reliability.png", "temperature.png", "digits.npz"):
        console.print(f"  {out / name}")
    console.print("\nTo do the same with your own logits: see the README, section 'In Python'.")


def _digits() -> "Logits":
    """Logits of held-out digits from a classifier trained on few of them, and so too sure of itself."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    from thermoset.data import Logits

    pixels, labels = load_digits(return_X_y=True)
    train_x, held_x, train_y, held_y = train_test_split(pixels / 16.0, labels, train_size=100, random_state=0)
    model = LogisticRegression(C=1000.0, max_iter=2000).fit(train_x, train_y)
    return Logits(model.decision_function(held_x), held_y, classes=[str(digit) for digit in range(10)])


def _confidence(console: "Console", data: "Logits", out: Path) -> float:
    """The confidence branch: T*, calibration before and after, reliability diagrams."""
    from rich.table import Table

    from thermoset.calibration import TemperatureScaler, probabilities
    from thermoset.metrics import brier_score, negative_log_likelihood, reliability_table
    from thermoset.plots import figure, plot_reliability

    calibration, evaluation = data.split(0.3, random_state=0)
    labels = evaluation.require_labels("the demo")
    best = float(TemperatureScaler().fit(calibration).temperature_)
    table = Table()
    for column in ("softmax at", "ECE", "NLL", "Brier"):
        table.add_column(column, justify="right")
    made, panels = figure(2)
    for ax, name, temperature in zip(panels, ("T = 1", "T = T*"), (1.0, best), strict=True):
        probs = probabilities(evaluation, temperature)
        bins = reliability_table(probs, labels)
        numbers = bins.ece, negative_log_likelihood(probs, labels), brier_score(probs, labels)
        table.add_row(name, *(f"{number:.3f}" for number in numbers))
        plot_reliability(bins, ax=ax, title=name)
    made.savefig(out / "reliability.png", dpi=150)
    console.print(f"\n[bold]Confidence[/] T* = {best:.2f}, fitted on {len(calibration)} rows, judged on the others")
    console.print(table)
    return best


def _sets(console: "Console", data: "Logits", best: float, out: Path, quiet: bool) -> None:
    """The set branch: size and class coverage of prediction sets against temperature, over random splits."""
    import numpy as np
    from rich.progress import track
    from rich.table import Table

    from thermoset.conformal import ConformalClassifier
    from thermoset.metrics import METRICS
    from thermoset.plots import figure, plot_curves

    grid = sorted({1.0, best, *np.arange(0.5, 8.01, 0.5).tolist()})
    names = ("avg_size", "marginal_coverage", "top_coverage_gap")
    values = np.zeros((len(names), len(_METHODS), len(grid)))
    for seed in track(range(_SPLITS), "Splitting, fitting, predicting", console=console, transient=True, disable=quiet):
        conformal, evaluation = data.split(0.3, random_state=seed)
        labels = evaluation.require_labels("the demo")
        for i, method in enumerate(_METHODS):
            for j, temperature in enumerate(grid):
                sets = ConformalClassifier(method, _ALPHA, temperature).fit(conformal).predict_set(evaluation)
                values[:, i, j] += [METRICS[name](sets, labels, _ALPHA) / _SPLITS for name in names]

    table = Table()
    for column in ("score", "T", "AvgSize", "coverage", "TopCovGap"):
        table.add_column(column, justify="left" if column == "score" else "right")
    for i, method in enumerate(_METHODS):
        for temperature in (1.0, best):
            numbers = values[:, i, grid.index(temperature)]
            table.add_row(method.upper(), f"{temperature:.2f}", *(f"{x:.3f}" for x in numbers))
    console.print(f"\n[bold]Prediction sets[/] alpha = {_ALPHA}, mean of {_SPLITS} random splits")
    console.print(table)

    made, panels = figure(2)
    for ax, name, label in zip(panels, ("avg_size", "top_coverage_gap"), ("AvgSize", "TopCovGap"), strict=True):
        curves = {m.upper(): values[names.index(name), i] for i, m in enumerate(_METHODS)}
        plot_curves(grid, curves, ax=ax, ylabel=label, marks={"T = 1": 1.0, "T*": best})
    made.savefig(out / "temperature.png", dpi=150)
