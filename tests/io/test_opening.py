"""ts.open: files as one set of rows, and what is said of a shard that does not fit, before the work."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import thermoset as ts
from helpers_io import PARTS, write_columns
from parts import require
from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError
from thermoset.io import read_values, save

RNG = np.random.default_rng(7)
NAMES = ("ant", "bee", "cat")
SOME = [".npz", ".npy", ".parquet", ".arrow", ".zarr", ".h5", ".safetensors", ".csv"]


@pytest.fixture(params=SOME)
def suffix(request):
    if request.param in PARTS:
        require(*PARTS[request.param])
    return request.param


def some_rows(n, dtype=np.float32, labels=True, names=NAMES, classes=3):
    logits = RNG.normal(size=(n, classes)).astype(dtype)
    return Logits(logits, RNG.integers(0, classes, n) if labels else None, names)


def joined(parts):
    labels = None if parts[0].labels is None else np.concatenate([part.labels for part in parts])
    return Logits(np.concatenate([part.logits for part in parts]), labels, parts[0].classes)


def saved(folder, suffix, parts):
    for number, part in enumerate(parts):
        save(folder / f"part-{number}{suffix}", part)
    return folder


def refused(where, shard, said, kind=InputError, **options):
    """One line that names the shard."""
    with pytest.raises(kind, match=said) as caught:
        ts.open(where, **options)
    assert str(caught.value).startswith(f"{shard}: ")
    assert str(caught.value).isprintable()


# -- rows ----------------------------------------------------------------------------------------------------------


def test_a_folder_is_the_rows_of_its_files(tmp_path, suffix):
    parts = [some_rows(n) for n in (3, 1, 7, 2, 4, 1, 5, 2, 3, 6, 2)]  # part-10 comes after part-9
    rows = ts.open(saved(tmp_path, suffix, parts))
    whole = joined(parts)
    assert (rows.n_rows, rows.n_classes, rows.classes) == (36, 3, NAMES)
    assert rows.dtype == (np.float64 if suffix == ".csv" else np.float32)
    assert np.array_equal(rows.labels, whole.labels)
    assert np.array_equal(rows.load().logits, whole.logits)


def test_a_list_keeps_its_order_and_may_mix_formats(tmp_path):
    require("pyarrow", "io")
    parts = [some_rows(n) for n in (4, 2, 3)]
    where = [tmp_path / name for name in ("c.npy", "a.npz", "b.parquet")]
    for path, part in zip(where, parts, strict=True):
        save(path, part)
    assert ts.open(where).load() == joined(parts)
    assert ts.open(where[::-1]).load() == joined(parts[::-1])
    assert ts.open([str(tmp_path / "*.npz"), where[0]]).load() == joined([parts[1], parts[0]])


def test_hive_folders_are_rows_and_groups(tmp_path):
    require("pyarrow", "io")
    parts = {"site=b/year=1": some_rows(2), "site=a/year=10": some_rows(3), "site=a/year=9": some_rows(4)}
    for folder, part in parts.items():
        (tmp_path / folder).mkdir(parents=True)
        save(tmp_path / folder / "part-0.parquet", part)
    (tmp_path / "_SUCCESS").touch()
    rows = ts.open(tmp_path, groups="site")
    assert ts.open(tmp_path).load() == joined(
        [parts[key] for key in ("site=a/year=9", "site=a/year=10", "site=b/year=1")]
    )
    assert np.asarray(rows.groups).tolist() == ["a"] * 7 + ["b"] * 2
    assert np.asarray(ts.open(tmp_path, groups="year").groups).tolist() == ["9"] * 4 + ["10"] * 3 + ["1"] * 2


# -- labels and groups ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "txt", "names"])
def test_labels_in_one_file_or_one_for_each_shard(tmp_path, kind):
    parts = [some_rows(n) for n in (4, 2, 3)]
    shards = tmp_path / "shards"
    shards.mkdir()
    saved(shards, ".npz", [Logits(part.logits, None, NAMES) for part in parts])
    suffix = "npy" if kind == "npy" else "txt"

    def write(path, labels):
        if kind == "npy":
            np.save(path, labels)
        else:
            path.write_text("".join(f"{NAMES[i] if kind == 'names' else i}\n" for i in labels))
        return path

    one = write(tmp_path / f"all.{suffix}", joined(parts).labels)
    each = [write(tmp_path / f"{i}.{suffix}", part.labels) for i, part in enumerate(parts)]
    for labels in (one, str(one), each):
        rows = ts.open(shards, labels=labels)
        assert rows.load() == joined(parts)
    with pytest.raises(InputError, match="one for each of 3 shards; got 2"):
        ts.open(shards, labels=each[:2])
    with pytest.raises(InputError, match=rf"2.{suffix}: has 3 values for 4 rows"):
        ts.open(shards, labels=each[::-1])
    with pytest.raises(InputError, match=rf"0.{suffix}: has 4 values for 9 rows"):
        ts.open(shards, labels=each[0])
    with pytest.raises(InputError, match=r"none.npy: there is no such file"):
        ts.open(shards, labels=tmp_path / "none.npy")


def test_ids_next_to_arrays_are_no_shards(tmp_path):
    for part in range(2):
        np.save(tmp_path / f"p{part}_logits.npy", np.eye(3))
        np.save(tmp_path / f"p{part}_patient.npy", np.arange(3))
    assert ts.open(tmp_path, id_column="patient").n_rows == 6


def test_labels_of_another_file_replace_those_inside(tmp_path):
    save(tmp_path / "val.npz", Logits([[1.0, 2.0], [3.0, 4.0]], [0, 0]))
    np.save(tmp_path / "new.npy", [1, 0])
    assert ts.open(tmp_path / "val.npz", labels=tmp_path / "new.npy").labels.tolist() == [1, 0]


@pytest.mark.parametrize("text", [True, False])
def test_groups_are_a_column_that_is_no_class(tmp_path, suffix, text):
    if text and suffix == ".safetensors":
        return  # holds numbers alone
    parts = [some_rows(n, labels=False, names=None) for n in (4, 2)]
    sites = [np.array([3, 1, 3, 2]), np.array([1, 1])]
    if text:
        sites = [np.array([f"s{i}" for i in site]) for site in sites]
    for number, (part, site) in enumerate(zip(parts, sites, strict=True)):
        by_class = {f"c{i}": part.logits[:, i] for i in range(3)}
        rows = by_class if suffix in (".csv", ".parquet", ".arrow") else {"logits": part.logits}
        write_columns(tmp_path / f"part-{number}{suffix}", {"site": site} | rows)
    rows = ts.open(tmp_path, groups="site")
    assert (rows.n_rows, rows.n_classes) == (6, 3)
    assert np.asarray(rows.groups).tolist() == np.concatenate(sites).astype(str).tolist()
    assert np.array_equal(rows.load().logits, joined(parts).logits)
    assert np.array_equal(
        read_values([shard.path for shard in rows.shards], "site").astype(str), np.asarray(rows.groups)
    )
    with pytest.raises(InputError, match=r"part-0.* there is no .*city"):
        ts.open([tmp_path / f"part-{number}{suffix}" for number in range(2)], groups="city")


# -- shards that do not fit ----------------------------------------------------------------------------------------


def three(tmp_path, suffix, other):
    """Three shards, of which the second is another."""
    saved(tmp_path, suffix, [some_rows(5), some_rows(4), some_rows(6)])
    bad = tmp_path / f"part-1{suffix}"
    shutil.rmtree(bad) if bad.is_dir() else bad.unlink()
    for sidecar in tmp_path.glob("part-1_*.npy"):
        sidecar.unlink()
    save(bad, other)
    return bad


def test_other_number_of_classes(tmp_path, suffix):
    bad = three(tmp_path, suffix, some_rows(4, names=("ant", "bee"), classes=2))
    refused(tmp_path, bad, rf"has 2 classes where .*part-0{suffix} has 3. Were they made by one model\?")


def test_other_names_or_another_order(tmp_path, suffix):
    bad = three(tmp_path, suffix, some_rows(4, names=("ant", "bee", "dog")))
    refused(tmp_path, bad, rf"has other classes than .*part-0{suffix}: column 2 is 'dog', there it is 'cat'")
    bad = three(tmp_path, suffix, some_rows(4, names=("ant", "cat", "bee")))
    refused(tmp_path, bad, r"has the same classes in another order than .*: column 1 is 'cat', there it is 'bee'")
    bad = three(tmp_path, suffix, some_rows(4, names=None))
    refused(tmp_path, bad, r"has no class names, unlike .*part-0")


def test_another_type(tmp_path, suffix):
    if suffix == ".csv":
        return  # always float64
    bad = three(tmp_path, suffix, some_rows(4, dtype=np.float64))
    refused(tmp_path, bad, rf"gives float64 where .*part-0{suffix} gives float32. Save all shards in one type")


def test_some_with_labels_and_some_without(tmp_path, suffix):
    bad = three(tmp_path, suffix, some_rows(4, labels=False))
    refused(tmp_path, bad, rf"has no labels, unlike .*part-0{suffix}")


def test_empty_truncated_and_missing(tmp_path, suffix):
    saved(tmp_path, suffix, [some_rows(50), some_rows(40), some_rows(60)])
    bad = tmp_path / f"part-1{suffix}"
    if suffix == ".zarr":
        next(path for path in bad.rglob("*") if path.is_file() and path.parent.parent.name == "c").unlink()
        refused(tmp_path, bad, "missing", FileFormatError)
        shutil.rmtree(bad)
        bad.mkdir()
        refused(tmp_path, bad, "not a Zarr folder", FileFormatError)
        bad.rmdir()
    else:
        content = bad.read_bytes()
        if suffix != ".csv":
            bad.write_bytes(content[: len(content) // 2])
            refused(tmp_path, bad, ".", FileFormatError)
        bad.write_bytes(b"")
        refused(tmp_path, bad, "the file is empty", FileFormatError)
        bad.unlink()
    where = [tmp_path / f"part-{i}{suffix}" for i in range(3)]
    refused(where, bad, "there is no such file")


def test_no_rows(tmp_path):
    np.save(tmp_path / "part-0.npy", np.zeros((2, 3)))
    np.save(tmp_path / "part-1.npy", np.zeros((0, 3)))
    refused(tmp_path, tmp_path / "part-1.npy", "the file has no rows")
    np.save(tmp_path / "part-1.npy", np.zeros(3))
    refused(tmp_path, tmp_path / "part-1.npy", "logits must be 2-D")


def test_a_dangling_link_and_a_folder_without_permission(tmp_path):
    (tmp_path / "part-0.npz").symlink_to(tmp_path / "nowhere.npz")
    refused(tmp_path, tmp_path / "part-0.npz", "there is no such file")


def test_bad_labels_are_named(tmp_path):
    np.savez(tmp_path / "part-0.npz", logits=np.zeros((2, 3)), labels=[0, 1])
    np.savez(tmp_path / "part-1.npz", logits=np.zeros((2, 3)), labels=[0, 3])
    refused(tmp_path, tmp_path / "part-1.npz", r"labels\[1\] is 3; must be in 0..2")
    np.savez(tmp_path / "part-1.npz", logits=np.zeros((2, 3)), labels=[0])
    refused(tmp_path, tmp_path / "part-1.npz", r"labels must have shape \(2,\)")


# -- shards that come twice ----------------------------------------------------------------------------------------


def test_a_file_that_comes_twice(tmp_path, suffix):
    saved(tmp_path, suffix, [some_rows(5), some_rows(4)])
    one, other = tmp_path / f"part-0{suffix}", tmp_path / f"part-1{suffix}"
    refused([one, other, one], one, "appears twice. Name each shard once, or pass allow_duplicates=True")
    refused([one, other, str(tmp_path)], one, "appears twice")
    link = tmp_path / f"part-2{suffix}"
    link.symlink_to(one)
    if suffix == ".npy":  # with what lies beside it
        for what in ("labels", "classes"):
            (tmp_path / f"part-2_{what}.npy").symlink_to(tmp_path / f"part-0_{what}.npy")
    refused(tmp_path, link, f"is the same file as {one}")
    assert ts.open(tmp_path, allow_duplicates=True).n_rows == 14
    assert ts.open([one, one, one], allow_duplicates=True).n_rows == 15


# -- many ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs /proc")
def test_many_shards_are_opened_by_their_headers(tmp_path):
    for number in range(300):
        np.save(tmp_path / f"part-{number}.npy", np.full((1000, 50), number, dtype=np.float32))  # 60 MB in all

    def read_so_far():
        return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])

    before = read_so_far()
    rows = ts.open(tmp_path)
    assert read_so_far() - before < 300 * 40_000  # of 200,000: the header
    assert rows.n_rows == 300_000
    assert rows.shards[299].read(5, 6)[0, 0] == 299


def test_class_names_are_in_memory_once(tmp_path):
    saved(tmp_path, ".npz", [some_rows(2) for _ in range(4)])
    shards = ts.open(tmp_path).shards
    assert all(shard.classes is shards[0].classes for shard in shards)


def test_a_star_import_leaves_the_builtin_alone():
    assert "open" not in ts.__all__
    assert callable(ts.open)
