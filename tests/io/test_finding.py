"""Which files a path, a folder, a glob or a list stands for, and in which order."""

from pathlib import Path

import pytest

from thermoset.errors import InputError
from thermoset.io import found_shards
from thermoset.io.loading import hive_value


def touched(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def names(found, folder):
    return [path.relative_to(folder).as_posix() for path in found]


def test_a_path_is_taken_as_it_is_whatever_its_name(tmp_path):
    touched(tmp_path, "val_labels.npy", "_part.npz", "what.xyz", "a[1].npy")
    for name in ("val_labels.npy", "_part.npz", "what.xyz", "a[1].npy"):
        assert found_shards(tmp_path / name) == (tmp_path / name,)
    assert found_shards(str(tmp_path / "_part.npz")) == (tmp_path / "_part.npz",)


def test_a_folder_is_sorted_with_numbers_as_numbers(tmp_path):
    touched(tmp_path, "part-10.npz", "part-2.npz", "part-1.npz", "part-02.npz", "a.parquet", "b10c2.csv", "b10c10.csv")
    expected = ["a.parquet", "b10c2.csv", "b10c10.csv", "part-1.npz", "part-02.npz", "part-2.npz", "part-10.npz"]
    assert names(found_shards(tmp_path), tmp_path) == expected
    assert names(found_shards(str(tmp_path / "part-*")), tmp_path) == expected[3:]


def test_what_stands_beside_shards_is_none(tmp_path):
    touched(tmp_path, "_SUCCESS", "_metadata", "_common_metadata", ".part-0.npz.crc", ".hidden.npz", "README.md")
    touched(tmp_path, "manifest.json", "run_manifest.json", "part.manifest.jsonl", "_temporary/0/part-1.npz")
    touched(tmp_path, "labels.npy", "val_classes.npy", "val-groups.npy", "class_names.npy", "label.npy")
    touched(tmp_path, "logits_0.npy", "labels_0.npy", "classes_0.npy", "groups_0.npy")
    touched(tmp_path, "cats_logits.npy", "cats_labels.npy", "labels_of_what.npy", "manifest_of_cats.json")
    expected = ["cats_logits.npy", "labels_of_what.npy", "logits_0.npy", "manifest_of_cats.json"]
    assert names(found_shards(tmp_path), tmp_path) == expected
    assert names(found_shards(str(tmp_path / "*")), tmp_path) == expected
    touched(tmp_path, "cats_site.npy")
    assert names(found_shards(tmp_path, sidecars=["site"]), tmp_path) == expected


def test_hive_folders_are_looked_into_and_others_not(tmp_path):
    touched(tmp_path, "year=2024/site=b/part-0.parquet", "year=2024/site=a/part-10.parquet")
    touched(tmp_path, "year=2024/site=a/part-9.parquet", "year=1999/site=a/part-0.parquet", "old/part-0.parquet")
    touched(tmp_path, "year=1999/_temporary=1/part-0.parquet", "top.parquet")
    expected = [
        "top.parquet",
        "year=1999/site=a/part-0.parquet",
        "year=2024/site=a/part-9.parquet",
        "year=2024/site=a/part-10.parquet",
        "year=2024/site=b/part-0.parquet",
    ]
    assert names(found_shards(tmp_path), tmp_path) == expected
    assert names(found_shards(str(tmp_path / "year=2024" / "*")), tmp_path) == expected[2:]
    assert names(found_shards(str(tmp_path / "**" / "part-9*")), tmp_path) == [expected[2]]


def test_a_zarr_folder_is_one_shard(tmp_path):
    touched(tmp_path, "b.zarr/logits/c/0", "a.zarr/zarr.json", "inner=1/c.ZARR/zarr.json")
    assert names(found_shards(tmp_path), tmp_path) == ["a.zarr", "b.zarr", "inner=1/c.ZARR"]
    assert found_shards(tmp_path / "b.zarr") == (tmp_path / "b.zarr",)
    assert names(found_shards(str(tmp_path / "*.zarr")), tmp_path) == ["a.zarr", "b.zarr"]


def test_a_list_keeps_its_order_and_its_repetitions(tmp_path):
    touched(tmp_path, "z.npz", "a.npz", "more/2.csv", "more/1.csv")
    where = [tmp_path / "z.npz", str(tmp_path / "more"), tmp_path / "a.npz", tmp_path / "z.npz"]
    assert names(found_shards(where), tmp_path) == ["z.npz", "more/1.csv", "more/2.csv", "a.npz", "z.npz"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("none.npz", "none.npz: there is no such file"),
        (["good.npz", "none.npz"], "none.npz: there is no such file"),
        ("none-*.npz", r"none-\*.npz: finds nothing; expected files that end in .npz"),
        ("*.md", r"\*.md: finds only 'README.md' and the like"),
        ("empty", "empty: is a folder without files that end in"),
        ("deep", r"To look into folders like 'deeper', pass a glob: .*deep/\*\*/"),
        ([], "an empty list"),
        (3, "got int"),
        ([3], "path must be the name of a file; got 3"),
        ("gone.npz", "gone.npz: there is no such file"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, monkeypatch, where, said):
    touched(tmp_path, "good.npz", "README.md", "deep/deeper/part-0.npz")
    (tmp_path / "empty").mkdir()
    (tmp_path / "gone.npz").symlink_to(tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        found_shards(where)


def test_hive_values():
    path = Path("site=a/year=2024/site=b/part=0.parquet")
    assert hive_value(path, "site") == "b"
    assert hive_value(path, "year") == "2024"
    assert hive_value(path, "part") is None
    assert hive_value(path, "city") is None
