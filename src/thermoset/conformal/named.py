"""Classes as their users call them: by name, or by column number where they have no names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["labels_in", "user_labels"]


def user_labels(classes: tuple[str, ...] | None, n_classes: int) -> NDArray[Any]:
    """What users call the classes, in the order of the columns.

    >>> user_labels(("cat", "dog"), 2), user_labels(None, 2)
    (array(['cat', 'dog'], dtype='<U3'), array([0, 1]))
    """
    return np.arange(n_classes) if classes is None else np.array(classes)


def labels_in(sets: NDArray[np.bool_], labels: NDArray[Any]) -> list[NDArray[Any]]:
    """The labels in each row's set, in the order of the columns.

    >>> labels_in(np.array([[True, True], [False, False]]), np.array(["cat", "dog"]))
    [array(['cat', 'dog'], dtype='<U3'), array([], dtype='<U3')]
    """
    rows, columns = np.divmod(np.flatnonzero(sets), sets.shape[1])  # in two dimensions NumPy takes longer
    return np.split(labels[columns], np.searchsorted(rows, np.arange(1, len(sets)))) if len(sets) else []
