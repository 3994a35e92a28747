"""Columns of files: what is named is taken for what it is, and what is not named must look like a class."""

import numpy as np
import pytest

import thermoset as ts
from helpers_io import write_columns
from thermoset.errors import FileFormatError, InputError
from thermoset.io import open_blocks, read_partial_labels, read_values

RNG = np.random.default_rng(0)
CLASSES = ["fraud", "keep", "review"]
LOGITS = RNG.normal(size=(30, 3))
LABELS = RNG.integers(0, 3, size=30)
NAMES = [CLASSES[label] for label in LABELS]
TABLES = [".csv", ".parquet", ".arrow"]


def columns(**more):
    """Columns of the classes, and others before them; floats, so that no type gives them away."""
    return {**more, **{name: LOGITS[:, i].tolist() for i, name in enumerate(CLASSES)}}


def blocks_of(path, **how):
    with open_blocks(path, block_bytes=8 * 3 * 7, **how) as blocks:
        parts = list(blocks)
    return ts.Logits(np.concatenate([part.logits for part in parts]), classes=parts[0].classes)


WAYS = {"load": ts.load, "open": ts.open, "blocks": blocks_of}


@pytest.fixture(params=TABLES)
def suffix(request):
    return request.param


@pytest.fixture(params=WAYS)
def read(request):
    return WAYS[request.param]


def same(rows, logits=LOGITS, classes=CLASSES):
    assert rows.classes == tuple(classes)
    found = np.concatenate([np.asarray(block) for _, block in rows.blocks(8)])
    np.testing.assert_array_equal(found, logits)


def test_the_issue(tmp_path, suffix, read):
    path = write_columns(tmp_path / f"val{suffix}", columns(id=[float(i) for i in range(30)]) | {"label": NAMES})
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: column 'id' looks like ids. Add --id-column id or --ignore id if it is not a class, or list the "
        "classes with --classes (in Python: id_column=, ignore=, classes=)."
    )
    for named in ({"id_column": "id"}, {"ignore": ["id"]}, {"classes": CLASSES}):
        same(read(path, **named))


def test_ids_that_became_floats_are_whole_numbers_again(tmp_path, suffix):
    path = write_columns(tmp_path / f"val{suffix}", columns(id=[float(i) for i in range(30)]))
    with open_blocks(path, id_column="id", block_bytes=8 * 3 * 7) as blocks:
        ids = [one for _, some in blocks.with_ids() for one in some]
    assert ids == ([f"{i}.0" for i in range(30)] if suffix == ".csv" else list(range(30)))
    write_columns(path, columns(id=[0.5, *range(1, 30)]))
    if suffix != ".csv":
        with pytest.raises(InputError, match=r"id\[0\] is 0\.5"), open_blocks(path, id_column="id") as blocks:
            list(blocks.with_ids())


def test_ids_of_tables_are_whole_numbers_or_text(tmp_path, suffix, read):
    path = write_columns(tmp_path / f"val{suffix}", columns(id=list(range(30)), key=[f"k{i}" for i in range(30)]))
    for one, other in (("id", "key"), ("key", "id")):
        same(read(path, id_column=one, ignore=[other]))
    with pytest.raises(FileFormatError, match="there is no 'no' in the file"):
        read(path, id_column="no", ignore=["id", "key"])


@pytest.mark.parametrize("values", [list(range(30)), [float(i) for i in range(30)], ["north", "south"] * 15], ids=str)
def test_columns_that_are_not_named_are_refused(tmp_path, suffix, read, values):
    path = write_columns(tmp_path / f"val{suffix}", columns(customer=values))
    with pytest.raises(InputError, match=r"column 'customer' .*--ignore customer if it is not a class"):
        read(path)
    same(read(path, ignore=["customer"]))


def test_classes_are_taken_in_the_order_they_are_named(tmp_path, suffix, read):
    path = write_columns(tmp_path / f"val{suffix}", columns(id=list(range(30)), note=["x"] * 30) | {"label": NAMES})
    order = [2, 0]
    picked = [CLASSES[i] for i in order]
    same(
        read(path, classes=picked, labels="note") if read is blocks_of else read(path, classes=picked, labels=False),
        LOGITS[:, order],
        picked,
    )
    same(read(path, classes=["id", *CLASSES]), np.column_stack([np.arange(30), LOGITS]), ["id", *CLASSES])
    with pytest.raises(FileFormatError, match="there is no 'spam' in the file"):
        read(path, classes=["spam", "keep"])
    with pytest.raises(InputError, match="'keep' is named in classes and in ignore"):
        read(path, classes=CLASSES, ignore=["keep"])
    with pytest.raises(InputError, match="classes name 'keep' more than once"):
        read(path, classes=["keep", "keep"])


def test_names_that_a_predictor_knows_are_not_doubted(tmp_path, suffix, read):
    whole = {"id": [float(i) for i in range(30)], **columns()}
    path = write_columns(tmp_path / f"val{suffix}", whole)
    same(read(path, known=["id", *CLASSES]), np.column_stack([np.arange(30), LOGITS]), ["id", *CLASSES])
    write_columns(path, whole | {"id": list(range(30))})
    same(read(path, known=["id", *CLASSES]), np.column_stack([np.arange(30), LOGITS]), ["id", *CLASSES])


@pytest.mark.parametrize("truth", [NAMES, LABELS.tolist()], ids=["names", "numbers"])
def test_labels_of_a_named_column(tmp_path, suffix, truth):
    path = write_columns(tmp_path / f"val{suffix}", columns(truth=truth))
    for read in (ts.load, ts.open):
        rows = read(path, labels="truth")
        same(rows)
        assert rows.labels.tolist() == LABELS.tolist()
    found = read_partial_labels(path, ts.load(path, labels=False, ignore=["truth"]), "truth")
    assert found.tolist() == LABELS.tolist()
    with pytest.raises(FileFormatError, match="there is no 'gold' in the file"):
        ts.load(path, labels="gold", ignore=["truth"])


def test_labels_count_the_classes_as_they_were_named(tmp_path, suffix):
    path = write_columns(tmp_path / f"val{suffix}", columns(label=LABELS.tolist(), other=NAMES))
    picked = CLASSES[::-1]
    assert ts.load(path, classes=picked).labels.tolist() == LABELS.tolist()
    assert ts.load(path, classes=picked, labels="other").labels.tolist() == (2 - LABELS).tolist()


def test_two_columns_of_labels(tmp_path, suffix):
    path = write_columns(tmp_path / f"val{suffix}", columns(label=NAMES, labels=NAMES))
    with pytest.raises(FileFormatError, match="'label' and 'labels' both look like labels"):
        ts.load(path)
    assert ts.load(path, labels="label", ignore=["labels"]).labels.tolist() == LABELS.tolist()
    with pytest.raises(InputError, match="labels"):
        ts.load(path, labels="label")


ARRAYS = [".npz", ".npy", ".h5", ".zarr", ".safetensors", ".pt", ".jsonl", ".parquet"]


@pytest.mark.parametrize("suffix", ARRAYS)
def test_labels_and_class_names_of_arrays(tmp_path, suffix):
    path = write_columns(tmp_path / f"val{suffix}", {"logits": LOGITS, "target": LABELS})
    for read in (ts.load, ts.open):
        rows = read(path, labels="target", classes=CLASSES)
        same(rows)
        assert rows.labels.tolist() == LABELS.tolist()
        assert read(path).labels is None
        with pytest.raises(InputError, match="classes must hold 3 names"):
            read(path, classes=CLASSES[:2])
    same(blocks_of(path, classes=CLASSES))
    assert read_partial_labels(path, ts.load(path), "target").tolist() == LABELS.tolist()


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_labels_of_rows_of_lists_may_be_names_where_classes_have_names(tmp_path, suffix):
    path = write_columns(tmp_path / f"val{suffix}", {"logits": LOGITS, "label": NAMES})
    found = ts.load(path, classes=CLASSES)
    same(found)
    assert found.labels.tolist() == LABELS.tolist()
    with pytest.raises(InputError, match="no class names are known"):
        ts.load(path)


def test_names_in_a_file_must_not_be_contradicted(tmp_path):
    ts.save(tmp_path / "val.npz", ts.Logits(LOGITS, LABELS, CLASSES))
    for read in WAYS.values():
        same(read(tmp_path / "val.npz", classes=CLASSES))
        with pytest.raises(InputError, match=r"the file names its classes .* in the same order"):
            read(tmp_path / "val.npz", classes=CLASSES[::-1])


def test_an_index_without_a_name(tmp_path):
    path = tmp_path / "val.csv"
    path.write_text(",cat,dog\n0,1.5,0.5\n1,0.1,2.5\n")
    assert ts.load(path).classes == ("cat", "dog")
    assert ts.load(path, classes=["cat", "dog"]).logits.tolist() == ts.load(path).logits.tolist()
    path.write_text("cat,,dog\n1.5,0,0.5\n0.1,1,2.5\n")
    with pytest.raises(FileFormatError, match="column 2 has no name"):
        ts.load(path)


def test_columns_beside_numbered_ones(tmp_path, suffix, read):
    held = {f"logit_{i}": LOGITS[:, i].tolist() for i in range(3)} | {"age": RNG.uniform(20, 60, size=30).tolist()}
    path = write_columns(tmp_path / f"val{suffix}", held)
    with pytest.raises(InputError, match="column 'age' is next to logit_0 to logit_2"):
        read(path)
    assert read(path, ignore=["age"]).classes is None


def test_values_are_read_from_tables_with_other_columns(tmp_path, suffix):
    path = write_columns(tmp_path / f"val{suffix}", columns(id=list(range(30)), site=["a", "b"] * 15))
    assert read_values(path, "site", ignore=["id"]).tolist() == ["a", "b"] * 15
    assert read_values(path, "site", classes=CLASSES).tolist() == ["a", "b"] * 15


def test_a_bad_cell_far_down_is_told_when_it_is_reached(tmp_path):
    path = write_columns(tmp_path / "val.csv", columns())
    path.write_text(path.read_text() + "1.0,x,2.0\n")
    with open_blocks(path, block_bytes=8 * 3 * 7) as blocks:
        rows = iter(blocks)
        assert len(next(rows)) == 7
        with pytest.raises(FileFormatError, match="line 32, column 'keep'"):
            list(rows)
