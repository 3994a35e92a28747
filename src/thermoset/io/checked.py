"""Blocks of a file's rows, checked: what is said of a bad row counts rows of the file."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from thermoset.data import Logits
from thermoset.data.row_numbers import names_row, renumbered
from thermoset.errors import InputError
from thermoset.io.files import Request, build

__all__ = ["checked_block", "checked_shape"]


def checked_block(
    request: Request,
    scores: Any,
    first_row: int,
    n_rows: int | None,
    classes: tuple[str, ...] | None = None,
    groups: Sequence[object] | None = None,
) -> Logits:
    """Make `Logits` of the rows from `first_row` on, out of `n_rows` if that is known."""
    try:
        return build(request, scores, None, classes, groups)
    except InputError as error:
        text, end = str(error), first_row + len(scores)
        if names_row(text):
            text = renumbered(text, lambda row: first_row + row)
            text += "" if end == n_rows else f" Rows from {end} on were not looked at."
        raise type(error)(text) from None


def checked_shape(shape: tuple[int | None, ...], request: Request, *, fewest: int = 1) -> tuple[int | None, int]:
    """Let `Logits` judge the shape before rows are read; there must be so many of them."""
    known = tuple(1 if size is None else size for size in shape)
    if len(known) != 2 or known[0] < fewest or known[1] < 2:
        build(request, np.broadcast_to(0.0, known))
    return shape[0], known[1]
