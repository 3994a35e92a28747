"""Conformal scores in a predictor's file: every float comes back, and what is no score is refused."""

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import thermoset as ts
from law import generated
from thermoset import arrays
from thermoset.errors import FileFormatError
from thermoset.predictor.document import checksum_of, read_document
from thermoset.predictor.kept_scores import MOST_KEPT, KeptScores, group_rows
from tiers import examples

numbers = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 5e-324, np.inf, -np.inf, 1.0, 1 / 3])


def bits(values):
    return values.copy().view(np.uint64).tolist()


@settings(max_examples=examples(300))
@given(pairs=hnp.arrays(np.float64, st.tuples(st.just(2), st.integers(0, 20)), elements=numbers), data=st.data())
@example(pairs=np.array([[-np.inf] * 3, [np.inf] * 3]), data=None)
def test_every_float_comes_back(pairs, data):
    n = pairs.shape[1]
    group = (
        np.zeros(n, int) if data is None else np.array(data.draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n)))
    )
    group = group.astype(np.int64)
    found = KeptScores.of(arrays.pairs(*pairs), group).pairs(n)
    rows = sorted(zip(group.tolist(), pairs[0].tolist(), pairs[1].tolist(), strict=True))
    assert list(zip(found.real.tolist(), found.imag.tolist(), strict=True)) == [row[1:] for row in rows]
    assert sorted(bits(found.real)) == sorted(bits(pairs[0]))
    assert sorted(bits(found.imag)) == sorted(bits(pairs[1]))


def test_real_scores_take_fewer_bytes_than_floats():
    logits, labels = generated(5000, 10, signal=0.5)
    scores = ts.ConformalClassifier("raps").fit(logits, labels).calibration_.scores
    kept = KeptScores.of(scores, np.zeros(5000, dtype=np.int64))
    assert len(kept.value) + len(kept.refine) < 14 * 5000
    again = KeptScores.of(scores[np.random.default_rng(0).permutation(5000)], np.zeros(5000, dtype=np.int64))
    assert again == kept, "the order of rows does not show"


@pytest.fixture(scope="module")
def documents():
    data = ts.Logits(*generated(500, 4, signal=0.5))
    asked = ({}, {"grouping": "class", "method": "aps"}, {"grouping": "cluster", "method": "lac"})
    return [ts.TwoTemperaturePredictor(alpha=0.2, prefer="small", **one).fit(data).document_ for one in asked]


def written(path, document, **changes):
    changed = msgspec.structs.replace(document, **changes)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(changed, checksum=checksum_of(changed))))
    return path


def refilled(document, change):
    """The document with scores that were changed while they were arrays."""
    n = int(group_rows(document.pool_sizes, document.group_of_class).rows.sum())
    pairs = document.scores.pairs(n)
    change(pairs.real, pairs.imag)
    return KeptScores.of(pairs, np.arange(n))  # in the order they have


def swap(value, refine):
    for part in (value, refine):
        part[[0, 1]] = part[[1, 0]]


def not_a_number(value, refine):
    refine[3] = np.nan


def all_lower(value, refine):
    value -= 1.0


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (swap, "scores must be sorted"),
        (not_a_number, "scores must be numbers"),
        (all_lower, "thresholds must be those of the scores"),
    ],
)
def test_forged_scores_are_refused(documents, tmp_path, which, change, said):
    document = documents[which]
    assert read_document(written(tmp_path / "p.json", document)).scores == document.scores
    path = written(tmp_path / "p.json", document, scores=refilled(document, change))
    with pytest.raises(FileFormatError, match=said):
        read_document(path)


@pytest.mark.parametrize(
    "edit",
    [
        lambda one: {"value": b""},
        lambda one: {"value": one.value[:-1]},
        lambda one: {"value": one.value + b"\0"},
        lambda one: {"refine": b"\xff" * len(one.refine)},  # fifteen bytes in a number
        lambda one: {"refine": b"\x99" + one.refine[1:]},
    ],
)
def test_forged_bytes_are_refused(documents, tmp_path, edit):
    scores = msgspec.structs.replace(documents[0].scores, **edit(documents[0].scores))
    with pytest.raises(FileFormatError, match="scores must be those of 250 rows"):
        read_document(written(tmp_path / "p.json", documents[0], scores=scores))


def test_an_odd_number_of_rows_has_nothing_in_its_last_half_byte(tmp_path):
    made = ts.TwoTemperaturePredictor(alpha=0.2, prefer="small").fit(ts.Logits(*generated(501, 4))).document_
    assert sum(made.pool_sizes) % 2
    heads = bytearray(made.scores.value)
    heads[(sum(made.pool_sizes) - 1) // 2] |= 0x10
    scores = msgspec.structs.replace(made.scores, value=bytes(heads))
    with pytest.raises(FileFormatError, match="scores must be those of"):
        read_document(written(tmp_path / "p.json", made, scores=scores))


def test_more_rows_than_bytes_are_refused_before_there_is_room_for_them(documents, tmp_path):
    came = msgspec.structs.replace(documents[0].provenance, conformal_rows=2**31 - 1)
    path = written(tmp_path / "p.json", documents[0], pool_sizes=(2**31 - 1,), sizes=(2**31 - 1,), provenance=came)
    with pytest.raises(FileFormatError, match=f"scores must be those of 2,147,483,647 rows, up to {MOST_KEPT:,}"):
        read_document(path)


def test_pools_must_add_up(documents, tmp_path):
    """The null group has all rows: fewer than those of the other groups is impossible."""
    path = written(tmp_path / "p.json", documents[2], group_of_class=(-1, -1, 0, 0), pool_sizes=(10, 10, 240, 240))
    with pytest.raises(FileFormatError, match="pool_sizes must add up"):
        read_document(path)


def test_sets_that_scores_do_not_decide_have_none(documents, tmp_path):
    *others, chosen = documents[0].choice.outlooks
    stricter = msgspec.structs.replace(chosen, setting=msgspec.structs.replace(chosen.setting, alpha="0.01"))
    choice = msgspec.structs.replace(documents[0].choice, outlooks=(*others, stricter))
    path = written(tmp_path / "p.json", documents[0], alpha_sets="0.01", choice=choice)
    with pytest.raises(FileFormatError, match="scores must be those that set the threshold"):
        read_document(path)
