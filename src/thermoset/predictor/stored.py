"""What a predictor's document stores of the rows behind it: scores, thresholds, answers, confidence, measurements.

Scores are stored as ascending whole numbers, each by its distance from the one before: half a byte says how many bytes
that takes. zlib would save another tenth, but gives other bytes in other versions.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from thermoset.arrays import Bools, Floats, Ints, Keys, Pairs
from thermoset.arrays import pairs as as_pairs
from thermoset.bounds import COLDEST, HOTTEST
from thermoset.conformal.calibration_scores import CalibrationScores, Weights
from thermoset.decisions import WRONG, AnswerClaim, Count, Number, Proposal, word
from thermoset.errors import FileFormatError

MOST_STORED = 10_000_000
"""Conformal rows up to which scores can be stored at all: some 170 MB of JSON."""

N_BANDS = 20
"""Bins of confidence in which conformal rows are counted, each 5% wide."""

MOST_CUTS = 63
"""Cut points of confidence, at most: 64 bins show any change that matters, and take a kilobyte."""

Temperature = Annotated[float, Meta(ge=COLDEST, le=HOTTEST)]
_SIGN = np.uint64(1 << 63)
_BYTES = 8
_ONE = np.uint64(1)


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A part of the document."""


class Thresholds(Stored, frozen=True, kw_only=True):
    """Thresholds where no scores are stored that they follow from: values and tie-breaks."""

    value: tuple[Number, ...]
    tie: tuple[Number, ...]

    @classmethod
    def of(cls, thresholds: Pairs) -> "Thresholds":
        """Write down thresholds of any shape, one after the other."""
        value, tie = (tuple(map(word, part.ravel().tolist())) for part in (thresholds.real, thresholds.imag))
        return cls(value=value, tie=tie)

    def pairs(self) -> Pairs:
        """The thresholds, one after the other."""
        return as_pairs([float(one) for one in self.value], [float(one) for one in self.tie])


class StoredScores(Stored, frozen=True, kw_only=True):
    """The label scores of the conformal rows, sorted within their pools, which thresholds and p-values follow from.

    A float64 is read as a whole number in the same order, and those are packed. Where one threshold serves all classes,
    the label of each score is stored too, for other class shares. Weights are the whole numbers that they count as (see
    `conformal.calibration_scores`), of which `largest`, the largest weight, is the highest.
    """

    value: bytes
    tie: bytes
    labels: bytes | None = None
    weights: bytes | None = None
    largest: Annotated[float, Meta(gt=0)] | None = None

    @classmethod
    def of(cls, calibration: CalibrationScores, n_classes: int) -> "StoredScores":
        """The scores of a fitted classifier."""
        order = stored_order(calibration)
        value, tie = (pack(_order_keys(part[order])) for part in (calibration.scores.real, calibration.scores.imag))
        if calibration.weights is not None:
            weights = pack(calibration.weights.steps[order].astype(np.uint64))
            return cls(value=value, tie=tie, weights=weights, largest=calibration.weights.largest)
        if calibration.grouping is not None:
            return cls(value=value, tie=tie)
        return cls(value=value, tie=tie, labels=calibration.labels[order].astype(_label_type(n_classes)).tobytes())

    def pairs(self, n_rows: int) -> Pairs:
        """The scores of so many rows, (n,)."""
        scores = as_pairs(*(_floats(unpack(part, n_rows, MOST_STORED, "scores")) for part in (self.value, self.tie)))
        if np.isnan(scores).any():
            raise FileFormatError("is damaged: scores must be numbers.")
        return scores

    def own_labels(self, n_rows: int, n_classes: int) -> Ints:
        """The label of each score, (n,)."""
        kind = _label_type(n_classes)
        labels = np.frombuffer(self.labels or b"", kind).astype(np.int64)
        if len(labels) != n_rows or labels.max(initial=0) >= n_classes:
            raise FileFormatError(f"is damaged: labels of scores must be those of {n_rows:,} rows.")
        return labels

    def own_weights(self, n_rows: int) -> Weights | None:
        """The weights of so many rows, where they were given."""
        if self.weights is None or self.largest is None:
            return None
        return Weights(unpack(self.weights, n_rows, MOST_STORED, "weights").astype(np.int64), self.largest)


def stored_order(calibration: CalibrationScores) -> Ints:
    """The order in which scores are stored."""
    last = calibration.labels if calibration.weights is None else calibration.weights.steps
    return np.lexsort((last, calibration.scores.imag, calibration.scores.real, pool_of_rows(calibration)))


def _label_type(n_classes: int) -> np.dtype[Any]:
    """The narrowest type that holds every label."""
    return np.min_scalar_type(n_classes - 1).newbyteorder("<")


def _order_keys(values: Floats) -> Keys:
    """Floats as whole numbers in the same order."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)


def _floats(numbers: Keys) -> Floats:
    return np.where(numbers >= _SIGN, numbers ^ _SIGN, ~numbers).view(np.float64)


def pool_of_rows(calibration: CalibrationScores) -> Ints:
    """The group of each conformal row, or of its class; 0 where all share a threshold."""
    if calibration.groups is not None:
        return calibration.groups.codes
    groups = calibration.group_of_class
    return np.zeros(len(calibration.labels), dtype=np.int64) if groups is None else groups[calibration.labels]


class StoredAnswers(Stored, frozen=True, kw_only=True):
    """Which rows are answered alone, and which go to review; see `thermoset.decisions`.

    Attributes
    ----------
    claim : AnswerClaim
        The threshold on the log-odds of the top label at T*, and what is promised of the rows from there on.
    kinds : bytes
        For each stored score whether its row is below the block between the thresholds of the rule, or right or wrong
        in it. Empty where no scores are stored.
    review_above : int or None
        Rows with a larger set than this go to review, as those with an empty one do.
    thresholds, start, share, risk
        The proposal of the calibration rows, for new rows to prove.
    """

    claim: AnswerClaim
    kinds: bytes = b""
    review_above: Count | None = None
    thresholds: tuple[Number, ...]
    start: Count
    share: tuple[float, ...]
    risk: tuple[float, ...]

    @classmethod
    def of(cls, claim: AnswerClaim, proposal: Proposal, review_above: int | None, kinds: Ints) -> "StoredAnswers":
        """What was proposed and proved."""
        return cls(
            claim=claim,
            kinds=kinds.astype(np.uint8).tobytes(),
            review_above=review_above,
            thresholds=tuple(word(one) for one in proposal.thresholds.tolist()),
            start=proposal.start,
            share=tuple(proposal.share.tolist()),
            risk=tuple(proposal.risk.tolist()),
        )

    @property
    def proposal(self) -> Proposal:
        """What the calibration rows proposed."""
        at = np.array([float(one) for one in self.thresholds])
        return Proposal(at, self.start, np.array(self.share), np.array(self.risk))

    @property
    def kind_of_rows(self) -> Ints:
        """The kind of each stored score's row, (n,)."""
        return np.frombuffer(self.kinds, np.uint8).astype(np.int64)

    def cross_checks(self, n_rows: int, n_stored: int | None) -> Iterator[tuple[bool, str]]:
        """What must hold of answers that were read from a file, and whether it does not."""
        at, kinds = self.proposal.thresholds, self.kind_of_rows
        counted = self.claim.rows == n_rows and n_stored in (None, len(kinds)) and not np.any(kinds > WRONG)
        yield not counted, "answers must count the conformal rows"
        descend = self.start < len(at) and np.all(np.diff(at) < 0) and {len(self.share), len(self.risk)} == {len(at)}
        yield not descend, "answers must have descending thresholds, each with a share and a risk"
        yield min(*self.share, *self.risk, 0.0) < 0, "shares and risks of answers must not be negative"
        among = {self.claim.threshold, float(self.claim.below)} <= {*at.tolist(), np.inf, -np.inf}
        yield not among, "the thresholds of the claim must be among those of answers"
        yield from self.claim.cross_checks()


class ConfidenceReference(Stored, frozen=True, kw_only=True):
    """What the confidence of later rows is compared with: cut points, and the conformal rows between them.

    The cut points are quantiles of calibration rows, so that conformal rows and later ones are alike: neither chose
    where the cuts are.
    """

    cuts: Annotated[tuple[Annotated[float, Meta(gt=0, le=1)], ...], Meta(min_length=1, max_length=MOST_CUTS)]
    counts: tuple[Count, ...]

    def bins(self, confidence: Floats) -> Ints:
        """The bin of each confidence."""
        return np.searchsorted(np.array(self.cuts), confidence, side="right").astype(np.int64)

    def recount(self, confidence: Floats) -> "ConfidenceReference":
        """The same cut points with the counts of conformal rows that have this confidence."""
        counts = np.bincount(self.bins(confidence), minlength=len(self.cuts) + 1)
        return ConfidenceReference(cuts=self.cuts, counts=tuple(counts.tolist()))


class ReliabilityCounts(Stored, frozen=True, kw_only=True):
    """Conformal rows in bins of confidence: how many, how many were right, and their mean confidence."""

    name: str
    count: tuple[Count, ...]
    right: tuple[Count, ...]
    confidence: tuple[float, ...]

    @classmethod
    def of(cls, name: str, confidence: Floats, right: Bools) -> "ReliabilityCounts":
        """Count rows."""
        place = np.minimum((confidence * N_BANDS).astype(np.int64), N_BANDS - 1)
        count, hits, sums = (np.bincount(place, weights, N_BANDS) for weights in (None, right, confidence))
        mean = np.divide(sums, count, out=np.zeros(N_BANDS), where=count > 0).round(6)
        whole = [tuple(numbers.astype(int).tolist()) for numbers in (count, hits)]
        return cls(name=name, count=whole[0], right=whole[1], confidence=tuple(mean.tolist()))

    def between(self, low: float, high: float) -> tuple[int, int]:
        """Rows with a confidence between two ends of bins, and how many of them were right."""
        some = slice(round(low * N_BANDS), round(high * N_BANDS))
        return sum(self.count[some]), sum(self.right[some])


class Measure(Stored, frozen=True, kw_only=True):
    """A number that was measured when the predictor was fitted, and its 95% interval where there is one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


# ---- packed numbers ------------------------------------------------------------------------------------------------


def pack(numbers: Keys) -> bytes:
    """Whole numbers that mostly ascend, as bytes."""
    steps = np.diff(numbers, prepend=np.uint64(0)).view(np.int64)
    folded = ((steps << 1) ^ (steps >> 63)).astype("<i8")  # small steps in either direction have small numbers
    digits = folded.view(np.uint8).reshape(-1, _BYTES)
    n_digits = np.where(digits.any(axis=1), _BYTES - (digits[:, ::-1] != 0).argmax(axis=1), 0).astype(np.uint8)
    even = np.append(n_digits, np.uint8(0)) if len(numbers) % 2 else n_digits
    return (even[0::2] | (even[1::2] << 4)).tobytes() + digits[np.arange(_BYTES) < n_digits[:, None]].tobytes()


def unpack(content: bytes, n_numbers: int, most: int, what: str) -> Keys:
    """The numbers, which a document says are so many; `what` they are of, for the complaint."""
    n_heads, fault = (n_numbers + 1) // 2, f"is damaged: {what} must be those of {n_numbers:,} rows, up to {most:,}."
    if n_numbers > most or len(content) < n_heads:
        raise FileFormatError(fault)
    heads, rest = (np.frombuffer(part, np.uint8) for part in (content[:n_heads], content[n_heads:]))
    n_digits = np.stack([heads & 15, heads >> 4], axis=1).ravel()
    if n_digits.max(initial=0) > _BYTES or n_digits[n_numbers:].any() or n_digits.sum(dtype=np.int64) != len(rest):
        raise FileFormatError(fault)
    digits = np.zeros((n_numbers, _BYTES), np.uint8)
    digits[np.arange(_BYTES) < n_digits[:n_numbers, None]] = rest
    folded = digits.view("<u8").ravel().astype(np.uint64)
    steps = (folded >> _ONE) ^ (np.uint64(0) - (folded & _ONE))
    return np.cumsum(steps, dtype=np.uint64)
