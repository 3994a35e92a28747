"""Three ways from theory to set sizes, row by row: the bound, proposition 4.3, and counting.

The bound, b(T) or the sharp b*(T), needs nothing but a row's margin, and two assumptions beside it: that one row sets
both thresholds, and that rows differ by their largest logit. The proposition needs the two thresholds and assumes
nothing. Counting is what happens.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from thermoset.bounds import checked_seed, checked_temperature
from thermoset.conformal import ConformalClassifier
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.levels import Alpha
from thermoset.paper.theory.bound import bound
from thermoset.paper.theory.gaps import margins
from thermoset.paper.theory.propositions import Check, proposition_4_3
from thermoset.paper.theory.sharp import sharp_bound
from thermoset.paper.theory.sizes import paper_sizes, row_u
from thermoset.paper.theory.sorted_rows import Bools, Floats, Ints, checked_rank, finite_logits
from thermoset.quoting import Brief

__all__ = ["Routes", "routes"]


@dataclass(frozen=True, eq=False, repr=False)
class Routes(Brief):
    """What each route says about rows when APS sets go from T = 1 to T.

    The claim is L_T >= L for T > 1, and L_T <= L for T < 1.

    Attributes
    ----------
    temperature, randomized
        T, and whether u is drawn (else u = 1).
    thresholds : (2,)
        The thresholds at 1 and at T.
    margin, bound, sharp : array (n,), float, float
        The rows' dz, the number b(T) it must exceed by the paper, and b*(T), which is enough.
    before, after : (n,)
        L at 1 and at T, in the paper's sense.
    sizes_before, sizes_after : (n,)
        Sizes of the library's sets {score <= threshold}.
    proposition : Check
        Proposition 4.3, with these thresholds.
    """

    temperature: float
    randomized: bool
    thresholds: Floats
    margin: Floats
    bound: float
    sharp: float
    before: Ints
    after: Ints
    sizes_before: Ints
    sizes_after: Ints
    proposition: Check

    @property
    def claimed(self) -> Bools:
        """Rows for which the claim is true: sets do not shrink for T > 1, and do not grow for T < 1."""
        return self.moved >= 0

    @property
    def moved(self) -> Ints:
        """By how many ranks L moved in the direction the theory names: L_T - L for T > 1, L - L_T for T < 1."""
        step = self.after - self.before
        return step if self.temperature > 1 else -step

    @property
    def by_bound(self) -> Bools:
        """Rows whose margin is above b(T)."""
        return self.margin > self.bound

    @property
    def by_sharp(self) -> Bools:
        """Rows whose margin is above b*(T): the derivative has the sign, the two assumptions are still needed."""
        return self.margin > self.sharp

    @property
    def by_proposition(self) -> Bools:
        """Rows that satisfy the premise of proposition 4.3."""
        return self.proposition.premise

    @property
    def trivial(self) -> Bools:
        """Rows for which the claim could not fail: L = 1 (for T < 1, L_T = 1)."""
        return np.equal(self._larger, 1)

    @property
    def only_label(self) -> Bools:
        """Rows against the claim whose set is of one label at one temperature and empty at the other."""
        return ~self.claimed & np.equal(self._larger, 2)

    @property
    def _larger(self) -> Ints:
        """L where the claim says that it is not the larger one."""
        return self.before if self.temperature > 1 else self.after


def routes(
    conformal: Logits,
    fresh: Any,
    temperature: float,
    *,
    alpha: Alpha = 0.1,
    randomized: bool = False,
    random_state: int = 0,
) -> Routes:
    """Apply the three routes to fresh rows; labelled `conformal` rows give the two thresholds.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 10, size=400)
    >>> data = Logits(4 * (rng.normal(size=(400, 10)) + 2 * np.eye(10)[labels]), labels)
    >>> rows, fresh = data.split(0.5)
    >>> found = routes(rows, fresh, 1.5)
    >>> len(found.proposition.violations)
    0
    >>> bool(found.claimed[found.by_proposition | found.trivial].all())
    True
    """
    t, seed = checked_temperature(temperature), checked_seed(random_state)
    if t == 1:
        raise InputError("routes compare sets at T with sets at 1; got T = 1. Pass another temperature.")
    rows, new = finite_logits(conformal), finite_logits(fresh)
    checked_rank(len(rows), alpha)
    u = row_u(new, seed) if randomized else np.ones(len(new))
    q, real, counted = [], [], []
    for at in (1.0, t):
        model = ConformalClassifier("aps", alpha, at, randomized=randomized, random_state=seed).fit(rows)
        q.append(model.thresholds_)
        real.append(model.set_sizes(new))
        counted.append(paper_sizes(new, at, model.thresholds_, u=u))
    return Routes(
        temperature=t,
        randomized=randomized,
        thresholds=np.array([float(one[0, 0].real) for one in q]),
        margin=margins(new),
        bound=bound(t, new.n_classes),
        sharp=sharp_bound(t, new.n_classes),
        before=counted[0],
        after=counted[1],
        sizes_before=real[0],
        sizes_after=real[1],
        proposition=proposition_4_3(new, t, q[0], q[1], u=u),
    )
