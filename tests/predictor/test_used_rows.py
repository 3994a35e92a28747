"""Rows that made a predictor: recognised in every form, never mistaken, estimated without bias, refused as judges."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from thermoset.data.row_keys import KEY_BITS, row_keys
from thermoset.errors import FileFormatError, InputError
from thermoset.predictor.document import checksum_of, read_document
from thermoset.predictor.used_rows import MOST_KEYS, PartKeys, UsedKeys, used_rows
from thermoset.rows import ArrayRows

N_USED = 1200
ROWS = ts.Logits(*generated(2400, 6, seed=2))
USED, FRESH = ROWS.take(slice(0, N_USED)), ROWS.take(slice(N_USED, None))
CALIBRATION, CONFORMAL = USED.split(0.5)


def fitted(**more):
    return ts.TwoTemperaturePredictor(prefer="small", **more)


@pytest.fixture(scope="module")
def predictor():
    return fitted().fit(USED)


def found(predictor, data):
    used = used_rows(predictor.document_, data)
    return used.calibration, used.conformal, used.total, used.reused


# --- every form is recognised ---------------------------------------------------------------------------------------


def test_both_parts_are_told_apart(predictor):
    assert found(predictor, USED) == (600, 600, 1200, True)
    assert found(predictor, CALIBRATION) == (600, 0, 600, True)
    assert found(predictor, CONFORMAL) == (0, 600, 600, True)
    assert found(predictor, FRESH) == (0, 0, 0, False)


@given(
    st.lists(st.integers(0, N_USED - 1), min_size=60, max_size=300, unique=True),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.booleans(),
)
def test_any_part_in_any_order_and_type_is_recognised(predictor, rows, dtype, labelled):
    some = USED.take(rows)
    again = ts.Logits(some.logits.astype(dtype), some.labels if labelled else None)
    calibration, conformal, total, reused = found(predictor, again)
    assert calibration + conformal == total
    assert total >= (0.97 if dtype == np.float16 else 1.0) * len(rows)  # casts by way of float32 round twice
    assert reused


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet", "json", "safetensors", "npy"])
def test_any_file_of_the_rows_is_recognised(predictor, tmp_path, suffix):
    order = np.random.default_rng(0).permutation(N_USED)[:500]
    try:
        ts.save(tmp_path / f"rows.{suffix}", USED.take(order))
    except InputError:
        pytest.skip(f"{suffix} is not written")
    for rows in (ts.load(tmp_path / f"rows.{suffix}"), ts.open(tmp_path / f"rows.{suffix}")):
        assert found(predictor, rows)[2:] == (500, True)


def test_few_rows_that_are_all_used_are_recognised():
    few = ts.Logits(*generated(60, 6, signal=-0.5, seed=9))
    made = fitted(alpha=0.2).fit(few)
    assert found(made, few.take(np.random.default_rng(0).permutation(60)))[2:] == (60, True)
    assert found(made, ts.Logits(np.tile(few.logits[:1], (60, 1))))[2:] == (60, False)  # one row is no evidence


def test_rows_of_largest_logits_are_recognised_and_recognise(predictor):
    cut = ts.compact(USED, 5)
    assert found(predictor, cut)[2:] == (1200, True)
    made = fitted().fit(cut)
    assert found(made, USED.take(slice(0, 300)))[2:] == (300, True)
    assert found(made, FRESH)[2] == 0


# --- and nothing else -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 4, 10])
def test_fresh_rows_are_never_taken_for_used_ones(n_classes):
    rng = np.random.default_rng(n_classes)
    used, fresh = (row_keys(ArrayRows(rng.normal(size=(n, n_classes)) * 3)) for n in (100_000, 300_000))
    part = PartKeys.of(used)
    assert part.share < 1
    assert (part.pairs, *part.matched(fresh)) == (0, 0, 0)


def test_other_seeds_and_slightly_other_logits_are_fresh(predictor):
    assert found(predictor, ts.Logits(*generated(5000, 6, seed=3)))[2] == 0
    other = USED.logits * (1 + 2.0**-9)
    assert found(predictor, ts.Logits(other, USED.labels))[2] == 0


# --- rows that repeat -----------------------------------------------------------------------------------------------


def test_constant_rows_are_no_evidence():
    """Every fresh row has the logits of used rows, and none of them was used."""
    same = np.tile([1.0, 0.5, 0.0, -0.5], (600, 1))
    labels = np.argmax(same + np.random.default_rng(0).gumbel(size=same.shape), axis=1)
    made = fitted(method="lac").fit(same[:400], labels[:400])
    assert (made.document_.used.conformal.once, made.document_.used.conformal.pairs) == (0, 0)
    assert made.check(same[400:], labels[400:]).rows == 200
    with pytest.raises(InputError, match=r"^400 of 400 rows were used"):  # all of them, with their labels, are the same
        made.check(same[:400], labels[:400])


@pytest.mark.parametrize("n_kinds", [300, 3000, 30_000, 10**7])
def test_rows_that_repeat_by_chance_are_let_through_and_the_same_rows_are_not(n_kinds):
    """Keys of few kinds, some common and some rare, as a forest gives them: fresh draws pass, reused rows do not."""
    rng = np.random.default_rng(n_kinds)
    names = rng.integers(0, 1 << KEY_BITS, n_kinds, dtype=np.uint64)
    refused = 0
    for _ in range(400):
        used, fresh = (names[(n_kinds * rng.random(800) ** 3).astype(np.int64)] for _ in range(2))
        part = PartKeys.of(used)
        refused += part.use(fresh).reused
        if n_kinds >= 3000:
            assert part.use(rng.permutation(used)).reused
    assert refused == 0


def test_a_few_rows_warn_with_their_number_and_more_are_refused(predictor):
    def mixed(n_used):
        return ts.Logits(
            np.concatenate([USED.logits[:n_used], FRESH.logits[n_used:]]),
            np.concatenate([USED.labels[:n_used], FRESH.labels[n_used:]]),
        )

    assert predictor.check(mixed(2)).rows == 1200  # without a warning: two rows in a thousand may be others
    with pytest.warns(ts.ReusedRowsWarning, match="^3 of 1,200 rows have the same logits as rows that were used"):
        assert predictor.check(mixed(3)).rows == 1200
    with pytest.raises(InputError, match=r"^120 of 1,200 rows were used to fit this predictor"):
        predictor.check(mixed(120))


@pytest.mark.slow
def test_rows_that_repeat_by_nature_do_not_warn():
    """Of letters that are one picture in several alphabets, every part has some; so have fresh rows."""
    known, fresh = ts.datasets.load_glyphs().logits.split(0.5)
    half, other = known.split(0.5)
    made = fitted(method="lac").fit_split(half, other)
    found = used_rows(made.document_, fresh)
    assert found.total > 100
    assert (found.reused, found.noted) == (False, False)


# --- samples of long parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "most"), [(1000, 100), (130, 100), (400, 50)])
def test_the_estimate_has_no_bias(n_rows, most):
    """Over random keys, the mean of the estimate is the number of rows that came back; 100 of them twice over."""
    rng = np.random.default_rng(n_rows)
    runs, n_back = 800, 60
    estimates = np.empty(runs)
    for run in range(runs):
        keys = rng.integers(0, 1 << KEY_BITS, n_rows, dtype=np.uint64)
        keys[-20:-10] = keys[-10:]  # ten pairs, which are not kept
        part = PartKeys.of(keys, most)
        estimates[run] = part.matched(np.concatenate([keys[:n_back], keys[:n_back]]))[0] / part.share
        assert part.once <= most
    assert abs(estimates.mean() - 2 * n_back) < 4 * estimates.std() / np.sqrt(runs)


def test_a_part_longer_than_its_record_is_estimated_and_said_to_be():
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(200_000, 4)).astype(np.float32)
    part = PartKeys.of(row_keys(ArrayRows(logits)))
    assert part.once == MOST_KEYS
    back = part.use(row_keys(ArrayRows(np.concatenate([logits[:50_000], logits[:50_000] + 1]))))
    assert back.estimated
    assert back.reused
    share = MOST_KEYS / 200_000  # a sample of 50,000 rows with this share
    assert abs(back.rows - 50_000) < 4 * np.sqrt(50_000 * (1 - share) / share)


def test_estimates_are_called_so(predictor):
    made = predictor.document_
    few = PartKeys.of(row_keys(CONFORMAL), 200)
    sampled = msgspec.structs.replace(made, used=msgspec.structs.replace(made.used, conformal=few))
    used = used_rows(sampled, CONFORMAL.take(np.arange(599, -1, -1)))
    assert used.estimated
    assert used.sentence.startswith(f"about {used.total:,} of 600 rows were used")


# --- who is refused -------------------------------------------------------------------------------------------------


def test_check_refuses_and_says_what_the_rows_did(predictor):
    said = r"^900 of 900 rows were used to fit this predictor \((\d+) chose the temperatures, (\d+) set the threshold\)"
    with pytest.raises(InputError, match=said) as refused:
        predictor.check(USED.take(np.random.default_rng(1).permutation(N_USED)[:900]))
    assert "says nothing about fresh rows. Check rows that were not used." in str(refused.value)
    predictor.check(FRESH)


def test_recalibrating_takes_note_of_the_new_rows_and_forgets_the_old(tmp_path):
    made = fitted().fit(USED)
    first, second = FRESH.split(0.5)
    made.recalibrate(first).save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert found(read, first) == (0, 600, 600, True)
    assert found(read, CALIBRATION) == (600, 0, 600, True)
    assert found(read, CONFORMAL) == (0, 0, 0, False)
    assert read.check(second).rows == 600
    with pytest.raises(InputError, match="were used"):
        read.check(first)


def test_rows_that_chose_a_temperature_set_no_threshold(predictor):
    made = fitted().fit(USED)
    with pytest.raises(InputError, match=r"cannot keep its promise. Recalibrate on other rows"):
        made.recalibrate(CALIBRATION)
    assert made.document_ == predictor.document_
    assert made.recalibrate(CONFORMAL).threshold_ == predictor.threshold_  # rows of the old threshold may set the new


def test_another_level_remembers_the_rows(predictor):
    with pytest.raises(InputError, match="were used"):
        predictor.at(0.05).check(CONFORMAL)


def without_keys(predictor):
    """Its document, as if no row had a key of its own."""
    none = PartKeys.of(np.empty(0, np.uint64))
    return msgspec.structs.replace(predictor.document_, used=UsedKeys(calibration=none, conformal=none))


def test_without_keys_a_part_is_recognised_as_a_whole(predictor):
    keyless = without_keys(predictor)
    whole = used_rows(keyless, USED)
    assert (whole.calibration, whole.conformal, whole.total, whole.reused) == (600, 600, 1200, True)
    assert used_rows(keyless, CALIBRATION).chose
    assert used_rows(keyless, CONFORMAL).set_threshold
    for unknown in (FRESH, CONFORMAL.take(slice(0, 599)), ts.Logits(CONFORMAL.logits)):
        assert not used_rows(keyless, unknown).reused


# --- the record in the file -----------------------------------------------------------------------------------------


def test_a_row_costs_less_than_nine_bytes_of_the_file(predictor, tmp_path):
    predictor.save(tmp_path / "with.json")
    predictor._adopt(without_keys(predictor), predictor.document_.score)
    predictor.save(tmp_path / "without.json")
    size = (tmp_path / "with.json").stat().st_size - (tmp_path / "without.json").stat().st_size
    assert 6 * N_USED < size < 9 * N_USED
    part = PartKeys.of(np.random.default_rng(0).integers(0, 1 << KEY_BITS, 10**6, dtype=np.uint64))
    assert len(msgspec.json.encode(part)) < 6.2 * MOST_KEYS


def forged(part, **changes):
    return msgspec.structs.replace(part, **changes)


BROKEN = {
    "other rows": (lambda part: forged(part, rows=part.rows + 1), "used must count the rows of its parts"),
    "no bound": (lambda part: forged(part, below=0), "below a bound"),
    "a bound too far": (lambda part: forged(part, below=2**48 + 1), "below a bound"),
    "negative": (lambda part: forged(part, once=-1), "must not outnumber the rows"),
    "too many": (lambda part: forged(part, pairs=part.rows), "must not outnumber the rows"),
    "cut": (lambda part: forged(part, keys=part.keys[:-1]), "keys of used rows must be those of"),
    "above the bound": (
        lambda part: forged(part, below=int(part.numbers()[-1])),
        "must increase and stay below their bound",
    ),
    "twice": (
        lambda part: forged(part, once=2, keys=b"\x01\x02"),  # 1, and 0 more
        "must increase and stay below their bound",
    ),
}


@pytest.mark.parametrize("which", ["calibration", "conformal"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_forged_record_is_refused(tmp_path, how, which):
    made = fitted().fit(USED).document_
    change, said = BROKEN[how]
    used = msgspec.structs.replace(made.used, **{which: change(getattr(made.used, which))})
    bad = msgspec.structs.replace(made, used=used)
    (tmp_path / "p.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(bad, checksum=checksum_of(bad))))
    with pytest.raises(FileFormatError, match=said):
        read_document(tmp_path / "p.json")


def test_keys_of_both_parts_are_required(tmp_path):
    made = fitted().fit(USED).document_
    bad = msgspec.structs.replace(made, used=msgspec.structs.replace(made.used, calibration=None))
    (tmp_path / "p.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(bad, checksum=checksum_of(bad))))
    with pytest.raises(FileFormatError, match=r"\$\.used\.calibration"):
        read_document(tmp_path / "p.json")
