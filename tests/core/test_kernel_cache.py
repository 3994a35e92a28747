"""Compiled code on disk: never older than its source, and never in the way."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import thermoset

pytestmark = pytest.mark.long

PACKAGE = Path(thermoset.__file__).parent
# 1/T = 1/2: two entry points, one of which is called by nothing else
SOFTMAX = (
    "import numpy as np; from thermoset import kernels; out = np.empty((1, 3));"
    "kernels.softmax(np.array([[1.0, 2.0, 4.0]]), 2.0, out); print(out.tobytes().hex());"
    "ranks = np.empty(1, dtype=np.int64); kernels.rank_labels(np.array([[1.0, 2.0, 4.0]]), np.array([1]), ranks);"
    "print(ranks[0])"
)
WARNED = "CacheWarning"


def command(code, folder, package=PACKAGE.parent):
    """What starts a process of its own, with compiled code in `folder`."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(package)}
    return {"args": [sys.executable, "-c", code], "env": environment, "text": True}


def run(code, folder, package=PACKAGE.parent):
    ran = subprocess.run(**command(code, folder, package), capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A folder with the compiled code of both."""
    folder = tmp_path_factory.mktemp("warm")
    assert run(SOFTMAX, folder).stderr == ""
    return folder


def files(folder, ending):
    return sorted(path for path in folder.rglob(f"kernels.*.{ending}"))


def test_a_second_process_compiles_nothing(warm):
    kept = {path: path.stat().st_mtime_ns for path in files(warm, "nb*")}
    assert len(files(warm, "nbc")) == 2
    run(SOFTMAX, warm)
    assert {path: path.stat().st_mtime_ns for path in files(warm, "nb*")} == kept


def test_an_edit_of_a_function_that_an_entry_point_calls_is_seen(tmp_path):
    package = tmp_path / "copy" / "thermoset"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = run(SOFTMAX, tmp_path / "cache", package.parent).stdout
    source = package / "kernels.py"
    text = source.read_text()
    edited = text.replace(
        "    return coarse * 2.0**-30 + fine * 2.0**-62\n", "    return 2.0 * (coarse * 2.0**-30 + fine * 2.0**-62)\n"
    )
    assert edited != text
    source.write_text(edited)
    assert run(SOFTMAX, tmp_path / "cache", package.parent).stdout != before


@pytest.mark.parametrize("ending", ["nbc", "nbi"])
@pytest.mark.parametrize("left", [0, 0.5])
def test_a_truncated_entry_is_made_again_with_one_warning(warm, tmp_path, ending, left):
    folder = tmp_path / "cache"
    shutil.copytree(warm, folder)
    for path in files(folder, ending):
        content = path.read_bytes()
        path.write_bytes(content[: int(left * len(content))])
    again = run(SOFTMAX, folder)
    assert again.stdout == run(SOFTMAX, warm).stdout
    assert again.stderr.count(WARNED) == 1, again.stderr
    assert run(SOFTMAX, folder).stderr == ""


LIMITED = (
    "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512));"
)


def test_a_full_disk_costs_the_cache_and_nothing_else(warm, tmp_path):
    ran = run(LIMITED + SOFTMAX, tmp_path)
    assert ran.stdout == run(SOFTMAX, warm).stdout
    assert ran.stderr.count(WARNED) == 1, ran.stderr


def test_without_a_folder_to_write_it_still_runs(warm, tmp_path, monkeypatch):
    """Neither the one that is named, nor that of the source, nor that of the user."""
    package, file = tmp_path / "copy" / "thermoset", tmp_path / "file"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (file, package / "__pycache__"):
        path.write_text("not a folder")
    monkeypatch.setenv("HOME", str(file))
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    ran = run(SOFTMAX, file, package.parent)
    assert ran.stdout == run(SOFTMAX, warm).stdout
    assert ran.stderr.count(WARNED) == 1, ran.stderr


def test_eight_processes_that_start_cold_at_once_agree(warm, tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    begun = [subprocess.Popen(**command(SOFTMAX, tmp_path), **pipes) for _ in range(8)]
    ended = [one.communicate() for one in begun]
    assert [one.returncode for one in begun] == [0] * 8, ended
    assert {errors for _, errors in ended} == {""}
    assert {found for found, _ in ended} == {run(SOFTMAX, warm).stdout}
