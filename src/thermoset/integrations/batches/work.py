"""The predictions for a batch, made in pieces."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from thermoset.data import Logits
from thermoset.integrations.batches.outputs import Found
from thermoset.io.predictions import PredictionBlock, joined_blocks, prediction_block
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.sets import DecidedArrays
from thermoset.rows import block_rows, run_tasks

__all__ = ["Work"]


class Work(NamedTuple):
    """What is done for a batch: by which predictor, with probabilities of all classes or not, on how many threads."""

    model: TwoTemperaturePredictor
    probabilities: bool
    n_jobs: int | None

    def found(self, data: Logits, ids: list[Any] | None) -> Found:
        """Predictions for rows, which may have ids.

        A piece is one block of the core, for which the core makes no threads, so that there are `n_jobs` and no more;
        and the booleans of all sets are never there at once.
        """
        step = block_rows(data.n_classes)
        places = [slice(first, first + step) for first in range(0, len(data), step)]
        blocks: dict[int, PredictionBlock] = {}
        probabilities = np.empty(data.logits.shape) if self.probabilities else None
        actions = np.empty(len(data), dtype=np.int64)

        def work(rows: slice) -> None:
            some = data.take(rows)
            found = self.model.predict_arrays(some, ids=None if ids is None else ids[rows])
            blocks[rows.start] = prediction_block(*found[:3])
            if isinstance(found, DecidedArrays):
                actions[rows] = found.actions
            if probabilities is not None:
                probabilities[rows] = self.model.predict_proba(some)

        run_tasks((partial(work, rows) for rows in places), n_jobs=self.n_jobs)
        decided = self.model.document_.answers is not None
        return Found(
            joined_blocks([blocks[rows.start] for rows in places]), probabilities, actions if decided else None
        )

    def nothing(self) -> Found:
        """Predictions for no rows."""
        shape = 0, self.model.document_.n_classes
        decided = self.model.document_.answers is not None
        actions = np.empty(0, dtype=np.int64) if decided else None
        return Found(joined_blocks([]), np.empty(shape) if self.probabilities else None, actions)
