"""A fitted predictor as a function of batches, for engines that bring the batches and the workers.

Batches of Arrow, pandas, polars, and dicts of arrays come in. What is read of them becomes columns of Arrow, and so is
what is predicted, which goes back into a batch of the same kind.
"""

import os
import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar, cast

import numpy as np

from thermoset.bounds import whole_number
from thermoset.data import Logits, as_logits, checked_logits
from thermoset.data.estimator import check_classes
from thermoset.data.labels import class_names
from thermoset.data.reading import DEFAULT_COLUMNS, GROUPS, first_repeated, is_instance
from thermoset.errors import FileFormatError, InputError
from thermoset.io.arrow import METADATA_KEY, is_list, is_number, list_matrix, names_from_json, stack_columns
from thermoset.io.files import need
from thermoset.io.predictions import ArrowPredictions, prediction_block
from thermoset.io.roles import list_name
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.sets import ACTIONS
from thermoset.quoting import quoted, reason
from thermoset.rows import MOST_THREADS, block_rows, run_tasks

S = TypeVar("S")

_DEFAULT_OUTPUTS = ("label", "confidence", "set", "size")
_OUTPUTS = (*_DEFAULT_OUTPUTS, "probabilities", "action")
_MOST_LISTED = 2**31 - 1  # values of a list column of Arrow


class Predictor:
    """Label, confidence and set for each row of a batch; the result has the same type as the batch.

    | in | out |
    |---|---|
    | Arrow `RecordBatch` or `Table`, pandas or polars `DataFrame`, dict of arrays | the same, with predictions |
    | an iterator of these (Spark's `mapInArrow`, `mapInPandas`) | an iterator that predicts one batch at a time |
    | Arrow `RecordBatchReader`, polars `LazyFrame` | the same, which predicts as it is read |
    | Arrow `Array` or `ChunkedArray` of logits (functions of DuckDB) | the same, of structs |

    Each row gets the set that `TwoTemperaturePredictor.predict_set` gives it, whatever batch it comes in. A `Predictor`
    can be pickled: it carries the fitted predictor with it, so workers need no file.

    Parameters
    ----------
    predictor : path or TwoTemperaturePredictor
        What `TwoTemperaturePredictor.save` or `thermoset tune` wrote, or a fitted predictor. A path is read at once.
    logits : str or list of str, optional
        The column of lists that holds the logits, or one column of numbers per class, in the order of the classes. By
        default the list column `logits` (or `logit`), otherwise the columns named after the classes (`logit_0`,
        `logit_1`, ... if classes have no names).
    id_column : str, optional
        The column of ids, whole numbers or text, which is always passed on.
    u : "row" or "ids"
        Where the randomness of a set comes from: the seed and the row's logits, or the seed and the row's id, as in
        `predict_set(ids=...)`.
    groups : str, optional
        The column of groups, names or whole numbers; by default `groups`, if the predictor has thresholds by group. See
        `Logits`.
    keep : list of str, optional
        The columns to pass on; by default all but the logits. `keep=[]` returns only the predictions.
    outputs : list of str, optional
        Which columns to add, in which order: "label", "confidence", "set", "size", "probabilities", and "action" of a
        predictor with an answer rule; by default all but the probabilities. Names and types are
        those of `thermoset predict`: labels are class names, or column numbers if classes have no names. Probabilities
        are those of all classes, calibrated.
    prefix : str
        Prefix of the names of the added columns.
    probabilities : bool
        Whether the batches hold probabilities instead of logits, by default in a list column `probs`; as in `ts.load`.
    n_jobs : int or None
        Threads that share a batch. The default is 1, because engines run a worker on every core; None uses all cores.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, size=2000)
    >>> rows = ts.Logits(3 * (rng.normal(size=(2000, 3)) + 2 * np.eye(3)[labels]), labels, ["ant", "bee", "cow"])
    >>> predict = Predictor(ts.TwoTemperaturePredictor("lac", alpha=0.01).fit(rows))
    >>> batch = predict({"id": [7, 8], "logits": np.array([[9.0, 1.0, 0.0], [2.0, 2.5, -3.0]])})
    >>> list(batch), batch["label"].tolist(), batch["set"].tolist()
    (['id', 'label', 'confidence', 'set', 'size'], ['ant', 'bee'], [['ant'], ['ant', 'bee']])
    """

    def __init__(
        self,
        predictor: "str | os.PathLike[str] | TwoTemperaturePredictor",
        *,
        logits: str | Sequence[str] | None = None,
        id_column: str | None = None,
        u: Literal["row", "ids"] = "row",
        groups: str | None = None,
        keep: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        prefix: str = "",
        probabilities: bool = False,
        n_jobs: int | None = 1,
    ) -> None:
        if not isinstance(predictor, TwoTemperaturePredictor):
            predictor = TwoTemperaturePredictor.load(predictor)
        if not hasattr(predictor, "document_"):
            raise InputError("the predictor is not fitted. Fit it, or pass the path of a saved one.")
        self._model, document = predictor, predictor.document_
        if document.is_weighted:
            raise InputError(
                "batches have no weights, but this predictor's conformal rows do, so each row's threshold depends on "
                "its own weight. Use predict_set(logits, weights=...), or recalibrate without weights."
            )
        if n_jobs is not None:
            n_jobs = whole_number(n_jobs, "n_jobs", 1, MOST_THREADS, "None uses all cores.")
        if outputs is None:
            outputs = _DEFAULT_OUTPUTS if document.answers is None else (*_DEFAULT_OUTPUTS, "action")
        added = _column_names(outputs, "outputs")
        if not added or not set(added) <= {*_OUTPUTS}:
            unknown = [name for name in added if name not in _OUTPUTS]
            raise InputError(f"outputs must be some of {', '.join(_OUTPUTS)}; got {quoted(unknown or outputs)}.")
        if "action" in added and document.answers is None:
            raise InputError("outputs names 'action', but this predictor has no answer rule. Fit it with answer=.")
        for name, text in (("prefix", prefix), ("id_column", id_column or ""), ("groups", groups or "")):
            if not isinstance(text, str):
                raise InputError(f"{name} must be text; got {quoted(text)}.")
        if u not in ("row", "ids") or (u == "ids" and id_column is None):
            raise InputError(f"u must be 'row', or 'ids' if id_column names their column; got {quoted(u)}.")
        self._outputs = {f"{prefix}{name}": name for name in added}
        self._logits = logits if logits is None or isinstance(logits, str) else self._columns_of_classes(logits)
        self._keep = None if keep is None else _column_names(keep, "keep")
        self._id_column, self._u, self._probabilities, self._n_jobs = id_column, u, probabilities, n_jobs
        self._groups = GROUPS[0] if groups is None and document.recipe.grouping == "group" else groups

    def __call__(self, batch: Any) -> Any:
        """Predict for a batch, or return an object that predicts for batches as they arrive."""
        if is_instance(batch, "pyarrow", "RecordBatchReader"):
            return _pyarrow().RecordBatchReader.from_batches(self.schema(batch.schema), map(self, batch))
        if is_instance(batch, "pyarrow", "Array", "ChunkedArray"):
            return self._structs(batch)
        if is_instance(batch, "polars", "LazyFrame"):
            # Filters and selections after this one may speak of columns that are not there before it.
            options = {"predicate_pushdown": False, "projection_pushdown": False, "streamable": True}
            return batch.map_batches(self, schema=self.schema(batch.collect_schema()), **options)
        if isinstance(batch, Iterator):
            return map(self, batch)
        names = _names(batch)
        read, kept = self._layout(names)
        return _with_predictions(batch, [names[place] for place in kept], kept, self._predict(batch, read))

    def schema(self, schema: S) -> S:
        """The schema of the result, given the schema of a table.

        It takes one of Arrow, Spark (`df.schema`) or polars (`frame.collect_schema()`).

        >>> import numpy as np, pyarrow, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> model = ts.TwoTemperaturePredictor().fit(rng.normal(size=(100, 3)), rng.integers(0, 3, size=100))
        >>> Predictor(model).schema(pyarrow.schema({"id": "int64", "logits": pyarrow.list_(pyarrow.float32())})).names
        ['id', 'label', 'confidence', 'set', 'size']
        """
        arrow, types, known = _pyarrow(), self._types(), cast("Any", schema)
        if is_instance(known, "pyarrow", "Schema"):
            fields = [known.field(place) for place in self._layout(known.names)[1]]
            result = arrow.schema([*fields, *(arrow.field(*one) for one in types.items())], known.metadata)
        elif is_instance(known, "pyspark.sql.types", "StructType"):
            spark: Any = sys.modules["pyspark.sql.types"]
            fields = [known.fields[place] for place in self._layout(known.names)[1]]
            added = [spark.StructField(name, _spark_type(kind, spark)) for name, kind in types.items()]
            result = spark.StructType([*fields, *added])
        elif is_instance(known, "polars", "Schema"):
            names = [*known]
            kept = {names[place]: known[names[place]] for place in self._layout(names)[1]}
            added = sys.modules["polars"].from_arrow(arrow.schema(types).empty_table()).schema
            result = type(known)(kept | dict(added))
        else:
            raise InputError(f"schema must be an Arrow, Spark or polars schema; got {type(schema).__name__}.")
        return cast("S", result)

    def __repr__(self) -> str:
        return f"Predictor({self._model.document_.n_classes} classes -> {', '.join(self._outputs)})"

    def _columns_of_classes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The names of the columns of the classes, in the order of the classes."""
        names, document = _column_names(columns, "logits"), self._model.document_
        if len(names) != document.n_classes:
            raise InputError(f"logits must name {document.n_classes} columns, one per class; got {len(names)}.")
        classes = document.classes or names
        if names != classes and set(names) == set(classes):
            raise InputError(f"logits must name the columns in the order of the classes: {quoted(list(classes))}.")
        return names

    def _layout(self, held: Sequence[Hashable]) -> tuple[str | tuple[str, ...], list[int]]:
        """The list column that is read, or one for each class, and the places of the columns that are passed on."""
        read = self._find_logits(held) if self._logits is None else self._logits
        used = {read} if isinstance(read, str) else {*read}
        ids = () if self._id_column is None else (self._id_column,)
        groups = () if self._groups is None else (self._groups,)
        times = Counter(held)
        for name in (*((read,) if isinstance(read, str) else read), *ids, *groups, *(self._keep or ())):
            if times[name] != 1:
                count = f"{times[name]} columns" if times[name] else "no column"
                raise InputError(f"the batch has {count} {quoted(name)}; it has {_some(held)}.")
        passed = set(held).difference(used) if self._keep is None else {*self._keep, *ids}
        if taken := [name for name in self._outputs if name in passed]:
            raise InputError(
                f"the batch already has a column {quoted(taken[0])}, which predictions add too. Rename theirs with "
                "prefix='predicted_', or list the columns to pass on in keep=[...]."
            )
        return read, [place for place, name in enumerate(held) if name in passed]

    def _find_logits(self, held: Sequence[Hashable]) -> str | tuple[str, ...]:
        """The list column of a batch, or the column of each class, where the user named none."""
        names, document = [name for name in held if isinstance(name, str)], self._model.document_
        if (listed := list_name(names, self._probabilities)) is not None:
            return listed
        stem = DEFAULT_COLUMNS[1 if self._probabilities else 0]
        by_class = document.classes or tuple(f"{stem}{i}" for i in range(document.n_classes))
        if not set(by_class).intersection(names):
            raise InputError(
                f"the batch has neither a list column {'probs' if self._probabilities else 'logits'!r} nor one column "
                f"per class ({_some(by_class)}); it has {_some(held)}. Name the column: Predictor(..., logits='NAME')."
            )
        return by_class

    def _structs(self, column: Any) -> Any:
        """A struct of predictions for each row of a column of logits."""
        if self._id_column is not None:
            raise InputError("a column of logits has no ids. Pass a table, or omit id_column.")
        if self._groups is not None:
            raise InputError("a column of logits has no groups, but groups were requested. Pass a table.")
        arrow, name = _pyarrow(), self._logits if isinstance(self._logits, str) else "logits"
        answers = self._predict(arrow.table({name: column}), name)
        parts = [part.combine_chunks() for part in answers.columns]
        structs = arrow.StructArray.from_arrays(parts, names=answers.column_names)
        return arrow.chunked_array([structs]) if isinstance(column, arrow.ChunkedArray) else structs

    def _types(self) -> dict[str, Any]:
        """The columns that are added, and their types in Arrow."""
        arrow = _pyarrow()
        types = _arrow_columns(self._model.document_.classes).types
        types = types | {"probabilities": arrow.list_(arrow.float64()), "action": arrow.string()}
        return {shown: types[name] for shown, name in self._outputs.items()}

    def _predict(self, batch: Any, read: str | tuple[str, ...]) -> Any:
        """An Arrow table of predictions, built block by block: the booleans of all sets are never in memory at once."""
        arrow, schema = _pyarrow(), _pyarrow().schema(self._types())
        if not _n_rows(batch):  # engines send some without rows, to learn what comes back
            return schema.empty_table()
        data, ids = self._read(batch, read), None
        if self._groups is not None:
            data = as_logits(data, groups=_cells(batch, self._groups))
        if self._id_column is not None:
            ids = _cells(batch, self._id_column)
            for row, one in enumerate(ids):
                if isinstance(one, bool) or not isinstance(one, int | str):
                    held = f"row {row} of column {quoted(self._id_column)} is {quoted(one)}"
                    raise InputError(f"{held}; ids are whole numbers or text.")
        step = block_rows(data.n_classes)
        pieces: list[Any] = [None] * -(-len(data) // step)
        values = [0] * len(pieces)

        def predict(place: int) -> None:  # one block, for which the core makes no threads: there are n_jobs and no more
            rows = slice(place * step, (place + 1) * step)
            some = data.take(rows)
            arrays: Any = self._model.predict_arrays(some, ids=None if ids is None or self._u == "row" else ids[rows])
            columns = _arrow_columns(self._model.document_.classes).columns(prediction_block(*arrays[:3]))
            if "probabilities" in self._outputs.values():
                probs = self._model.predict_proba(some)
                ends = arrow.array(np.arange(len(probs) + 1) * probs.shape[1], arrow.int32())
                columns["probabilities"] = arrow.ListArray.from_arrays(ends, arrow.array(probs.reshape(-1)))
            if "action" in self._outputs.values():
                columns["action"] = arrow.array(np.array(ACTIONS)[arrays.actions], arrow.string())
            pieces[place] = arrow.table([columns[name] for name in self._outputs.values()], schema=schema)
            values[place] = max(len(columns["set"].values), probs.size if "probabilities" in columns else 0)

        run_tasks((partial(predict, place) for place in range(len(pieces))), n_jobs=self._n_jobs)
        if sum(values) > _MOST_LISTED:
            raise InputError("the sets or probabilities of one batch exceed 2**31 values. Use smaller batches.")
        return arrow.concat_tables(pieces).combine_chunks()

    def _read(self, batch: Any, read: str | tuple[str, ...]) -> Logits:
        """The logits of a batch, checked."""
        width = self._model.document_.n_classes
        make = Logits.from_probabilities if self._probabilities else checked_logits
        try:
            if not isinstance(read, str):
                return make(_stack(batch, read))
            values = _matrix(_column(batch, read), read, width)
            metadata = getattr(getattr(batch, "schema", None), "metadata", None) or {}
            names = names_from_json(metadata[METADATA_KEY]) if METADATA_KEY in metadata else None
        except FileFormatError as error:  # what readers of Arrow say of files
            raise InputError(str(error)) from None
        if values.shape[1:] != (width,):
            shape = tuple(values.shape)
            raise InputError(f"column {quoted(read)} has shape {shape}; the predictor has {width} classes.")
        data = make(values)
        if names is not None:  # the names of one row are those of all
            check_classes(self._model, width, class_names(names, width))
        return data


def _pyarrow() -> Any:
    """Arrow's library, or the extra that brings it."""
    return need("pyarrow", "io", "predicting batches")


@lru_cache(maxsize=8)
def _arrow_columns(classes: tuple[str, ...] | None) -> ArrowPredictions:
    """Class names are converted to an array of Arrow once, and not for every batch."""
    return ArrowPredictions(_pyarrow(), classes)


def _spark_type(kind: Any, types: Any) -> Any:
    """Spark's name for one of our types."""
    arrow = _pyarrow()
    if arrow.types.is_list(kind):
        return types.ArrayType(_spark_type(kind.value_type, types))
    by_type = {arrow.string(): types.StringType, arrow.int32(): types.IntegerType, arrow.float64(): types.DoubleType}
    return by_type[kind]()


def _some(names: Sequence[Hashable]) -> str:
    shown = ", ".join(map(quoted, names[:5]))
    return f"{shown}, ..." if len(names) > 5 else shown or "none"


def _column_names(value: object, what: str) -> tuple[str, ...]:
    """Names of columns that a user gave: different texts."""
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what} must be a list of column names; got {quoted(value)}.")
    if (twice := first_repeated(names)) is not None:
        raise InputError(f"{what} names {quoted(twice)} more than once.")
    return names


# ---- the kinds of batches: what is read of them, and how predictions are added ---------------------------------------


def _names(batch: Any) -> list[Any]:
    """Names of the columns."""
    if is_instance(batch, "pyarrow", "RecordBatch", "Table"):
        return list(batch.schema.names)
    if is_instance(batch, "pandas", "DataFrame") or is_instance(batch, "polars", "DataFrame"):
        return list(batch.columns)
    if isinstance(batch, Mapping):
        return list(batch)
    raise InputError(
        f"a batch must be an Arrow record batch or table, a pandas or polars frame, or a dict of arrays; "
        f"got {type(batch).__name__}."
    )


def _n_rows(batch: Any) -> int:
    """Number of rows; the columns of a dict must have equally many."""
    if not isinstance(batch, Mapping):
        return int(batch.num_rows) if hasattr(batch, "num_rows") else len(batch)
    lengths = {name: len(column) if hasattr(column, "__len__") else None for name, column in batch.items()}
    first, wanted = next(iter(lengths.items()), ("", 0))
    for name, length in lengths.items():
        if length is None or length != wanted:
            problem = "is not an array" if length is None else f"has {length} rows where {quoted(first)} has {wanted}"
            raise InputError(f"column {quoted(name)} {problem}; the columns of a batch must be equally long arrays.")
    return wanted or 0


def _raw_column(batch: Any, name: str) -> Any:
    return batch.column(name) if hasattr(batch, "schema") and hasattr(batch, "num_rows") else batch[name]


def _column(batch: Any, name: str) -> Any:
    """One column: of Arrow where the batch has such columns, a matrix as it is, lists as columns of Arrow."""
    arrow, column = _pyarrow(), _raw_column(batch, name)
    if is_instance(column, "polars", "Series"):
        column = column.to_arrow()
    elif is_instance(getattr(column, "dtype", None), "pandas", "ArrowDtype"):
        column = arrow.array(column)
    elif not isinstance(column, arrow.Array | arrow.ChunkedArray):
        if getattr(column, "ndim", 1) != 1:
            return column
        cells = column.tolist() if hasattr(column, "tolist") else column
        cells = [None if isinstance(cell, float) and cell != cell else cell for cell in cells]  # noqa: PLR0124 - NaN stands for what is missing
        try:
            column = arrow.array(cells)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            unread = f"column {quoted(name)} cannot be read ({reason(error)}); it must hold lists of numbers."
            raise InputError(unread) from None
    return column if isinstance(column, arrow.ChunkedArray) else arrow.chunked_array([column])


def _matrix(column: Any, name: str, width: int) -> Any:
    """A column of lists, or of tensors as Ray keeps them, as an array (n, width)."""
    arrow = _pyarrow()
    if not isinstance(column, arrow.ChunkedArray):
        return column
    if isinstance(column.type, arrow.BaseExtensionType) and len(getattr(column.type, "shape", (width,))) == 1:
        column = arrow.chunked_array([chunk.storage for chunk in column.chunks])
    if not (is_list(arrow, column.type) and is_number(arrow, column.type.value_type)):
        raise InputError(f"column {quoted(name)} has type {reason(column.type)}; it must hold lists of numbers.")
    return list_matrix(column, quoted(name), width=width, declared="the predictor needs")


def _stack(batch: Any, names: Sequence[str]) -> Any:
    """The columns of the classes as an array (n, C)."""
    columns = {name: _column(batch, name) for name in names}
    for name, column in columns.items():
        if not hasattr(column, "chunks"):
            shape = tuple(column.shape)
            raise InputError(f"column {quoted(name)} has shape {shape}; it must have one number per row.")
        if not is_number(_pyarrow(), column.type):
            raise InputError(f"column {quoted(name)} has type {reason(column.type)}; it must hold numbers.")
    return stack_columns(_pyarrow().table(columns), list(names))


def _cells(batch: Any, name: str) -> list[Any]:
    """A column as Python objects."""
    column = _raw_column(batch, name)
    ways = (getattr(column, way, None) for way in ("to_pylist", "tolist"))
    return list(next(filter(None, ways), column.__iter__)())


def _with_predictions(batch: Any, names: list[Any], places: list[int], added: Any) -> Any:
    """A batch of the same kind: some of its columns, and the predictions."""
    arrow = _pyarrow()
    if isinstance(batch, arrow.RecordBatch | arrow.Table):
        whole = isinstance(batch, arrow.Table)
        columns = [*(batch.column(place) for place in places)]
        columns += [column if whole else column.combine_chunks() for column in added.columns]
        schema = arrow.schema([*(batch.schema.field(place) for place in places), *added.schema], batch.schema.metadata)
        return type(batch).from_arrays(columns, schema=schema)
    if is_instance(batch, "polars", "DataFrame"):
        predictions = sys.modules["polars"].from_arrow(added)
        return batch.select(names).hstack(predictions) if names else predictions
    arrays = {name: _as_array(added.column(name)) for name in added.column_names}
    if isinstance(batch, Mapping):
        return {name: batch[name] for name in names} | arrays
    pandas: Any = sys.modules["pandas"]
    flat = {name: array if array.ndim == 1 else pandas.Series([*array], dtype=object) for name, array in arrays.items()}
    frame = pandas.DataFrame(flat).set_axis(batch.index)
    return pandas.concat([batch.iloc[:, places], frame], axis=1)


def _as_array(column: Any) -> Any:
    """A column of Arrow as an array: sets as lists, probabilities (n, C)."""
    if not hasattr(column.type, "value_type"):
        return np.array(column.to_pylist(), dtype=str) if str(column.type) == "string" else column.to_numpy()
    if str(column.type.value_type) == "double":
        values = column.combine_chunks().flatten().to_numpy()
        return values.reshape(len(column), -1) if len(column) else values.reshape(0, 0)
    cells = np.empty(len(column), dtype=object)
    cells[:] = column.to_pylist()
    return cells
