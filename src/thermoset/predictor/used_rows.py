"""Recognising the rows that a predictor was made from: results on them say nothing about fresh rows.

The document holds keys of the rows (`row_keys`), whatever file, order or type they come back in, and however many
of them. Of long parts the smallest keys are kept, a random sample of the rows, from which the share that comes back is
estimated without bias.

Rows can have the same logits without being the same row: constant scores, questions that are asked twice, probabilities
that a forest counts in hundredths. A key that several rows of a part share is therefore not kept. Of the others, fresh
rows meet some by chance, as rows of the part met each other: where p pairs of n rows did, m fresh rows meet about
2 p m / n of the keys (Good and Turing). Rows count as used where they meet significantly more, and are more than 1%.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from thermoset.arrays import Ints, Keys
from thermoset.data import Logits
from thermoset.data.row_keys import KEY_BITS, row_keys
from thermoset.data.splits import split_indices
from thermoset.errors import InputError, ReusedRowsWarning
from thermoset.predictor.fingerprints import fingerprint
from thermoset.predictor.packing import packed, unpacked

if TYPE_CHECKING:
    from thermoset.predictor.document import Document

__all__ = [
    "MOST_KEYS",
    "PartKeys",
    "PartUse",
    "UsedKeys",
    "UsedRows",
    "broken_keys",
    "refuse_used",
    "split_of",
    "used_rows",
]

MOST_KEYS = 32_768
"""Keys that are kept of the calibration rows, and as many of the conformal rows: 240 KB each."""

_ALL = 1 << KEY_BITS
_SPARE = 4  # times as many keys are looked at as are kept: some belong to several rows
_STEP = 1 << 20  # keys at a time
_FEWEST = 5  # rows, and
_LEAST_SHARE = 0.01  # of the rows, from which on they count as used
_CHANCE = 1e-4  # how probable it may be, at most, that fresh rows meet so many
_NOTED = 3  # rows that a warning counts: one or two in thousands agree in their largest logits and are others
_LIKELY = 0.01  # from this probability on, rows that repeat by nature explain how many keys were met
_MOSTLY, _ENOUGH = 0.9, 20  # so many rows and keys are never chance: kinds of rows are seen once with at most 1 / e


class PartUse(NamedTuple):
    """How many of some rows are those of one part, whether they are too many for chance, and how many keys they met.

    `explained` says that rows of the part repeat by nature, often enough for so many keys to be met.
    """

    rows: int = 0
    reused: bool = False
    estimated: bool = False
    met: int = 0
    explained: bool = True


class PartKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys of some rows that are below a bound (2**48: all keys are), of which no two rows share one.

    `rows` is how many rows there are, `once` how many keys are kept, rising and packed; `pairs` of rows share a key
    below the bound.
    """

    rows: int
    below: int
    once: int
    pairs: int
    keys: bytes

    @classmethod
    def of(cls, keys: Keys, most: int = MOST_KEYS) -> "PartKeys":
        """What is kept of the keys of rows.

        >>> part = PartKeys.of(np.array([7, 5, 9, 5], dtype=np.uint64))
        >>> part.numbers().tolist(), part.pairs, part.share
        ([7, 9], 1, 1.0)
        >>> part = PartKeys.of(np.array([7, 5, 9, 11], dtype=np.uint64), most=2)
        >>> part.numbers().tolist(), part.below
        ([5, 7], 9)
        """
        bound = min(_ALL, _ALL * _SPARE * most // max(len(keys), 1) + 1)
        found = [some[some < bound] for some in _pieces(keys)]
        each, times = np.unique(np.concatenate([np.empty(0, np.uint64), *found]), return_counts=True)
        alone = each[times == 1]
        # The first key that is not kept, itself no part of the sample: so the estimate has no bias.
        below = bound if len(alone) <= most else int(alone[most])
        pairs = int((each[times == 2] < below).sum())
        return cls(rows=len(keys), below=below, once=min(len(alone), most), pairs=pairs, keys=packed(alone[:most]))

    @property
    def share(self) -> float:
        """The part of all keys that was looked at."""
        return self.below / _ALL

    def numbers(self) -> Keys:
        """The keys."""
        return unpacked(self.keys, self.once, MOST_KEYS, "keys of used rows")

    def matched(self, keys: Keys) -> tuple[int, int]:
        """How many of some keys are among these, and how many of these are among them."""
        kept = self.numbers()
        if not len(kept):
            return 0, 0
        n_rows, met = 0, np.zeros(len(kept), dtype=np.bool_)
        for some in _pieces(keys):
            place = np.searchsorted(kept[1:], some, side="right")
            same = kept[place] == some
            n_rows += int(same.sum())
            met[place[same]] = True
        return n_rows, int(met.sum())

    def use(self, keys: Keys) -> PartUse:
        """How many of the rows with these keys are those of this part: each of its rows had a chance to be kept."""
        seen, met = self.matched(keys)
        rows = min(round(seen / self.share), len(keys))
        many = seen >= _FEWEST and rows >= _LEAST_SHARE * len(keys)
        p_value = self._p_value(met, len(keys)) if met else 1.0
        explained = not met or (self.pairs > 0 and p_value >= _LIKELY)
        return PartUse(rows, many and p_value < _CHANCE, self.share < 1, met, explained)

    def _p_value(self, met: int, n_fresh: int) -> float:
        """The probability that fresh rows meet as many of the keys.

        Both numbers are about Poisson, that of the keys met with 2 m / n times the mean of that of the pairs: given
        their sum it is binomial.
        """
        from scipy.special import betainc  # noqa: PLC0415 - loading and predicting do without

        times = 2 * n_fresh / max(self.rows - 1, 1)
        return float(betainc(met, self.pairs + 1, times / (1 + times)))


def _pieces(keys: Keys) -> Iterator[Keys]:
    return (keys[start : start + _STEP] for start in range(0, len(keys), _STEP))


class UsedKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which rows chose the temperatures, and which set the threshold."""

    calibration: PartKeys
    conformal: PartKeys


@dataclass(frozen=True)
class UsedRows:
    """How many of some rows a predictor was made from.

    Attributes
    ----------
    rows : int
        How many rows were examined.
    calibration, conformal : int
        How many of them chose the temperatures, and how many set the threshold.
    total : int
        How many did either.
    estimated : bool
        Whether these numbers are estimates, because the document holds a sample of the rows.
    chose, set_threshold : bool
        Whether there are more such rows than chance explains, so they are indeed the same rows.
    noted : bool
        Whether they are worth a warning: more than one or two, and more than natural repeats among the used rows
        explain.
    """

    rows: int
    calibration: int
    conformal: int
    total: int
    estimated: bool
    chose: bool
    set_threshold: bool
    noted: bool

    @property
    def reused(self) -> bool:
        """Whether rows of either kind are among them, and not by chance."""
        return self.chose or self.set_threshold

    @property
    def sentence(self) -> str:
        """How many rows were used, and for what."""
        about = "about " if self.estimated else ""
        parts = f"{self.calibration:,} chose the temperatures, {self.conformal:,} set the threshold"
        return f"{about}{self.total:,} of {self.rows:,} rows were used to fit this predictor ({parts})"


def used_rows(made: "Document", data: Logits, keys: Keys | None = None) -> UsedRows:
    """How many of these rows the predictor was made from, whatever file, order or type they come in.

    Rows need no labels. `keys` are those of the rows, where they are known.

    >>> import thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=1000)
    >>> data = ts.Logits(rng.normal(size=(1000, 5)) + 2 * np.eye(5)[labels], labels)
    >>> predictor = ts.TwoTemperaturePredictor(prefer="small").fit(data.take(slice(0, 800)))
    >>> found = used_rows(predictor.document_, data.take(slice(600, 1000)))
    >>> found.total, found.rows, found.reused
    (200, 400, True)
    """
    known = made.used
    whole = _as_a_whole(made, data)
    if whole.reused:
        return whole
    keys = row_keys(data) if keys is None else keys
    calibration, conformal = known.calibration.use(keys), known.conformal.use(keys)
    total = min(calibration.rows + conformal.rows, len(data))
    if total >= _MOSTLY * len(data) and calibration.met + conformal.met >= _ENOUGH:
        calibration, conformal = (part._replace(reused=part.rows > 0) for part in (calibration, conformal))
    return _summed(data, calibration, conformal, total)


def _as_a_whole(made: "Document", data: Logits) -> UsedRows:
    """The same where rows are those of a part, or of both, as a whole: also rows that have no keys of their own."""
    came, split = made.provenance, None if data.labels is None else split_of(data, made)
    if split is not None:
        chose, threshold = (PartUse(len(rows), reused=True) for rows in split)
        return _summed(data, chose, threshold, len(data))
    calibration = _whole(data, came.calibration_rows, came.calibration_sha256)
    conformal = _whole(data, came.conformal_rows, came.conformal_sha256)
    return _summed(data, calibration, conformal, max(calibration.rows, conformal.rows))


def _whole(data: Logits, n_rows: int, sha256: str) -> PartUse:
    same = data.labels is not None and len(data) == n_rows and fingerprint(data) == sha256
    return PartUse(len(data), reused=True) if same else PartUse()


def _summed(data: Logits, calibration: PartUse, conformal: PartUse, total: int) -> UsedRows:
    return UsedRows(
        rows=len(data),
        calibration=calibration.rows,
        conformal=conformal.rows,
        total=total,
        estimated=calibration.estimated or conformal.estimated,
        chose=calibration.reused,
        set_threshold=conformal.reused,
        noted=total >= _NOTED and not (calibration.explained and conformal.explained),
    )


def split_of(data: Logits, made: "Document", split_by: Any = None) -> tuple[Ints, Ints] | None:
    """Row numbers of the calibration and conformal rows, if these are all rows of `fit`, in their order."""
    came, seed = made.provenance, made.recipe.random_state
    if len(data) != came.calibration_rows + came.conformal_rows:
        return None
    calibration, conformal = split_indices(len(data), came.calibration_fraction, random_state=seed, groups=split_by)
    same = fingerprint(data.take(calibration)) == came.calibration_sha256
    return (calibration, conformal) if same else None


def refuse_used(made: "Document", data: Logits) -> None:
    """Refuse rows that a predictor was made from, where fresh ones are needed; warn of a few that may be the same."""
    used = used_rows(made, data)
    if used.reused:
        raise InputError(
            f"{used.sentence}, so coverage on them says nothing about fresh rows. Check rows that were not used."
        )
    if used.noted:
        message = (
            f"{used.total:,} of {used.rows:,} rows have the same logits as rows that were used to fit this predictor. "
            "If they are the same rows, remove them."
        )
        warnings.warn(message, ReusedRowsWarning, stacklevel=3)


def broken_keys(part: PartKeys, n_rows: int) -> Iterator[tuple[str, bool]]:
    """What the keys of used rows must be, and whether they are not."""
    yield "used must count the rows of its parts", part.rows != n_rows
    yield f"keys of used rows must be below a bound of at most {_ALL:,}", not 0 < part.below <= _ALL
    counted = part.once >= 0 and part.pairs >= 0 and part.once + 2 * part.pairs <= part.rows
    yield "keys of used rows must not outnumber the rows", not counted
    keys = part.numbers()
    rise = bool((keys[1:] > keys[:-1]).all()) and (not len(keys) or int(keys[-1]) < part.below)
    yield "keys of used rows must increase and stay below their bound", not rise
