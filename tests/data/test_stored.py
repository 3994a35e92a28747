"""Rows that stay where they are stored: the same rows, whatever the shards, and never all of them at once."""

import copy
import itertools
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from thermoset.data.groups import read_groups
from thermoset.data.stored import StoredLogits
from thermoset.predictor.document import checksum_of
from thermoset.rows import memory_budget, row_array
from tiers import examples

LOGITS, LABELS = generated(1500, 12, seed=5)
LOGITS = LOGITS.astype(np.float32)
CUTS = [0, 1, 18, 400, 401, 777, 1300, 1500]  # seven odd-sized shards


@dataclass
class Held:
    """A shard that counts what is read."""

    rows: np.ndarray
    name: str = "held"
    classes: tuple[str, ...] | None = None
    input_kind: str = "logits"
    most: int = 0
    total: int = 0

    @property
    def n_rows(self):
        return len(self.rows)

    @property
    def n_classes(self):
        return self.rows.shape[1]

    @property
    def dtype(self):
        return self.rows.dtype

    def read(self, start, stop):
        assert 0 <= start < stop <= len(self.rows)
        self.most, self.total = max(self.most, stop - start), self.total + stop - start
        return self.rows[start:stop].copy()


def stored(cuts=CUTS, labelled=True):
    parts = [slice(*pair) for pair in itertools.pairwise(cuts)]
    return StoredLogits.of([Held(LOGITS[part]) for part in parts], LABELS if labelled else None)


IN_MEMORY = ts.Logits(LOGITS, LABELS)


def test_the_same_rows():
    data = stored()
    assert (data.n_rows, data.n_classes, data.dtype, len(data)) == (1500, 12, np.float32, 1500)
    assert repr(data) == "StoredLogits(1500 rows x 12 classes, float32, labelled)"
    assert data.load() == IN_MEMORY
    assert data == IN_MEMORY
    assert pickle.loads(pickle.dumps(data)) == IN_MEMORY  # noqa: S301
    np.testing.assert_array_equal(data.labels, LABELS)
    with pytest.raises(ValueError, match="read-only"):
        data.labels[0] = 3
    with pytest.raises(AttributeError, match="frozen"):
        data.classes = ()


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_any_selection_of_rows(drawn):
    cuts = sorted({0, 1500, *drawn.draw(st.lists(st.integers(1, 1499), max_size=6))})
    rows = drawn.draw(st.lists(st.integers(-1500, 1499), min_size=1, max_size=60))
    if drawn.draw(st.booleans()):
        rows = sorted({row % 1500 for row in rows})
    again = drawn.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=9, unique=True).map(sorted))
    assert stored(cuts).take(rows) == IN_MEMORY.take(rows)
    assert stored(cuts).take(rows).take(again) == IN_MEMORY.take(rows).take(again)


@pytest.mark.parametrize("rows", [slice(3, 1400, 7), LABELS == 3, slice(-9, None)])
def test_masks_and_slices(rows):
    assert stored().take(rows) == IN_MEMORY.take(rows)


@pytest.mark.parametrize("rows", [[1500], [-1501], [], [[1]], [0.5], np.ones(3, dtype=bool)])
def test_rows_that_are_none(rows):
    with pytest.raises(ts.InputError, match="rows"):
        stored().take(rows)


@pytest.mark.parametrize("step", [1, 7, 13, 5000])
def test_blocks_follow_each_other(step):
    data = stored().take(np.arange(0, 1500, 3))
    end, seen = 0, []
    for place, block in data.blocks(step):
        assert place.start == end
        assert 1 <= len(block) == place.stop - place.start <= step
        end, seen = place.stop, [*seen, block]
    np.testing.assert_array_equal(np.concatenate(seen), LOGITS[::3])


def test_few_rows_are_read_alone():
    (shard,) = (data := stored([0, 1500])).shards
    data.take([5, 700, 1499]).load()
    assert shard.total == 3


def test_splits_do_not_depend_on_shards():
    for one, other in zip(stored().split(0.2, 100), IN_MEMORY.split(0.2, 100), strict=True):
        assert isinstance(one, StoredLogits)
        assert one == other
        assert one.concatenate(one) == other.concatenate(other)


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("thermoset.data.stored.physical_memory", lambda: 2 * LOGITS.nbytes - 2)
    with pytest.raises(ts.InputError, match=r"this needs all 1,500 x 12 logits in memory"):
        _ = stored().logits


def test_groups_stay_with_their_rows():
    sites = np.arange(1500) // 10
    data = StoredLogits.of([Held(LOGITS)], LABELS, read_groups(sites, 1500))
    assert data.take(slice(5, 25)).groups == read_groups(sites[5:25], 20)
    assert data.take([7, 3]).groups == read_groups(sites[[7, 3]], 2)
    assert data.load() == ts.Logits(LOGITS, LABELS, groups=sites)
    assert data.concatenate(data).groups == read_groups(np.concatenate([sites, sites]), 3000)
    assert copy.deepcopy(data).groups == data.groups


@pytest.mark.slow
def test_rows_are_kept_together_in_a_split():
    together = np.arange(1500) // 10
    data = StoredLogits.of([Held(LOGITS)], LABELS)
    there = ts.TwoTemperaturePredictor().fit(data, split_by=together)
    assert checksum_of(there.document_) == checksum_of(
        ts.TwoTemperaturePredictor().fit(LOGITS, LABELS, split_by=together).document_
    )


def test_labels_beside():
    bare = stored(labelled=False)
    assert bare.labels is None
    made = ts.TwoTemperaturePredictor().fit(bare, LABELS)
    assert checksum_of(made.document_) == checksum_of(ts.TwoTemperaturePredictor().fit(LOGITS, LABELS).document_)
    with pytest.raises(ts.InputError, match="needs labels"):
        ts.sweep(bare)
    with pytest.raises(ts.InputError, match="labels"):
        ts.sweep(stored(), LABELS[::-1])


@pytest.mark.parametrize("memory", [None, "1MiB"])
@pytest.mark.parametrize(
    "options",
    [
        {"methods": ["lac", "aps", "raps"], "alphas": [0.1, 0.2]},
        {"evaluation": "integrated"},
        {"grouping": "class", "methods": ["lac"], "alphas": [0.2]},
        {"grouping": "cluster", "methods": ["aps"]},
        {"methods": ["margin"]},
    ],
)
def test_a_sweep_is_the_same_to_the_bit(options, memory):
    some = {"temperatures": [0.5, 1, 2.2], "trials": 6, **options}
    here, there = ts.sweep(IN_MEMORY, **some), ts.sweep(stored(), **some, memory=memory)
    assert here.trial_values.tobytes() == there.trial_values.tobytes()


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"method": "auto"},
        {"prefer": "protect"},
        {"objective": "ece"},
        {"grouping": "class", "prefer": "small"},
        {"method": "margin", "prefer": "small"},
    ],
)
def test_a_predictor_and_its_check_are_the_same_to_the_bit(parameters):
    parameters = {"alpha": 0.2, **parameters}
    here = ts.TwoTemperaturePredictor(**parameters).fit(IN_MEMORY.take(slice(0, 900)))
    there = ts.TwoTemperaturePredictor(**parameters).fit(stored().take(slice(0, 900)), memory="1MiB")
    assert checksum_of(here.document_) == checksum_of(there.document_)
    fresh = slice(900, None)
    assert here.check(IN_MEMORY.take(fresh)).to_json_dict() == there.check(stored().take(fresh)).to_json_dict()
    assert here.predict_set(IN_MEMORY).tobytes() == there.predict_set(stored()).tobytes()
    assert here.predict_records(IN_MEMORY) == there.predict_records(stored())


def test_theory_of_stored_rows():
    options = {"temperatures": [0.5, 1, 2, 4], "trials": 3}
    here, there = (ts.theory.explain(data, **options) for data in (IN_MEMORY, stored()))
    assert here.slopes.slope.tobytes() == there.slopes.slope.tobytes()
    assert here.curves.trial_values.tobytes() == there.curves.trial_values.tobytes()
    sizes = [ts.theory.paper_sizes(data, 1.5, 0.9).tolist() for data in (IN_MEMORY, stored())]
    assert sizes[0] == sizes[1]


@pytest.mark.slow
def test_no_more_is_read_at_once_than_a_piece():
    rows, labels = generated(60_000, 100)  # 48 MB, six pieces
    data = StoredLogits.of([Held(rows)], labels)
    ts.TwoTemperaturePredictor(method="lac", prefer="small").fit_split(*data.split(3000))
    (shard,) = data.shards
    assert shard.most * 100 * 8 <= 2**23


def test_arrays_beyond_the_budget_are_in_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with memory_budget("1MiB"):
        small, large = row_array((2, 1000)), row_array((3, 50_000))
    assert small.flags.owndata
    assert not large.flags.owndata
    large[:] = 7.0
    assert large.sum() == 7.0 * 150_000
    assert list(tmp_path.iterdir()) == []  # nameless: nothing is left behind, whatever happens
