"""Mistakes that rows show by themselves, reported before anything is computed from them.

Columns of a table that are no classes; probabilities given as logits; labels that count from 1; class names in another
order than the columns; rows that the model was trained on, and rows that occur several times.
"""

import re
import shlex
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import numpy as np

from thermoset.arrays import Block, Ints
from thermoset.data.reading import DEFAULT_COLUMNS
from thermoset.errors import InputError, ProbabilitiesAsLogitsWarning, RepeatedRowsWarning, SuspiciousRowsWarning
from thermoset.quoting import printable, quoted
from thermoset.rows import map_rows, row_array, top_labels

if TYPE_CHECKING:
    from thermoset.data.logits import Logits

LOGITS: Final = "logits"
PROBABILITIES: Final = "probabilities"
AS_LOGITS: Final = "probabilities as logits"
"""Rows given as logits that look like probabilities: somebody went on after the warning."""
INPUT_KINDS = (LOGITS, PROBABILITIES, AS_LOGITS)
"""What a predictor may have been fitted on."""

_CHANCE = 1e-6  # of a coincidence, below which it is none


# ---- columns of a table that are no classes --------------------------------------------------------------------------

_SAMPLE_BYTES = 1 << 20  # of the rows that are looked at: enough to tell whole numbers from logits
_MOST_ROWS = 1000
_ID = re.compile(
    r"(?:.*[\W_])?(?:ids?|idx|index|uuid|guid|row|row[\W_]?(?:num|no|number|id))|unnamed: \d+", re.IGNORECASE
)
_CAMEL_ID = re.compile(r"[A-Za-z]*[a-z]I[dD]")
_LABELS = re.compile(
    r"y|ytrue|targets?|(true)?labels?|label(id|idx)|class|class(idx|index)|trueclass|gt|gold(label)?|groundtruth"
)
_PREDICTIONS = re.compile(r"preds?|predictions?|predicted|predictedlabel|ypred")
_NUMBERED = ("fold", "group", "epoch", "step", "batch")
_MEASURED = re.compile(r"(sample)?weights?|timestamp|confidence|loss|nll|entropy")


def check_class_columns(names: Sequence[str], rows: Block, known: Collection[str] = ()) -> None:
    """Refuse a table of which a column does not look like a class; `known` are names of classes for certain.

    A column is doubted because of its name, or because it holds whole numbers where logits have fractions; neither is
    proof, so the user says what it is.
    """
    sure, held = frozenset(known), set(names)
    for stem in DEFAULT_COLUMNS:  # next to logit_0, logit_1 and so on, which are the classes then
        run = next(i for i in range(len(names) + 1) if f"{stem}{i}" not in held)
        numbered = {f"{stem}{i}" for i in range(run)}
        others = [name for name in names if name not in numbered and name not in sure]
        if run > 1 and others:
            why = f"is next to {stem}0 to {stem}{run - 1}, which look like all classes"
            raise InputError(not_a_class(others[0], why, _option_of(others[0])))
    for name in names:
        if name not in sure and _MEASURED.fullmatch(_plain(name)):
            raise InputError(not_a_class(name, "looks like metadata of the rows"))
    rows = rows[:: -(-len(rows) // most_rows(rows.shape[1])) or 1]  # some, evenly spaced: all where they are few
    if len(rows) == 0 or _off_one(rows) <= _OFF:
        return  # whole ones are 0 and 1, and without one of the columns rows would not sum to 1
    finite = np.isfinite(rows)
    with np.errstate(invalid="ignore"):
        fractions = finite & (rows != np.floor(rows))
    fractional = fractions.any(axis=0)
    n_cells = int(finite[:, fractional].sum())
    share = (n_cells - int(fractions.sum()) + 1) / (n_cells + 2)  # of whole numbers among logits, never quite 0
    for place in np.flatnonzero(finite.any(axis=0) & ~fractional).tolist():
        name, values = names[place], rows[finite[:, place], place]
        plain, option = _plain(name), _option_of(name)
        if name in sure:
            continue
        if option is not None and (plain != "y" or n_cells):  # which is a letter of the alphabet too
            raise InputError(not_a_class(name, f"looks like {'ids' if option == 'id_column' else 'labels'}", option))
        if _PREDICTIONS.fullmatch(plain):
            raise InputError(not_a_class(name, "looks like predictions"))
        if plain in _NUMBERED:
            raise InputError(not_a_class(name, "looks like metadata of the rows", "groups"))
        masked = values[0] <= 0 and (values == values[0]).all()  # such as 0 of a reference, or -10,000
        if n_cells and not masked and len(names) * share ** len(values) < _CHANCE:
            raise InputError(not_a_class(name, "holds whole numbers, and the others have fractions", "id_column"))


def not_a_class(name: str, why: str, option: str | None = None) -> str:
    """What to say of a column that cannot be taken for a class: what is wrong with it, and what to type."""
    options = [*([] if option is None else [option]), "ignore"]
    shown = printable(name, 40)
    # an option that takes several names, with commas, wants quotes around a comma
    listed = [f'"{shown}"' if one == "ignore" and "," in shown else shown for one in options]
    typed = " or ".join(
        f"--{one.replace('_', '-')} {shlex.quote(text)}" for one, text in zip(options, listed, strict=True)
    )
    python = ", ".join(f"{one}=" for one in (*options, "classes"))
    return (
        f"column {quoted(name)} {why}. Add {typed} if it is not a class, or list the classes with --classes "
        f"(in Python: {python})."
    )


def most_rows(n_classes: int) -> int:
    """How many rows of a table are looked at."""
    return max(8, min(_MOST_ROWS, _SAMPLE_BYTES // (8 * max(n_classes, 1))))


def _option_of(name: str) -> str | None:
    if _LABELS.fullmatch(_plain(name)):
        return "labels"
    return "id_column" if _ID.fullmatch(name.strip()) or _CAMEL_ID.fullmatch(name.strip()) else None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


# ---- probabilities given as logits -----------------------------------------------------------------------------------

_SUM_TOLERANCE = {"float16": 1e-2, "bfloat16": 2e-2}
_USUAL_TOLERANCE = 1e-3
"""How far a row of probabilities may be from 1: some units of the last place, and slack for digits that a text lacks.

It is there to find mistakes: the softmax of the logarithms sums to 1 in any case."""
_LOOKED_AT = 2**20  # numbers at the beginning of the data that are looked at
_AT_ONCE = 2**16  # of them in float64
_FEWEST_ROWS = 8
_MANY_ROWS = 20  # that are not in [0, 1] or [0, 100] by chance
_OFF = 0.02  # how far a row of rounded probabilities may be from 1
_PRECISE, _WHOLE = 1e-6, 0.5  # the least that one row counts for: with fractions, with zeros and ones alone


def look_like_probabilities(rows: Block) -> bool:
    """Whether rows of numbers are so plainly probabilities that they are no logits by chance.

    All are in [0, 1] and all rows sum to 1. A row of logits is within d of 1 by chance with a probability of about d,
    and n rows with d**n, which must be 1e-6 or less. Rows of zeros and ones alone are common among small examples.
    """
    if not len(rows) or not 0 <= rows[0, 0] <= 1:  # all that is done for nearly every block of logits
        return False
    off = _off_one(rows)
    if off > _OFF:
        return False
    fractions = np.any((rows > 0) & (rows < 1))
    return bool(max(off, _PRECISE if fractions else _WHOLE) ** len(rows) <= _CHANCE)


def _off_one(rows: Block) -> float:
    """The furthest that a row's sum is from 1; infinite where a number is outside [0, 1]."""
    if not len(rows):
        return 0.0
    if rows.min() < 0 or rows.max() > 1 + _PRECISE:
        return np.inf
    return float(np.abs(rows.sum(axis=1, dtype=np.float64) - 1).max())


def _first(data: "Logits") -> Block:
    return data.head(max(_FEWEST_ROWS, _LOOKED_AT // data.n_classes))


def input_kind_of(data: "Logits") -> str:
    """What rows hold: what was declared, but for rows that look like something else. Only the first are looked at."""
    if data.input_kind == PROBABILITIES:
        return PROBABILITIES
    rows = _first(data)
    return AS_LOGITS if look_like_probabilities(rows) or _are_rounded(rows) else LOGITS


def _are_rounded(rows: Block) -> bool:
    """Whether rows are probabilities of two or three digits, which sum to about 1."""
    if len(rows) < _MANY_ROWS or not 0 <= rows[0, 0] <= 1 or rows.min() < 0 or rows.max() > 1:
        return False
    if _off_one(rows) > _rounding(rows.shape[1]) or ((rows > 0) & (rows < 1)).any(axis=1).mean() <= 0.1:
        return False
    parts = (part.astype(np.float64) for part in np.array_split(rows, -(-rows.size // _AT_ONCE)))
    return all(np.abs(part.round(3) - part).max(initial=0) < _PRECISE for part in parts)


def _rounding(n_classes: int) -> float:
    """How far the sum of a row may be from 1 after rounding to two digits."""
    return max(_OFF, 0.005 * n_classes) + _PRECISE


def may_be(data: "Logits", kind: str) -> bool:
    """Whether rows given as logits can be what a predictor was fitted on, though too few to be sure."""
    with np.errstate(over="ignore"):
        rows = np.exp(_first(data), dtype=np.float64) if kind == PROBABILITIES else _first(data)
    return _off_one(rows) <= _rounding(data.n_classes)


def warn_of_probabilities(data: "Logits") -> None:
    """Say so where rows given as logits look like probabilities."""
    with suppress(InputError):  # rows of a file that cannot be read are refused when they are wanted
        if said := _what_else(data):
            warnings.warn(f"these logits look like {said}", ProbabilitiesAsLogitsWarning, stacklevel=3)


def _what_else(data: "Logits") -> str:
    """What rows given as logits are, if they plainly are something else, and what to do."""
    if data.input_kind == PROBABILITIES:
        return ""
    rows = _first(data)
    if look_like_probabilities(rows):
        return (
            "probabilities: they are in [0, 1], and every row sums to 1. Sets from them are too large. Use "
            "Logits.from_probabilities (probabilities=True, or --probabilities for commands), or pass the logits."
        )
    if _are_rounded(rows):
        return (
            "probabilities with few digits: they are in [0, 1], and rows sum to about 1. Save more digits, or the "
            "logits of the model; or divide each row by its sum, and use Logits.from_probabilities."
        )
    if len(rows) < _MANY_ROWS or not 0 <= rows[0].min() <= 100 or rows.min() < 0:
        return ""
    high = rows.max()
    inside = ((rows > 0) & (rows < (1 if high <= 1 else 100))).any(axis=1)
    if high > 100 or inside.mean() <= 0.1:
        return ""
    if high <= 1:
        return (
            "the outputs of a sigmoid: they are in [0, 1], and rows do not sum to 1. Pass the numbers before the "
            "sigmoid. Sets are for rows with one label each, not for several labels at once."
        )
    sums = rows.sum(axis=1, dtype=np.float64)
    if (np.abs(sums - 100) <= 100 * _rounding(data.n_classes)).all():
        return "percentages: every row sums to 100. Divide them by 100, and use Logits.from_probabilities."
    return ""


def check_probabilities(probs: Block, source: str) -> None:
    """Refuse rows that are no probabilities, as closely as the type they came in allows."""
    tolerance = _SUM_TOLERANCE.get(source, _USUAL_TOLERANCE)
    with np.errstate(invalid="ignore"):
        low, total = probs.min(axis=1), probs.sum(axis=1, dtype=np.float64)
    if np.isnan(total).any() or (low < 0).any():
        row = int(np.flatnonzero(np.isnan(total) | (low < 0))[0])
        column = int(np.flatnonzero(np.isnan(probs[row]) | (probs[row] < 0))[0])
        shown = "NaN" if np.isnan(probs[row, column]) else probs[row, column]
        raise InputError(
            f"is {shown}; probabilities must be >= 0. Are these logits?", row=row, name="probs", column=column
        )
    wrong = np.flatnonzero(~(np.abs(total - 1) <= tolerance))
    if len(wrong):
        row = int(wrong[0])
        remedy = "Divide each row by its sum, or pass logits to Logits."
        if (np.abs(total - 100) <= 100 * _OFF).all():
            remedy = "These look like percentages: divide them by 100."
        elif probs.max() <= 1 and np.ptp(total) > 10 * _OFF:
            remedy = "If these are outputs of a sigmoid, pass the numbers before it to Logits."
        raise InputError(
            f"sums to {total[row]:.6g}; {len(wrong)} row(s) do not sum to 1 within {tolerance:g}. {remedy}",
            row=row,
            name="probs",
        )


# ---- rows and labels that are not those of held-out rows -------------------------------------------------------------

_FEWEST = 100  # rows that tell something
_MOST_CLASSES = 2000
_FAR = 0.3  # how much more another order of the classes must explain
_EASY, _RARE = 0.005, 0.01  # the error of an easy problem, and how seldom it gives so few errors
_CLAIMED = 5.0  # errors that the model's own confidence allows for, where there is none: chance is below 1%
_MANY = 500  # rows, all of them right, that need to be told apart from training rows
_HEAD, _DISTINCT = 1000, 50  # rows that tell how fine the numbers are

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def without_judging() -> Iterator[None]:
    """Fit on rows that have been judged already, without saying it again."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def judge_rows(*parts: "Logits") -> str:
    """Warn of what labelled rows show, in one or more parts of one file; signs of training rows, if there are any."""
    if _quiet.get():
        return ""
    labels = np.concatenate([part.require_labels("judging rows") for part in parts])
    if len(labels) < _FEWEST:
        return ""
    top = np.concatenate([top_labels(part) for part in parts])
    if said := doubt_about_order(top, labels, parts[0].n_classes):
        _warn(said)
    _warn_of_repeated(parts)
    signs = training_signs(parts, top, labels, _MANY)
    if signs:
        warn_of_training(signs, "Use rows that the model has not seen, or check the predictor on such rows.")
    elif len(labels) >= _MANY and (top == labels).all():
        _warn(
            f"all {len(labels):,} labels are those of the largest logit. If these are rows that the model was trained "
            "on, coverage of new rows will be lower: use rows that it has not seen."
        )
    return signs


def doubt_about_order(top: Ints, labels: Ints, n_classes: int) -> str:
    """What to say where labels fit the rows far better in another order; empty where they do not."""
    if len(labels) < _FEWEST or (agree := float(np.mean(top == labels))) > 1.0 - _FAR:
        return ""
    said, shifted = f"labels agree with the largest logit in {agree:.0%} of rows", float(np.mean(top == labels - 1))
    if labels.min() >= 1 and shifted > agree + _FAR:
        return f"{said}, and in {shifted:.0%} if 1 is subtracted: do labels start at 1?"
    if n_classes <= _MOST_CLASSES and (other := _best_order(top, labels, n_classes)) > agree + _FAR:
        order = "Are the class names in the order of the columns?"
        return f"{said}; under another order of the classes in {other:.0%}. {order}"
    return ""


def _best_order(top: Ints, labels: Ints, n_classes: int) -> float:
    """How often labels agree under the order that fits best: fitted on every other row, and counted on the others."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - rarely needed

    fitted, counted = slice(0, None, 2), slice(1, None, 2)
    pairs = np.bincount(labels[fitted] * n_classes + top[fitted], minlength=n_classes * n_classes)
    _, order = linear_sum_assignment(pairs.reshape(n_classes, n_classes), maximize=True)
    return float(np.mean(order[labels[counted]] == top[counted]))


def warn_of_training(signs: str, remedy: str) -> None:
    """Say that the model may have been trained on these rows, and that nothing is promised therefore."""
    _warn(
        f"{signs}: are these rows that the model was trained on? Then coverage of new rows will be lower, so none is "
        f"promised. {remedy}"
    )


def training_signs(parts: Sequence["Logits"], top: Ints, labels: Ints, fewest: int) -> str:
    """What says that the model was trained on these rows; empty where nothing does.

    One row in a thousand is wrong at most, and a model that is wrong in one of 200 would do so well with a probability
    below 1%; or none of `fewest` rows is wrong, and confidences of .6 or more on average allow for five errors.
    """
    from scipy.special import bdtr  # noqa: PLC0415 - rarely needed

    wrong, n_rows = int(np.count_nonzero(top != labels)), len(labels)
    if 1000 * wrong > n_rows:
        return ""
    right = f"all {n_rows:,} labels" if not wrong else f"{n_rows - wrong:,} of {n_rows:,} labels"
    if bdtr(wrong, n_rows, _EASY) < _RARE:
        return f"{right} are those of the largest logit"
    claimed = 0.0  # errors: one minus the largest probability of each row
    for block in (block.astype(np.float64) for part in parts for _, block in part.blocks(1 << 12)):
        claimed += float((1.0 - 1.0 / np.exp(block - block.max(axis=1, keepdims=True)).sum(axis=1)).sum())
    if not wrong and n_rows >= fewest and _CLAIMED <= claimed <= 0.4 * n_rows:
        return f"{right} are those of the largest logit, and confidences allow for {claimed:.0f} errors"
    return ""


def _warn_of_repeated(parts: Sequence["Logits"]) -> None:
    """Say so where rows occur several times, other than by chance among numbers of few digits.

    It is no chance where more than one row in twenty is a copy and rows differ nearly always in their two largest
    numbers, or where every row is there the same number of times. Fewer copies change little.
    """
    if any(part.engine is not None or hasattr(part, "top") for part in parts):
        return
    keys = []
    for part in parts:
        rows = row_array((part.n_rows,), np.int64)
        map_rows(part, _row_hashes, [rows])
        keys.append(rows ^ part.require_labels("judging rows"))
    times = np.unique(np.concatenate(keys), return_counts=True)[1]
    copies, distinct = int(times.sum() - len(times)), len(times)
    many = copies >= 3 and 20 * copies > len(times) + copies and parts[0].n_classes > 3
    if (distinct >= _DISTINCT and np.gcd.reduce(times) > 1) or (many and _are_fine(parts[0])):
        warnings.warn(
            f"{copies:,} of {times.sum():,} rows are copies of others, logits and label alike. The law of coverage "
            "takes rows to be drawn one by one: drop the copies, or keep them together with split_by.",
            RepeatedRowsWarning,
            stacklevel=5,
        )


def _row_hashes(block: Block) -> tuple[Ints]:
    exact = block.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    return (np.array([hash(row.tobytes()) for row in exact], dtype=np.int64),)


def _are_fine(data: "Logits") -> bool:
    """Whether numbers have so many digits that two rows are hardly ever equal by chance."""
    head = data.head(_HEAD).astype(np.float64)
    rows = np.unique(head, axis=0)
    largest = np.partition(rows, -2, axis=1)[:, -2:]
    return len(rows) >= max(_DISTINCT, len(head) / 2) and len(np.unique(largest, axis=0)) >= 0.9 * len(rows)


def _warn(message: str) -> None:
    warnings.warn(message, SuspiciousRowsWarning, stacklevel=5)
