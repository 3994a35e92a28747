"""Independent measurements on published CIFAR logits (Dabah and Tirer), and the ranges T* must fall in.

`expected.json` lies beside the folder of real logits and was computed by other code.
"""

import numpy as np
import pytest

from thermoset import ConformalClassifier, TemperatureScaler, metrics
from thermoset.calibration import probabilities
from thermoset.paper.study.measure import PublishedRAPS

pytestmark = pytest.mark.long

FILES = {"Cifar10-ResNet50": "cifar10_resnet50", "Cifar100-ResNet50": "cifar100_resnet50"}


@pytest.mark.parametrize("pair", FILES)
def test_deterministic_targets_to_1e_9(pair, real, expected):
    logits, labels = real(FILES[pair])
    checked = 0
    for key, want in expected["deterministic"].items():
        name, *setting = key.split("|")
        if name != pair or len(setting) != 3:
            continue
        u = float(setting[2].removeprefix("u="))
        # At u < 1 the targets were computed with the published code's RAPS, which randomises the penalty too.
        method = PublishedRAPS() if setting[0] == "RAPS" else setting[0].lower()
        model = ConformalClassifier(method, 0.1, float(setting[1].removeprefix("T=")))
        model.fit(logits[:1000], labels[:1000], u=np.full(1000, u))
        sets = model.predict_set(logits[1000:], u=np.full(len(logits) - 1000, u))
        forced = sets.copy()
        forced[np.arange(len(sets)), logits[1000:].argmax(axis=1)] = True
        truth = labels[1000:]
        got = {
            "qhat": model.threshold_,
            "AvgSize": metrics.avg_size(sets),
            "Cov": metrics.marginal_coverage(sets, truth),
            "TopCovGap": metrics.top_coverage_gap(sets, truth, 0.1),
            "AvgCovGap": metrics.avg_coverage_gap(sets, truth, 0.1),
            "AvgSize_forced": metrics.avg_size(forced),
            "Cov_forced": metrics.marginal_coverage(forced, truth),
        }
        assert got == pytest.approx(want, abs=1e-9), key
        checked += 1
    assert checked == 20


@pytest.mark.parametrize("pair", FILES)
def test_mean_nll_to_1e_9(pair, real, expected):
    logits, labels = real(FILES[pair])
    found = metrics.negative_log_likelihood(probabilities(logits), labels)
    assert found == pytest.approx(expected["deterministic"][f"{pair}|NLL_mean_T1"], abs=1e-9)


@pytest.mark.parametrize("pair", FILES)
def test_temperatures_and_accuracy(pair, real, expected):
    logits, labels = real(FILES[pair])
    want = {check["id"]: check for check in expected["checks"]}
    got = {
        "top1": metrics.top_k_accuracy(logits, labels, 1),
        "top5": metrics.top_k_accuracy(logits, labels, 5),
        "T_nll_full": TemperatureScaler().fit(logits, labels).temperature_,
        "T_ece10_full": TemperatureScaler("ece", n_bins=10).fit(logits, labels).temperature_,
    }
    for name, value in got.items():
        check = want[f"{name}|{pair}"]
        assert abs(value - check["expected"]) <= check["tol"] + 1e-12, name


@pytest.mark.parametrize("objective", ["nll", "ece10", "ece15"])
@pytest.mark.parametrize("pair", FILES)
def test_mean_temperature_of_small_splits(pair, objective, real, expected):
    logits, labels = real(FILES[pair])
    check = {c["id"]: c for c in expected["checks"]}[f"T_{objective}_mean_over_1000-sample_splits|{pair}"]
    scaler = TemperatureScaler(objective[:3], n_bins=int(objective[3:] or 15))
    rng, found = np.random.default_rng(0), []
    for _ in range(20):
        rows = rng.permutation(len(labels))[:1000]
        found.append(scaler.fit(logits[rows], labels[rows]).temperature_)
    assert abs(np.mean(found) - check["expected"]) <= check["tol"]


def test_calibration_error_falls_as_measured(real):
    # Conventions: ECE of CIFAR-100 ResNet50 falls from 0.093 to 0.022 (10 bins).
    logits, labels = real("cifar100_resnet50")
    scaler = TemperatureScaler("ece", n_bins=10).fit(logits, labels)
    before = metrics.expected_calibration_error(probabilities(logits), labels, 10)
    after = metrics.expected_calibration_error(scaler.predict_proba(logits), labels, 10)
    assert before == pytest.approx(0.093, abs=0.0005)
    assert after <= 0.0225


def test_sizes_at_low_temperatures_have_their_limit(real):
    # Conventions 3.4: at T -> 0 sizes stop changing and RAPS sets are smaller than those of LAC and APS.
    logits, labels = real("cifar100_densenet_bc100_overconfident")
    sizes = {}
    for temperature in (0.01, 0.05, 0.1):
        for method in ("lac", "aps", "raps"):
            model = ConformalClassifier(method, 0.1, temperature).fit(logits[:5000], labels[:5000])
            sizes[method, temperature] = model.set_sizes(logits[5000:]).mean()
    for method in ("lac", "aps", "raps"):
        assert sizes[method, 0.05] == pytest.approx(sizes[method, 0.01], rel=0.02)
    assert sizes["aps", 0.01] == pytest.approx(sizes["lac", 0.01], rel=0.02)
    assert sizes["raps", 0.01] < sizes["aps", 0.01]


def test_thresholds_fall_as_temperature_grows(real):
    # Corollary 4.2, for APS and RAPS; u is shared because the rows are the same.
    logits, labels = real("cifar100_resnet50")
    for method in ("aps", "raps"):
        found = [
            ConformalClassifier(method, 0.1, temperature).fit(logits[:1000], labels[:1000]).threshold_
            for temperature in (0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 20.0)
        ]
        assert found == sorted(found, reverse=True)
        assert len(set(found)) == len(found)
