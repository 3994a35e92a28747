"""From logits to probabilities in three steps: classes, temperature, confidence.

Each step is learned on the calibration rows alone and taken only where cross-validation shows a gain; otherwise it is
the identity. A user's own calibrator takes the place of the first step: an object with `fit(logits, labels)` and
`transform(logits)`, which returns corrected logits.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec
import numpy as np

from thermoset import kernels
from thermoset.arrays import Block, Floats, Ints, as_float64
from thermoset.calibration.classes import ClassCorrection, try_correction
from thermoset.calibration.confidence import ConfidenceMap, block_odds, top_odds, try_map
from thermoset.calibration.temperature import TemperatureScaler, block_confidences, block_probabilities
from thermoset.data import Logits
from thermoset.data.top_k import tops_of
from thermoset.errors import InputError
from thermoset.rows import Progress, map_rows, top_labels

FEWEST_ROWS = 500
"""Calibration rows below which one temperature is all that is fitted."""


@runtime_checkable
class Calibrator(Protocol):
    """A user's own first step: it learns from labelled logits, and returns corrected ones of the same shape."""

    def fit(self, logits: Floats, labels: Ints) -> Any:
        """Learn from the calibration rows."""

    def transform(self, logits: Floats) -> Floats:
        """Corrected logits, each row by itself."""


@dataclass(frozen=True)
class OwnCorrection:
    """A fitted calibrator of the user's, in the place of a class correction."""

    calibrator: Calibrator

    def of_block(self, block: Block) -> Floats:
        """The corrected logits of a block of rows, (n, C)."""
        output = np.ascontiguousarray(self.calibrator.transform(as_float64(block)), dtype=np.float64)
        if output.shape != block.shape or np.isnan(output).any() or np.isposinf(output).any():
            raise InputError(
                f"transform of the calibrator must return numbers of shape {block.shape}, or -inf for masked classes; "
                f"got shape {output.shape}. It must not change the number of rows or classes."
            )
        return output

    def faults(self, n_classes: int) -> list[str]:  # noqa: ARG002
        """Nothing is stored of it, so nothing can be wrong with what is stored."""
        return []


class CalibrationStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a step was tried on and whether it was taken; `before` and `after` are cross-validated log-losses."""

    name: str
    taken: bool
    before: float | None = None
    after: float | None = None
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The step in one line."""
        what = "Classes" if self.name == "classes" else "Confidence"
        if self.before is None or self.after is None:
            return f"{what}: left as {'they are' if self.name == 'classes' else 'it is'} ({self.reason})."
        if not self.taken:
            kept = "no class is biased enough to correct" if self.name == "classes" else "one temperature is enough"
            return f"{what}: {kept}."
        loss = f"cross-validated log-loss {self.before:.3f} -> {self.after:.3f}"
        if self.name == "confidence":
            return f"{what}: mapped by the top label's log-odds ({loss} of being right)."
        more = ""
        if self.accuracy_before is not None and self.accuracy_after is not None:
            more = f", accuracy {self.accuracy_before:.1%} -> {self.accuracy_after:.1%}"
        return f"{what}: corrected one by one ({loss}{more})."


@dataclass(frozen=True)
class Calibration:
    """What calibration rows taught: the three steps, what was tried, and T* of the logits as they came.

    `held_out` are the calibration rows, each corrected by what the others taught: a correction flatters its own rows,
    and what is chosen on them would be too hopeful.
    """

    scaler: TemperatureScaler
    plain_temperature: float
    correction: ClassCorrection | OwnCorrection | None = None
    confidence_map: ConfidenceMap | None = None
    steps: tuple[CalibrationStep, ...] = ()
    held_out: Logits | None = None

    def correct(self, data: Logits) -> Logits:
        """The rows that both temperatures divide."""
        return data if self.correction is None else data.apply(self.correction.of_block)

    def correct_own(self, calibration: Logits) -> Logits:
        """The same of the calibration rows themselves."""
        return self.correct(calibration) if self.held_out is None else self.held_out


def checked_calibration(calibration: object) -> "str | Calibrator":
    """What `calibration=` may be."""
    if calibration in ("auto", "temperature") or (
        not isinstance(calibration, str) and isinstance(calibration, Calibrator)
    ):
        return calibration
    raise InputError(
        f"calibration must be 'auto', 'temperature', or an object with fit and transform; got {calibration!r}. "
        "Use 'temperature' for one temperature alone."
    )


def calibrate(
    data: Logits, calibration: object, objective: Any, random_state: int, progress: Progress | None = None
) -> Calibration:
    """Learn the steps from labelled calibration rows."""
    how = checked_calibration(calibration)
    scaler = TemperatureScaler(objective).learn(data)
    plain, n_zero = float(scaler.temperature_), scaler.zero_labels_
    if how == "temperature":
        return Calibration(scaler, plain)
    tops, few = tops_of(data) is not None, len(data) < FEWEST_ROWS
    if tops and not isinstance(how, str):
        raise InputError("a calibrator of your own needs whole rows; these hold only their largest logits.")
    if tops or (few and isinstance(how, str)):
        reason = "rows hold only their largest logits" if tops else f"fewer than {FEWEST_ROWS} calibration rows"
        steps = (CalibrationStep(name=name, taken=False, reason=reason) for name in ("classes", "confidence"))
        return Calibration(scaler, plain, steps=tuple(steps))
    correction: ClassCorrection | OwnCorrection | None
    if isinstance(how, str):
        start = plain if objective == "nll" else TemperatureScaler().learn(data).temperature_
        correction, corrected, step = _correct_classes(data, start, random_state, progress)
        taken = [step]
    else:
        how.fit(as_float64(data.logits), data.require_labels("calibration"))
        correction, taken = OwnCorrection(how), []
        corrected = data.apply(correction.of_block)
    if corrected is not data:
        scaler = TemperatureScaler(objective).learn(corrected)
        scaler.zero_labels_ = n_zero
    right = top_labels(corrected) == corrected.require_labels("calibration")
    tried = try_map(top_odds(corrected, scaler.temperature_)[0], right, random_state)
    taken.append(
        CalibrationStep(name="confidence", taken=tried.map is not None, before=tried.before, after=tried.after)
    )
    held_out = corrected if correction is not None and len(corrected) == len(data) else None
    return Calibration(scaler, plain, correction, tried.map, tuple(taken), held_out)


def _correct_classes(
    data: Logits, temperature: float, random_state: int, progress: Progress | None
) -> tuple[ClassCorrection | None, Logits, CalibrationStep]:
    """The class correction if it is taken, the rows as the other folds correct them, and what was tried."""
    labels = data.require_labels("calibration")
    trial = try_correction(data, labels, temperature, random_state, progress)
    step = CalibrationStep(name="classes", taken=trial.fit is not None, before=trial.before, after=trial.after)
    if (fit := trial.fit) is None:
        return None, data, step
    own, rows = labels[fit.rows], fit.out_of_fold(trial.logs)
    before, after = (float((one.argmax(axis=1) == own).mean()) for one in (trial.logs, rows))
    groups = None if data.groups is None else data.groups.take(fit.rows)
    corrected = Logits.from_checked(rows, own, data.classes, groups, data.input_kind)
    return fit.correction, corrected, msgspec.structs.replace(step, accuracy_before=before, accuracy_after=after)


@dataclass(frozen=True, eq=False)
class CalibratedSoftmax:
    """Probabilities of corrected rows: the softmax at T*, the confidence map, and other class shares if any.

    ratio : target share / source share of each class (C,); None where shares have not changed.
    """

    temperature: float
    confidence_map: ConfidenceMap | None = None
    ratio: Floats | None = None

    def of_block(self, block: Block) -> Floats:
        """Probabilities of a block of rows, (n, C)."""
        if self.confidence_map is None:
            probs = block_probabilities(block, self.temperature)
        else:
            probs, rows = np.empty(block.shape), as_float64(block)
            confidence = self.confidence_map.confidence(block_odds(rows, self.temperature))
            kernels.share_out(rows, self.temperature, confidence, probs)
        if self.ratio is not None:
            weighted = probs * self.ratio
            total = weighted.sum(axis=1, keepdims=True)
            np.divide(weighted, total, out=probs, where=total > 0)  # a row that no class explains stays as it is
        return probs

    def top_of_block(self, block: Block) -> tuple[Ints, Floats]:
        """The likeliest label of each row of a block, and its probability."""
        if self.ratio is not None:
            probs = self.of_block(block)
            labels = probs.argmax(axis=1)
            return labels, probs[np.arange(len(probs)), labels]
        rows = as_float64(block)
        if self.confidence_map is not None:
            confidence = self.confidence_map.confidence(block_odds(rows, self.temperature))
            return block.argmax(axis=1), confidence
        return block.argmax(axis=1), block_confidences(rows, np.array([self.temperature]))[0]

    def confidence_and_loss(self, data: Logits) -> tuple[Floats, Floats]:
        """Confidence of the predicted label of each labelled row, and minus the log of its label's probability."""
        labels = data.require_labels("calibration")
        confidence, loss = np.empty(len(data)), np.empty(len(data))
        map_rows(data, _judge_block, [confidence, loss], per_row=[labels], fixed=[self])
        return confidence, loss


def _judge_block(block: Block, labels: Ints, softmax: CalibratedSoftmax) -> tuple[Floats, Floats]:
    probs = softmax.of_block(block)
    with np.errstate(divide="ignore"):
        return probs.max(axis=1), -np.log(probs[np.arange(len(probs)), labels])
