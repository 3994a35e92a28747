"""Compiling ahead of time: all that a job needs is compiled and cached on disk, for images and read-only machines."""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from thermoset.arrays import pairs
from thermoset.calibration import CalibratedSoftmax, ClassCorrection, ConfidenceMap, confidence_at, probabilities
from thermoset.conformal.calibration_scores import CalibrationScores
from thermoset.conformal.scoring import Scoring, predict_sets, predict_sizes, scores
from thermoset.data import Logits
from thermoset.data.top_k import compact
from thermoset.errors import InputError
from thermoset.kernels import ENTRIES
from thermoset.quoting import quoted
from thermoset.scores import LAC, RAPS

Job = Literal["all", "predict"]


class WarmedUp(NamedTuple):
    """The result of a warm-up.

    folder : where compiled code is kept; compiled : the functions compiled now; ready : all that the job needs;
    n_bytes : what the folder holds.
    """

    folder: Path
    compiled: tuple[str, ...]
    ready: tuple[str, ...]
    seconds: float
    n_bytes: int


def warmup(job: Job = "all", *, progress: Callable[[str], None] | None = None) -> WarmedUp:
    """Compile what a job needs, and cache it where later processes find it.

    Parameters
    ----------
    job : "all" or "predict"
        Everything, or only what a server needs: `TwoTemperaturePredictor.load` and predictions of every kind.
    progress : callable
        Called with the part that is being compiled.

    Raises
    ------
    InputError
        If compiled code cannot be cached. Set NUMBA_CACHE_DIR to the folder to use.

    Examples
    --------
    >>> done = warmup("predict")
    >>> "softmax" in done.ready
    True
    """
    if job not in get_args(Job):
        raise InputError(f"job must be 'all' or 'predict'; got {quoted(job)}.")
    (place,) = {entry.compiled.stats.cache_path for entry in ENTRIES.values()}
    if place is None:
        raise InputError("compiled code cannot be cached anywhere. Set NUMBA_CACHE_DIR to a writable folder.")
    begun, before, folder = time.perf_counter(), _compilations(), Path(place)
    steps = _STEPS if job == "all" else {"predict": _STEPS["predict"]}
    for name, step in steps.items():
        if progress is not None:
            progress(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a handful of rows is too few for everything
            step()
    ready = tuple(name for name, entry in ENTRIES.items() if entry.compiled.signatures)
    if unkept := [name for name in ready if not any(folder.glob(f"kernels.{name}-*.nbc"))]:
        raise InputError(
            f"compiled code cannot be cached in {folder} ({unkept[0]} is not there). Free some space, or set "
            "NUMBA_CACHE_DIR to another folder."
        )
    compiled = tuple(name for name, times in _compilations().items() if times > before[name])
    n_bytes = sum(path.stat().st_size for path in folder.glob("kernels.*.nb[ci]"))
    return WarmedUp(folder, compiled, ready, time.perf_counter() - begun, n_bytes)


def _compilations() -> dict[str, int]:
    """How often this process has compiled each entry point, for want of a cached one."""
    return {name: sum(entry.compiled.stats.cache_misses.values()) for name, entry in ENTRIES.items()}


def _few(seed: int = 0) -> Logits:
    """Rows enough for a threshold of each class."""
    labels = np.arange(240) % 3
    noise = np.random.default_rng(seed).normal(size=(240, 3))
    return Logits(noise + 2 * np.eye(3)[labels], labels)


def _predict() -> None:
    """What every prediction needs: probabilities, sets and sizes under one threshold or many, u from anywhere."""
    rows = _few()
    probabilities(rows)
    confidence_at(rows)
    corrected = ClassCorrection(temperature=1.0, shift=(0.0,) * rows.n_classes).of_block(rows.logits)
    CalibratedSoftmax(1.0, ConfidenceMap(knots=(), intercept=0.0, slopes=(1.0,))).of_block(corrected)
    ids, scoring = np.arange(len(rows)), Scoring(RAPS(), 1.0, 0)
    one, each = (pairs(np.full((1, 1, n), 0.9), 0.0) for n in (1, rows.n_classes))
    for score in (RAPS(), LAC()):
        for thresholds in (one, each):
            predict_sets(rows, score, 1.0, scoring.randomness(None, len(rows)), thresholds, None)
    many = Logits(np.tile(rows.logits.astype(np.float32), (8, 1)))
    predict_sets(many, LAC(), 1.0, scoring.randomness(None, len(many)), one, None)
    predict_sizes(rows, RAPS(), 1.0, scoring.randomness(None, len(rows), ids), one, None)
    # Without u the last label of a row has a mass of 1, which ties with this score.
    CalibrationScores(pairs(np.ones(1), 0.0), np.zeros(1, dtype=np.int64), Scoring(RAPS(), 1.0, None)).p_values(
        rows, None
    )


def _tune() -> None:
    """What fitting, choosing, checking and monitoring need, for sets with one threshold and by class."""
    from thermoset.calibration.classes import try_correction  # noqa: PLC0415 - servers do without
    from thermoset.monitor.evidence import CoverageTest, HitLaw, RankTest  # noqa: PLC0415 - servers do without
    from thermoset.predictor.predictor import TwoTemperaturePredictor  # noqa: PLC0415 - servers do without

    rows = _few()
    for predictor in (
        TwoTemperaturePredictor(alpha=0.2),
        TwoTemperaturePredictor("auto", alpha=0.2, prefer="protect"),
        TwoTemperaturePredictor("aps", alpha=0.2, prefer="small", grouping="class"),
        TwoTemperaturePredictor("aps", alpha=0.2, prefer="small", objective="ece"),
    ):
        predictor.fit(rows)
    try_correction(rows, rows.require_labels("a warm-up"), 1.0, 0)
    predictor.check(_few(seed=1))
    predictor.estimate_priors(rows, bootstrap=2)
    CoverageTest.start(HitLaw(9, 10), delta=0.01, run_length=None).after([True])
    RankTest.start([5, 5], share_of_delta=0.01, run_length=None).after([1], [0.5])


def _measure() -> None:
    """What sweeps, theory and study need: u drawn and integrated, one threshold and by class, scores by themselves."""
    from thermoset.metrics import METRICS, worst_slab  # noqa: PLC0415 - servers do without
    from thermoset.paper.theory.sizes import limit_scores  # noqa: PLC0415 - servers do without
    from thermoset.sweeping import sweep  # noqa: PLC0415

    rows = _few()
    scores("aps", rows)
    limit_scores(rows, "cold")
    worst_slab(np.ones(rows.logits.shape, dtype=bool), np.zeros(len(rows), dtype=int), rows.logits, directions=2)
    common: dict[str, Any] = {"temperatures": [1.0, 2.0], "alphas": [0.2], "trials": 2, "cp_fraction": 0.4}
    for evaluation in ("drawn", "integrated"):
        sweep(rows, evaluation=evaluation, **common)
    sweep(rows, metrics=[metric.name for metric in METRICS.values() if metric.is_asked], **common)
    for grouping in ("class", "cluster"):
        sweep(rows, grouping=grouping, **common)


_STEPS: dict[str, Callable[[], object]] = {
    "predict": _predict,
    "tune": _tune,
    "measure": _measure,
    "compact": lambda: compact(_few()),
}
