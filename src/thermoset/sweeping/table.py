"""The result of a sweep: per-trial values, and the tidy table of their means."""

import csv
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thermoset.display import html_curves, html_table
from thermoset.errors import InputError, MissingExtraError
from thermoset.io.files import errors_about, write_whole

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Sweep", "median_of_means", "standard_error"]

_GROUPS = 10
_NAMES = {"avg_size": "AvgSize", "top_coverage_gap": "TopCovGap"}  # what a notebook shows


def median_of_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median over 10 equal groups of trials of their means, along the last axis (paper, section 3.1).

    >>> float(median_of_means(np.arange(20.0)))  # groups (0, 1), (2, 3), ...: means 0.5, 2.5, ..., 18.5
    9.5
    """
    groups = np.array_split(values, min(_GROUPS, values.shape[-1]), axis=-1)
    medians: NDArray[np.float64] = np.median([group.mean(axis=-1) for group in groups], axis=0)
    return medians


def standard_error(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard error of the mean along the last axis; NaN where there is one trial or a value is infinite.

    >>> float(standard_error(np.array([1.0, 3.0])))  # deviations -1 and 1: variance 2, over 2 trials
    1.0
    """
    trials = values.shape[-1]
    if trials == 1:
        return np.full(values.shape[:-1], np.nan)
    with np.errstate(invalid="ignore"):  # an infinite threshold has no scatter
        scatter: NDArray[np.float64] = values.std(axis=-1, ddof=1) / np.sqrt(trials)
    return scatter


@dataclass(frozen=True, eq=False)
class Sweep:
    """Curves over temperature, with their scatter over random splits.

    Attributes
    ----------
    methods, temperatures, alphas, metrics
        The axes.
    trial_values : ndarray (methods, temperatures, alphas, metrics, trials)
        Every measured value.
    absent_classes : ndarray (trials,)
        Classes without evaluation rows, which the class gaps of a trial leave out.
    settings : dict
        What the sweep was asked for.
    """

    methods: tuple[str, ...]
    temperatures: NDArray[np.float64]
    alphas: tuple[float, ...]
    metrics: tuple[str, ...]
    trial_values: NDArray[np.float64]
    absent_classes: NDArray[np.int64]
    settings: dict[str, Any]

    @property
    def trials(self) -> int:
        """Number of random splits."""
        return int(self.trial_values.shape[-1])

    def curve(self, metric: str, method: str, alpha: float | None = None) -> NDArray[np.float64]:
        """Mean of a metric at each temperature, (n_temperatures,); `alpha` may be left out when there is one."""
        mean: NDArray[np.float64] = self.of_trials(metric, method, alpha).mean(axis=-1)
        return mean

    def of_trials(self, metric: str, method: str, alpha: float | None = None) -> NDArray[np.float64]:
        """A metric at each temperature in each trial, (n_temperatures, trials)."""
        if alpha is None and len(self.alphas) > 1:
            raise InputError(f"alpha must be named: this sweep has {self.alphas}.")
        m, k = _place("method", method, self.methods), _place("metric", metric, self.metrics)
        a = 0 if alpha is None else _place("alpha", float(alpha), self.alphas)
        values: NDArray[np.float64] = self.trial_values[m, :, a, k]
        return values

    def columns(self) -> dict[str, list[Any]]:
        """The tidy table: one row for each method, temperature, alpha and metric."""
        mean = self.trial_values.mean(axis=-1)
        return {
            **self._index(mean.shape),
            "value": mean.ravel().tolist(),
            "standard_error": standard_error(self.trial_values).ravel().tolist(),
            "median_of_means": median_of_means(self.trial_values).ravel().tolist(),
        }

    def trial_columns(self) -> dict[str, list[Any]]:
        """The long table: one row for each method, temperature, alpha, metric and trial."""
        shape = self.trial_values.shape
        trial = np.broadcast_to(np.arange(shape[-1]), shape).ravel().tolist()
        return {**self._index(shape), "trial": trial, "value": self.trial_values.ravel().tolist()}

    def to_pandas(self, *, per_trial: bool = False) -> "pd.DataFrame":
        """The tidy table as a pandas frame; `per_trial` has a row for each trial instead of means."""
        try:
            import pandas as pd  # noqa: PLC0415 (not a dependency)
        except ModuleNotFoundError as error:
            # no extra of thermoset brings pandas
            message = "Sweep.to_pandas needs pandas, which is not installed. Run: pip install pandas"
            raise MissingExtraError(message) from error
        return pd.DataFrame(self.trial_columns() if per_trial else self.columns())

    def save(self, path: str | Path, *, per_trial: bool = False) -> None:
        """Write the table to a `.csv` or `.parquet` file, whole or not at all."""
        target = Path(path)
        writers = {".csv": _csv, ".parquet": _parquet}
        if target.suffix.lower() not in writers:
            raise InputError(f"a sweep is saved as .csv or .parquet; got {target.name!r}.")
        table = self.trial_columns() if per_trial else self.columns()
        content = writers[target.suffix.lower()](table)
        with errors_about(target, "written"), write_whole(target) as stream:
            stream.write(content)

    def __repr__(self) -> str:
        return (
            f"Sweep({', '.join(self.methods)}; {len(self.temperatures)} temperatures "
            f"{self.temperatures[0]:g} to {self.temperatures[-1]:g}; alpha {', '.join(map(str, self.alphas))}; "
            f"{self.trials} trials)"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: where class gaps are smallest, and the curves of sizes and gaps at the first alpha."""
        t, alpha = self.temperatures.tolist(), self.alphas[0]
        shown = [metric for metric in _NAMES if metric in self.metrics]
        rows = []
        for method in self.methods:
            for level in self.alphas:
                curves = [self.curve(metric, method, level) for metric in shown]
                best = int(np.nanargmin(curves[-1]))
                rows.append([method, f"{level:g}", f"{t[best]:g}", *(f"{curve[best]:.3f}" for curve in curves)])
        plots = [
            html_curves(
                f"{_NAMES[metric]}, alpha = {alpha:g}",
                t,
                {method: self.curve(metric, method, alpha).tolist() for method in self.methods},
                {"T = 1": 1.0},
            )
            for metric in shown
        ]
        names = [_NAMES[metric] for metric in shown]
        table = html_table(["method", "alpha", f"T with the least {names[-1]}", *names], rows)
        return f"<div><p>{escape(repr(self))}</p>{table}{''.join(plots)}</div>"

    def _index(self, shape: tuple[int, ...]) -> dict[str, list[Any]]:
        """Labels of the first four axes for every entry of an array of this shape."""
        names = ("method", "temperature", "alpha", "metric")
        axes = (self.methods, self.temperatures.tolist(), self.alphas, self.metrics)
        places = np.indices(shape[:4]).reshape(4, -1).repeat(int(np.prod(shape[4:])), axis=1)
        return {name: [axis[i] for i in place] for name, axis, place in zip(names, axes, places.tolist(), strict=True)}


def _place(what: str, value: Any, axis: tuple[Any, ...]) -> int:
    if value not in axis:
        raise InputError(f"{what} must be one of {', '.join(map(repr, axis))}; got {value!r}.")
    return axis.index(value)


def _csv(table: dict[str, list[Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue().encode()


def _parquet(table: dict[str, list[Any]]) -> bytes:
    try:
        import pyarrow as pa  # noqa: PLC0415 (an extra)
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("pyarrow", "io", "writing parquet") from error
    stream = io.BytesIO()
    pq.write_table(pa.table(table), stream)
    return stream.getvalue()
