"""How many sets of exported predictors differ from the library's: every score, grouping, temperature and type.

The comparison is that of the tests (tests/exports.py), on whole files instead of samples.
"""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import Line, Settings, Table, Target
from thermoset import SCORES, datasets

__all__ = ["parity"]

sys.path.append(str(Path(__file__).parents[1] / "tests"))

_RECIPES: tuple[dict[str, Any], ...] = ({}, {"allow_empty": False}, {"randomized": False})
_GROUPINGS = (None, "class", "cluster")
_CONFORMAL = 0.25  # of the rows set thresholds; all are predicted, those too

Rows = tuple[NDArray[Any], NDArray[np.int64]]


def parity(settings: Settings) -> Table:  # noqa: ARG001 - the files have the size they have
    """One line for each engine and file of THERMOSET_DATA."""
    from engines import ENGINES  # type: ignore[import-not-found]
    from exports import TEMPERATURES, compared, predictor_at  # type: ignore[import-not-found]

    lines = []
    for name, (logits, labels) in _files():
        conformal = slice(0, int(_CONFORMAL * len(labels)))
        differing, unexplained = dict.fromkeys(ENGINES, 0), dict.fromkeys(ENGINES, 0)
        cases = list(itertools.product(SCORES, _GROUPINGS, TEMPERATURES))
        for turn, (method, grouping, temperature) in enumerate(cases):
            rows = logits.astype(("float32", "float64")[turn % 2])
            recipe = _RECIPES[turn % len(_RECIPES)] | {"method": method, "grouping": grouping}
            predictor = predictor_at(temperature, rows[conformal], labels[conformal], **recipe)
            for engine, run in ENGINES.items():
                comparison = compared(predictor, rows, run(predictor, rows)["sets"])
                differing[engine] += comparison.differing
                unexplained[engine] += comparison.unexplained
        for engine in ENGINES:
            note = f"of {len(cases) * len(logits):,} sets in {len(cases)} settings; {differing[engine]} within rounding"
            target = Target("<=", 0, "value")
            lines.append(Line(f"{name}, {engine}", float(unexplained[engine]), target=target, note=note))
    return Table("Sets that differ from the library's by more than rounding", lines, unit="sets")


def _files() -> Iterator[tuple[str, Rows]]:
    from law import generated  # type: ignore[import-not-found]

    yield "generated", generated(10_000, 20, seed=3)
    glyphs = datasets.load_glyphs().logits
    yield "glyphs", (glyphs.logits, glyphs.require_labels("parity"))
    folder = os.environ.get("THERMOSET_DATA")
    for path in sorted(Path(folder).glob("*.npz")) if folder else ():
        with np.load(path, allow_pickle=False) as arrays:
            order = np.random.default_rng(0).permutation(len(arrays["logits"]))
            yield path.stem, (arrays["logits"][order], arrays["labels"][order].astype(np.int64))
