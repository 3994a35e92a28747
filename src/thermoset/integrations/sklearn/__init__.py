"""scikit-learn: prediction sets for any classifier, `SetClassifier`.

`responses` reads what a classifier puts out as logits, `folds` fits it on parts of the rows, `cross` makes
cross-conformal sets, `promises` says what is promised, and `classifier` is the estimator.
"""

from thermoset.integrations.sklearn.classifier import SetClassifier

__all__ = ["SetClassifier"]
