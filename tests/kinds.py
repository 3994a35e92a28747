"""Predictors by what they were tuned on."""

from copy import copy

import thermoset as ts


def of_probabilities(predictor: ts.TwoTemperaturePredictor) -> ts.TwoTemperaturePredictor:
    """The same predictor as if it had been tuned on probabilities, whose logarithms are logits."""
    other = copy(predictor)
    other._adopt(predictor.document_.change(input_kind="probabilities"))
    return other
