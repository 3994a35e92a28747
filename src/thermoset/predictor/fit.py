"""How a predictor is fitted: both temperatures, the threshold, what it is measured to do, all of it in a document."""

import warnings
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from thermoset._version import __version__
from thermoset.arrays import Ints
from thermoset.bounds import checked_temperature
from thermoset.calibration import warn_of_zero_labels, zero_labels
from thermoset.calibration.calibrator import Calibration, calibrate, checked_calibration
from thermoset.calibration.confidence import top_odds
from thermoset.conformal.calibration_scores import check_weightable, fitted_groups, warn_of_missed_classes
from thermoset.conformal.classifier import ConformalClassifier
from thermoset.conformal.recipe import Recipe, learn_from
from thermoset.data import Logits, split_indices
from thermoset.data.guards import input_kind_of, judge_rows, without_judging
from thermoset.data.labels import checked_weights, conformal_weights
from thermoset.data.row_keys import row_keys
from thermoset.data.splits import rows_of_user
from thermoset.data.top_k import tops_of
from thermoset.decisions import TRUST, Proposal, check_rows_for, format_bound, kinds_of, propose, prove, set_thresholds
from thermoset.errors import BudgetWarning, CalibrationWarning, InputError
from thermoset.levels import Alpha, exact_level, rows_needed
from thermoset.metrics.planning import read_error
from thermoset.predictor.class_shares import learn_shares
from thermoset.predictor.document import UNDECIDED, Document, Provenance
from thermoset.predictor.leakage import KeySample, RowKeys, find_leakage, fingerprint
from thermoset.predictor.measures import (
    OF_CONFIDENCE,
    confidence_reference,
    coverage_measures,
    judge_confidence,
    set_measures,
)
from thermoset.predictor.sets import ANSWER, CHOOSE, REVIEW, Inference
from thermoset.predictor.stored import (
    MOST_STORED,
    Measure,
    StoredAnswers,
    StoredScores,
    Thresholds,
    pool_of_rows,
    stored_order,
)
from thermoset.quoting import quoted
from thermoset.rows import Progress, part_of, top_labels
from thermoset.tuning.choose import choose
from thermoset.tuning.estimates import parts_of
from thermoset.tuning.preferences import calibration_share, checked_even, read_preference
from thermoset.tuning.search import menu
from thermoset.tuning.worst_classes import checked_claims
from thermoset.uniforms import checked_ids, draw_uniforms

if TYPE_CHECKING:
    from thermoset.predictor.predictor import TwoTemperaturePredictor

CONFIDENCE = "0.95"
"""Of the claim that answered rows have at most the given error."""

_FEWEST_PROPOSING = 100  # calibration rows, or half of all: the others prove, and each of them counts

_FEWEST_LEFT = 200  # calibration rows that would not be answered, from which on they choose the sets of such rows

_BELOW = 2.0**-30  # how far below the log-odds of a row, relatively, a threshold is: far more than rounding


class RowOptions(NamedTuple):
    """What conformal rows have besides their logits: ids and weights, and a u where logits are corrected."""

    ids: Any = None
    weights: Any = None
    u: Any = None

    def take(self, rows: Ints, n_rows: int) -> "RowOptions":
        """Those of some of so many rows."""
        if self.ids is not None:
            checked_ids(self.ids, n_rows)
        return RowOptions(
            None if self.ids is None else np.array(self.ids, dtype=object)[rows],
            None if self.weights is None else checked_weights(self.weights, n_rows)[rows],
            None if self.u is None else self.u[rows],
        )


def fit_document(
    predictor: "TwoTemperaturePredictor", data: Logits, split_by: Any, options: RowOptions, progress: Progress | None
) -> Document:
    """Split labelled rows, and fit what the parameters of an estimator ask for."""
    part, own = predictor.calibration_fraction, read_preference(predictor.prefer)
    if part is None:
        few = calibration_share(len(data), _FEWEST_PROPOSING)
        part = own.calibration_share(len(data)) if predictor.answer is None else few
    exact_level(part, "calibration_fraction")
    some, rest = split_indices(len(data), part, random_state=predictor.random_state, split_by=split_by)
    needed = 2 * rows_needed(predictor.alpha)
    if predictor.temperature_sets is None and len(some) < needed:  # said in rows of the user's file
        raise InputError(
            f"choosing a temperature at alpha={predictor.alpha} needs at least {needed} rows, and {len(some)} of the "
            f"{len(data)} rows were set apart for it; the others set the threshold. Add rows or raise alpha."
        )
    own_options = options.take(rest, len(data))
    return fit_split_document(predictor, data.take(some), data.take(rest), own_options, progress, some, str(part))


def fit_split_document(
    predictor: "TwoTemperaturePredictor",
    calibration: Logits,
    conformal: Logits,
    options: RowOptions,
    progress: Progress | None,
    numbers: Ints | None = None,
    part: str = "0.5",
) -> Document:
    """Fit temperatures on calibration rows, and the threshold on conformal rows.

    `numbers` are those that the calibration rows have for the user, for messages; `part` is the share of all rows that
    they were split off by.
    """
    candidates, even, claims = candidates_of(predictor), checked_even(predictor.even), checked_claims(predictor.claims)
    signs = judge_rows(calibration, conformal) if numbers is not None else judge_rows(conformal)
    by_hand, how = predictor.temperature_sets, checked_calibration(predictor.calibration)
    grid = None if by_hand is None else [checked_temperature(by_hand, "temperature_sets")]
    _check_before_work(predictor, candidates, calibration, conformal, options)
    kinds = input_kind_of(calibration), input_kind_of(conformal)
    if numbers is None and kinds[0] != kinds[1]:  # the user's own split; parts of one array are of one kind
        raise InputError(
            f"calibration and conformal rows must be of one kind; got {kinds[0]} and {kinds[1]}. Make both in the same "
            "way, by Logits or by Logits.from_probabilities."
        )
    rule = read_answer(predictor, calibration, conformal, options)
    parts = 1 if how == "temperature" else 2
    with rows_of_user(numbers):
        learned = calibrate(calibration, how, predictor.objective, predictor.random_state, part_of(progress, 0, parts))
    scaler, corrected = learned.scaler, (learned.correct_own(calibration), learned.correct(conformal))
    candidates = tuple(learn_from(recipe, corrected[0]).announce(calibration)[0] for recipe in candidates)
    answers, (shown, pool) = None, corrected
    if rule is not None:
        proposal = propose_answers(rule[0], corrected[0], learned, len(conformal), predictor.random_state)
        answers, some = prove_answers(proposal, corrected[1], float(scaler.temperature_), *rule)
        left = np.flatnonzero(top_odds(shown, float(scaler.temperature_))[0] < answers.claim.threshold)
        shown, pool = shown.take(left) if len(left) >= _FEWEST_LEFT else shown, pool.take(some)
    choice = choose(
        shown,
        candidates,
        prefer=predictor.prefer,
        calibrated=scaler.temperature_,
        n_conformal=len(pool),
        even=even,
        conformal=pool,
        temperatures=grid,
        claims=claims,
        progress=part_of(progress, parts - 1, parts),
    )
    recipe, drawn = choice.setting, learned.correction is not None
    if drawn and recipe.seed is not None and options.ids is None:
        options = options._replace(u=draw_uniforms(conformal, recipe.seed))
    pool_options = options if answers is None else options.take(some, len(conformal))
    with without_judging():
        sets = ConformalClassifier.of(recipe.change(alpha=choice.alpha)).fit(pool, **pool_options._asdict())
    if recipe.alpha != choice.alpha:
        u = draw_uniforms(calibration, recipe.seed) if drawn and recipe.seed is not None else None
        sets.tighten(recipe.alpha, corrected[0], u=u)
    fields = _fields_of_sets(sets, recipe.alpha == choice.alpha, corrected[1], options)
    if answers is not None:
        fields |= _fields_of_answers(answers, sets)
    n_zero = scaler.zero_labels_, zero_labels(conformal)
    document = Document(
        recipe=recipe,
        alpha=choice.alpha,
        temperature=float(scaler.temperature_),
        plain_temperature=learned.plain_temperature,
        correction=learned.correction,  # type: ignore[arg-type]  # one of the user's own cannot be stored, only used
        confidence_map=learned.confidence_map,
        calibration_steps=learned.steps,
        n_classes=conformal.n_classes,
        classes=conformal.classes,
        input_kind=kinds[0],
        stored_choice=msgspec.Raw(msgspec.json.encode(choice)),
        measures=(),
        row_keys=RowKeys(calibration=KeySample.of(row_keys(calibration)), conformal=KeySample.of(row_keys(conformal))),
        provenance=Provenance(
            version=__version__,
            calibration_rows=len(calibration),
            calibration_sha256=fingerprint(calibration),
            conformal_rows=len(conformal),
            conformal_sha256=fingerprint(conformal),
            objective=predictor.objective,
            calibration="own" if not isinstance(how, str) else "auto" if how == "auto" else "temperature",
            prefer=choice.prefer,
            even=even,
            calibration_fraction=part,
            claims=claims,
            temperature_by_hand=grid is not None,
            top_rows=tops_of(conformal) is not None,
            calibration_zero_labels=n_zero[0],
            conformal_zero_labels=n_zero[1],
            training_signs=signs,
        ),
        **fields,
    )
    scaler.warn_at_bound()
    warn_of_missed_classes(sets.calibration_, sets.thresholds_, choice.alpha, conformal.classes)
    warn_of_zero_labels(sum(n_zero), len(calibration) + len(conformal))
    behind = document.pool_sizes.tolist() if document.is_plain else [len(calibration) + len(conformal)]
    measures, reliability = judge_confidence(conformal, learned)
    if sets.calibration_.weights is None:  # sets are otherwise measured where rows of small weight come from
        reference = confidence_reference(Inference(document), calibration, conformal)
        document = document.change(confidence=reference, reliability=reliability)
        if answers is None:
            measures += set_measures(choice, behind, recipe)
    if answers is not None:
        document, seen = _measure_answers(document, conformal, options)
        measures = (*measures, *coverage_measures(behind, recipe.alpha), *seen)
    _warn_of_classes(document, calibration, conformal)
    return _complete(document, measures, sets, (conformal, corrected[1]), options)


# ---- answers ---------------------------------------------------------------------------------------------------------


def read_answer(
    predictor: "TwoTemperaturePredictor", calibration: Logits, conformal: Logits, options: RowOptions
) -> tuple[str, int | None] | None:
    """The error that `answer=` allows and the size that `review=` names; refused with what they do not go with."""
    if predictor.answer is None:
        if predictor.review is not None:
            raise InputError("review= needs answer=: without it nobody answers alone. Pass answer='error<=0.02'.")
        return None
    bound = read_error(predictor.answer)
    reasons = {
        f"grouping={predictor.grouping!r}: its thresholds are not those of one rule": predictor.grouping is not None,
        "weights: a certified error needs rows that all count the same": options.weights is not None,
        f"prefer={predictor.prefer!r}: it looks at the conformal rows, which must prove the answers": (
            predictor.prefer.strip().startswith(("protect", "classes", "groups"))
        ),
        "rows of largest logits: the odds of the top label need all classes": (
            tops_of(calibration) is not None or tops_of(conformal) is not None
        ),
    }
    if refused := [reason for reason, so in reasons.items() if so]:
        raise InputError(f"answer= does not go with {refused[0]}. Omit one of the two.")
    check_rows_for(bound, 1 - exact_level(CONFIDENCE), len(conformal), "conformal rows")
    return format_bound(bound), read_review(predictor.review)


def read_review(review: object) -> int | None:
    """The size above which sets go to review: 5 of "size>5"."""
    if review is None:
        return None
    name, _, number = str(review).partition(">")
    if name.strip() != "size" or not number.strip().isdecimal() or not 1 <= len(number.strip()) <= 9:
        raise InputError(f"review must be 'size>S', with a number of labels S; got {quoted(review)}. Try 'size>5'.")
    return int(number)


def propose_answers(
    error: str, calibration: Logits, learned: Calibration, n_conformal: int, random_state: int
) -> Proposal:
    """Thresholds on the log-odds of the top label, and where to start, from the calibration rows alone.

    Thresholds are a little below the log-odds of a row: other engines round differently, and must cut where we do.
    """
    odds, kept = top_odds(calibration, learned.scaler.temperature_), learned.confidence_map
    confidence = 1.0 / (1.0 + np.exp(-odds[0])) if kept is None else kept.confidence(odds)
    right = top_labels(calibration) == calibration.require_labels("answer")
    bound, delta = Fraction(error), 1 - exact_level(CONFIDENCE)
    proposal = propose(odds[0], right, 1.0 - confidence, TRUST, bound, delta, n_conformal, random_state)
    at = proposal.thresholds
    return proposal._replace(thresholds=np.where(np.isfinite(at), at - _BELOW * np.maximum(1.0, np.abs(at)), at))


def prove_answers(
    proposal: Proposal, conformal: Logits, temperature: float, error: str, review_above: int | None
) -> tuple[StoredAnswers, Ints]:
    """The rule that conformal rows prove, and the numbers of those that set the threshold of sets.

    These are the unanswered ones; all of them where every row is answered, and nobody sees a set.
    """
    g = top_odds(conformal, temperature)[0]
    right = top_labels(conformal) == conformal.require_labels("answer")
    claim = prove(proposal, g, right, error, CONFIDENCE)
    if not claim.met:
        warnings.warn(claim.sentence, BudgetWarning, stacklevel=5)
    some = np.flatnonzero(g < claim.threshold) if claim.threshold > -np.inf else np.arange(len(g))
    return StoredAnswers.of(claim, proposal, review_above, kinds_of(g[some], right[some], claim)), some


def _fields_of_answers(answers: StoredAnswers, sets: ConformalClassifier) -> dict[str, Any]:
    """The fields of a document that say which rows are answered, and which threshold the others have."""
    scores, kinds = sets.calibration_.scores, answers.kind_of_rows
    if len(scores) <= MOST_STORED:
        ordered = kinds[stored_order(sets.calibration_)].astype(np.uint8).tobytes()
        return {"answers": msgspec.structs.replace(answers, kinds=ordered), "sizes": ()}
    q = np.array(set_thresholds(scores, kinds, answers.claim, sets.recipe.alpha))
    return {"answers": msgspec.structs.replace(answers, kinds=b""), "sizes": (), "thresholds": Thresholds.of(q)}


def _measure_answers(document: Document, conformal: Logits, options: RowOptions) -> tuple[Document, list[Measure]]:
    """The document with the sizes of sets, and what happens to the conformal rows that are not answered.

    `plain_coverage` is what sets under the threshold of all rows together would have covered there.
    """
    known = Inference(document)
    _, _, sets, actions = known.arrays(conformal, options.ids)
    sizes, labels = np.count_nonzero(sets, axis=1), conformal.require_labels("answer")
    left = np.flatnonzero(actions != ANSWER)
    plain = ConformalClassifier.of(document.recipe).fit(
        known.correct(conformal), ids=options.ids, u=known.drawn_before(conformal, options.ids)
    )
    hits = plain.calibration_.scores <= plain.thresholds_[0, 0]
    measures = [
        Measure(name="choose_share", value=float(np.mean(actions == CHOOSE))),
        Measure(name="review_share", value=float(np.mean(actions == REVIEW))),
    ]
    if len(left):
        measures.append(Measure(name="unanswered_size", value=float(sizes[left].mean())))
        measures.append(Measure(name="unanswered_coverage", value=float(sets[left, labels[left]].mean())))
        measures.append(Measure(name="plain_coverage", value=float(hits[left].mean())))
    return document.change(sizes=tuple(np.bincount(sizes).tolist())), measures


# ---- parameters ------------------------------------------------------------------------------------------------------


def candidates_of(predictor: "TwoTemperaturePredictor") -> tuple[Recipe, ...]:
    """The recipes to choose from: the one that the parameters name, or those of "auto"; with a grouping that is LAC."""
    read_preference(predictor.prefer)
    if predictor.method != "auto":
        return (Recipe.of(predictor),)
    if predictor.grouping is not None:
        return (Recipe.of(predictor, method="lac"),)
    return menu(
        predictor.alpha,
        randomized=predictor.randomized,
        allow_empty=predictor.allow_empty,
        random_state=predictor.random_state,
    )


def _check_before_work(
    predictor: "TwoTemperaturePredictor",
    candidates: tuple[Recipe, ...],
    calibration: Logits,
    conformal: Logits,
    options: RowOptions,
) -> None:
    if calibration.n_classes != conformal.n_classes or calibration.classes != conformal.classes:
        raise InputError(
            f"calibration and conformal rows must have the same classes in the same order; got {calibration.n_classes} "
            f"and {conformal.n_classes} columns, or different names."
        )
    parts_of(calibration, checked_even(predictor.even))
    if options.weights is not None:
        check_weightable(candidates[0].grouping)
        conformal_weights(options.weights, len(conformal))
    if candidates[0].by_row:
        fitted_groups(conformal, "grouping='group'")
        calibration.require_groups("grouping='group'")


def _warn_of_classes(document: Document, calibration: Logits, conformal: Logits) -> None:
    """Say so where classes were corrected from rows that hardly say how often classes occur."""
    if document.correction is None:
        return
    parts = [data.require_labels("the class correction") for data in (calibration, conformal)]
    counts = np.array([np.bincount(labels, minlength=document.n_classes) for labels in parts], dtype=float)
    without = int(np.count_nonzero(counts[0] == 0))
    if without:
        warnings.warn(
            f"{without:,} of {document.n_classes:,} classes have no calibration rows, and the class correction makes "
            "them less likely for that. Add calibration rows of these classes, or use calibration='temperature'.",
            CalibrationWarning,
            stacklevel=4,
        )
    seen = counts[:, counts.sum(axis=0) > 0]
    expected = np.outer(seen.sum(axis=1), seen.sum(axis=0)) / seen.sum()
    distance, freedom = float(((seen - expected) ** 2 / expected).sum()), max(seen.shape[1] - 1, 1)
    if distance > freedom + 8 * np.sqrt(2 * freedom):
        warnings.warn(
            "calibration and conformal rows have different class shares, far beyond chance, and the class correction "
            "is learned from those of the calibration rows. Were the rows sorted before they were split? Shuffle "
            "them, or use calibration='temperature'.",
            CalibrationWarning,
            stacklevel=4,
        )


def _fields_of_sets(sets: ConformalClassifier, plain: bool, conformal: Logits, options: RowOptions) -> dict[str, Any]:
    """The fields of a document that the conformal rows decide; with weights, their sizes say nothing of later rows.

    `plain` says that the threshold is that of the promised level.
    """
    cal_scores, grouping = sets.calibration_, sets.calibration_.grouping
    storable = plain and (grouping is None or grouping.has_p_values) and len(cal_scores.labels) <= MOST_STORED
    if cal_scores.weights is not None and not storable:
        raise InputError(
            f"a predictor stores the scores of weighted conformal rows, at most {MOST_STORED:,}; got "
            f"{len(cal_scores.labels):,}. Use fewer conformal rows, and keep those with larger weights."
            if plain
            else "weights need the threshold of the promised level, but this predictor's was raised to protect "
            "classes. Fit with prefer='even' or 'small', or omit weights."
        )
    sizes = None if cal_scores.weights is not None else sets.set_sizes(conformal, ids=options.ids, u=options.u)
    of_class, n_groups = cal_scores.group_of_class, 1 if cal_scores.groups is None else len(cal_scores.groups.names)
    pools = np.arange(n_groups) if of_class is None else np.unique(of_class)
    rows = np.bincount(pool_of_rows(cal_scores) - pools[0], minlength=pools[-1] - pools[0] + 1)[pools - pools[0]]
    clustered = of_class is not None and grouping is not None and not grouping.each_class
    thresholds = sets.thresholds_.ravel()
    if sets.fallback_threshold_ is not None:
        thresholds = np.append(thresholds, sets.fallback_threshold_)
    return {
        "pool_rows": tuple(rows.tolist()),
        "group_of_class": tuple(of_class.tolist()) if clustered and of_class is not None else None,
        "group_names": sets.group_names_,
        "scores": StoredScores.of(cal_scores, conformal.n_classes) if storable else None,
        "thresholds": None if storable else Thresholds.of(thresholds),
        "sizes": () if sizes is None else tuple(np.bincount(sizes).tolist()),
    }


def recalibrate_document(old: Document, conformal: Logits, options: RowOptions) -> Document:
    """The same document with a threshold from new labelled rows; both temperatures stay."""
    conformal.require_labels("recalibrate")
    keys = row_keys(conformal)
    leakage = find_leakage(old, conformal, keys)
    if leakage.calibration.leaked:
        raise InputError(
            f"{leakage.sentence}, and a threshold from rows that also chose a temperature cannot keep its promise. "
            "Recalibrate on other rows."
        )
    known = Inference(old)
    corrected, options = known.correct(conformal), options._replace(u=known.drawn_before(conformal, options.ids))
    pool, pool_options, answers = corrected, options, None
    if (rule := old.answers) is not None:
        if options.weights is not None:
            raise InputError("a predictor that answers rows alone cannot be recalibrated with weights. Omit them.")
        error = rule.claim.error
        check_rows_for(Fraction(error), rule.claim.delta, len(conformal), "rows")
        answers, some = prove_answers(rule.proposal, corrected, old.temperature, error, rule.review_above)
        pool, pool_options = corrected.take(some), options.take(some, len(conformal))
    signs = judge_rows(conformal)
    with without_judging():
        sets = ConformalClassifier.of(old.recipe).fit(pool, **pool_options._asdict())
    provenance = msgspec.structs.replace(
        old.provenance,
        conformal_rows=len(conformal),
        conformal_sha256=fingerprint(conformal),
        recalibrated=True,
        top_rows=tops_of(conformal) is not None,
        conformal_zero_labels=zero_labels(conformal),
        training_signs=signs,
    )
    warn_of_zero_labels(provenance.conformal_zero_labels, len(conformal))
    fields, weighted = _fields_of_sets(sets, old.is_plain, corrected, options), sets.calibration_.weights is not None
    if answers is not None:
        fields |= _fields_of_answers(answers, sets)
    seen = None if provenance.top_rows or weighted else old.confidence
    new = old.change(
        **fields,
        shift=None,
        provenance=provenance,
        confidence=None if seen is None else seen.recount(known.confidences(conformal)[1]),
        row_keys=msgspec.structs.replace(old.row_keys, conformal=KeySample.of(keys)),
    )
    law = coverage_measures(new.pool_sizes.tolist(), old.recipe.alpha)
    measures = _remaining_measures(old, law, weighted)
    if answers is not None:
        new, seen_there = _measure_answers(new, conformal, options)
        measures = [*(one for one in old.measures if one.name in OF_CONFIDENCE), *law, *seen_there]
    return _complete(new, measures, sets, (conformal, corrected), options)


def withdraw_promise(document: Document, signs: str) -> Document:
    """The document without a promise, because of signs that the model was trained on the rows behind it."""
    came = msgspec.structs.replace(document.provenance, training_signs=signs)
    return document.change(provenance=came, measures=tuple(_drop_doubtful(document.measures, signs)))


def restore_promise(document: Document) -> Document:
    """The document with the promise that was in doubt, after fresh rows have kept it."""
    came = msgspec.structs.replace(document.provenance, training_signs="")
    plain = document.recipe.grouping is None and not document.is_weighted
    law = coverage_measures(document.pool_sizes.tolist(), document.recipe.alpha) if plain else []
    return document.change(provenance=came, measures=(*law, *document.measures))


def _drop_doubtful(measures: Iterable[Measure], signs: str) -> list[Measure]:
    """What was measured, without the coverage to expect where rows look like training rows."""
    return [one for one in measures if not signs or one.name != "coverage"]


def _complete(
    document: Document,
    measures: Iterable[Measure],
    fitted: ConformalClassifier,
    rows: tuple[Logits, Logits],
    options: RowOptions,
) -> Document:
    """The document with its measures, and with what class shares are estimated from where it can be shifted.

    `rows` are the conformal rows, as they come and corrected.
    """
    (conformal, corrected), cal_scores, shares = rows, fitted.calibration_, None
    kept = _drop_doubtful(measures, document.provenance.training_signs)
    if tops_of(conformal) is not None:  # sets with labels that are in only because rows which are not whole do not tell
        share = float(fitted.undecided(conformal, **options._asdict()).mean())
        kept.append(Measure(name=UNDECIDED, value=share))
    if document.is_plain and cal_scores.grouping is None and cal_scores.weights is None and document.answers is None:
        shares = learn_shares(corrected, document.temperature, cal_scores.scores, document.recipe.random_state)
    return document.change(measures=tuple(kept), shares=shares)


def _remaining_measures(old: Document, law: list[Measure], weighted: bool) -> list[Measure]:
    """Measures that a new threshold leaves true, with the law of its coverage; rows with weights have no such law."""
    if weighted:
        return [one for one in old.measures if one.name in OF_CONFIDENCE]
    still = [law[0] if one.name == "coverage" else one for one in old.measures if one.name != UNDECIDED]
    known = old.recipe.grouping is not None or any(one.name == "coverage" for one in still)
    return still if known else [*still, *law]


def at_level(known: Inference, alpha: Alpha) -> Document:
    """The document of a predictor at another level; measurements of sets at the old one are dropped.

    The choice has a level of its own, and thresholds follow from the scores.
    """
    old = known.document
    sets = ConformalClassifier.of(old.recipe)
    sets.adopt(known.calibration_scores, old.n_classes, old.classes, old.input_kind).at(alpha)  # warns where it must
    if exact_level(alpha) == exact_level(old.alpha):
        return old
    text = old.choice.alpha if exact_level(alpha) == exact_level(old.choice.alpha) else str(alpha)
    law = [] if old.is_weighted or old.training_signs else coverage_measures(old.pool_sizes.tolist(), alpha)
    measures = *(one for one in old.measures if one.name in OF_CONFIDENCE), *law
    return old.change(alpha=text, recipe=old.recipe.change(alpha=text), sizes=(), measures=measures)
