"""Sets of a predictor whose temperature and threshold come from the same rows: unions over several temperatures.

See `tuning.full` for why, and the guide ("All rows for both") for the proof.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.classifier import ConformalClassifier
from thermoset.conformal.recipes import Recipe
from thermoset.data import Logits
from thermoset.errors import CoverageWarning
from thermoset.predictor.artifact import Artifact, Measure
from thermoset.predictor.members import Member, Thresholds
from thermoset.predictor.rule import SetRule
from thermoset.tuning.full import Winners

__all__ = ["with_members"]


def with_members(artifact: Artifact, found: Winners, recipe: Recipe, data: Logits, ids: Any) -> Artifact:
    """The document with every temperature that could win; as it is where T-hat alone speaks for all classes.

    Sizes are those of the unions, and no class gap is said of them: that of the sets at T-hat is in the choice.
    """
    members = found.members
    if len(members) == 1:
        return artifact
    united = msgspec.structs.replace(artifact, members=_made(members, recipe, data, ids))
    sizes = SetRule(united, recipe.set_score).sets(data, ids).sum(axis=1)
    measures = _measured(artifact.measures, sizes)
    return msgspec.structs.replace(united, sizes=tuple(np.bincount(sizes).tolist()), measures=measures)


def _made(
    members: list[tuple[float, tuple[int, ...] | None]], recipe: Recipe, data: Logits, ids: Any
) -> tuple[Member, ...]:
    """Each temperature with its threshold from all rows."""
    made = []
    for temperature, classes in members:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)  # T-hat's own fit says so, once
            fitted = ConformalClassifier.of(recipe, temperature).fit(data, ids=ids)
        made.append(Member(temperature=temperature, thresholds=Thresholds.of(fitted.thresholds_), classes=classes))
    return tuple(made)


def _measured(measures: Sequence[Measure], sizes: NDArray[np.int64]) -> tuple[Measure, ...]:
    """The measures of sets at T-hat as they are for the union.

    >>> of_hat = [Measure(name="avg_size", value=2.0, low=1.5, high=2.5)]
    >>> _measured(of_hat, np.array([1, 3, 3, 3]))
    (Measure(name='avg_size', value=2.5, low=2.0, high=3.0),)
    """
    seen = {"avg_size": float(sizes.mean()), "empty_share": float((sizes == 0).mean())}
    kept = [made for made in measures if made.name not in ("class_gap", "top_coverage_gap")]
    return tuple(_moved(made, seen.get(made.name, made.value)) for made in kept)


def _moved(made: Measure, value: float) -> Measure:
    """The same with another value, and an interval as wide around it."""
    by = value - made.value
    return msgspec.structs.replace(
        made,
        value=value,
        low=None if made.low is None else made.low + by,
        high=None if made.high is None else made.high + by,
    )
