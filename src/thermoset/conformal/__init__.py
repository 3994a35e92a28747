"""Prediction sets: thresholds from conformal rows, sets from thresholds.

`recipes` says how sets are made, `groupings` which classes share a threshold, `classifier` fits and predicts.
"""

from thermoset.conformal.classifier import (
    ConformalClassifier,
    PooledScores,
    Scoring,
    fitted_at,
    scores,
    sets_under,
    sizes_under,
)
from thermoset.conformal.groupings import GROUPINGS, Grouping
from thermoset.conformal.recipes import Recipe

__all__ = [
    "GROUPINGS",
    "ConformalClassifier",
    "Grouping",
    "PooledScores",
    "Recipe",
    "Scoring",
    "fitted_at",
    "scores",
    "sets_under",
    "sizes_under",
]
