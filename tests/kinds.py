"""Predictors by what they were tuned on."""

from copy import copy

import msgspec

import thermoset as ts


def of_probabilities(predictor: ts.TwoTemperaturePredictor) -> ts.TwoTemperaturePredictor:
    """The same predictor as if it had been tuned on probabilities, whose logarithms are logits."""
    other = copy(predictor)
    other._adopt(msgspec.structs.replace(predictor.document_, input_kind="probabilities"), predictor.recipe.score)
    return other
