"""A fitted predictor in plain NumPy: answers without Numba, for processes that must start at once.

Slower on many rows than the compiled predictor, and quicker to its first answer.
"""

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from thermoset.arrays import Bools, Floats, Ints
from thermoset.data import Logits
from thermoset.data.top_k import tops_of
from thermoset.errors import InputError
from thermoset.integrations.program.operations import Ranking, as_int64, rank_rows, u_of_ids
from thermoset.integrations.program.predictor import DecidedOutputs, Outputs, Program, in_blocks
from thermoset.predictor.document import Document
from thermoset.predictor.sets import Inference, PredictionArrays
from thermoset.rows import block_rows
from thermoset.uniforms import checked_ids

if TYPE_CHECKING:
    from thermoset.predictor import TwoTemperaturePredictor


def _sums_before(array: Floats) -> Floats:
    return np.pad(np.cumsum(array[:, :-1], axis=1), ((0, 0), (1, 0)))


def _in_label_order(inside: Bools, ranking: Ranking) -> Bools:
    sets = np.empty_like(inside)
    np.put_along_axis(sets, ranking.labels, inside, axis=1)
    return sets


OPERATIONS: Any = SimpleNamespace(
    float64=lambda array: array.astype(np.float64),
    rank=rank_rows,
    largest=lambda logits, k: -np.sort(np.partition(-logits, k - 1, axis=1)[:, :k], axis=1),
    columns=lambda array, first, stop: array[:, first:stop],
    top_label=lambda logits: np.argmax(logits, axis=1),
    softmax=lambda log_weights: (weights := np.exp(log_weights)) / weights.sum(axis=1, keepdims=True),
    exp=np.exp,
    log=np.log,
    floor=np.floor,
    at_most=np.minimum,
    at_least=np.maximum,
    where=np.where,
    maximum=lambda array: array.max(axis=1, keepdims=True),
    total=lambda array: array.sum(axis=1, keepdims=True),
    sums_before=_sums_before,
    sums_after=lambda array: _sums_before(array[:, ::-1])[:, ::-1],
    pick=lambda by_class, labels: by_class[labels],
    in_label_order=_in_label_order,
    count=lambda inside: inside.sum(axis=1, dtype=np.int64),
    is_label=lambda labels, n_classes: np.arange(n_classes) == labels[:, None],
    as_row=lambda column: column[:, 0],
    key_constant=as_int64,
    key=lambda whole: whole.astype(np.int64),
    xor=np.bitwise_xor,
    shift=lambda key, bits: (key >> bits) & ((1 << (64 - bits)) - 1),
    number=lambda key: key.astype(np.float64),
)
"""The operations of `program.operations.Operations` on arrays."""


class ArrayPredictor:
    """Label, confidence, probabilities, sets and sizes from logits, and the action where there is an answer rule."""

    def __init__(self, predictor: "TwoTemperaturePredictor | Document") -> None:
        self._program = Program(predictor)

    def __call__(self, logits: Any, *, u: Any = None, ids: Any = None, groups: Any = None) -> Outputs | DecidedOutputs:
        """Answer for logits (n, C).

        `u` (n,), or `ids` (n,), replace what the seed and the row give; `groups` (n,) are indices into `group_names`,
        as `group_codes` returns them, where thresholds are by group. A row with NaN or +inf, or with all classes
        masked, gets the label -1, NaN probabilities and an empty set.
        """
        program, rows = self._program, np.asarray(logits)
        if rows.ndim != 2 or rows.shape[1] != program.n_classes:
            raise InputError(f"logits must have shape (n, {program.n_classes}); got {rows.shape}.")
        draws = None if u is None else np.asarray(u, dtype=np.float64).reshape(-1, 1)
        if ids is not None and program.draws:
            keys = checked_ids(ids, len(rows)).view(np.int64)[:, None]
            draws = u_of_ids(OPERATIONS, keys, program.constants["seed"])
        codes = None if groups is None else np.asarray(groups, dtype=np.int64).reshape(-1, 1)
        with np.errstate(all="ignore"):
            return in_blocks(partial(program.run, OPERATIONS, program.constants), np.concatenate, rows, draws, codes)


class NumpyInference(Inference):
    """What a document says of rows, without Numba; see `TwoTemperaturePredictor.load`."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self._answer = ArrayPredictor(document)

    def drawn_before(self, data: Logits, ids: Any) -> None:
        """None: the program draws u itself."""

    def _run(self, data: Logits, ids: Any = None, weights: Any = None) -> Outputs | DecidedOutputs:
        if tops_of(data) is not None:
            raise InputError("engine='numpy' needs whole rows; these hold only their largest logits. Use the default.")
        groups = self.rows(data, ids, weights).groups
        keys = None if ids is None else np.array(ids, dtype=object)
        parts = [
            self._answer(
                block, ids=None if keys is None else keys[place], groups=None if groups is None else groups[place]
            )
            for place, block in data.blocks(2 * block_rows(data.n_classes))
        ]
        if not parts:
            return self._answer(np.empty((0, data.n_classes)))
        return type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))

    def sets(self, data: Logits, ids: Any = None, weights: Any = None) -> Bools:
        """Sets of all rows, (n, C)."""
        return np.asarray(self._run(data, ids, weights).sets)

    def sizes(self, data: Logits, ids: Any = None, weights: Any = None) -> Ints:
        """Set sizes (n,)."""
        return np.asarray(self._run(data, ids, weights).sizes)

    def probabilities(self, data: Logits) -> Floats:
        """Probabilities of rows, (n, C)."""
        return np.asarray(self._run(data).probabilities)

    def labels(self, data: Logits) -> Ints:
        """The likeliest label of each row, as its column number."""
        return np.asarray(self._run(data).label)

    def confidences(self, data: Logits) -> tuple[Ints, Floats]:
        """The likeliest label of each row, and its probability."""
        outputs = self._run(data)
        return outputs.label, outputs.confidence

    def arrays(self, data: Logits, ids: Any = None, weights: Any = None) -> PredictionArrays:
        """Label, confidence and set of each row."""
        outputs = self._run(data, ids, weights)
        return PredictionArrays(outputs.label, outputs.confidence, outputs.sets, getattr(outputs, "action", None))


def to_numpy(predictor: "TwoTemperaturePredictor | Document") -> ArrayPredictor:
    """The predictor, or its document, as a function of logits in plain NumPy, which gives the same sets.

    Examples
    --------
    >>> import thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=2000)
    >>> logits = rng.normal(size=(2000, 5)) + 2 * np.eye(5)[labels]
    >>> predictor = ts.TwoTemperaturePredictor("aps", alpha=0.1).fit(logits, labels)
    >>> bool((to_numpy(predictor)(logits[:100]).sets == predictor.predict_set(logits[:100])).all())
    True
    """
    return ArrayPredictor(predictor)
