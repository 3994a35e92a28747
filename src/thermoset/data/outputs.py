"""What training frameworks return: logits and labels in one object, recognised by its shape without an import.

| object | logits | labels |
|---|---|---|
| Hugging Face `PredictionOutput`, `EvalPrediction` | `predictions` | `label_ids` |
| a mapping, as Hugging Face's `ModelOutput`, an open npz archive or a plain dict | `logits` | `labels` or `label` |
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from thermoset.data.labels import one_column
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["GROUPS", "LABELS", "NAMES", "Output", "unpacked"]

LABELS = ("labels", "label")
NAMES = ("classes", "class_names")
GROUPS = ("groups",)
NO_LABEL = (-100, -1)  # Hugging Face's ignored index, and the label of unlabelled test rows (GLUE)


class Output(NamedTuple):
    """The parts of an output; labels, class names and groups where it has them."""

    logits: Any
    labels: Any
    classes: Any
    groups: Any


def unpacked(value: object) -> Output | None:
    """Take an output apart; None if it is something else, such as an array.

    >>> unpacked({"logits": [[0.0, 1.0]], "labels": [1]})
    Output(logits=[[0.0, 1.0]], labels=[1], classes=None, groups=None)
    >>> unpacked([[0.0, 1.0]]) is None
    True
    """
    if isinstance(value, Mapping):
        return _mapping(value)
    if hasattr(value, "shape") or not (hasattr(value, "predictions") and hasattr(value, "label_ids")):
        return None  # a frame may have columns of these names
    return _prediction_output(value.predictions, value.label_ids)


def _mapping(value: Mapping[Any, Any]) -> Output:
    if "logits" not in value:
        keys = ", ".join(map(quoted, islice(value, 5))) or "none"
        raise InputError(f"a mapping needs the key 'logits'; got these keys: {keys}. Pass the array of logits itself.")
    beside = (next((value[name] for name in names if name in value), None) for names in (LABELS, NAMES, GROUPS))
    return Output(value["logits"], *beside)


def _prediction_output(predictions: Any, label_ids: Any) -> Output:
    if isinstance(label_ids, (tuple, list)) and any(hasattr(part, "shape") for part in label_ids):
        raise InputError(
            f"label_ids holds {len(label_ids)} arrays; expected one, with the label of each row. "
            f"Pass Logits(output.predictions, labels=...)."
        )
    labels = None if label_ids is None else one_column(label_ids, "label_ids")
    if labels is not None and labels.ndim != 1:
        raise InputError(_why_not_one_label(labels.shape))
    logits = predictions
    if isinstance(predictions, (tuple, list)) and any(hasattr(part, "shape") for part in predictions):
        logits = _only_matrix(predictions)
    return Output(logits, _without_placeholders(labels), None, None)


def _why_not_one_label(shape: tuple[int, ...]) -> str:
    return (
        f"label_ids has shape {shape}; expected one label per row. Multi-label outputs are not supported; for token "
        f"labels, keep the tokens whose label is not -100: Logits(predictions[keep], label_ids[keep])."
    )


def _only_matrix(parts: Sequence[Any]) -> Any:
    """The logits among what a model returned beside them, such as hidden states, which have another axis."""
    shapes = [tuple(part.shape) if hasattr(part, "shape") else () for part in parts]
    found = [part for part, shape in zip(parts, shapes, strict=True) if len(shape) == 2]
    if len(found) != 1:
        raise InputError(
            f"predictions holds arrays of shapes {', '.join(map(str, shapes))}; expected exactly one (rows, classes). "
            f"Pass the logits: Logits(output.predictions[0], labels=output.label_ids)."
        )
    return found[0]


def _without_placeholders(labels: Any) -> Any:
    """No labels where every one is the placeholder of an unlabelled row; a single one among others is an error."""
    if labels is None or labels.dtype.kind not in "iu" or labels.size == 0:
        return labels
    missing = np.isin(labels, NO_LABEL)
    if missing.all():
        return None
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise InputError(
            f"is {labels[row]}, which marks a row without a label; {missing.sum()} such value(s). "
            "Drop those rows from predictions and label_ids.",
            row=row,
            name="label_ids",
        )
    return labels
