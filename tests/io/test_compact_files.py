"""Files of largest logits: written and read back, by whatever names, in blocks, and what is refused."""

import numpy as np
import pytest

import thermoset as ts
from helpers_io import PARTS
from law import generated
from parts import require
from thermoset.errors import FileFormatError, InputError
from thermoset.io import FORMATS, open_blocks

LOGITS, LABELS = generated(300, 50)
ROWS = ts.Logits(LOGITS.astype(np.float32), LABELS, [f"class {i}" for i in range(50)])
CUT = ts.compact(ROWS, 10)


@pytest.fixture(params=[one for one in FORMATS if one not in (".npy", ".csv", ".jsonl")])
def suffix(request):
    if request.param in PARTS:
        require(*PARTS[request.param])
    return request.param


def variants():
    yield CUT
    for dtype in (np.float16, np.float64):
        yield ts.compact(LOGITS.astype(dtype), 8)
    yield ts.compact(LOGITS, 50)  # all of them
    yield ts.TopLogits(CUT.top_logits, CUT.top_indices, 50, labels=LABELS)
    every = np.logaddexp.reduce(LOGITS.astype(np.float32).astype(np.float64), axis=1)
    yield ts.TopLogits(CUT.top_logits, CUT.top_indices, 50, log_sum_exp=every)
    masked = LOGITS.copy()
    masked[::3, 5:] = -np.inf
    yield ts.compact(masked, 8)


@pytest.mark.parametrize("rows", list(variants()), ids=repr)
def test_what_is_written_is_read_back(rows, suffix, tmp_path):
    ts.save(tmp_path / f"rows{suffix}", rows)
    assert ts.load(tmp_path / f"rows{suffix}") == rows


def test_blocks_are_the_rows(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    ts.save(path, CUT)
    with open_blocks(path, block_bytes=8 * 50 * 7) as blocks:
        found = list(blocks)
        assert (blocks.n_rows, blocks.n_classes, blocks.classes) == (300, 50, CUT.classes)
    assert [len(block) for block in found] == [7] * 42 + [6]
    for name in ("top_logits", "top_indices", "log_rest"):
        assert np.concatenate([getattr(block, name) for block in found]).tobytes() == getattr(CUT, name).tobytes()
    assert found[0].labels is None


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_files_are_ten_times_smaller(suffix, tmp_path):
    rows = ts.Logits(np.random.default_rng(0).normal(size=(400, 1000)).astype(np.float32), np.arange(400))
    ts.save(tmp_path / f"whole{suffix}", rows)
    ts.save(tmp_path / f"cut{suffix}", ts.compact(rows))
    assert (tmp_path / f"whole{suffix}").stat().st_size >= 10 * (tmp_path / f"cut{suffix}").stat().st_size


@pytest.mark.parametrize(
    ("indices", "values"), [("top_k_indices", "top_k_values"), ("indices", "values"), ("topk_indices", "topk_logits")]
)
def test_other_names_are_read(indices, values, tmp_path):
    arrays = {indices: CUT.top_indices.astype(np.int64), values: CUT.top_logits}
    np.savez(tmp_path / "rows.npz", **arrays, n_classes=50, label=LABELS, extra=np.zeros(3))
    assert ts.load(tmp_path / "rows.npz") == ts.TopLogits(CUT.top_logits, CUT.top_indices, 50, labels=LABELS)


def test_log_probabilities_sum_to_one(tmp_path):
    log_probs = LOGITS - np.logaddexp.reduce(LOGITS, axis=1, keepdims=True)
    cut = ts.compact(log_probs, 8)
    np.savez(tmp_path / "rows.npz", indices=cut.top_indices, logprobs=cut.top_logits, n_classes=50)
    assert ts.load(tmp_path / "rows.npz").log_sum_exp.tolist() == [0.0] * 300


def test_lists_of_others_are_read(tmp_path):
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    columns = {"indices": CUT.top_indices.tolist(), "values": CUT.top_logits.tolist(), "label": LABELS}
    parquet.write_table(arrow.table(columns), tmp_path / "rows.parquet")
    read = ts.load(tmp_path / "rows.parquet", n_options=50)
    assert (read.top_logits == CUT.top_logits).all()
    assert read.labels.tolist() == LABELS.tolist()


def test_the_number_of_classes_must_be_known(tmp_path):
    np.savez(tmp_path / "rows.npz", indices=CUT.top_indices, values=CUT.top_logits)
    with pytest.raises(FileFormatError, match="does not say how many classes there are"):
        ts.load(tmp_path / "rows.npz")
    assert ts.load(tmp_path / "rows.npz", n_options=60).n_classes == 60


def test_labels_may_come_from_a_file_of_their_own(suffix, tmp_path):
    ts.save(tmp_path / f"rows{suffix}", ts.compact(LOGITS, 8))
    np.save(tmp_path / "labels.npy", LABELS)
    assert ts.load(tmp_path / f"rows{suffix}", labels=tmp_path / "labels.npy").labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top_indices": CUT.top_indices[:, :9]}, r"top_indices must be whole numbers, shape \(300, 10\)"),
        ({"top_indices": np.zeros((300, 10), dtype=int)}, "names a class twice"),
        ({"n_classes": np.array([50, 50])}, "n_classes must be one whole number"),
        ({"n_classes": np.array(20)}, "classes are 0 to 19"),
        ({"labels": np.full(300, 50)}, "50"),
        ({"log_rest": CUT.log_rest + 20}, "more than 40 classes can have"),
        ({"rest_temperatures": np.zeros(11)}, "finite number > 0"),
    ],
)
def test_files_that_contradict_themselves_are_refused(change, message, tmp_path):
    held = {
        "top_indices": CUT.top_indices,
        "top_logits": CUT.top_logits,
        "log_rest": CUT.log_rest,
        "rest_temperatures": np.array(CUT.rest_temperatures),
        "n_classes": np.array(50),
        "labels": LABELS,
    }
    np.savez(tmp_path / "rows.npz", **(held | change))
    with pytest.raises(InputError, match=message) as caught:
        ts.load(tmp_path / "rows.npz")
    assert str(caught.value).startswith(str(tmp_path / "rows.npz"))


def test_other_kinds_of_files_cannot_hold_them(tmp_path):
    for name in ("rows.csv", "rows.npy"):
        with pytest.raises(InputError, match="npz or parquet"):
            ts.save(tmp_path / name, CUT)
    ts.save(tmp_path / "rows.npz", CUT)
    with pytest.raises(FileFormatError, match="not probabilities"):
        ts.load(tmp_path / "rows.npz", probabilities=True)
    with pytest.raises(InputError, match="ids cannot be read"), open_blocks(tmp_path / "rows.npz", id_column="id"):
        pass


@pytest.mark.parametrize("kind", [".npz", ".npy", ".csv"])
def test_a_file_is_compacted_as_rows_in_memory_are(kind, suffix, tmp_path, monkeypatch):
    rows = ts.Logits(LOGITS, LABELS, ROWS.classes)
    ts.save(tmp_path / f"val_logits{kind}", rows)
    monkeypatch.setattr("thermoset.data.top_k.block_rows", lambda _: 7)
    opened = ts.open(tmp_path / f"val_logits{kind}")
    ts.save(tmp_path / f"cut{suffix}", ts.compact(opened, 10))
    with pytest.raises(InputError, match=r"thermoset\.load"):
        ts.open(tmp_path / f"cut{suffix}")
    assert ts.load(tmp_path / f"cut{suffix}") == ts.compact(rows, 10)
