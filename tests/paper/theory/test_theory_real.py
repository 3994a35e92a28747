"""The theory on published logits: no statement is refuted, and what others measured is found again."""

import numpy as np
import pytest

from conftest import REAL
from thermoset import Logits, TemperatureScaler, theory
from thermoset.conformal import scores


@pytest.mark.parametrize("name", REAL)
def test_no_row_refutes_a_statement(real, name):
    logits, _ = real(name)
    rng = np.random.default_rng(0)
    few = rng.permutation(len(logits))[:600]
    z, c = logits[few], logits.shape[1]
    m, other = rng.integers(1, c, size=(2, len(few)))
    for t in (0.3, 0.9, 1.5, 4.0):
        checks = [
            theory.theorem_4_1(z, min(t, 1), max(t, 1), m),
            theory.theorem_4_4(z, t),
            theory.theorem_4_4(z, t, m),
            theory.sharp_theorem(z, t),
            theory.sharp_theorem(z, t, m),
            theory.entropy_proposition(z, t),
            theory.lemma_1(z, t),
            theory.lemma_2(z, t, m, other),
            theory.gap_proposition(z, t, m, other),
        ]
        assert [len(check.violations) for check in checks] == [0] * len(checks)
        assert np.all(checks[0].premise), "no row of equal logits"


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("method", ["aps", "raps"])
def test_corollary_4_2_thresholds_fall_at_every_step(real, name, method):
    logits, labels = real(name)
    few = np.random.default_rng(0).permutation(len(logits))[:1000]
    grid = [0.1, 0.3, 0.5, 0.9, 1.0, 1.1, 1.5, 2.0, 3.0, 5.0, 20.0]
    for randomized in (False, True):
        check = theory.corollary_4_2(logits[few], labels[few], grid, method=method, randomized=randomized)
        assert not len(check.violations)


@pytest.mark.long
@pytest.mark.parametrize("name", REAL)
def test_proposition_4_3_proves_only_what_happens(real, name):
    _, conformal, fresh = Logits(*real(name)).split(0.1, 0.1)
    for t in (0.5, 1.5):
        for randomized in (False, True):
            found = theory.routes(conformal, fresh, t, randomized=randomized)
            assert len(found.proposition.explained) > 0.05 * len(fresh)
            assert not len(found.proposition.violations)


@pytest.mark.parametrize("name", [name for name in REAL if not name.startswith("imagenet")])
def test_with_u_drawn_most_rows_follow_and_the_others_mostly_lose_their_only_label(real, name):
    calibration, conformal, fresh = Logits(*real(name)).split(0.1, 0.1)
    t = TemperatureScaler().fit(calibration).temperature_
    found = theory.routes(conformal, fresh, t, randomized=True)
    assert found.claimed.mean() > 0.9
    assert found.only_label.sum() > 0.5 * np.count_nonzero(~found.claimed)
    larger = found.before > 2
    assert found.claimed[larger].mean() > 0.9


def test_rows_that_grow_stay_and_shrink_are_as_many_as_others_counted(real, expected):
    data = Logits(*real("cifar100_resnet50"))
    want = {check["id"]: check for check in expected["checks"]}
    moved = []
    for seed in range(12):
        _, conformal, fresh = data.split(0.1, 0.1, random_state=seed)
        found = theory.routes(conformal, fresh, 1.524, randomized=True)
        moved.append(np.sign(found.sizes_after - found.sizes_before))
    for name, sign in (("grow", 1), ("same", 0), ("shrink", -1)):
        check = want[f"micro_{name}|Cifar100-ResNet50|APS|unforced|same u"]
        assert abs(np.mean(np.array(moved) == sign) - check["expected"]) <= check["tol"]


def test_the_quantile_sample_is_dominated_by_its_top_class_at_every_temperature(real):
    # the paper's appendix A and B.6, on the pair whose logits are published
    found = theory.quantile_samples(*real("cifar100_resnet50"), [0.5, 1.0, 1.5, 2.0])
    assert np.all(found.top_probs[:, 0] > 0.999)
    assert found.last_index.tolist() == [1, 0, 1, 1]
    assert np.all(found.margin > 8)


def test_the_score_grows_with_the_margin_unless_u_is_drawn(real):
    logits, labels = real("cifar100_resnet50")
    by_margin = theory.margins(logits).argsort().argsort()
    by_score = theory.score_order(logits, labels).argsort()
    assert np.corrcoef(by_margin, by_score)[0, 1] > 0.9
    # of a label on top the randomised score is u p_1: the surer the row, the more u alone decides
    drawn = scores("aps", logits, u=theory.row_u(logits))[np.arange(len(labels)), labels]
    assert abs(np.corrcoef(by_margin, drawn.argsort().argsort())[0, 1]) < 0.2
