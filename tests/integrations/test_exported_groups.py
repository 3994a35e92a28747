"""Exported predictors with a threshold for each group of rows: the sets of the library, from torch and ONNX."""

import json

import numpy as np
import pytest

import thermoset as ts
from engines import session
from law import generated
from parts import require
from thermoset.errors import InputError
from thermoset.integrations.numpy import to_numpy
from thermoset.integrations.program import group_codes

pytestmark = pytest.mark.slow

SITES = ("east", "north", "west")
METHODS = ["lac", "aps", "raps", "saps", "topk", "margin"]


def rows(n_rows, n_classes, seed):
    logits, labels = generated(n_rows, n_classes, signal=0.0, seed=seed)
    codes = np.random.default_rng((seed, 1)).integers(0, 3, n_rows)
    noise = np.random.default_rng((seed, 2)).normal(size=logits.shape)
    return ts.Logits(logits + 4 * codes[:, None] * noise, labels, groups=np.array(SITES)[codes])


def fitted(method, fallback=None, n_classes=8, allow_empty=True):
    asked = ts.TwoTemperaturePredictor(
        method, 0.2, prefer="small", grouping="group", fallback=fallback, allow_empty=allow_empty
    )
    return asked.fit_split(rows(60, n_classes, 0), rows(300, n_classes, 1))


def by_torch(predictor, logits, codes):
    torch = require("torch", "torch")
    from thermoset.integrations.torch import to_torch

    torch.set_num_threads(1)
    found = to_torch(predictor)(torch.from_numpy(np.array(logits)), groups=torch.from_numpy(codes))
    return found.sets.numpy(), found.sizes.numpy()


def by_onnx(predictor, logits, codes):
    require("onnx", "onnx")
    from thermoset.integrations.onnx import to_onnx

    model = session(to_onnx(predictor, dtype="float64"))
    return model.run(["sets", "sizes"], {"logits": np.array(logits), "groups": codes})


def by_numpy(predictor, logits, codes):
    found = to_numpy(predictor)(logits, groups=codes)
    return found.sets, found.sizes


ENGINES = pytest.mark.parametrize("run", [by_torch, by_onnx, by_numpy], ids=["torch", "onnx", "numpy"])


@ENGINES
@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_sets_are_those_of_the_library(method, run, allow_empty):
    predictor, fresh = fitted(method, allow_empty=allow_empty), rows(400, 8, 2)
    sets, sizes = run(predictor, fresh.logits, group_codes(predictor, np.asarray(fresh.groups)))
    np.testing.assert_array_equal(sets, predictor.predict_set(fresh))
    np.testing.assert_array_equal(sizes, sets.sum(axis=1))


@ENGINES
@pytest.mark.parametrize("fallback", ["pooled", "strictest"])
def test_an_unknown_group_gets_the_fallback(run, fallback):
    predictor, fresh = fitted("aps", fallback), rows(200, 8, 3)
    codes = group_codes(predictor, ["mars"] * 200)
    assert (codes == -1).all()
    codes[100:] = 3  # beyond the last
    sets, _ = run(predictor, fresh.logits, codes)
    np.testing.assert_array_equal(sets, predictor.predict_set(fresh.logits, groups=["mars"] * 200))


@ENGINES
def test_without_a_fallback_an_unknown_group_gets_all_labels(run):
    """An engine cannot refuse a row; a set that holds everything breaks no promise, and is seen."""
    predictor, fresh = fitted("raps"), rows(20, 8, 3)
    sets, _ = run(predictor, fresh.logits, np.array([-1, 3, 2**40, 0, 1] * 4))
    unknown = np.arange(20) % 5 < 3
    assert sets[unknown].all()
    known = np.array(SITES)[[0, 1] * 4]
    np.testing.assert_array_equal(sets[~unknown], predictor.predict_set(fresh.logits[~unknown], groups=known))


def test_many_classes_and_blocks_in_torch():
    """More classes than a first look takes in, and more rows than a block: groups go with their rows."""
    predictor, fresh = fitted("aps", n_classes=300), rows(900, 300, 4)
    sets, _ = by_torch(predictor, fresh.logits, group_codes(predictor, np.asarray(fresh.groups)))
    np.testing.assert_array_equal(sets, predictor.predict_set(fresh))


def test_a_saved_program_takes_groups(tmp_path):
    torch = require("torch", "torch")
    from thermoset.integrations.torch import save_torch, to_torch

    predictor, fresh = fitted("aps"), rows(50, 8, 5)
    save_torch(predictor, tmp_path / "p.pt2", dtype="float64")
    codes = torch.from_numpy(group_codes(predictor, np.asarray(fresh.groups)))
    found = torch.export.load(tmp_path / "p.pt2").module()(torch.from_numpy(np.array(fresh.logits)), codes)
    np.testing.assert_array_equal(found["sets"].numpy(), predictor.predict_set(fresh))
    module = to_torch(predictor)
    assert module.group_names == SITES
    with pytest.raises(InputError, match=r"groups must have shape \(50,\).*got none"):
        module(torch.from_numpy(np.array(fresh.logits)))
    with pytest.raises(InputError, match=r"got shape \(2,\)"):
        module(torch.from_numpy(np.array(fresh.logits)), groups=codes[:2])


def test_a_model_says_which_groups_it_knows():
    require("onnx", "onnx")
    from thermoset.integrations.onnx import to_onnx

    model = to_onnx(fitted("lac"))
    assert [one.name for one in model.graph.input] == ["logits", "groups"]
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(facts["thermoset.group_names"]) == list(SITES)
    plain = to_onnx(ts.TwoTemperaturePredictor("lac", 0.2, prefer="small").fit(rows(300, 8, 0)))
    assert [one.name for one in plain.graph.input] == ["logits"]
    assert "thermoset.group_names" not in {entry.key for entry in plain.metadata_props}


def test_codes_are_for_predictors_with_groups():
    plain = ts.TwoTemperaturePredictor("lac", 0.2, prefer="small").fit(rows(300, 8, 0))
    with pytest.raises(InputError, match="this one has no groups"):
        group_codes(plain, ["a"])


@ENGINES
def test_scores_that_treat_classes_differently_are_refused(run):
    with pytest.raises(InputError, match="grouping='group' and the score 'pas' cannot be exported"):
        run(fitted("pas"), rows(20, 8, 3).logits, np.zeros(20, dtype=np.int64))
