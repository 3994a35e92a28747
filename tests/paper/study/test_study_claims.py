"""What the paper says happens: told apart from what does not."""

from dataclasses import replace

import pytest

import thermoset as ts
from law import generated
from thermoset.paper.study import Claim, RuleComparison, Settings
from thermoset.paper.study.cells import Cell
from thermoset.paper.study.claims import check_claims
from thermoset.paper.study.measure import measure

SETTINGS = Settings(trials=12, alphas=(0.1,), cp_percents=(10,), temperatures="0.3:5:0.5")


@pytest.fixture(scope="module")
def measured():
    """The same rows from a network that is too sure of itself, and from one that is not sure enough."""
    logits, labels = generated(3600, 20, signal=0.5)  # 18 conformal rows a class
    return {scale: measure(ts.Logits(scale * logits, labels), SETTINGS, None, lambda _: None) for scale in (1.0, 0.5)}


def claims_of(found, cells=()):
    return check_claims(found, RuleComparison(cells, {}, found.curves[10]), SETTINGS)


def told(claims):
    return {claim.text: claim.holds for claim in claims}


def test_an_overconfident_network_does_what_the_paper_says(measured):
    claims = told(claims_of(measured[1.0]))
    alike = {f"Where T* > 1, TS lowers the TopCovGap of {method}" for method in ("APS", "RAPS")}
    assert {text for text, holds in claims.items() if holds is None} == alike, "classes drawn alike: chance alone"
    assert all(holds for text, holds in claims.items() if text not in alike), claims
    assert len(claims) == 9


def test_where_t_star_is_below_1_sets_shrink_and_class_gaps_are_not_spoken_of(measured):
    claims = told(claims_of(measured[0.5]))
    assert claims["Where T* < 1, TS shrinks the sets of APS"] is True
    assert claims["Where T* < 1, TS shrinks the sets of RAPS"] is True
    assert not any("TopCovGap" in text for text in claims)


def test_a_claim_that_does_not_hold_is_said_not_to(measured):
    found = measured[1.0]
    turned = told(claims_of(replace(found, before=found.after, after=found.before)))
    assert turned["Where T* > 1, TS enlarges the sets of APS"] is False
    curves = found.curves[10]
    rising = replace(curves, trial_values=curves.trial_values[:, ::-1])
    upside_down = told(claims_of(replace(found, curves={10: rising})))
    assert upside_down["The threshold of APS falls as T rises"] is False
    cold = replace(curves, temperatures=curves.temperatures[:2], trial_values=curves.trial_values[:, :2])
    assert (
        told(claims_of(replace(found, curves={10: cold})))["AvgSize of APS rises to a peak at T_c and falls"] is False
    )


def test_what_does_not_move_is_open(measured):
    found = measured[1.0]
    still = told(claims_of(replace(found, after=found.before)))
    assert still["Where T* > 1, TS enlarges the sets of APS"] is None


@pytest.mark.parametrize(("size", "gap", "holds"), [(3.0, 0.1, True), (5.0, 0.1, False), (3.0, 0.3, False)])
def test_t_hat_must_beat_mondrian_on_both_metrics(measured, size, gap, holds):
    def cell(at, metric, value):
        return Cell("exact", metric, "raps", at, 0.1, 10, value, 0.01, 12)

    cells = (
        cell("t_hat", "avg_size", size), cell("t_hat", "top_coverage_gap", gap),
        cell("mondrian", "avg_size", 4.0), cell("mondrian", "top_coverage_gap", 0.2),
    )  # fmt: skip
    found = measured[1.0]
    last = claims_of(found, cells)[-1]
    assert last == Claim(last.text, "Appendix D", f"AvgSize {size:.2f} and 4.00, TopCovGap {gap:.3f} and 0.200", holds)
    ten_times = replace(found.before[10], counts=10 * found.before[10].counts)
    assert last.source not in {claim.source for claim in claims_of(replace(found, before={10: ten_times}), cells)}
