"""What files of largest logits hold, by whatever names, and the rows that it makes."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from thermoset.data.labels import column_indices
from thermoset.data.top import TopLogits
from thermoset.errors import FileFormatError
from thermoset.io.files import GROUPS, LABELS, NAMES, Request, first_of, named_classes
from thermoset.io.names import group_name, label_name
from thermoset.quoting import quoted

__all__ = ["ROLES", "Parts", "made", "parts_of", "roles_of"]

ROLES: Mapping[str, tuple[str, ...]] = {
    "indices": ("top_indices", "top_k_indices", "topk_indices", "indices"),
    "logits": ("top_logits", "top_k_logits", "topk_logits", "top_k_values", "topk_values", "values"),
    "logprobs": ("top_logprobs", "top_k_logprobs", "topk_logprobs", "logprobs"),
    "log_rest": ("log_rest",),
    "rest_temperatures": ("rest_temperatures",),
    "log_sum_exp": ("log_sum_exp", "logsumexp"),
    "n_classes": ("n_classes",),
    "labels": LABELS,
    "classes": NAMES,
    "groups": GROUPS,
}
"""What an array is, by the names it goes by; the first is the one that is written."""

WHOLE = ("logits", "logit", "probs", "probabilities", "prob")  # a file with one of these has whole rows

Parts = dict[str, Any]
"""Arrays by role."""


def roles_of(held: Collection[str], request: Request) -> dict[str, str]:
    """What the arrays of a file are, by role; nothing if it is no file of largest logits.

    >>> roles_of(["values", "indices", "labels"], Request(False, 0, True))
    {'indices': 'indices', 'logits': 'values', 'labels': 'labels'}
    >>> roles_of(["logits", "indices", "values"], Request(False, 0, True))
    {}
    """
    found = {role: name for role, names in ROLES.items() if (name := first_of(names, held)) is not None}
    scored = "logits" in found or "logprobs" in found
    if "indices" not in found or not scored or first_of(WHOLE, held) is not None:
        return {}
    labels = label_name(held, request) if request.find_labels else None
    beside = {"labels": labels, "groups": group_name(held, request)}
    others = {role: name for role, name in found.items() if role not in beside}
    return others | {role: name for role, name in beside.items() if name is not None}


def made(parts: Parts, request: Request) -> TopLogits:
    """The rows of a file, checked."""
    if request.probabilities:
        raise FileFormatError("holds the largest logits of each row, not probabilities. Leave out probabilities.")
    values, sums = parts.get("logits"), parts.get("log_sum_exp")
    if values is None:
        values, sums = parts["logprobs"], np.zeros(len(parts["logprobs"]))
    rows = TopLogits(
        values,
        parts["indices"],
        _n_classes(parts, request),
        log_rest=parts.get("log_rest"),
        rest_temperatures=parts.get("rest_temperatures"),
        log_sum_exp=None if "log_rest" in parts else sums,
        classes=named_classes(request, parts.get("classes")),
        groups=parts.get("groups"),
    )
    labels = parts.get("labels")
    shape = rows.n_rows, rows.n_classes
    return rows if labels is None else rows.labelled(column_indices(labels, shape, rows.classes))


def _n_classes(parts: Parts, request: Request) -> int:
    """How many classes there are: what the file says, its class names, or what was asked for."""
    declared = parts.get("n_classes")
    if declared is not None:
        number = np.asarray(declared)
        if number.size != 1 or number.dtype.kind not in "iu":
            raise FileFormatError(f"n_classes must be one whole number; got {quoted(declared)}.")
        return int(number.reshape(-1)[0])
    if (names := named_classes(request, parts.get("classes"))) is not None:
        return len(names)
    if request.n_options is not None:
        return request.n_options
    raise FileFormatError(
        "holds the largest logits of each row and does not say how many classes there are. Add n_classes to the file, "
        "or pass n_options."
    )


def parts_of(rows: TopLogits) -> Parts:
    """What is written of rows; labels in the smallest type that numbers the classes."""
    parts: Parts = {"indices": rows.top_indices, "logits": rows.top_logits}
    if rows.log_rest is not None:
        parts["log_rest"] = rows.log_rest
    if rows.log_sum_exp is not None:
        parts["log_sum_exp"] = rows.log_sum_exp
    if rows.labels is not None:
        parts["labels"] = rows.labels.astype(np.min_scalar_type(rows.n_classes - 1))
    return parts
