"""One job, the same bits everywhere: threads, hash seeds, locales, processors, folders, cold starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiers import cases

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
LONG = cases(1) > 1  # make evidence

APART = {
    "two threads": {"THERMOSET_NUM_THREADS": "2"},
    "three threads": {"THERMOSET_NUM_THREADS": "3"},
    "another hash seed": {"PYTHONHASHSEED": "4242"},
    "no asserts": {"PYTHONOPTIMIZE": "1"},
    "locale C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "locale tr_TR": {"LC_ALL": "tr_TR.UTF-8"},
    "one thread of BLAS": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    "NumPy without vectors": {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX"},
}
AT_ONCE = {name: setting for settings in APART.values() for name, setting in settings.items()}
# A process takes seconds. When all at once differ, `make evidence` says which of them it was.
ENVIRONMENTS = APART if LONG else {"two threads": APART["two threads"], "all at once": AT_ONCE}


def start(*parts, cwd=ROOT, **environment):
    """The job, or parts of it, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, Path(__file__).parent / "digest.py", *parts],
        cwd=cwd,
        env={**os.environ, "THERMOSET_NUM_THREADS": "1", **environment},
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def hashes(process):
    """What a job printed; it must have ended well."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return out.splitlines()


@pytest.fixture(scope="module")
def usual():
    """The hashes in the environment of the tests, by one thread."""
    return hashes(start())


def calibration_of(lines):
    return [line for line in lines if line.startswith("calibration ")]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_environment_does_not_change_a_bit(usual, name, tmp_path):
    assert hashes(start(cwd=tmp_path, **ENVIRONMENTS[name])) == usual


def test_the_processor_does_not_change_a_bit(usual, tmp_path):
    # Compiled again, for the least of its family: no fused multiply-add, and vectors of two numbers. So are kernels
    # without docstrings, which is why they come along.
    other = {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONOPTIMIZE": "2"}
    if LONG:
        assert hashes(start(**other)) == usual
    else:
        assert hashes(start("calibration", **other)) == calibration_of(usual)


def test_processes_that_start_cold_at_once_compile_without_a_clash(usual, tmp_path):
    begun = [start("calibration", NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(8 if LONG else 3)]
    found = [hashes(process) for process in begun]
    assert found == [calibration_of(usual)] * len(begun)
    assert list(tmp_path.rglob("*.nbc"))
    assert not list(tmp_path.rglob("*.tmp"))


def test_the_job_has_something_to_hash(usual):
    # A job that hashed nothing would agree with itself everywhere.
    found = {}
    for line in usual:
        part, _, value = line.split()
        found.setdefault(part, set()).add(value)
    assert found.keys() == {"calibration", "sets", "sweep", "predictor", "document"}
    assert all(len(values) > 1 for part, values in found.items() if part != "document")
