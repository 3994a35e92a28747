"""Documents that older versions wrote, translated into today's fields."""

from typing import Any

import msgspec

from thermoset.errors import FileFormatError
from thermoset.tuning import read_preference

__all__ = ["translate"]


def translate(document: dict[str, Any], schema: int) -> None:
    """Give a decoded document of an older schema the fields of this one, in place."""
    if schema == 1:
        _from_schema_1(document)
    if schema <= 2:
        _from_schema_2(document.get("choice"))
    _from_schema_3(document)


_GROUPINGS_OF_SCHEMA_1 = {"mondrian": "class", "clustered": "cluster"}


def _from_schema_1(document: dict[str, Any]) -> None:
    """Other names for groupings, preferences as text, and u from the bits of a row."""
    choice: Any = document.get("choice")
    old = "class_conditional" in document and isinstance(choice, dict) and isinstance(choice.get("prefer"), str)
    if not old or {"grouping", "scheme"} & document.keys() or "preference" in choice:
        raise FileFormatError("is damaged, or was edited: its fields are not those of schema 1.")
    grouping = document.pop("class_conditional")
    if isinstance(grouping, str):
        grouping = _GROUPINGS_OF_SCHEMA_1.get(grouping, f"{grouping} of schema 1")  # its names alone are known in it
    asked = choice.pop("prefer")
    preference = read_preference(asked)
    if preference.text != asked:
        raise FileFormatError("is no usable predictor: choice must have a preference.")
    choice["preference"] = msgspec.to_builtins(preference)
    document.update(grouping=grouping, scheme=1)


_UNKNOWN_TO_SCHEMA_2 = {"class_gap": None, "class_gap_ends": None}


def _from_schema_2(choice: Any) -> None:
    """Choices that knew TopCovGap alone, with an error that was wrong; class gaps are unknown."""
    try:
        for at in choice["outlooks"]:
            del at["top_gap_error"]
            at.update(_UNKNOWN_TO_SCHEMA_2)
        for versus in choice["comparisons"]:
            del versus["top_gap"], versus["top_gap_error"]
            versus.update(_UNKNOWN_TO_SCHEMA_2)
        choice["rows_needed"] = None
    except (TypeError, KeyError, AttributeError):
        raise FileFormatError("is damaged, or was edited: its choice is not one of its schema.") from None


def _from_schema_3(document: dict[str, Any]) -> None:
    """Sets at T-hat alone."""
    if "members" in document:
        raise FileFormatError("is damaged, or was edited: its fields are not those of its schema.")
