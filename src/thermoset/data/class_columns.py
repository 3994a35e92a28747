"""Which columns of a table can be classes: an id or a label that became a class would spoil every set.

A table has a column of logits for each class, and often others as well. A column is doubted because of its name,
or because it holds whole numbers where logits have fractions; neither is proof, so the user says what it is.
"""

import re
import shlex
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data.arrays import DEFAULT_COLUMNS, Floats
from thermoset.errors import InputError
from thermoset.quoting import printable, quoted

__all__ = ["check_class_columns", "most_rows", "not_a_class"]

SAMPLE_BYTES = 1 << 20  # of the rows that are looked at: enough to tell whole numbers from logits
MOST_ROWS = 1000
CHANCE = 1e-6  # that some column of logits has no fraction in any row, below which it is no coincidence

_ID = re.compile(
    r"(?:.*[\W_])?(?:ids?|idx|index|uuid|guid|row|row[\W_]?(?:num|no|number|id))|unnamed: \d+", re.IGNORECASE
)
_CAMEL_ID = re.compile(r"[A-Za-z]*[a-z]I[dD]")
_SPLIT = re.compile(r"[\W_]+")
_LABEL = ("ytrue", "target", "targets", "truelabel", "truelabels", "labelid", "labelidx", "class", "classidx", "gt")
_LABELS = frozenset((*_LABEL, "classindex", "trueclass", "gold", "goldlabel", "groundtruth", "label", "labels"))
_LETTER = "y"  # of labels, and of the alphabet
_PREDICTIONS = frozenset(("pred", "preds", "prediction", "predictions", "predicted", "predictedlabel", "ypred"))
_NUMBERED = frozenset(("fold", "group", "epoch", "step", "batch"))
_WEIGHTS = ("weight", "weights", "sampleweight", "sampleweights")
_MEASURED = frozenset((*_WEIGHTS, "timestamp", "confidence", "loss", "nll", "entropy"))


class _Doubt(NamedTuple):
    """A column that may not be a class: why, and the option that says what it is."""

    name: str
    why: str
    option: str | None = None


def check_class_columns(names: Sequence[str], rows: Floats, known: Collection[str] = ()) -> None:
    """Refuse a table of which a column does not look like a class; `known` are names of classes for certain.

    >>> check_class_columns(["id", "cat", "dog"], np.array([[1.0, 0.5, 0.1], [2.0, 0.1, 1.5]]))
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: column 'id' looks like ids. Add --id-column id or --ignore id if it is not a class, \
or list the classes with --classes (in Python: id_column=, ignore=, classes=).
    >>> check_class_columns(["id", "cat", "dog"], np.array([[1.5, 0.5, 0.1], [2.0, 0.1, 1.5]]))
    """
    sure = frozenset(known)
    doubt = _beside_numbered(names, sure) or _unlike_logits(names, _sample(rows), sure)
    if doubt is not None:
        raise InputError(not_a_class(doubt.name, doubt.why, doubt.option))


def not_a_class(name: str, why: str, option: str | None = None) -> str:
    """What to say of a column that cannot be taken for a class: what is wrong with it, and what to type.

    >>> not_a_class("site", "holds text")[:60]
    "column 'site' holds text. Add --ignore site if it is not a c"
    """
    options = [*([] if option is None else [option]), "ignore"]
    shown = printable(name, 40)
    typed = " or ".join(f"--{one.replace('_', '-')} {shlex.quote(_listed(shown, one))}" for one in options)
    python = ", ".join(f"{one}=" for one in (*options, "classes"))
    return (
        f"column {quoted(name)} {why}. Add {typed} if it is not a class, or list the classes with --classes "
        f"(in Python: {python})."
    )


def _listed(name: str, option: str) -> str:
    """A name as an option takes it: one that takes several, with commas, wants quotes around a comma."""
    return f'"{name}"' if option == "ignore" and "," in name else name


def _sample(rows: NDArray[Any]) -> NDArray[Any]:
    """Some rows, evenly spaced: all of them where they are few."""
    return rows[:: -(-len(rows) // most_rows(rows.shape[1])) or 1]


def most_rows(n_classes: int) -> int:
    """How many rows are looked at.

    >>> most_rows(10), most_rows(1_000_000)
    (1000, 8)
    """
    return max(8, min(MOST_ROWS, SAMPLE_BYTES // (8 * max(n_classes, 1))))


def _beside_numbered(names: Sequence[str], sure: Collection[str]) -> _Doubt | None:
    """A column beside `logit_0`, `logit_1` and so on, which are the classes then."""
    held = set(names)
    for stem in DEFAULT_COLUMNS:
        run = 0
        while f"{stem}{run}" in held:
            run += 1
        numbered = {f"{stem}{i}" for i in range(run)}
        others = [name for name in names if name not in numbered and name not in sure]
        if run > 1 and others:
            why = f"is next to {stem}0 to {stem}{run - 1}, which look like all classes"
            return _Doubt(others[0], why, _option_of(others[0]))
    return None


def _unlike_logits(names: Sequence[str], rows: NDArray[Any], sure: Collection[str]) -> _Doubt | None:
    """The first column whose name or whose numbers are not those of a class."""
    for name in names:
        if name not in sure and _plain(name) in _MEASURED:
            return _Doubt(name, "looks like metadata of the rows")
    finite = np.isfinite(rows)
    with np.errstate(invalid="ignore"):
        if len(rows) == 0 or _are_probabilities(rows):
            return None  # whole ones are 0 and 1, and without one of the columns rows would not sum to 1
        fractions = finite & (rows != np.floor(rows))
    others = fractions.any(axis=0)
    n_cells = int(finite[:, others].sum())
    share = (n_cells - int(fractions.sum()) + 1) / (n_cells + 2)  # of whole numbers among logits, never quite 0
    for place in np.flatnonzero(finite.any(axis=0) & ~others).tolist():
        name, values = names[place], rows[finite[:, place], place]
        if name in sure:
            continue
        if (doubt := _by_name(name, fractional=bool(n_cells))) is not None:
            return doubt
        masked = values[0] <= 0 and (values == values[0]).all()  # such as 0 of a reference, or -10,000
        if n_cells and not masked and len(names) * share ** len(values) < CHANCE:
            return _Doubt(name, "holds whole numbers, and the others have fractions", "id_column")
    return None


def _are_probabilities(rows: NDArray[Any]) -> bool:
    """Whether rows sum to 1, as closely as any type of floats can tell."""
    if not ((rows >= 0) & (rows <= 1)).all():  # so that sums cannot overflow
        return False
    return bool((np.abs(rows.sum(axis=1, dtype=np.float64) - 1) <= 2e-2).all())


def _by_name(name: str, fractional: bool) -> _Doubt | None:
    """What a column of whole numbers is by its name; `fractional` tells whether others have fractions."""
    plain, option = _plain(name), _option_of(name)
    if option is not None and (plain != _LETTER or fractional):
        return _Doubt(name, f"looks like {'ids' if option == 'id_column' else 'labels'}", option)
    if plain in _PREDICTIONS:
        return _Doubt(name, "looks like predictions")
    return _Doubt(name, "looks like metadata of the rows", "groups") if plain in _NUMBERED else None


def _option_of(name: str) -> str | None:
    """The option by which a column of such a name is given."""
    if _plain(name) in _LABELS or _plain(name) == _LETTER:
        return "labels"
    return "id_column" if _ID.fullmatch(name.strip()) or _CAMEL_ID.fullmatch(name.strip()) else None


def _plain(name: str) -> str:
    return _SPLIT.sub("", name.lower())
