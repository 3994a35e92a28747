"""How much is answered alone with a certified error: our answer rule and MAPIE's risk controllers on the same rows.

Rows are drawn with replacement from a file, so that the file is the population and a claim can be seen to be broken.
MAPIE gets all rows and the softmax as it is, or, where its setting says T*, only the rows that prove our claims and T*
of the whole file, which flatters it. Each of its settings takes the laxest valid threshold.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import thermoset as ts
from benchmarks.peers.results import OURS, Plan, Result
from thermoset.calibration.confidence import top_odds
from thermoset.decisions import TRUST, propose, prove
from thermoset.tuning.preferences import calibration_share

__all__ = ["CONFIDENCE", "answered", "cell_job"]

CONFIDENCE = "0.95"
_GRID = np.linspace(0, 0.99, 100)  # MAPIE's default

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class _Population(NamedTuple):
    """Of every row of a file: log-odds of the top label at T = 1 and at T*, and whether that label is right."""

    raw: Floats
    scaled: Floats
    right: Bools


class _Setting(NamedTuple):
    """How MAPIE is called: its procedure against multiple tests, and whether it is given T*."""

    procedure: str
    scaled: bool


_SETTINGS = {
    "MAPIE, Holm (default)": _Setting("bonferroni_holm", scaled=False),
    "MAPIE, fixed sequence": _Setting("fixed_sequence", scaled=False),
    "MAPIE, fixed sequence, T*": _Setting("fixed_sequence", scaled=True),
}


def answered(plan: Plan, files: dict[str, ts.Logits]) -> Iterator[Result]:
    """For each limit of the error and number of rows the mean share answered, with the share of each file.

    `broken` is the largest share of draws, over files, in which more of the answers were wrong than was claimed.
    """
    populations = {name: _population(data) for name, data in files.items()}
    for error, n in plan.answer_cells:
        shares: dict[str, dict[str, float]] = {library: {} for library in (OURS, *_SETTINGS)}
        broken = dict.fromkeys(shares, 0.0)
        for name, rows in populations.items():
            drawn = np.random.default_rng(11)
            for library, answered_rows in _of_draws(
                rows, [drawn.integers(len(rows.right), size=n) for _ in range(plan.answer_draws)], error
            ):
                wrong = [one.any() and np.mean(~rows.right[one]) > float(error) for one in answered_rows]
                shares[library][name] = float(np.mean([one.mean() for one in answered_rows]))
                broken[library] = max(broken[library], float(np.mean(wrong)))
        for library, of_file in shares.items():
            share = float(np.mean(list(of_file.values())))
            yield Result(library, cell_job(error, n), share, {"broken": broken[library], **of_file})


def cell_job(error: str, rows: int) -> str:
    """The job of a limit and a number of rows."""
    return f"answered, {float(error):.0%} of {rows:,} rows"


def _population(data: ts.Logits) -> _Population:
    temperature = float(ts.TemperatureScaler().fit(data).temperature_)
    right = data.logits.argmax(axis=1) == data.require_labels("a benchmark")
    return _Population(top_odds(data, 1.0)[0], top_odds(data, temperature)[0], right)


def _of_draws(rows: _Population, draws: list[NDArray[np.int64]], error: str) -> Iterator[tuple[str, list[Bools]]]:
    """Libraries, and which rows of the population they answer after each draw."""
    yield OURS, [_rule(rows, some, error) for some in draws]
    for library, setting in _SETTINGS.items():
        yield library, [_controller(rows, some, error, setting) for some in draws]


def _rule(rows: _Population, some: NDArray[np.int64], error: str) -> Bools:
    """The first rows propose thresholds, the others prove."""
    first, rest = np.split(some, [_first(some)])
    risk = 1 / (1 + np.exp(rows.scaled[first]))
    delta = 1 - Fraction(CONFIDENCE)
    proposal = propose(rows.scaled[first], rows.right[first], risk, TRUST, Fraction(error), delta, len(rest), 0)
    claim = prove(proposal, rows.scaled[rest], rows.right[rest], error, CONFIDENCE)
    return np.asarray(claim.met & (rows.scaled >= claim.threshold))


def _controller(rows: _Population, some: NDArray[np.int64], error: str, setting: _Setting) -> Bools:
    from mapie.risk_control import BinaryClassificationController, precision

    sure = 1 / (1 + np.exp(-(rows.scaled if setting.scaled else rows.raw)))
    some = some[_first(some) :] if setting.scaled else some
    controller = BinaryClassificationController(
        lambda x: np.column_stack([1 - x[:, 0], x[:, 0]]),
        precision,
        1 - float(error),
        confidence_level=float(CONFIDENCE),
        fwer_method=setting.procedure,
        list_predict_params=_GRID[::-1] if setting.procedure == "fixed_sequence" else _GRID,
    )
    controller.calibrate(sure[some][:, None], rows.right[some].astype(int))
    valid: Any = np.ravel(np.asarray(controller.valid_predict_params, dtype=np.float64))
    return sure >= valid.min() if len(valid) else np.zeros(len(sure), dtype=np.bool_)


def _first(some: NDArray[np.int64]) -> int:
    return int(len(some) * float(calibration_share(len(some), 100)))
