"""Temperature x alpha x trials, for little more than the cost of the softmaxes.

A sweep sorts rows once, computes the ingredients of label scores once per temperature, and then gets trials and alphas
almost for free: a trial only draws u, picks rows and an order statistic.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Literal

import numpy as np

from thermoset.bounds import checked_seed, whole_number
from thermoset.conformal.groupings import GroupingLike, resolve_grouping, text_of
from thermoset.data import Logits, as_logits
from thermoset.data.splits import split_codes
from thermoset.errors import CoverageWarning, InputError
from thermoset.levels import Alpha, conformal_rank, exact_level, rows_needed
from thermoset.metrics import asked_metrics, group_metrics
from thermoset.quoting import quoted
from thermoset.rows import MOST_THREADS, Progress, compiling, memory_budget, physical_memory
from thermoset.scores import APS, SCORES, OwnScore, Score, ScoreLike, resolve
from thermoset.sweeping.job import SweepJob, run
from thermoset.sweeping.protocol import (
    DEFAULT_GRID,
    PAPER_GRID,
    Protocol,
    Trial,
    checked_temperatures,
    draw_trial,
    temperature_grid,
)
from thermoset.sweeping.result import Sweep, mean_over_trials, median_of_means, place_of, standard_error

__all__ = [
    "DEFAULT_GRID", "MOST_TRIALS", "PAPER_GRID", "Protocol", "Sweep", "Trial", "draw_trial", "mean_over_trials",
    "median_of_means", "standard_error", "sweep", "temperature_grid",
]  # fmt: skip

MOST_TRIALS = 100_000


def sweep(
    logits: Any,
    labels: Any = None,
    temperatures: Iterable[float] | None = None,
    methods: Sequence[ScoreLike] = ("lac", "aps", "raps"),
    alphas: Sequence[Alpha] = (0.1,),
    trials: int = 100,
    calibration_fraction: Alpha = 0.1,
    cp_fraction: Alpha = 0.1,
    random_state: int = 0,
    *,
    evaluation: Literal["drawn", "integrated"] = "drawn",
    randomized: bool = True,
    allow_empty: bool = True,
    grouping: GroupingLike | None = None,
    metrics: Sequence[str] = (),
    split_by: Any = None,
    n_jobs: int | None = None,
    memory: str | int | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Measure sets at every temperature and level over random splits (the protocol of the paper's section 3.1).

    Parameters
    ----------
    logits, labels
        Labelled rows, or `Logits`.
    temperatures : iterable of float
        Increasing, at most 10,000; the default is 0.3 to 5 in steps of 0.1 (`DEFAULT_GRID`). See `temperature_grid`;
        the grid of the paper's section 3.1 is `PAPER_GRID`.
    methods : names, score objects or functions
        Several `RAPS(penalty=..., k_reg=...)` are cheap: they share everything but the comparison. "margin" and custom
        scores (see `OwnScore`) cost a softmax in every trial.
    alphas, trials, calibration_fraction, cp_fraction, random_state
        Levels, number of random splits (at most 100,000, and what memory holds), parts of the rows set aside for
        calibration (may be 0) and for thresholds; the rest is evaluated. Trial t draws its rows, and
        one u for each row, from (random_state, t), shared across temperatures, methods and alphas.
    evaluation : "drawn" or "integrated"
        Whether evaluation rows use their drawn u, as a classifier would, or sizes and marginal coverage are averaged
        over u in closed form, which removes that noise. Class gaps are not linear in hits: they always use drawn u,
        and "integrated" adds the smoother `integrated_top_coverage_gap`, `integrated_avg_coverage_gap` and
        `integrated_squared_coverage_gap`, for choosing a temperature.
    randomized, allow_empty, grouping
        As in `ConformalClassifier`; grouping="group" needs rows with groups, and costs a fit and a prediction in every
        trial.
    metrics : names
        Additional metrics: "sscv" (coverage by set size) and "confidence_coverage_gap" (by strata of the confidence at
        T*, fitted once on all rows). Rows with groups are always measured by group as well.
    split_by : array-like (n,), optional
        Rows with the same value (of one patient, font or camera) stay together in every split; parts are then as large
        as that allows, and differ a little from trial to trial.
    n_jobs : int
        Number of threads; all cores by default. The result does not depend on it.
    memory : str or int
        Memory the sweep may use in addition to its input, such as "512MiB"; 1 GiB by default. Beyond it, per-row data
        goes to files in the temporary folder. The result does not depend on it.
    progress : callable
        Called with (done, total) as work proceeds.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 10, size=1000)
    >>> logits = 3 * (rng.normal(size=(1000, 10)) + 1.5 * np.eye(10)[labels])
    >>> result = ts.sweep(logits, labels, temperatures=[0.5, 1, 2], methods=["aps"], trials=20)
    >>> result
    Sweep(aps; 3 temperatures 0.5 to 2; alpha 0.1; 20 trials)
    >>> bool(np.all(np.diff(result.curve("threshold", "aps")) < 0))  # thresholds fall as T grows
    True
    """
    data = as_logits(logits, labels)
    data.require_labels("sweep")
    plan = SweepJob(
        scores=_checked_methods(methods),
        temperatures=temperature_grid(DEFAULT_GRID) if temperatures is None else checked_temperatures(temperatures),
        alphas=_checked_alphas(alphas),
        integrate=place_of("evaluation", evaluation, ("drawn", "integrated")) == 1,
        allow_empty=place_of("allow_empty", allow_empty, (True, False)) == 0,
        n_jobs=None if n_jobs is None else whole_number(n_jobs, "n_jobs", 1, MOST_THREADS, "None uses all cores."),
        added=(*(group_metrics() if data.groups is not None else ()), *asked_metrics(metrics)),
    )
    together = None if split_by is None else split_codes(split_by, len(data))
    protocol = Protocol(calibration_fraction, cp_fraction, checked_seed(random_state), randomized, together)
    count = whole_number(trials, "trials", 1, MOST_TRIALS, "Try 100.")
    kind = resolve_grouping(grouping)
    if kind is not None and plan.integrate:
        raise InputError(
            "evaluation='integrated' needs one threshold for all classes, but grouping was given. Use 'drawn'."
        )
    if plan.integrate and (plain := [score.name for score in plan.scores if not score.prefixes]):
        raise InputError(f"evaluation='integrated' needs a closed form, which {plain[0]!r} does not have. Use 'drawn'.")
    if plan.integrate and not randomized:
        raise InputError("evaluation='integrated' averages over u, but randomized=False has no u. Use 'drawn'.")
    # the result and the counts; the loops keep to their budgets
    needed = data.n_classes * count * 48 + math.prod(plan.shape) * len(plan.metrics) * count * 8
    if needed > physical_memory():
        raise InputError(
            f"a sweep of {count:,} trials, {len(plan.temperatures):,} temperatures and {len(plan.alphas):,} levels "
            f"needs about {needed / 2**30:,.0f} GiB of memory; got {physical_memory() / 2**30:,.0f}. Ask for less."
        )
    n_conformal = len(protocol.split(len(data), 0).conformal)
    for alpha in plan.alphas:
        if conformal_rank(n_conformal, alpha) > n_conformal:
            warnings.warn(
                f"alpha={alpha} needs at least {rows_needed(alpha)} conformal rows; got {n_conformal}. Every set will "
                f"contain all {data.n_classes} classes: raise cp_fraction or alpha, or add rows.",
                CoverageWarning,
                stacklevel=2,
            )
    if kind is None:
        _warm_up(plan)
    with memory_budget(memory):
        values, measured = run(data.within_budget(), plan, kind, count, protocol, progress)
    absent = np.count_nonzero(measured.trials.counts == 0, axis=1)
    if absent.any():
        warnings.warn(
            f"{int(absent.max())} of {data.n_classes} classes have no evaluation rows in some trial; class gaps omit "
            "them. `absent_classes` counts them by trial.",
            CoverageWarning,
            stacklevel=2,
        )
    settings = {
        "rows": len(data),
        "classes": data.n_classes,
        "trials": count,
        "evaluation": evaluation,
        "allow_empty": plan.allow_empty,
        "grouping": text_of(kind),
        **{field.name: getattr(protocol, field.name) for field in fields(protocol) if field.name != "split_by"},
        "split_by": None if together is None else int(together.max()) + 1,
    }
    if measured.temperature is not None:
        settings["confidence_temperature"] = measured.temperature
    names = tuple(_name(score) for score in plan.scores)
    levels = tuple(float(exact_level(alpha)) for alpha in plan.alphas)
    measures = tuple(metric.name for metric in plan.metrics)
    return Sweep(names, plan.temperatures, levels, measures, values, absent, settings)


_SHOWN = 4  # numbers of a parameter in a name


def _name(score: Score) -> str:
    """Name of a score: that of the registry, or with the parameters that differ from its defaults."""
    for name, known in SCORES.items():
        if score == known:
            return name
    if isinstance(score, OwnScore):
        return score.name
    arguments = []
    for field in fields(score):
        value = getattr(score, field.name)
        if value != field.default:
            if isinstance(value, tuple) and len(value) > _SHOWN:
                value = f"({', '.join(map(str, value[:_SHOWN]))}, ...)"
            arguments.append(f"{field.name}={value}")
    return f"{score.name}({', '.join(arguments)})"


def _checked_methods(methods: Any) -> tuple[Score, ...]:
    one = isinstance(methods, str | Score) or callable(methods)
    scores = tuple(resolve(method) for method in ((methods,) if one else methods))
    if not scores:
        raise InputError("methods must name at least one score; got none. Try ('aps', 'raps').")
    names = [_name(score) for score in scores]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InputError(f"methods must differ; {twice!r} appears twice.")
    return scores


def _checked_alphas(alphas: Any) -> tuple[Alpha, ...]:
    values = tuple(alphas) if isinstance(alphas, Iterable) and not isinstance(alphas, str) else (alphas,)
    levels = [exact_level(alpha) for alpha in values]
    if not values or len(set(levels)) < len(values):
        raise InputError(f"alphas must name at least one level, each once; got {quoted(alphas)}. Try (0.05, 0.1).")
    return values


def _warm_up(plan: SweepJob) -> None:
    """Compile the kernels on a handful of rows, or load them from the cache."""
    if plan.integrate not in _compiled:
        with compiling():
            few = Logits(np.arange(20.0).reshape(10, 2), np.arange(10) % 2)
            small = SweepJob((APS(),), np.ones(1), (0.5,), plan.integrate, True, 1)
            run(few, small, None, 1, Protocol(0, 0.5), None)
        _compiled.add(plan.integrate)


_compiled: set[bool] = set()
