"""One fixed job, from logits to sets, and a hash of every bit it gives: `python tests/attacks/digest.py [PART ...]`.

The hashes do not depend on the environment. `tests/attacks/test_environments.py` compares threads, processors, hash
seeds, locales and cold starts.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import thermoset as ts
from thermoset.datasets import load_glyphs
from thermoset.io import open_predictions

Bits = Iterator[bytes]


def some_rows() -> ts.Logits:
    """Rows of the bundled data, in which no random generator has a say, cut to 30 classes to be quick."""
    glyphs = load_glyphs().logits
    labels = glyphs.require_labels("the digest")
    kept = np.flatnonzero(labels < 30)[:900]
    return ts.Logits(glyphs.logits[kept, :30], labels[kept])


def calibration(rows: ts.Logits) -> Bits:
    """T* by both objectives, and probabilities there."""
    for objective in ("nll", "ece"):
        fitted = ts.TemperatureScaler(objective).fit(rows)
        yield np.array([fitted.temperature_, fitted.loss_]).tobytes()
        yield fitted.predict_proba(rows).tobytes()


def sets(rows: ts.Logits) -> Bits:
    """Thresholds and sets of every score, of float32 and float64, far below and far above T = 1, and by class."""
    for dtype in (np.float32, np.float64):
        typed = ts.Logits(rows.logits.astype(dtype), rows.labels)
        for method in ts.SCORES:
            for kind, temperature in ((None, 0.01), (None, 30.0), ("class", 1.0)):
                fitted = ts.ConformalClassifier(method, 0.05, temperature, grouping=kind).fit(typed)
                yield fitted.thresholds_.tobytes()
                yield np.packbits(fitted.predict_set(typed)).tobytes()


def sweep(rows: ts.Logits) -> Bits:
    """Every metric of every trial, u drawn and integrated out."""
    prefixes = [name for name, score in ts.SCORES.items() if score.prefixes]  # the others have no closed form
    for evaluation, methods in (("drawn", [*ts.SCORES]), ("integrated", prefixes)):
        found = ts.sweep(rows, None, [0.1, 1, 4], methods, [0.05, 0.3], trials=5, evaluation=evaluation)
        yield found.trial_values.tobytes()


def document(rows: ts.Logits) -> Bits:
    """The document that `thermoset tune` writes, every byte of it."""
    yield _document(rows)


def predictor(rows: ts.Logits) -> Bits:
    """What predictions follow from in that document, and what `thermoset predict` writes by it.

    Not `measures`: the interval of the coverage is a quantile of SciPy's, whose last bits its releases do not agree on.
    """
    written = _document(rows)
    kept = {key: value for key, value in json.loads(written).items() if key not in {"measures", "checksum"}}
    yield json.dumps(kept).encode()
    with tempfile.TemporaryDirectory() as folder:
        saved, answers = Path(folder, "predictor.json"), Path(folder, "answers.jsonl")
        saved.write_bytes(written)
        loaded = ts.TwoTemperaturePredictor.load(saved)
        with open_predictions(answers) as out:
            probs = loaded.predict_proba(rows)
            out.write(probs.argmax(axis=1), probs.max(axis=1), loaded.predict_set(rows))
        yield answers.read_bytes()


def _document(rows: ts.Logits) -> bytes:
    fitted = ts.TwoTemperaturePredictor(alpha=0.05, prefer="even").fit(rows)
    with tempfile.TemporaryDirectory() as folder:
        fitted.save(f"{folder}/predictor.json")
        return Path(folder, "predictor.json").read_bytes()


PARTS: dict[str, Callable[[ts.Logits], Bits]] = {
    "calibration": calibration,
    "sets": sets,
    "sweep": sweep,
    "predictor": predictor,
    "document": document,
}

if __name__ == "__main__":
    data = some_rows()
    for name in sys.argv[1:] or PARTS:
        for index, bits in enumerate(PARTS[name](data)):
            print(name, index, hashlib.sha256(bits).hexdigest())  # noqa: T201
