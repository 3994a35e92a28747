"""Collecting every number of the page, from the public functions that compute them."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Bools, Floats, Ints
from thermoset.calibration.calibrator import CalibratedSoftmax
from thermoset.calibration.confidence import top_odds
from thermoset.conformal import ConformalClassifier, fitted_at
from thermoset.data import Groups, Logits
from thermoset.data.estimator import predict_data, require_fitted
from thermoset.data.splits import split_indices
from thermoset.decisions import count_answers
from thermoset.errors import InputError
from thermoset.levels import exact_level, rows_needed
from thermoset.metrics import brier_score, clopper_pearson, noise_floor_of_counts, reliability_from_confidence
from thermoset.metrics.probabilities import N_BINS, add_bins, calibration_of_bins, no_bins
from thermoset.monitor.check import check_rows
from thermoset.paper.theory import critical_temperature
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.document import Document
from thermoset.predictor.leakage import find_leakage, find_split, fingerprint
from thermoset.predictor.measures import calibration_stages
from thermoset.predictor.sets import Inference
from thermoset.report.record import Examples, LabelPair, Movement, Reliability, Report, RiskPoint, SetFacts
from thermoset.rows import Progress, top_labels
from thermoset.scores import SCORES
from thermoset.sweeping import Sweep, sweep
from thermoset.tuning import default_grid

_BINS = 10
_EXAMPLES = 12
_TRIALS = 100
_BY_CLASS_TRIALS = 5  # each costs a fit and a prediction at every temperature
_BY_CLASS_CELLS = 60_000_000  # rows x classes x temperatures x trials that thresholds by class may cost
_MORE_ALPHAS = (0.05, 0.1, 0.2)
_CONFORMAL_PART = 0.5  # of a split of the sweep; the rest is evaluated
_LEAST_ROWS = 10  # half of them set thresholds at other temperatures, the others are shown
_BLOCK = 4096  # rows at once: their probabilities, or counts of labels, which single precision holds exactly


# ---- which rows may judge: never those that set the threshold -------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Roles:
    """Row numbers by what they do on the page, and the hash of all rows.

    `judged`: the predictor is measured on them. `reference`: they set thresholds at temperatures for which the
    predictor has none. `compared`: sets at those temperatures are shown for them.
    """

    sha256: str
    origin: Literal["fresh", "calibration"]
    judged: Ints
    reference: Ints
    compared: Ints


def roles_of(data: Logits, document: Document, split_by: Any = None) -> Roles:
    """Find out whether the predictor was made from these rows, and give every row its role.

    All rows that it was made from are split as then: the calibration rows judge, the conformal rows are the reference.
    Rows that set the threshold are refused otherwise. Rows that are new to it, and calibration rows, all judge, and are
    halved at random for the comparison of temperatures.
    """
    matched, seen = find_leakage(document, data), fingerprint(data)
    if (split := find_split(data, document, split_by)) is not None:
        return Roles(seen, "calibration", split[0], split[1], split[0])
    if matched.conformal.leaked:
        raise InputError(
            f"{matched.sentence}, and coverage on rows that set the threshold shows nothing. Pass fresh labelled rows, "
            "or all rows that the predictor was fitted on, in the same order and with the same split_by."
        )
    reference, compared = split_indices(len(data), 0.5, random_state=document.recipe.random_state)
    origin: Literal["fresh", "calibration"] = "calibration" if matched.calibration.leaked else "fresh"
    return Roles(seen, origin, np.arange(len(data)), reference, compared)


# ---- the numbers -----------------------------------------------------------------------------------------------------


def build_report(
    predictor: TwoTemperaturePredictor,
    logits: Any,
    labels: Any = None,
    *,
    name: str = "data",
    split_by: Any = None,
    images: Mapping[int, NDArray[np.generic]] | None = None,
    trials: int = _TRIALS,
    progress: Progress | None = None,
) -> Report:
    """Collect what a page about a fitted predictor says, from labelled rows.

    Parameters
    ----------
    predictor : TwoTemperaturePredictor
        Fitted.
    logits, labels
        Labelled rows, or `Logits`: fresh ones, or all those that the predictor was made from. The latter are
        recognised, and then only the calibration rows judge; rows that set the threshold never do.
    name : str
        What the page calls the data.
    split_by
        As given to `fit`, if it was given any.
    images : mapping
        Row number to picture, a 2-d array: True is ink, or grey levels from 0 to 255.
    trials : int
        Random splits behind the curves.
    progress : callable
        Called with (done, total) as the work proceeds.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=1500)
    >>> data = ts.Logits(3 * (rng.normal(size=(1500, 5)) + 2 * np.eye(5)[labels]), labels)
    >>> known, fresh = data.split(1000)
    >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(known)
    >>> report = build_report(predictor, fresh, trials=5)
    >>> report.origin, report.rows, build_report(predictor, known, trials=5).rows
    ('fresh', 500, 500)
    """
    require_fitted(predictor)
    document = predictor.document_
    if document.shift is not None:
        raise InputError(
            "a report needs a predictor for the class shares it was fitted on; this one was adapted to a label shift. "
            "Report on the original predictor, and use check on labelled target rows for this one."
        )
    if document.is_weighted:
        raise InputError(
            "a report needs a predictor without weights; the conformal rows of this one have weights. Report on the "
            "predictor without weights, and use check on labelled target rows for this one."
        )
    data = predict_data(predictor, logits, labels=labels)  # other classes are refused before the work
    all_labels = data.require_labels("a report")
    if len(data) < _LEAST_ROWS:
        raise InputError(f"a report needs at least {_LEAST_ROWS} labelled rows; got {len(data)}. Add rows.")
    roles = roles_of(data, document, split_by)
    judged = data if len(roles.judged) == len(data) else data.take(roles.judged)
    judged_labels = judged.require_labels("a report")
    reference, compared = data.take(roles.reference), data.take(roles.compared)
    alphas, rows_of_class = _alphas(document, len(reference)), np.bincount(all_labels, minlength=data.n_classes)
    evaluated = np.ceil(rows_of_class * (1 - _CONFORMAL_PART)).astype(np.int64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        known = predictor._inference
        curves, conditional = _sweeps(known.correct(data), document, alphas, trials, progress)
        # Not `predictor.check`, which refuses calibration rows: the page says that it is they who judge.
        sets, check = predictor.predict_set(judged), check_rows(known, judged, judged_labels)
        grid = (curves if document.grouping is None else conditional).temperatures.tolist()
        rows, u = known.correct(reference), known.drawn_before(reference, None)
        models = dict(zip(grid, fitted_at(ConformalClassifier.of(document.recipe), grid, rows, u=u), strict=True))
        return Report(
            name=name,
            document=document,
            origin=roles.origin,
            rows=len(judged),
            reference_rows=len(reference),
            compared_rows=len(compared),
            data_sha256=roles.sha256,
            check=check,
            curves=curves,
            conditional=conditional,
            # What class gaps show by chance on the evaluation rows of a split.
            floors={alpha: noise_floor_of_counts(evaluated, alpha) for alpha in alphas},
            critical=critical_temperature(data.n_classes),
            calibrations=_calibrations(known, judged if roles.origin == "fresh" else reference),
            sets=set_facts(sets, judged_labels, judged.groups),
            examples=_examples(predictor, models, compared, roles.compared, alphas, images or {}),
            movements=_movements(predictor, models, compared),
            notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
            risk=_risk(known, judged),
        )


def _part(progress: Progress | None, start: float, end: float) -> Progress | None:
    """The progress of a part of the work, in hundredths of the whole."""
    if progress is None:
        return None
    return lambda done, total: progress(round(100 * (start + (end - start) * done / total)), 100)


def _alphas(document: Document, n_reference: int) -> tuple[float, ...]:
    """Levels of the slider: the predictor's, and common ones that the rows can tell."""
    common = [alpha for alpha in _MORE_ALPHAS if 2 * rows_needed(alpha) <= n_reference]
    return tuple(sorted({float(exact_level(document.recipe.alpha)), *common}))


def _sweeps(
    data: Logits, document: Document, alphas: tuple[float, ...], trials: int, progress: Progress | None
) -> tuple[Sweep, Sweep]:
    """Curves with global thresholds by method, the predictor's first, and with thresholds by class."""
    recipe, kind = document.recipe, document.recipe.grouping
    marks = [
        1.0,
        document.temperature,
        document.temperature_sets,
        *([] if document.choice.peak is None else [document.choice.peak]),
    ]
    # Next to other sets, thresholds by class are shown at the marked temperatures and at the predictor's level only.
    grid = np.unique(marks if kind is None else [*default_grid(document.temperature, coarse=True), *marks])
    affordable = _BY_CLASS_CELLS // (data.n_rows * data.n_classes * len(grid))
    curves: dict[str, Any] = {
        "temperatures": np.unique([*default_grid(document.temperature), *marks]),
        "methods": [recipe.score, *(SCORES[name] for name in ("lac", "aps", "raps") if SCORES[name] != recipe.score)],
        "alphas": alphas,
        "trials": trials,
        "progress": _part(progress, 0, 0.7 if kind is None else 0.2),
    }
    conditional: dict[str, Any] = {
        "temperatures": grid,
        "methods": [recipe.score],
        "alphas": [float(exact_level(recipe.alpha))] if kind is None else alphas,
        "trials": max(1, min(trials, _BY_CLASS_TRIALS, affordable)),
        "grouping": kind or "class",
        "progress": _part(progress, 0.7 if kind is None else 0.2, 0.9),
    }
    sweeps = []
    for options, is_own in ((curves, kind is None), (conditional, kind is not None)):
        with warnings.catch_warnings():
            # Both have much the same to warn of; the page notes what it is about the predictor's own kind of sets.
            warnings.simplefilter("always" if is_own else "ignore")
            sweeps.append(
                sweep(
                    data,
                    **options,
                    calibration_fraction=0,
                    cp_fraction=_CONFORMAL_PART,
                    random_state=recipe.random_state,
                    randomized=recipe.randomized,
                    allow_empty=recipe.allow_empty,
                )
            )
    return sweeps[0], sweeps[1]


def _risk(known: Inference, judged: Logits) -> tuple[RiskPoint, ...]:
    """The risk-coverage curve at the thresholds that the calibration rows proposed; empty without an answer rule."""
    if (rule := known.document.answers) is None:
        return ()
    rows = known.correct(judged)
    g, wrong = top_odds(rows, known.document.temperature)[0], top_labels(rows) != judged.require_labels("a report")
    answered, errors = count_answers(g, wrong, rule.proposal.thresholds)
    some = answered > 0
    m, e = answered[some].astype(np.int64), errors[some].astype(np.int64)
    columns = m / len(judged), e / m, *clopper_pearson(e, m)
    return tuple(RiskPoint(*point) for point in zip(*(column.tolist() for column in columns), strict=True))


def _calibrations(known: Inference, judged: Logits) -> tuple[Reliability, ...]:
    """Confidence before calibration, after one temperature, and after all steps where there are more."""
    stages = calibration_stages(known.document.plain_temperature, known.softmax, judged, known.correct(judged))
    return tuple(_calibration(*stage) for stage in stages)


def _calibration(name: str, softmax: CalibratedSoftmax, judged: Logits) -> Reliability:
    labels = judged.require_labels("a report")
    confidence, loss = softmax.confidence_and_loss(judged)
    right = top_labels(judged) == labels
    squares, bins = 0.0, no_bins(judged.n_classes, N_BINS)
    for start in range(0, len(judged), _BLOCK):  # all probabilities at once would take more memory than the logits
        part, truth = judged.take(slice(start, start + _BLOCK)), labels[start : start + _BLOCK]
        probs = softmax.of_block(part.logits)
        squares += len(part) * brier_score(probs, truth)
        add_bins(probs, truth, bins)
    return Reliability(
        name,
        softmax.temperature,
        bins=reliability_from_confidence(confidence, right, _BINS),
        nll=float(loss.mean()),
        brier=squares / len(judged),
        classwise=calibration_of_bins(bins),
    )


# ---- what the sets look like -----------------------------------------------------------------------------------------

_PAIRS = 30


def set_facts(sets: Bools, labels: Ints, groups: Groups | None = None) -> SetFacts:
    """Sizes, mean size by class, and the most frequent pairs."""
    sizes = np.count_nonzero(sets, axis=1)
    return SetFacts(
        sizes=np.bincount(sizes),
        class_sizes=_mean_sizes(sizes, labels, sets.shape[1]),
        group_sizes=None if groups is None else _mean_sizes(sizes, groups.codes, len(groups.names)),
        pairs=label_pairs(sets),
    )


def _mean_sizes(sizes: Ints, codes: Ints, count: int) -> Floats:
    """Mean size by class or group; NaN where there are no rows."""
    rows, total = np.bincount(codes, minlength=count), np.bincount(codes, weights=sizes, minlength=count)
    return np.asarray(np.divide(total, rows, out=np.full(count, np.nan), where=rows > 0))


def label_pairs(sets: Bools) -> tuple[LabelPair, ...]:
    """The pairs of labels that most sets hold together, the most frequent first."""
    n_classes = sets.shape[1]
    together = np.zeros((n_classes, n_classes), dtype=np.int64)
    for start in range(0, len(sets), _BLOCK):
        block = sets[start : start + _BLOCK].astype(np.float32)
        together += (block.T @ block).astype(np.int64)
    first, second = np.triu_indices(n_classes, 1)
    counts = together[first, second]
    best = np.argsort(-counts, kind="stable")[:_PAIRS]
    return tuple(LabelPair(int(first[i]), int(second[i]), int(counts[i])) for i in best if counts[i])


def _movements(
    predictor: TwoTemperaturePredictor, models: Mapping[float, ConformalClassifier], compared: Logits
) -> tuple[Movement, ...]:
    """How many sets grow, stay and shrink from T = 1 to T*, and to T-hat; `models` by temperature.

    At T-hat the sets are the predictor's own, also where T = 1 or T* is the same temperature.
    """
    document, known = predictor.document_, predictor._inference
    rows, u = known.correct(compared), known.drawn_before(compared, None)

    def sizes_at(temperature: float) -> Ints:
        own = temperature == document.temperature_sets
        return predictor.set_sizes(compared) if own else models[temperature].set_sizes(rows, u=u)

    before, movements = sizes_at(1.0), []
    for name, temperature in (("T*", document.temperature), ("T-hat", document.temperature_sets)):
        change = np.sign(sizes_at(temperature) - before)
        movements.append(Movement(name, temperature, *(int(np.count_nonzero(change == sign)) for sign in (1, 0, -1))))
    return tuple(movements)


def pick_examples(sizes: Ints, allowed: Ints, count: int) -> Ints:
    """Places of rows with small, middling and large sets, from `allowed` ones."""
    order = allowed[np.argsort(sizes[allowed], kind="stable")]
    if len(order) <= count:
        return order
    return order[np.linspace(0, len(order) - 1, count).astype(np.int64)]


def _examples(
    predictor: TwoTemperaturePredictor,
    models: Mapping[float, ConformalClassifier],
    compared: Logits,
    rows: Ints,
    alphas: tuple[float, ...],
    images: Mapping[int, NDArray[np.generic]],
) -> Examples:
    """Some of the compared rows, with pictures if there are any, and their sets under each model, by temperature.

    `rows` are their numbers. At T-hat and the predictor's level the sets are its own.
    """
    drawn = np.flatnonzero(np.isin(rows, list(images)))
    places = pick_examples(predictor.set_sizes(compared), drawn if drawn.size else np.arange(len(compared)), _EXAMPLES)
    shown, document, known = compared.take(places), predictor.document_, predictor._inference
    answers, corrected, u = predictor.predict_arrays(shown), known.correct(shown), known.drawn_before(shown, None)
    swept = np.stack([model.predict_sets(corrected, alphas, u=u) for model in models.values()])
    own, place = alphas.index(float(exact_level(document.recipe.alpha))), {t: i for i, t in enumerate(models)}
    swept[place[document.temperature_sets], own] = answers.sets
    named = {"T = 1": 1.0, "T*": document.temperature, "T-hat": document.temperature_sets}
    return Examples(
        rows=rows[places],
        labels=shown.require_labels("a report"),
        predicted=answers.labels,
        confidence=answers.confidence,
        order=np.argsort(-corrected.logits, axis=1, kind="stable"),
        named={name: swept[place[t], own] for name, t in named.items()},
        swept=swept,
        images=tuple(images.get(int(row)) for row in rows[places]),
    )
