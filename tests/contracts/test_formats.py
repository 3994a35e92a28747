"""What every format must be, collected from the registry: one answer, whatever form the rows have."""

import gzip
import json
import os
import pickle
import signal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import thermoset as ts
from helpers_io import PARTS, Bomb, npy_bytes, pickled_bomb, write_zip
from helpers_shards import NAMES, VAL, VARIANTS, C, N
from parts import require
from thermoset.data import Logits, checked_logits
from thermoset.errors import FileFormatError, InputError, MissingExtraError
from thermoset.io import FORMATS, READABLE, SUFFIXES, load, open_blocks, read_values, save
from thermoset.io.files import suffix_of
from tiers import cases

RNG = np.random.default_rng(7)
FILES = [name for name, variant in VARIANTS.items() if variant.suffix != ".zarr"]
PIECES = [(0, N), (0, 1), (N - 1, N), (17, 60), (60, 61), (5, 17), (99, N), (0, 40), (40, 80), (80, N), (33, 34)]


def need(suffix):
    if suffix in PARTS:
        require(*PARTS[suffix])


def write(name, folder):
    suffix, make = VARIANTS[name]
    need(suffix)
    path = folder / f"val{suffix}"
    make(path)
    return path


@pytest.fixture(params=VARIANTS)
def written(request, tmp_path):
    """The path of VAL, written in one of many ways."""
    return write(request.param, tmp_path)


@pytest.fixture(params=SUFFIXES)
def suffix(request):
    need(request.param)
    return request.param


def read_blocks(path, **options):
    with open_blocks(path, **options) as blocks:
        return list(blocks)


def read_open(path, **options):
    return ts.open(path, **options).load()


def outcome(read, path, **options):
    """What comes of reading a file: rows, or an input error."""
    try:
        return read(path, **options)
    except InputError as error:
        return error


WAYS = {"load": load, "open": read_open, "blocks": read_blocks}


@pytest.fixture(params=WAYS)
def read(request):
    return WAYS[request.param]


def test_every_ending_is_tried():
    assert {variant.suffix for variant in VARIANTS.values()} == set(READABLE)
    assert set(FORMATS) <= set(READABLE)


# -- the same rows -----------------------------------------------------------------------------------------------------


def test_load_gives_the_rows(written):
    found = load(written)
    assert np.array_equal(found.logits, VAL.logits)
    assert np.array_equal(found.labels, VAL.labels)
    if not written.name.endswith((".json", ".jsonl")) and "[" not in str(found.classes):
        assert found.classes in (NAMES, None)


def test_pieces_and_blocks_are_the_bits_of_load(written):
    whole, opened = load(written), ts.open(written)
    (shard,) = opened.shards
    assert (opened.dtype, opened.classes, opened.labels.tolist()) == (whole.dtype, whole.classes, whole.labels.tolist())
    for start, stop in PIECES:
        piece = shard.read(start, stop)
        assert piece.flags.c_contiguous
        assert piece.tobytes() == whole.logits[start:stop].tobytes()
    for step in (1, 7, 64):
        pieces = [shard.read(start, min(start + step, N)) for start in range(0, N, step)]
        assert np.concatenate(pieces).tobytes() == whole.logits.tobytes()
    for block_bytes in (1, 999, 10**6):
        blocks = read_blocks(written, block_bytes=block_bytes)
        assert np.concatenate([block.logits for block in blocks]).tobytes() == whole.logits.tobytes()
        assert {block.classes for block in blocks} == {whole.classes}
        assert all(len(block) == max(1, block_bytes // (8 * C)) for block in blocks[:-1])


def test_threads_may_share_a_shard(written):
    whole, (shard,) = load(written).logits, ts.open(written).shards
    starts = [int(start) for start in RNG.integers(0, N - 9, 40)]
    with ThreadPoolExecutor(4) as pool:
        pieces = list(pool.map(lambda start: shard.read(start, start + 9), starts))
    for start, piece in zip(starts, pieces, strict=True):
        assert piece.tobytes() == whole[start : start + 9].tobytes()


READ_PICKLED = """
import pickle, sys
for shard in pickle.load(sys.stdin.buffer):
    sys.stdout.buffer.write(shard.read(10, 50).tobytes())
"""


@pytest.mark.slow
def test_pickled_shards_are_read_in_another_process(tmp_path):
    shards, expected = [], b""
    for name, (suffix, make) in VARIANTS.items():
        if suffix not in PARTS or find_spec(PARTS[suffix][0]) is not None:
            path = tmp_path / f"{name}{suffix}"
            make(path)
            shards += ts.open(path).shards
            shards[-1].read(10, 20)  # what is held open is not pickled
            expected += load(path).logits[10:50].tobytes()
    packed = pickle.dumps(shards)
    assert len(packed) < 5_000 * len(shards)
    out = subprocess.run([sys.executable, "-c", READ_PICKLED], input=packed, capture_output=True, check=True).stdout
    assert out == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("named", [False, True])
def test_what_is_saved_is_loaded(tmp_path, suffix, dtype, named):
    rows = RNG.normal(size=(9, 3)).astype(dtype)
    rows[2, 1] = -np.inf
    sites = ["north", "östlich, Süd", "north"] * 3
    val = Logits(rows, RNG.integers(0, 3, 9), ['a "b"', "c, d", "é"] if named else None, sites if named else None)
    save(tmp_path / f"VAL{suffix.upper()}", val)
    found = load(str(tmp_path / f"VAL{suffix.upper()}"))
    assert found.labels.tolist() == val.labels.tolist()
    assert found.classes == val.classes
    assert found.groups == val.groups
    assert np.array_equal(found.logits, val.logits)
    assert found.dtype == (np.float64 if suffix == ".csv" else dtype)
    written = {path.name for path in tmp_path.iterdir()}
    assert len(written) == (2 + 2 * named if suffix == ".npy" else 1)


def test_groups_and_ids_come_with_the_blocks(tmp_path, suffix):
    path = tmp_path / f"val{suffix}"
    save(path, Logits(VAL.logits, groups=[f"site {i % 3}" for i in range(N)]))
    sites = load(path).groups
    assert ts.open(path).groups == sites
    with open_blocks(path, block_bytes=999, id_column="groups", groups="groups") as blocks:
        found = [(block.groups, ids) for block, ids in blocks.with_ids()]
    assert [one for _, ids in found for one in ids] == [one for groups, _ in found for one in groups] == list(sites)
    assert read_values(path, "groups").tolist() == list(sites)


def test_probabilities_become_logarithms(tmp_path, suffix, read):
    probs = RNG.dirichlet(np.ones(3), 20).astype(np.float32)
    save(tmp_path / f"val{suffix}", checked_logits(probs))
    found = read(tmp_path / f"val{suffix}", probabilities=True)
    rows = np.concatenate([block.logits for block in found]) if isinstance(found, list) else found.logits
    assert np.array_equal(rows, Logits.from_probabilities(probs.astype(float) if suffix == ".csv" else probs).logits)


# -- bad rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_number_is_named_by_its_row(tmp_path, suffix, read, bad, monkeypatch):
    rows = VAL.logits.copy()
    rows[71, 2] = bad
    monkeypatch.setattr("thermoset.data.logits.check_logits", lambda _: None)
    save(tmp_path / f"val{suffix}", Logits(rows))
    monkeypatch.undo()
    with pytest.raises(InputError) as caught:
        read(tmp_path / f"val{suffix}")
    assert caught.value.row == 71
    assert caught.value.name == "logits"
    assert "logits[71, 2]" in str(caught.value)


def test_a_file_without_rows_has_no_blocks(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"val{suffix}"
    save(path, Logits.from_checked(np.empty((0, C)), np.empty(0, np.int64), VAL.classes))
    assert read_blocks(path) == []
    for way in (load, ts.open):
        with pytest.raises(FileFormatError, match="no rows"):
            way(path)


def test_other_classes_than_labels_name(tmp_path, suffix):
    path = tmp_path / f"val{suffix}"
    labels = VAL.labels.copy()
    labels[5] = C
    save(path, VAL.labelled(labels.clip(max=C - 1)))
    assert load(path).labels[5] == C - 1
    np.save(tmp_path / "gold.npy", labels)
    for way in (load, ts.open):
        with pytest.raises(InputError) as caught:
            way(path, labels=tmp_path / "gold.npy")
        assert (caught.value.row, caught.value.name) == (5, "labels")


# -- bad files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_is_one_line(tmp_path, name, read):
    written = write(name, tmp_path)
    content = written.read_bytes()
    lengths = {0, 1, 5, 9, 20, len(content) // 3, len(content) // 2, len(content) * 9 // 10, len(content) - 3}
    for length in sorted(lengths):
        written.write_bytes(content[:length])
        found = outcome(read, written)
        if isinstance(found, InputError):
            assert str(found).startswith(str(written))
            assert str(found).isprintable()
        else:  # text may end early and still be a table, of fewer rows
            assert suffix_of(written) in (".csv", ".tsv", ".jsonl")
            assert (sum(map(len, found)) if isinstance(found, list) else len(found)) <= N


@pytest.mark.filterwarnings("ignore")  # torch and zipfile may warn about what they see; what counts is how it ends
@pytest.mark.parametrize("name", [name for name in FILES if "h5" not in name and "hdf5" not in name])
def test_damaged_bytes_give_rows_or_an_input_error(tmp_path, name):  # libhdf5 promises nothing about damage
    path = write(name, tmp_path)
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    draw = np.random.default_rng(5)
    for _ in range(cases(40)):
        damaged = content.copy()
        damaged[draw.integers(0, len(content), 4)] = draw.choice([0, 1, 0x7F, 0x80, 0xFF], 4)
        path.write_bytes(damaged.tobytes())
        for read in (load, read_blocks):
            assert str(outcome(read, path, max_bytes=10**6)).isprintable()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", [one for one in READABLE if one != ".zarr"])
def test_foreign_and_empty_files_are_refused(tmp_path, suffix, read):
    need(suffix)
    mark = tmp_path / "executed"
    path = tmp_path / f"val{suffix}"
    for content in (b"", b"\x00" * 64, os.urandom(300), pickled_bomb(mark), gzip.compress(pickled_bomb(mark))):
        path.write_bytes(content)
        with pytest.raises(FileFormatError) as caught:
            read(path)
        assert str(caught.value).startswith(str(path))
    assert not mark.exists()
    with pytest.raises(InputError):
        read(tmp_path / f"none{suffix}")


def test_pickles_inside_are_never_executed(tmp_path):
    mark = tmp_path / "executed"
    objects = npy_bytes(np.array([Bomb(mark), Bomb(mark)], dtype=object), pickled=True)
    (tmp_path / "val.npy").write_bytes(objects)
    write_zip(tmp_path / "val.npz", {"logits.npy": objects, "labels.npy": objects})
    write_zip(tmp_path / "val.pt", {"archive/data.pkl": pickled_bomb(mark), "archive/version": b"3\n"})
    for path in ("val.npy", "val.npz", "val.pt"):
        need(path[3:])
        for way in WAYS.values():
            with pytest.raises(FileFormatError):
                way(tmp_path / path)
    assert not mark.exists()


def test_zarr_codecs_that_run_code_are_refused(tmp_path):
    library = require("zarr", "zarr")
    group = library.open_group(str(tmp_path / "val.zarr"), mode="w", zarr_format=2)
    group.create_array("logits", data=VAL.logits)
    metadata = tmp_path / "val.zarr" / "logits" / ".zarray"
    good = metadata.read_text()
    for codec in ("pickle", "json2", "msgpack2"):
        metadata.write_text(good.replace('"filters": null', f'"filters": [{{"id": "{codec}"}}]'))
        with pytest.raises(FileFormatError, match=codec):
            load(tmp_path / "val.zarr")
    metadata.write_text(good.replace('"<f4"', '"|O"'))
    with pytest.raises(FileFormatError):
        load(tmp_path / "val.zarr")
    path = write("zarr-sharded", tmp_path)
    metadata = path / "logits" / "zarr.json"
    metadata.write_text(metadata.read_text().replace('"name": "zstd"', '"name": "numcodecs.pickle"'))
    with pytest.raises(FileFormatError, match="pickle"):
        load(path)


@pytest.mark.parametrize("name", ["zarr-2", "zarr-gzip", "saved.zarr"])
def test_zarr_chunks_that_are_missing_or_cut(tmp_path, name):
    path = write(name, tmp_path)
    chunk = path / "logits" / ("c/0/0" if name != "zarr-2" else "0.0")
    content = chunk.read_bytes()
    for damaged in (content[: len(content) // 2], None):
        chunk.unlink() if damaged is None else chunk.write_bytes(damaged)
        with pytest.raises(FileFormatError):
            load(path)


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("zarr.json", {"attributes": [7]}),
        ("labels/zarr.json", {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0]}}}),
    ],
)
def test_zarr_metadata_that_make_no_sense_are_refused(tmp_path, place, change):
    require("zarr", "zarr")
    save(tmp_path / "val.zarr", VAL)
    metadata = tmp_path / "val.zarr" / place
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | change))
    for read in (load, read_open):
        with pytest.raises(FileFormatError):
            read(tmp_path / "val.zarr")


def test_a_zarr_chunk_that_declares_a_negative_size_is_refused(tmp_path, read):
    chunk = write("zarr-2", tmp_path) / "logits" / "0.0"
    content = bytearray(chunk.read_bytes())
    content[4:8] = b"\xff\xff\xff\xff"  # of Blosc: the bytes that it unpacks to
    chunk.write_bytes(content)
    with pytest.raises(FileFormatError):
        read(tmp_path / "val.zarr")


def test_a_torch_archive_whose_pickle_is_cut_is_refused(tmp_path, read):
    require("torch", "torch")
    save(tmp_path / "val.pt", VAL)
    with zipfile.ZipFile(tmp_path / "val.pt") as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    for content in (b"\x80\x02a.", b"\x80\x02J\x01"):  # appends to nothing; a number that is cut
        name = next(name for name in members if name.endswith("data.pkl"))
        write_zip(tmp_path / "val.pt", members | {name: content})
        with pytest.raises(FileFormatError, match="torch archive"):
            read(tmp_path / "val.pt")


@pytest.mark.parametrize("what", ["labels", "groups", "ids"])
def test_a_single_value_is_no_column(tmp_path, read, what):
    np.savez(tmp_path / "val.npz", logits=VAL.logits, **{what: np.array(3)})
    if read is read_blocks and what == "labels":
        return  # which are not read there
    with pytest.raises(FileFormatError):
        read(tmp_path / "val.npz", **({"id_column": "ids"} if what == "ids" else {}))


@pytest.mark.parametrize("what", ["log_sum_exp", "labels", "top_logits"])
def test_a_single_value_is_no_column_of_largest_logits(tmp_path, what):
    top = {"top_indices": [[0, 1, 2, 3]], "top_logits": [[2.0, 1.0, 0.5, 0.0]], "n_classes": 6}
    top |= {"log_sum_exp": [np.log(np.exp(top["top_logits"]).sum() + 1)], "labels": [0]}
    np.savez(tmp_path / "val.npz", **top)
    assert load(tmp_path / "val.npz").labels.tolist() == [0]
    np.savez(tmp_path / "val.npz", **(top | {what: np.array(3)}))
    with pytest.raises(FileFormatError):
        load(tmp_path / "val.npz")


def test_hdf5_reads_nothing_of_other_files(tmp_path):
    library = require("h5py", "hdf5")
    save(tmp_path / "good.h5", VAL)
    path = tmp_path / "val.h5"

    def outside(file):
        file["logits"] = library.ExternalLink(str(tmp_path / "good.h5"), "logits")

    def through(file):
        file["other"] = library.ExternalLink(str(tmp_path / "good.h5"), "/")
        file["logits"] = library.SoftLink("/other/logits")

    def external(file):
        file.create_dataset("logits", (N, C), "f4", external=[(str(tmp_path / "raw"), 0, N * C * 4)])

    def never_written(file):
        file.create_dataset("logits", (N, C), "f4", chunks=(10, 5))[:50] = VAL.logits[:50]

    for make in (outside, through, external, never_written):
        with library.File(path, "w") as file:
            make(file)
        with pytest.raises(FileFormatError, match="logits"):
            load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_folders_are_refused(tmp_path, suffix, read):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    with pytest.raises(InputError):
        read(tmp_path / f"pipe{suffix}")
    if suffix != ".zarr":
        with pytest.raises(InputError):
            load(tmp_path)


def test_sizes_are_compared_with_the_limit(written, read):
    with pytest.raises(FileFormatError, match="max_bytes"):
        read(written, max_bytes=10)


@pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_of_npz_are_refused(tmp_path, compression, read):
    write_zip(tmp_path / "val.npz", {"logits.npy": npy_bytes(VAL.logits)}, compression)
    with pytest.raises(FileFormatError):
        read(tmp_path / "val.npz")


@pytest.mark.parametrize(("name", "out"), [("val.xlsx", "csv"), ("val.pkl", "npz"), ("val.json.gz", "Unpack")])
def test_kinds_that_are_not_read_name_a_way_out(tmp_path, name, out, read):
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(InputError, match=out):
        read(tmp_path / name)


@pytest.mark.parametrize("name", [one for one in VARIANTS if VARIANTS[one].suffix in PARTS])
def test_missing_parts_are_named(tmp_path, monkeypatch, name, read):
    path = write(name, tmp_path)
    module, _ = PARTS[path.suffix]
    for loaded in [one for one in sys.modules if one.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"needs {module}"):
        read(path)


def test_a_file_written_to_after_it_was_opened(written):
    rows = ts.open(written)
    rows.head(5)
    part = written / "zarr.json" if written.is_dir() else written
    part = part if part.exists() else written / ".zgroup"
    os.utime(part, ns=(1, 1))
    with pytest.raises(InputError, match="Open it again"):
        rows.head(5)


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_failed_save_leaves_things_as_they_were(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"val{suffix}"
    save(path, VAL)
    before = sorted(one.name for one in tmp_path.rglob("*"))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        save(path, VAL.take(slice(0, 3)).labelled(VAL.labels[:3]))
    monkeypatch.undo()
    assert sorted(one.name for one in tmp_path.rglob("*")) == before
    assert len(load(path)) == N


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_save_leaves_no_partial_file(tmp_path):
    code = f"""
import os, signal, numpy as np, thermoset as ts
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
ts.save({str(tmp_path / "val.npz")!r}, ts.Logits(np.eye(3)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "val.npz").exists()


def test_odd_targets_are_refused_and_links_written_through(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "link.npz").symlink_to(tmp_path / "other" / "val.npz")
    save(tmp_path / "link.npz", VAL)
    assert (tmp_path / "link.npz").is_symlink()
    assert load(tmp_path / "other" / "val.npz") == VAL
    for name in ("other", "other/none/val.npz", "val.xyz", "val.tsv", "val.jsonl"):
        with pytest.raises(InputError):
            save(tmp_path / name, VAL)
    with pytest.raises(InputError):
        save(Path("/dev/null"), VAL)
    with pytest.raises(InputError):
        save(tmp_path / "val.npz", VAL.logits)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.npz", "other"]


def test_zarr_replaces_zarr_and_nothing_else(tmp_path):
    require("zarr", "zarr")
    save(tmp_path / "val.zarr", VAL)
    save(tmp_path / "val.zarr", VAL.take(slice(0, 3)))
    assert load(tmp_path / "val.zarr") == VAL.take(slice(0, 3))
    (tmp_path / "own.zarr").mkdir()
    (tmp_path / "own.zarr" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError):
        save(tmp_path / "own.zarr", VAL)
    assert sorted(path.name for path in tmp_path.rglob("*.txt")) == ["thesis.txt"]


def test_npy_does_not_adopt_stale_siblings(tmp_path):
    save(tmp_path / "val_logits.npy", VAL)
    with pytest.raises(InputError, match=r"val_labels\.npy"):
        save(tmp_path / "val_logits.npy", Logits(VAL.logits))
    assert load(tmp_path / "val_logits.npy") == VAL
