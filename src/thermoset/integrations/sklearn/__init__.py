"""scikit-learn: prediction sets for any classifier, `SetClassifier`.

`responses` reads what a classifier puts out as logits, `fitting` fits it on parts of the rows and makes cross-conformal
sets, and `classifier` is the estimator.
"""

from thermoset.integrations.sklearn.classifier import SetClassifier

__all__ = ["SetClassifier"]
