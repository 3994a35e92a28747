"""The result of a sweep: per-trial values, and the tidy table of their means."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.errors import InputError, MissingExtraError
from thermoset.metrics import METRICS
from thermoset.text_tables import AsTable, TextTable, plus_minus

if TYPE_CHECKING:
    import pandas as pd

SHOWN = ("avg_size", "marginal_coverage", "top_coverage_gap", "avg_coverage_gap")
"""Metrics of a table where none are named."""

_GROUPS = 10


def mean_over_trials(values: Floats) -> Floats:
    """Mean along the last axis: infinite where a trial is (a threshold may be), NaN where two are of opposite sign.

    >>> mean_over_trials(np.array([[1.0, 3.0], [0.5, -np.inf], [np.inf, -np.inf]]))
    array([  2., -inf,  nan])
    """
    with np.errstate(invalid="ignore"):
        mean: Floats = values.mean(axis=-1)
    return mean


def median_of_means(values: Floats) -> Floats:
    """Median over 10 equal groups of trials of their means, along the last axis (paper, section 3.1).

    >>> float(median_of_means(np.arange(20.0)))  # groups (0, 1), (2, 3), ...: means 0.5, 2.5, ..., 18.5
    9.5
    """
    groups = np.array_split(values, min(_GROUPS, values.shape[-1]), axis=-1)
    with np.errstate(invalid="ignore"):  # as in `mean_over_trials`
        medians: Floats = np.median([mean_over_trials(group) for group in groups], axis=0)
    return medians


def standard_error(values: Floats) -> Floats:
    """Standard error of the mean along the last axis; NaN where there is one trial or a value is infinite.

    >>> float(standard_error(np.array([1.0, 3.0])))  # deviations -1 and 1: variance 2, over 2 trials
    1.0
    """
    trials = values.shape[-1]
    if trials == 1:
        return np.full(values.shape[:-1], np.nan)
    with np.errstate(invalid="ignore"):  # an infinite threshold has no scatter
        scatter: Floats = values.std(axis=-1, ddof=1) / np.sqrt(trials)
    return scatter


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(AsTable):
    """Curves over temperature, with their variation over random splits.

    Attributes
    ----------
    methods, temperatures, alphas, metrics
        The axes.
    trial_values : ndarray (methods, temperatures, alphas, metrics, trials)
        Every measured value.
    absent_classes : ndarray (trials,)
        Number of classes without evaluation rows, which the class gaps of a trial omit.
    settings : dict
        The arguments of the sweep.
    """

    methods: tuple[str, ...]
    temperatures: Floats
    alphas: tuple[float, ...]
    metrics: tuple[str, ...]
    trial_values: Floats
    absent_classes: Ints
    settings: dict[str, Any]

    @property
    def trials(self) -> int:
        """Number of random splits."""
        return int(self.trial_values.shape[-1])

    def curve(self, metric: str, method: str, alpha: float | None = None) -> Floats:
        """Mean of a metric at each temperature, (n_temperatures,); `alpha` may be omitted when there is only one.

        The mean of thresholds is infinite where one of them is; `of_trials` has them all.
        """
        return mean_over_trials(self.of_trials(metric, method, alpha))

    def of_trials(self, metric: str, method: str, alpha: float | None = None) -> Floats:
        """A metric at each temperature in each trial, (n_temperatures, trials)."""
        if alpha is None and len(self.alphas) > 1:
            raise InputError(f"alpha must be given, because this sweep has several: {self.alphas}.")
        m, k = place_of("method", method, self.methods), place_of("metric", metric, self.metrics)
        a = 0 if alpha is None else place_of("alpha", float(alpha), self.alphas)
        values: Floats = self.trial_values[m, :, a, k]
        return values

    def columns(self) -> dict[str, list[Any]]:
        """The tidy table: one row per method, temperature, alpha and metric."""
        mean = mean_over_trials(self.trial_values)
        return {
            **self._index(mean.shape),
            "value": mean.ravel().tolist(),
            "standard_error": standard_error(self.trial_values).ravel().tolist(),
            "median_of_means": median_of_means(self.trial_values).ravel().tolist(),
        }

    def trial_columns(self) -> dict[str, list[Any]]:
        """The long table: one row per method, temperature, alpha, metric and trial."""
        shape = self.trial_values.shape
        trial = np.broadcast_to(np.arange(shape[-1]), shape).ravel().tolist()
        return {**self._index(shape), "trial": trial, "value": self.trial_values.ravel().tolist()}

    def to_table(self, metrics: Sequence[str] = SHOWN, temperatures: Sequence[float] | None = None) -> TextTable:
        """Metrics with two standard errors for each method, alpha and temperature, as a table of text.

        `temperatures` are some of those that were swept; all of them if left out.

        >>> import thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> curves = ts.sweep(rng.normal(size=(400, 3)), rng.integers(0, 3, 400), [0.5, 1, 2], ["aps"], trials=3)
        >>> curves.to_table(["avg_size"], temperatures=[1]).head
        ('method', 'alpha', 'T', 'AvgSize')
        """
        chosen = self.temperatures.tolist() if temperatures is None else [float(t) for t in temperatures]
        places = [place_of("temperature", t, tuple(self.temperatures.tolist())) for t in chosen]
        held = [metric for metric in metrics if metrics is not SHOWN or metric in self.metrics]
        lines = [
            (
                method.upper(),
                f"{alpha:g}",
                f"{self.temperatures[i]:g}",
                *(self._cell(name, method, alpha, i) for name in held),
            )
            for method in self.methods
            for alpha in self.alphas
            for i in places
        ]
        title = f"Mean over {self.trials} random splits{' ± two standard errors' if self.trials > 1 else ''}"
        return TextTable(
            "sweep", title, ("method", "alpha", "T", *(METRICS[name].title for name in held)), tuple(lines)
        )

    def _cell(self, metric: str, method: str, alpha: float, place: int) -> str:
        trials = self.of_trials(metric, method, alpha)[place]
        spec = ".2f" if METRICS[metric].unit == "labels" else ".3f"
        return plus_minus(float(mean_over_trials(trials)), 2 * float(standard_error(trials)), spec)

    def to_pandas(self, *, per_trial: bool = False) -> "pd.DataFrame":
        """The tidy table as a pandas DataFrame; `per_trial` gives one row per trial instead of means."""
        try:
            import pandas as pd  # noqa: PLC0415 (not a dependency)
        except ModuleNotFoundError as error:
            # no extra of thermoset brings pandas
            message = "Sweep.to_pandas needs pandas, which is not installed. Run: pip install pandas"
            raise MissingExtraError(message) from error
        return pd.DataFrame(self.trial_columns() if per_trial else self.columns())

    def save(self, path: str | Path, *, per_trial: bool = False) -> None:
        """Write the table to a `.csv` or `.parquet` file, completely or not at all."""
        from thermoset.io.predictions import write_table  # noqa: PLC0415 (only those who write)

        write_table(path, self.trial_columns() if per_trial else self.columns())

    def __repr__(self) -> str:
        return (
            f"Sweep({', '.join(self.methods)}; {len(self.temperatures)} temperatures "
            f"{self.temperatures[0]:g} to {self.temperatures[-1]:g}; alpha {', '.join(map(str, self.alphas))}; "
            f"{self.trials} trials)"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: where class gaps are smallest, and with Matplotlib the curves."""
        metrics = [METRICS[name] for name in ("avg_size", "top_coverage_gap") if name in self.metrics]
        names, t, lines = [metric.title for metric in metrics], self.temperatures.tolist(), []
        for method in self.methods:
            for alpha in self.alphas if metrics else ():
                curves = [self.curve(metric.name, method, alpha) for metric in metrics]
                best = int(np.argmin(np.nan_to_num(curves[-1], nan=np.inf)))
                lines.append((method, f"{alpha:g}", f"{t[best]:g}", *(f"{curve[best]:.3f}" for curve in curves)))
        head = ("method", "alpha", *(f"T with the least {name}" for name in names[-1:]), *names)
        drawn = ""
        with suppress(MissingExtraError):
            from thermoset.plots import inline, sweep_figure  # noqa: PLC0415  (only notebooks ask)

            drawn = inline(sweep_figure(self), "Curves against temperature")
        return f"{TextTable('sweep', repr(self), head, tuple(lines)).to_html()}{drawn}"

    def _index(self, shape: tuple[int, ...]) -> dict[str, list[Any]]:
        """Labels of the first four axes for every entry of an array of this shape."""
        names = ("method", "temperature", "alpha", "metric")
        axes = (self.methods, self.temperatures.tolist(), self.alphas, self.metrics)
        places = np.indices(shape[:4]).reshape(4, -1).repeat(int(np.prod(shape[4:])), axis=1)
        return {name: [axis[i] for i in place] for name, axis, place in zip(names, axes, places.tolist(), strict=True)}


def place_of(what: str, value: Any, axis: tuple[Any, ...]) -> int:
    """Where a value stands among those there are."""
    if value not in axis:
        raise InputError(f"{what} must be one of {', '.join(map(repr, axis))}; got {value!r}.")
    return axis.index(value)
