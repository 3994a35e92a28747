"""Generated logits that look like those of an overconfident network with many classes."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TEMPERATURE", "network_logits"]

TEMPERATURE = 1.25  # the logits are this much too sharp: labels follow softmax(logits / TEMPERATURE)
_BLOCK = 1_000  # rows made at once, so that making the rows needs little memory beside the result
_CONFUSED = 10  # classes of a row that resemble its subject


@lru_cache(maxsize=4)
def network_logits(rows: int, classes: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Logits (rows, classes) in float32 and labels.

    At 1,000 classes about 74% of the rows are right, and sets are about as large as those published for ImageNet.
    """
    rng = np.random.default_rng(seed)
    logits, labels = np.empty((rows, classes), dtype=np.float32), np.empty(rows, dtype=np.int64)
    for start in range(0, rows, _BLOCK):
        part = slice(start, min(start + _BLOCK, rows))
        logits[part], labels[part] = _block(rng, part.stop - start, classes)
    logits.flags.writeable = labels.flags.writeable = False  # shared by all contenders
    return logits, labels


def _block(rng: np.random.Generator, rows: int, classes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    tail = -math.log(classes / 1_000)  # the classes that do not matter weigh the same together, however many they are
    calibrated = rng.normal(tail, 0.5, size=(rows, classes))
    row = np.arange(rows)
    calibrated[row, rng.integers(0, classes, rows)] += rng.normal(11 - tail, 4, rows)
    like = rng.integers(0, classes, (rows, _CONFUSED))
    calibrated[row[:, None], like] += rng.uniform(-tail, 9 - tail, (rows, _CONFUSED))
    # The greatest sum of logit and Gumbel noise is a draw from their softmax.
    return TEMPERATURE * calibrated, np.argmax(calibrated + rng.gumbel(size=calibrated.shape), axis=1)
