"""Files of rows that hold only their largest logits, as `thermoset.save` and others write them.

| column | content |
|---|---|
| `top_indices` (n, K) | the classes, counted from 0 |
| `top_logits` (n, K) | their logits, in any order |
| `log_rest` (n, S), `rest_temperatures` (S,) | log-sums of the other classes, or |
| `log_sum_exp` (n,) | that of all classes at T = 1, or nothing |
| `n_classes` | how many classes there are |
| `labels` (n,), `classes` (C,), `groups` (n,) | as in files of whole rows |

`n_classes` and `rest_temperatures` may stand in the metadata. Other names in use are read too (`ROLES`).
Log-probabilities (`logprobs`) need no sum: that of all classes is 0.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from thermoset.data.top_k import TopLogits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.roles import Layout, Request, class_names_in, first_of, group_name, label_name, named_classes
from thermoset.io.table import Column, Held, Table, read_all
from thermoset.quoting import quoted

ROLES: Mapping[str, tuple[str, ...]] = {
    "indices": ("top_indices", "top_k_indices", "topk_indices", "indices"),
    "logits": ("top_logits", "top_k_logits", "topk_logits", "top_k_values", "topk_values", "values"),
    "logprobs": ("top_logprobs", "top_k_logprobs", "topk_logprobs", "logprobs"),
    "log_rest": ("log_rest",),
    "log_sum_exp": ("log_sum_exp", "logsumexp"),
}
"""What a column is, by the names it goes by; the first is the one that is written."""

_WHOLE = ("logits", "logit", "probs", "probabilities", "prob")  # a file with one of these has whole rows


class TopColumns(NamedTuple):
    """The columns of largest logits by role, and what the file says of all rows: the scores of such a file."""

    parts: Mapping[str, Column]
    n_classes: int
    temperatures: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""
        return self.parts["indices"].shape[0], self.n_classes

    def rows(self, start: int, stop: int, classes: Any, groups: Any) -> TopLogits:
        """Rows start to stop - 1, without labels."""
        found: dict[str, Any] = {role: column.read(start, stop) for role, column in self.parts.items()}
        is_normalised = "logits" not in found
        sums = np.zeros(stop - start) if is_normalised else found.get("log_sum_exp")
        return TopLogits(
            found["logprobs" if is_normalised else "logits"],
            found["indices"],
            self.n_classes,
            log_rest=found.get("log_rest"),
            rest_temperatures=self.temperatures,
            log_sum_exp=None if "log_rest" in found else sums,
            classes=classes,
            groups=groups,
        )


def find_top(table: Table, asked: Request) -> Layout | None:
    """The columns of a file of largest logits; None if it is of another kind."""
    held = table.columns
    roles = {role: name for role, names in ROLES.items() if (name := first_of(names, held)) is not None}
    if first_of(_WHOLE, held) is not None or "indices" not in roles or not roles.keys() & {"logits", "logprobs"}:
        return None
    parts = {role: held[name] for role, name in roles.items()}
    if len(parts["indices"].shape) != 2:
        return None
    if asked.probabilities:
        raise FileFormatError("contains the largest logits of each row, not probabilities. Leave out probabilities.")
    if asked.id_column is not None:
        raise InputError("ids cannot be read from files of largest logits. Omit id_column.")
    labels = label_name(held, asked) if asked.find_labels else None
    groups = group_name(held, asked)
    classes = named_classes(asked, class_names_in(table, asked.max_bytes))
    temperatures = _fact(table, "rest_temperatures") if "log_rest" in parts else None
    scores = TopColumns(parts, _n_classes(table, classes, asked), temperatures)
    return Layout(scores, classes, None if labels is None else held[labels], None if groups is None else held[groups])


def _fact(table: Table, name: str) -> Any:
    if name in table.columns:
        column = table.columns[name]
        return read_all(column) if column.shape else column.array  # type: ignore[attr-defined]  # a single number is held
    return table.metadata.get(name)


def _n_classes(table: Table, classes: Any, asked: Request) -> int:
    """How many classes there are: what the file says, its class names, or what was asked for."""
    declared = _fact(table, "n_classes")
    if declared is not None:
        number = np.asarray(declared)
        if number.size != 1 or number.dtype.kind not in "iu":
            raise FileFormatError(f"n_classes must be one whole number; got {quoted(declared)}.")
        return int(number.reshape(-1)[0])
    n_classes = asked.n_options if classes is None else len(classes)
    if n_classes is None:
        raise FileFormatError(
            "contains the largest logits of each row and does not say how many classes there are. Add n_classes to "
            "the file, or pass n_options."
        )
    return n_classes


def top_table(rows: TopLogits) -> Table:
    """What is written of rows; labels in the smallest type that numbers the classes."""
    parts: dict[str, Any] = {"top_indices": rows.top_indices, "top_logits": rows.top_logits}
    metadata: dict[str, Any] = {"n_classes": rows.n_classes}
    if rows.log_rest is not None:
        parts["log_rest"], metadata["rest_temperatures"] = rows.log_rest, list(rows.rest_temperatures)
    if rows.log_sum_exp is not None:
        parts["log_sum_exp"] = rows.log_sum_exp
    if rows.labels is not None:
        parts["labels"] = rows.labels.astype(np.min_scalar_type(rows.n_classes - 1))
    if rows.groups is not None:
        parts["groups"] = np.array(rows.groups.names, dtype=object)[rows.groups.codes]
    if rows.classes is not None:
        metadata["classes"] = list(rows.classes)
    return Table({name: Held(np.ascontiguousarray(part)) for name, part in parts.items()}, metadata)
