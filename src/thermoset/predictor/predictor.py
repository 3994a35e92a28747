"""Two temperatures, one predictor: calibrated probabilities from T*, prediction sets from T-hat (paper, section 5)."""

import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import thermoset.predictor as package  # its modules of fitting, checking and showing load when they are first used
from thermoset.conformal.groupings import GroupingLike
from thermoset.data import as_logits
from thermoset.data.estimator import Estimator, predict_data, remember_classes, require_fitted, split_data
from thermoset.data.guards import doubt_about_order
from thermoset.errors import InputError, MissingExtraError, SuspiciousRowsWarning
from thermoset.levels import Alpha
from thermoset.predictor.document import STORED_BY_DEFAULT, Document, read_document, write_document
from thermoset.predictor.sets import ACTIONS, Inference, Prediction, PredictionArrays
from thermoset.quoting import quoted
from thermoset.rows import Progress, memory_budget, top_labels
from thermoset.scores import ScoreLike
from thermoset.text_tables import html_paragraphs

if TYPE_CHECKING:
    from thermoset.calibration.calibrator import Calibrator
    from thermoset.monitor.promise import Promise
    from thermoset.monitor.report import CheckReport
    from thermoset.predictor.class_shares import PriorEstimate
    from thermoset.tuning.choice import Choice


class TwoTemperaturePredictor(Estimator):
    """Calibrated probabilities and prediction sets from logits, each with its own temperature.

    T* brings the confidence close to the accuracy, with a correction of classes before it and a map of the confidence
    after it where the rows show that one temperature is not enough. T-hat gives the sets that the user prefers. All of
    it comes from the calibration rows; the threshold of the sets comes from conformal rows that chose nothing, so
    coverage is exact (see `ConformalClassifier`).

    Parameters
    ----------
    method, alpha, randomized, allow_empty, grouping, random_state, fallback
        The sets, as in `ConformalClassifier`. The seed also draws the split of `fit`. `method="auto"` chooses the score
        together with the temperature: LAC, RAPS, APS or SAPS (`tuning.menu`), or LAC with a threshold for each class.
    prefer : "small", "even", "protect", or a bound: "classes>=0.85", "groups>=0.85", "size<=3", "gap<=0.03"
        What the sets are chosen for; see `tuning.choose`. The paper's guideline is `method="raps", prefer="even"`.
    calibration : "auto", "temperature", or an object with fit and transform
        "temperature" is T* alone, as in the paper. "auto" may also correct classes, before both temperatures, and map
        the confidence, each only where cross-validation on the calibration rows shows a gain: see `calibration`. An
        object of your own, with `fit(logits, labels)` and `transform(logits)`, takes the place of the class correction;
        such a predictor cannot be saved.
    answer : str, optional
        Such as "error<=0.02": answer rows alone as long as at most this share of the answers is wrong, with 95%
        confidence; see `decisions`. `predict_set` is then what people see: the label alone for answered rows, and sets
        with a threshold of their own for the others, which cover those with probability 1 - alpha. `threshold_`, `at`
        and `predict_p` concern the others.
    review : str, optional
        Such as "size>5": rows with a larger set go to review, as those with an empty one do.
    objective : "nll" or "ece"
        What T* minimises; see `TemperatureScaler`.
    even : "class" or "group"
        What `prefer` evens out or protects: the classes, or the groups of rows passed to `fit`. The sets do not use
        groups either way, so rows to be predicted need none.
    temperature_sets : float, optional
        T-hat by hand, in place of the search: read the curves of `ts.sweep`, and choose.
    claims : "model" or "distribution-free"
        What a claim about hard classes rests on, with "protect" and "classes>=0.85"; see `tuning.choose`.
    calibration_fraction : float, optional
        Fraction of the rows that `fit` sets aside for the temperatures; the others set the threshold. By default half,
        and for "small" a fifth, but at least 1,000 rows (or half, if there are fewer); with `answer`, at least 100.

    Attributes
    ----------
    temperature_ : float
        T*, of `predict_proba`.
    temperature_sets_ : float
        T-hat, of `predict_set`.
    threshold_ : float or ndarray of shape (C,) or (G,)
        The threshold(s) on the scale of the score, for reading.
    group_names_ : tuple of str, or None
        The groups that have thresholds, with grouping="group".
    choice_ : Choice
        What was chosen and why, what it costs, which rows lose coverage, and how certain it is.
    answer_ : AnswerClaim or None
        What is claimed of answered rows: `bound`, `confidence`, `threshold`, `share`, `met` and the counts behind it.
    document_ : Document
        Everything that was learned: what `save` writes.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=4000)
    >>> logits = 3 * (rng.normal(size=(4000, 5)) + 2 * np.eye(5)[labels])
    >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(logits[:3000], labels[:3000])
    >>> sets = predictor.predict_set(logits[3000:])
    >>> bool(ts.metrics.marginal_coverage(sets, labels[3000:]) > 0.87)
    True
    >>> predictor.predict_records(logits[3000:3001])  # doctest: +ELLIPSIS
    [Prediction(label=1, confidence=0.97..., set=(1,))]
    """

    _engine = "numba"

    def __init__(
        self,
        method: ScoreLike = "auto",
        alpha: Alpha = 0.1,
        prefer: str = "small",
        *,
        calibration: "Literal['auto', 'temperature'] | Calibrator" = "auto",
        answer: str | None = None,
        review: str | None = None,
        temperature_sets: float | None = None,
        objective: Literal["nll", "ece"] = "nll",
        randomized: bool = True,
        allow_empty: bool = True,
        grouping: GroupingLike | None = None,
        fallback: str | None = None,
        even: Literal["class", "group"] = "class",
        claims: Literal["model", "distribution-free"] = "model",
        calibration_fraction: Alpha | None = None,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.prefer = prefer
        self.calibration = calibration
        self.answer = answer
        self.review = review
        self.objective = objective
        self.randomized = randomized
        self.allow_empty = allow_empty
        self.grouping = grouping
        self.random_state = random_state
        self.temperature_sets = temperature_sets
        self.even = even
        self.claims = claims
        self.calibration_fraction = calibration_fraction
        self.fallback = fallback

    def fit(
        self,
        logits: Any = None,
        labels: Any = None,
        *,
        X: Any = None,
        y: Any = None,
        groups: Any = None,
        split_by: Any = None,
        ids: Any = None,
        weights: Any = None,
        memory: str | int | None = None,
        progress: Progress | None = None,
    ) -> "TwoTemperaturePredictor":
        """Split labelled rows at random into calibration and conformal rows, and fit on them.

        `groups`: the group of each row, as in `Logits`. `split_by` (one value per row) keeps rows together that are not
        independent, such as those of one patient, font or camera: all rows with the same value go to the same side.
        `ids` and `weights`: as in `ConformalClassifier.fit`; they apply to the conformal rows only, and both
        temperatures ignore them. `memory`: as in `thermoset.sweep`. `X` and `y` are scikit-learn's names for logits and
        labels.
        """
        if logits is None and X is None:
            raise InputError("fit needs rows: fit(logits, labels), or fit(X=logits, y=labels).")
        data = as_logits(X if logits is None else logits, y if labels is None else labels, groups)
        data.require_labels("TwoTemperaturePredictor.fit")
        options = package.fit.RowOptions(ids, weights)
        with memory_budget(memory):
            self._adopt(package.fit.fit_document(self, data.within_budget(), split_by, options, progress))
        return self

    def fit_split(
        self,
        calibration: Any,
        conformal: Any,
        *,
        ids: Any = None,
        weights: Any = None,
        memory: str | int | None = None,
        progress: Progress | None = None,
    ) -> "TwoTemperaturePredictor":
        """Fit on the user's own split: temperatures from `calibration`, the threshold from `conformal`.

        Each part is labelled `Logits` or a pair of arrays (logits, labels). The two must not share rows. `ids` and
        `weights` (see `ConformalClassifier.fit`) are those of the conformal rows.
        """
        parts = split_data(calibration, "calibration"), split_data(conformal, "conformal")
        options = package.fit.RowOptions(ids, weights)
        with memory_budget(memory):
            known, fresh = parts[0].within_budget(), parts[1].within_budget()
            self._adopt(package.fit.fit_split_document(self, known, fresh, options, progress))
        return self

    def recalibrate(
        self, logits: Any, labels: Any = None, *, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> "TwoTemperaturePredictor":
        """Set the threshold anew from new labelled rows, which may have ids; both temperatures stay.

        With grouping="group", the groups of the new rows replace the old ones. Rows that chose the temperatures are
        refused; rows behind the old threshold may be reused. With `weights`, thresholds depend on a row's weight from
        then on, and rows to be predicted need weights too; see `ConformalClassifier.fit`. A `shifted` predictor becomes
        an ordinary one again, for rows like the new ones.

        >>> import numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 5, size=3000)
        >>> logits = rng.normal(size=(3000, 5)) + 2 * np.eye(5)[labels]
        >>> predictor = ts.TwoTemperaturePredictor().fit(logits[:2000], labels[:2000])
        >>> before = predictor.threshold_
        >>> harder = rng.normal(size=(500, 5)) + np.eye(5)[labels[:500]]
        >>> predictor.recalibrate(harder, labels[:500]).threshold_ > before
        True
        """
        data = predict_data(self, logits, groups, labels)
        options = package.fit.RowOptions(ids, weights)
        self._adopt(package.fit.recalibrate_document(self.document_, data, options))
        return self

    def predict(self, logits: Any) -> NDArray[np.int64]:
        """The most likely label of each row, as its column number; `predict_records` gives names."""
        data = predict_data(self, logits)
        return self._inference.labels(data)

    def predict_actions(self, logits: Any, *, ids: Any = None) -> NDArray[np.str_]:
        """What to do with each row, (n,): "answer" it alone, let somebody "choose" from its set, or "review" it.

        It needs a predictor with `answer`. A row with an empty set is for review, and one with more labels than
        `review` allows.

        >>> import numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 5, size=4000)
        >>> logits = rng.normal(size=(4000, 5)) + 3 * np.eye(5)[labels]
        >>> predictor = ts.TwoTemperaturePredictor(answer="error<=0.02").fit(logits[:3000], labels[:3000])
        >>> answered = predictor.predict_actions(logits[3000:]) == "answer"
        >>> wrong = predictor.predict(logits[3000:]) != labels[3000:]
        >>> bool(answered.mean() > 0.5), bool(wrong[answered].mean() < 0.03)
        (True, True)
        """
        data = predict_data(self, logits)
        return np.array(ACTIONS)[self._inference.actions(data, ids)]

    def predict_proba(self, logits: Any) -> NDArray[np.float64]:
        """Calibrated probabilities: softmax at T*, (n, C), times target share / source share under a label shift."""
        data = predict_data(self, logits)
        return self._inference.probabilities(data)

    def predict_set(
        self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.bool_]:
        """Sets at T-hat as booleans, (n, C); `groups`, `ids` and `weights` as in `ConformalClassifier.fit`.

        With `answer`, the set of an answered row is its label alone.
        """
        data = predict_data(self, logits, groups)
        return self._inference.sets(data, ids, weights)

    def set_sizes(self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None) -> NDArray[np.int64]:
        """Number of labels in each row's set, (n,)."""
        data = predict_data(self, logits, groups)
        return self._inference.sizes(data, ids, weights)

    def predict_p(
        self, logits: Any, *, smoothed: bool = False, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.float64]:
        """p-values at T-hat, (n, C); the labels with p > alpha are exactly `predict_set`, also `at` any other alpha.

        With `answer` this concerns the rows that are not answered.

        See `ConformalClassifier.predict_p`. They need the label scores of the conformal rows (see `save`), and sets
        that these scores alone determine: they are not available where a stricter level protects classes.
        """
        data = predict_data(self, logits, groups)
        return self._inference.p_values(data, smoothed, ids, weights)

    def at(self, alpha: Alpha) -> "TwoTemperaturePredictor":
        """The predictor with a different promise, 1 - alpha, from the scores of the same conformal rows.

        T* and T-hat stay: choosing again needs the calibration rows, so `choice_` still describes the choice for the
        fitted level. The threshold is that of a `ConformalClassifier` fitted at T-hat and this alpha on the conformal
        rows, to the last bit (with grouping="cluster": on the same clusters). Measurements of sets at the old level are
        dropped from the document. The requirements are those of `predict_p`.

        >>> import numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 5, size=4000)
        >>> logits = rng.normal(size=(4000, 5)) + 2 * np.eye(5)[labels]
        >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(logits[:3000], labels[:3000])
        >>> stricter = predictor.at(0.01)
        >>> bool((stricter.predict_set(logits[3000:]) >= predictor.predict_set(logits[3000:])).all())
        True
        """
        require_fitted(self)
        moved = package.fit.at_level(self._inference, alpha)
        other = copy(self)
        other.alpha = alpha
        other._adopt(moved if moved.shift is None else package.label_shift.shift_document(moved, moved.shift))
        return other

    def estimate_priors(
        self, target: Any, *, bootstrap: int = 200, random_state: int = 0, progress: Progress | None = None
    ) -> "PriorEstimate":
        """Class shares of unlabelled target rows, by EM on their probabilities at T*; see `label_shift`.

        Refused where a trial on the predictor's own conformal rows has shown that estimated shares would do harm.
        """
        data, document = predict_data(self, target), self.document_
        return package.class_shares.estimate_priors(
            self._inference.correct(data),
            document.temperature,
            package.label_shift.source_counts(document),
            document.shares,
            bootstrap=bootstrap,
            random_state=random_state,
            progress=progress,
        )

    def shifted(self, target: Any = None, *, priors: Any = None) -> "TwoTemperaturePredictor":
        """The predictor for rows with other class shares (label shift): sets, probabilities and labels for the target.

        Conformal rows are weighted by target share / source share of their class, and so are probabilities at T*.
        Coverage of target rows is at least 1 - alpha on average, if the shares are right and the rows of each class
        look as before. It needs one threshold for all classes, and has the requirements of `predict_p`. New shares
        replace earlier ones.

        Parameters
        ----------
        target : array-like or Logits
            Unlabelled rows, whose class shares are estimated.
        priors : mapping, array-like or PriorEstimate
            The shares instead: by class name or column number, in column order, or from `estimate_priors`.

        Examples
        --------
        >>> import numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 3, size=3000)
        >>> logits = rng.normal(size=(3000, 3)) + 2 * np.eye(3)[labels]
        >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(logits, labels)
        >>> fewer = predictor.shifted(priors={0: 0.8, 1: 0.1, 2: 0.1})
        >>> bool((fewer.predict_proba(logits)[:, 0] >= predictor.predict_proba(logits)[:, 0]).all())
        True
        """
        require_fitted(self)
        if (target is None) == (priors is None):
            raise InputError("pass either target rows or their class shares (priors=), not both.")
        package.label_shift.shiftable_scores(self.document_)  # refused before the work
        shares = self.estimate_priors(target) if priors is None else priors
        other = copy(self)
        other._adopt(
            package.label_shift.shift_document(self.document_, package.class_shares.make_shift(self.document_, shares))
        )
        return other

    def predict_arrays(
        self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> PredictionArrays:
        """Label, confidence and set of each row, as arrays, in one pass; with `answer` also the action of each."""
        data = predict_data(self, logits, groups)
        return self._inference.arrays(data, ids, weights)

    def predict_records(
        self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> list[Prediction]:
        """Label, confidence and set of each row as records, for reading and for JSON."""
        arrays = self.predict_arrays(logits, groups=groups, ids=ids, weights=weights)
        return arrays.records(self.document_.classes or range(self.document_.n_classes))

    def check(
        self,
        logits: Any,
        labels: Any = None,
        *,
        groups: Any = None,
        weights: Any = None,
        fail_on: str | Iterable[str] = (),
    ) -> "CheckReport":
        """Check the promise on fresh labelled rows; see `monitor.check`.

        Rows with groups also show the coverage of each group, whatever the grouping of the thresholds. Rows that chose
        the temperatures or set the threshold are refused: see `predictor.leakage`. Where conformal rows have weights,
        these rows need them too, and must come from the population that the weights are for; the law is then
        approximate.
        """
        data = predict_data(self, logits, groups, labels)
        y = data.require_labels("check")
        package.leakage.refuse_leakage(self.document_, data)
        if said := doubt_about_order(top_labels(data), y, data.n_classes):
            warnings.warn(said, SuspiciousRowsWarning, stacklevel=2)
        from thermoset.monitor.check import check_rows  # noqa: PLC0415 - predicting does without

        report = check_rows(self._inference, data, y, fail_on, weights)
        self._accept(report)
        return report

    def _accept(self, report: "CheckReport") -> None:
        """State the promise from now on, where it was in doubt and fresh rows kept it."""
        if report.ok and self.document_.training_signs:
            self._adopt(package.fit.restore_promise(self.document_))

    @property
    def _promise(self) -> "Promise":
        """The promised coverage, and the number of rows behind it."""
        from thermoset.monitor.promise import Promise  # noqa: PLC0415 - predicting does without

        require_fitted(self)
        return Promise.of(self._inference)

    def report(self, logits: Any, labels: Any = None, *, out: str | os.PathLike[str], **options: Any) -> None:
        """Write the HTML page that explains the choice and shows the sets; it needs the extra `report`.

        Rows are fresh labelled ones, or all those of `fit`. `options` are those of `thermoset.report.build_report`.
        """
        from thermoset.report import build_report, write_page  # noqa: PLC0415 - which know predictors

        write_page(build_report(self, logits, labels, **options), out)

    def save(self, path: str | os.PathLike[str], *, scores: bool | None = None) -> None:
        """Write one JSON document for `load`, completely or not at all.

        `scores` says whether to write the label scores of the conformal rows too, about 17 bytes per row; `predict_p`
        and `at` need them. None writes them for up to a million rows.
        """
        require_fitted(self)
        document = self.document_
        if scores and document.scores is None:
            document.calibration_scores()  # says why there are none
        few = document.provenance.conformal_rows <= STORED_BY_DEFAULT
        if document.is_weighted and scores is False:
            raise InputError(
                "the scores of weighted conformal rows cannot be omitted: each row's threshold is computed from them. "
                "Pass scores=True or None."
            )
        if document.scores is not None and not (document.is_weighted or (few if scores is None else scores)):
            document = document.change(scores=None, thresholds=self._inference.stored_thresholds)
            if document.answers is not None:
                document = document.change(answers=msgspec.structs.replace(document.answers, kinds=b""))
        write_document(path, document)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], engine: Literal["numba", "numpy"] = "numba"
    ) -> "TwoTemperaturePredictor":
        """Read what `save` wrote; its predictions are the same to the last bit.

        `engine="numpy"` predicts without Numba, for a process that must answer at once: slower on many rows, and the
        same sets but for scores that are within rounding of the threshold. p-values and checks still need Numba.
        """
        if engine not in ("numba", "numpy"):
            raise InputError(f"engine must be 'numba' or 'numpy'; got {quoted(engine)}.")
        document = read_document(path)
        came = document.provenance
        sets = document.recipe.parameters | {"alpha": document.alpha}
        temperature, rule = sets.pop("temperature"), document.answers
        above = None if rule is None else rule.review_above
        predictor = cls(
            **sets,
            answer=None if rule is None else f"error<={rule.claim.error}",
            review=None if above is None else f"size>{above}",
            temperature_sets=temperature if came.temperature_by_hand else None,
            prefer=came.prefer,
            calibration="temperature" if came.calibration == "temperature" else "auto",
            objective=came.objective,
            even=came.even,
            claims=came.claims,
            calibration_fraction=came.calibration_fraction,
        )
        predictor._engine = engine
        predictor._adopt(document)
        return predictor

    def _repr_html_(self) -> str | None:
        """What a notebook shows of a fitted predictor: the recommendation, what sets will look like, and the curves."""
        if not hasattr(self, "document_"):
            return None
        document, choice = self.document_, self.choice_
        head = f"{choice.setting.kind}, alpha = {document.recipe.alpha}: T* = {document.temperature:.3f}."
        if document.is_moved:
            head += f" The rest refers to alpha = {choice.alpha}, for which T-hat was chosen."
        if document.shift is not None:
            head += " It was adjusted for other class shares (label shift) than those shown here."
        head += f" {choice.sentences[0]}"
        if document.is_weighted:
            head += (
                f" Conformal rows have weights: {document.provenance.conformal_rows:,} rows are worth "
                f"{document.effective_rows:,.1f} equally weighted rows, and rows to predict need weights too."
            )
        drawn = ""
        with suppress(MissingExtraError, ArithmeticError, ValueError):  # no Matplotlib, or numbers beyond any axis
            from thermoset.plots import choice_figure, inline  # noqa: PLC0415 - which only notebooks need

            drawn = inline(
                choice_figure(choice, document.temperature), f"Sizes and {choice.words.gap} against temperature"
            )
        return f"{html_paragraphs(head)}{choice.to_table().to_html()}{drawn}"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Notebooks prefer this to `_repr_html_`; scikit-learn's shows parameters, which is right before `fit`."""
        shown = self._repr_html_()
        if shown is None:
            return super()._repr_mimebundle_(**options)
        return {"text/plain": repr(self), "text/html": shown}

    @property
    def choice_(self) -> "Choice":
        """What was chosen and why."""
        require_fitted(self)
        return self.document_.choice

    def _adopt(self, document: Document) -> None:
        """Take over what a document says: every prediction comes from it."""
        if self._engine == "numpy":
            from thermoset.integrations.numpy import NumpyInference  # noqa: PLC0415 - which knows predictors

            self._inference: Inference = NumpyInference(document)
        else:
            self._inference = Inference(document)
        self.document_ = document
        self.temperature_, self.temperature_sets_ = document.temperature, document.recipe.temperature
        one = document.recipe.grouping is None and document.shift is None
        value = self._inference.thresholds.real.ravel()
        own = len(value) - (document.recipe.fallback is not None)
        self.threshold_ = float(value[0]) if one else value[:own]
        self.answer_ = None if document.answers is None else document.answers.claim
        self.group_names_ = document.group_names
        remember_classes(self, document.n_classes, document.classes, document.input_kind)
