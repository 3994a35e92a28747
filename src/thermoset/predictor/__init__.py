"""The predictor: what it does (`estimator`), what it is (`artifact`), how good it is (`measures`)."""

from thermoset.predictor.estimator import Answers, Prediction, TwoTemperaturePredictor

__all__ = ["Answers", "Prediction", "TwoTemperaturePredictor"]
