"""`thermoset demo`: the whole idea on real data, in a minute."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thermoset.cli.progress import ProgressBar
from thermoset.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from thermoset.data import Logits

__all__ = ["demo"]

_ALPHA = 0.1


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
    console.print("\nOn your own logits: [bold]thermoset sweep val.npz[/], with arrays 'logits' and 'labels'.")


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
    from rich.table import Table

    from thermoset.plots import figure, plot_sweep
    from thermoset.sweeping import sweep, temperature_grid

    grid = sorted({*temperature_grid("0.5:8:0.1").tolist(), best})
    with ProgressBar(quiet, "Sweeping") as bar:
        result = sweep(
            data, temperatures=grid, alphas=[_ALPHA], calibration_fraction=0, cp_fraction=0.3, progress=bar.tell
        )
    metrics = {"avg_size": "AvgSize", "marginal_coverage": "coverage", "top_coverage_gap": "TopCovGap"}
    table = Table()
    for column in ("score", "T", *metrics.values()):
        table.add_column(column, justify="left" if column == "score" else "right")
    for method in result.methods:
        for temperature in (1.0, best):
            numbers = (result.curve(metric, method)[grid.index(temperature)] for metric in metrics)
            table.add_row(method.upper(), f"{temperature:.2f}", *(f"{x:.3f}" for x in numbers))
    console.print(f"\n[bold]Prediction sets[/] alpha = {_ALPHA}, mean of {result.trials} random splits")
    console.print(table)

    made, panels = figure(2)
    for ax, metric in zip(panels, ("avg_size", "top_coverage_gap"), strict=True):
        plot_sweep(result, metric, ax=ax, ylabel=metrics[metric], marks={"T = 1": 1.0, "T*": best})
    panels[0].legend(frameon=False)
    made.savefig(out / "temperature.png", dpi=150)
