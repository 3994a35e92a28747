"""Whether fresh labelled rows keep what a fitted predictor promised."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from thermoset.calibration import probabilities
from thermoset.conformal.recipes import Recipe
from thermoset.data import Logits
from thermoset.monitor.checking import CheckReport, Promise, check
from thermoset.predictor.artifact import Artifact
from thermoset.predictor.rule import SetRule

__all__ = ["judged", "promise_of"]


def promise_of(made: Artifact, recipe: Recipe) -> Promise:
    """What coverage was promised, and by how many rows."""
    return Promise(
        alpha=made.alpha,
        pool_sizes=np.array(made.pool_sizes),
        grouping=made.grouping,
        exact=recipe.exact and _is_plain(made),
        group_of_class=None if made.group_of_class is None else np.array(made.group_of_class),
    )


def _is_plain(made: Artifact) -> bool:
    """Whether the threshold is that of the promised level, from rows that nothing was chosen on."""
    return made.alpha_sets == made.alpha and (made.provenance.selection != "full" or made.provenance.recalibrated)


def judged(data: Logits, labels: Any, made: Artifact, recipe: Recipe, fail_on: str | Iterable[str]) -> CheckReport:
    """The sets and the confidence that a predictor gives these rows, against their labels."""
    sets, probs = SetRule(made, recipe.set_score).sets(data), probabilities(data, made.temperature)
    return check(sets, probs, labels, promise_of(made, recipe), fail_on=fail_on, class_names=made.classes)
