"""A fitted predictor as a function of batches, for engines that bring the batches and the workers."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar

from thermoset.bounds import whole_number
from thermoset.data import Logits, as_logits, checked_logits
from thermoset.data.arrays import class_names, is_instance
from thermoset.data.fitted import check_classes
from thermoset.data.outputs import GROUPS
from thermoset.errors import FileFormatError, InputError
from thermoset.integrations.batches.arrow import ArrowTables
from thermoset.integrations.batches.columns import Asked, Layout, checked_names, layout_of
from thermoset.integrations.batches.kinds import Kind, kind_of
from thermoset.integrations.batches.outputs import DEFAULT_OUTPUTS, OUTPUTS, Found, Outputs, pyarrow
from thermoset.integrations.batches.schemas import answered_schema
from thermoset.integrations.batches.work import Work
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.quoting import quoted
from thermoset.rows import MOST_THREADS

__all__ = ["Predictor"]

S = TypeVar("S")


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
        self._model = _fitted(predictor)
        if self._model.document_.is_weighted:
            raise InputError(
                "batches have no weights, but this predictor's conformal rows do, so each row's threshold depends on "
                "its own weight. Use predict_set(logits, weights=...), or recalibrate without weights."
            )
        self._n_jobs = (
            None if n_jobs is None else whole_number(n_jobs, "n_jobs", 1, MOST_THREADS, "None uses all cores.")
        )
        decides = self._model.document_.answers is not None
        default = (*DEFAULT_OUTPUTS, "action") if decides else DEFAULT_OUTPUTS
        made = checked_names(default if outputs is None else outputs, "outputs")
        if unknown := [name for name in made if name not in OUTPUTS] or not made:
            raise InputError(
                f"outputs must be some of {', '.join(OUTPUTS)}; got {quoted(unknown if made else outputs)}."
            )
        if "action" in made and not decides:
            raise InputError("outputs names 'action', but this predictor has no answer rule. Fit it with answer=.")
        for name, text in (("prefix", prefix), ("id_column", id_column or ""), ("groups", groups or "")):
            if not isinstance(text, str):
                raise InputError(f"{name} must be text; got {quoted(text)}.")
        if u not in ("row", "ids") or (u == "ids" and id_column is None):
            raise InputError(f"u must be 'row', or 'ids' if id_column names their column; got {quoted(u)}.")
        self._outputs = Outputs(made, prefix, self._model.document_.classes)
        where = logits if logits is None or isinstance(logits, str) else self._columns_of_classes(logits)
        passed = None if keep is None else checked_names(keep, "keep")
        if groups is None and self._model.document_.recipe.grouping == "group":
            groups = GROUPS[0]
        self._asked = Asked(where, id_column, passed, probabilities, self._outputs.names, groups, u)

    def __call__(self, batch: Any) -> Any:
        """Predict for a batch, or return an object that predicts for batches as they arrive."""
        if is_instance(batch, "pyarrow", "RecordBatchReader"):
            return pyarrow().RecordBatchReader.from_batches(self.schema(batch.schema), map(self, batch))
        if is_instance(batch, "pyarrow", "Array", "ChunkedArray"):
            return self._structs(batch)
        if is_instance(batch, "polars", "LazyFrame"):
            # Filters and selections after this one may speak of columns that are not there before it.
            options = {"predicate_pushdown": False, "projection_pushdown": False, "streamable": True}
            return batch.map_batches(self, schema=self.schema(batch.collect_schema()), **options)
        if isinstance(batch, Iterator):
            return map(self, batch)
        kind = kind_of(batch)
        layout = layout_of(kind.names(batch), self._asked, self._classes)
        return kind.answered(batch, layout.kept, self._outputs, self._found(kind, batch, layout))

    def schema(self, schema: S) -> S:
        """The schema of the result, given the schema of a table.

        It takes one of Arrow, Spark (`df.schema`) or polars (`frame.collect_schema()`).

        >>> import numpy as np, pyarrow, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> model = ts.TwoTemperaturePredictor().fit(rng.normal(size=(100, 3)), rng.integers(0, 3, size=100))
        >>> Predictor(model).schema(pyarrow.schema({"id": "int64", "logits": pyarrow.list_(pyarrow.float32())})).names
        ['id', 'label', 'confidence', 'set', 'size']
        """
        answered: S = answered_schema(schema, self._asked, self._outputs, self._classes)
        return answered

    def __repr__(self) -> str:
        return f"Predictor({self._model.document_.n_classes} classes -> {', '.join(self._outputs.names)})"

    @property
    def _classes(self) -> tuple[str, ...] | int:
        document = self._model.document_
        return document.n_classes if document.classes is None else document.classes

    def _columns_of_classes(self, given: Sequence[str]) -> tuple[str, ...]:
        """The names of the columns of the classes, in the order of the classes."""
        names, document = checked_names(given, "logits"), self._model.document_
        if len(names) != document.n_classes:
            raise InputError(f"logits must name {document.n_classes} columns, one per class; got {len(names)}.")
        classes = document.classes or names
        if names != classes and set(names) == set(classes):
            raise InputError(f"logits must name the columns in the order of the classes: {quoted(list(classes))}.")
        return names

    def _structs(self, column: Any) -> Any:
        """A struct of predictions for each row of a column of logits."""
        if self._asked.id_column is not None:
            raise InputError("a column of logits has no ids. Pass a table, or omit id_column.")
        if self._asked.groups is not None:
            raise InputError("a column of logits has no groups, but groups were requested. Pass a table.")
        arrow, name = pyarrow(), self._asked.logits if isinstance(self._asked.logits, str) else "logits"
        found = self._found(ArrowTables(), arrow.table({name: column}), Layout(name, (), []))
        columns = self._outputs.arrow(found)
        structs = arrow.StructArray.from_arrays(list(columns.values()), names=list(columns))
        return arrow.chunked_array([structs]) if isinstance(column, arrow.ChunkedArray) else structs

    def _found(self, kind: Kind, batch: Any, layout: Layout) -> Found:
        """Predictions for a batch; engines send some without rows, to learn what comes back."""
        work = Work(self._model, "probabilities" in self._outputs.made, self._n_jobs)
        if not kind.n_rows(batch):
            return work.nothing()
        name, groups = self._asked.id_column, self._asked.groups
        data = self._read(kind, batch, layout)
        if groups is not None:
            data = as_logits(data, groups=kind.cells(batch, groups))
        ids = None if name is None else _ids(kind.cells(batch, name), name)
        return work.found(data, ids if self._asked.u == "ids" else None)

    def _read(self, kind: Kind, batch: Any, layout: Layout) -> Logits:
        """The logits of a batch, checked."""
        width, make = (
            self._model.document_.n_classes,
            Logits.from_probabilities if self._asked.probabilities else checked_logits,
        )
        try:
            if layout.listed is None:
                return make(kind.stack(batch, layout.by_class))
            values, classes = kind.lists(batch, layout.listed, width), kind.classes(batch)
        except FileFormatError as error:  # what readers of Arrow say of files
            raise InputError(str(error)) from None
        if values.shape[1:] != (width,):
            shape = tuple(values.shape)
            raise InputError(f"column {quoted(layout.listed)} has shape {shape}; the predictor has {width} classes.")
        data = make(values)
        if classes is not None:  # the names of one row speak for all
            check_classes(self._model, width, class_names(classes, width))
        return data


def _fitted(predictor: object) -> TwoTemperaturePredictor:
    if not isinstance(predictor, TwoTemperaturePredictor):
        return TwoTemperaturePredictor.load(predictor)  # type: ignore[arg-type]
    if not hasattr(predictor, "document_"):
        raise InputError("the predictor is not fitted. Fit it, or pass the path of a saved one.")
    return predictor


def _ids(ids: list[Any], name: str) -> list[Any]:
    """Refuse what is no id, by its row in the batch."""
    for row, one in enumerate(ids):
        if isinstance(one, bool) or not isinstance(one, int | str):
            raise InputError(f"row {row} of column {quoted(name)} is {quoted(one)}; ids are whole numbers or text.")
    return ids
