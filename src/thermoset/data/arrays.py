"""From whatever holds numbers to a checked NumPy array.

No optional library is imported: an object can only be a pandas, polars, torch or SciPy one if that library
is in `sys.modules` already; everything else is asked through `__array__` and `__dlpack__`.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import InputError
from thermoset.quoting import quoted, reason

__all__ = [
    "BLOCK_BYTES",
    "Floats",
    "ReadTable",
    "are_whole",
    "blocks_of_rows",
    "check_logits",
    "class_names",
    "column_classes",
    "first_repeated",
    "foreign_array",
    "is_instance",
    "read_table",
]

Floats = NDArray[np.floating[Any]]

BLOCK_BYTES = 1 << 24
_PLAIN = {np.dtype(name): name for name in ("float16", "float32", "float64")}
"""Types that stay as they are, by name: to ask NumPy for a name takes longer than to look a type up."""

DEFAULT_COLUMNS = ("logit_", "prob_", "column_")
"""Columns called so and numbered from 0 have no names; `thermoset.io.save` writes the first, polars the last."""


class ReadTable(NamedTuple):
    """A two-dimensional float array and what is known about where it came from."""

    values: Floats
    columns: tuple[str, ...] | tuple[int, ...] | None  # of a frame, where they are more than a running number
    source: str  # the dtype it had, for the tolerance of probabilities: bfloat16 arrives as float32


def is_instance(value: object, module: str, *names: str) -> bool:
    """Whether `value` is one of a module's types, without importing the module.

    >>> is_instance([1.0], "pandas", "DataFrame")
    False
    """
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, tuple(getattr(loaded, name, ()) for name in names))


def blocks_of_rows(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield views of consecutive rows, about 16 MB each, with their first row: temporaries stay small.

    >>> [(start, block.shape) for start, block in blocks_of_rows(np.zeros((3, 2)))]
    [(0, (3, 2))]
    """
    step = max(1, BLOCK_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array), step):
        yield start, array[start : start + step]


def read_table(value: object, name: str) -> ReadTable:
    """Read a (n, C) array of floats; nothing is copied when `value` is a C-contiguous float array.

    >>> read_table([[1, 2], [3, 4]], "logits").values.dtype
    dtype('float64')
    """
    columns: Iterable[object] | None = None
    if type(value) is np.ndarray:  # what most requests bring; none of the questions below concerns it
        raw = value
    elif is_instance(value, "pandas", "DataFrame"):
        raw, columns = _pandas_frame(value, name), value.columns  # type: ignore[attr-defined]
    elif is_instance(value, "polars", "DataFrame"):
        raw, columns = _polars_frame(value, name), value.columns  # type: ignore[attr-defined]
    elif isinstance(value, (list, tuple)):
        raw = _nested_list(value, name)
    else:
        raw = foreign_array(value, name)
    source = _torch_dtype(value) or _PLAIN.get(raw.dtype) or raw.dtype.name
    values = _as_floats(raw, name)
    _check_shape(values.shape, name)
    return ReadTable(np.require(values, requirements=["C", "A"]), _frame_columns(columns), source)


def foreign_array(value: Any, name: str) -> NDArray[Any]:
    """Ask an array-like object for its numbers: a NumPy array, or anything with `__array__` or `__dlpack__`."""
    _reject_unreadable(value, name)
    if is_instance(value, "torch", "Tensor"):
        return _torch_tensor(value, name)
    cause: Exception | None = None
    # __array__ first: JAX and others answer it from any device and in any dtype, __dlpack__ only from the CPU.
    if any(hasattr(value, protocol) for protocol in ("__array__", "__array_interface__")):
        try:
            return np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:
            cause = error
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
            cause = error
    why = f" ({reason(cause)})" if cause else ""
    raise InputError(
        f"{name} of type {type(value).__name__} cannot be read{why}. Pass a NumPy array, nested lists, a pandas or "
        f"polars frame, or an object with __array__ or __dlpack__ in CPU memory."
    )


def check_logits(logits: Floats, name: str = "logits") -> None:
    """Refuse NaN, +inf and rows that are -inf throughout.

    One reduction does it without a boolean array of the size of the data: a row's maximum is NaN if the row
    holds a NaN, +inf if it holds +inf, and -inf if every class is masked. Only a failure is looked at closely.

    >>> check_logits(np.array([[0.0, -np.inf]]))
    """
    if len(logits) == 0 or (logits.dtype == np.float16 and _clean_float16(logits)):
        return
    with np.errstate(invalid="ignore"):  # a signalling NaN is no reason to warn: it is reported below
        top = logits.max(axis=1)
    if np.isfinite(top).all():
        return
    _report_bad_cell(logits, name)
    masked = np.flatnonzero(np.isneginf(top))
    raise InputError(
        f"is -inf for every class; {len(masked)} such row(s). "
        "A row needs at least one class that is not masked: drop the row or unmask a class.",
        row=int(masked[0]),
        name=name,
    )


def class_names(classes: object, n_classes: int) -> tuple[str, ...]:
    """Check that `classes` are `n_classes` different names; whole numbers become text.

    >>> class_names(["cat", "dog"], 2), class_names([10, 20], 2)
    (('cat', 'dog'), ('10', '20'))
    """
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise InputError(
            f"classes must be a sequence of {n_classes} names, one per column of logits; got {quoted(classes)}."
        )
    given = list(classes)
    names = [str(item) for item in given] if are_whole(given) else given
    for i, item in enumerate(names):
        if not isinstance(item, str):
            raise InputError(
                f"classes[{i}] is {quoted(item)}; class names must be all strings, or all whole numbers. "
                "Use classes=[str(c) for c in ...]."
            )
    if len(names) != n_classes:
        raise InputError(f"classes must hold {n_classes} names, one per column of logits; got {len(names)}.")
    if (twice := first_repeated(names)) is not None:
        raise InputError(f"classes must be different from each other; {quoted(twice)} appears more than once.")
    for i, name in enumerate(names):
        if not name.strip() or not is_storable(name):
            raise InputError(f"classes[{i}] is {quoted(name)}; a class name must be text that is not blank.")
    return tuple(str(name) for name in names)


def are_whole(names: Sequence[object]) -> bool:
    """Whether names are whole numbers, not text.

    >>> are_whole([10, np.int64(20)]), are_whole(["10", "20"])
    (True, False)
    """
    return all(isinstance(name, (int, np.integer)) and not isinstance(name, bool) for name in names)


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that was there before.

    >>> first_repeated(["cat", "dog", "cat", "dog"])
    'cat'
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def is_storable(text: str) -> bool:
    """Whether files can hold a text: NumPy drops a final NUL, and a lone surrogate is not Unicode."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def column_classes(columns: Iterable[object] | None) -> tuple[str, ...] | None:
    """Take column names for class names if they all are strings and more than a running number.

    >>> column_classes(["cat", "dog"]), column_classes(["logit_0", "logit_1"]), column_classes([0, 1])
    (('cat', 'dog'), None, None)
    """
    names = list(columns) if columns is not None else []
    texts = tuple(name for name in names if isinstance(name, str))
    if not names or len(texts) != len(names):
        return None
    numbered = any(all(text == f"{stem}{i}" for i, text in enumerate(texts)) for stem in DEFAULT_COLUMNS)
    return None if numbered else texts


def _frame_columns(columns: Iterable[object] | None) -> tuple[str, ...] | tuple[int, ...] | None:
    """The columns of a frame if they say something: names, or whole numbers that do not count from 0."""
    found = list(columns) if columns is not None else []
    if found and are_whole(found) and found != list(range(len(found))):
        return tuple(int(name) for name in found if isinstance(name, (int, np.integer)))
    return column_classes(found)


def _reject_unreadable(value: Any, name: str) -> None:
    """Containers that NumPy would misread in silence, or that need one step by the user."""
    if is_instance(value, "scipy.sparse", "spmatrix", "sparray"):
        raise InputError(f"{name} is a sparse matrix; sparse data is not supported. Pass {name}.toarray().")
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{name} is a NumPy masked array; fill it first: {name}.filled(-np.inf) masks those classes.")
    if is_instance(value, "polars", "LazyFrame"):
        raise InputError(f"{name} is a polars LazyFrame; pass {name}.collect().")


def _nested_list(value: list[Any] | tuple[Any, ...], name: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be rows of equal length holding numbers ({reason(error)}).") from None


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


def _torch_dtype(value: Any) -> str | None:
    return str(value.dtype).removeprefix("torch.") if is_instance(value, "torch", "Tensor") else None


def _pandas_frame(frame: Any, name: str) -> NDArray[Any]:
    plain = []
    for column, dtype in frame.dtypes.items():
        if getattr(dtype, "kind", "O") not in "fiuc":
            raise InputError(
                f"{name}: column {quoted(column)} has dtype {dtype}; every column must hold numbers. Drop it."
            )
        plain.append(getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype)))
    common = np.result_type(*plain) if plain else np.dtype(np.float64)
    if common.kind in "iu":
        common = np.dtype(np.float64)  # an integer array could not hold a missing value, which must be seen
    array: NDArray[Any] = frame.to_numpy(dtype=common, na_value=np.nan)
    return array


def _polars_frame(frame: Any, name: str) -> NDArray[Any]:
    for column, dtype in frame.schema.items():
        if not dtype.is_numeric():
            raise InputError(
                f"{name}: column {quoted(column)} has dtype {dtype}; every column must hold numbers. Drop it."
            )
    float64 = sys.modules["polars"].Float64  # for integers and decimals
    floats = frame.cast({column: float64 for column, dtype in frame.schema.items() if not dtype.is_float()})
    array: NDArray[Any] = floats.to_numpy(order="c")  # a missing number becomes NaN and is reported as such
    return array


def _as_floats(array: NDArray[Any], name: str) -> Floats:
    if array.dtype in _PLAIN:
        return array
    kind, dtype = array.dtype.kind, array.dtype
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
    if len(shape) != 2:
        hint = "Reshape your data."
        if len(shape) == 1:
            hint = f"Reshape your data: {name}.reshape(1, -1) if it is one row.{_one_score(name)}"
        raise InputError(
            f"{name} must be 2-D, with one row per sample and one column per class; got shape {shape}. {hint}"
        )
    if shape[1] < 2:
        raise InputError(
            f"{name} need a column for each of at least 2 classes: {shape[1]} feature(s) (shape={shape}) while a "
            f"minimum of 2 is required.{_one_score(name) if shape[1] else ''}"
        )


def _one_score(name: str) -> str:
    """How to pass what a binary model puts out if it has one output: which of the two it is, nobody can tell."""
    if name == "probs":
        return " If these are probabilities p of the second of two classes, pass np.column_stack([1 - p, p])."
    return " If these are scores of the second of two classes, as sigmoid takes them, use Logits.from_binary(scores)."


def _clean_float16(logits: Floats) -> bool:
    """`check_logits` on the bits: NumPy has no fast float16 reductions, but it has integer ones.

    As int16 the largest legal bit pattern is below that of +inf; as uint16 -inf is the largest legal one.
    """
    positive_inf, negative_inf = 0x7C00, 0xFC00
    bits = logits.view(np.uint16)
    if logits.view(np.int16).max() >= positive_inf or bits.max() > negative_inf:
        return False
    return not (bits.min(axis=1) == negative_inf).any()


def _report_bad_cell(logits: Floats, name: str) -> None:
    first: tuple[int, int, Any] | None = None
    count = 0
    for start, block in blocks_of_rows(logits):
        bad = np.isnan(block) | np.isposinf(block)
        if first is None and bad.any():
            row, column = np.argwhere(bad)[0]
            first = int(start + row), int(column), block[row, column]
        count += int(np.count_nonzero(bad))
    if first is not None:
        shown = "NaN" if np.isnan(first[2]) else "+inf"
        raise InputError(
            f"is {shown}; {count} such value(s) (NaN or +inf). "
            "Drop those rows or fix the model's output; only -inf is allowed, for a masked class.",
            row=first[0],
            name=name,
            column=first[1],
        )
