"""Compiled code: never older than its sources, and never in the way."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
import thermoset.core.compiling
from thermoset.core.compiling import source_digest

import thermoset

pytestmark = pytest.mark.long

PACKAGE = Path(thermoset.__file__).parent
SOFTMAX = "import thermoset.calibration as c; print(c.probabilities([[1.0, 2.0, 4.0]], 2.0).tobytes().hex())"
# p = softmax(0, 0, 0): 1/3 for the top class; rank 3 scores 1/3 + (3 - 2 + 1) 0.2 = 0.7333
SAPS = "import thermoset.conformal as c; print(c.scores('saps', [[0.0, 0.0, 0.0]])[0, 2])"


def run(code, folder, package=PACKAGE.parent, **environment):
    """A process of its own, with compiled code in `folder`."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(package), **environment},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A folder with the compiled code of one softmax."""
    folder = tmp_path_factory.mktemp("warm")
    run(SOFTMAX, folder)
    return folder


def kernel_files(folder):
    return sorted(folder.rglob("*.nbc"))


def test_an_edit_of_a_function_that_a_kernel_calls_is_seen(tmp_path):
    package = tmp_path / "copy" / "thermoset"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = float(run(SAPS, tmp_path / "cache", package.parent).stdout)
    assert before == pytest.approx(1 / 3 + 2 * 0.2, abs=1e-15)
    source = next(path for path in package.rglob("*.py") if "def _saps(" in path.read_text())
    source.write_text(source.read_text().replace("rank - 2.0 + u", "rank - 1.0 + u"))
    after = float(run(SAPS, tmp_path / "cache", package.parent).stdout)
    assert after == pytest.approx(1 / 3 + 3 * 0.2, abs=1e-15)


def test_a_second_process_compiles_nothing(warm):
    kept = {path: path.stat().st_mtime_ns for path in kernel_files(warm)}
    assert kept
    run(SOFTMAX, warm)
    assert {path: path.stat().st_mtime_ns for path in kernel_files(warm)} == kept
    assert not list(warm.rglob("*.tmp"))


def test_damaged_compiled_code_is_compiled_again_and_said_once(warm, tmp_path):
    shutil.copytree(warm, tmp_path / "cache")
    files = kernel_files(tmp_path)
    for number, path in enumerate(files):
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes((content[:middle], b"", flipped)[number % 3])
    again = run(SOFTMAX, tmp_path / "cache")
    assert again.stdout == run(SOFTMAX, warm).stdout
    assert again.stderr.count("CacheWarning: Damaged compiled code") == 1
    assert run(SOFTMAX, tmp_path / "cache").stderr == ""


def test_compiling_leaves_the_garbage_collector_as_it_was(warm, tmp_path):
    for folder in (warm, tmp_path):  # loaded, and compiled
        run("import gc;" + SOFTMAX + ";assert gc.isenabled()", folder)
    run("import gc; gc.disable();" + SOFTMAX + ";assert not gc.isenabled()", warm)


LIMITED = (
    "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512));"
)


def test_a_full_disk_costs_the_cache_and_nothing_else(warm, tmp_path):
    ran = run(LIMITED + SOFTMAX, tmp_path)
    assert ran.stdout == run(SOFTMAX, warm).stdout
    assert ran.stderr.count("CacheWarning: Compiled code cannot be cached in") == 1
    assert str(tmp_path) in ran.stderr
    assert not list(tmp_path.rglob("*.tmp"))


def test_many_processes_that_start_cold_at_once_agree(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    begun = [subprocess.Popen([sys.executable, "-c", SOFTMAX], env=environment, **pipes) for _ in range(6)]
    ended = [one.communicate() for one in begun]
    assert [one.returncode for one in begun] == [0] * 6
    assert {told for _, told in ended} == {""}
    assert {sets for sets, _ in ended} == {run(SOFTMAX, tmp_path).stdout}
    names = [path.name.partition("-")[0] for path in kernel_files(tmp_path)]
    assert sorted(set(names)) == sorted(names)
    assert not list(tmp_path.rglob("*.tmp"))


def test_without_a_folder_to_write_it_still_runs(warm, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    ran = run(SOFTMAX, tmp_path / "file")
    assert ran.stdout == run(SOFTMAX, warm).stdout
    assert ran.stderr.count("CacheWarning: Compiled code cannot be cached: no folder") == 1


def test_numba_switched_off_for_other_code_changes_nothing(warm, tmp_path):
    off = run("import numba; f = lambda x: x; assert numba.njit(f) is f;" + SOFTMAX, tmp_path, NUMBA_DISABLE_JIT="1")
    assert off.stdout == run(SOFTMAX, warm).stdout


def test_only_the_latest_earlier_sources_are_kept(tmp_path):
    for number in range(9):
        (tmp_path / f"thermoset-{number}").mkdir()
        os.utime(tmp_path / f"thermoset-{number}", (number, number))
    run("from thermoset.core.compiling import cache_folder; cache_folder()", tmp_path)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {f"thermoset-{source_digest()}", *(f"thermoset-{number}" for number in range(5, 9))}


def holds_kernels(path):
    return any(mark in path.read_text() for mark in ("@kernel\n", "@leaf_kernel\n", "@part\n", "@allocating_part\n"))


def test_kernels_stand_in_the_core_alone():
    """The hash that tells compiled code from other code covers no other folder."""
    assert all(PACKAGE / "core" in path.parents for path in PACKAGE.rglob("*.py") if holds_kernels(path))


def kernels():
    """Every compiled function of the package, by importing the files that hold some."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if holds_kernels(path):
            module = ".".join(("thermoset", *path.relative_to(PACKAGE).with_suffix("").parts))
            yield from (
                value
                for value in vars(__import__(module, fromlist=["_"])).values()
                if isinstance(value, numba.core.dispatcher.Dispatcher) and value.py_func.__module__ == module
            )


def test_every_constant_of_a_kernel_stands_in_a_file_that_the_hash_covers():
    """The folder's name must change with anything that is compiled in."""
    assigned = set()
    for path in PACKAGE.rglob("*.py"):
        if holds_kernels(path):
            for node in ast.parse(path.read_text()).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                assigned |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    seen = 0
    for function in kernels():
        names = function.py_func.__code__.co_names
        for name in names:
            value = function.py_func.__globals__.get(name)
            if isinstance(value, int | float | tuple | np.ndarray | np.generic):
                assert name in assigned, f"{function.py_func.__name__} compiles in {name}, which no hashed file defines"
                seen += 1
    assert seen > 10
