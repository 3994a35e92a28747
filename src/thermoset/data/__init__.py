"""The door for data: a frozen `Logits` is validated here, once, and nowhere else.

>>> val = Logits([[2.0, 0.5, -1.0], [0.1, 1.2, 0.3]], labels=["cat", "dog"], classes=["cat", "dog", "eel"])
>>> val
Logits(2 rows x 3 classes, float64, labelled, named)
>>> val.labels
array([0, 1])
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data.arrays import (
    BLOCK_BYTES,
    Floats,
    check_logits,
    read_table,
)
from thermoset.data.binary import two_columns
from thermoset.data.choices import check_gold, option_names, padded, per_length, ragged
from thermoset.data.groups import Groups, read_groups
from thermoset.data.input_kinds import LOGITS, PROBABILITIES, check_probabilities, warn_of_probabilities
from thermoset.data.labels import label_indices
from thermoset.data.naming import check_frame, named_parts
from thermoset.data.outputs import unpacked
from thermoset.data.splits import Part, Seed, row_index, split_indices
from thermoset.errors import InputError

if TYPE_CHECKING:
    from thermoset.arrays import Block
    from thermoset.rows import Engine

__all__ = ["Groups", "Logits", "as_logits", "checked_logits", "checked_rows", "split_indices", "with_columns"]


class Logits:
    """Logits with their labels and class names: checked, frozen, never a changed input.

    Parameters
    ----------
    logits : array-like (n, C)
        A NumPy array, nested lists, a pandas or polars frame, or anything with `__array__` or `__dlpack__` (torch
        and JAX tensors). float16, float32 and float64 stay as they are and a C-contiguous NumPy array is not copied
        (do not change it afterwards); bfloat16 becomes float32, integers and long doubles float64. -inf is a
        masked class; NaN and +inf are errors. Or what a framework returns: Hugging Face's `PredictionOutput`, or a
        mapping with `logits` and optionally `labels` and `classes`.
    labels : array-like (n,), optional
        Column numbers 0..C-1 (whole floats are accepted, booleans are not), or names out of `classes`.
    classes : sequence of C strings or of C whole numbers, optional
        Class names. A frame whose column names are all strings brings its own, unless they only count columns
        (`logit_0, logit_1, ...`, `prob_0, ...`, or polars' `column_0, ...`). Whole numbers are kept as text, and labels
        that are whole numbers are then names: with `classes=[10, 20, 30]` the label 20 is the second column.
    groups : array-like (n,), optional
        The group of each row (a site, a device, a language), a name or a whole number: coverage can be measured, evened
        out and promised for each group. Rows that belong together, as those of one patient, are named at a split.

    Attributes
    ----------
    logits : float array (n, C), C-contiguous and read-only
    labels : int64 array (n,), read-only, or None
    classes : tuple of str, or None
    groups : Groups, or None
    input_kind : "logits", or "probabilities" where `from_probabilities` made them

    Rows that look like probabilities (in [0, 1], summing to 1) get a warning: use `from_probabilities`.

    >>> val = Logits(np.array([[2.0, -np.inf], [0.1, 1.2]], dtype=np.float32), labels=[0, 1])
    >>> val.n_rows, val.n_classes, val.n_masked, val.logits.dtype
    (2, 2, 1, dtype('float32'))
    >>> val = Logits([[2.0, 0.5], [0.1, 1.2]], labels=[10, 20], classes=[10, 20])
    >>> val.labels, val.classes
    (array([0, 1]), ('10', '20'))
    """

    __slots__ = ("_logits", "classes", "groups", "input_kind", "labels")

    _logits: Floats
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...] | None
    groups: Groups | None
    input_kind: str

    def __init__(
        self,
        logits: object,
        labels: object = None,
        classes: Sequence[str] | Sequence[int] | None = None,
        groups: object = None,
    ) -> None:
        made = checked_logits(logits, labels, classes, groups)
        self._set(made.logits, made.labels, made.classes, made.groups)
        warn_of_probabilities(self)

    @classmethod
    def from_probabilities(
        cls, probs: object, labels: object = None, classes: Sequence[str] | None = None, groups: object = None
    ) -> "Logits":
        """Take the logarithm of probabilities; p = 0 becomes -inf, a masked class.

        Rows must be non-negative and sum to 1 within 1e-3, or 1e-2 (float16) or 2e-2 (bfloat16). The logits are of the
        next wider type, so that different probabilities stay different. What is fitted on them predicts from
        probabilities alone, and refuses logits.

        >>> Logits.from_probabilities([[0.5, 0.5, 0.0]]).logits
        array([[-0.69314718, -0.69314718,        -inf]])
        """
        table = read_table(probs, "probs")
        check_frame(table, classes)
        check_probabilities(table)
        wider = np.float32 if table.values.dtype == np.float16 else np.float64
        with np.errstate(divide="ignore"):
            logits = np.log(table.values, dtype=wider)
        return checked_rows(*named_parts(table._replace(values=logits), labels, classes, groups), PROBABILITIES)

    @classmethod
    def from_binary(
        cls,
        scores: object,
        labels: object = None,
        classes: Sequence[str] | Sequence[int] | None = None,
        groups: object = None,
    ) -> "Logits":
        """Take the scores of a binary model with one output, (n,) or (n, 1): what its sigmoid takes.

        A score z speaks for the second class, that of label 1. It becomes the logits (0, z), whose softmax is
        (1 - sigmoid(z), sigmoid(z)). Scores to be predicted are passed in the same way.

        >>> Logits.from_binary([1.5, -0.5], labels=[1, 0], classes=["keep", "fraud"]).logits
        array([[ 0. ,  1.5],
               [ 0. , -0.5]])
        """
        return Logits(two_columns(scores), labels, classes, groups)

    @classmethod
    def from_choices(
        cls,
        loglikelihoods: object,
        labels: object = None,
        *,
        lengths: object = None,
        n_options: int | None = None,
        classes: Sequence[str] | None = None,
        groups: object = None,
    ) -> "Logits":
        """Take the log-likelihoods of the options of multiple-choice questions; questions may differ in how many.

        Options that a question does not have are -inf, masked classes: they get probability 0 and enter a set only
        where the threshold is infinite. A question with one option is allowed and has confidence 1.

        Parameters
        ----------
        loglikelihoods : sequence of sequences of floats
            One list for each question, with the log-likelihood of each of its options.
        labels : array-like (n,), optional
            The position of the right option, counted from 0, or its name out of `classes`.
        lengths : sequence of sequences of numbers, optional
            The lengths of the options, by which log-likelihoods are divided (as `acc_norm` of lm-eval does).
        n_options : int, optional
            How many columns to make; by default the largest number of options. Give that of the rows a predictor was
            fitted on where new rows may have fewer.
        classes : sequence of str, optional
            Names of the positions; by default A, B, C, and so on for up to 26.
        groups : array-like (n,), optional
            The group of each question, such as its subject.

        >>> quiz = Logits.from_choices([[-4.1, -2.0, -3.3], [-1.0, -5.2]], labels=[1, 0])
        >>> quiz.classes, quiz.n_masked
        (('A', 'B', 'C'), 1)
        >>> Logits.from_choices([[-6.0, -4.0]], lengths=[[3, 1]]).logits
        array([[-2., -4.]])
        """
        rows = ragged(loglikelihoods, "loglikelihoods")
        table = padded(rows if lengths is None else per_length(rows, lengths), n_options)
        made = Logits(table, labels, option_names(table.shape[1]) if classes is None else classes, groups)
        if made.labels is not None:
            check_gold(rows, made.labels)
        return made

    @property
    def logits(self) -> Floats:
        """The numbers, (n, C), C-contiguous and read-only."""
        return self._logits

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return self.logits.dtype

    @property
    def engine(self) -> "Engine | None":
        """Who works on blocks of these rows: None for threads of this process."""
        return None

    def blocks(self, step: int) -> Iterator[tuple[slice, "Block"]]:
        """Consecutive rows, at most `step` at a time, each with its place.

        >>> [(rows, block.shape) for rows, block in Logits(np.zeros((5, 2))).blocks(3)]
        [(slice(0, 3, None), (3, 2)), (slice(3, 5, None), (2, 2))]
        """
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            yield rows, self.logits[rows]

    @property
    def n_rows(self) -> int:
        """Number of rows.

        >>> Logits([[0.0, 1.0]]).n_rows
        1
        """
        return int(self.logits.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes.

        >>> Logits([[0.0, 1.0]]).n_classes
        2
        """
        return int(self.logits.shape[1])

    @property
    def n_masked(self) -> int:
        """Number of -inf logits; counted anew at each call.

        >>> Logits([[0.0, -np.inf], [1.0, 2.0]]).n_masked
        1
        """
        step = max(1, BLOCK_BYTES // (self.n_classes * self.dtype.itemsize))
        return sum(int(np.count_nonzero(np.isneginf(block))) for _, block in self.blocks(step))

    def within_budget(self) -> "Logits":
        """The same rows, in memory if they are stored and take a small part of the memory budget."""
        return self

    def head(self, n_rows: int) -> Floats:
        """The first rows, at most so many, (n, C).

        >>> Logits([[0.0, 1.0], [2.0, 3.0]]).head(1)
        array([[0., 1.]])
        """
        return self.logits[:n_rows]

    def require_labels(self, purpose: str) -> NDArray[np.int64]:
        """Return the labels, or say what needs them; what needs labels needs rows too.

        >>> Logits([[0.0, 1.0]]).require_labels("fit")
        Traceback (most recent call last):
            ...
        thermoset.errors.InputError: fit needs labels, but these logits have none. Pass labels, one per row.
        """
        if self.labels is None:
            raise InputError(f"{purpose} needs labels, but these logits have none. Pass labels, one per row.")
        if len(self.labels) == 0:
            raise InputError(
                f"{purpose} needs rows, but these logits have none: 0 sample(s) (shape=(0, {self.n_classes})) while a "
                "minimum of 1 is required."
            )
        return self.labels

    def require_groups(self, purpose: str) -> Groups:
        """Return the groups, or say what needs them.

        >>> Logits([[0.0, 1.0]]).require_groups("check")
        Traceback (most recent call last):
            ...
        thermoset.errors.InputError: check needs groups, but these logits have none. Pass groups, one per row.
        """
        if self.groups is None:
            raise InputError(f"{purpose} needs groups, but these logits have none. Pass groups, one per row.")
        return self.groups

    def take(self, rows: object) -> "Logits":
        """Select rows by number, boolean mask or slice, in the order given; a slice copies nothing.

        >>> Logits([[0.0, 1.0], [2.0, 3.0]], labels=[0, 1]).take([1]).logits
        array([[2., 3.]])
        """
        index = row_index(rows, self.n_rows)
        logits = np.ascontiguousarray(self.logits[index])
        labels = None if self.labels is None else self.labels[index]
        groups = None if self.groups is None else self.groups.take(index)
        return checked_rows(logits, labels, self.classes, groups, self.input_kind)

    def apply(self, f: Callable[["Block"], Floats]) -> "Logits":
        """The same rows with other numbers: f takes a block of rows and gives float64 of the same shape.

        >>> Logits([[0.0, 1.0]]).apply(lambda block: 2.0 * block).logits
        array([[0., 2.]])
        """
        from thermoset.rows import map_rows  # noqa: PLC0415 - which work on rows, not on Logits

        out = np.empty((self.n_rows, self.n_classes))
        map_rows(self, _apply_block, [out], fixed=[f], axis=-2)
        return checked_rows(out, self.labels, self.classes, self.groups, self.input_kind)

    def labelled(self, labels: NDArray[np.int64]) -> "Logits":
        """The same rows with labels, which have been checked."""
        return checked_rows(self.logits, labels, self.classes, self.groups, self.input_kind)

    def grouped(self, groups: Groups) -> "Logits":
        """The same rows with groups, which have been checked."""
        return checked_rows(self.logits, self.labels, self.classes, groups, self.input_kind)

    def joined(self, other: "Logits") -> "Logits":
        """These labelled rows and then the others; both must have the same classes, and groups if one of them has.

        >>> Logits([[0.0, 1.0]], labels=[0]).joined(Logits([[2.0, 3.0]], labels=[1])).labels
        array([0, 1])
        """
        labels = self._check_joined(other)
        logits = np.concatenate([self.logits, other.logits])
        return checked_rows(logits, np.concatenate(labels), self.classes, self._joined_groups(other), self.input_kind)

    def _joined_groups(self, other: "Logits") -> Groups | None:
        if self.groups is None or other.groups is None:
            if self.groups is not other.groups:
                raise InputError("rows can be joined only if both have groups, or neither. Give the others groups too.")
            return None
        return self.groups.joined(other.groups)

    def _check_joined(self, other: "Logits") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The labels of both, if they can be joined."""
        labels = self.require_labels("joining rows"), other.require_labels("joining rows")
        if self.n_classes != other.n_classes or self.classes != other.classes:
            raise InputError(
                f"rows can be joined only if their classes are the same, in the same order; got {self.n_classes} and "
                f"{other.n_classes} columns, or other names."
            )
        if self.input_kind != other.input_kind:
            raise InputError(f"rows of {self.input_kind} cannot be joined with rows of {other.input_kind}.")
        return labels

    def split(self, *parts: Part, random_state: Seed = 0, split_by: object = None) -> tuple["Logits", ...]:
        """Cut at random into len(parts) + 1 pieces, the last being the rest; see `split_indices`.

        A part is a whole number of rows or a fraction in (0, 1), read as typed and rounded down. Rows keep their
        order within a piece. With `split_by`, one value a row, rows with the same value go to one side, and sizes are
        met as nearly as that allows.

        >>> val = Logits(np.zeros((100, 2)))
        >>> [piece.n_rows for piece in val.split(0.1, 25)]
        [10, 25, 65]
        """
        pieces = split_indices(self.n_rows, *parts, random_state=random_state, split_by=split_by)
        return tuple(self.take(rows) for rows in pieces)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_rows} rows x {self.n_classes} classes, {self.dtype}{self._extras})"

    @property
    def _extras(self) -> str:
        extras = ("", ", labelled")[self.labels is not None] + ("", ", named")[self.classes is not None]
        return extras + ("" if self.groups is None else f", {len(self.groups.names)} groups")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Logits):
            return NotImplemented
        return (
            self.classes == other.classes
            and self.dtype == other.dtype
            and _same_labels(self.labels, other.labels)
            and self.groups == other.groups
            and np.array_equal(self.logits, other.logits)
        )

    # Arrays compare by value, so no hash; a pickled array would come back writeable, so Logits rebuild themselves.
    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return checked_rows, (self.logits, self.labels, self.classes, self.groups, self.input_kind)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Logits are frozen: {name} cannot be set. Make new ones.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Logits are frozen: {name} cannot be deleted.")

    def _set(
        self,
        logits: Floats,
        labels: NDArray[np.int64] | None,
        classes: tuple[str, ...] | None,
        groups: Groups | None,
        input_kind: str = LOGITS,
    ) -> None:
        object.__setattr__(self, "_logits", _read_only(logits))
        object.__setattr__(self, "labels", None if labels is None else _read_only(labels))
        object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "input_kind", input_kind)


def _apply_block(block: "Block", f: Callable[["Block"], Floats]) -> tuple[Floats]:
    return (f(block),)


def as_logits(logits: object, labels: object = None, groups: object = None) -> Logits:
    """Make `Logits` of what an estimator was given; `Logits` pass through unchanged.

    Labels and groups that come beside `Logits` are added if there were none; if there were, they must be the same.

    >>> as_logits([[0.0, 1.0]], [1])
    Logits(1 rows x 2 classes, float64, labelled)
    >>> val = Logits([[0.0, 1.0]], labels=[1])
    >>> as_logits(val) is val
    True
    """
    if not isinstance(logits, Logits):
        return Logits(logits, labels, groups=groups)
    return _with_groups(logits if labels is None else _with_labels(logits, labels), groups)


def _with_labels(logits: Logits, labels: object) -> Logits:
    return with_columns(logits, label_indices(labels, (logits.n_rows, logits.n_classes), logits.classes))


def with_columns(logits: Logits, indices: NDArray[np.int64]) -> Logits:
    """Add labels that have been read as column numbers; if there were labels, they must be the same."""
    if logits.labels is None:
        return logits.labelled(indices)
    if not np.array_equal(logits.labels, indices):
        raise InputError("labels were passed with Logits that have different labels. Pass only one of them.")
    return logits


def _with_groups(logits: Logits, groups: object) -> Logits:
    if groups is None:
        return logits
    read = read_groups(groups, logits.n_rows)
    if logits.groups is None:
        return logits.grouped(read)
    if logits.groups != read:
        raise InputError("groups were passed with Logits that have different groups. Pass only one of them.")
    return logits


def checked_logits(
    logits: object, labels: object = None, classes: Sequence[str] | Sequence[int] | None = None, groups: object = None
) -> Logits:
    """Make `Logits` without a warning about probabilities: of blocks of rows, and where it would come before an error.

    >>> checked_logits([[0.5, 0.5]]).input_kind
    'logits'
    """
    output = unpacked(logits)
    if output is not None:
        names = output.classes if classes is None else classes
        return as_logits(checked_logits(output.logits, output.labels, names, output.groups), labels, groups)
    table = read_table(logits, "logits")
    check_frame(table, classes)
    check_logits(table.values)
    return checked_rows(*named_parts(table, labels, classes, groups), LOGITS)


def checked_rows(
    logits: Floats,
    labels: NDArray[np.int64] | None,
    classes: tuple[str, ...] | None,
    groups: Groups | None,
    input_kind: str,
) -> Logits:
    """Make `Logits` of parts that have been checked.

    >>> checked_rows(np.zeros((1, 2)), None, None, None, "logits")
    Logits(1 rows x 2 classes, float64)
    """
    made: Logits = object.__new__(Logits)
    made._set(logits, labels, classes, groups, input_kind)
    return made


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make a view that cannot be written to; the caller's own array stays as writeable as it was."""
    view = array.view()
    view.flags.writeable = False
    return view


def _same_labels(one: NDArray[np.int64] | None, other: NDArray[np.int64] | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)
