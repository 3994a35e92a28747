"""Which rows may judge: never those that set the threshold."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from thermoset.core.exponentials import Ints
from thermoset.data import Logits
from thermoset.data.splits import split_indices
from thermoset.errors import InputError
from thermoset.predictor.artifact import Provenance, fingerprint

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


def roles_of(data: Logits, came: Provenance, split_by: Any = None) -> Roles:
    """Find out whether the predictor was made from these rows, and give every row its role.

    Rows it was made from are split as then: the calibration rows judge, the conformal rows are the reference. Rows that
    are new to it all judge, and are halved at random for the comparison of temperatures.
    """
    seen = fingerprint(data, came.conformal_sha256)
    if seen == came.conformal_sha256:
        raise InputError(
            "these are the rows that set the threshold, and coverage on them shows nothing. Pass fresh labelled rows, "
            "or all rows that the predictor was made from."
        )
    if len(data) == came.calibration_rows + came.conformal_rows:
        calibration, conformal = split_indices(
            len(data), came.calibration_fraction, random_state=came.random_state, groups=split_by
        )
        if fingerprint(data.take(calibration), came.calibration_sha256) == came.calibration_sha256:
            return Roles(seen, "calibration", calibration, conformal, calibration)
    reference, compared = split_indices(len(data), 0.5, random_state=came.random_state)
    origin: Literal["fresh", "calibration"] = "calibration" if seen == came.calibration_sha256 else "fresh"
    return Roles(seen, origin, np.arange(len(data)), reference, compared)
