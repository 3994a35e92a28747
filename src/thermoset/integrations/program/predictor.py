"""The whole predictor: from logits to label, confidence, probabilities, sets and sizes."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import pairs
from thermoset.calibration.classes import ClassCorrection
from thermoset.calibration.confidence import ABOVE, HIGHEST, LOWEST, ConfidenceMap
from thermoset.data.groups import read_groups
from thermoset.errors import InputError
from thermoset.integrations.program.operations import N_LOGITS, Array, Operations, u_of_rows
from thermoset.integrations.program.sets import Batch, Named, SetProgram
from thermoset.predictor.document import Document
from thermoset.predictor.sets import Inference
from thermoset.quoting import quoted
from thermoset.rows import block_rows
from thermoset.scores import SCORES

if TYPE_CHECKING:
    from thermoset.predictor import TwoTemperaturePredictor

_NAN = float("nan")


class Outputs(NamedTuple):
    """What is predicted: label (n,), confidence (n,), probabilities (n, C), sets (n, C) and sizes (n,)."""

    label: Array
    confidence: Array
    probabilities: Array
    sets: Array
    sizes: Array


class DecidedOutputs(NamedTuple):
    """The same of a predictor with an answer rule, and the action (n,): 0 answer, 1 choose, 2 review."""

    label: Array
    confidence: Array
    probabilities: Array
    sets: Array
    sizes: Array
    action: Array


OUTPUTS = Outputs._fields


def in_blocks(
    run: Callable[..., Outputs | DecidedOutputs], concatenate: Callable[..., Array], logits: Array, *of_rows: Array
) -> Outputs | DecidedOutputs:
    """Run on a few rows at a time: logits (n, C), and what belongs to these rows or is None."""
    step = 2 * block_rows(logits.shape[1])  # temporary arrays of a mebibyte stay in cache
    blocks = [
        run(*(None if one is None else one[k : k + step] for one in (logits, *of_rows)))
        for k in range(0, max(len(logits), 1), step)
    ]
    return blocks[0] if len(blocks) == 1 else type(blocks[0])(*map(concatenate, zip(*blocks, strict=True)))


class Program:
    """A fitted predictor, or its document, as a program.

    Attributes
    ----------
    constants : dict of str to ndarray
        What it looks up: everything that was learnt. An engine keeps these in its own way.
    draws : bool
        Whether sets depend on u.
    n_classes : int
        Columns of the logits.
    group_names : tuple of str, or None
        The groups of rows that have a threshold each; `run` then needs the group of each row.
    outputs : tuple of str
        The names of what `run` gives.
    """

    def __init__(self, predictor: "TwoTemperaturePredictor | Document") -> None:
        document = _document_of(predictor)
        recipe, score, known = document.recipe, document.recipe.score, Inference(document)
        if document.group_names is not None and not score.by_rank:
            raise InputError(
                f"a predictor with grouping='group' and the score {recipe.method.name!r} cannot be exported: the score "
                "treats classes differently, while thresholds by group differ by row. Use another score or grouping."
            )
        self.n_classes, self.group_names = document.n_classes, document.group_names
        self.draws, self._sorts = recipe.seed is not None, score.export_sorts
        self._corrects, self._map, self._cut = document.correction is not None, document.confidence_map, known.answers
        self.outputs = OUTPUTS if self._cut is None else DecidedOutputs._fields
        thresholds = known.thresholds.ravel()
        if document.group_names is not None and recipe.fallback is None:
            thresholds = np.append(thresholds, pairs(np.inf, np.inf))  # of unseen groups: an engine cannot refuse a row
        sets_under = partial(
            SetProgram,
            recipe.temperature,
            score=score,
            n_classes=document.n_classes,
            keep_top=not recipe.allow_empty,
            slack=8.0 * max(1.0, 1.0 / recipe.temperature) if self._corrects else 1.0,
        )
        self._sets, top = sets_under(thresholds), None if self._cut is None else self._cut.top
        self._top_sets = None if top is None else sets_under(top.ravel(), name="top_sets")
        self.constants: dict[str, NDArray[Any]] = {"inverse_temperature": np.array([1.0 / document.temperature])}
        if document.correction is not None:
            scale = document.correction.scale or (1.0,) * document.n_classes
            self.constants |= {
                "correction_inverse": np.array([1.0 / document.correction.temperature]),
                "correction_scale": np.array([scale]),
                "correction_shift": np.array([document.correction.shift]),
            }
        self._weighs = known.softmax.ratio is not None
        if known.softmax.ratio is not None:
            self.constants["ratio"] = known.softmax.ratio[None]
        if recipe.seed is not None:
            self.constants["seed"] = np.array([[recipe.seed]], dtype=np.uint64).view(np.int64)  # as keys are held
        if self._sorts:
            self.constants["first"] = np.arange(document.n_classes)[None] == 0
        self.constants |= self._sets.constants | ({} if self._top_sets is None else self._top_sets.constants)

    def run(
        self, ops: Operations, constants: Named, logits: Array, u: Array | None = None, groups: Array | None = None
    ) -> Outputs | DecidedOutputs:
        """Predict. `constants` are those of the program, in the engine; `u` (n, 1) is used instead of the row's own.

        `groups` (n, 1) are places in `group_names`; any other number stands for a group that has no threshold of its
        own: it gets the fallback's, or all labels where there is none.

        A row that holds NaN or +inf, or nothing but masked classes, has no answer, and an engine cannot refuse it: it
        gets the label -1, NaN for every probability, and an empty set, which is for review.
        """
        raw = ops.float64(logits)
        z = self._correct(ops, constants, raw) if self._corrects else raw
        top = ops.maximum(z)
        probabilities = ops.softmax((z - top) * constants["inverse_temperature"])
        ranking = ops.rank(z) if self._sorts else None
        label = ops.top_label(z) if ranking is None else ops.as_row(ops.columns(ranking.labels, 0, 1))
        draw: Array = 1.0  # deterministic
        if self.draws and u is None:
            n_logits = min(N_LOGITS, self.n_classes)
            known = None if ranking is None or self._corrects else ops.columns(ranking.logits, 0, n_logits)
            largest = ops.largest(raw, n_logits) if known is None else known
            draw = u_of_rows(ops, largest, n_logits, constants["seed"])
        elif self.draws:
            draw = u
        batch = Batch(z, top, label, ranking, draw, self._group(ops, groups))
        usable = ops.total(probabilities) > 0.0  # one number that is NaN, or infinite, makes them all NaN
        odds = None if self._map is None and self._cut is None else self._odds(ops, constants, batch)
        if self._map is not None and odds is not None:
            probabilities = ops.where(usable, _map_confidence(self._map, ops, odds), _NAN)
        sets = self._sets.run(ops, constants, batch)
        answered = None
        if self._cut is not None and odds is not None:
            answered = self._answers(odds) & usable
            sets = self._what_people_see(ops, constants, batch, odds, answered, sets)
        sets = sets & usable
        if self._weighs:  # a row that no class explains stays as it is
            weighted = probabilities * constants["ratio"]
            total = ops.total(weighted)
            probabilities = ops.where(total > 0.0, weighted / ops.where(total > 0.0, total, 1.0), probabilities)
            label = ops.top_label(probabilities)
        outputs = Outputs(
            ops.where(ops.as_row(usable), label, -1),
            ops.as_row(ops.where(usable, ops.maximum(probabilities), _NAN)),
            probabilities,
            sets,
            ops.count(sets),
        )
        if self._cut is None:
            return outputs
        most, choose = self._cut.review_above, outputs.sizes * 0 + 1
        unsure = outputs.sizes == 0 if most is None else (outputs.sizes == 0) | (outputs.sizes > most)
        return DecidedOutputs(*outputs, ops.where(ops.as_row(answered), 0, ops.where(unsure, 2, choose)))

    def _correct(self, ops: Operations, constants: Named, z: Array) -> Array:
        """The corrected logits of each class: scale * log softmax(z / T0) + shift."""
        gaps = (z - ops.maximum(z)) * constants["correction_inverse"]
        return (
            constants["correction_scale"] * (gaps - ops.log(ops.total(ops.exp(gaps)))) + constants["correction_shift"]
        )

    def _odds(self, ops: Operations, constants: Named, batch: Batch) -> "TopOdds":
        """The log-odds of the top label at T*, from the weights of the others; see `kernels.top_odds`."""
        z, top, inverse = batch.logits, batch.top, constants["inverse_temperature"]
        first = ops.is_label(batch.label, self.n_classes)
        second = ops.columns(ops.largest(z, 2), 1, 2)
        second = ops.where(second == float("-inf"), top, second)
        weights = ops.where(first, 0.0, ops.exp(ops.at_most((z - second) * inverse, 0.0)))
        others = ops.total(weights)
        alone = ~(others > 0.0)
        others = ops.where(alone, 1.0, others)
        return TopOdds((top - second) * inverse - ops.log(others), first, weights, others, alone)

    def _answers(self, odds: "TopOdds") -> Array:
        """Which rows are answered alone, (n, 1)."""
        if self._cut is None or not self._cut.threshold < np.inf:
            return odds.alone & ~odds.alone
        if self._cut.threshold == -np.inf:
            return odds.alone | ~odds.alone
        return (odds.g >= self._cut.threshold) | odds.alone

    def _what_people_see(
        self, ops: Operations, constants: Named, batch: Batch, odds: "TopOdds", answered: Array, sets: Array
    ) -> Array:
        """Sets, (n, C): the label alone of answered rows, and the top label of rows just below by its own threshold."""
        if self._top_sets is not None and self._cut is not None:
            near = odds.first & ((odds.g >= self._cut.below) | odds.alone)
            sets = sets | (near & self._top_sets.run(ops, constants, batch))
        return (answered & odds.first) | (~answered & sets)

    def _group(self, ops: Operations, groups: Array | None) -> Array | None:
        """Which threshold each row has, (n, 1); the last one is for groups without one of their own."""
        if self.group_names is None:
            return None
        if groups is None:
            raise InputError("a predictor with grouping='group' needs the group of each row. Pass groups=.")
        known = len(self.group_names)
        return ops.where((groups >= 0) & (groups < known), groups, known)


class TopOdds(NamedTuple):
    """Of each row: the log-odds of its top label (n, 1), where that is (n, C), the weights of the others and their sum.

    alone : (n, 1), whether all others are masked: the log-odds are then infinite.
    """

    g: Array
    first: Array
    weights: Array
    others: Array
    alone: Array


def _map_confidence(confidence_map: ConfidenceMap, ops: Operations, odds: TopOdds) -> Array:
    """Probabilities whose top one is that of the confidence map; see `calibration.confidence`."""
    g = ops.at_most(ops.at_least(odds.g, LOWEST), HIGHEST)
    edges = (*confidence_map.knots, HIGHEST)
    log_odds = ops.at_most(g, edges[0]) * confidence_map.slopes[0] + confidence_map.intercept
    for (start, stop), slope in zip(pairwise(edges), confidence_map.slopes[1:], strict=True):
        log_odds = log_odds + ops.at_least(ops.at_most(g, stop) - start, 0.0) * slope
    confidence = 1.0 / (1.0 + ops.exp(log_odds * -1.0))
    least = (1.0 + ABOVE) / (1.0 + odds.others)
    confidence = ops.where(odds.alone, 1.0, ops.where(confidence > least, confidence, least))
    return ops.where(odds.first, confidence, odds.weights * ((1.0 - confidence) / odds.others))


def _document_of(predictor: object) -> Document:
    """The document of a predictor that an engine can run; others are refused."""
    document = getattr(predictor, "document_", predictor)
    if not isinstance(document, Document):
        from thermoset.predictor import TwoTemperaturePredictor  # noqa: PLC0415 - a document needs none

        if isinstance(predictor, TwoTemperaturePredictor):
            raise InputError("this predictor is not fitted, so it cannot be exported. Call fit first.")
        raise InputError(
            f"only a fitted TwoTemperaturePredictor can be exported; got {type(predictor).__name__}. "
            "Load one with TwoTemperaturePredictor.load('predictor.json')."
        )
    grouping, method = document.recipe.grouping, document.recipe.method
    if method.limits is not None:
        raise InputError(
            f"a predictor with grouping={grouping!r} cannot be exported: its labels end at a rank of their "
            "own in each class. Use grouping='class'."
        )
    if method.is_own or not method.score.exportable:
        names = ", ".join(name for name, one in SCORES.items() if one.exportable)
        raise InputError(f"score {quoted(method.title)} cannot be exported. Fit the predictor with one of {names}.")
    if document.correction is not None and not isinstance(document.correction, ClassCorrection):
        raise InputError("a predictor with a calibrator of your own cannot be exported. Fit with calibration='auto'.")
    if document.is_weighted:
        raise InputError(
            "a predictor with weighted conformal rows cannot be exported: each row's threshold depends on its own "
            "weight and on all conformal scores. Recalibrate it without weights."
        )
    return document


def group_codes(predictor: "TwoTemperaturePredictor", groups: Any) -> NDArray[np.int64]:
    """The groups of rows, one name or number each, in the form an exported predictor takes: int64 (n,), -1 if unknown.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, size=400)
    >>> rows = ts.Logits(rng.normal(size=(400, 3)) + np.eye(3)[labels], labels, groups=["north", "south"] * 200)
    >>> predictor = ts.TwoTemperaturePredictor("lac", prefer="small", grouping="group").fit(rows)
    >>> group_codes(predictor, ["south", "mars", "north"])
    array([ 1, -1,  0])
    """
    names = predictor.document_.group_names
    if names is None:
        raise InputError("group_codes needs a predictor with grouping='group'; this one has no groups.")
    return read_groups(groups, len(groups)).codes_among(names)
