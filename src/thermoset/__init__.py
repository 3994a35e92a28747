"""thermoset: calibrated confidence and conformal prediction sets from logits, each with its own temperature.

>>> import thermoset as ts
>>> val = ts.Logits([[2.0, 0.5, -1.0], [0.1, 1.2, 0.3]], labels=[0, 1])
>>> val.n_classes
3

Submodules load when first used (SPEC 1), so importing thermoset costs nothing.
"""

from lazy_loader import attach as _attach

from thermoset._version import __version__ as __version__

__getattr__, __dir__, __all__ = _attach(
    __name__,
    submodules=[
        "calibration",
        "conformal",
        "core",
        "data",
        "datasets",
        "errors",
        "integrations",
        "io",
        "metrics",
        "monitor",
        "paper",
        "plots",
        "predictor",
        "report",
        "sweeping",
        "testing",
        "tuning",
        "warming",
    ],
    submod_attrs={
        "calibration": ["TemperatureScaler"],
        "conformal": ["ConformalClassifier", "Interpolated", "Recipe"],
        "data": ["Logits"],
        "data.compacting": ["compact"],
        "data.top": ["TopLogits"],
        "errors": [
            "BoundWarning",
            "BudgetWarning",
            "CacheWarning",
            "CoverageWarning",
            "FileFormatError",
            "InputError",
            "MissingExtraError",
            "ProbabilitiesAsLogitsWarning",
            "ReusedRowsWarning",
            "ZeroProbabilityWarning",
        ],
        "io": ["load", "save"],
        "io.opening": ["open"],
        "metrics": ["plan"],
        "paper": ["study", "theory"],
        "predictor": ["TwoTemperaturePredictor"],
        "predictor.watching": ["Monitor"],
        "core.scores": ["APS", "LAC", "PAS", "RAPS", "SAPS", "SCORES", "Margin", "OwnScore", "PlainScore", "TopK"],
        "sweeping": ["Sweep", "sweep"],
        "warming": ["warmup"],
    },
)
__all__ = [name for name in __all__ if name != "open"]  # `from thermoset import *` must not hide Python's own
