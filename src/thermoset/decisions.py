"""When a model may answer alone: rules with a certified error among the rows that nobody looks at.

A rule answers the rows whose score is at least a threshold. Its claim: with probability 1 - delta over the known rows,
P(wrong | answered) <= error. Some of the known rows propose: they fix a sequence of thresholds and the place where to
start, by what they lead to expect. The others prove: from the start to ever laxer thresholds, each takes an exact
binomial test at level delta, and the first failure ends the walk. A false claim needs a pass at the first threshold of
the sequence whose risk exceeds the error, so it has probability at most delta, whatever the scores are: risks that go
up and down, and scores that tie, change nothing. docs/acting-alone.md has the proofs.

Rows that are not answered keep prediction sets, with a threshold of their own: `references` says which of the rows
that proved may set it.
"""

import hashlib
import math
import os
from collections.abc import Sequence
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
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import as_path, errors_about, read_at_most, write_whole
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.quoting import quoted, reason
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
_FORMAT = "thermoset answer rule"
_SCHEMA = 1
_MOST_BYTES = 2**26

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
        from thermoset.metrics.laws import Interval, clopper_pearson  # noqa: PLC0415 - documents without a rule do without SciPy

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
        from thermoset.metrics.planning import most_errors  # noqa: PLC0415 - documents without a rule do without SciPy

        bound = Fraction(self.error)
        return 0 <= errors <= int(most_errors(np.array([answered]), bound, self.delta)[0])

    def faults(self) -> list[str]:
        """What must hold of a claim, and does not."""
        from thermoset.metrics.planning import read_error  # noqa: PLC0415 - documents without a rule do without SciPy

        bound, counted = read_error(f"error<={self.error}"), 0 <= self.errors <= self.answered <= self.rows
        if not counted or bound <= 0 or self.delta <= 0 or not float(self.below) <= self.threshold:
            return ["the claim about answers must count its rows, and its thresholds must descend"]
        if self.met and not self.passes(self.answered, self.errors):
            return ["the claim about answers must follow from its counts"]
        if (self.failed is None) != (self.threshold == -math.inf):
            return ["the claim about answers must name the test that failed"]
        if self.failed is not None and self.passes(*self.failed):
            return ["the failed test of the claim about answers must fail"]
        return []


def typed(bound: Fraction) -> str:
    """A bound as a decimal, or as a fraction where it is none.

    >>> typed(Fraction(1, 50)), typed(Fraction(1, 30))
    ('0.02', '1/30')
    """
    text = f"{float(bound):.12g}"
    return text if Fraction(text) == bound else str(bound)


def word(number: float) -> Number:
    """A threshold as JSON holds it."""
    return number if math.isfinite(number) else ("inf" if number > 0 else "-inf")


# ---- thresholds and tests --------------------------------------------------------------------------------------------


def descending_thresholds(score: Floats) -> Floats:
    """The scores at which 2%, 4%, ... of the rows are answered, without repetitions; the last is minus infinity.

    >>> descending_thresholds(np.array([0.9, 0.9, 0.5, 0.1]))
    array([ 0.9,  0.5,  0.1, -inf])
    """
    descending = np.sort(score)[::-1]
    found = descending[np.ceil(_SHARES * len(score)).astype(np.int64) - 1].astype(np.float64)
    found[-1] = -np.inf
    return np.unique(found)[::-1]


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
    from thermoset.metrics.planning import most_errors  # noqa: PLC0415 - documents without a rule do without SciPy

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
    from thermoset.metrics.planning import most_errors  # noqa: PLC0415 - documents without a rule do without SciPy

    bound, at = Fraction(error), proposal.thresholds
    delta = (1 - exact_level(confidence, "confidence", "0.95")) / together
    rows, errors = count_answers(score, ~right, at)
    fails = np.flatnonzero(errors[proposal.start :] > most_errors(rows, bound, delta)[proposal.start :])
    stop = proposal.start + int(fails[0]) if len(fails) else len(at)
    met, ended = stop > proposal.start, stop == len(at)
    return AnswerClaim(
        error=error,
        confidence=confidence,
        level=word(float(at[stop - 1])) if met else "inf",
        below="-inf" if ended else word(float(at[stop])),
        rows=len(score),
        answered=int(rows[stop - 1]) if met else 0,
        errors=int(errors[stop - 1]) if met else 0,
        failed=None if ended else (int(rows[stop]), int(errors[stop])),
        needed=None if met else _rows_needed(proposal, bound, delta),
        together=together,
    )


def _rows_needed(proposal: Proposal, bound: Fraction, delta: Fraction) -> int | None:
    """Rows with which some threshold would pass with probability 0.8, if the risks are what the proposal expects."""
    from thermoset.metrics.planning import answers_for  # noqa: PLC0415 - documents without a rule do without SciPy

    wanted = (
        (answers_for(bound, float(risk), delta), share)
        for risk, share in zip(proposal.risk, proposal.share, strict=True)
        if share > 0
    )
    return min((math.ceil(rows / share) for rows, share in wanted if rows is not None), default=None)


class References(NamedTuple):
    """Which of the unanswered rows that proved a rule, (n,), may be compared with another unanswered row.

    Besides all of them: `others`, for any label, and `top`, for the top label of rows between the two thresholds of the
    rule; None where that is all of them again.
    """

    others: Bools | None
    top: Bools | None


def references(kind: Ints, claim: AnswerClaim) -> References:
    """Reference sets besides that of all unanswered rows; None where one is that of all.

    A new row could have been any of the rows that would have left the rule as it is. Had a row been new instead, only
    the failed test would have had other counts (m, e): without it, and with the new row. So wrong rows of the block
    between the thresholds drop out where (m - 1, e - 1) would pass, for a row below the block; and for the top label
    of a row in the block wrong ones where (m, e - 1) would pass, and rows below where (m + 1, e) would.
    """
    if claim.failed is None:
        return References(None, None)
    m, e = claim.failed
    others = kind != WRONG if e and claim.passes(m - 1, e - 1) else None
    top = np.ones(len(kind), dtype=np.bool_)
    if e and claim.passes(m, e - 1):
        top &= kind != WRONG
    if claim.passes(m + 1, e):
        top &= kind != LOWER
    return References(others, None if top.all() else top)


def set_thresholds(scores: Pairs, kind: Ints, claim: AnswerClaim, alpha: Alpha) -> tuple[complex, complex]:
    """Thresholds of unanswered rows from the label scores of those that proved the rule.

    One for every label, and one, at least as large, for the top label of rows between the two thresholds of the rule.
    """
    other = references(kind, claim)
    found = [_order_statistic(scores, alpha)]
    if other.others is not None:
        found.append(_order_statistic(scores[other.others], alpha))
    mine = np.sort(found)[-1]
    top = mine if other.top is None else np.sort([mine, _order_statistic(scores[other.top], alpha)])[-1]
    return complex(mine), complex(top)


def _order_statistic(scores: Pairs, alpha: Alpha) -> complex:
    k = conformal_rank(len(scores), alpha)
    return complex(np.sort(scores)[k - 1]) if k <= len(scores) else complex(np.inf, np.inf)


def kinds_of(score: Floats, right: Bools, claim: AnswerClaim) -> Ints:
    """Which of LOWER, RIGHT and WRONG each unanswered row is."""
    return np.where(score < float(claim.below), LOWER, np.where(right, RIGHT, WRONG)).astype(np.int64)


def check_rows_for(error: Fraction, delta: Fraction, n_rows: int, which: str) -> None:
    """Refuse too few rows to prove anything, before the work."""
    from thermoset.metrics.planning import fewest_answers  # noqa: PLC0415 - documents without a rule do without SciPy

    least = fewest_answers(error, delta)
    if n_rows < least:
        raise InputError(
            f"an error of at most {float(error):g} needs at least {least:,} {which}, all answered and right, to be "
            f"shown; got {n_rows:,}. Add rows, or allow a larger error."
        )


# ---- one score -------------------------------------------------------------------------------------------------------


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fitted rule as a file."""

    format: str = _FORMAT
    schema: int = _SCHEMA
    joint: bool
    random_state: int
    claims: Annotated[tuple[AnswerClaim, ...], Meta(min_length=1)]
    group_names: tuple[str, ...] | None = None
    checksum: str = ""

    def sealed(self) -> "_Document":
        """With its checksum."""
        content = msgspec.json.encode(msgspec.structs.replace(self, checksum=""))
        return msgspec.structs.replace(self, checksum=hashlib.sha256(content).hexdigest())


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
        bound, seed = read_error(self.answer), checked_seed(self.random_state)
        delta = 1 - exact_level(self.confidence, "confidence", "0.95")
        known = None if groups is None else read_groups(groups, len(level))
        parts: Sequence[Ints] = [np.arange(len(level))]
        if known is not None:
            parts = [np.flatnonzero(known.codes == g) for g in range(len(known.names))]
        together = len(parts) if self.joint else 1
        if known is None:
            check_rows_for(bound, delta, _n_proving(len(level)), "rows that prove it (four fifths of all)")
        found = level.astype(np.float64)
        claims = tuple(
            _prove_part(found[rows], correct[rows], bound, str(self.confidence), together, seed) for rows in parts
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
        target, content = as_path(path), msgspec.json.encode(self._document.sealed())
        with errors_about(target, "written"), write_whole(target) as stream_:
            stream_.write(msgspec.json.format(content, indent=1) + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "AnswerRule":
        """Read what `save` wrote."""
        try:
            document = _read(read_at_most(path, _MOST_BYTES))
        except InputError as error:
            raise FileFormatError(f"{path}: {error}") from None
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


def _n_proving(n_rows: int) -> int:
    return n_rows - math.floor(n_rows * PROPOSING)


def _prove_part(score: Floats, right: Bools, bound: Fraction, confidence: str, together: int, seed: int) -> AnswerClaim:
    """The claim about rows with one threshold; a fifth of them propose it."""
    from thermoset.metrics.planning import fewest_answers  # noqa: PLC0415

    n, proving = len(score), _n_proving(len(score))
    order = stream(seed, "rows that propose").permutation(n)
    some, rest = order[proving:], order[:proving]
    delta = (1 - exact_level(confidence, "confidence", "0.95")) / together
    error = typed(bound)
    if proving < fewest_answers(bound, delta) or len(some) < 2:
        needed = math.ceil(fewest_answers(bound, delta) / (1 - PROPOSING))
        failed = (proving, int(np.count_nonzero(~right[rest])))
        return AnswerClaim(
            error=error, confidence=confidence, level="inf", below="-inf", rows=proving, answered=0, errors=0,
            failed=failed, needed=needed, together=together,
        )  # fmt: skip
    risk = _risk_of_ranks(score[some], right[some])
    proposal = propose(score[some], right[some], risk, TRUST_IN_RANKS, bound, delta, proving, seed)
    return prove(proposal, score[rest], right[rest], error, confidence, together)


def _risk_of_ranks(score: Floats, right: Bools) -> Floats:
    """The chance that each answer is wrong: a logistic curve of the normal quantile of its score's rank."""
    from scipy.special import ndtri  # noqa: PLC0415

    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    x = ndtri((np.cumsum(count) - count / 2) / len(score))[place]
    features, found = np.column_stack([np.ones(len(x)), x]), np.zeros(2)
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-features @ found))
        slope = features.T @ (right - p) - 0.1 * found
        curvature = (features * (p * (1 - p))[:, None]).T @ features + 0.1 * np.eye(2)
        found = found + np.linalg.solve(curvature, slope)
    return np.asarray(1.0 / (1.0 + np.exp(features @ found)))


def _read(content: bytes) -> _Document:
    try:
        head = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"is not a JSON document, or is damaged ({reason(error)}).") from None
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise FileFormatError("is not an answer rule saved by thermoset.")
    if head.get("schema") != _SCHEMA:
        raise FileFormatError(
            f"was saved by a newer thermoset, or is damaged (schema {quoted(head.get('schema'))}; this one reads "
            f"schema {_SCHEMA}). Upgrade thermoset."
        )
    try:
        document = msgspec.json.decode(content, type=_Document)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        raise FileFormatError(f"is damaged or was edited: {reason(error)}.") from None
    if document.sealed().checksum != document.checksum:
        raise FileFormatError("is damaged or was edited: its checksum does not match. Save the rule again.")
    names = document.group_names
    faults = [fault for claim in document.claims for fault in claim.faults()]
    if names is not None and (len(names) != len(document.claims) or len(set(names)) != len(names)):
        faults.append("there must be one claim for each group")
    if names is None and len(document.claims) != 1:
        faults.append("there must be one claim")
    if faults:
        raise FileFormatError(f"is not a usable answer rule: {faults[0]}.")
    return document
