"""What calibrators do to probabilities: docs/calibration.md. Run `python -m benchmarks.calibrators [FOLDER]`.

Each is fitted to 500 and to 2,000 labelled rows and judged on up to 8,000 others: of the bundled glyphs, of generated
rows whose fault is known, and of every file of logits in FOLDER, if one is named. The others are written here as
plainly as their papers allow, with NumPy, SciPy and scikit-learn; only the first three are thermoset's own code.
Numbers are means over draws; the tables are Markdown.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import thermoset as ts
from thermoset.arrays import Bools, Floats, Ints
from thermoset.calibration import CalibratedSoftmax, calibrate

SIZES = (500, 2_000)
MOST_JUDGED = 8_000
MOST_CLASSES = 300  # matrices have C * C numbers: of more classes they are left out
BINS = 15
STRENGTHS = (0.3, 3.0, 30.0)  # of a penalty, chosen by cross-validation
COLUMNS = ("NLL", "ECE", "top-label loss", "right at 75-85%", "accuracy", "seconds")


class Judged(NamedTuple):
    """Probabilities (n, C) of rows, and the label that is predicted."""

    probs: Floats
    top: Ints


Predict = Callable[[Floats], Judged]
Fit = Callable[[Floats, Ints, int], Predict]


# --- Generated rows: the honest logits are known, and so is what was done to them.


def honest_rows(rng: np.random.Generator, n: int, share: Floats, signal: float = 2.5) -> tuple[Floats, Ints]:
    """Log-likelihoods of classes, of which the softmax is the truth where shares are equal, and labels."""
    labels = rng.choice(len(share), size=n, p=share)
    evidence = rng.normal(size=(n, len(share)))
    evidence[np.arange(n), labels] += signal
    return signal * evidence, labels


def one_temperature(rng: np.random.Generator, n: int) -> tuple[Floats, Ints]:
    """Logits that are 1.7 times too large: one temperature is all that is wrong."""
    logits, labels = honest_rows(rng, n, np.full(50, 1 / 50))
    return 1.7 * logits, labels


def class_biases(rng: np.random.Generator, n: int) -> tuple[Floats, Ints]:
    """Classes that are favoured or not: a shift of each, normal with standard deviation 1."""
    logits, labels = honest_rows(rng, n, np.full(50, 1 / 50))
    return 1.5 * (logits + rng.normal(size=50)), labels


def class_slopes(rng: np.random.Generator, n: int) -> tuple[Floats, Ints]:
    """Classes that are too sure or not sure enough: a factor of each, e to a normal with standard deviation 0.4."""
    logits, labels = honest_rows(rng, n, np.full(50, 1 / 50))
    return 1.5 * logits * np.exp(0.4 * rng.normal(size=50)), labels


def sparse_classes(rng: np.random.Generator, n: int) -> tuple[Floats, Ints]:
    """Two hundred classes with very different shares, of which the logits do not know."""
    logits, labels = honest_rows(rng, n, rng.dirichlet(np.full(200, 0.5)))
    return 1.7 * logits, labels


def label_noise(rng: np.random.Generator, n: int) -> tuple[Floats, Ints]:
    """Three rows of ten are hard, and six of ten of these have any label: no row may be as sure as it looks."""
    logits, labels = honest_rows(rng, n, np.full(30, 1 / 30), signal=3.0)
    lost = rng.random(n) < 0.3 * 0.6
    labels[lost] = rng.integers(30, size=int(lost.sum()))
    return 1.5 * logits, labels


POPULATIONS: dict[str, Callable[[np.random.Generator, int], tuple[Floats, Ints]]] = {
    "one temperature": one_temperature,
    "class biases": class_biases,
    "class slopes": class_slopes,
    "200 sparse classes": sparse_classes,
    "label noise": label_noise,
}


# --- thermoset


def temperature(logits: Floats, labels: Ints, _seed: int, objective: str = "nll") -> Predict:
    """One temperature."""
    scaler = ts.TemperatureScaler(objective).fit(logits, labels)
    return lambda rows: Judged(scaler.predict_proba(rows), rows.argmax(axis=1))


def auto(logits: Floats, labels: Ints, seed: int) -> Predict:
    """The three steps of calibration="auto"."""
    learned = calibrate(ts.Logits(logits, labels), "auto", "nll", seed)
    softmax = CalibratedSoftmax(learned.scaler.temperature_, learned.confidence_map)

    def predict(rows: Floats) -> Judged:
        corrected = learned.correct(ts.Logits(rows)).logits
        return Judged(softmax.of_block(corrected), corrected.argmax(axis=1))

    return predict


# --- The top label's confidence alone: the other classes share what is left, as they did.


def of_top_label(fit: Callable[[Floats, Bools], Callable[[Floats], Floats]]) -> Fit:
    """A map of the log-odds of the top label at T*."""

    def fit_rows(logits: Floats, labels: Ints, seed: int) -> Predict:
        scale = temperature(logits, labels, seed)
        probs, top = scale(logits)
        to_confidence = fit(log_odds(probs.max(axis=1)), top == labels)

        def predict(rows: Floats) -> Judged:
            probs, top = scale(rows)
            row, first = np.arange(len(rows)), probs.max(axis=1)
            confidence = np.clip(to_confidence(log_odds(first)), 1e-6, 1 - 1e-6)
            probs = probs * ((1 - confidence) / np.maximum(1 - first, 1e-15))[:, None]
            probs[row, top] = confidence
            return Judged(probs, top)

        return predict

    return fit_rows


def log_odds(p: Floats) -> Floats:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return np.log(p) - np.log1p(-p)


def platt(odds: Floats, right: Bools) -> Callable[[Floats], Floats]:
    """A line (Platt 1999; of the top label, Gupta and Ramdas 2022)."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=np.inf).fit(odds[:, None], right)
    return lambda new: model.predict_proba(new[:, None])[:, 1]


def isotonic(odds: Floats, right: Bools) -> Callable[[Floats], Floats]:
    """Any increasing map (Zadrozny and Elkan 2002)."""
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression(out_of_bounds="clip").fit(odds, right).predict


def histogram(odds: Floats, right: Bools) -> Callable[[Floats], Floats]:
    """The share right in bins with equally many rows (Zadrozny and Elkan 2001)."""
    cuts = np.quantile(odds, np.arange(1, BINS) / BINS)
    places = np.searchsorted(cuts, odds)
    shares = np.array([right[places == k].mean() if (places == k).any() else right.mean() for k in range(BINS)])
    return lambda new: shares[np.searchsorted(cuts, new)]


def venn_abers(odds: Floats, right: Bools) -> Callable[[Floats], Floats]:
    """Isotonic regression with the new row, once as right and once as wrong (Vovk and Petej 2014), merged to one.

    The answer depends only on where the new row stands among the known ones, so there are n + 1 answers.
    """
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(odds, kind="stable")
    known, y = odds[order], right[order].astype(float)

    def answer(place: int) -> float:
        low, high = (isotonic_regression(np.insert(y, place, one))[place] for one in (0.0, 1.0))
        return float(high / (1 - low + high))

    answers = np.array([answer(place) for place in range(len(y) + 1)])
    return lambda new: answers[np.searchsorted(known, new)]


# --- Logistic regression on log probabilities: softmax(W U + b), U = log softmax(z / T*).


class Penalty(NamedTuple):
    """What is added to the summed loss, half of it times the squares: of W's diagonal minus 1, of b, of W's others.

    None leaves W diagonal.
    """

    diagonal: float
    shift: float
    others: float | None


def log_probs(logits: Floats) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def minimise(logs: Floats, labels: Ints, penalty: Penalty, steps: int = 100) -> Callable[[Floats], Floats]:
    """L-BFGS from the identity; gives the new log probabilities of rows."""
    from scipy.optimize import minimize

    n, classes = logs.shape
    row, whole = np.arange(n), penalty.others is not None
    off = 1 - np.eye(classes)

    def apply(x: Floats, rows: Floats) -> Floats:
        b, w = x[:classes], x[classes:]
        return log_probs((rows @ w.reshape(classes, classes).T if whole else rows * w) + b)

    def objective(x: Floats) -> tuple[float, Floats]:
        new_logs = apply(x, logs)
        residual = np.exp(new_logs)
        loss = -new_logs[row, labels].sum()
        residual[row, labels] -= 1
        b, w = x[:classes], x[classes:]
        if whole:
            w = w.reshape(classes, classes)
            pull = penalty.diagonal * (w - 1) * (1 - off) + penalty.others * w * off
            more, slope = (pull * (w - (1 - off))).sum(), residual.T @ logs + pull
        else:
            pull = penalty.diagonal * (w - 1)
            more, slope = pull @ (w - 1), (residual * logs).sum(axis=0) + pull
        value = loss + 0.5 * (more + penalty.shift * (b @ b))
        return value / n, np.concatenate([residual.sum(axis=0) + penalty.shift * b, slope.ravel()]) / n

    start = np.concatenate([np.zeros(classes), (np.eye(classes) if whole else np.ones(classes)).ravel()])
    x = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x
    return partial(apply, x)


def of_classes(*penalties: Penalty) -> Fit:
    """Logistic regression with the penalty that three folds find best."""

    def fit_rows(logits: Floats, labels: Ints, seed: int) -> Predict:
        scale = ts.TemperatureScaler().fit(logits, labels).temperature_
        logs, best = log_probs(logits / scale), penalties[0]
        if len(penalties) > 1:
            fold = np.random.default_rng(seed).permutation(len(labels)) % 3

            def loss(penalty: Penalty) -> float:
                total = 0.0
                for k in range(3):
                    log_p = minimise(logs[fold != k], labels[fold != k], penalty, 40)(logs[fold == k])
                    total -= log_p[np.arange(len(log_p)), labels[fold == k]].sum()
                return float(total)

            best = min(penalties, key=loss)
        to_logs = minimise(logs, labels, best)

        def predict(rows: Floats) -> Judged:
            probs = np.exp(to_logs(log_probs(rows / scale)))
            return Judged(probs, probs.argmax(axis=1))

        return predict

    return fit_rows


CALIBRATORS: dict[str, Fit] = {
    "T\\* by NLL": temperature,
    "T\\* by ECE": partial(temperature, objective="ece"),
    '**thermoset, "auto"**': auto,
    "Platt, top label": of_top_label(platt),
    "isotonic, top label": of_top_label(isotonic),
    "histogram, top label": of_top_label(histogram),
    "Venn-Abers, top label": of_top_label(venn_abers),
    "vector scaling": of_classes(Penalty(0.0, 0.0, None)),
    "vector scaling, L2": of_classes(*(Penalty(strength, strength, None) for strength in STRENGTHS)),
    "matrix scaling": of_classes(Penalty(0.0, 0.0, 0.0)),
    "Dirichlet, ODIR": of_classes(*(Penalty(0.0, strength, 10 * strength) for strength in STRENGTHS)),
    "structured scaling": of_classes(*(Penalty(strength, strength, 100 * strength) for strength in STRENGTHS)),
}
_MATRICES = ("matrix scaling", "Dirichlet, ODIR", "structured scaling")


# --- Judging


def measure(judged: Judged, labels: Ints) -> tuple[float, ...]:
    """NLL, ECE, log-loss of "the top label is right", share right among answers given with 75 to 85%, accuracy."""
    row = np.arange(len(labels))
    confidence, right = judged.probs[row, judged.top], judged.top == labels
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, confidence, BINS) - np.bincount(place, right, BINS)
    with np.errstate(divide="ignore"):
        own = -np.log(judged.probs[row, labels])
    of_top = -np.log(np.clip(np.where(right, confidence, 1 - confidence), 1e-15, None))
    about = (confidence >= 0.75) & (confidence < 0.85)
    share = float(right[about].mean()) if about.any() else np.nan
    return float(own.mean()), float(np.abs(gaps).sum()) / len(labels), float(of_top.mean()), share, float(right.mean())


def compare(logits: Floats, labels: Ints, n: int, draws: int, names: tuple[str, ...]) -> dict[str, Floats]:
    """Means over draws of what is measured and of the seconds a fit takes, for each calibrator."""
    results: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for draw in range(draws):
        rows = np.random.default_rng(draw).permutation(len(labels))
        known, fresh = rows[:n], rows[n : n + MOST_JUDGED]
        for name in names:
            start = time.perf_counter()
            predict = CALIBRATORS[name](logits[known], labels[known], draw)
            seconds = time.perf_counter() - start
            results[name].append((*measure(predict(logits[fresh]), labels[fresh]), seconds))
    return {name: np.nanmean(np.array(values), axis=0) for name, values in results.items()}


def sources(folder: Path | None) -> Iterator[tuple[str, Floats, Ints]]:
    """Rows to compare on."""
    glyphs = ts.datasets.load_glyphs().logits
    yield "bundled glyphs", np.asarray(glyphs.logits, dtype=np.float64), glyphs.labels
    for name, draw_rows in POPULATIONS.items():
        yield f"generated: {name}", *draw_rows(np.random.default_rng(0), max(SIZES) + 3 * MOST_JUDGED)
    for path in sorted(folder.glob("*.npz")) if folder is not None else ():
        data = ts.load(path)
        yield path.stem, np.asarray(data.logits, dtype=np.float64), data.require_labels("comparing")


def main() -> None:
    """Compare, and print a table for each population and number of rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrators", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="npz files of logits and labels to compare on as well")
    parser.add_argument("--draws", type=int, default=3, help="random splits that numbers are means of")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    compare(*one_temperature(np.random.default_rng(0), 1_000), min(SIZES), 1, tuple(CALIBRATORS))  # compiles, imports
    for title, logits, labels in sources(arguments.folder):
        names = tuple(x for x in CALIBRATORS if logits.shape[1] <= MOST_CLASSES or x not in _MATRICES)
        for n in SIZES:
            print(f"\n### {title}, {n:,} calibration rows, {logits.shape[1]} classes\n", flush=True)
            print("| | " + " | ".join(COLUMNS) + " |\n|---|" + "---|" * len(COLUMNS))
            for name, (nll, ece, top, share, accuracy, seconds) in compare(
                logits, labels, n, arguments.draws, names
            ).items():
                cells = f"{nll:.3f} | {ece:.3f} | {top:.3f} | {share:.0%} | {accuracy:.1%} | {seconds:.2g}"
                print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
