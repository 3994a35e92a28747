"""`SetClassifier` in scikit-learn's grammar: clone, parameters, searches, pipelines, frames, arguments of fit."""

import numpy as np
import pytest
from joblib import parallel_config
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, ShuffleSplit, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import thermoset as ts
from parts import require
from set_classifiers import FIT, LINEAR, NAMES, NEW, X, Y, quick
from thermoset import InputError
from thermoset.integrations.sklearn import SetClassifier

pytestmark = pytest.mark.slow


def test_clone_keeps_a_fitted_estimator_and_copies_one_that_will_be_fitted():
    prefit = quick(LINEAR).fit(X[FIT], Y[FIT])
    copy = clone(prefit)
    assert copy.estimator is LINEAR
    assert not hasattr(copy, "classes_")
    assert copy.fit(X[FIT], Y[FIT]).predictor_.document_ == prefit.predictor_.document_
    folds = quick(LINEAR, cv=3)
    assert clone(folds).estimator is not LINEAR
    assert not hasattr(clone(folds).estimator, "classes_")
    assert clone(folds).get_params().keys() == folds.get_params().keys()


def test_parameters_of_the_estimator_are_parameters():
    model = SetClassifier(LogisticRegression(), cv=3).set_params(estimator__C=0.5, alpha="0.2")
    assert model.get_params()["estimator__C"] == model.estimator.C == 0.5
    assert "estimator__C" not in model.get_params(deep=False)
    assert model.fit(X[FIT], Y[FIT]).estimator_.C == 0.5
    assert model.predictor_.document_.alpha == "0.2"
    predictor = ts.TwoTemperaturePredictor().get_params()
    del predictor["fallback"], predictor["even"]  # of groups of rows, which there are none of here
    del predictor["answer"], predictor["review"]  # rules are made from logits
    del predictor["temperature_sets"]  # read off the curves of a sweep, over logits
    assert predictor == {name: value for name, value in SetClassifier(None).get_params().items() if name in predictor}


def test_grid_search():
    grid = {"alpha": [0.1, 0.2], "estimator__var_smoothing": [1e-9, 1e-1]}
    search = GridSearchCV(quick(GaussianNB(), cv=2), grid, cv=2).fit(X[FIT], NAMES[Y[FIT]])
    assert search.best_params_.keys() == grid.keys()
    assert search.best_estimator_.predict_set(X[NEW]).shape == (300, 4)
    fitted = GridSearchCV(quick(LINEAR), {"prefer": ["small", "even"]}, cv=2).fit(X[FIT], Y[FIT])
    assert fitted.best_score_ == pytest.approx(LINEAR.score(X[FIT], Y[FIT]), abs=0.01)
    assert fitted.best_estimator_.estimator is LINEAR


def test_search_and_pipeline_inside():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [1, 10]}, cv=2
    )
    model = quick(search, cv=2).fit(X[FIT], Y[FIT])
    np.testing.assert_array_equal(model.predict(X[NEW]), model.estimator_.predict(X[NEW]))


def test_last_step_of_a_pipeline_with_frames():
    pd = require("pandas", "test")
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)])
    pipe = Pipeline([("scale", StandardScaler()), ("sets", quick(LogisticRegression(), cv=3))])
    pipe.set_output(transform="pandas").fit(frame[:600], NAMES[Y[:600]])
    assert pipe["sets"].feature_names_in_.tolist() == frame.columns.tolist()
    assert pipe["sets"].n_features_in_ == 8
    assert not hasattr(pipe["sets"], "set_output")
    assert set(pipe.predict(frame[600:])) <= set(NAMES)
    assert pipe.predict_proba(frame[600:]).shape == (300, 4)
    scaled = pipe[:-1].transform(frame[600:])
    plain = quick(LogisticRegression(), cv=3).fit(pipe[:-1].transform(frame[:600]).to_numpy(), NAMES[Y[:600]])
    np.testing.assert_array_equal(pipe["sets"].predict_set(scaled), plain.predict_set(scaled.to_numpy()))
    assert 0.5 < pipe.score(frame[600:], NAMES[Y[600:]]) <= 1


def test_text_sparse_and_lists_pass_through():
    words = np.array(["fish swim sea", "bird fly air", "cow eat grass"])
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 200)
    noise = rng.integers(0, 3, 200)
    text = [
        " ".join(rng.permutation((words[a] + " " + words[b]).split())[:3]) for a, b in zip(kind, noise, strict=True)
    ]
    reader = make_pipeline(CountVectorizer(), MultinomialNB())
    model = quick(reader, cv=3, alpha=0.2).fit(text, words[kind].tolist())
    assert model.classes_.tolist() == sorted(words.tolist())
    assert all(isinstance(name, str) for name in model.predict_records(text[:1])[0].set)
    counts = CountVectorizer().fit_transform(text)
    sparse = quick(MultinomialNB(), cv=3, alpha=0.2).fit(csr_matrix(counts), words[kind])
    dense = quick(MultinomialNB(), cv=3, alpha=0.2).fit(counts.toarray(), words[kind])
    np.testing.assert_array_equal(sparse.predict_set(counts), dense.predict_set(counts.toarray()))


def test_labels_in_a_series_and_a_column():
    pd = require("pandas", "test")
    plain = quick(GaussianNB(), cv=2).fit(X[FIT], NAMES[Y[FIT]])
    series = pd.Series(NAMES[Y[FIT]], index=np.arange(300)[::-1])
    for labels in (series, series.astype("category"), series.tolist()):
        again = quick(GaussianNB(), cv=2).fit(X[FIT], labels)
        assert again.predictor_.document_ == plain.predictor_.document_


class Weighed(ClassifierMixin, BaseEstimator):
    """Remembers what it was fitted with."""

    def fit(self, X, y, sample_weight=None, names=None):
        self.seen_ = (X[:, 0], sample_weight, names)
        self.inner_ = GaussianNB().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


def test_arguments_of_fit_go_with_their_rows():
    model = quick(Weighed(), cv=2, conformal="cross").fit(X[FIT], Y[FIT], sample_weight=X[FIT][:, 0], names=["a", "b"])
    for one in (model.estimator_, *model.fold_estimators_):
        rows, weights, names = one.seen_
        np.testing.assert_array_equal(rows, weights)
        assert names == ["a", "b"]
    assert [len(one.seen_[0]) for one in model.fold_estimators_] == [150, 150]
    with pytest.raises(InputError, match="cv='prefit' fits no estimator, so it cannot pass on 'sample_weight'"):
        quick(LINEAR).fit(X[FIT], Y[FIT], sample_weight=X[FIT][:, 0])


def test_groups_stay_together():
    groups = np.repeat(np.arange(60), 5)
    model = quick(Weighed(), cv=3).fit(X[FIT], Y[FIT], split_by=groups)
    known = np.isin(X[FIT][:, 0], model.estimator_.seen_[0])
    assert known.reshape(60, 5).all(axis=1).sum() * 5 == known.sum() < 300
    prefit = quick(LINEAR).fit(X[FIT], Y[FIT], split_by=groups)
    by_hand = ts.TwoTemperaturePredictor("lac", prefer="small").fit(prefit.logits(X[FIT], Y[FIT]), split_by=groups)
    assert prefit.predictor_.document_ == by_hand.document_


def test_ids_are_given_in_fit_and_prediction_or_in_neither():
    ids = [f"row {i}" for i in range(300)]
    keyed = SetClassifier(LINEAR, "aps", prefer="small").fit(X[FIT], Y[FIT], ids=ids)
    by_hand = ts.TwoTemperaturePredictor("aps", prefer="small").fit(keyed.logits(X[FIT], Y[FIT]), ids=ids)
    assert keyed.predictor_.document_ == by_hand.document_
    expected = by_hand.predict_set(keyed.logits(X[NEW]), ids=ids)
    np.testing.assert_array_equal(keyed.predict_set(X[NEW], ids=ids), expected)
    np.testing.assert_array_equal(keyed.set_sizes(X[NEW], ids=ids), expected.sum(axis=1))
    assert keyed.check(X[NEW], Y[NEW], ids=ids).marginal.hits == expected[np.arange(300), Y[NEW]].sum()
    with pytest.raises(InputError, match=r"fit had ids, and prediction must draw u the same way. Pass ids"):
        keyed.predict_set(X[NEW])
    with pytest.raises(InputError, match=r"fit had no ids, .* Omit them"):
        quick(LINEAR).fit(X[FIT], Y[FIT]).set_sizes(X[NEW], ids=ids)
    held = SetClassifier(GaussianNB(), "aps", cv=2, prefer="small").fit(X[FIT], Y[FIT], ids=ids)
    assert held.predict_set(X[NEW], ids=ids).shape == (300, 4)


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "predict_set", "set_sizes", "predict_records", "logits"]
)
def test_not_fitted(method):
    with pytest.raises(NotFittedError):
        getattr(SetClassifier(LINEAR), method)(X)


def test_attributes_are_missing_before_fit():
    model = SetClassifier(LINEAR)
    assert not any(hasattr(model, name) for name in ("predictor_", "promise_", "fold_estimators_", "classes_"))


def test_a_notebook_shows_the_estimator_inside():
    shown = SetClassifier(LogisticRegression(), cv=3)._repr_html_()
    assert "SetClassifier" in shown
    assert "LogisticRegression" in shown


@pytest.mark.parametrize("cv", [ShuffleSplit(3, random_state=0), TimeSeriesSplit(3)], ids=str)
def test_folds_that_are_no_partition(cv):
    with pytest.raises(InputError, match=r"cv must put every row into exactly one test fold; \d+ row"):
        quick(GaussianNB(), cv=cv).fit(X[FIT], Y[FIT])


@pytest.mark.parametrize("cv", [None, True, 2.5, "fitted", 1])
def test_cv_that_makes_no_folds(cv):
    with pytest.raises(InputError, match="cv must be"):
        quick(GaussianNB(), cv=cv).fit(X[FIT], Y[FIT])


def test_settings_that_do_not_go_together():
    with pytest.raises(InputError, match="conformal='cross' needs folds"):
        quick(LINEAR, conformal="cross").fit(X[FIT], Y[FIT])
    with pytest.raises(InputError, match="conformal must be 'split' or 'cross'; got 'full'"):
        quick(LINEAR, cv=3, conformal="full").fit(X[FIT], Y[FIT])


def test_folds_side_by_side():
    one = quick(GaussianNB(), cv=2).fit(X[FIT], Y[FIT])
    with parallel_config("threading"):  # processes take seconds to start
        two = quick(GaussianNB(), cv=2, n_jobs=2).fit(X[FIT], Y[FIT])
    assert one.predictor_.document_ == two.predictor_.document_


@pytest.mark.parametrize("given", [{"alpha": 2}, {"prefer": "smallest"}, {"method": "apps"}, {"cv": "five"}], ids=str)
@pytest.mark.parametrize("conformal", ["split", "cross"])
def test_parameters_are_checked_before_anything_is_fitted(given, conformal):
    class Never(GaussianNB):
        def fit(self, X, y):
            raise AssertionError("fitted")

    with pytest.raises(InputError, match=next(iter(given))):
        quick(Never(), **{"cv": 2, "conformal": conformal} | given).fit(X[FIT], Y[FIT])


# All of scikit-learn's own. They fit a handful of rows: a level of 0.4 asks for few, and thresholds may be infinite.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::thermoset.CoverageWarning", "ignore::thermoset.BoundWarning")
@pytest.mark.filterwarnings("ignore::thermoset.ZeroProbabilityWarning")
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API is not set")
@pytest.mark.parametrize(("estimator", "conformal"), [(RidgeClassifier(), "split"), (GaussianNB(), "cross")], ids=str)
def test_scikit_learn_checks(estimator, conformal):
    results = check_estimator(quick(estimator, alpha=0.4, cv=2, conformal=conformal), on_fail=None, on_skip=None)
    assert not {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
