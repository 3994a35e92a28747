"""The theory of temperature scaling and conformal prediction (paper, section 4 and appendix A), executable.

Every quantity is a function of logits (n, C), in any order of classes, and of a temperature; every statement is a check
that says which rows satisfy its premise and its conclusion. The theory is about the deterministic APS score (u = 1) and
finite logits. Also what it leaves open: the sharp bound, what moves sizes with u integrated out, class coverage.

>>> critical_temperature(100)  # doctest: +ELLIPSIS
1.370...
>>> z = [[9.0, 0.0, -1.0], [1.0, 0.5, 0.0]]
>>> margins(z) > bound(1.5, n_classes=3)
array([ True, False])
>>> theorem_4_4(z, 1.5)
Check(premise holds for 1 of 2, conclusion fails for 0 of those)
"""

from thermoset.paper.theory.bound import (
    BoundIntervals,
    bound,
    bound_share,
    critical_temperature,
    sharp_bound,
    sharp_share,
    temperature_intervals,
)
from thermoset.paper.theory.explain import (
    ClassCoverage,
    Explanation,
    QuantileSamples,
    RankLimit,
    SizeSlopes,
    class_coverage,
    explain,
    quantile_samples,
    rank_limit,
    score_order,
    size_slopes,
)
from thermoset.paper.theory.gaps import difference, entropy, entropy_slope, gap, gap_derivative, last_index, margins
from thermoset.paper.theory.propositions import (
    Check,
    Routes,
    auxiliary_lemma,
    corollary_4_2,
    entropy_proposition,
    gap_proposition,
    lemma_1,
    lemma_2,
    proposition_4_3,
    routes,
    sharp_theorem,
    sign_share,
    theorem_4_1,
    theorem_4_4,
)
from thermoset.paper.theory.sizes import (
    Peak,
    limit_scores,
    limit_sizes,
    measured_peak,
    paper_sizes,
    row_u,
)

__all__ = [
    "BoundIntervals", "Check", "ClassCoverage", "Explanation", "Peak", "QuantileSamples", "RankLimit",
    "Routes", "SizeSlopes", "auxiliary_lemma", "bound", "bound_share", "class_coverage", "corollary_4_2",
    "critical_temperature", "difference", "entropy", "entropy_proposition", "entropy_slope", "explain", "gap",
    "gap_derivative", "gap_proposition", "last_index", "lemma_1", "lemma_2", "limit_scores", "limit_sizes", "margins",
    "measured_peak", "paper_sizes", "proposition_4_3", "quantile_samples", "rank_limit", "routes",
    "row_u", "score_order", "sharp_bound", "sharp_share", "sharp_theorem", "sign_share", "size_slopes",
    "temperature_intervals", "theorem_4_1", "theorem_4_4",
]  # fmt: skip
