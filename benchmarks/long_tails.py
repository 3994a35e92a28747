"""Which sets for rare classes: docs/groups-and-rare-classes.md. Run `python -m benchmarks.long_tails [SPLITS]`.

Half of the rows are known, and the other half judges. Of the known rows one half fits T*, chooses what there is to
choose (T-hat of "RAPS, even", the prior of PAS, the rank limits of RC3P), and the other half sets thresholds.
THERMOSET_DATA names the folder of published logits; without it there are the bundled glyphs alone.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import thermoset as ts
from thermoset.arrays import Bools, Floats, Ints
from thermoset.conformal.recipe import learn_from
from thermoset.metrics import METRICS

ALPHA = 0.1
METRIC_NAMES = ("avg_size", "marginal_coverage", "macro_coverage", "classes_below", "worst_tenth_coverage")
KINDS = {
    "LAC": ts.Recipe("lac", ALPHA),
    "RAPS, even": ts.Recipe("raps", ALPHA),
    "LAC, Mondrian": ts.Recipe("lac", ALPHA, grouping="class"),
    "LAC, clustered": ts.Recipe("lac", ALPHA, grouping="cluster"),
    "PAS": ts.Recipe("pas", ALPHA),
    "LAC, interpolated, tau 0.25": ts.Recipe("lac", ALPHA, grouping=ts.Interpolated(0.25)),
    "LAC, interpolated, tau 0.5": ts.Recipe("lac", ALPHA, grouping=ts.Interpolated(0.5)),
    "LAC, interpolated, tau 0.75": ts.Recipe("lac", ALPHA, grouping=ts.Interpolated(0.75)),
    "PAS, interpolated, tau 0.5": ts.Recipe("pas", ALPHA, grouping=ts.Interpolated(0.5)),
    "APS, Mondrian": ts.Recipe("aps", ALPHA, grouping="class"),
    "APS, RC3P": ts.Recipe("aps", ALPHA, grouping="rc3p"),
    "LAC, RC3P": ts.Recipe("lac", ALPHA, grouping="rc3p"),
}


def thinned(data: ts.Logits, imbalance: float, *, adjusted: bool) -> ts.Logits:
    """Rows of which class shares fall exponentially to 1 / imbalance, the order of the classes drawn from a seed.

    `adjusted` adds the logs of the shares to calibrated logits: what a classifier would say that learned the shares.
    """
    rng, labels, n_classes = np.random.default_rng(0), data.require_labels("thinning"), data.n_classes
    share = np.empty(n_classes)
    share[rng.permutation(n_classes)] = imbalance ** -np.linspace(0, 1, n_classes)
    most = np.bincount(labels).max()
    kept = [rng.permutation(np.flatnonzero(labels == y))[: max(round(most * share[y]), 1)] for y in range(n_classes)]
    logits = np.asarray(data.logits, dtype=np.float64)
    if adjusted:
        logits = logits / ts.TemperatureScaler().fit(data).temperature_ + np.log(share)
    rows = np.sort(np.concatenate(kept))
    return ts.Logits(logits[rows], labels[rows])


def sources() -> Iterator[tuple[str, ts.Logits]]:
    """Data sets by title."""
    yield "Glyphs", ts.datasets.load_glyphs().logits
    if "THERMOSET_DATA" in os.environ:
        folder = Path(os.environ["THERMOSET_DATA"])
        banking, hundred, ten = (
            ts.load(folder / f"{name}.npz") for name in ("banking77_bert", "cifar100_resnet50", "cifar10_resnet50")
        )
        yield "banking77", banking
        yield "CIFAR-100", hundred
        yield "CIFAR-100, thinned 1 : 50", thinned(hundred, 50, adjusted=True)
        yield "CIFAR-10, thinned 1 : 100", thinned(ten, 100, adjusted=True)
        yield "CIFAR-100, thinned 1 : 50, classifier of balanced rows", thinned(hundred, 50, adjusted=False)


def sets_of(name: str, calibration: ts.Logits, conformal: ts.Logits, fresh: ts.Logits) -> Bools:
    """The sets of one kind."""
    if name == "RAPS, even":
        predictor = ts.TwoTemperaturePredictor(KINDS[name].score, ALPHA, "even")
        return predictor.fit_split(calibration, conformal).predict_set(fresh)
    temperature = ts.TemperatureScaler().fit(calibration).temperature_
    recipe = learn_from(KINDS[name], calibration).recipe
    return ts.ConformalClassifier.of(recipe, temperature).fit(conformal).predict_set(fresh)


def measure(data: ts.Logits, splits: int) -> dict[str, Floats]:
    """Metrics (splits, metrics) of every kind."""
    results: dict[str, list[list[float]]] = {name: [] for name in KINDS}
    for split in range(splits):
        rows = np.random.default_rng((1, split)).permutation(len(data))
        quarter = len(data) // 4
        parts: list[Ints] = [rows[:quarter], rows[quarter : 2 * quarter], rows[2 * quarter :]]
        calibration, conformal, fresh = (data.take(np.sort(part)) for part in parts)
        for name in KINDS:
            sets = sets_of(name, calibration, conformal, fresh)
            results[name].append([METRICS[metric](sets, fresh.labels, ALPHA) for metric in METRIC_NAMES])
    return {name: np.array(values) for name, values in results.items()}


def main(splits: int) -> None:
    """Print a Markdown table for each data set."""
    out = sys.stdout.write
    for title, data in sources():
        counts = np.bincount(data.require_labels("counting"), minlength=data.n_classes)
        out(f"\n{title}: {len(data):,} rows, {data.n_classes} classes of {counts.min()} to {counts.max()} rows\n\n")
        out("| sets | AvgSize | coverage | macro-coverage | classes below | worst tenth |\n|---|---|---|---|---|---|\n")
        for name, values in measure(data, splits).items():
            cells = " | ".join(
                f"{value:.2f}" if k == 0 else f"{value:.3f}" for k, value in enumerate(values.mean(axis=0))
            )
            out(f"| {name} | {cells} |\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore", ts.CoverageWarning)
    warnings.simplefilter("ignore", ts.BudgetWarning)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
