"""Compiled code of this run alone; examples that need PyTorch, Lightning or Altair run where these are installed.

`--quick` (`make quick`) leaves out what `NOT_QUICK` names, runs the first and the last case of every test that has
several, and draws few examples for each property: new tests are taken in without being listed anywhere.
"""

import os
import shutil
import tempfile
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:  # one worker for each core: threads of their own, which also wait busily, would
    for name in ("THERMOSET_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # only get in each other's way; read when NumPy and PyTorch are first imported

_NEED_TORCH = [
    "src/thermoset/integrations/torch",
    "src/thermoset/integrations/models.py",
    "docs/collect.md",
    "docs/export.md",
]
_CLIENT = [
    "tests/typed_client"
]  # a project that uses the library, with planted mistakes: mypy reads it, nobody runs it
collect_ignore = _CLIENT if find_spec("torch") else [*_CLIENT, *_NEED_TORCH]
if not (find_spec("torch") and find_spec("lightning")):
    collect_ignore = [*collect_ignore, "src/thermoset/integrations/lightning.py"]
if not find_spec("altair"):
    collect_ignore = [*collect_ignore, "src/thermoset/report/charts"]

ROOT = Path(__file__).parent
NOT_QUICK = {
    "README.md": "whole jobs",
    "docs": "whole jobs",
    "src/thermoset/cli": "imports of every command",
    "src/thermoset/integrations": "imports of frameworks",
    "src/thermoset/paper": "studies and theory",
    "src/thermoset/plots": "drawing",
    "src/thermoset/report": "drawing",
    "src/thermoset/tuning": "searches",
    "tests/attacks": "processes that are killed",
    "tests/browser": "a browser",
    "tests/cli": "whole jobs, and processes",
    "tests/conformal/test_conformal.py::test_sets_are_the_oracles_sets": "thousands of digits",
    "tests/conformal/test_p_values.py::test_p_values_of_true_labels_are_uniform_on_ranks": "hundreds of splits",
    "tests/conformal/test_p_values.py::test_smoothed_p_values_are_uniform_where_scores_tie": "hundreds of splits",
    "tests/conformal/test_rc3p.py::test_each_class_follows_the_exact_law_over_200_splits": "hundreds of splits",
    "tests/core/test_compiling.py": "processes that compile",
    "tests/data/test_choices.py": "a language model",
    "tests/data/test_data.py::test_softmax_of_every_type_is_accepted": "imports of frameworks",
    "tests/data/test_data.py::test_torch_tensors": "imports of frameworks",
    "tests/data/test_outputs.py": "a language model",
    "tests/data/test_stored.py::test_no_more_is_read_at_once_than_a_piece": "many rows",
    "tests/examples": "whole jobs, and processes",
    "tests/fuzz": "thousands of files",
    "tests/integrations": "imports of frameworks, and clusters",
    "tests/io/test_io_blocks.py::test_memory_of_csv_without_pyarrow_is_bounded": "a process whose memory is measured",
    "tests/io/test_io_blocks.py::test_memory_of_pyarrow_is_bounded": "processes whose memory is measured",
    "tests/io/test_io_blocks.py::test_memory_of_torch_is_bounded": "a process whose memory is measured",
    "tests/io/test_io_hostile.py": "processes that run out of memory",
    "tests/io/test_io_predictions.py": "processes that are killed, or whose memory is measured",
    "tests/io/test_json_files.py::test_memory_is_bounded_whatever_the_file_says": "a process whose memory is measured",
    "tests/io/test_shards.py": "processes whose memory is measured",
    "tests/io/test_shards_hostile.py": "thousands of files",
    "tests/io/test_timm_files.py::test_from_the_files_to_sets_on_the_command_line": "whole jobs",
    "tests/metrics/test_metrics_laws.py::test_noise_floor_of_cifar100": "simulations",
    "tests/monitor/test_checking.py": "hundreds of draws",
    "tests/monitor/test_drift.py::test_conformal_rows_against_fresh_ones_give_no_more_false_alarms_either": "splits",
    "tests/monitor/test_drift.py::test_no_more_false_alarms_than_the_level": "thousands of draws",
    "tests/monitor/test_evidence.py::test_ten_million_rows_and_then_a_drop": "many rows",
    "tests/monitor/test_union_coverage.py::test_p_values_are_valid": "hundreds of draws",
    "tests/monitor/test_watching.py::test_the_chance_of_any_false_alarm_stays_within_delta": "hundreds of streams",
    "tests/paper": "studies and theory",
    "tests/predictor/test_any_level.py": "drawing",
    "tests/predictor/test_monitor.py": "whole jobs",
    "tests/predictor/test_monitor.py::test_two_writers_at_once_lose_nothing": "processes",
    "tests/predictor/test_odd_batches.py::test_exported_predictors_answer_no_rows": "imports of frameworks",
    "tests/predictor/test_serving.py": "processes",
    "tests/predictor/test_shard_groups.py": "whole jobs",
    "tests/predictor/test_shards.py": "whole jobs",
    "tests/report": "drawing",
    "tests/statistical": "hundreds of splits",
    "tests/sweeping/test_sweeping_passes.py": "sweeps again, the plain way",
    "tests/test_calibration.py::test_nearly_separable_rows_converge": "thousands of digits",
    "tests/test_docs.py": "whole jobs",
    "tests/test_forms.py": "whole jobs, and a cluster",
    "tests/test_frontier_figures.py": "drawing",
    "tests/test_imports.py": "processes",
    "tests/test_notebook.py": "whole jobs",
    "tests/test_packaging.py": "builds of the package",
    "tests/test_plots.py": "drawing",
    "tests/test_published_numbers.py": "whole files",
    "tests/test_readme.py": "whole jobs",
    "tests/test_warming.py": "processes that compile",
    "tests/tuning": "searches, on many rows",
}
"""Folders, files and tests that `--quick` leaves out, and why they take long."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """A choice of tests for those who change the code."""
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out what takes long; two cases, or ten examples, of each other test",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is left out is not even imported; None lets others decide."""
    named = collection_path.relative_to(ROOT).as_posix() if collection_path.is_relative_to(ROOT) else ""
    return True if config.getoption("--quick") and named in NOT_QUICK else None


def pytest_configure(config: pytest.Config) -> None:
    """Compile afresh: no test passes on machine code that the sources no longer say. Workers inherit the folder."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        folder = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="thermoset-compiled-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Lightning calls PyTorch in deprecated ways, which is no concern of this project. What takes long comes first."""
    items.sort(key=lambda item: not _takes_long(item.path))  # so that what is left for the last worker to end is short
    for item in items:
        if item.path.name in {"lightning.py", "test_lightning.py"}:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
    if config.getoption("--quick"):
        _take_few(config, items)


def _takes_long(path: Path) -> bool:
    """Whether `NOT_QUICK` names the file, or a folder that it is in."""
    inside = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return any(place.as_posix() in NOT_QUICK for place in (inside, *inside.parents))


def _take_few(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Two cases of each test, ten examples of each property; a profile of Hypothesis yields to what a test asks for."""
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    quick = (each for name, each in cases.items() if name not in NOT_QUICK and not _takes_long(each[0].path))
    taken = {one.nodeid for each in quick for one in (each[0], each[-1])}  # pytest collects what `testpaths` names
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in taken])
    items[:] = [item for item in items if item.nodeid in taken]
    for item in items:
        if isinstance(item, pytest.Function) and getattr(item.obj, "is_hypothesis_test", False):
            known = item.obj._hypothesis_internal_use_settings or settings.default
            item.obj._hypothesis_internal_use_settings = settings(known, max_examples=min(10, known.max_examples))
