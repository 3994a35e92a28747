"""Batches: every kind is answered in kind, with the sets of `predict_set` and the columns of `thermoset predict`."""

import os
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thermoset as ts
from kinds import of_probabilities
from law import generated
from parts import require
from thermoset import rows as row_work
from thermoset.errors import InputError, MissingExtraError
from thermoset.integrations import batches as work
from thermoset.integrations.batches import Predictor
from thermoset.io import open_predictions
from tiers import examples

pytestmark = pytest.mark.slow

pa = require("pyarrow", "io")
pd = require("pandas", "test")
pl = require("polars", "test")
parquet = require("pyarrow.parquet", "io")

NAMES = ("ant", "bee", "cow", "dog", "eel")
LOGITS, LABELS = generated(1200, 5)
Z = LOGITS[800:]
IDS = [f"row {i}" for i in range(len(Z))]


def fitted(classes=NAMES, **parameters):
    return ts.TwoTemperaturePredictor(**parameters).fit(ts.Logits(LOGITS[:800], LABELS[:800], classes))


@pytest.fixture(scope="module")
def model():
    return fitted(method="raps")


@pytest.fixture(scope="module")
def unnamed():
    return fitted(None)


def arrow_table(ids, logits):
    logits = np.ascontiguousarray(logits)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(logits.reshape(-1)), logits.shape[1])
    return pa.table({"id": pa.array(ids, pa.string()), "logits": lists})


def record_batch(ids, logits):
    lists = pa.array([row.tolist() for row in logits], pa.list_(pa.float64()))
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.string()), "logits": lists})


def pandas_frame(ids, logits):
    frame = pd.DataFrame({"id": pd.Series(ids, dtype=object), "logits": pd.Series(list(logits), dtype=object)})
    return frame.set_index(pd.Index(np.arange(len(ids)) // 2))  # an index may repeat itself


def pandas_on_arrow(ids, logits):
    return pandas_frame(ids, logits).astype({"logits": pd.ArrowDtype(pa.list_(pa.float64()))})


def polars_frame(ids, logits):
    return pl.DataFrame(
        {"id": pl.Series(ids, dtype=pl.String), "logits": pl.Series(logits.tolist(), dtype=pl.List(pl.Float64))}
    )


def polars_arrays(ids, logits):
    return polars_frame(ids, logits).with_columns(pl.col("logits").cast(pl.Array(pl.Float64, logits.shape[1])))


def arrays(ids, logits):
    return {"id": np.array(ids, dtype=object), "logits": logits}


def lists(ids, logits):
    return {"id": list(ids), "logits": logits.tolist()}


def tensors(ids, logits):
    column = (
        pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(logits))
        if len(ids)
        else pa.array([], pa.fixed_shape_tensor(pa.float64(), [5]))
    )
    return pa.table({"id": pa.array(ids, pa.string()), "logits": column})


KINDS = [arrow_table, record_batch, pandas_frame, pandas_on_arrow, polars_frame, polars_arrays, arrays, lists, tensors]
every_kind = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


def columns(batch):
    """A batch of any kind as lists of Python objects."""
    if isinstance(batch, dict):
        return {
            name: np.asarray(column, dtype=object).tolist() if name != "probabilities" else column.tolist()
            for name, column in batch.items()
        }
    if isinstance(batch, pd.DataFrame):
        return {
            name: [list(cell) if isinstance(cell, np.ndarray) else cell for cell in batch[name].tolist()]
            for name in batch.columns
        }
    return batch.to_dict(as_series=False) if isinstance(batch, pl.DataFrame) else batch.to_pydict()


def expected(model, logits, ids=None):
    """What the predictor says of rows, as columns."""
    found, names = model.predict_arrays(logits, ids=ids), model.document_.classes or range(model.document_.n_classes)
    return {
        "label": [names[label] for label in found.labels],
        "confidence": found.confidence.tolist(),
        "set": [[names[label] for label in np.flatnonzero(row)] for row in found.sets],
        "size": found.sets.sum(axis=1).tolist(),
    }


@every_kind
def test_a_batch_is_answered_in_kind(model, make):
    batch = make(IDS, Z)
    answered = Predictor(model)(batch)
    assert type(answered) is type(batch)
    assert columns(answered) == {"id": IDS} | expected(model, Z)
    if isinstance(batch, pd.DataFrame):
        assert answered.index.equals(batch.index)


@every_kind
def test_labels_are_column_numbers_where_classes_have_no_names(unnamed, make):
    assert columns(Predictor(unnamed, keep=[])(make(IDS, Z))) == expected(unnamed, Z)


@every_kind
@pytest.mark.parametrize("n_jobs", [1, 3, None])
def test_where_batches_begin_does_not_matter(model, make, n_jobs, monkeypatch):
    monkeypatch.setattr(work, "block_rows", lambda n_classes: 7)
    predict = Predictor(model, n_jobs=n_jobs)
    cuts = [0, 1, 8, 8, 100, 399, len(Z)]
    parts = [columns(predict(make(IDS[a:b], Z[a:b]))) for a, b in pairwise(cuts)]
    whole = columns(predict(make(IDS, Z)))
    assert {name: [cell for part in parts for cell in part[name]] for name in whole} == whole
    assert whole == {"id": IDS} | expected(model, Z)


@every_kind
@pytest.mark.parametrize("ids", [IDS, list(range(len(Z)))], ids=["text", "numbers"])
def test_u_comes_from_the_ids_where_they_are_asked_for(model, make, ids):
    batch = make(IDS, Z)
    if isinstance(ids[0], int):
        batch = _with_ids(batch, ids)
    found = columns(Predictor(model, id_column="id", u="ids")(batch))
    assert found == {"id": ids} | expected(model, Z, ids)
    assert found["set"] != expected(model, Z)["set"]
    passed = columns(Predictor(model, id_column="id", keep=[])(batch))
    assert passed == {"id": ids} | expected(model, Z), "ids are passed on, and change nothing by themselves"


def _with_ids(batch, ids):
    if isinstance(batch, dict):
        return batch | {"id": np.array(ids)}
    if isinstance(batch, pd.DataFrame):
        return batch.assign(id=ids)
    if isinstance(batch, pl.DataFrame):
        return batch.with_columns(id=pl.Series(ids))
    return type(batch).from_arrays([pa.array(ids), batch.column(1)], names=["id", "logits"])


@every_kind
def test_groups_go_to_the_predictor(model, make, monkeypatch):
    """Here the confidence tells the group of each row."""
    answers = type(model).predict_arrays

    def watched(self, logits, **options):
        numbers = np.array([float(name) for name in logits.groups])
        return answers(self, logits, **options)._replace(confidence=numbers)

    monkeypatch.setattr(type(model), "predict_arrays", watched)
    monkeypatch.setattr(work, "block_rows", lambda n_classes: 7)
    numbers, batch = [i % 5 for i in range(len(Z))], make(IDS, Z)
    assert columns(Predictor(model, groups="id")(_with_ids(batch, numbers)))["confidence"] == numbers


@every_kind
def test_thresholds_by_group_answer_batches(make, monkeypatch):
    monkeypatch.setattr(work, "block_rows", lambda n_classes: 7)
    rows = ts.Logits(LOGITS[:800], LABELS[:800], groups=np.arange(800) % 3)
    by_group = ts.TwoTemperaturePredictor("lac", prefer="small", grouping="group").fit(rows)
    numbers = [i % 3 for i in range(len(Z))]
    sizes = columns(Predictor(by_group, groups="id")(_with_ids(make(IDS, Z), numbers)))["size"]
    assert sizes == by_group.set_sizes(Z, groups=numbers).tolist()
    with pytest.raises(InputError, match="no column 'groups'"):
        Predictor(by_group)(make(IDS, Z))


@pytest.mark.parametrize("parameters", [{"grouping": "class", "alpha": 0.2}, {"method": "lac"}], ids=str)
def test_every_kind_of_sets(parameters):
    model = fitted(**parameters)
    assert columns(Predictor(model)(arrow_table(IDS, Z))) == {"id": IDS} | expected(model, Z)


ROWS = st.lists(st.lists(st.floats(-30, 30, width=16), min_size=5, max_size=5), min_size=1, max_size=12)


@settings(max_examples=examples(60))
@given(rows=ROWS, data=st.data())
def test_dicts_of_arrays_of_any_form_and_cut(model, rows, data):
    dtype = data.draw(st.sampled_from(["float16", "float32", "float64"]))
    logits = np.array(rows, dtype=dtype)
    cells = np.empty(len(rows), dtype=object)
    cells[:] = list(logits)
    form = data.draw(st.sampled_from([logits, np.asfortranarray(logits), cells, list(logits), rows]))
    cut = data.draw(st.integers(0, len(rows)))
    found = [columns(Predictor(model)({"logits": form[part]})) for part in (slice(cut), slice(cut, None))]
    together = {name: found[0][name] + found[1][name] for name in found[0]}
    assert together == expected(model, logits)


@pytest.mark.parametrize("ids", [None, IDS, list(range(len(Z)))], ids=["none", "text", "numbers"])
def test_columns_are_those_of_the_command(model, unnamed, tmp_path, ids):
    for one in (model, unnamed):
        kind = None if ids is None else "text" if isinstance(ids[0], str) else "number"
        with open_predictions(tmp_path / "sets.parquet", one.document_.classes, ids=kind) as out:
            out.write(*one.predict_arrays(Z, ids=ids)[:3], ids=ids)
        batch = arrow_table(IDS, Z) if ids is None else _with_ids(arrow_table(IDS, Z), ids)
        predict = Predictor(one, keep=[]) if ids is None else Predictor(one, id_column="id", u="ids", keep=["id"])
        written = parquet.read_table(tmp_path / "sets.parquet")
        assert predict(batch).equals(written)
        assert predict(batch).schema.equals(written.schema)


@every_kind
def test_batches_without_rows_have_the_same_schema(model, make):
    predict = Predictor(model, outputs=["probabilities", "set", "label", "size", "confidence"])
    full, empty = predict(make(IDS, Z)), predict(make([], Z[:0]))
    assert type(empty) is type(full)
    assert list(columns(empty)) == list(columns(full))
    assert all(len(column) == 0 for column in columns(empty).values())
    if isinstance(full, pd.DataFrame):
        assert empty.dtypes.equals(full.dtypes)
    elif isinstance(full, dict):
        added = [name for name in full if name not in ("id", "logits")]
        kinds = [(full[name].dtype.kind, full[name].ndim) for name in added]
        assert [(empty[name].dtype.kind, empty[name].ndim) for name in added] == kinds
    else:
        assert empty.schema == full.schema


@every_kind
def test_probabilities_are_those_of_the_predictor(model, make):
    found = columns(Predictor(model, outputs=["probabilities"], keep=[])(make(IDS, Z)))
    assert found == {"probabilities": model.predict_proba(Z).tolist()}


@every_kind
def test_columns_that_are_kept_and_named(model, make):
    found = columns(Predictor(model, outputs=("size", "label"), prefix="p_", keep=("id", "logits"))(make(IDS, Z)))
    want = expected(model, Z)
    assert list(found) == ["id", "logits", "p_size", "p_label"]
    assert (found["id"], found["p_size"], found["p_label"]) == (IDS, want["size"], want["label"])
    assert np.array_equal(np.array([list(row) for row in found["logits"]], dtype=float), Z)


def by_class(names, logits):
    """The same rows with a column for each class, in a shuffled order and among others, as every kind."""
    order = [3, 0, 4, 1, 2]
    held = {"id": IDS} | {names[i]: logits[:, i] for i in order} | {"note": ["x"] * len(logits)}
    return [pa.table(held), pd.DataFrame(held), pl.DataFrame(held), held]


def test_a_column_for_each_class_is_found_by_its_name(model, unnamed):
    for one, names in ((model, NAMES), (unnamed, [f"logit_{i}" for i in range(5)])):
        for batch in by_class(names, Z):
            assert columns(Predictor(one)(batch)) == {"id": IDS, "note": ["x"] * len(Z)} | expected(one, Z)


def test_columns_of_classes_may_have_any_names(model):
    names = [f"head_{i}" for i in range(5)]
    for batch in by_class(names, Z):
        found = columns(Predictor(model, logits=names, keep=["note"])(batch))
        assert found == {"note": ["x"] * len(Z)} | expected(model, Z)


def test_probabilities_in_place_of_logits(model):
    probs = np.exp(Z - np.logaddexp.reduce(Z, axis=1, keepdims=True))
    other = of_probabilities(model)
    want = expected(other, ts.Logits.from_probabilities(probs))
    for batch in ({"probs": probs}, pa.table({"probs": probs.tolist()}), pd.DataFrame({"probs": list(probs)})):
        assert columns(Predictor(other, probabilities=True)(batch)) == want
        with pytest.raises(InputError, match="was fitted on logits, and these rows come from"):
            Predictor(model, probabilities=True)(batch)
    with pytest.raises(InputError, match="sums to"):
        Predictor(other, probabilities=True)({"probs": Z - Z.min()})
    for tuned, said in ((model, "was fitted on logits"), (other, "Use Logits.from_probabilities")):
        with pytest.raises(InputError, match=said):
            Predictor(tuned)({"logits": probs})


def test_masked_classes_are_no_error(model):
    masked = Z.copy()
    masked[::3, 2] = -np.inf
    assert columns(Predictor(model)(arrow_table(IDS, masked))) == {"id": IDS} | expected(model, masked)


def test_slices_of_arrow_columns(model):
    for make in (arrow_table, record_batch, tensors):
        found = Predictor(model)(make(IDS, Z).slice(13, 50))
        assert columns(found) == {"id": IDS[13:63]} | expected(model, Z[13:63])


def test_several_chunks_and_large_lists(model):
    table = pa.concat_tables([arrow_table(IDS[:10], Z[:10]), arrow_table(IDS[10:], Z[10:])])
    large = table.set_column(1, "logits", table["logits"].cast(pa.large_list(pa.float64())))
    for batch in (table, large):
        assert columns(Predictor(model)(batch)) == {"id": IDS} | expected(model, Z)


def test_what_a_schema_says_is_kept(model):
    field = pa.field("id", pa.string(), nullable=False, metadata={"from": "here"})
    table = pa.table(
        [pa.array(IDS), pa.array(Z.tolist())], schema=pa.schema([field, ("logits", pa.list_(pa.float64()))], {"k": "v"})
    )
    found = Predictor(model)(table).schema
    assert found.field("id").equals(field, check_metadata=True)
    assert found.metadata == {b"k": b"v"}


def test_class_names_of_a_file_must_be_those_of_the_predictor(model, tmp_path):
    ts.io.save(tmp_path / "right.parquet", ts.Logits(Z, classes=NAMES))
    ts.io.save(tmp_path / "wrong.parquet", ts.Logits(Z, classes=NAMES[::-1]))
    assert columns(Predictor(model)(parquet.read_table(tmp_path / "right.parquet"))) == expected(model, Z)
    with pytest.raises(InputError, match="column 0 is 'eel' where it had 'ant'"):
        Predictor(model)(parquet.read_table(tmp_path / "wrong.parquet"))


def test_iterators_are_answered_one_batch_at_a_time(model):
    taken = []

    def batches():
        for first in range(0, len(Z), 100):
            taken.append(first)
            yield record_batch(IDS[first : first + 100], Z[first : first + 100])

    answered = Predictor(model)(batches())
    assert taken == []
    assert columns(next(answered)) == {"id": IDS[:100]} | expected(model, Z[:100])
    assert taken == [0]
    assert len(list(answered)) == 3
    assert list(Predictor(model)(iter([]))) == []


def test_readers_are_answered_as_they_are_read(model):
    whole = record_batch(IDS, Z)
    taken = []

    def batches():
        for first in range(0, len(Z), 100):
            taken.append(first)
            yield whole.slice(first, 100)

    answered = Predictor(model)(pa.RecordBatchReader.from_batches(whole.schema, batches()))
    assert isinstance(answered, pa.RecordBatchReader)
    assert taken == []
    assert answered.schema == Predictor(model)(whole).schema
    assert columns(answered.read_all()) == {"id": IDS} | expected(model, Z)


def test_lazy_frames_stay_lazy(model, tmp_path):
    polars_frame(IDS, Z).write_parquet(tmp_path / "rows.parquet")
    answered = Predictor(model)(pl.scan_parquet(tmp_path / "rows.parquet"))
    assert isinstance(answered, pl.LazyFrame)
    assert columns(answered.collect()) == {"id": IDS} | expected(model, Z)
    large = answered.filter(pl.col("size") > 1).select("id")  # neither may reach the scan, which knows no size
    assert large.collect()["id"].to_list() == [
        one for one, size in zip(IDS, expected(model, Z)["size"], strict=True) if size > 1
    ]


@pytest.mark.parametrize("make", [arrow_table, record_batch, tensors], ids=lambda make: make.__name__)
def test_a_column_of_logits_becomes_structs(model, make):
    for column in (make(IDS, Z).column(1), make([], Z[:0]).column(1)):
        found = Predictor(model)(column)
        assert isinstance(found, pa.ChunkedArray) == isinstance(column, pa.ChunkedArray)
        want = expected(model, Z) if len(column) else {}
        assert found.to_pylist() == [dict(zip(want, row, strict=True)) for row in zip(*want.values(), strict=True)]
        assert found.type.field("set").type == pa.list_(pa.string())


@pytest.mark.parametrize("options", [{}, {"keep": []}, {"prefix": "p_", "outputs": ["set", "probabilities"]}], ids=str)
def test_schemas_are_known_before_batches(model, unnamed, options):
    for predict in (Predictor(model, **options), Predictor(unnamed, **options)):
        for batch in (arrow_table(IDS, Z), polars_frame(IDS, Z), polars_arrays(IDS, Z)):
            assert predict.schema(batch.schema) == predict(batch).schema
            assert type(predict.schema(batch.schema)) is type(batch.schema)
    with pytest.raises(InputError, match="an Arrow, Spark or polars schema; got dict"):
        Predictor(model).schema({"logits": "list"})


def test_tensors_of_torch(model):
    torch = require("torch", "torch")
    assert columns(Predictor(model)({"logits": torch.tensor(Z)})) == expected(model, Z)


@pytest.mark.parametrize("make", [polars_frame, pandas_frame, arrays], ids=lambda make: make.__name__)
def test_batches_need_pyarrow(model, make, monkeypatch):
    batch = make(IDS, Z)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="needs pyarrow"):
        Predictor(model)(batch)


def test_the_input_is_not_changed(model):
    for make in (pandas_frame, polars_frame, arrays):
        batch = make(IDS, Z.copy())
        before = columns(batch)
        Predictor(model)(batch)
        assert list(columns(batch)) == ["id", "logits"]
        assert np.array_equal([list(row) for row in columns(batch)["logits"]], [list(row) for row in before["logits"]])


def changed(row, cell):
    rows = Z[:4].tolist()
    rows[row] = cell
    return rows


SHORT, HOLE, NAN = [1.0] * 4, [1.0, None, 1.0, 1.0, 1.0], [0.0, float("nan"), 0.0, 0.0, 0.0]
AS_ANY = [
    lambda rows: pa.table({"logits": pa.array(rows, pa.list_(pa.float64()))}),
    lambda rows: pd.DataFrame({"logits": rows}),
    lambda rows: pl.DataFrame({"logits": pl.Series(rows, dtype=pl.List(pl.Float64))}),
    lambda rows: {"logits": rows},
]


@pytest.mark.parametrize("make", AS_ANY, ids=["arrow", "pandas", "polars", "dict"])
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (changed(2, SHORT), "row 2 of column 'logits' has 4 values, but row 0 has 5."),
        ([SHORT] * 3, "row 0 of column 'logits' has 4 values, but the predictor needs 5."),
        (changed(1, None), "row 1 of column 'logits' is missing."),
        (changed(3, HOLE), "row 3 of column 'logits' has a missing value at position 1."),
        (changed(3, NAN), "logits[3, 1] is NaN; 1 such value(s)"),
    ],
    ids=["ragged", "too short", "null", "null inside", "NaN"],
)
def test_bad_rows_are_named(model, make, rows, said):
    with pytest.raises(InputError) as caught:
        Predictor(model)(make(rows))
    assert type(caught.value) is InputError
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


BAD_BATCHES = [
    ({"x": [1.0]}, {}, "neither a list column 'logits' nor one column per class"),
    ({"ant": [1.0], "bee": [1.0]}, {}, "has no column 'cow'; it has 'ant', 'bee'."),
    ({"logits": Z}, {"logits": "scores"}, "has no column 'scores'; it has 'logits'."),
    ({"logits": Z}, {"id_column": "id"}, "has no column 'id'"),
    ({"logits": Z}, {"groups": "site"}, "has no column 'site'"),
    ({"logits": Z}, {"keep": ["id"]}, "has no column 'id'"),
    ({"logits": Z, "label": LABELS[800:]}, {}, "already has a column 'label'"),
    ({"logits": Z[:, :4]}, {}, "shape (400, 4)"),
    ({"logits": Z[:, None]}, {}, "shape (400, 1, 5)"),
    ({"logits": Z[:, 0]}, {}, "column 'logits' has type double"),
    ({"logits": Z, "id": IDS[1:]}, {}, "column 'id' has 399 rows where 'logits' has 400"),
    ({"logits": Z, "id": 3}, {}, "column 'id' is not an array"),
    ({"logits": [["a"] * 5]}, {}, "column 'logits' has type list<"),
    ({"logits": Z[:2], "id": [1, None]}, {"id_column": "id"}, "row 1 of column 'id' is None"),
    ({"logits": Z[:1], "id": [1.0]}, {"id_column": "id"}, "row 0 of column 'id' is 1.0"),
    (pa.table({"logits": ["a"]}), {}, "column 'logits' has type string"),
    (pa.table({"logits": [["a"]]}), {}, "column 'logits' has type list<"),
    (pa.table({name: ["a"] for name in NAMES}), {}, "column 'ant' has type string"),
    (pa.table({name: [None, 1.0] for name in NAMES}), {}, "row 0 of column 'ant' is missing."),
    (pa.table([[[1.0]], [[1.0]]], names=["logits", "logits"]), {}, "has 2 columns 'logits'"),
    (pl.DataFrame({name: [None, 1.0] for name in NAMES}), {}, "row 0 of column 'ant' is missing."),
    (dict.fromkeys(NAMES, Z), {}, "column 'ant' has shape (400, 5)"),
    ([[1.0] * 5], {}, "a batch must be"),
    (pa.array([[1.0] * 5]), {"id_column": "id"}, "no ids"),
    (pa.array([[1.0] * 5]), {"groups": "site"}, "no groups"),
]


@pytest.mark.parametrize(("batch", "options", "said"), BAD_BATCHES)
def test_bad_batches_are_refused_in_one_line(model, batch, options, said):
    with pytest.raises(InputError) as caught:
        Predictor(model, **options)(batch)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


BAD_OPTIONS = [
    ({"outputs": ["labels"]}, "some of label, confidence, set, size, probabilities, action; got ['labels']."),
    ({"outputs": []}, "outputs must be some of"),
    ({"outputs": "label"}, "outputs must be a list"),
    ({"outputs": ["label", "label"]}, "outputs names 'label' more than once."),
    ({"keep": "id"}, "keep must be a list"),
    ({"keep": [1]}, "keep must be a list"),
    ({"logits": ["a", "b"]}, "logits must name 5 columns"),
    ({"logits": list(NAMES[::-1])}, "in the order of the classes"),
    ({"prefix": None}, "prefix must be text"),
    ({"id_column": 3}, "id_column must be text"),
    ({"groups": 3}, "groups must be text"),
    ({"u": "ids"}, "u must be 'row', or 'ids'"),
    ({"u": "seed"}, "u must be 'row', or 'ids'"),
    ({"n_jobs": 0}, "n_jobs"),
]


@pytest.mark.parametrize(("options", "said"), BAD_OPTIONS)
def test_bad_options_are_refused_at_once(model, options, said):
    with pytest.raises(InputError) as caught:
        Predictor(model, **options)
    assert said in str(caught.value)


def test_a_predictor_that_is_not_there_or_not_fitted(tmp_path):
    with pytest.raises(InputError, match=r"missing\.json"):
        Predictor(tmp_path / "missing.json")
    with pytest.raises(InputError, match="not fitted"):
        Predictor(ts.TwoTemperaturePredictor())


def test_a_pickle_carries_the_predictor_and_not_its_path(model, tmp_path):
    path = tmp_path / "predictor.json"
    model.save(path)
    shipped = pickle.dumps(Predictor(path, id_column="id", u="ids", prefix="p_"))
    assert len(shipped) < path.stat().st_size
    path.unlink()
    found = columns(pickle.loads(shipped)(arrow_table(IDS, Z)))  # noqa: S301
    assert found == {"id": IDS} | {f"p_{name}": column for name, column in expected(model, Z, IDS).items()}


def test_one_thread_unless_more_are_asked_for(model, monkeypatch):
    def no_threads(*_, **__):
        raise RuntimeError("threads")

    monkeypatch.setattr(row_work, "ThreadPoolExecutor", no_threads)
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "4")
    many = np.tile(Z, (100, 1))  # 40,000 rows: several blocks of the core
    for in_threads in (model.predict_set, lambda rows: Predictor(model, n_jobs=2)({"logits": rows})):
        with pytest.raises(RuntimeError, match="threads"):
            in_threads(many)
    found = Predictor(model, outputs=["size", "probabilities"])({"logits": many})
    assert found["size"].tolist() == expected(model, Z)["size"] * 100


WORKER = """
import pickle, sys, warnings
warnings.simplefilter("error")
import numpy as np
with open(sys.argv[1], "rb") as shipped:
    predict = pickle.load(shipped)
print(predict({"logits": np.load(sys.argv[2])})["set"].tolist())
"""


@pytest.mark.long
def test_workers_that_start_at_once_on_a_cold_cache(tmp_path):
    """Numba's own cache races here (numba#4807, #9348); ours is a file for each kernel, whole or not at all."""
    model = fitted(method="lac")
    shipped, rows = tmp_path / "predictor.pickle", tmp_path / "rows.npy"
    shipped.write_bytes(pickle.dumps(Predictor(model)))
    np.save(rows, Z)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cold")}
    command = [sys.executable, "-c", WORKER, str(shipped), str(rows)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(command, env=environment, **pipes) for _ in range(3)]
    told = [worker.communicate() for worker in workers]
    assert [(worker.returncode, error) for worker, (_, error) in zip(workers, told, strict=True)] == [(0, "")] * 3
    assert {sets for sets, _ in told} == {f"{expected(model, Z)['set']}\n"}
    assert list(tmp_path.rglob("*.nbc"))
    assert not list(tmp_path.rglob("*.tmp"))
