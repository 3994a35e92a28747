"""One recipe for sets: what it says, what it refuses, and that everything that makes sets follows it."""

import msgspec
import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.conformal import Scoring
from thermoset.errors import InputError


@pytest.mark.parametrize("method", list(ts.SCORES))
@pytest.mark.parametrize("randomized", [True, False])
def test_u_matters_where_it_is_drawn_and_the_score_has_it(method, randomized):
    recipe = ts.Recipe(method, randomized=randomized, random_state=5)
    without = method in ("lac", "margin", "pas")  # they alone have no u
    drawn = randomized and not without
    assert recipe.uses_u is drawn
    assert recipe.seed == (5 if drawn else None)
    # exact: no u, or u drawn; and sets left empty where they are
    assert recipe.exact is (drawn or without)
    assert not recipe.change(allow_empty=False).exact


def _ranks(probs, rank, u):
    return rank - u * probs


@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("method", [name for name in ts.SCORES if name not in ("margin", "pas")])
def test_compiled_scores_with_one_threshold_have_a_closed_form(method, randomized):
    recipe = ts.Recipe(method, randomized=randomized)
    assert recipe.closed_form
    assert not recipe.change(grouping="class").closed_form


@pytest.mark.parametrize("method", ["margin", _ranks, ts.OwnScore(_ranks, "mine")])
def test_plain_scores_have_no_closed_form(method):
    assert not ts.Recipe(method).closed_form


def test_a_function_becomes_a_score_once():
    recipe = ts.Recipe(_ranks, random_state=5)
    assert recipe.method.score == recipe.score == ts.OwnScore(_ranks)
    assert (recipe.uses_u, recipe.seed) == (True, 5)
    assert not ts.Recipe(ts.OwnScore(_ranks, uses_u=False)).uses_u
    assert ts.ConformalClassifier.of(recipe).recipe == recipe


def test_what_is_the_same_is_equal():
    assert ts.Recipe("raps", 0.1) == ts.Recipe(ts.RAPS(), 0.1, randomized=1, random_state=np.int64(0))
    assert ts.Recipe("raps") != ts.Recipe("aps")


@pytest.mark.parametrize(
    "arguments", [{"method": "apps"}, {"alpha": 2}, {"grouping": "both"}, {"grouping": ["class"]}, {"random_state": -1}]
)
def test_what_makes_no_sets_is_refused(arguments):
    (name,) = arguments
    fits = [make(**arguments).fit for make in (ts.ConformalClassifier, ts.TwoTemperaturePredictor)]
    for call in (lambda *_: ts.Recipe(**arguments), *fits):
        with pytest.raises(InputError, match=f"^{name} must be"):
            call(*generated(60, 3))


RECIPES = [
    ts.Recipe(),
    ts.Recipe("lac", "0.2"),
    ts.Recipe("aps", 0.2, randomized=False, allow_empty=False),
    ts.Recipe("saps", 0.2, grouping="class", random_state=2**64 - 1),
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_one_json_object(recipe):
    recipe = recipe.change(temperature=1 / 3)
    assert msgspec.json.decode(msgspec.json.encode(recipe), type=ts.Recipe) == recipe
    assert hash(recipe) == hash(recipe.change())


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_classifier_is_made_by_a_recipe_and_has_it(recipe):
    recipe = recipe.change(temperature=2.0)
    model = ts.ConformalClassifier.of(recipe)
    assert model.recipe == recipe
    assert model.temperature == 2.0
    fitted = model.fit(*generated(200, 3))
    assert fitted.calibration_.scoring == Scoring(recipe.set_score, 2.0, recipe.seed)


@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_file_keeps_the_recipe(recipe, tmp_path):
    """LAC has no seed in the file, randomised or not: the recipe that is read back makes the same sets."""
    recipe = recipe.change(temperature=1.5)
    asked = recipe.parameters | {"temperature_sets": recipe.temperature}
    del asked["temperature"]
    predictor = ts.TwoTemperaturePredictor(**asked, prefer="small").fit(*generated(300, 3))
    assert predictor.document_.recipe == recipe
    predictor.save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert read.document_.recipe == recipe
    assert read._promise.exact == recipe.exact
    data = ts.Logits(*generated(300, 3, seed=1))
    np.testing.assert_array_equal(read.recalibrate(data).threshold_, predictor.recalibrate(data).threshold_)
    assert read.document_.recipe == predictor.document_.recipe, "and renewing the threshold does not change it"


def test_a_score_without_u_stays_randomised_through_renewal():
    """It had no seed before, and whoever fits it again with another score draws u."""
    predictor = ts.TwoTemperaturePredictor("lac").fit(*generated(300, 3))
    predictor.recalibrate(ts.Logits(*generated(300, 3, seed=1)))
    assert predictor.document_.recipe.seed is None
    assert predictor.document_.recipe.randomized
    assert predictor._promise.exact
