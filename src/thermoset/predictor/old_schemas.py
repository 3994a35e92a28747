"""Documents that older versions wrote, translated into today's fields."""

from typing import Any

import msgspec

from thermoset.errors import FileFormatError
from thermoset.tuning.preferences import read_preference

__all__ = ["OLD_SCHEMAS", "translate"]


def translate(document: dict[str, Any], schema: int) -> None:
    """Give a decoded document of an older schema the fields of this one, in place."""
    for old, step in _STEPS.items():
        if old >= schema:
            step(document)


_GROUPINGS_OF_SCHEMA_1 = {"mondrian": "class", "clustered": "cluster"}
_WORDS = {"small": "size", "even": "coverage"}  # of preferences, up to schema 3


def _from_schema_1(document: dict[str, Any]) -> None:
    """Other names for groupings, preferences as text, and u from the bits of a row."""
    choice: Any = document.get("choice")
    old = "class_conditional" in document and isinstance(choice, dict) and isinstance(choice.get("prefer"), str)
    if not old or {"grouping", "scheme"} & document.keys() or "preference" in choice:
        raise FileFormatError("is damaged or was edited: its fields are not those of schema 1.")
    grouping = document.pop("class_conditional")
    if isinstance(grouping, str):
        grouping = _GROUPINGS_OF_SCHEMA_1.get(grouping, f"{grouping} of schema 1")  # its names alone are known in it
    asked = choice.pop("prefer")
    preference = read_preference(asked)
    if _WORDS.get(preference.text, preference.text) != asked:
        raise FileFormatError("is not a usable predictor: choice must have a preference.")
    choice["preference"] = msgspec.to_builtins(preference)
    document.update(grouping=grouping, scheme=1)


_UNKNOWN_TO_SCHEMA_2 = {"class_gap": None, "class_gap_ends": None}


def _from_schema_2(document: dict[str, Any]) -> None:
    """Choices that knew TopCovGap alone, with an error that was wrong; class gaps are unknown."""
    try:
        choice: Any = document["choice"]
        for at in choice["outlooks"]:
            del at["top_gap_error"]
            at.update(_UNKNOWN_TO_SCHEMA_2)
        for versus in choice["comparisons"]:
            del versus["top_gap"], versus["top_gap_error"]
            versus.update(_UNKNOWN_TO_SCHEMA_2)
        choice["rows_needed"] = None
    except (TypeError, KeyError, AttributeError):
        raise FileFormatError("is damaged or was edited: its choice does not fit its schema.") from None


def _from_schema_3(document: dict[str, Any]) -> None:
    """Choices of a temperature alone: one kind of sets, one level, no members, nothing known of who pays."""
    if "members" in document:
        raise FileFormatError("is damaged or was edited: its fields are not those of its schema.")
    try:
        choice: Any = document["choice"]
        if choice.pop("temperature") != document["temperature_sets"]:
            raise FileFormatError("is not a usable predictor: choice must be that of the sets.")
        setting = {
            "method": document["method"],
            "randomized": document["seed"] is not None or document["method"]["name"] in ("lac", "margin"),
            "grouping": document["grouping"],
            "alpha": document["alpha"],
        }
        for at in choice["outlooks"]:
            at["setting"] = setting | {"temperature": at.pop("temperature")}
        choice.update(alpha=document["alpha"], methods=[], sure=None, frontier=[], signal={})
        asked = document["provenance"]["prefer"]
        new = {old: word for word, old in _WORDS.items()}
        document["provenance"]["prefer"] = new.get(asked, asked)
        document["alpha_sets"] = document["alpha"]
    except (TypeError, KeyError, AttributeError):
        raise FileFormatError("is damaged or was edited: its fields are not those of schema 3.") from None


def _from_schema_4(document: dict[str, Any]) -> None:
    """No scores of conformal rows; that these held only their largest logits was told by a measure."""
    try:
        came: Any = document["provenance"]
        if "scores" in document or "top_rows" in came:
            raise FileFormatError("is damaged or was edited: its fields are not those of its schema.")
        came["top_rows"] = any(one["name"] == "undecided_share" for one in document["measures"])
    except (TypeError, KeyError, AttributeError):
        raise FileFormatError("is damaged or was edited: its fields are not those of its schema.") from None


def _from_schema_5(document: dict[str, Any]) -> None:
    """Nothing known of what it was tuned on, nor of labels of probability zero, which were refused."""
    came: Any = document.get("provenance")
    new = {"calibration_zero_labels", "conformal_zero_labels"}
    if "input_kind" in document or not isinstance(came, dict) or new & came.keys():
        raise FileFormatError("is damaged, or was edited: its fields are not those of its schema.")


_STEPS = {1: _from_schema_1, 2: _from_schema_2, 3: _from_schema_3, 4: _from_schema_4, 5: _from_schema_5}

OLD_SCHEMAS = tuple(_STEPS)
"""Schemas that are translated."""
