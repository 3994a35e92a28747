"""Batches out of DuckDB and into it: readers, and a function in SQL."""

import numpy as np
import pytest

import thermoset as ts
from law import generated
from parts import require
from thermoset.errors import InputError
from thermoset.integrations.batches import Predictor

duckdb = require("duckdb", "test")
pa = require("pyarrow", "io")

LOGITS, LABELS = generated(5000, 4)
Z = LOGITS[1000:].astype(np.float32)  # DuckDB works on 2,048 rows at a time
MODEL = ts.TwoTemperaturePredictor().fit(LOGITS[:1000], LABELS[:1000])
SETS = [np.flatnonzero(row).tolist() for row in MODEL.predict_set(Z)]


@pytest.fixture
def database():
    """A table of rows; a list has any length, an array has one."""
    rows = pa.table({"id": np.arange(len(Z)), "logits": Z.tolist()})
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        connection.execute(
            "create table t as select id, logits::float[] as logits, logits::float[4] as fixed from rows"
        )
        yield connection


@pytest.mark.parametrize("column", ["logits", "fixed"])
def test_from_reader_to_query(database, column):
    source = database.sql(f"select id, {column} from t").to_arrow_reader(700)  # noqa: S608
    with database.cursor() as other:  # a connection has one open result at a time
        other.register("answered", Predictor(MODEL, logits=column)(source))
        found = other.sql('select id, "set", size from answered order by id').fetchall()
    assert [row[:2] for row in found] == list(enumerate(SETS))
    assert [row[2] for row in found] == [len(one) for one in SETS]


def test_a_function_in_sql(database):
    returns = 'struct(label integer, confidence double, "set" integer[], size integer)'
    database.create_function("predict", Predictor(MODEL), ["float[]"], returns, type="arrow")
    found = database.sql(
        'select p."set", p.confidence from (select id, predict(logits) as p from t) order by id'
    ).fetchall()
    assert found == list(zip(SETS, MODEL.predict_arrays(Z).confidence.tolist(), strict=True))


def test_what_is_wrong_with_a_row_reaches_the_reader(database):
    source = database.sql("select id, case when id = 900 then null else logits end as logits from t").to_arrow_reader(
        700
    )
    with pytest.raises(InputError, match="row 200 of column 'logits' is missing"):
        Predictor(MODEL)(source).read_all()
