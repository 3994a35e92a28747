"""No signal, no advice: whether classes (or groups) differ at all, and whether a temperature is more even than T = 1.

Some temperature always has the lowest of fifty noisy losses, even if classes do not differ. Then it means nothing, and
T = 1 is the choice that needs no explanation.

Whether classes differ is asked of plain LAC sets at T = 1 and a laxer level, three times alpha: randomised sets hide
how hard a class is, relative risks hardly change with the level, and misses are many there. The test is the analysis
of variance. Once classes differ, the best guess is taken unless the rows speak against it, and how sure they are of it
is said: 1,000 rows seldom prove what is true of them, and waiting for proof gives most of the gain away again.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import f

from thermoset.arrays import Floats
from thermoset.levels import exact_level
from thermoset.tuning.aims import Even
from thermoset.tuning.choice import Signal
from thermoset.tuning.class_gap import ClassGaps
from thermoset.tuning.points import Sample, lax_misses, laxer
from thermoset.tuning.preference import Preference
from thermoset.tuning.search import Found, Search

__all__ = ["borne_out", "classes_differ"]

_CHANCE = 0.05  # classes must look more different than this share of those that are alike
_AGAINST = 0.1  # sure that a temperature beats T = 1: with less, the rows speak against it
_PROVEN = 0.95
_WORTH = 0.02  # a class gap that is worth looking for
_TELLS = 2.5  # standard deviations of chance that a true difference must reach to be seen nearly always


def borne_out(search: Search, preference: Preference, found: Found, sample: Sample) -> Found:
    """A choice for even coverage with what the rows say for it; T = 1 where they say nothing. Others as they are."""
    asked = isinstance(preference, Even) and found.recipe.closed_form
    if not asked or found.temperature == 1.0 or 1.0 not in found.curves.temperatures:
        return found
    test = classes_differ(sample, lax_misses(sample, found.recipe.change(method="lac")))
    if test.p_value > _CHANCE:
        level = float(exact_level(found.recipe.alpha))
        more = test.rows_to_tell(_WORTH / level * laxer(found.recipe.alpha))
        signal = Signal(p_value=test.p_value, tried=found.temperature)
        return replace(found, temperature=1.0, signal=signal, rows_needed=more)
    pair = np.sort([1.0, found.temperature])
    one, hat = (0, 1) if found.temperature > 1.0 else (1, 0)
    classes = search.closed_form(pair)[0].classes
    if classes is None or not len(classes.sample.counts):
        return found
    gaps = ClassGaps(classes)
    sure = gaps.beats(hat, one)
    if sure < _AGAINST:
        signal = Signal(p_value=test.p_value, beats=sure, tried=found.temperature)
        return replace(found, temperature=1.0, signal=signal)
    more = None if sure >= _PROVEN else gaps.rows_to_beat(hat, one)
    return replace(found, signal=Signal(p_value=test.p_value, beats=sure), rows_needed=more)


@dataclass(frozen=True)
class Differing:
    """Whether classes differ: the p-value, and what it rests on."""

    p_value: float
    n_rows: int
    n_classes: int
    variance: float

    def rows_to_tell(self, spread: float) -> int | None:
        """About how many rows would show differences of miss rates with this standard deviation; None if these do."""
        each = _TELLS * self.variance / (spread**2 * np.sqrt(self.n_classes / 2))
        wanted = int(np.ceil(each * self.n_classes))
        return wanted if wanted > self.n_rows else None


def classes_differ(sample: Sample, missed: Floats) -> Differing:
    """Test whether classes are missed alike, from whether each row is (n,).

    >>> rng = np.random.default_rng(0)
    >>> from thermoset.data import Logits
    >>> labels = rng.integers(0, 20, size=2000)
    >>> rows = Sample(Logits(rng.normal(size=(2000, 20)), labels), 1.0)
    >>> alike, apart = rng.random(2000) < 0.3, rng.random(2000) < 0.1 + 0.02 * labels
    >>> classes_differ(rows, alike + 0.0).p_value > 0.05 > classes_differ(rows, apart + 0.0).p_value
    True
    """
    n, counts = len(sample), sample.counts
    mean = float(missed.mean())
    between = float(((sample.by_part(missed) - counts * mean) ** 2 / counts).sum())
    within = max(float(((missed - mean) ** 2).sum()) - between, 1e-12)
    free = max(len(counts) - 1, 1), max(n - len(counts), 1)
    p_value = float(f.sf((between / free[0]) / (within / free[1]), *free))
    if len(counts) == n:  # a row each: nothing tells a class from its row
        p_value = 1.0
    return Differing(p_value, n, len(counts), within / free[1])
