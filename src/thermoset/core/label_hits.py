"""Which rows' sets hold their own label, from the shares around the label alone: no set is made."""

import numpy as np

from thermoset.core.compiling import leaf_kernel
from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.formulas import Cut, Formula, lets_in
from thermoset.core.label_shares import LabelShares, label_at
from thermoset.core.thresholds import Cuts

__all__ = ["label_hits"]


@leaf_kernel
def _fill_hits(formula: Formula, labels: LabelShares, u: Floats, which: Ints, cuts: Cuts, out: Bools) -> None:
    for i in range(u.shape[0]):
        cut = Cut(cuts.value[which[i]], cuts.refine[which[i]])
        out[i] = lets_in(cut, formula, labels.rank[i], label_at(labels, i), u[i])


def label_hits(formula: Formula, labels: LabelShares, u: Floats, which: Ints, cuts: Cuts) -> Bools:
    """Whether the set of each row holds its label, (n,), under the threshold numbered `which` (n,) of some."""
    out = np.empty(len(u), dtype=np.bool_)
    _fill_hits(formula, labels, u, which, Cuts(*map(np.ascontiguousarray, cuts)), out)
    return out
