"""Tables of columns as files; those of a sweep are tested in `sweeping/test_sweeping_table.py`."""

import csv

import pytest

from parts import require
from thermoset.errors import InputError
from thermoset.io.predictions import write_table

TABLE = {"name": ["a,b", 'say "x"'], "value": [0.1, float("inf")], "rows": [1, 2]}


def test_csv_quotes_and_keeps_every_digit(tmp_path):
    write_table(tmp_path / "t.CSV", TABLE)
    with (tmp_path / "t.CSV").open(newline="") as stream:
        assert list(csv.reader(stream)) == [["name", "value", "rows"], ["a,b", "0.1", "1"], ['say "x"', "inf", "2"]]


def test_parquet(tmp_path):
    parquet = require("pyarrow.parquet", "io")
    write_table(tmp_path / "t.parquet", TABLE)
    assert parquet.read_table(tmp_path / "t.parquet").to_pydict() == TABLE


@pytest.mark.parametrize("name", ["t", "t.npz", ".csv"])
def test_other_suffixes_are_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(InputError, match=r"a table is saved as \.csv or \.parquet; got"):
        write_table(tmp_path / name, TABLE)
    assert list(tmp_path.iterdir()) == []


def test_columns_of_different_lengths_leave_no_file(tmp_path):
    with pytest.raises(ValueError, match="shorter"):
        write_table(tmp_path / "t.csv", {"a": [1, 2], "b": [1]})
    assert list(tmp_path.iterdir()) == []
