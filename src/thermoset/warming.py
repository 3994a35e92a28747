"""Compiling ahead of time: all that a job needs is compiled and cached on disk, for images and read-only machines."""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from thermoset.calibration import confidence_at, probabilities
from thermoset.conformal.bounds import middle_confidences
from thermoset.conformal.scoring import scores
from thermoset.core.compiling import KernelUse, cache_folder, kernels_used
from thermoset.core.general import sets_of
from thermoset.core.p_values import one_pool, p_values
from thermoset.core.prefixes import prefix_sizes
from thermoset.core.thresholds import ScorePairs
from thermoset.core.top_stages import wide_sets
from thermoset.data import Logits
from thermoset.data.compacting import compact
from thermoset.data.tail_mass import Stated
from thermoset.data.top_rows import TopRows
from thermoset.errors import InputError
from thermoset.quoting import quoted
from thermoset.rows import ArrayRows
from thermoset.scores import RAPS
from thermoset.uniforms import Randomness, id_keys

__all__ = ["Job", "WarmedUp", "warmup"]

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
    >>> "thermoset.core.softmax.softmax" in done.ready
    True
    """
    if job not in get_args(Job):
        raise InputError(f"job must be 'all' or 'predict'; got {quoted(job)}.")
    folder = cache_folder()
    if folder is None:
        raise InputError("compiled code cannot be cached anywhere. Set NUMBA_CACHE_DIR to a writable folder.")
    begun, before = time.perf_counter(), {one.name: one for one in kernels_used()}
    steps = _STEPS if job == "all" else {"predict": _STEPS["predict"]}
    for name, step in steps.items():
        if progress is not None:
            progress(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a handful of rows is too few for everything
            step()
        _require_kept()
    used = [one for one in kernels_used() if one.loaded or one.compiled]
    compiled = [one.name for one in used if one.compiled > before.get(one.name, KernelUse(one.name)).compiled]
    n_bytes = sum(path.stat().st_size for path in folder.glob("*.nbc"))
    seconds = time.perf_counter() - begun
    return WarmedUp(folder, tuple(compiled), tuple(one.name for one in used), seconds, n_bytes)


def _require_kept() -> None:
    for one in kernels_used():
        if one.unkept is not None:
            raise InputError(one.unkept)


def _few(seed: int = 0) -> Logits:
    """Rows enough for a threshold of each class."""
    labels = np.arange(240) % 3
    noise = np.random.default_rng(seed).normal(size=(240, 3))
    return Logits(noise + 2 * np.eye(3)[labels], labels)


def _predict() -> None:
    """What every prediction needs: probabilities, sets and sizes under one threshold or many, u from anywhere."""
    rows = _few().logits
    probabilities(rows)
    confidence_at(rows)
    source, ids = ArrayRows(rows), id_keys(range(len(rows)))
    one, each = (ScorePairs(np.full((1, n), 0.9), np.zeros((1, n))) for n in (1, rows.shape[1]))
    for randomness in (Randomness(0), Randomness(0, keys=ids)):
        sets_of(source, RAPS(), 1.0, randomness, one)
    sets_of(source, RAPS(), 1.0, randomness, each)
    prefix_sizes(source, RAPS(), 1.0, randomness, one[0])
    p_values(source, RAPS(), 1.0, randomness, one_pool(one[0]))
    falling, indices = np.sort(np.tile(rows, 2))[:, :1:-1], np.tile(np.arange(4), (len(rows), 1))
    tops = TopRows(falling, indices, 6, Stated(np.empty(0), np.empty((len(rows), 0)), of_all=False))
    wide_sets(tops, RAPS(), 1.0, randomness, one)
    middle_confidences(tops, 1.0)


def _tune() -> None:
    """What fitting, choosing, checking and monitoring need, for sets with one threshold and by class."""
    from thermoset.monitor.evidence import CoverageTest, HitLaw, RankTest  # noqa: PLC0415 - servers do without
    from thermoset.predictor.estimator import TwoTemperaturePredictor  # noqa: PLC0415 - servers do without

    rows = _few()
    for predictor in (
        TwoTemperaturePredictor(alpha=0.2),
        TwoTemperaturePredictor("auto", alpha=0.2, prefer="protect"),
        TwoTemperaturePredictor("aps", alpha=0.2, prefer="small", grouping="class"),
        TwoTemperaturePredictor("aps", alpha=0.2, prefer="small", objective="ece"),
    ):
        predictor.fit(rows)
    predictor.check(_few(seed=1))
    TwoTemperaturePredictor("aps", alpha=0.2, prefer="small").fit(rows).estimate_priors(rows, bootstrap=2)
    CoverageTest.start(HitLaw(9, 10), delta=0.01, run_length=None).after([True])
    RankTest.start([5, 5], share_of_delta=0.01, run_length=None).after([1], [0.5])


def _measure() -> None:
    """What sweeps, theory and study need: u drawn and integrated, one threshold and by class, scores by themselves."""
    from thermoset.metrics import METRICS, worst_slab  # noqa: PLC0415 - servers do without
    from thermoset.paper.theory.limits import limit_scores  # noqa: PLC0415 - servers do without
    from thermoset.sweeping import sweep  # noqa: PLC0415

    rows = _few()
    scores("aps", rows)
    limit_scores(rows, "cold")
    worst_slab(np.ones(rows.logits.shape, dtype=bool), np.zeros(len(rows), dtype=int), rows.logits, directions=2)
    for evaluation in ("drawn", "integrated"):
        sweep(rows, temperatures=[1.0, 2.0], alphas=[0.2], trials=2, cp_fraction=0.4, evaluation=evaluation)
    asked = [metric.name for metric in METRICS.values() if metric.is_asked]
    sweep(rows, temperatures=[1.0], alphas=[0.2], trials=2, cp_fraction=0.4, metrics=asked)
    sweep(rows, temperatures=[1.0], alphas=[0.2], trials=2, cp_fraction=0.4, grouping="class")
    sweep(rows, temperatures=[1.0], alphas=[0.2], trials=2, cp_fraction=0.4, grouping="cluster")


def _compact() -> None:
    """What cutting rows down to their largest logits needs."""
    compact(_few())


_STEPS: dict[str, Callable[[], None]] = {
    "predict": _predict,
    "tune": _tune,
    "measure": _measure,
    "compact": _compact,
}
