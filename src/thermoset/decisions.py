"""When a model may answer alone: rules with a certified error among the rows that nobody looks at.

Some of the known rows propose a sequence of thresholds and where to start in it; the others prove: each threshold takes
an exact binomial test, to ever laxer ones, up to the first failure. Rows that are not answered have prediction sets
with a threshold of their own: `references` says which rows may set it. docs/acting-alone.md has the proofs.
"""

import math
import os
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from thermoset.arrays import Bools, Floats, Ints, Pairs
from thermoset.bounds import MOST_HELD, checked_seed
from thermoset.data.estimator import Estimator
from thermoset.data.groups import Groups, read_groups
from thermoset.errors import InputError
from thermoset.io.files import read_sealed, write_sealed
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.uniforms import stream

if TYPE_CHECKING:
    from thermoset.metrics.laws import Interval

PROPOSING = Fraction(1, 5)
"""Share of the rows that propose, where one score is all there is."""

TRUST = 300.0
"""How many rows the calibrated confidence counts for, besides the errors that were seen."""

TRUST_IN_RANKS = 100.0
"""The same of a risk that was learned from the ranks of any score."""

LOWER, RIGHT, WRONG = 0, 1, 2
"""Rows that are not answered: below the threshold of the failed test; right, or wrong, at or above it."""

_SHARES = np.arange(1, 51) / 50
_SIMULATIONS = 400

Count = Annotated[int, Meta(ge=0, le=MOST_HELD)]
Number = float | Literal["inf", "-inf"]  # JSON has no infinity: those two are words


class AnswerClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a rule promises of the rows it answers, and what this rests on.

    Attributes
    ----------
    error, confidence : str
        The claim as it was typed: at most this share of the answers is wrong, with this confidence.
    level : Number
        Rows are answered from this score on; "inf": none are.
    below : Number
        The threshold of the test that failed, "-inf" where none did.
    rows, answered, errors : int
        The rows that proved it, those of them that are answered, and the wrong ones among these.
    failed : (int, int), optional
        Rows and errors of the failed test.
    needed : int, optional
        Where nothing could be proved: how many such rows would probably do; None where the model cannot.
    together : int
        How many claims hold at once with this confidence.
    """

    error: str
    confidence: str
    level: Number
    below: Number
    rows: Count
    answered: Count
    errors: Count
    failed: tuple[Count, Count] | None = None
    needed: Count | None = None
    together: Annotated[int, Meta(ge=1)] = 1

    @property
    def bound(self) -> float:
        """The largest share of wrong answers that is claimed."""
        return float(Fraction(self.error))

    @property
    def threshold(self) -> float:
        """Rows with this score or a higher one are answered."""
        return float(self.level)

    @property
    def met(self) -> bool:
        """Whether there is a threshold whose error could be proved."""
        return self.threshold < math.inf

    @property
    def share(self) -> float:
        """Share of the rows that are answered."""
        return self.answered / self.rows

    @property
    def share_interval(self) -> "Interval":
        """The 95% interval of that share (Clopper-Pearson)."""
        from thermoset.metrics.laws import Interval, clopper_pearson  # noqa: PLC0415 - as in `propose`

        low, high = clopper_pearson(self.answered, self.rows)
        return Interval(float(low), float(high))

    @property
    def delta(self) -> Fraction:
        """The level of each test."""
        return (1 - exact_level(self.confidence, "confidence", "0.95")) / self.together

    @property
    def sentence(self) -> str:
        """The claim in one sentence."""
        sure, at_most = f"{float(exact_level(self.confidence)):.4g}", f"{self.bound:.4g}"
        if self.met:
            low, high = (f"{end:.1%}" for end in self.share_interval)
            return (
                f"Answers {self.share:.1%} of the rows alone ({low} to {high}), with an error of at most {at_most} "
                f"(confidence {sure}; {self.errors:,} of {self.answered:,} answers were wrong)."
            )
        if self.needed is None:
            return (
                f"Answers no row alone: these rows show no threshold above which the error is below {at_most}. A "
                "better model, or a larger error, is needed."
            )
        return (
            f"Answers no row alone: an error of at most {at_most} could not be shown with {self.rows:,} rows. About "
            f"{self.needed:,} would probably do."
        )

    def passes(self, answered: int, errors: int) -> bool:
        """Whether so many errors among so many answered rows prove the claim."""
        from thermoset.metrics.planning import most_errors  # noqa: PLC0415 - as in `propose`

        bound = Fraction(self.error)
        return 0 <= errors <= int(most_errors(np.array([answered]), bound, self.delta)[0])

    def cross_checks(self) -> Iterator[tuple[bool, str]]:
        """What must hold of a claim that was read from a file, and whether it does not."""
        from thermoset.metrics.planning import read_error  # noqa: PLC0415 - as in `propose`

        read_error(f"error<={self.error}")
        counted = 0 <= self.errors <= self.answered <= self.rows and float(self.below) <= self.threshold
        counted &= (self.failed is None) == (self.threshold == -math.inf)
        yield not counted, "the claim about answers must count its rows, and its thresholds must descend"
        proved = not self.met or self.passes(self.answered, self.errors)
        ended = self.failed is not None and self.passes(*self.failed)
        yield ended or not proved, "the claim about answers must follow from its counts"


def format_bound(bound: Fraction) -> str:
    """A bound as a decimal, or as a fraction where it is none."""
    text = f"{float(bound):.12g}"
    return text if Fraction(text) == bound else str(bound)


def word(number: float) -> Number:
    """A threshold as JSON holds it."""
    return number if not math.isinf(number) else ("inf" if number > 0 else "-inf")


# ---- thresholds and tests --------------------------------------------------------------------------------------------


def descending_thresholds(score: Floats) -> Floats:
    """The scores at which 2%, 4%, ... of the rows are answered, without repetitions; the last is minus infinity."""
    descending = np.sort(score)[::-1]
    thresholds = descending[np.ceil(_SHARES * len(score)).astype(np.int64) - 1].astype(np.float64)
    thresholds[-1] = -np.inf
    return np.unique(thresholds)[::-1]


def count_answers(score: Floats, wrong: Floats | Bools, thresholds: Floats) -> tuple[Ints, Floats]:
    """Rows at or above each of descending thresholds, and the sum of `wrong` over them."""
    order = np.argsort(-score, kind="stable")
    rows = np.searchsorted(-score[order], -thresholds, side="right")
    return rows, np.concatenate([[0.0], np.cumsum(wrong[order])])[rows]


class Proposal(NamedTuple):
    """Descending thresholds, the place of the first to test, and the share and risk to be expected at each."""

    thresholds: Floats
    start: int
    share: Floats
    risk: Floats


def propose(
    score: Floats, right: Bools, risk: Floats, trust: float, bound: Fraction, delta: Fraction, n_rows: int, seed: int
) -> Proposal:
    """Where to start, from rows that prove nothing.

    `risk` is the probability that each answer is wrong, which counts for `trust` rows besides what was seen: between
    two thresholds the share of errors is Beta distributed. How many of `n_rows` other rows lie there, and the errors
    among them, are simulated, and walks from every start; the best one answers most rows on average.
    """
    from thermoset.metrics.planning import most_errors  # noqa: PLC0415 - SciPy, which documents without a rule need not

    thresholds, n = descending_thresholds(score), len(score)
    rows, errors = count_answers(score, ~right, thresholds)
    expected = count_answers(score, risk, thresholds)[1]
    own, wrong, prior = (np.diff(counts, prepend=0.0) for counts in (rows, errors, expected))
    weight = trust / n
    shape = wrong + weight * prior + 1e-3, own - wrong + weight * (own - prior) + 1e-3
    rng = stream(seed, "where to start")
    fresh = rng.multinomial(n_rows, rng.dirichlet(own, size=_SIMULATIONS))
    drawn = np.cumsum(rng.binomial(fresh, rng.beta(*shape, size=fresh.shape)), axis=1)
    passed = drawn <= most_errors(np.cumsum(fresh, axis=1), bound, delta)
    reached, best = np.zeros(_SIMULATIONS), np.zeros(len(rows))
    for j in range(len(rows) - 1, -1, -1):  # the share that a walk from j answers: that of the last pass in a row
        further = passed[:, j + 1] if j + 1 < len(rows) else np.zeros(_SIMULATIONS, dtype=np.bool_)
        reached = np.where(passed[:, j], np.where(further, reached, rows[j] / n), 0.0)
        best[j] = reached.mean()
    posterior = (errors + weight * expected) / np.maximum((1 + weight) * rows, 1e-9)
    return Proposal(thresholds, int(best.argmax()), rows / n, posterior)


def prove(
    proposal: Proposal, score: Floats, right: Bools, error: str, confidence: str, together: int = 1
) -> AnswerClaim:
    """Walk to laxer thresholds, each an exact binomial test on rows that proposed nothing, up to the first failure."""
    from thermoset.metrics.planning import answers_for, most_errors  # noqa: PLC0415 - as in `propose`

    bound, at = Fraction(error), proposal.thresholds
    delta = (1 - exact_level(confidence, "confidence", "0.95")) / together
    rows, errors = count_answers(score, ~right, at)
    fails = np.flatnonzero(errors[proposal.start :] > most_errors(rows, bound, delta)[proposal.start :])
    stop = proposal.start + int(fails[0]) if len(fails) else len(at)
    met, ended, needed = stop > proposal.start, stop == len(at), None
    if not met:  # rows with which some threshold would probably pass, if risks are what the proposal expects
        planned = [answers_for(bound, float(risk), delta) for risk in proposal.risk]
        rows_for = [n / share for n, share in zip(planned, proposal.share, strict=True) if n is not None and share > 0]
        needed = math.ceil(min(rows_for)) if rows_for else None
    return AnswerClaim(
        error=error,
        confidence=confidence,
        level=word(float(at[stop - 1])) if met else "inf",
        below="-inf" if ended else word(float(at[stop])),
        rows=len(score),
        answered=int(rows[stop - 1]) if met else 0,
        errors=int(errors[stop - 1]) if met else 0,
        failed=None if ended else (int(rows[stop]), int(errors[stop])),
        needed=needed,
        together=together,
    )


def references(kind: Ints, claim: AnswerClaim) -> tuple[Bools, Bools]:
    """Which of the unanswered rows that proved a rule, (n,), may be compared with another unanswered row, besides all.

    The first are for any label, the second for the top label of rows between the two thresholds of the rule. A new row
    could have been any of the rows that would have left the rule as it is. Had a row been new instead, only the failed
    test would have had other counts (m, e): without it, and with the new row. So wrong rows of the block between the
    thresholds drop out where (m - 1, e - 1) would pass, for a row below the block; and for the top label of a row in
    the block wrong ones where (m, e - 1) would pass, and rows below where (m + 1, e) would.
    """
    others, top = np.ones((2, len(kind)), dtype=np.bool_)
    if claim.failed is not None:
        m, e = claim.failed
        if e and claim.passes(m - 1, e - 1):
            others &= kind != WRONG
        if e and claim.passes(m, e - 1):
            top &= kind != WRONG
        if claim.passes(m + 1, e):
            top &= kind != LOWER
    return others, top


def set_thresholds(scores: Pairs, kind: Ints, claim: AnswerClaim, alpha: Alpha) -> tuple[complex, complex]:
    """Thresholds of unanswered rows from the label scores of those that proved the rule.

    One for every label, and one, at least as large, for the top label of rows between the two thresholds of the rule.
    """
    others, top = references(kind, claim)
    of_all, of_others, of_top = (_order_statistic(scores[rows], alpha) for rows in (slice(None), others, top))
    return np.sort([of_all, of_others])[-1], np.sort([of_all, of_others, of_top])[-1]


def _order_statistic(scores: Pairs, alpha: Alpha) -> complex:
    k = conformal_rank(len(scores), alpha)
    return complex(np.sort(scores)[k - 1]) if k <= len(scores) else complex(np.inf, np.inf)


def kinds_of(score: Floats, right: Bools, claim: AnswerClaim) -> Ints:
    """Which of LOWER, RIGHT and WRONG each unanswered row is."""
    return np.where(score < float(claim.below), LOWER, np.where(right, RIGHT, WRONG)).astype(np.int64)


def check_rows_for(error: Fraction, delta: Fraction, n_rows: int, which: str) -> None:
    """Refuse too few rows to prove anything, before the work."""
    from thermoset.metrics.planning import fewest_answers  # noqa: PLC0415 - as in `propose`

    least = fewest_answers(error, delta)
    if n_rows < least:
        raise InputError(
            f"an error of at most {float(error):g} needs at least {least:,} {which}, all answered and right, to be "
            f"shown; got {n_rows:,}. Add rows, or allow a larger error."
        )


# ---- one score -------------------------------------------------------------------------------------------------------


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fitted rule as a file."""

    format: str = "thermoset answer rule"
    schema: int = 1
    joint: bool
    random_state: int
    claims: Annotated[tuple[AnswerClaim, ...], Meta(min_length=1)]
    group_names: tuple[str, ...] | None = None
    checksum: str = ""


class AnswerRule(Estimator):
    """From which score on answers may go out alone, with a certified error: for any model that gives one score a row.

    With probability `confidence` over the known rows, at most the given share of the rows that are answered later is
    wrong. It needs known rows like the later ones, independent of each other and not used to make the score, and
    nothing of the score itself; a better one answers more rows.

    Parameters
    ----------
    answer : str
        The claim, such as "error<=0.02".
    confidence : float
        How sure it is.
    joint : bool
        With groups, whether all claims hold together with this confidence; otherwise each does by itself.
    random_state : int
        Draws the fifth of the rows that propose where to start; the others prove the claim.

    Attributes
    ----------
    threshold_ : float or ndarray of shape (G,)
        Rows with this score or a higher one are answered; +inf where nothing could be proved.
    met_ : bool or ndarray of shape (G,)
        Whether the claim could be proved for some threshold.
    claims_ : tuple of AnswerClaim
        What is claimed, in all or of each group: bound, counts, share of answered rows, and what would be needed.
    group_names_ : tuple of str, or None
        The groups.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> score = rng.random(4000)
    >>> right = rng.random(4000) < 0.7 + 0.3 * score
    >>> rule = ts.AnswerRule("error<=0.1").fit(score, right)
    >>> rule.met_, 0.3 < rule.threshold_ < 0.6  # the error above t is 0.15 (1 - t)
    (True, True)
    >>> bool((rule.answers([0.1, 0.9]) == [False, True]).all())
    True
    """

    def __init__(self, answer: str, confidence: Alpha = 0.95, joint: bool = False, random_state: int = 0) -> None:
        self.answer = answer
        self.confidence = confidence
        self.joint = joint
        self.random_state = random_state

    def fit(self, score: ArrayLike, right: ArrayLike, groups: Any = None) -> "AnswerRule":
        """Learn the threshold from rows that were judged: their scores, higher = surer, and whether they were right.

        With `groups`, one name or number for each row, each group has a threshold of its own.
        """
        from thermoset.metrics.counts import check_row_values  # noqa: PLC0415
        from thermoset.metrics.planning import read_error  # noqa: PLC0415

        level = check_row_values(score, "score", "fiu", "Pass a confidence, higher where an answer is surer.")
        correct = check_row_values(right, "right", "b", "Pass whether each answer was right.", len(level)).astype(bool)
        bound, seed, level = read_error(self.answer), checked_seed(self.random_state), level.astype(np.float64)
        delta = 1 - exact_level(self.confidence, "confidence", "0.95")
        known = None if groups is None else read_groups(groups, len(level))
        if known is None:
            check_rows_for(bound, delta, _n_proving(len(level)), "rows that prove it (four fifths of all)")
            parts: list[Any] = [slice(None)]
        else:
            parts = [known.codes == g for g in range(len(known.names))]
        together = len(parts) if self.joint else 1
        claims = tuple(
            _prove_part(level[rows], correct[rows], bound, str(self.confidence), together, seed) for rows in parts
        )
        names = None if known is None else known.names
        self._adopt(_Document(joint=bool(self.joint), random_state=seed, claims=claims, group_names=names))
        return self

    def answers(self, score: ArrayLike, groups: Any = None) -> NDArray[np.bool_]:
        """Which rows may be answered alone, (n,); rows of a group that `fit` did not see are not."""
        from thermoset.metrics.counts import check_row_values  # noqa: PLC0415

        if not hasattr(self, "claims_"):
            raise InputError("this AnswerRule is not fitted. Call fit first.")
        level = check_row_values(score, "score", "fiu", "Pass the score that the rule was fitted on.")
        thresholds = np.array([claim.threshold for claim in self.claims_] + [np.inf])
        if self.group_names_ is None:
            if groups is not None:
                raise InputError("this rule has one threshold for all rows. Omit groups, or fit it with them.")
            return np.asarray((level >= thresholds[0]) & (thresholds[0] < np.inf))
        if groups is None:
            raise InputError("this rule has a threshold for each group. Pass groups=, one per row.")
        given: Groups = read_groups(groups, len(level))
        own = thresholds[given.codes_among(self.group_names_)]  # -1, of an unknown group, is the last: +inf
        return np.asarray((level >= own) & (own < np.inf))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON document for `load`, completely or not at all."""
        if not hasattr(self, "claims_"):
            raise InputError("this AnswerRule is not fitted. Call fit first.")
        write_sealed(path, self._document)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "AnswerRule":
        """Read what `save` wrote."""
        document = read_sealed(path, _Document, "an answer rule", 2**26, _cross_checks)
        first = document.claims[0]
        rule = cls(f"error<={first.error}", first.confidence, document.joint, document.random_state)
        rule._adopt(document)
        return rule

    def _adopt(self, document: _Document) -> None:
        self._document, self.claims_, self.group_names_ = document, document.claims, document.group_names
        one = document.group_names is None
        thresholds = np.array([claim.threshold for claim in document.claims])
        self.threshold_: float | Floats = float(thresholds[0]) if one else thresholds
        self.met_: bool | Bools = bool(thresholds[0] < np.inf) if one else thresholds < np.inf


def _cross_checks(document: _Document) -> Iterator[tuple[bool, str]]:
    for claim in document.claims:
        yield from claim.cross_checks()
    names = [""] if document.group_names is None else document.group_names
    yield not len(set(names)) == len(names) == len(document.claims), "there must be one claim for each group"


def _n_proving(n_rows: int) -> int:
    return n_rows - math.floor(n_rows * PROPOSING)


def _prove_part(score: Floats, right: Bools, bound: Fraction, confidence: str, together: int, seed: int) -> AnswerClaim:
    """The claim about rows with one threshold; a fifth of them propose it."""
    from thermoset.metrics.planning import fewest_answers  # noqa: PLC0415

    proving = _n_proving(len(score))
    order = stream(seed, "rows that propose").permutation(len(score))
    some, rest = order[proving:], order[:proving]
    delta, error = (1 - exact_level(confidence, "confidence", "0.95")) / together, format_bound(bound)
    if proving < (fewest := fewest_answers(bound, delta)) or len(some) < 2:
        return AnswerClaim(
            error=error,
            confidence=confidence,
            level="inf",
            below="-inf",
            rows=proving,
            answered=0,
            errors=0,
            failed=(proving, int(np.count_nonzero(~right[rest]))),
            needed=math.ceil(fewest / (1 - PROPOSING)),
            together=together,
        )
    risk = _risk_of_ranks(score[some], right[some])
    proposal = propose(score[some], right[some], risk, TRUST_IN_RANKS, bound, delta, proving, seed)
    return prove(proposal, score[rest], right[rest], error, confidence, together)


def _risk_of_ranks(score: Floats, right: Bools) -> Floats:
    """The chance that each answer is wrong: a logistic curve of the normal quantile of its score's rank."""
    from scipy.special import ndtri  # noqa: PLC0415

    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    x = ndtri((np.cumsum(count) - count / 2) / len(score))[place]
    features, coefficients = np.column_stack([np.ones(len(x)), x]), np.zeros(2)
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-features @ coefficients))
        slope = features.T @ (right - p) - 0.1 * coefficients
        curvature = (features * (p * (1 - p))[:, None]).T @ features + 0.1 * np.eye(2)
        coefficients = coefficients + np.linalg.solve(curvature, slope)
    return np.asarray(1.0 / (1.0 + np.exp(features @ coefficients)))
