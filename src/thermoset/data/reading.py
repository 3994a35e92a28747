"""From whatever holds numbers to a checked NumPy array: arrays, lists, frames, tensors, and what frameworks return.

No optional library is imported: an object can only be a pandas, polars, torch or SciPy one if that library is in
`sys.modules` already; everything else is read through `__array__` and `__dlpack__`.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block
from thermoset.bounds import whole_number
from thermoset.errors import InputError
from thermoset.quoting import quoted, reason

_FLOATS = {np.dtype(name): name for name in ("float16", "float32", "float64")}  # asking NumPy for a name is slow
_BLOCK_BYTES = 1 << 24

DEFAULT_COLUMNS = ("logit_", "prob_", "column_")
"""Columns called so and numbered from 0 have no names; `thermoset.io.save` writes the first, polars the last."""
LABELS, NAMES, GROUPS = ("labels", "label"), ("classes", "class_names"), ("groups",)
"""Keys of mappings and names of arrays in files."""
NO_LABEL = (-100, -1)
"""Hugging Face's ignored index, and the label of unlabelled test rows (GLUE)."""
_MOST_OPTIONS = 10_000_000


class Table(NamedTuple):
    """A two-dimensional float array and what is known about where it came from."""

    values: Block
    columns: tuple[str, ...] | tuple[int, ...] | None  # of a frame, where they are more than a running number
    source: str  # the dtype it had, for the tolerance of probabilities: bfloat16 arrives as float32


def is_instance(value: object, module: str, *names: str) -> bool:
    """Whether `value` is one of a module's types, without importing the module."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, tuple(getattr(loaded, name, ()) for name in names))


# ---- arrays, frames, tensors -----------------------------------------------------------------------------------------


def read_table(value: object, name: str) -> Table:
    """Read a (n, C) array of floats; nothing is copied when `value` is a C-contiguous float array."""
    columns: list[object] = []
    if type(value) is np.ndarray:  # what most requests bring; none of the questions below concerns it
        raw = value
    elif is_instance(value, "pandas", "DataFrame"):
        raw, columns = _pandas_frame(value, name), list(value.columns)  # type: ignore[attr-defined]
    elif is_instance(value, "polars", "DataFrame"):
        raw, columns = _polars_frame(value, name), list(value.columns)  # type: ignore[attr-defined]
    elif isinstance(value, (list, tuple)):
        try:
            raw = np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name} must be rows of equal length holding numbers ({reason(error)}).") from None
    else:
        raw = foreign_array(value, name)
    torch = is_instance(value, "torch", "Tensor")
    source = str(value.dtype).removeprefix("torch.") if torch else _FLOATS.get(raw.dtype) or raw.dtype.name  # type: ignore[attr-defined]
    values = _as_floats(raw, name)
    _check_shape(values.shape, name)
    names: tuple[str, ...] | tuple[int, ...] | None = column_classes(columns)
    if columns and are_whole(columns) and columns != list(range(len(columns))):
        names = tuple(int(one) for one in columns)  # type: ignore[call-overload]
    return Table(np.require(values, requirements=["C", "A"]), names, source)


def foreign_array(value: Any, name: str) -> NDArray[Any]:
    """Ask an array-like object for its numbers: a NumPy array, or anything with `__array__` or `__dlpack__`."""
    if is_instance(value, "scipy.sparse", "spmatrix", "sparray"):
        raise InputError(f"{name} is a sparse matrix; sparse data is not supported. Pass {name}.toarray().")
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{name} is a NumPy masked array; fill it first: {name}.filled(-np.inf) masks those classes.")
    if is_instance(value, "polars", "LazyFrame"):
        raise InputError(f"{name} is a polars LazyFrame; pass {name}.collect().")
    if is_instance(value, "torch", "Tensor"):
        return _torch_tensor(value, name)
    if isinstance(value, (str, PathLike)):
        raise InputError(f"{name} is {quoted(value)}; expected an array. Read a file with ts.load or ts.open.")
    cause: Exception | None = None
    # __array__ first: JAX and others answer it from any device and in any dtype, __dlpack__ only from the CPU.
    for protocol, read in (
        ("__array__", np.asarray),
        ("__array_interface__", np.asarray),
        ("__dlpack__", np.from_dlpack),
    ):
        if hasattr(value, protocol):
            try:
                return read(value)
            except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
                cause = error
    why = f" ({reason(cause)})" if cause else ""
    raise InputError(
        f"{name} of type {type(value).__name__} cannot be read{why}. Pass a NumPy array, nested lists, a pandas or "
        f"polars frame, or an object with __array__ or __dlpack__ in CPU memory."
    )


def _torch_tensor(tensor: Any, name: str) -> NDArray[Any]:
    if str(tensor.layout) != "torch.strided":
        raise InputError(f"{name} is a sparse tensor ({tensor.layout}); sparse data is not supported. Use .to_dense().")
    try:
        tensor = tensor.detach().cpu()  # a meta tensor has no numbers to copy
        if str(tensor.dtype).startswith(("torch.bfloat16", "torch.float8")):  # NumPy lacks them; float32 holds them
            tensor = tensor.float()
        array: NDArray[Any] = tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise InputError(f"{name} is a tensor NumPy cannot hold ({reason(error)}). Pass {name}.float().") from None
    return array


def _pandas_frame(frame: Any, name: str) -> NDArray[Any]:
    plain = []
    for column, dtype in frame.dtypes.items():
        if getattr(dtype, "kind", "O") not in "fiuc":
            raise _not_numbers(name, column, dtype)
        plain.append(getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype)))
    common = np.result_type(*plain) if plain else np.dtype(np.float64)
    if common.kind in "iu":
        common = np.dtype(np.float64)  # an integer array could not hold a missing value, which must be seen
    array: NDArray[Any] = frame.to_numpy(dtype=common, na_value=np.nan)
    return array


def _polars_frame(frame: Any, name: str) -> NDArray[Any]:
    for column, dtype in frame.schema.items():
        if not dtype.is_numeric():
            raise _not_numbers(name, column, dtype)
    float64 = sys.modules["polars"].Float64  # for integers and decimals
    floats = frame.cast({column: float64 for column, dtype in frame.schema.items() if not dtype.is_float()})
    array: NDArray[Any] = floats.to_numpy(order="c")  # a missing number becomes NaN and is reported as such
    return array


def _not_numbers(name: str, column: object, dtype: object) -> InputError:
    return InputError(f"{name}: column {quoted(column)} has dtype {dtype}; every column must hold numbers. Drop it.")


def _as_floats(array: NDArray[Any], name: str) -> Block:
    kind, dtype = array.dtype.kind, array.dtype
    if dtype in _FLOATS:
        return array
    if dtype.name.startswith(("bfloat16", "float8")):  # the types JAX brings; they cast, but NumPy has no kind for them
        return array.astype(np.float32)
    if kind == "c":
        raise InputError(f"{name} have dtype {dtype}. Complex data not supported: pass real numbers.")
    if kind not in "fiu":
        what = {"O": "object (mixed, missing or ragged values)", "b": "bool"}.get(kind, str(dtype))
        raise InputError(f"{name} must be numbers; got dtype {what}. Pass np.asarray({name}, dtype=float).")
    if kind in "iu" or dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf, and is reported as such
            return array.astype(np.float64)
    return np.asarray(array, dtype=dtype.newbyteorder("="))


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    # What a binary model puts out if it has one output: which of the two it is, nobody can tell.
    hint = " If these are scores of the second of two classes, as sigmoid takes them, use Logits.from_binary(scores)."
    if name == "probs":
        hint = " If these are probabilities p of the second of two classes, pass np.column_stack([1 - p, p])."
    if len(shape) != 2:
        one_row = f" {name}.reshape(1, -1) if it is one row.{hint}"
        raise InputError(
            f"{name} must be 2-D, with one row per sample and one column per class; got shape {shape}. "
            f"Reshape your data{':' + one_row if len(shape) == 1 else '.'}"
        )
    if shape[1] < 2:
        raise InputError(
            f"{name} need a column for each of at least 2 classes: {shape[1]} feature(s) (shape={shape}) while a "
            f"minimum of 2 is required.{hint if shape[1] else ''}"
        )


def one_column(value: Any, name: str) -> NDArray[Any]:
    """Read one value for each row from a list, array, tensor or series; mixed or missing values become objects."""
    if is_instance(value, "pandas", "Series", "Index", "Categorical"):
        return np.asarray(value) if isinstance(value.dtype, np.dtype) else np.asarray(value, dtype=object)
    if is_instance(value, "polars", "Series"):
        if not value.null_count() and (value.dtype.is_numeric() or str(value.dtype) == "Boolean"):
            return np.asarray(value.to_numpy())
        value = value.to_list()
    elif not isinstance(value, (list, tuple)):
        return foreign_array(value, name)
    else:
        try:
            return np.asarray(value)
        except (TypeError, ValueError, RuntimeError):
            pass  # ragged, or values NumPy does not know: judged one by one later
    array = np.empty(len(value), dtype=object)
    array[:] = value
    return array


def check_logits(logits: Block, name: str = "logits") -> None:
    """Refuse NaN, +inf and rows that are -inf throughout: the maximum of a row shows all three."""
    if len(logits) == 0 or (logits.dtype == np.float16 and _clean_float16(logits)):
        return
    with np.errstate(invalid="ignore"):  # a signalling NaN is no reason to warn: it is reported below
        top = logits.max(axis=1)
    if np.isfinite(top).all():
        return
    bad_rows = np.flatnonzero(np.isnan(top) | np.isposinf(top))
    if len(bad_rows):
        row, step = int(bad_rows[0]), max(1, _BLOCK_BYTES // logits[:1].nbytes)
        column = int(np.flatnonzero(np.isnan(logits[row]) | np.isposinf(logits[row]))[0])
        parts = (logits[bad_rows[start : start + step]] for start in range(0, len(bad_rows), step))
        count = sum(int(np.count_nonzero(np.isnan(part) | np.isposinf(part))) for part in parts)
        raise InputError(
            f"is {'NaN' if np.isnan(logits[row, column]) else '+inf'}; {count} such value(s) (NaN or +inf). "
            "Drop those rows or fix the model's output; only -inf is allowed, for a masked class.",
            row=row,
            name=name,
            column=column,
        )
    masked = np.flatnonzero(np.isneginf(top))
    raise InputError(
        f"is -inf for every class; {len(masked)} such row(s). "
        "A row needs at least one class that is not masked: drop the row or unmask a class.",
        row=int(masked[0]),
        name=name,
    )


def _clean_float16(logits: Block) -> bool:
    """`check_logits` on the bits: NumPy has no fast float16 reductions, but it has integer ones."""
    positive_inf, negative_inf = 0x7C00, 0xFC00
    bits = logits.view(np.uint16)
    if logits.view(np.int16).max() >= positive_inf or bits.max() > negative_inf:
        return False
    return not (bits.min(axis=1) == negative_inf).any()


# ---- names of columns ------------------------------------------------------------------------------------------------


def are_whole(names: Sequence[object]) -> bool:
    """Whether names are whole numbers, not text."""
    return all(isinstance(name, (int, np.integer)) and not isinstance(name, bool) for name in names)


def column_classes(columns: Iterable[object]) -> tuple[str, ...] | None:
    """Take column names for class names if they all are strings and more than a running number."""
    names = list(columns)
    texts = tuple(name for name in names if isinstance(name, str))
    if not names or len(texts) != len(names):
        return None
    numbered = any(all(text == f"{stem}{i}" for i, text in enumerate(texts)) for stem in DEFAULT_COLUMNS)
    return None if numbered else texts


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that was there before."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def is_missing(item: object) -> bool:
    """None, NaN, and pandas' NA and NaT (known by name: pandas is not imported, and NA has no truth value)."""
    if item is None or type(item).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(item, (float, np.floating)) and bool(np.isnan(item))


def is_storable(text: str) -> bool:
    """Whether files can hold a text: NumPy drops a final NUL, and a lone surrogate is not Unicode."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


# ---- what training frameworks return ---------------------------------------------------------------------------------


class Output(NamedTuple):
    """The parts of a framework's output; labels, class names and groups where it has them."""

    logits: Any
    labels: Any = None
    classes: Any = None
    groups: Any = None


def unpack_output(value: Any) -> Output | None:
    """Take an output apart; None if it is something else, such as an array.

    Hugging Face's `PredictionOutput` and `EvalPrediction` have `predictions` and `label_ids`. A mapping, as its
    `ModelOutput`, an open npz archive or a plain dict, has `logits` and `labels` or `label`.
    """
    if isinstance(value, Mapping):
        if "logits" not in value:
            keys = ", ".join(map(quoted, islice(value, 5))) or "none"
            raise InputError(f"a mapping needs the key 'logits'; got these keys: {keys}. Pass the array itself.")
        more = (next((value[key] for key in keys if key in value), None) for keys in (LABELS, NAMES, GROUPS))
        return Output(value["logits"], *more)
    if hasattr(value, "shape") or not (hasattr(value, "predictions") and hasattr(value, "label_ids")):
        return None  # a frame may have columns of these names
    logits, label_ids = value.predictions, value.label_ids
    if isinstance(label_ids, (tuple, list)) and any(hasattr(part, "shape") for part in label_ids):
        raise InputError(
            f"label_ids holds {len(label_ids)} arrays; expected one, with the label of each row. "
            "Pass Logits(output.predictions, labels=...)."
        )
    if isinstance(logits, (tuple, list)) and any(hasattr(part, "shape") for part in logits):
        # Besides the logits a model may return hidden states and the like, which have another axis.
        shapes = [tuple(part.shape) if hasattr(part, "shape") else () for part in logits]
        tables = [part for part, shape in zip(logits, shapes, strict=True) if len(shape) == 2]
        if len(tables) != 1:
            raise InputError(
                f"predictions holds arrays of shapes {', '.join(map(str, shapes))}; expected exactly one (rows, "
                "classes). Pass the logits: Logits(output.predictions[0], labels=output.label_ids)."
            )
        logits = tables[0]
    return Output(logits, None if label_ids is None else _label_ids(label_ids))


def _label_ids(label_ids: object) -> NDArray[Any] | None:
    """No labels where every one is the placeholder of an unlabelled row; a single one among others is an error."""
    labels = one_column(label_ids, "label_ids")
    if labels.ndim != 1:
        raise InputError(
            f"label_ids has shape {labels.shape}; expected one label per row. Multi-label outputs are not supported; "
            "for token labels, keep the tokens whose label is not -100: Logits(predictions[keep], label_ids[keep])."
        )
    missing = np.isin(labels, NO_LABEL) if labels.dtype.kind in "iu" else np.zeros(len(labels), dtype=np.bool_)
    if missing.any() and not missing.all():
        row = int(np.flatnonzero(missing)[0])
        raise InputError(
            f"is {labels[row]}, which marks a row without a label; {missing.sum()} such value(s). "
            "Drop those rows from predictions and label_ids.",
            row=row,
            name="label_ids",
        )
    return None if len(labels) and missing.all() else labels


# ---- one score, or options that differ from row to row ---------------------------------------------------------------


def two_columns(scores: object) -> Block:
    """The logits (0, z) of scores z, whose softmax is that of the sigmoid: (n,) or (n, 1) becomes (n, 2)."""
    values = one_column(scores, "scores")
    if values.ndim == 2 and values.shape[1] == 2:
        raise InputError("scores have two columns already, one for each class: use Logits(scores).")
    if values.ndim not in (1, 2) or values.size != len(values):
        raise InputError(f"scores must be one number for each row, shape (n,) or (n, 1); got {values.shape}.")
    column = values.reshape(-1, 1)
    return read_table(np.hstack([np.zeros_like(column), column]), "scores").values


def checked_options(n_options: object) -> int | None:
    """How many columns options get, if that was said."""
    if n_options is None:
        return None
    return whole_number(n_options, "n_options", 2, _MOST_OPTIONS, "Pass the largest number of options.")
