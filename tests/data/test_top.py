"""Rows that keep their largest logits: what is refused, how they are cut, completed and put together."""

import pickle

import numpy as np
import pytest
from hypothesis import given

import thermoset as ts
from law import generated
from thermoset.data import as_logits
from thermoset.data.tail_mass import tail_bounds
from thermoset.data.top_k import TEMPERATURES, checked_top
from thermoset.errors import InputError
from tops import cut_down, rows

LOGITS, INDICES = [[3.0, 1.0, 0.5, 0.0], [2.0, 1.9, 1.8, -np.inf]], [[7, 2, 9, 4], [0, 1, 2, 3]]


def made(**more):
    return ts.TopLogits(LOGITS, INDICES, 10, **more)


def test_rows_are_sorted_and_ties_go_to_the_lower_class():
    found = ts.TopLogits([[1.0, 3.0, 1.0, 2.0]], [[8, 5, 2, 0]], 9)
    assert found.top_logits.tolist() == [[3.0, 2.0, 1.0, 1.0]]
    assert found.top_indices.tolist() == [[5, 0, 2, 8]]


@pytest.mark.parametrize(
    ("given_rows", "message"),
    [
        (lambda: ts.TopLogits([[1.0, 2.0, 3.0]], [[0, 1, 2]], 9), "at least 4 logits; got 3"),
        (lambda: ts.TopLogits([[1.0, 2.0, 3.0, np.nan]], [[0, 1, 2, 3]], 9), r"top_logits\[0, 3\] is NaN"),
        (lambda: ts.TopLogits([[1.0, 2.0, 3.0, 4.0]], [[0, 1, 2, 9]], 9), r"\[0, 3\] is 9; classes are 0 to 8"),
        (lambda: ts.TopLogits([[1.0, 2.0, 3.0, 4.0]], [[0, 1, 2, -1]], 9), r"top_indices\[0, 3\] is -1"),
        (lambda: ts.TopLogits([[1.0, 2.0, 3.0, 4.0]], [[0, 1, 2, 2]], 9), r"top_indices\[0\] names a class twice"),
        (lambda: ts.TopLogits([[1.0, 2.0, 3.0, 4.0]], [[0.0, 1.0, 2.0, 3.0]], 9), "must be whole numbers"),
        (lambda: made(labels=[0, 10]), "label"),
        (lambda: made(log_rest=[[0.0], [0.0]]), "go together"),
        (lambda: made(log_sum_exp=[3.3, 3.3], log_rest=[[0.0], [0.0]], rest_temperatures=[1]), "cannot both be given"),
        (lambda: made(log_rest=[[0.0], [0.0]], rest_temperatures=[0]), "finite number > 0"),
        (lambda: made(log_rest=[[0.0], [0.0]], rest_temperatures=1.0), "list of temperatures"),
        (lambda: made(log_rest=[[0.0], [0.0]], rest_temperatures=[[1.0], 2.0]), "finite number > 0"),
        (lambda: made(log_rest=[[0.0, 0.0]] * 2, rest_temperatures=[1, 1]), "different from each other"),
        (lambda: made(log_rest=[[np.nan], [0.0]], rest_temperatures=[1]), r"log_rest\[0, 0\] is nan"),
        (lambda: made(log_sum_exp=[-np.inf, 0.0]), r"log_sum_exp\[0\] is -inf"),
        (lambda: made(log_sum_exp=[3.3]), r"shape \(2,\)"),
        # six classes of at most e**0 weigh no more than 6, and e**3 alone is more than e**2.9
        (lambda: made(log_rest=[[np.log(6.1)], [0.0]], rest_temperatures=[1]), r"log_rest\[0\] is more than 6 classes"),
        (lambda: made(log_sum_exp=[2.9, 3.5]), r"log_sum_exp\[0\] is less than"),
        (lambda: ts.TopLogits(LOGITS, INDICES, 1), "n_classes must be a whole number from 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(given_rows, message):
    with pytest.raises(InputError, match=message) as caught:
        given_rows()
    assert "\n" not in str(caught.value)


@given(rows())
def test_compact_is_the_plain_way(drawn):
    logits, top, _ = drawn
    found, plain = ts.compact(logits, top, (0.5, 0.7, 1.0, 1.4, 2.0, 5.0)), cut_down(logits, top)
    assert (found.top_logits == plain.logits).all()
    unmasked = plain.logits > -np.inf  # masked classes have no order
    assert (found.top_indices == plain.indices)[unmasked].all()
    assert found.log_rest == pytest.approx(plain.stated.log_sums, rel=1e-6, abs=1e-6)


def test_defaults_are_small():
    rows = ts.compact(np.random.default_rng(0).normal(size=(50, 1000)).astype(np.float32))
    stored = rows.tops
    n_bytes = stored.logits.nbytes + stored.indices.nbytes + stored.stated.log_sums.nbytes
    assert 10 * n_bytes <= 50 * 1000 * 4
    assert rows.rest_temperatures == TEMPERATURES
    assert [checked_top(None, n) for n in (3, 16, 100, 1000, 100_000)] == [3, 16, 16, 40, 512]


def test_whole_rows_are_kept_as_they_are():
    logits, labels = generated(20, 6)
    cut = ts.compact(ts.Logits(logits, labels), 6)
    assert cut.tops is None
    assert (cut.logits == logits).all()


def test_completed_rows_keep_what_is_known():
    logits, labels = generated(200, 50)
    cut = ts.compact(ts.Logits(logits / 4, labels), 8)
    whole = cut.logits
    assert (np.sort(whole, axis=1)[:, -8:] == np.sort(logits / 4, axis=1)[:, -8:]).all()
    assert (np.take_along_axis(whole, cut.top_indices.astype(int), axis=1) == cut.top_logits).all()
    log_sum = np.logaddexp.reduce(whole, axis=1)  # the mass at T = 1 is stated
    assert log_sum == pytest.approx(np.logaddexp.reduce(logits / 4, axis=1), abs=1e-9)
    assert np.concatenate([block for _, block in cut.blocks(7)]).tobytes() == whole.tobytes()


def test_completed_rows_where_nothing_is_stated_go_on_as_they_began():
    # z = -2 log rank: the mean weight of ranks 9 .. 800 is that of (rank / 8)**-2, nearly (1 / 8 - 1 / 800) 64 / 792
    logits = -2 * np.log(np.arange(1.0, 801.0))[None]
    rows = ts.TopLogits(logits[:, :8], np.arange(8)[None], 800)
    weight = np.exp(rows.logits[0, 8:] - rows.logits[0, 7]).mean()
    assert weight == pytest.approx((1 / 8 - 1 / 800) * 64 / 792, rel=0.02)


def test_parts_of_rows():
    logits, labels = generated(30, 20)
    cut = ts.compact(ts.Logits(logits, labels, [f"c{i}" for i in range(20)]), 6)
    assert len(cut) == 30
    assert cut.take([3, 1]).labels.tolist() == [labels[3], labels[1]]
    assert cut.take(slice(2, 4)).top_logits.tolist() == cut.top_logits[2:4].tolist()
    first, rest = cut.split(10, random_state=1)
    whole_first, _ = ts.Logits(logits, labels).split(10, random_state=1)
    assert first.labels.tolist() == whole_first.labels.tolist()
    assert rest.n_rows == 20
    joined = first.concatenate(rest)
    assert (joined.n_rows, joined.log_rest.shape) == (30, cut.log_rest.shape)
    assert pickle.loads(pickle.dumps(cut)) == cut  # noqa: S301 (our own)
    assert cut != cut.take(slice(0, 29))
    with pytest.raises(InputError, match="select nothing"):
        cut.take([])
    with pytest.raises(InputError, match="joined only"):
        first.concatenate(ts.compact(ts.Logits(logits, labels), 5))
    with pytest.raises(AttributeError, match="frozen"):
        cut.labels = None


def test_labels_can_be_added_and_must_agree():
    cut = ts.compact(generated(5, 20)[0], 6)
    labelled = as_logits(cut, [0, 1, 2, 3, 19])
    assert isinstance(labelled, ts.TopLogits)
    assert labelled.labels.tolist() == [0, 1, 2, 3, 19]
    with pytest.raises(InputError, match="different labels"):
        as_logits(labelled, [0, 1, 2, 3, 4])


def test_log_probabilities_have_a_sum_of_zero():
    logits, _ = generated(40, 30)
    log_probs = (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).astype(np.float16)
    tops = cut_down(log_probs, 6, "nothing")
    rows = ts.TopLogits(tops.logits, tops.indices, 30, log_sum_exp=np.zeros(40))
    bounds = tail_bounds(rows.top_logits, rows.tops.stated, 30, 1.0)
    kept = np.exp(tops.logits.astype(np.float64)).sum(axis=1)
    top = np.exp(tops.logits[:, 0].astype(np.float64))
    assert (np.exp(bounds.low) * top <= np.maximum(1 - kept, 0) + 1e-12).all()
    cap = 24 * np.exp(tops.logits[:, -1].astype(np.float64))  # rounded logits may leave more than the rest can weigh
    assert (np.exp(bounds.high) * top >= np.minimum(1 - kept, cap) - 1e-12).all()


def test_rows_that_are_compact_are_not_compacted_again():
    with pytest.raises(InputError, match="hold their 6 largest logits already"):
        ts.compact(ts.compact(generated(5, 20)[0], 6))


def test_other_ways_to_make_rows_make_whole_ones():
    assert ts.TopLogits.from_probabilities([[0.5, 0.5]]) == ts.Logits.from_probabilities([[0.5, 0.5]])
    assert ts.TopLogits.from_choices([[-1.0, -2.0]], [1]) == ts.Logits.from_choices([[-1.0, -2.0]], [1])
