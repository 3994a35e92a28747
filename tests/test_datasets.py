"""The bundled data: what is in the record, and that it shows what the library is about."""

import dataclasses
from importlib.resources import files

import numpy as np
import pytest

import thermoset as ts
from thermoset.datasets import load_glyphs
from thermoset.metrics import expected_calibration_error

METHODS = ("lac", "aps", "raps")


@pytest.fixture(scope="module")
def glyphs():
    return load_glyphs()


@pytest.fixture(scope="module")
def temperature(glyphs):
    """T*: where the likelihood is largest."""
    return ts.TemperatureScaler().fit(glyphs.logits).temperature_


@pytest.fixture(scope="module")
def curves(glyphs, temperature):
    grid = sorted({*ts.sweeping.temperature_grid("0.5:5:0.25").tolist(), temperature})
    return ts.sweep(glyphs.logits, temperatures=grid, methods=METHODS, trials=50)


def test_one_value_for_every_row(glyphs):
    assert glyphs.logits.n_rows >= 12_000
    assert glyphs.family.shape == glyphs.logits.labels.shape == (glyphs.logits.n_rows,)
    assert glyphs.family.dtype.kind == "U"
    assert glyphs.thumbnails.shape == (2 * glyphs.logits.n_classes, 28, 28)
    assert glyphs.thumbnails.dtype == np.bool_


def test_classes_are_the_characters_of_three_alphabets(glyphs):
    # 2 x 26 letters, 10 digits, 32 signs, Greek 24 + 25 (two small sigmas), Cyrillic 2 x 33
    names = glyphs.logits.classes
    assert len(names) == len(set(names)) == 52 + 10 + 32 + 49 + 66
    assert all(name.isprintable() and name.strip() for name in names)
    assert sum(len(name) == 1 for name in names) == 94
    assert sum(name.startswith("Cyrillic ") for name in names) == 66


def test_every_class_has_rows_of_many_families(glyphs):
    labels, family = glyphs.logits.labels, glyphs.family
    assert np.bincount(labels, minlength=209).min() >= 40
    assert min(len(np.unique(family[labels == label])) for label in range(209)) >= 20
    assert len(np.unique(family)) >= 100
    assert np.bincount(np.unique(family, return_inverse=True)[1]).max() < 0.05 * len(family)


def test_the_largest_logit_of_a_row_is_zero(glyphs):
    assert np.all(glyphs.logits.logits.max(axis=1) == 0)


def test_thumbnails_are_tight_pictures_of_two_rows_of_each_class(glyphs):
    rows = glyphs.thumbnail_rows
    assert len(np.unique(rows)) == len(rows)
    assert np.all(np.bincount(glyphs.logits.labels[rows], minlength=209) == 2)
    wide, high = glyphs.thumbnails.any(axis=1).sum(axis=1), glyphs.thumbnails.any(axis=2).sum(axis=1)
    longer = np.maximum(wide, high)
    # Up to 26 of 28 pixels: the outermost may be too grey for ink, and dots and dashes have gaps.
    assert longer.max() == 26
    assert np.median(longer) >= 25


def test_thumbnails_look_like_their_class(glyphs):
    names = np.array(glyphs.logits.classes)[glyphs.logits.labels[glyphs.thumbnail_rows]]
    high = glyphs.thumbnails.any(axis=2).sum(axis=1)
    assert np.median(high[np.isin(names, ["-", "_", "~"])]) < 13
    assert np.median(high[np.isin(names, ["|", "l", "I"])]) == 26


def test_the_record_and_its_arrays_are_frozen(glyphs):
    with pytest.raises(dataclasses.FrozenInstanceError):
        glyphs.family = None
    for array in (glyphs.family, glyphs.thumbnails, glyphs.thumbnail_rows, glyphs.logits.logits):
        assert not array.flags.writeable


def test_repr_says_what_is_inside(glyphs):
    n, families = glyphs.logits.n_rows, len(np.unique(glyphs.family))
    assert repr(glyphs) == f"Glyphs({n} rows x 209 classes, {families} font families, 418 thumbnails)"


def test_all_data_files_together_are_small():
    folder = files("thermoset.datasets").joinpath("data")
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) <= 8_000_000


def test_splits_by_family_share_no_family(glyphs):
    groups = np.unique(glyphs.family, return_inverse=True)[1]
    rows = ts.data.split_indices(glyphs.logits.n_rows, 0.1, 0.1, split_by=glyphs.family)
    one, two, three = (set(groups[part].tolist()) for part in rows)
    assert not one & two
    assert not (one | two) & three


# What the paper describes, on these rows


def test_overconfident_before_calibrated_after(glyphs, temperature):
    labels = glyphs.logits.labels
    before, after = (
        expected_calibration_error(ts.calibration.probabilities(glyphs.logits, t), labels) for t in (1.0, temperature)
    )
    confidence = ts.calibration.probabilities(glyphs.logits, 1.0).max(axis=1)
    assert temperature > 1.15
    assert confidence.mean() > np.mean(glyphs.logits.logits.argmax(axis=1) == labels) + 0.02
    assert after < before / 2


def at(curves, metric, method, temperature):
    return curves.of_trials(metric, method)[np.flatnonzero(curves.temperatures == temperature)[0]]


@pytest.mark.parametrize("method", ["aps", "raps"])
def test_sets_grow_and_class_gaps_fall_towards_t_star(curves, temperature, method):
    for metric, sign in (("avg_size", 1), ("top_coverage_gap", -1)):
        # Trials share splits and u across temperatures, so the differences are paired.
        change = sign * (at(curves, metric, method, temperature) - at(curves, metric, method, 1.0))
        assert change.mean() > 5 * change.std(ddof=1) / np.sqrt(len(change)), metric


@pytest.mark.parametrize("method", ["aps", "raps"])
def test_size_peaks_inside_the_sweep_and_falls_after(curves, temperature, method):
    size = curves.curve("avg_size", method)
    peak = int(size.argmax())
    assert temperature <= curves.temperatures[peak] < curves.temperatures[-1]
    assert np.all(np.diff(size[peak:]) < 0)
    assert size[-1] < 0.9 * size[peak]


@pytest.mark.parametrize("method", ["aps", "raps"])
def test_thresholds_fall_at_every_step_in_every_trial(curves, method):
    assert np.all(np.diff(curves.of_trials("threshold", method), axis=0) < 0)


def test_lac_hardly_moves(curves, temperature):
    moved = {
        m: abs(at(curves, "avg_size", m, temperature) / at(curves, "avg_size", m, 1.0) - 1).mean() for m in METHODS
    }
    assert moved["lac"] < 0.05
    assert moved["lac"] < moved["aps"] / 3
    assert moved["lac"] < moved["raps"] / 3
