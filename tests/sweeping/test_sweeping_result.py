"""The result of a sweep: means, errors and medians by hand, and tables that survive a file."""

import csv
import math
import sys

import numpy as np
import pytest

from law import generated
from parts import require
from thermoset import sweep
from thermoset.errors import InputError, MissingExtraError
from thermoset.metrics import swept_metrics
from thermoset.sweeping import Sweep, median_of_means, standard_error

COLUMNS = ["method", "temperature", "alpha", "metric", "value", "standard_error", "median_of_means"]


def made(values):
    """A sweep of one method and metric with these trials at each temperature."""
    array = np.array(values, dtype=float)[None, :, None, None, :]
    grid = np.arange(1.0, array.shape[1] + 1)
    return Sweep(("aps",), grid, (0.1,), ("avg_size",), array, np.zeros(array.shape[-1], dtype=np.int64), {})


@pytest.fixture(scope="module")
def result():
    logits, labels = generated(300, 10, signal=0.2)
    return sweep(logits, labels, [0.5, 1.0, 3.0], ["lac", "aps"], [0.05, 0.2], 20)


def test_median_of_means_by_hand():
    # 20 trials are 10 groups of 2; one wild trial moves one group's mean and not the median.
    values = np.arange(20.0)
    values[0] = 1e9
    assert float(median_of_means(values)) == 11.5  # group means 2.5, 4.5, ..., 18.5 and 5e8
    assert float(median_of_means(np.arange(100.0))) == 49.5  # group means 4.5, 14.5, ..., 94.5


def test_median_of_means_of_few_trials_is_their_median():
    assert float(median_of_means(np.array([1.0, 5.0, 2.0]))) == 2.0
    assert median_of_means(np.array([[1.0], [2.0]])).tolist() == [1.0, 2.0]


def test_standard_error_by_hand():
    # 1, 2, 3, 6: mean 3, squared deviations 4 + 1 + 0 + 9 = 14, variance 14 / 3, over 4 trials
    assert float(standard_error(np.array([1.0, 2.0, 3.0, 6.0]))) == pytest.approx(math.sqrt(14 / 3 / 4))
    assert math.isnan(standard_error(np.array([1.0])))
    assert math.isnan(standard_error(np.array([math.inf, math.inf])))


@pytest.mark.filterwarnings("error")
def test_one_infinite_threshold_makes_the_mean_infinite():
    inf = math.inf
    result = made([[0.5, -inf, 0.7, 0.8], [-inf, -inf, -inf, -inf], [inf, 0.5, 0.6, 0.7], [inf, -inf, 0.5, 0.5]])
    table = result.columns()
    assert table["value"][:3] == [-inf, -inf, inf]
    assert math.isnan(table["value"][3])  # nothing is between -inf and +inf
    assert all(math.isnan(error) for error in table["standard_error"])
    assert table["median_of_means"] == pytest.approx([0.6, -inf, 0.65, 0.5])  # four groups of one
    assert result.curve("avg_size", "aps")[:3].tolist() == [-inf, -inf, inf]
    assert result.of_trials("avg_size", "aps")[0].tolist() == [0.5, -inf, 0.7, 0.8]


def test_rows_of_the_table_are_the_trials_summed_up():
    table = made([[1.0, 2.0, 3.0, 6.0], [5.0, 5.0, 5.0, 5.0]]).columns()
    assert list(table) == COLUMNS
    assert table["temperature"] == [1.0, 2.0]
    assert table["value"] == [3.0, 5.0]
    assert table["standard_error"] == pytest.approx([math.sqrt(14 / 12), 0.0])
    assert table["median_of_means"] == [2.5, 5.0]  # four groups of one


def test_one_trial_has_no_standard_error():
    table = made([[2.0]]).columns()
    assert (table["value"], table["median_of_means"]) == ([2.0], [2.0])
    assert math.isnan(table["standard_error"][0])


def test_the_frame_has_the_documented_columns(result):
    pd = require("pandas", "test")
    frame = result.to_pandas()
    assert list(frame.columns) == COLUMNS
    assert len(frame) == 2 * 3 * 2 * len(swept_metrics())
    assert not frame.duplicated(["method", "temperature", "alpha", "metric"]).any()
    assert list(frame.metric.unique()) == [
        "avg_size", "marginal_coverage", "marginal_coverage_gap", "top_coverage_gap", "avg_coverage_gap", "threshold",
        "empty_share", "worst_tenth_coverage", "macro_coverage", "classes_below",
    ]  # fmt: skip
    assert pd.api.types.is_float_dtype(frame.temperature)
    mine = frame[(frame.method == "aps") & (frame.alpha == 0.2) & (frame.metric == "avg_size")]
    assert mine.temperature.tolist() == [0.5, 1.0, 3.0]
    assert mine.value.tolist() == result.curve("avg_size", "aps", 0.2).tolist()
    assert np.array_equal(result.of_trials("avg_size", "aps", 0.2).mean(axis=1), result.curve("avg_size", "aps", 0.2))


def test_the_long_frame_has_a_row_for_each_trial(result):
    require("pandas", "test")
    frame = result.to_pandas(per_trial=True)
    assert list(frame.columns) == ["method", "temperature", "alpha", "metric", "trial", "value"]
    assert len(frame) == 2 * 3 * 2 * len(swept_metrics()) * 20
    pick = (frame.method == "lac") & (frame.alpha == 0.05) & (frame.metric == "threshold") & (frame.temperature == 1)
    assert frame[pick].value.tolist() == result.of_trials("threshold", "lac", 0.05)[1].tolist()
    assert frame[pick].trial.tolist() == list(range(20))


@pytest.mark.parametrize("per_trial", [False, True])
def test_csv_keeps_every_number(result, tmp_path, per_trial):
    result.save(tmp_path / "sweep.csv", per_trial=per_trial)
    with (tmp_path / "sweep.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    table = result.trial_columns() if per_trial else result.columns()
    assert header == list(table)
    numbers = {name for name, column in table.items() if not isinstance(column[0], str)}
    for name, column in zip(header, zip(*rows, strict=True), strict=True):
        read = [float(cell) for cell in column] if name in numbers else list(column)
        assert read == list(table[name]), name


@pytest.mark.parametrize("per_trial", [False, True])
def test_parquet_keeps_every_number(result, tmp_path, per_trial):
    parquet = require("pyarrow.parquet", "io")
    result.save(tmp_path / "sweep.parquet", per_trial=per_trial)
    table = result.trial_columns() if per_trial else result.columns()
    assert parquet.read_table(tmp_path / "sweep.parquet").to_pydict() == table


def test_infinite_thresholds_survive_tables_and_files(tmp_path):
    logits, labels = generated(50, 3)
    with pytest.warns(UserWarning, match="needs at least 9 conformal rows; got 5"):
        result = sweep(logits, labels, [1.0], ["aps"], trials=3)
    assert np.isposinf(result.curve("threshold", "aps")).all()
    assert result.curve("avg_size", "aps").tolist() == [3.0]
    assert result.curve("marginal_coverage", "aps").tolist() == [1.0]
    table = result.columns()
    row = table["metric"].index("threshold")
    assert (table["value"][row], table["median_of_means"][row]) == (math.inf, math.inf)
    assert math.isnan(table["standard_error"][row])
    result.save(tmp_path / "sweep.csv")
    assert ",threshold,inf,nan,inf" in (tmp_path / "sweep.csv").read_text()


@pytest.mark.parametrize("name", ["sweep", "sweep.txt", "sweep.npz", ".csv"])
def test_other_suffixes_are_refused_and_nothing_is_written(result, tmp_path, name):
    with pytest.raises(InputError, match=r"known: \.csv, \.parquet"):
        result.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(result, tmp_path, monkeypatch):
    target = tmp_path / "sweep.csv"
    target.write_text("old")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"sweep\.csv: cannot be written \(No space left on device\)"):
        result.save(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_folders_that_do_not_exist_are_named(result, tmp_path):
    with pytest.raises(InputError, match=r"sweep\.csv: folder .* does not exist"):
        result.save(tmp_path / "none" / "sweep.csv")


def test_what_is_not_in_the_sweep_is_refused_with_what_is(result):
    with pytest.raises(InputError, match="method must be one of 'lac', 'aps'; got 'raps'"):
        result.curve("avg_size", "raps", 0.05)
    with pytest.raises(InputError, match=r"metric must be one of 'avg_size', .*; got 'size'"):
        result.curve("size", "aps", 0.05)
    with pytest.raises(InputError, match=r"alpha must be one of 0\.05, 0\.2; got 0\.1"):
        result.curve("avg_size", "aps", 0.1)
    with pytest.raises(InputError, match=r"alpha must be given, because this sweep has several: \(0\.05, 0\.2\)"):
        result.curve("avg_size", "aps")


def test_missing_pandas_is_said_with_what_to_install(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"needs pandas, which is not installed\. Run: pip install pandas$"):
        result.to_pandas()


def test_missing_pyarrow_is_said_with_its_extra(result, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="needs pyarrow"):
        result.save(tmp_path / "sweep.parquet")
    assert list(tmp_path.iterdir()) == []


def test_repr_and_settings_say_what_was_asked(result):
    assert repr(result) == "Sweep(lac, aps; 3 temperatures 0.5 to 3; alpha 0.05, 0.2; 20 trials)"
    wanted = {"rows": 300, "classes": 10, "trials": 20, "evaluation": "drawn", "random_state": 0, "cp_fraction": 0.1}
    assert wanted.items() <= result.settings.items()
