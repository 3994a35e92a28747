"""Which package of the standard library is a docstring from? `python -m examples.text [--out FOLDER]`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

import thermoset as ts
from examples.text.docstrings import Docstring, docstrings
from thermoset.data import split_indices

ALPHA = 0.1
ASKED = (
    "Return the number of seconds until the next retransmission of the request.",
    "Create a socket pair and register both ends with the event loop.",
    "Compute the median of grouped continuous data.",
    "Parse the header and return the value as a string.",
)


class Parts(NamedTuple):
    """Texts to train the classifier on, to fit the predictor on, and to check it on; no text is in two of them."""

    train: list[Docstring]
    fit: list[Docstring]
    fresh: list[Docstring]


def split(texts: Sequence[Docstring]) -> Parts:
    """Cut at random: conformal prediction needs rows that the classifier has not seen."""
    pieces = split_indices(len(texts), 0.45, 0.35, random_state=0)
    return Parts(*([texts[row] for row in rows] for rows in pieces))


def trained(texts: list[Docstring]) -> Pipeline:
    """Words and pairs of words, weighted, and a linear classifier on them."""
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    classifier = LogisticRegression(C=20.0, max_iter=500)
    return make_pipeline(words, classifier).fit([one.text for one in texts], [one.package for one in texts])


def logits(model: Pipeline, texts: list[str]) -> np.ndarray:
    """The classifier's log-probabilities, which are logits up to a constant in each row."""
    return np.asarray(model.predict_log_proba(texts))


def labelled(model: Pipeline, texts: list[Docstring]) -> ts.Logits:
    """Logits with labels and class names."""
    scores = logits(model, [one.text for one in texts])
    return ts.Logits(scores, [one.package for one in texts], list(model.classes_))


class Fitted(NamedTuple):
    """A predictor, and rows that it has not seen."""

    predictor: ts.TwoTemperaturePredictor
    fresh: ts.Logits


def main(arguments: list[str] | None = None) -> Fitted:
    """Train, fit, check, and answer for a few texts."""
    parser = argparse.ArgumentParser(prog="python -m examples.text", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("text-output"), help="folder for predictor.json")
    out = parser.parse_args(arguments).out
    parts = split(docstrings())
    model = trained(parts.train)
    predictor = ts.TwoTemperaturePredictor("raps", alpha=ALPHA, prefer="small").fit(labelled(model, parts.fit))
    out.mkdir(parents=True, exist_ok=True)
    predictor.save(out / "predictor.json")

    fresh = labelled(model, parts.fresh)
    report = predictor.check(fresh)
    print(f"{len(parts.train)} texts to train on, {len(parts.fit)} to fit on, {report.rows} fresh ones to check on")
    print(f"accuracy {report.calibration.accuracy:.3f}, T* {predictor.temperature_:.2f}")
    print(f"coverage {report.marginal.coverage:.3f} (promised {1 - ALPHA}), {report.avg_size:.2f} names per set\n")
    for text, answer in zip(ASKED, predictor.predict_records(logits(model, list(ASKED))), strict=True):
        print(f"{text}\n  {answer.label} ({answer.confidence:.2f}); set: {', '.join(answer.set) or 'empty'}")
    print(f"\nwrote {out / 'predictor.json'}")
    return Fitted(predictor, fresh)


if __name__ == "__main__":
    main()
