"""How much is answered alone with a certified error: answer rules beside MAPIE's controllers, on the same rows.

`python -m benchmarks.peers.answers` in `.venv-peers` prints a table. Rows are drawn with replacement from the bundled
file and those in THERMOSET_DATA, so that the file is the population. MAPIE gets all rows and the softmax as it is, or
the rows that prove and T* of the whole file, which flatters it; each of its settings takes the laxest valid threshold.
"""

import os
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

import thermoset as ts
from thermoset.arrays import Bools, Floats
from thermoset.calibration.confidence import top_odds
from thermoset.decisions import TRUST, propose, prove
from thermoset.tuning.preferences import calibration_share

CELLS = (("0.1", 500), ("0.05", 2000), ("0.02", 2000), ("0.02", 6000))
DRAWS = 40
SETTINGS = (("bonferroni_holm", "all rows"), ("fixed_sequence", "all rows"), ("fixed_sequence", "T*"))


def main() -> None:
    """Print the share answered, over all files, and the largest share of draws with a broken claim."""
    files = [ts.datasets.load_glyphs().logits]
    files += [ts.load(path) for path in sorted(Path(os.environ.get("THERMOSET_DATA", ".")).glob("*.npz"))]
    known = [_facts(data) for data in files]
    print("| error | rows | answer rule |", *(f"MAPIE {a}, {b} |" for a, b in SETTINGS))
    print("|---|---|---|", *("---|" for _ in SETTINGS), sep="")
    for error, n in CELLS:
        shares, broken = np.zeros((1 + len(SETTINGS), len(files))), np.zeros((1 + len(SETTINGS), len(files)))
        for i, (raw, g, right) in enumerate(known):
            rng = np.random.default_rng(11)
            for _ in range(DRAWS):
                rows = rng.integers(len(g), size=n)
                answered = [
                    _ours(rows, g, right, error),
                    *(_mapie(rows, raw, g, right, error, one) for one in SETTINGS),
                ]
                shares[:, i] += [one.mean() / DRAWS for one in answered]
                broken[:, i] += [one.any() and np.mean(~right[one]) > float(error) for one in answered]
        cells = (f"{a:.3f} ({b:.0%}) |" for a, b in zip(shares.mean(axis=1), broken.max(axis=1) / DRAWS, strict=True))
        print(f"| {error} | {n:,} |", *cells, flush=True)
        by_file = [
            f"{mine:.2f} beside {most:.2f}" for mine, most in zip(shares[0], shares[1:].max(axis=0), strict=True)
        ]
        print("    by file, beside the best setting for it:", "; ".join(by_file), flush=True)


def _facts(data: ts.Logits) -> tuple[Floats, Floats, Bools]:
    """Log-odds of the top label at T = 1 and at T*, and which answers are right."""
    temperature = float(ts.TemperatureScaler().fit(data).temperature_)
    right = data.logits.argmax(axis=1) == data.require_labels("a benchmark")
    return top_odds(data, 1.0)[0], top_odds(data, temperature)[0], right


def _ours(rows: np.ndarray, g: Floats, right: Bools, error: str) -> Bools:
    n_first = int(len(rows) * float(calibration_share(len(rows), 100)))
    first, rest = rows[:n_first], rows[n_first:]
    risk, twentieth = 1 / (1 + np.exp(g[first])), Fraction(1, 20)
    found = propose(g[first], right[first], risk, TRUST, Fraction(error), twentieth, len(rest), 0)
    claim = prove(found, g[rest], right[rest], error, "0.95")
    return np.asarray(claim.met & (g >= claim.threshold))


def _mapie(rows: np.ndarray, raw: Floats, g: Floats, right: Bools, error: str, setting: tuple[str, str]) -> Bools:
    from mapie.risk_control import BinaryClassificationController, precision

    method, which = setting
    sure = 1 / (1 + np.exp(-(raw if which == "all rows" else g)))
    some = rows if which == "all rows" else rows[int(len(rows) * float(calibration_share(len(rows), 100))) :]
    grid = np.linspace(0, 0.99, 100)
    controller = BinaryClassificationController(
        lambda x: np.column_stack([1 - x[:, 0], x[:, 0]]),
        precision,
        1 - float(error),
        confidence_level=0.95,
        fwer_method=method,
        list_predict_params=grid[::-1] if method == "fixed_sequence" else grid,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        controller.calibrate(sure[some][:, None], right[some].astype(int))
    valid = np.ravel(np.asarray(controller.valid_predict_params, dtype=np.float64))
    return sure >= valid.min() if len(valid) else np.zeros(len(sure), dtype=np.bool_)


if __name__ == "__main__":
    main()
