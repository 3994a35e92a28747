"""Numbers and picture of the data card in README.md: `python -m examples.glyphs.card`."""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import thermoset as ts
from examples.glyphs.render import Pictures
from thermoset.calibration import probabilities
from thermoset.conformal import scores
from thermoset.datasets import Glyphs, load_glyphs
from thermoset.levels import conformal_rank
from thermoset.metrics import coverage_law, expected_calibration_error, negative_log_likelihood, top_k_accuracy
from thermoset.sweeping import Protocol, draw_trial

ALPHA = 0.1
SPLITS = 2000
ACROSS = 19  # of 209 = 11 x 19 classes


@dataclass(frozen=True)
class Coverage:
    """Coverage over many splits, and what the exact law says of as many independent rows."""

    mean: float
    spread: float
    law_mean: float
    law_spread: float
    low: float
    high: float


def numbers(logits: ts.Logits) -> dict[str, float]:
    """Measure the model, and sets at T = 1 and T*."""
    labels = logits.require_labels("numbers")
    fitted = ts.TemperatureScaler().fit(logits).temperature_
    found = {"top-1 accuracy": 0.0, "top-5 accuracy": 0.0, "T* (NLL)": fitted}
    found["T* (ECE)"] = ts.TemperatureScaler(objective="ece").fit(logits).temperature_
    for name, temperature in (("T = 1", 1.0), ("T*", fitted)):
        probs = probabilities(logits, temperature)
        found["top-1 accuracy"] = top_k_accuracy(probs, labels, 1)
        found["top-5 accuracy"] = top_k_accuracy(probs, labels, 5)
        found[f"ECE, {name}"] = expected_calibration_error(probs, labels)
        found[f"NLL, {name}"] = negative_log_likelihood(probs, labels)
    swept = ts.sweep(logits, temperatures=sorted({1.0, fitted}), alphas=(ALPHA,))
    for method in swept.methods:
        for metric in ("avg_size", "top_coverage_gap"):
            for name, value in zip(("T = 1", "T*"), swept.curve(metric, method), strict=True):
                found[f"{method} {metric}, {name}"] = float(value)
    return found


def coverage(glyphs: Glyphs, method: str, protocol: Protocol, groups: NDArray[np.str_] | None) -> Coverage:
    """Coverage over many splits of the glyphs, by row or by groups."""
    labels = glyphs.logits.require_labels("coverage")
    n = len(labels)
    u = np.random.default_rng(protocol.random_state).random(n)
    own = scores(method, glyphs.logits, u=u)[np.arange(n), labels]
    # Groups as numbers: splits are made thousands of times.
    codes = None if groups is None else np.unique(groups, return_inverse=True)[1].tolist()
    covered, laws = [], []
    for trial in range(SPLITS):
        drawn = draw_trial(n, trial, protocol, codes)
        rank = conformal_rank(len(drawn.conformal), ALPHA)
        threshold = np.partition(own[drawn.conformal], rank - 1)[rank - 1]
        covered.append(np.mean(own[drawn.evaluation] <= threshold))
        law = coverage_law(len(drawn.conformal), len(drawn.evaluation), ALPHA)
        laws.append((law.mean() / len(drawn.evaluation), law.std() / len(drawn.evaluation)))
    law_mean, law_spread = np.mean(laws, axis=0)
    low, high = np.quantile(covered, (0.05, 0.95))
    return Coverage(*map(float, (np.mean(covered), np.std(covered), law_mean, law_spread, low, high)))


def drawn_alike(pictures: Pictures) -> float:
    """Share of pictures that are, to the pixel, also that of another class in the font; of fonts with 200 classes."""
    complete = np.flatnonzero(np.bincount(pictures.fonts) >= 200)
    some = pictures.of_fonts(complete)
    keys = [(font, image.tobytes()) for image, font in zip(some.images, some.fonts.tolist(), strict=True)]
    counts = Counter(keys)
    return sum(counts[key] > 1 for key in keys) / len(keys)


def sheet(glyphs: Glyphs) -> Figure:
    """Draw the thumbnails of every class with its name."""
    classes, labels = glyphs.logits.classes or (), glyphs.logits.require_labels("sheet")[glyphs.thumbnail_rows]
    made = Figure(figsize=(19, 10), layout="constrained")
    axes = made.subplots(-(-len(classes) // ACROSS), ACROSS)
    for ax, (label, name) in zip(axes.flat, enumerate(classes), strict=True):
        pair = glyphs.thumbnails[labels == label]
        ax.imshow(~np.concatenate(list(pair), axis=1), cmap="gray")
        ax.set_title(name.replace("$", r"\$").replace("Cyrillic", "Cyr."), fontsize=9, pad=3)
        ax.axis("off")
    return made


def main() -> None:
    """Print the tables and write the picture."""
    parser = argparse.ArgumentParser(prog="python -m examples.glyphs.card", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("build/glyphs"), help="folder of the recipe's intermediate files"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/images/glyphs.png"))
    options = parser.parse_args()
    glyphs = load_glyphs()
    print(glyphs)
    full, shipped = numbers(ts.load(options.folder / "logits.npz")), numbers(glyphs.logits)
    for name, value in full.items():
        print(f"{name:32} float32 {value:.5f}  shipped {shipped[name]:.5f}  {abs(value - shipped[name]):.5f}")
    for share in (0.1, 0.5):
        for name, groups in (("row", None), ("family", glyphs.family)):
            print(f"{share} by {name}:", coverage(glyphs, "raps", Protocol(0, share), groups))
    with np.load(options.folder / "pictures.npz", allow_pickle=False) as stored:
        pictures = Pictures(stored["images"], stored["labels"], stored["fonts"])
    print(f"drawn alike: {drawn_alike(pictures):.4f}")
    sheet(glyphs).savefig(options.out, dpi=72)


if __name__ == "__main__":
    main()
