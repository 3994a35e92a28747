"""What decides the sets of a fitted predictor, made once from its document: every set comes from here."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.scoring import Scoring, sets_under, sizes_under
from thermoset.core.scores import Score
from thermoset.core.thresholds import ScorePairs
from thermoset.data import Logits
from thermoset.predictor.artifact import Artifact
from thermoset.predictor.members import Thresholds

__all__ = ["SetRule"]


class _Voice(NamedTuple):
    """A way of scoring with its thresholds (1, one or C), and the classes it may let in; None: all."""

    scoring: Scoring
    thresholds: ScorePairs
    classes: list[int] | None


@dataclass(frozen=True)
class SetRule:
    """One temperature with its thresholds, or several of which each may let in some classes (see `tuning.full`)."""

    voices: tuple[_Voice, ...]

    @classmethod
    def of(cls, artifact: Artifact, score: Score) -> "SetRule":
        """As a document says, for the score that it names: that of a user cannot be found by its name."""

        def voice(temperature: float, thresholds: Thresholds, classes: tuple[int, ...] | None) -> _Voice:
            scoring = Scoring(score, temperature, artifact.seed, artifact.scheme)
            return _Voice(scoring, thresholds.pairs()[None], None if classes is None else list(classes))

        if artifact.members:
            return cls(tuple(voice(one.temperature, one.thresholds, one.classes) for one in artifact.members))
        return cls((voice(artifact.temperature_sets, artifact.thresholds, None),))

    def sets(self, data: Logits, ids: Any = None) -> NDArray[np.bool_]:
        """Sets (n, C): a label is in if a temperature that may speak for it lets it in."""
        first, *others = self.voices
        if not others:
            alone: NDArray[np.bool_] = sets_under(data, first.scoring, first.thresholds, ids=ids)[0]
            return alone
        union = np.zeros(data.logits.shape, dtype=bool)
        for voice in self.voices:
            (sets,) = sets_under(data, voice.scoring, voice.thresholds, ids=ids)
            columns: Any = slice(None) if voice.classes is None else voice.classes
            union[:, columns] |= sets[:, columns]
        return union

    def sizes(self, data: Logits, ids: Any = None) -> NDArray[np.int64]:
        """Set sizes (n,); the sets are not formed where one threshold serves all classes."""
        first, *others = self.voices
        if others:
            counts: NDArray[np.int64] = self.sets(data, ids).sum(axis=1)
            return counts
        return sizes_under(data, first.scoring, first.thresholds[0], ids=ids)
