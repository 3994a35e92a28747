"""Groups in files: every format keeps them, finds them by itself, and says in one line what is wrong with them."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thermoset as ts
from forms import FORMS, stored
from helpers_io import PARTS, write_columns
from parts import require
from thermoset.data import Logits
from thermoset.data.groups import read_groups
from thermoset.errors import FileFormatError, InputError
from thermoset.io import SUFFIXES, load, open_blocks, read_values, save

RNG = np.random.default_rng(19)
N, C = 23, 3
SITES = np.array(["north", "007", "7", "süd", "a, b", 'the "old" one', "x" * 40])
GROUPS = SITES[RNG.integers(0, len(SITES), N)]
VAL = Logits(RNG.normal(size=(N, C)).astype(np.float32), RNG.integers(0, C, N), ("ant", "bee", "cat"), GROUPS)
TABLES = (".csv", ".parquet", ".arrow")


@pytest.fixture(params=SUFFIXES)
def suffix(request):
    if request.param in PARTS:
        require(*PARTS[request.param])
    return request.param


@pytest.fixture(params=TABLES)
def table(request):
    """Writes a table with a column for each class, and others beside them."""

    def write(path, **beside):
        by_class = {name: VAL.logits[:, i] for i, name in enumerate(VAL.classes)}
        return write_columns(path.with_suffix(request.param), beside | by_class)

    return write


def blocks_of(path, rows=5, **options):
    """The rows in blocks, one after the other."""
    with open_blocks(path, block_bytes=rows * 8 * C, **options) as opened:
        blocks = list(opened)
        assert opened.has_groups == (blocks[0].groups is not None)
    return [name for block in blocks for name in (block.groups or [None] * len(block))]


# -- round trips ---------------------------------------------------------------------------------------------------


NAMES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1).filter(str.strip)
GROUP = st.one_of(NAMES, st.integers(-(2**63), 2**63 - 1), st.sampled_from(["007", "7", "-0", "1e5", "NaN", "true"]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [".npz", ".csv", ".parquet", ".safetensors", ".h5", ".zarr", ".pt", ".npy"])
@given(groups=st.lists(GROUP, min_size=1, max_size=6))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_names_come_back(tmp_path_factory, kind, groups):
    if kind in PARTS:
        require(*PARTS[kind])
    path = tmp_path_factory.mktemp("any") / f"val{kind}"
    save(path, Logits(np.zeros((len(groups), 2)), groups=groups))
    assert list(load(path).groups) == [str(group) for group in groups]  # text stays text: 007 is not 7


@pytest.mark.parametrize("kind", [".npz", ".parquet"])
def test_compact_files_keep_groups(tmp_path, kind):
    if kind in PARTS:
        require(*PARTS[kind])
    groups = [f"site {i % 5}" for i in range(40)]
    whole = Logits(RNG.normal(size=(40, 30)), RNG.integers(0, 30, 40), groups=groups)
    rows = ts.compact(whole, top=6)
    assert rows.groups == whole.groups
    path = tmp_path / f"top{kind}"
    save(path, rows)
    assert load(path) == rows
    assert blocks_of(path, rows=7) == groups


# -- where they are ------------------------------------------------------------------------------------------------


def test_a_column_of_groups_is_no_class(tmp_path, table):
    plain = np.array(["n", "s"])[np.arange(N) % 2]
    path = table(tmp_path / "val", groups=plain, label=[VAL.classes[i] for i in VAL.labels])
    rows = load(path)
    assert (rows.classes, list(rows.groups)) == (VAL.classes, plain.tolist())
    assert np.array_equal(rows.labels, VAL.labels)


def test_another_column_is_named(tmp_path, table):
    path = table(tmp_path / "val", site=["a", "b"] * 11 + ["a"], groups=np.arange(N) % 3, patient=np.arange(N))
    rows = load(path, groups="site", ignore=["patient"])
    assert rows.classes == VAL.classes  # neither is the column `groups` a class
    assert list(rows.groups) == ["a", "b"] * 11 + ["a"]
    assert list(load(path, ignore=["patient", "site"]).groups) == [str(i % 3) for i in range(N)]
    assert list(ts.open(path, groups="site", ignore=["patient"]).groups) == list(rows.groups)
    assert read_values(path, "patient", ignore=["site"]).tolist() in (list(range(N)), [str(i) for i in range(N)])


def test_categories_and_booleans_of_pandas(tmp_path):
    require("pyarrow", "io")
    pandas = require("pandas", "io")
    frame = pandas.DataFrame({"site": pandas.Categorical(["b", "a", "b"]), "night": [True, False, True]})
    frame["logits"] = [[0.5, 1.0], [2.0, 0.1], [0.2, 0.3]]
    frame.to_parquet(tmp_path / "val.parquet")
    assert list(load(tmp_path / "val.parquet", groups="site").groups) == ["b", "a", "b"]
    assert list(ts.open(tmp_path / "val.parquet", groups="night").groups) == ["True", "False", "True"]
    assert blocks_of(tmp_path / "val.parquet", groups="site") == ["b", "a", "b"]


def test_groups_in_a_file_of_their_own(tmp_path):
    save(tmp_path / "val.npz", Logits(np.zeros((3, 2)), groups=["x", "y", "x"]))
    (tmp_path / "sites.txt").write_text("007\n7\n007\n")
    np.save(tmp_path / "sites.npy", [4, 5, 4])
    assert list(load(tmp_path / "val.npz", groups=tmp_path / "sites.txt").groups) == ["007", "7", "007"]
    assert list(ts.open(tmp_path / "val.npz", groups=tmp_path / "sites.txt").groups) == ["007", "7", "007"]
    assert list(load(tmp_path / "val.npz", groups=str(tmp_path / "sites.npy")).groups) == ["4", "5", "4"]
    assert read_values(tmp_path / "val.npz", tmp_path / "sites.txt").tolist() == ["007", "7", "007"]


def test_a_folder_can_name_the_group(tmp_path):
    for site in ("b", "a"):
        (tmp_path / f"groups={site}").mkdir()
        save(tmp_path / f"groups={site}" / "part.npz", Logits(np.full((2, 2), float(ord(site)))))
    assert list(ts.open(tmp_path).groups) == ["a", "a", "b", "b"]
    assert list(load(tmp_path / "groups=b" / "part.npz").groups) == ["b", "b"]
    assert blocks_of(tmp_path / "groups=a" / "part.npz") == ["a", "a"]
    assert read_values(tmp_path, "groups").tolist() == ["a", "a", "b", "b"]


@pytest.mark.parametrize("group", [["a", 3, "a"], [1, 2, 1], [3, 3.0, 3]])
def test_json_has_names_and_numbers(tmp_path, group):
    path = tmp_path / "val.jsonl"
    rows = [{"logits": [0.5, float(i)], "groups": one} for i, one in enumerate(group)]
    path.write_text("\n".join(map(json.dumps, rows)))
    wanted = list(read_groups(group, 3))
    assert list(load(path).groups) == wanted
    assert blocks_of(path, rows=2) == wanted
    assert list(ts.open(path, groups="groups").groups) == wanted


def test_lists_in_csv_cells(tmp_path):
    path = tmp_path / "val.csv"
    path.write_text('groups,logits\nn,"[0.5, 1.0]"\ns,"[2.0, 0.5]"\n')
    assert list(load(path).groups) == ["n", "s"]
    assert blocks_of(path, rows=1) == ["n", "s"]


def test_tensors_hold_numbers_or_places_in_a_list(tmp_path):
    library = require("safetensors.numpy", "io")
    logits, site = np.zeros((3, 2), np.float32), np.array([2, 0, 2])
    library.save_file({"logits": logits, "site": site}, tmp_path / "numbers.safetensors")
    assert list(load(tmp_path / "numbers.safetensors", groups="site").groups) == ["2", "0", "2"]
    names = {"site": '["x", "y", "z"]'}
    library.save_file({"logits": logits, "site": site}, tmp_path / "names.safetensors", names)
    assert list(load(tmp_path / "names.safetensors", groups="site").groups) == ["z", "x", "z"]
    assert read_values(tmp_path / "names.safetensors", "site").tolist() == ["z", "x", "z"]
    library.save_file({"logits": logits, "site": site}, tmp_path / "short.safetensors", {"site": '["x", "y"]'})
    with pytest.raises(
        FileFormatError, match=r"short.safetensors: tensor 'site' names places outside of its list of 2"
    ):
        load(tmp_path / "short.safetensors", groups="site")


# -- many shards ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_odd_sized_shards(tmp_path, form):
    for kind, part in PARTS.items():
        if kind[1:] in form or "kinds" in form:
            require(*part)
    groups = [f"g{i % 13}" for i in range(2000)]  # no shard of a few rows has all of them
    rows = stored(form, Logits(RNG.normal(size=(2000, 3)), RNG.integers(0, 3, 2000), groups=groups), tmp_path)
    assert list(rows.groups) == groups
    some, others = rows.split(0.3)
    assert sorted([*some.groups, *others.groups]) == sorted(groups)
    assert some.groups.names == rows.groups.names  # also of groups that a piece has no row of


def test_all_shards_have_groups_or_none(tmp_path, suffix):
    for i, groups in enumerate((["a", "b"], None, ["b", "b"])):
        save(tmp_path / f"part-{i}{suffix}", Logits(RNG.normal(size=(2, 2)), groups=groups))
    with pytest.raises(InputError, match=rf"part-1{suffix}: has no groups, unlike .*part-0{suffix}"):
        ts.open(tmp_path)


def test_values_of_many_shards(tmp_path):
    for i in range(3):
        np.savez(tmp_path / f"part-{i}.npz", logits=np.full((2, 2), float(i)), patient=[10 * i, 0.5])
    assert read_values(tmp_path, "patient").tolist() == [0, 0.5, 10, 0.5, 20, 0.5]
    np.savez(tmp_path / "part-3.npz", logits=np.full((2, 2), 9.0), patient=["x", "y"])
    with pytest.raises(InputError, match=r"part-3.npz: 'patient' is text in some"):
        read_values(tmp_path, "patient")


# -- bad input -----------------------------------------------------------------------------------------------------


def write(path, groups, n_rows=3):
    """Groups as they come, in npz."""
    np.savez(path, logits=np.zeros((n_rows, 2)), groups=groups)
    return path


BAD = {
    "of another length": (np.arange(4), "'groups' must hold one value"),
    "not one for each row": (np.zeros((3, 1), int), "'groups' must hold one value"),
    "floats": (np.array([1.0, 0.25, 2.0]), r"groups\[1\] is 0.25; a group must be a name or a whole number"),
    "missing numbers": (np.array([1.0, np.nan, 2.0]), r"groups\[1\] is missing \(nan\)"),
    "blank names": (np.array(["a", " ", "b"]), r"groups\[1\] is missing \(' '\)"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_groups_are_refused_by_name(tmp_path, bad):
    groups, said = BAD[bad]
    path = write(tmp_path / "val.npz", groups)
    for read in (load, ts.open, blocks_of):
        with pytest.raises(InputError, match=rf"val.npz: {said}") as caught:
            read(path)
        assert str(caught.value).isprintable()


def test_rows_of_a_file_are_counted_in_blocks(tmp_path):
    path = tmp_path / "val.jsonl"
    rows = [{"logits": [0.5, 1.0], "groups": 0.5 if i == 7 else 1} for i in range(9)]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=r"val.jsonl: groups\[7\] is 0.5; .*"):
        blocks_of(path, rows=3)


def test_a_column_that_is_not_there(tmp_path, suffix):
    path = tmp_path / f"val{suffix}"
    save(path, Logits(np.zeros((3, 2)), classes=("cat", "dog")))
    for read in (load, ts.open, blocks_of):
        with pytest.raises(FileFormatError, match=rf"val{suffix}: there is no .*city"):
            read(path, groups="city")
    with pytest.raises(FileFormatError, match=rf"val{suffix}: there is no .*city"):
        read_values(path, "city")


@pytest.mark.parametrize(("cell", "line"), [("", 3), ("  ", 3)])
def test_an_empty_cell_is_named_by_its_line(tmp_path, cell, line):
    path = tmp_path / "val.csv"
    path.write_text(f"groups,cat,dog\nn,0.5,1.0\n{cell},0.5,1.0\n")
    with pytest.raises(InputError, match=rf"groups\[1\] is missing.*line {line}\."):
        load(path)
    with pytest.raises(InputError, match=rf"groups\[1\] is missing.*line {line}\."):
        blocks_of(path)


def test_records_have_groups_or_none(tmp_path):
    path = tmp_path / "val.jsonl"
    path.write_text('{"logits": [1.0, 2.0], "groups": "a"}\n{"logits": [1.0, 2.0], "groups": null}\n')
    for read in (load, blocks_of):
        with pytest.raises(InputError) as caught:
            read(path)
        assert (caught.value.row, caught.value.name) == (1, "groups")


def test_missing_values_of_a_table(tmp_path):
    arrow = require("pyarrow", "io")
    table = arrow.table({"logits": [[0.5, 1.0], [1.0, 2.0]], "groups": ["a", None]})
    require("pyarrow.parquet", "io").write_table(table, tmp_path / "val.parquet")
    with pytest.raises(InputError, match=r"groups\[1\] is missing"):
        load(tmp_path / "val.parquet")
    with pytest.raises(InputError, match=r"val.parquet: groups\[1\] is missing"):
        blocks_of(tmp_path / "val.parquet")
    table = arrow.table({"logits": [[0.5, 1.0], [1.0, 2.0]], "groups": [["a"], ["b"]]})
    require("pyarrow.parquet", "io").write_table(table, tmp_path / "val.parquet")
    with pytest.raises(FileFormatError, match="'groups' must hold one value"):
        load(tmp_path / "val.parquet")


def test_what_names_no_columns(tmp_path):
    save(tmp_path / "val.npz", Logits(np.zeros((2, 2))))
    for read in (load, ts.open):
        with pytest.raises(InputError, match="ignore must be a list of names of columns; got 'patient'"):
            read(tmp_path / "val.npz", ignore="patient")
    with pytest.raises(InputError, match="groups must be the name of a column"):
        blocks_of(tmp_path / "val.npz", groups="sites.txt")


def test_a_class_called_groups_is_not_written_to_csv(tmp_path):
    with pytest.raises(InputError, match="csv cannot hold these class names"):
        save(tmp_path / "val.csv", Logits(np.zeros((2, 2)), classes=["people", "groups"]))
