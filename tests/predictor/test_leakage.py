"""Data leakage: the rows of a predictor match in every form, fresh rows never do, estimates have no bias."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from on_arrays import ArrayRows
from thermoset.data.row_keys import KEY_BITS, row_keys
from thermoset.errors import FileFormatError, InputError
from thermoset.predictor.document import checksum_of, read_document
from thermoset.predictor.leakage import MOST_KEYS, N_KEYS, KeySample, RowKeys, find_leakage

ROWS = ts.Logits(*generated(2400, 6, seed=2))
FITTED, FRESH = ROWS.take(slice(0, 1200)), ROWS.take(slice(1200, None))
CALIBRATION, CONFORMAL = FITTED.split(0.5)


def unfitted(**more):
    return ts.TwoTemperaturePredictor(prefer="small", **more)


@pytest.fixture(scope="module")
def predictor():
    return unfitted().fit(FITTED)


def matches(predictor, data):
    found = find_leakage(predictor.document_, data)
    return found.calibration.rows, found.conformal.rows, found.total, found.leaked


# --- every form matches ---------------------------------------------------------------------------------------------


def test_both_parts_are_told_apart(predictor):
    assert matches(predictor, FITTED) == (600, 600, 1200, True)
    assert matches(predictor, CALIBRATION) == (600, 0, 600, True)
    assert matches(predictor, CONFORMAL) == (0, 600, 600, True)
    for fresh in (FRESH, ts.Logits(*generated(5000, 6, seed=3)), ts.Logits(FITTED.logits * (1 + 2.0**-9))):
        assert matches(predictor, fresh) == (0, 0, 0, False)


@given(
    st.lists(st.integers(0, 1199), min_size=60, max_size=300, unique=True),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.booleans(),
)
def test_any_part_in_any_order_and_type_matches(predictor, rows, dtype, labelled):
    some = FITTED.take(rows)
    again = ts.Logits(some.logits.astype(dtype), some.labels if labelled else None)
    calibration, conformal, total, leaked = matches(predictor, again)
    assert calibration + conformal == total
    assert total >= (0.97 if dtype == np.float16 else 1.0) * len(rows)  # casts by way of float32 round twice
    assert leaked


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet", "safetensors", "npy"])
def test_any_file_of_the_rows_matches(predictor, tmp_path, suffix):
    ts.save(tmp_path / f"rows.{suffix}", FITTED.take(np.random.default_rng(0).permutation(1200)[:500]))
    for rows in (ts.load(tmp_path / f"rows.{suffix}"), ts.open(tmp_path / f"rows.{suffix}")):
        assert matches(predictor, rows)[2:] == (500, True)


def test_few_rows_that_are_all_matched():
    few = ts.Logits(*generated(60, 6, signal=-0.5, seed=9))
    small = unfitted(alpha=0.2).fit(few)
    assert matches(small, few.take(np.random.default_rng(0).permutation(60)))[2:] == (60, True)
    assert matches(small, ts.Logits(np.tile(few.logits[:1], (60, 1))))[2:] == (60, False)  # one row is no evidence


def test_rows_of_largest_logits_match_whole_rows(predictor):
    cut = ts.compact(FITTED, 5)
    assert matches(predictor, cut)[2:] == (1200, True)
    top = unfitted().fit(cut)
    assert matches(top, FITTED.take(slice(0, 300)))[2:] == (300, True)
    assert matches(top, FRESH)[2] == 0


# --- and nothing else -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 4, 10])
def test_fresh_rows_never_match(n_classes):
    rng = np.random.default_rng(n_classes)
    known, fresh = (row_keys(ArrayRows(rng.normal(size=(n, n_classes)) * 3)) for n in (100_000, 300_000))
    sample, match = KeySample.of(known), KeySample.of(known).match(fresh, len(known))
    assert sample.below < N_KEYS
    assert (sample.pairs, match.rows, match.keys) == (0, 0, 0)


def test_constant_rows_are_no_evidence():
    """Every fresh row has the logits of the predictor's rows, and it was fitted on none of them."""
    same = np.tile([1.0, 0.5, 0.0, -0.5], (600, 1))
    labels = np.argmax(same + np.random.default_rng(0).gumbel(size=same.shape), axis=1)
    fitted = unfitted(method="lac").fit(same[:400], labels[:400])
    assert fitted.check(same[400:], labels[400:]).rows == 200
    with pytest.raises(InputError, match="400 of 400"):  # all of them, with their labels, are the same
        fitted.check(same[:400], labels[:400])


@pytest.mark.parametrize("n_kinds", [300, 3000, 30_000, 10**7])
def test_rows_that_repeat_by_chance_pass_and_the_same_rows_do_not(n_kinds):
    """Keys of few kinds, some common and some rare, as a forest gives them."""
    rng = np.random.default_rng(n_kinds)
    names = rng.integers(0, N_KEYS, n_kinds, dtype=np.uint64)
    for _ in range(400):
        known, fresh = (names[(n_kinds * rng.random(800) ** 3).astype(np.int64)] for _ in range(2))
        sample = KeySample.of(known)
        assert not sample.match(fresh, 800).leaked
        assert n_kinds < 3000 or sample.match(rng.permutation(known), 800).leaked


@pytest.mark.parametrize(("n_fresh", "n_matched", "leaked"), [(100, 4, 0), (100, 5, 1), (1000, 9, 0), (1000, 10, 1)])
def test_it_takes_five_rows_and_one_percent(n_fresh, n_matched, leaked):
    keys = np.random.default_rng(0).choice(N_KEYS >> 24, 11_000, replace=False).astype(np.uint64)
    known, fresh = keys[:10_000], keys[10_000 : 10_000 + n_fresh - n_matched]
    match = KeySample.of(known).match(np.concatenate([known[:n_matched], fresh]), 10_000)
    assert (match.rows, match.leaked, match.unexplained) == (n_matched, bool(leaked), True)


def test_a_few_rows_warn_with_their_number_and_more_are_refused(predictor):
    def mixed(n):
        return ts.Logits(
            np.concatenate([FITTED.logits[:n], FRESH.logits[n:]]), np.concatenate([FITTED.labels[:n], FRESH.labels[n:]])
        )

    assert predictor.check(mixed(2)).rows == 1200  # without a warning: two rows in a thousand may be others
    with pytest.warns(ts.DataLeakageWarning, match="^3 of 1,200"):
        assert predictor.check(mixed(3)).rows == 1200
    with pytest.raises(InputError, match=r"^120 of 1,200"):
        predictor.check(mixed(120))


@pytest.mark.slow
def test_rows_that_repeat_by_nature_do_not_warn():
    """Of letters that are one picture in several alphabets, every part has some; so have fresh rows."""
    known, fresh = ts.datasets.load_glyphs().logits.split(0.5)
    glyphs = unfitted(method="lac").fit_split(*known.split(0.5))
    assert find_leakage(glyphs.document_, fresh).total > 100
    glyphs.check(fresh)  # warnings are errors here


# --- samples of long parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "most"), [(1000, 100), (130, 100), (400, 50)])
def test_the_estimate_has_no_bias(n_rows, most):
    """Over random keys, its mean is the number of rows that came back."""
    rng = np.random.default_rng(n_rows)
    estimates = np.empty(800)
    for run in range(800):
        keys = rng.integers(0, N_KEYS, n_rows, dtype=np.uint64)
        keys[-20:-10] = keys[-10:]  # ten pairs, which are not kept
        sample = KeySample.of(keys, most)
        assert sample.once <= most
        others = rng.integers(0, N_KEYS, 1000, dtype=np.uint64)
        estimates[run] = sample.match(np.concatenate([keys[:60], keys[:60], others]), n_rows).rows
    assert abs(estimates.mean() - 120) < 4 * estimates.std() / np.sqrt(800)


def test_a_part_longer_than_its_sample_is_estimated_and_said_to_be(predictor):
    logits = np.random.default_rng(7).normal(size=(200_000, 4)).astype(np.float32)
    sample = KeySample.of(row_keys(ArrayRows(logits)))
    assert sample.once == MOST_KEYS
    back = sample.match(row_keys(ArrayRows(np.concatenate([logits[:50_000], logits[:50_000] + 1]))), 200_000)
    share = MOST_KEYS / 200_000  # of 50,000 rows
    assert abs(back.rows - 50_000) < 4 * np.sqrt(50_000 * (1 - share) / share)
    assert back.leaked
    few = with_keys(predictor, conformal=KeySample.of(row_keys(CONFORMAL), 200))
    assert find_leakage(few, CONFORMAL.take(np.arange(599, -1, -1))).sentence.startswith("about ")


# --- what is refused ------------------------------------------------------------------------------------------------


def test_recalibrating_takes_note_of_the_new_rows_and_forgets_the_old(tmp_path):
    first, second = FRESH.split(0.5)
    unfitted().fit(FITTED).recalibrate(first).save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert matches(read, first) == (0, 600, 600, True)
    assert matches(read, CALIBRATION) == (600, 0, 600, True)
    assert matches(read, CONFORMAL) == (0, 0, 0, False)
    assert read.check(second).rows == 600
    for again in (read, read.at(0.05)):  # another level remembers the rows
        with pytest.raises(InputError, match="used"):
            again.check(first)


def test_rows_that_chose_a_temperature_set_no_threshold(predictor):
    again = unfitted().fit(FITTED)
    with pytest.raises(InputError, match="Recalibrate"):
        again.recalibrate(CALIBRATION)
    assert again.document_ == predictor.document_
    shuffled = CONFORMAL.take(np.random.default_rng(0).permutation(600))  # rows of the old threshold may set the new
    assert again.recalibrate(shuffled).threshold_ == predictor.threshold_


def with_keys(predictor, **parts):
    document = predictor.document_
    return msgspec.structs.replace(document, row_keys=msgspec.structs.replace(document.row_keys, **parts))


def test_without_keys_a_part_matches_as_a_whole(predictor):
    none = KeySample.of(np.empty(0, np.uint64))
    keyless = with_keys(predictor, calibration=none, conformal=none)
    assert find_leakage(keyless, FITTED)[:1] + find_leakage(keyless, FITTED).calibration[:1] == (1200, 600)
    assert find_leakage(keyless, CALIBRATION).calibration.leaked
    assert find_leakage(keyless, CONFORMAL).conformal.leaked
    for unknown in (FRESH, CONFORMAL.take(slice(0, 599)), ts.Logits(CONFORMAL.logits)):
        assert not find_leakage(keyless, unknown).leaked


# --- the record in the file -----------------------------------------------------------------------------------------


def test_a_row_costs_less_than_nine_bytes_of_the_file(predictor):
    none = KeySample.of(np.empty(0, np.uint64))
    bare = msgspec.json.encode(RowKeys(calibration=none, conformal=none))
    assert 6 * 1200 < len(msgspec.json.encode(predictor.document_.row_keys)) - len(bare) < 9 * 1200
    sample = KeySample.of(np.random.default_rng(0).integers(0, N_KEYS, 10**6, dtype=np.uint64))
    assert len(msgspec.json.encode(sample)) < 6.2 * MOST_KEYS
    assert N_KEYS == 1 << KEY_BITS


BROKEN = {
    "no bound": lambda part: {"below": 0},
    "a bound too far": lambda part: {"below": N_KEYS + 1},
    "negative": lambda part: {"once": -1},
    "too many": lambda part: {"pairs": 600},
    "cut": lambda part: {"keys": part.keys[:-1]},
    "above the bound": lambda part: {"below": int(part.numbers()[-1])},
    "twice": lambda part: {"once": 2, "keys": b"\x01\x02"},  # 1, and 0 more
}


@pytest.mark.parametrize("how", [*BROKEN, "missing"])
def test_a_broken_record_is_refused(predictor, tmp_path, how):
    part = predictor.document_.row_keys.conformal
    broken = None if how == "missing" else msgspec.structs.replace(part, **BROKEN[how](part))
    bad = with_keys(predictor, conformal=broken)
    (tmp_path / "p.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(bad, checksum=checksum_of(bad))))
    with pytest.raises(FileFormatError, match="key"):
        read_document(tmp_path / "p.json")
