"""Shards: the rows of every format from any row on, bit for bit those that `load` gives, in any process."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from helpers_io import PARTS, npy_header
from helpers_shards import NAMES, RNG, VAL, VARIANTS, C, N, opened, write_array
from parts import require
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.io import READABLE, load, save
from thermoset.io.shards import STORED

PIECES = [(0, N), (0, 1), (N - 1, N), (17, 60), (60, 61), (5, 17), (99, N), (0, 40), (40, 80), (80, N), (33, 34)]


@pytest.fixture(params=VARIANTS)
def written(request, tmp_path):
    """The path of VAL, written in one of many ways."""
    suffix, write = VARIANTS[request.param]
    if suffix in PARTS:
        require(*PARTS[suffix])
    path = tmp_path / f"val{suffix}"
    write(path)
    return path


def test_every_readable_ending_has_shards():
    assert set(STORED) == set(READABLE)
    assert {variant.suffix for variant in VARIANTS.values()} | {".json", ".jsonl"} == set(READABLE)


def test_pieces_are_the_bits_that_load_gives(written):
    whole, shard = load(written), opened(written)
    assert (shard.n_rows, shard.n_classes, shard.dtype) == (*whole.logits.shape, whole.logits.dtype)
    assert shard.classes == whole.classes == NAMES
    assert shard.has_labels
    assert np.array_equal(shard.labels(), VAL.labels)
    assert shard.labels().dtype == np.int64
    for start, stop in PIECES:
        piece = shard.read(start, stop)
        assert piece.flags.c_contiguous
        assert piece.dtype == shard.dtype
        assert piece.tobytes() == whole.logits[start:stop].tobytes()
    for step in (1, 7, 20, 64):
        pieces = [shard.read(start, min(start + step, N)) for start in range(0, N, step)]
        assert np.concatenate(pieces).tobytes() == whole.logits.tobytes()
    assert np.array_equal(whole.logits, VAL.logits)


def test_shards_know_their_names(written):
    several = {".npz", ".zarr", ".h5", ".hdf5", ".safetensors"}
    bare = written.suffix == ".zarr" and not (written / "logits").exists()
    assert opened(written).name == f"{written}[logits]" if written.suffix in several and not bare else str(written)


READ_PICKLED = """
import pickle, sys
for shard in pickle.load(sys.stdin.buffer):
    sys.stdout.buffer.write(shard.read(10, 50).tobytes() + shard.labels().tobytes())
"""


@pytest.mark.slow
def test_pickled_shards_are_read_in_another_process(tmp_path):
    shards, expected = [], b""
    for name, (suffix, write) in VARIANTS.items():
        if suffix not in PARTS or find_spec(PARTS[suffix][0]) is not None:
            path = tmp_path / f"{name}{suffix}"
            write(path)
            shards.append(opened(path))
            shards[-1].read(10, 20)  # what is held open is not pickled
            expected += load(path).logits[10:50].tobytes() + VAL.labels.tobytes()
    packed = pickle.dumps(shards)
    assert len(packed) < 5_000 * len(shards)
    out = subprocess.run([sys.executable, "-c", READ_PICKLED], input=packed, capture_output=True, check=True).stdout
    assert out == expected


def test_what_is_held_open_is_closed_in_silence(tmp_path):
    np.savez_compressed(tmp_path / "val.npz", logits=VAL.logits)
    code = f"""
from pathlib import Path
from thermoset.io.files import Request
from thermoset.io.shards import open_shard
open_shard(Path({str(tmp_path / "val.npz")!r}), Request(False, 1 << 30, True)).read(0, 10)
"""
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", code]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


def test_threads_may_share_a_shard(written):
    whole, shard = load(written).logits, opened(written)
    starts = [int(start) for start in RNG.integers(0, N - 9, 60)]
    with ThreadPoolExecutor(4) as pool:
        pieces = list(pool.map(lambda start: shard.read(start, start + 9), starts))
    assert all(
        piece.tobytes() == whole[start : start + 9].tobytes() for start, piece in zip(starts, pieces, strict=True)
    )


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".arrow", ".zarr", ".h5", ".safetensors"])
def test_types_are_those_of_load(tmp_path, suffix, dtype):
    if suffix in PARTS:
        require(*PARTS[suffix])
    array = RNG.integers(-9, 9, (20, 3)).astype(dtype)
    path = tmp_path / f"val{suffix}"
    write_array(path, "logits", array)
    whole, shard = load(path), opened(path)
    assert shard.dtype == whole.logits.dtype
    assert shard.read(3, 17).tobytes() == whole.logits[3:17].tobytes()
    assert not shard.has_labels
    assert shard.labels() is None
    assert shard.classes is None


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".arrow", ".zarr", ".h5", ".safetensors", ".jsonl"])
def test_probabilities_become_logarithms(tmp_path, suffix):
    if suffix in PARTS:
        require(*PARTS[suffix])
    array = RNG.dirichlet(np.ones(3), 20).astype(np.float32)
    path = tmp_path / f"val{suffix}"
    write_array(path, "probs", array)
    whole, shard = load(path, probabilities=True), opened(path, probabilities=True)
    assert shard.dtype == whole.logits.dtype == np.float64
    assert shard.read(3, 17).tobytes() == whole.logits[3:17].tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
def test_probabilities_of_what_is_decoded_whole_are_taken_once(tmp_path, order):
    array = np.asarray(RNG.dirichlet(np.ones(3), 20), order=order)
    path = tmp_path / "val.npz"
    np.savez_compressed(path, probs=array)
    shard = opened(path, probabilities=True)
    assert shard.read(3, 17).tobytes() == load(path, probabilities=True).logits[3:17].tobytes()


def test_bfloat16_is_widened(tmp_path):
    torch, safe = require("torch", "torch"), require("safetensors.torch", "io")
    tensor = torch.tensor(VAL.logits).bfloat16()
    safe.save_file({"logits": tensor}, tmp_path / "val.safetensors")
    shard = opened(tmp_path / "val.safetensors")
    assert shard.dtype == np.float32
    assert shard.read(7, 90).tobytes() == tensor.float().numpy()[7:90].tobytes()


# -- what is wrong with rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".arrow", ".zarr", ".h5", ".safetensors"])
@pytest.mark.parametrize(("bad", "said"), [(np.nan, "NaN"), (np.inf, r"\+inf")])
def test_a_bad_number_is_named_by_its_row_in_the_file(tmp_path, suffix, bad, said):
    if suffix in PARTS:
        require(*PARTS[suffix])
    array = np.array(VAL.logits)
    array[77, 3] = bad
    path = tmp_path / f"val{suffix}"
    write_array(path, "logits", array)
    shard = opened(path)
    assert shard.read(0, 77).shape == (77, C)
    with pytest.raises(InputError, match=rf"{path.name}: logits\[77, 3\] is {said}"):
        shard.read(60, 90)


def test_rows_that_are_not_there_are_refused(tmp_path):
    save(tmp_path / "val.npy", VAL)
    shard = opened(tmp_path / "val.npy")
    for start, stop in ((-1, 3), (3, 3), (5, 4), (0, N + 1), (N, N + 1)):
        with pytest.raises(InputError, match=f"val.npy: has rows 0 to {N}; asked for {start} to {stop}"):
            shard.read(start, stop)


def test_a_file_that_is_written_to_after_it_was_opened(written):
    shard = opened(written)
    shard.read(0, 5)
    target = (
        written
        if written.is_file()
        else next(p for p in sorted(written.rglob("*")) if p.name in ("zarr.json", ".zarray"))
    )
    found = target.stat()
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns + 10**9))
    for use in (lambda: shard.read(5, 9), shard.labels):
        with pytest.raises(InputError, match=f"val{written.suffix}: was written to after it was opened. Open it again"):
            use()
    assert opened(written).read(5, 9).tobytes() == load(written).logits[5:9].tobytes()


def test_a_file_that_is_replaced_is_not_read_from_what_was_held_of_the_old_one(tmp_path):
    path = tmp_path / "val.npz"
    np.savez_compressed(path, logits=VAL.logits)
    old = opened(path)
    old.read(0, 10)
    np.savez_compressed(tmp_path / "new.npz", logits=VAL.logits + 1)
    found = path.stat()
    (tmp_path / "new.npz").replace(path)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert np.array_equal(opened(path).read(10, 20), VAL.logits[10:20] + 1)


def test_a_file_that_is_gone(tmp_path):
    save(tmp_path / "val.npy", VAL)
    shard = opened(tmp_path / "val.npy")
    (tmp_path / "val.npy").unlink()
    with pytest.raises(InputError, match=r"val.npy: cannot be read \(No such file"):
        shard.read(0, 1)


# -- only what is wanted is read -----------------------------------------------------------------------------------

HUGE = (10**8, 1000)  # 400 GB, of which a sparse file keeps the header and one row
ROW = 87_654_321


def sparse(path, header, size=None):
    """A file of zeros with one row of ones."""
    n_bytes = 4 * HUGE[0] * HUGE[1]
    with path.open("wb") as stream:
        stream.write(header)
        start = stream.tell()
        stream.seek(start + ROW * 4 * HUGE[1])
        stream.write(np.ones(HUGE[1], dtype=np.float32).tobytes())
        stream.truncate(start + n_bytes)
    return path


def bytes_read():
    found = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(found["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs /proc")
@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_a_row_of_a_huge_file_costs_a_row(tmp_path, kind):
    if kind == "npy":
        path = sparse(tmp_path / "val.npy", npy_header(HUGE))
    else:
        require("safetensors", "io")
        text = b'{"logits":{"dtype":"F32","shape":[100000000,1000],"data_offsets":[0,400000000000]}}'
        path = sparse(tmp_path / "val.safetensors", len(text).to_bytes(8, "little") + text)
    before = bytes_read()
    shard = opened(path)
    assert (shard.n_rows, shard.n_classes) == HUGE
    assert shard.read(ROW, ROW + 1).sum() == HUGE[1]
    assert shard.read(ROW - 1, ROW + 2).sum() == HUGE[1]
    assert bytes_read() - before < 10**6


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs /proc")
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".arrow", ".h5", ".zarr", ".parquet"])
def test_opening_and_scattered_rows_do_not_read_the_file(tmp_path, suffix):
    if suffix in PARTS:
        require(*PARTS[suffix])
    wide = Logits(RNG.normal(size=(40_000, 250)).astype(np.float32), RNG.integers(0, 250, 40_000))  # 40 MB
    path = tmp_path / f"val{suffix}"
    save(path, wide)
    opened(path).labels()  # libraries are loaded now
    before = bytes_read()
    shard = opened(path)
    assert np.array_equal(shard.labels(), wide.labels)
    assert bytes_read() - before < 2 * 10**6
    chunked = suffix in (".zarr", ".parquet")  # a chunk, a row group: of 16 MB
    before = bytes_read()
    for row in (39_990, 20_000, 5) if not chunked else (5,):
        assert shard.read(row, row + 2).tobytes() == wide.logits[row : row + 2].tobytes()
    assert bytes_read() - before < (20 * 10**6 if chunked else 10**5)


MEASURE = """
import sys
from pathlib import Path
from thermoset.io.files import Request
from thermoset.io.shards import open_shard

def peak():
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0])

shards = [open_shard(Path(name), Request(False, 1 << 30, True)) for name in sys.argv[1:]]
for shard in shards:
    shard.read(0, 1000)
before = peak()
for shard in shards:
    for start in range(0, shard.n_rows, 1000):
        shard.read(start, min(start + 1000, shard.n_rows))
print(peak() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_is_bounded_by_a_piece(tmp_path):
    row = np.arange(250, dtype=np.float32)
    wide = Logits(np.broadcast_to(row, (100_000, 250)).copy())  # 100 MB, in pieces of 1 MB
    paths = [
        tmp_path / f"val{suffix}" for suffix in (".npy", ".npz", ".safetensors", ".arrow", ".h5", ".zarr", ".parquet")
    ]
    paths = [path for path in paths if path.suffix not in PARTS or find_spec(PARTS[path.suffix][0]) is not None]
    for path in paths:
        save(path, wide)
    paths.append(tmp_path / "packed.npz")
    np.savez_compressed(paths[-1], logits=wide.logits)
    out = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, check=True, text=True).stdout
    assert int(out) < 80 * 1024  # kB: a chunk of 16 MB, decoded and as it is stored, and what is held of each format
