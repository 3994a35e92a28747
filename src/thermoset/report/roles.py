"""Which rows may judge: never those that set the threshold."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from thermoset.arrays import Ints
from thermoset.data import Logits
from thermoset.data.splits import split_indices
from thermoset.errors import InputError
from thermoset.predictor.document import Document
from thermoset.predictor.leakage import find_leakage, find_split, fingerprint

__all__ = ["Roles", "roles_of"]


@dataclass(frozen=True, eq=False)
class Roles:
    """Row numbers by what they do on the page, and the hash of all rows.

    `judged`: the predictor is measured on them. `reference`: they set thresholds at temperatures for which the
    predictor has none. `compared`: sets at those temperatures are shown for them.
    """

    sha256: str
    origin: Literal["fresh", "calibration"]
    judged: Ints
    reference: Ints
    compared: Ints


def roles_of(data: Logits, made: Document, split_by: Any = None) -> Roles:
    """Find out whether the predictor was made from these rows, and give every row its role.

    All rows that it was made from are split as then: the calibration rows judge, the conformal rows are the reference.
    Rows that set the threshold are refused otherwise. Rows that are new to it, and calibration rows, all judge, and are
    halved at random for the comparison of temperatures.
    """
    matched = find_leakage(made, data)
    seen = fingerprint(data)
    split = find_split(data, made, split_by)
    if split is not None:
        return Roles(seen, "calibration", split[0], split[1], split[0])
    if matched.conformal.leaked:
        raise InputError(
            f"{matched.sentence}, and coverage on rows that set the threshold shows nothing. Pass fresh labelled rows, "
            "or all rows that the predictor was fitted on, in the same order and with the same split_by."
        )
    reference, compared = split_indices(len(data), 0.5, random_state=made.recipe.random_state)
    origin: Literal["fresh", "calibration"] = "calibration" if matched.calibration.leaked else "fresh"
    return Roles(seen, origin, np.arange(len(data)), reference, compared)
