"""What the paper proves, checked on rows of a file: for how many each statement speaks, and whether it is true."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from thermoset.data import Logits
from thermoset.levels import Alpha
from thermoset.paper import theory
from thermoset.text_tables import TextTable

if TYPE_CHECKING:
    from thermoset.paper.study.pairs import PairStudy

__all__ = ["Statement", "check_statements", "statements_table"]

_MOST_ROWS = 2000
_STEPS = (0.5, 1.0, 2.0, 4.0)  # temperatures of the corollary


@dataclass(frozen=True)
class Statement:
    """A statement of the paper on rows of a file; of `rows`, its premise holds for `premise`."""

    name: str
    text: str
    rows: int
    premise: int
    violations: int


def check_statements(data: Logits, temperature: float, alpha: Alpha) -> tuple[Statement, ...]:
    """Check every statement of section 4 and appendix A from T = 1 to `temperature`, on 2,000 of the rows at most."""
    most = np.linspace(0, len(data) - 1, min(len(data), _MOST_ROWS)).astype(np.int64)
    rows, t = data.take(most), temperature if temperature != 1 else 2.0
    cool, hot, half = min(t, 1.0), max(t, 1.0), max(data.n_classes // 2, 1)
    conformal, fresh = rows.split(0.5)
    checks = {
        ("Auxiliary lemma", "a cooler temperature favours the larger of two logits"): theory.auxiliary_lemma(
            rows, cool, hot
        ),
        ("Theorem 4.1", "the mass of the top classes falls as T rises"): theory.theorem_4_1(rows, cool, hot, half),
        ("Corollary 4.2", "the threshold of APS falls as T rises (steps of T)"): theory.corollary_4_2(
            rows, None, _STEPS, alpha=alpha
        ),
        ("Proposition 4.3", "a gap above that of the thresholds keeps a set from shrinking"): theory.routes(
            conformal, fresh, t, alpha=alpha
        ).proposition,
        ("Theorem 4.4", "a margin above b(T) gives the derivative of the gap its sign"): theory.theorem_4_4(rows, t),
        ("Theorem 4.4, sharp", "so does a margin above b*(T), an addition"): theory.sharp_theorem(rows, t),
        ("Entropy proposition", "the entropy of the softmax rises with T"): theory.entropy_proposition(rows, t),
        ("Lemma 1, appendix A", "probabilities change their sign of growth once, after rank s_T"): theory.lemma_1(
            rows, t
        ),
        ("Lemma 2, appendix A", "two gaps differ by no more than the gap at s_T"): theory.lemma_2(rows, t, 1, half),
        ("Gap proposition, appendix A", "with s_T = 1 they differ by less than a bound on the margin"): (
            theory.gap_proposition(rows, t, 1, half)
        ),
    }
    return tuple(
        Statement(*name, len(check.premise), int(np.count_nonzero(check.premise)), len(check.violations))
        for name, check in checks.items()
    )


def statements_table(studies: "Sequence[PairStudy]") -> TextTable:
    """For how many rows of each file a statement speaks, and for how many it is not true."""
    lines = []
    for i, statement in enumerate(studies[0].statements):
        each = [study.statements[i] for study in studies]
        told = [f"{one.premise:,} of {one.rows:,}; {one.violations} against" for one in each]
        lines.append((statement.name, statement.text, *told))
    head = ("statement", "what it says", *(study.title for study in studies))
    title = "Section 4 and appendix A. Rows that each statement speaks for, from T = 1 to T*, and rows against it"
    return TextTable("statements", title, head, tuple(lines), words=True)
