"""Rows and classifiers that the tests of `SetClassifier` share."""

import numpy as np
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from thermoset.integrations.sklearn import SetClassifier

X, Y = make_classification(
    900, 8, n_informative=5, n_redundant=0, n_classes=4, n_clusters_per_class=1, class_sep=0.7, random_state=0
)
TRAIN, FIT, NEW = slice(0, 300), slice(300, 600), slice(600, 900)
NAMES = np.array(["ant", "bee", "cow", "dog"])
LINEAR = LogisticRegression().fit(X[TRAIN], Y[TRAIN])


def quick(estimator, **given):
    """A set classifier whose temperatures are found soonest."""
    return SetClassifier(estimator, **{"method": "lac", "prefer": "small"} | given)


class Duck:
    """A classifier that knows nothing of scikit-learn, with classes in an order of its own."""

    classes_ = np.array(["zebra", "ant", "moth"])

    def __init__(self, **methods):
        for name, method in methods.items():
            setattr(self, name, method)


def rows_of_three(n_rows=120, seed=0):
    """Rows that are three logits, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    rows = 2 * rng.normal(size=(n_rows, 3))
    drawn = (rng.random(n_rows)[:, None] > softmax(rows, axis=1).cumsum(axis=1)).sum(axis=1)
    return rows, Duck.classes_[drawn]
