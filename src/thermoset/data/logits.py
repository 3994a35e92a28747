"""Where data enter: a frozen `Logits` is validated here, once, and nowhere else.

>>> val = Logits([[2.0, 0.5, -1.0], [0.1, 1.2, 0.3]], labels=["cat", "dog"], classes=["cat", "dog", "eel"])
>>> val
Logits(2 rows x 3 classes, float64, labelled, named)
>>> val.labels
array([0, 1])
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from thermoset.arrays import Block, Floats, Ints, read_only
from thermoset.data.groups import Groups, joined_groups, read_groups
from thermoset.data.guards import LOGITS, PROBABILITIES, check_class_columns, check_probabilities, warn_of_probabilities
from thermoset.data.labels import class_names, label_indices, names_and_labels
from thermoset.data.reading import (
    Table,
    are_whole,
    check_logits,
    read_table,
    two_columns,
    unpack_output,
)
from thermoset.data.splits import Part, Seed, row_index, split_indices
from thermoset.errors import InputError
from thermoset.rows import block_rows, map_rows

if TYPE_CHECKING:
    from thermoset.rows import Engine


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

    __slots__ = ("_rows", "classes", "groups", "input_kind", "labels")

    _rows: Any
    labels: Ints | None
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
        own = checked_logits(logits, labels, classes, groups)
        self._set(own._rows, own.labels, own.classes, own.groups, own.input_kind)
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
        check_probabilities(table.values, table.source)
        wider = np.float32 if table.values.dtype == np.float16 else np.float64
        with np.errstate(divide="ignore"):
            logits = np.log(table.values, dtype=wider)
        return _checked_table(table._replace(values=logits), labels, classes, groups, PROBABILITIES)

    @classmethod
    def from_binary(
        cls,
        scores: object,
        labels: object = None,
        classes: Sequence[str] | Sequence[int] | None = None,
        groups: object = None,
    ) -> "Logits":
        """Take the scores of a binary model with one output, (n,) or (n, 1): what its sigmoid takes.

        A score z is the log-odds of the second class, that of label 1. It becomes the logits (0, z), whose softmax is
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
        from thermoset.integrations.language_models import read_choices  # noqa: PLC0415 - it stands above

        return read_choices(loglikelihoods, labels, lengths, n_options, classes, groups)

    @classmethod
    def from_logprobs(
        cls, responses: Any, options: Sequence[str], labels: object = None, groups: object = None
    ) -> "Logits":
        """Take the answers of a language-model server: log-probabilities of the options at the first answer token.

        Responses of OpenAI's API and of servers that speak it (vLLM, llama.cpp, litellm), as objects, as JSON, or in a
        JSONL file. See `thermoset.integrations.language_models.read_logprobs`, which also says which options a response
        did not hold.

        >>> tokens = [{"token": " yes", "logprob": -0.5}, {"token": "no", "logprob": -2.0}]
        >>> place = {"token": " yes", "logprob": -0.5, "top_logprobs": tokens}
        >>> Logits.from_logprobs([{"choices": [{"logprobs": {"content": [place]}}]}], ["yes", "no"]).logits
        array([[-0.5, -2. ]])
        """
        from thermoset.integrations.language_models import read_logprobs  # noqa: PLC0415 - it stands above

        return read_logprobs(responses, options).logits(labels, groups)

    @classmethod
    def from_checked(
        cls,
        rows: Any,
        labels: Ints | None = None,
        classes: tuple[str, ...] | None = None,
        groups: Groups | None = None,
        input_kind: str = LOGITS,
    ) -> Self:
        """Make rows of parts that have been checked."""
        new = object.__new__(cls)
        new._set(rows, labels, classes, groups, input_kind)
        return new

    def _with(self, **parts: Any) -> Self:
        """The same but for some parts, which have been checked."""
        own = {name.removeprefix("_"): getattr(self, name) for name in Logits.__slots__}
        return self.from_checked(**own | parts)

    def _set(
        self, rows: Any, labels: Ints | None, classes: tuple[str, ...] | None, groups: Groups | None, input_kind: str
    ) -> None:
        """Fill what is frozen from then on; `rows` is an array here, and what subclasses have instead of one."""
        parts = {
            "_rows": read_only(rows) if isinstance(rows, np.ndarray) else rows,
            "labels": None if labels is None else read_only(labels),
            "classes": classes,
            "groups": groups,
            "input_kind": input_kind,
        }
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    @property
    def logits(self) -> Block:
        """The numbers, (n, C), C-contiguous and read-only."""
        rows: Block = self._rows
        return rows

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        dtype: np.dtype[Any] = self._rows.dtype
        return dtype

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._rows.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self._rows.shape[1])

    @property
    def n_masked(self) -> int:
        """Number of -inf logits; counted anew at each call.

        >>> Logits([[0.0, -np.inf], [1.0, 2.0]]).n_masked
        1
        """
        blocks = self.blocks(block_rows(self.n_classes))
        return sum(int(np.count_nonzero(np.isneginf(block))) for _, block in blocks)

    @property
    def engine(self) -> "Engine | None":
        """Who works on blocks of these rows: None for threads of this process."""
        return None

    def blocks(self, step: int) -> Iterator[tuple[slice, Block]]:
        """Consecutive rows, at most `step` at a time, each with its place.

        >>> [(rows, block.shape) for rows, block in Logits(np.zeros((5, 2))).blocks(3)]
        [(slice(0, 3, None), (3, 2)), (slice(3, 5, None), (2, 2))]
        """
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            yield rows, self._block(rows)

    def head(self, n_rows: int) -> Block:
        """The first rows, at most so many, (n, C)."""
        return self._block(slice(0, n_rows))

    def _block(self, rows: slice) -> Block:
        block: Block = self._rows[rows]
        return block

    def within_budget(self) -> "Logits":
        """The same rows, in memory if they are stored and take a small part of the memory budget."""
        return self

    def require_labels(self, purpose: str) -> Ints:
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
        """Return the groups, or say what needs them."""
        if self.groups is None:
            raise InputError(f"{purpose} needs groups, but these logits have none. Pass groups, one per row.")
        return self.groups

    def take(self, rows: object) -> "Logits":
        """Select rows by number, boolean mask or slice, in the order given; a slice copies nothing.

        >>> Logits([[0.0, 1.0], [2.0, 3.0]], labels=[0, 1]).take([1]).logits
        array([[2., 3.]])
        """
        return self._select(row_index(rows, self.n_rows))

    def _select(self, index: Any) -> "Logits":
        labels = None if self.labels is None else self.labels[index]
        groups = None if self.groups is None else self.groups.take(index)
        return self._with(rows=self._take_rows(index), labels=labels, groups=groups)

    def _take_rows(self, index: Any) -> Any:
        return np.ascontiguousarray(self._rows[index])

    def in_order(self, classes: tuple[str, ...]) -> Self:
        """The same rows with their named columns in another order.

        >>> Logits([[0.0, 1.0]], labels=["dog"], classes=["cat", "dog"]).in_order(("dog", "cat")).labels
        array([0])
        """
        column_of = {name: column for column, name in enumerate(self.classes or ())}
        order = np.array([column_of[name] for name in classes])
        labels = None if self.labels is None else np.argsort(order)[self.labels]
        return self._with(rows=self._reordered_rows(order), labels=labels, classes=tuple(classes))

    def _reordered_rows(self, order: Ints) -> Any:
        return np.ascontiguousarray(self._rows[:, order])

    def apply(self, f: Callable[[Block], Block]) -> "Logits":
        """The same rows with other numbers: f takes a block of rows and gives float64 of the same shape.

        >>> Logits([[0.0, 1.0]]).apply(lambda block: 2.0 * block).logits
        array([[0., 2.]])
        """
        out: Floats = np.empty((self.n_rows, self.n_classes))
        map_rows(self, _apply_block, [out], fixed=[f], axis=-2)
        return Logits.from_checked(out, self.labels, self.classes, self.groups, self.input_kind)

    def labelled(self, labels: Ints) -> Self:
        """The same rows with labels, which have been checked."""
        return self._with(labels=labels)

    def with_groups(self, groups: Groups) -> Self:
        """The same rows with groups, which have been checked."""
        return self._with(groups=groups)

    def concatenate(self, other: "Logits") -> "Logits":
        """These labelled rows and then the others; both must have the same classes, and groups if one of them has.

        >>> Logits([[0.0, 1.0]], labels=[0]).concatenate(Logits([[2.0, 3.0]], labels=[1])).labels
        array([0, 1])
        """
        labels = self.require_labels("joining rows"), other.require_labels("joining rows")
        if self.n_classes != other.n_classes or self.classes != other.classes:
            raise InputError(
                f"rows can be joined only if their classes are the same, in the same order; got {self.n_classes} and "
                f"{other.n_classes} columns, or other names."
            )
        if self.input_kind != other.input_kind:
            raise InputError(f"rows of {self.input_kind} cannot be joined with rows of {other.input_kind}.")
        if (self.groups is None) != (other.groups is None):
            raise InputError("rows can be joined only if both have groups, or neither. Give the others groups too.")
        parts = [rows.groups for rows in (self, other) if rows.groups is not None]
        groups = joined_groups(parts) if parts else None
        return self._joined_rows(other, np.concatenate(labels), groups)

    def _joined_rows(self, other: "Logits", labels: Ints, groups: Groups | None) -> "Logits":
        return Logits.from_checked(
            np.concatenate([self.logits, other.logits]), labels, self.classes, groups, self.input_kind
        )

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
        extras = ("", ", labelled")[self.labels is not None] + ("", ", named")[self.classes is not None]
        extras += "" if self.groups is None else f", {len(self.groups.names)} groups"
        top = "" if (kept := getattr(self, "top", None)) is None else f", the {kept} largest"
        return f"{type(self).__name__}({self.n_rows} rows x {self.n_classes} classes{top}, {self.dtype}{extras})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Logits):
            return NotImplemented
        same = self.classes == other.classes and self.dtype == other.dtype and self.groups == other.groups
        labels = (self.labels is None) == (other.labels is None) and np.array_equal(self.labels, other.labels)  # type: ignore[arg-type]
        return same and labels and np.array_equal(self.logits, other.logits)

    # Arrays compare by value, so no hash; a pickled array would come back writeable, so Logits rebuild themselves.
    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_checked, (self._rows, self.labels, self.classes, self.groups, self.input_kind)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Logits are frozen: {name} cannot be set. Make new ones.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Logits are frozen: {name} cannot be deleted.")


def checked_logits(
    logits: object, labels: object = None, classes: Sequence[str] | Sequence[int] | None = None, groups: object = None
) -> Logits:
    """Make `Logits` without a warning about probabilities: of blocks of rows, and where it would come before an error.

    >>> checked_logits([[0.5, 0.5]]).input_kind
    'logits'
    """
    output = unpack_output(logits)
    if output is not None:
        names = output.classes if classes is None else classes
        return as_logits(checked_logits(output.logits, output.labels, names, output.groups), labels, groups)
    table = read_table(logits, "logits")
    check_logits(table.values)
    return _checked_table(table, labels, classes, groups, LOGITS)


def _checked_table(table: Table, labels: object, classes: object, groups: object, input_kind: str) -> Logits:
    """Check what comes with the numbers; a frame's column that does not look like a class wants the user's word."""
    if classes is None and table.columns is not None and not are_whole(table.columns):
        check_class_columns(class_names(table.columns, len(table.columns)), table.values)
    names, indices = names_and_labels(table, labels, classes)
    known = None if groups is None else read_groups(groups, len(table.values))
    return Logits.from_checked(table.values, indices, names, known, input_kind)


def as_logits(logits: object, labels: object = None, groups: object = None) -> Logits:
    """Make `Logits` of what an estimator was given; `Logits` pass through unchanged.

    Labels and groups that come with `Logits` are added if there were none; if there were, they must be the same.

    >>> as_logits([[0.0, 1.0]], [1])
    Logits(1 rows x 2 classes, float64, labelled)
    >>> val = Logits([[0.0, 1.0]], labels=[1])
    >>> as_logits(val) is val
    True
    """
    if not isinstance(logits, Logits):
        return Logits(logits, labels, groups=groups)
    if labels is not None:
        logits = with_columns(logits, label_indices(labels, (logits.n_rows, logits.n_classes), logits.classes))
    if groups is None:
        return logits
    read = read_groups(groups, logits.n_rows)
    if logits.groups is None:
        return logits.with_groups(read)
    if logits.groups != read:
        raise InputError("groups were passed with Logits that have different groups. Pass only one of them.")
    return logits


def with_columns(logits: Logits, indices: Ints) -> Logits:
    """Add labels that have been read as column numbers; if there were labels, they must be the same."""
    if logits.labels is None:
        return logits.labelled(indices)
    if not np.array_equal(logits.labels, indices):
        raise InputError("labels were passed with Logits that have different labels. Pass only one of them.")
    return logits


def _apply_block(block: Block, f: Callable[[Block], Block]) -> tuple[Block]:
    return (f(block),)
