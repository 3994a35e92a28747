"""Calibration: one temperature, and where that is not enough, a correction of classes and a map of the confidence."""

from thermoset.calibration.calibrator import CalibratedSoftmax, Calibration, CalibrationStep, Calibrator, calibrate
from thermoset.calibration.classes import ClassCorrection
from thermoset.calibration.confidence import ConfidenceMap, top_odds
from thermoset.calibration.temperature import (
    T_MAX,
    T_MIN,
    TemperatureScaler,
    block_probabilities,
    confidence_at,
    confidences_at,
    fit_ece,
    fit_nll,
    label_logits,
    probabilities,
    warn_of_zero_labels,
    zero_labels,
)

__all__ = [
    "T_MAX",
    "T_MIN",
    "CalibratedSoftmax",
    "Calibration",
    "CalibrationStep",
    "Calibrator",
    "ClassCorrection",
    "ConfidenceMap",
    "TemperatureScaler",
    "block_probabilities",
    "calibrate",
    "confidence_at",
    "confidences_at",
    "fit_ece",
    "fit_nll",
    "label_logits",
    "probabilities",
    "top_odds",
    "warn_of_zero_labels",
    "zero_labels",
]
