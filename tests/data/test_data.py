"""The door: what comes in, what is refused and how it is said, and splits."""

import copy
import json
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts import require
from thermoset.data import Logits, as_logits, split_indices
from thermoset.errors import InputError

ROWS = [[2.0, 0.5, -1.0], [0.25, 1.25, -np.inf], [3.0, 2.0, 1.0]]
LABELS = [0, 1, 2]


class OnlyArray:
    """An object that answers `__array__` alone, as tensors of many libraries do."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


class OnlyDlpack:
    """An object that answers `__dlpack__` alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Unwilling:
    def __array__(self, dtype=None, copy=None):
        raise TypeError("lives on a GPU")


# -- what comes in ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_keep_their_type_and_are_not_copied(dtype):
    array = np.array(ROWS, dtype=dtype)
    val = Logits(array, LABELS)
    assert val.logits.dtype == dtype
    assert np.shares_memory(val.logits, array)
    assert val.labels.dtype == np.int64
    assert (val.n_rows, len(val), val.n_classes, val.n_masked) == (3, 3, 3, 1)


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.asfortranarray,
        lambda a: a.astype(">f8"),
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.astype(np.longdouble),
        np.matrix,
        OnlyArray,
        OnlyDlpack,
        lambda a: np.frombuffer(b"x" + a.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(a.shape),
    ],
    ids=["list", "tuple", "fortran", "big-endian", "strided", "longdouble", "matrix", "array", "dlpack", "unaligned"],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_every_container_gives_the_same_logits(make):
    val = Logits(make(np.array(ROWS)), LABELS)
    assert val == Logits(np.array(ROWS), LABELS)
    assert type(val.logits) is np.ndarray
    assert val.logits.flags.c_contiguous
    assert val.logits.flags.aligned
    assert val.logits.dtype.isnative


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64])
def test_whole_numbers_become_float64(dtype):
    val = Logits(np.array([[1, 2], [3, 4]], dtype=dtype))
    assert val.logits.dtype == np.float64
    assert val.logits.tolist() == [[1, 2], [3, 4]]


def test_torch_tensors():
    torch = require("torch", "torch")
    tensor = torch.tensor(ROWS, dtype=torch.float32, requires_grad=True)
    val = Logits(tensor, torch.tensor(LABELS))
    assert val == Logits(np.array(ROWS, dtype=np.float32), LABELS)
    assert tensor.requires_grad
    half = Logits(tensor.bfloat16())
    assert half.logits.dtype == np.float32
    assert half.logits.tolist() == tensor.detach().bfloat16().float().tolist()
    assert Logits(tensor.double().T.contiguous().T).logits.tolist() == ROWS
    with pytest.raises(InputError, match="sparse"):
        Logits(tensor.detach().to_sparse())
    with pytest.raises(InputError, match="Complex data not supported"):
        Logits(torch.zeros(2, 2, dtype=torch.complex64))


def test_pandas_frames():
    pandas = require("pandas", "test")
    named = pandas.DataFrame(ROWS, columns=["cat", "dog", "eel"])
    val = Logits(named, pandas.Series(["cat", "dog", "eel"], dtype="category"))
    assert val.classes == ("cat", "dog", "eel")
    assert val == Logits(ROWS, LABELS, ["cat", "dog", "eel"])
    assert Logits(pandas.DataFrame(ROWS)).classes is None
    assert Logits(pandas.DataFrame(ROWS, columns=["a", 1, "b"])).classes is None
    assert Logits(named, classes=["x", "y", "z"]).classes == ("x", "y", "z")
    assert Logits(named.astype(np.float32)).logits.dtype == np.float32
    assert Logits(named.astype("Float32")).logits.dtype == np.float32
    with pytest.raises(InputError, match="different orders"):
        Logits(named, classes=["dog", "cat", "eel"])
    with pytest.raises(InputError, match=r"logits\[1, 0\] is NaN"):
        Logits(pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64"), "b": [1, 2]}))
    with pytest.raises(InputError, match="column 'name'"):
        Logits(named.assign(name=["x", "y", "z"]))


def test_pandas_labels():
    pandas = require("pandas", "test")
    assert Logits(ROWS, pandas.Series([2, 1, 0], index=[7, 8, 9], dtype="Int8")).labels.tolist() == [2, 1, 0]
    assert Logits(ROWS, pandas.Categorical([2, 1, 0])).labels.tolist() == [2, 1, 0]
    assert Logits(ROWS, pandas.Index(["b", "a", "c"]), "abc".__iter__()).labels.tolist() == [1, 0, 2]
    with pytest.raises(InputError, match=r"labels\[1\] is missing"):
        Logits(ROWS, pandas.Series([2, None, 0], dtype="Int64"))
    with pytest.raises(InputError, match=r"labels\[2\] is missing"):
        Logits(ROWS, pandas.Series(["a", "b", None], dtype="string"), ["a", "b", "c"])
    with pytest.raises(InputError, match=r"bool|True"):
        Logits(ROWS, pandas.Series([True, False, True], dtype="boolean"))


def test_polars():
    polars = require("polars", "test")
    frame = polars.DataFrame({"cat": [2.0, 1.0], "dog": [0.5, 3.0]})
    assert Logits(frame, polars.Series(["dog", "cat"])) == Logits([[2.0, 0.5], [1.0, 3.0]], [1, 0], ["cat", "dog"])
    assert Logits(frame, polars.Series(["dog", "cat"], dtype=polars.Categorical)).labels.tolist() == [1, 0]
    assert Logits(frame.cast(polars.Float32), polars.Series([1, 0], dtype=polars.UInt8)).logits.dtype == np.float32
    assert Logits(polars.DataFrame(np.array(ROWS), orient="row")).classes is None
    assert Logits(polars.DataFrame({"a": [1, 2], "b": [3, 4]})).logits.dtype == np.float64
    with pytest.raises(InputError, match="NaN"):
        Logits(polars.DataFrame({"a": [1, None], "b": [3, 4]}))
    with pytest.raises(InputError, match=r"labels\[0\] is missing"):
        Logits(frame, polars.Series([None, 1]))
    with pytest.raises(InputError, match="bool"):
        Logits(frame, polars.Series([True, False]))
    with pytest.raises(InputError, match="column 'name'"):
        Logits(frame.with_columns(name=polars.lit("x")))
    with pytest.raises(InputError, match="collect"):
        Logits(frame.lazy())


def test_numpy_use_imports_no_other_library():
    code = (
        "import sys, json, thermoset as ts\n"
        "val = ts.Logits([[1.0, 2.0]] * 9, ['a'] * 9, classes=['a', 'b'])\n"
        "val.split(0.5); ts.Logits.from_probabilities([[1.0, 0.0]]); ts.io\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert "numpy" in loaded
    extras = {"torch", "jax", "pandas", "polars", "pyarrow", "safetensors", "scipy", "sklearn", "numba", "matplotlib"}
    assert not extras & set(loaded)


# -- frozen, and the input untouched ------------------------------------------------------------------------------


def test_input_stays_as_it_was():
    logits, labels = np.array(ROWS), np.array(LABELS)
    before = logits.copy(), labels.copy()
    val = Logits(logits, labels)
    val.split(1)
    Logits.from_probabilities(probs := np.array([[0.5, 0.5, 0.0]]))
    assert np.array_equal(logits, before[0])
    assert np.array_equal(labels, before[1])
    assert probs.tolist() == [[0.5, 0.5, 0.0]]
    assert logits.flags.writeable
    assert labels.flags.writeable


@pytest.mark.parametrize("remake", [lambda v: v, lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy])  # noqa: S301
def test_frozen(remake):
    val = remake(Logits(ROWS, LABELS, ["a", "b", "c"]))
    assert val == Logits(ROWS, LABELS, ["a", "b", "c"])
    with pytest.raises(AttributeError):
        val.labels = None
    with pytest.raises(AttributeError):
        val.other = 1
    with pytest.raises(ValueError, match="read-only"):
        val.logits[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        val.labels[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        val.take([0, 1]).logits[0, 0] = 1


def test_equality_is_by_value():
    val = Logits(ROWS, LABELS, ["a", "b", "c"])
    assert val == Logits(ROWS, LABELS, ["a", "b", "c"])
    assert val != Logits(ROWS, LABELS)
    assert val != Logits(ROWS, None, ["a", "b", "c"])
    assert val != Logits(ROWS, [0, 1, 1], ["a", "b", "c"])
    assert val != Logits(np.array(ROWS, dtype=np.float32), LABELS, ["a", "b", "c"])
    assert val != Logits([[2.0, 0.5, -1.5], *ROWS[1:]], LABELS, ["a", "b", "c"])
    assert val != "val"
    with pytest.raises(TypeError):
        hash(val)


def test_repr_is_short():
    assert repr(Logits(ROWS)) == "Logits(3 rows x 3 classes, float64)"
    assert repr(Logits(ROWS, LABELS, "abc".__iter__())) == "Logits(3 rows x 3 classes, float64, labelled, named)"


# -- bad logits ---------------------------------------------------------------------------------------------------


def with_cell(value, dtype=np.float64, shape=(5, 4), at=(3, 2)):
    array = np.zeros(shape, dtype=dtype)
    array[at] = value
    return array


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("value", "said"), [(np.nan, "NaN"), (-np.nan, "NaN"), (np.inf, r"\+inf")])
def test_nan_and_inf_are_named(dtype, value, said):
    with pytest.raises(InputError, match=rf"logits\[3, 2\] is {said}; 1 such"):
        Logits(with_cell(value, dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_nan_beside_a_mask_is_found(dtype):
    array = with_cell(np.nan, dtype)
    array[3, 3] = array[0, 0] = -np.inf
    array[4, 0] = np.nan
    with pytest.raises(InputError, match=r"logits\[3, 2\] is NaN; 2 such"):
        Logits(array)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_row_of_masks_is_refused(dtype):
    array = np.zeros((5, 3), dtype=dtype)
    array[2] = array[4] = -np.inf
    with pytest.raises(InputError, match=r"logits\[2\] is -inf for every class; 2 such row"):
        Logits(array)


@given(st.lists(st.integers(0, 0xFFFF), min_size=6, max_size=6))
def test_float16_is_judged_by_its_bits_as_by_its_values(bits):
    array = np.array(bits, dtype=np.uint16).view(np.float16).reshape(3, 2)
    legal = not (np.isnan(array) | np.isposinf(array)).any() and not np.isneginf(array).all(axis=1).any()
    try:
        Logits(array)
    except InputError:
        assert not legal
    else:
        assert legal


def test_bad_cells_are_found_across_blocks(monkeypatch):
    monkeypatch.setattr("thermoset.data.reading._BLOCK_BYTES", 64)
    array = with_cell(np.nan, shape=(100, 4), at=(77, 1))
    array[90, 3] = np.inf
    with pytest.raises(InputError, match=r"logits\[77, 1\] is NaN; 2 such"):
        Logits(array)
    assert Logits(with_cell(-np.inf, shape=(100, 4), at=(slice(None), 1))).n_masked == 100


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        (np.zeros(3), "Reshape your data"),
        (np.zeros((2, 3, 4)), r"2-D.*got shape \(2, 3, 4\)"),
        (np.float64(1.0), r"2-D.*got shape \(\)"),
        (np.zeros((12, 0)), r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of \d* is required\."),
        (np.zeros((12, 1)), r"2 classes.*1 feature\(s\)"),
        ([], r"Reshape your data"),
        (np.zeros((2, 2), dtype=complex), "Complex data not supported"),
        (np.zeros((2, 2), dtype=object), "object"),
        (np.zeros((2, 2), dtype=bool), "bool"),
        ([["a", "b"]], "numbers; got dtype <U1"),
        ([[1.0, None]], "object"),
        ([[1.0, 2.0], [3.0]], "rows of equal length"),
        (np.zeros((2, 2), dtype="datetime64[s]"), "datetime64"),
        (np.ma.masked_array(np.zeros((2, 2)), mask=True), "masked array"),
        ("logits.npz", "expected an array"),
        (None, "of type NoneType cannot be read"),
        ({"a": 1}, "needs the key 'logits'; got these keys: 'a'"),
        (Unwilling(), "lives on a GPU"),
        (np.array([[1e400, 0]], dtype=np.longdouble) * np.longdouble("1e4000"), r"\+inf|NaN"),
    ],
)
def test_bad_logits_are_refused_in_one_line(logits, said):
    with pytest.raises(InputError, match=said) as caught:
        Logits(logits)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["csr_matrix", "coo_array"])
def test_sparse_is_refused(kind):
    sparse = require("scipy.sparse", "test")
    with pytest.raises(InputError, match=r"sparse.*toarray"):
        Logits(getattr(sparse, kind)(np.eye(3)))


# -- labels and classes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        [2, 0, 1],
        (2.0, 0.0, 1.0),
        np.array([2, 0, 1], dtype=np.uint8),
        np.array([2, 0, 1], dtype=np.uint64),
        np.array([2, 0, 1], dtype=">i4"),
        np.array([2, 0, 1], dtype=np.float16),
        np.array([2, 0, 1], dtype=object),
        np.array([2, 9, 0, 9, 1, 9])[::2],
        OnlyArray(np.array([2, 0, 1])),
        OnlyDlpack(np.array([2, 0, 1])),
        ["eel", "cat", "dog"],
        np.array(["eel", "cat", "dog"]),
        np.array(["eel", "cat", "dog"], dtype=object),
    ],
)
def test_labels_of_every_kind(labels):
    val = Logits(ROWS, labels, ["cat", "dog", "eel"])
    assert val.labels.dtype == np.int64
    assert val.labels.tolist() == [2, 0, 1]
    assert val.labels.flags.c_contiguous


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 1], r"labels must have shape \(3,\) to match logits \(3, 3\); got \(2,\)"),
        (np.eye(3), r"got \(3, 3\).*argmax"),
        ([[0], [1], [2]], r"got \(3, 1\)"),
        (1, "of type int cannot be read"),
        ([1, 2, 3], r"labels\[2\] is 3; must be in 0\.\.2 .*subtract 1"),
        ([0, 2, 3], r"labels\[2\] is 3; must be in 0\.\.2 .*same model"),
        ([0, -1, -1], r"labels\[1\] is -1; must be in 0\.\.2.*2 such value\(s\).*missing"),
        ([0, 1, np.nan], r"labels\[2\] is missing \(NaN\)"),
        ([0, None, 2], r"labels\[1\] is missing \(None\)"),
        ([0, 1.5, 2], r"labels\[1\] is 1\.5; labels must be whole"),
        ([0, 1, np.inf], r"labels\[2\] is inf; must be in"),
        ([True, False, True], r"bool.*astype\(int\)"),
        (np.array([0, True, 1], dtype=object), r"labels\[1\] is True"),
        (["a", "b", "c"], r"labels are text \(labels\[0\] is 'a'\).*Pass classes="),
        ([b"a", b"b", b"c"], "Decode bytes"),
        (np.array([0, "a", 1], dtype=object), "numbers and names mixed"),
        ([0, [1, 2], 3], "labels"),
        ([0, 1, 2**70], r"too large|labels\["),
        (np.array([0, 1, 2**64 - 1], dtype=np.uint64), r"labels\[2\] is 18446744073709551615; must be in"),
        (np.zeros(3, dtype="datetime64[s]"), "whole numbers or class names"),
    ],
)
def test_bad_labels_are_refused_in_one_line(labels, said):
    with pytest.raises(InputError, match=said) as caught:
        Logits(ROWS, labels)
    assert "\n" not in str(caught.value)


def test_unknown_and_missing_names_are_refused():
    with pytest.raises(InputError, match=r"labels\[1\] is 'cow', which is not one of the 3 classes \(cat, dog, eel\)"):
        Logits(ROWS, ["cat", "cow", "eel"], ["cat", "dog", "eel"])
    with pytest.raises(InputError, match=r"labels\[2\] is missing"):
        Logits(ROWS, ["cat", "dog", ""], ["cat", "dog", "eel"])


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (["a", "b"], "3 names.*got 2"),
        (["a", "b", "a"], "'a' appears more than once"),
        (["a", "", "c"], r"classes\[1\] is ''"),
        (["a", " ", "c"], r"classes\[1\]"),
        (["a", "b\0", "c"], r"classes\[1\]"),
        (["a", "\ud800", "c"], r"classes\[1\]"),
        ([0, 1, 1], "'1' appears more than once"),
        ([0, "b", 2], r"classes\[0\] is 0; class names must be all strings, or all whole numbers"),
        ("abc", "sequence of 3 names"),
        (3, "sequence of 3 names"),
    ],
)
def test_bad_classes_are_refused(classes, said):
    with pytest.raises(InputError, match=said):
        Logits(ROWS, classes=classes)


def test_classes_may_be_an_array():
    classes = Logits(ROWS, classes=np.array(["a", "b", "c"])).classes
    assert classes == ("a", "b", "c")
    assert all(type(name) is str for name in classes)


def test_require_labels():
    assert Logits(ROWS, LABELS).require_labels("fit").tolist() == LABELS
    with pytest.raises(InputError, match="sweep needs labels"):
        Logits(ROWS).require_labels("sweep")


# -- as_logits ----------------------------------------------------------------------------------------------------


def test_as_logits_is_the_one_door():
    val = Logits(ROWS, LABELS, ["a", "b", "c"])
    assert as_logits(val) is val
    assert as_logits(val, LABELS) is val
    assert as_logits(val, ["a", "b", "c"]) is val
    assert as_logits(ROWS, LABELS) == Logits(ROWS, LABELS)
    bare = Logits(ROWS, classes=["a", "b", "c"])
    assert as_logits(bare, ["a", "b", "c"]) == val
    assert bare.labels is None
    with pytest.raises(InputError, match="different labels"):
        as_logits(val, [0, 0, 0])
    with pytest.raises(InputError, match="shape"):
        as_logits(bare, [0])


# -- probabilities ------------------------------------------------------------------------------------------------


def test_probabilities_become_logarithms():
    val = Logits.from_probabilities([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]], ["a", "b"], ["a", "b", "c"])
    assert val.logits.tolist() == [[np.log(0.25), np.log(0.75), -np.inf], [0.0, -np.inf, -np.inf]]
    assert val.labels.tolist() == [0, 1]


@pytest.mark.parametrize(("dtype", "wider"), [(np.float16, np.float32), (np.float32, np.float64)])
def test_different_probabilities_stay_different(dtype, wider):
    small = np.nextafter(dtype(2e-7), dtype(1)), dtype(2e-7)
    val = Logits.from_probabilities(np.array([[*small, 1]], dtype=dtype))
    assert val.logits.dtype == wider
    assert val.logits[0, 0] > val.logits[0, 1]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_softmax_of_every_type_is_accepted(dtype):
    logits = np.random.default_rng(0).normal(size=(200, 50)) * 3
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    if dtype == "bfloat16":
        torch = require("torch", "torch")
        made = Logits.from_probabilities(torch.tensor(probs).bfloat16())
        assert made.n_rows == 200
    else:
        assert Logits.from_probabilities(probs.astype(dtype)).n_rows == 200


@pytest.mark.parametrize(
    ("probs", "said"),
    [
        ([[0.5, 0.5], [0.5, 0.25]], r"probs\[1\] sums to 0\.75; 1 row"),
        ([[0.5, 0.5], [0.5, 0.5011]], r"probs\[1\] sums to 1\.0011"),
        (np.array([[0.5, 0.502]], dtype=np.float32), r"probs\[0\] sums to 1\.002"),
        (np.array([[0.5, 0.52]], dtype=np.float16), r"probs\[0\] sums to"),
        ([[0.5, 0.5], [1.5, -0.5]], r"probs\[1, 1\] is -0\.5; .*Are these logits"),
        ([[0.5, np.nan]], r"probs\[0, 1\] is NaN"),
        ([[0.5, np.inf]], r"probs\[0\] sums to inf"),
        ([[0.5, -np.inf]], r"probs\[0, 1\] is -inf"),
        ([[-np.inf, np.inf]], r"probs\[0, 0\] is -inf"),
        ([0.5, 0.5], "probs must be 2-D"),
    ],
)
def test_bad_probabilities_are_refused(probs, said):
    with pytest.raises(InputError, match=said):
        Logits.from_probabilities(probs)


# -- rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[2, 0], np.array([2, 0]), [-1, 0]])
def test_take(rows):
    val = Logits(ROWS, LABELS, ["a", "b", "c"]).take(rows)
    assert val == Logits([ROWS[2], ROWS[0]], [2, 0], ["a", "b", "c"])


def test_take_by_mask_and_slice():
    val = Logits(ROWS, LABELS)
    assert val.take([True, False, True]) == val.take([0, 2])
    assert val.take(slice(None, None, -2)) == val.take([2, 0])
    assert np.shares_memory(val.take(slice(1, 3)).logits, val.logits)
    assert val.take(slice(None, None, -2)).logits.flags.c_contiguous


@pytest.mark.parametrize(
    ("rows", "said"),
    [([], "select nothing"), ([3], "do not fit 3 rows"), (0, "row numbers"), ([0.5], "row numbers"), ([True], "fit")],
)
def test_bad_rows_are_refused(rows, said):
    with pytest.raises(InputError, match=said):
        Logits(ROWS).take(rows)


# -- splits -------------------------------------------------------------------------------------------------------


def test_split_sizes_are_exact():
    # 0.29 * 100 is 28.999999999999996 in floats
    assert [len(piece) for piece in split_indices(100, 0.29)] == [29, 71]
    assert [len(piece) for piece in split_indices(10_000, 0.1, 0.05)] == [1000, 500, 8500]
    assert [len(piece) for piece in split_indices(10, "0.25", Fraction(1, 3), np.int64(2))] == [2, 3, 2, 3]


def test_split_pieces_belong_together():
    val = Logits(np.arange(200.0).reshape(100, 2), np.arange(100) % 2, ["a", "b"])
    first, rest = val.split(0.3, random_state=4)
    rows = split_indices(100, 0.3, random_state=4)
    assert first == val.take(rows[0])
    assert rest == val.take(rows[1])
    assert first.classes == ("a", "b")
    assert (first.logits[:, 0] / 2 % 2 == first.labels).all()


def test_split_is_random_and_never_stratified():
    # 50 of 100 rows are of class 1; in a stratified half there would always be 25
    ones = [int((split_indices(100, 0.5, random_state=seed)[0] < 50).sum()) for seed in range(200)]
    # hypergeometric: variance 100/4 * (50/99) / 2 = 6.3
    assert 4 < np.var(ones) < 9
    assert abs(np.mean(ones) - 25) < 5 * np.sqrt(6.3 / 200)


@pytest.mark.parametrize("seed", [0, 7, (3, 1), np.random.SeedSequence(5)])
def test_same_seed_same_pieces(seed):
    one, other = (split_indices(50, 10, 0.2, random_state=copy.deepcopy(seed)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert not np.array_equal(one[0], split_indices(50, 10, 0.2, random_state=99)[0])


@given(st.data())
def test_pieces_are_a_partition(data):
    n = data.draw(st.integers(2, 60))
    parts = data.draw(st.lists(st.one_of(st.integers(1, n), st.floats(0.01, 0.99)), min_size=1, max_size=4))
    sizes = [part if isinstance(part, int) else int(Fraction(str(part)) * n) for part in parts]
    if min(sizes) == 0 or sum(sizes) >= n:
        with pytest.raises(InputError):
            split_indices(n, *parts)
        return
    pieces = split_indices(n, *parts, random_state=data.draw(st.integers(0, 5)))
    assert [len(piece) for piece in pieces] == [*sizes, n - sum(sizes)]
    assert sorted(np.concatenate(pieces)) == list(range(n))
    assert all((np.diff(piece) > 0).all() for piece in pieces)
    assert all(piece.dtype == np.int64 for piece in pieces)


@given(st.data())
def test_groups_are_never_broken(data):
    groups = data.draw(st.lists(st.integers(0, 9), min_size=3, max_size=80))
    parts = data.draw(st.lists(st.integers(1, 10), min_size=1, max_size=2))
    n, n_groups = len(groups), len(set(groups))
    if sum(parts) >= n or n_groups <= len(parts):
        with pytest.raises(InputError):
            split_indices(n, *parts, split_by=groups)
        return
    seed = data.draw(st.integers(0, 5))
    pieces = split_indices(n, *parts, random_state=seed, split_by=groups)
    assert sorted(np.concatenate(pieces)) == list(range(n))
    members = [{groups[row] for row in piece} for piece in pieces]
    assert all(members)
    assert sum(map(len, members)) == n_groups
    names = [f"group {group}" for group in groups]  # what groups are called changes nothing
    again = split_indices(n, *parts, random_state=seed, split_by=names)
    assert all(np.array_equal(a, b) for a, b in zip(pieces, again, strict=True))


def test_grouped_sizes_are_as_near_as_groups_allow():
    groups = np.repeat(np.arange(100), 10)
    for seed in range(20):
        pieces = split_indices(1000, 0.1, 204, random_state=seed, split_by=groups)
        assert [len(piece) for piece in pieces] == [100, 200, 700]  # 204 lies nearer to 200 than to 210
    uneven = np.repeat(np.arange(40), np.arange(1, 41))
    sizes = [len(split_indices(820, 400, random_state=seed, split_by=uneven)[0]) for seed in range(50)]
    assert all(abs(size - 400) <= 20 for size in sizes)  # half the largest group
    assert len(set(sizes)) > 1


def test_every_group_is_as_likely():
    first = np.concatenate([split_indices(10, 2, random_state=s, split_by=np.arange(10) // 2)[0] for s in range(500)])
    counts = np.bincount(first, minlength=10)
    assert abs(counts - 100).max() < 5 * np.sqrt(500 * 0.2 * 0.8)


@pytest.mark.parametrize("kind", ["list", "tuple of tuples", "array", "pandas", "polars"])
def test_groups_of_every_kind(kind):
    names = ["a", "b", "b", "c", "c", "a"]
    groups = {"list": names, "tuple of tuples": tuple((name, 1) for name in names), "array": np.array(names)}
    if kind == "pandas":
        groups[kind] = require("pandas", "test").Series(names, dtype="category")
    if kind == "polars":
        groups[kind] = require("polars", "test").Series(names)
    pieces = Logits(np.arange(12.0).reshape(6, 2)).split(2, split_by=groups[kind])
    expected = Logits(np.arange(12.0).reshape(6, 2)).split(2, split_by=[0, 1, 1, 2, 2, 0])
    assert pieces == expected


@pytest.mark.parametrize(
    ("parts", "options", "said"),
    [
        ((), {}, "at least one part"),
        ((0.5, 0.5), {}, "leaves none for the last piece"),
        ((10,), {}, "10 of 10 rows"),
        ((0.05,), {}, "has no row"),
        ((0,), {}, "got 0"),
        ((-1,), {}, "got -1"),
        ((True,), {}, "got True"),
        ((1.0,), {}, "between 0 and 1"),
        ((3.0,), {}, "between 0 and 1"),
        (("many",), {}, "between 0 and 1"),
        ((0.5,), {"random_state": -1}, "random_state"),
        ((0.5,), {"random_state": "seed"}, "random_state"),
        ((0.5,), {"split_by": [1, 2]}, "each of 10 rows; got 2"),
        ((0.5,), {"split_by": np.float64(3)}, "each of 10 rows"),
        ((0.5,), {"split_by": [1] * 10}, "at least 2 different"),
        ((0.5,), {"split_by": [1] * 9 + [None]}, r"split_by\[9\] is missing"),
        ((0.5,), {"split_by": np.array([1] * 9 + [np.nan])}, r"split_by\[9\] is missing"),
        ((0.5,), {"split_by": np.ones((10, 2))}, r"split_by\[0\].*hashable"),
    ],
)
def test_bad_splits_are_refused(parts, options, said):
    with pytest.raises(InputError, match=said):
        Logits(np.zeros((10, 2))).split(*parts, **options)
