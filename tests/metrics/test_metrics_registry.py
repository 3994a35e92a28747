"""The registry: records that say what they are, and names that stand nowhere else."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import thermoset
from thermoset import metrics
from thermoset.errors import InputError

SOURCE = Path(thermoset.__file__).parent
TITLES = {metric.title for metric in metrics.METRICS.values() if re.fullmatch(r"[A-Z]\w+[A-Z]\w*", metric.title)}


def texts(path):
    """Strings of a module that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare
    ]


def test_titles_of_the_paper_are_known():
    assert {"AvgSize", "MarCovGap", "TopCovGap", "AvgCovGap", "SSCV"} == TITLES


def test_a_title_is_written_once():
    rooms = [SOURCE / room for room in ("sweeping", "plots", "report", "paper/study", "monitor", "predictor", "cli")]
    paths = [path for room in rooms for path in room.rglob("*.py")]
    paths.append(SOURCE / "notebook.py")
    assert len(paths) > 30
    found = {path.name: text for path in paths for text in texts(path) for title in TITLES if title in text}
    assert found == {}
    for page in (SOURCE / "report" / "files").iterdir():
        content = page.read_text(encoding="utf-8")
        assert not any(title in content for title in TITLES), page.name
    written = texts(SOURCE / "metrics" / "registry.py")
    assert all(written.count(title) == 1 for title in TITLES)


def test_records_are_filed_under_their_names_and_titles_differ():
    for name, metric in metrics.METRICS.items():
        assert metric.name == name
        assert metric.unit in {"labels", "share", "score"}
    assert len({metric.title for metric in metrics.METRICS.values()}) == len(metrics.METRICS)


def test_headings():
    assert metrics.METRICS["avg_size"].heading == "AvgSize: labels in a set"
    assert metrics.METRICS["threshold"].heading == "Threshold"


def test_the_metrics_of_sweeps():
    drawn = [metric.name for metric in metrics.swept_metrics()]
    assert drawn == [
        "avg_size", "marginal_coverage", "marginal_coverage_gap", "top_coverage_gap", "avg_coverage_gap", "threshold",
        "empty_share", "worst_tenth_coverage", "macro_coverage", "classes_below",
    ]  # fmt: skip
    smooth = metrics.swept_metrics("integrated")
    assert [metric.name for metric in smooth[: len(drawn)]] == drawn
    assert all(metric.averages and not metric.is_swept for metric in smooth[len(drawn) :])


@pytest.mark.parametrize("name", ["threshold", "integrated_top_coverage_gap", "left_out_share"])
def test_what_sets_do_not_show_is_refused(name):
    with pytest.raises(InputError, match=f"{name} cannot be computed from sets and labels"):
        metrics.METRICS[name]([[True]], [0], 0.1)


def test_what_was_not_counted_is_nan():
    counts = metrics.SetCounts(rows=np.array([[2, 3], [4, 0]]), members=np.array([5, 8]))
    for name, metric in metrics.METRICS.items():
        value = np.broadcast_to(metric.of(counts), 2)
        if name == "avg_size":
            assert value.tolist() == [1.0, 2.0]
        else:
            assert np.isnan(value).all(), name


@pytest.mark.parametrize("name", [metric.name for metric in metrics.METRICS.values() if metric.is_of_sets])
def test_public_functions_are_the_records(name):
    rng = np.random.default_rng(7)
    sets, labels = rng.random((200, 45)) < 0.3, rng.integers(0, 45, 200)
    record = metrics.METRICS[name](sets, labels, 0.1)
    function = getattr(metrics, "size_stratified_coverage_violation" if name == "sscv" else name)
    few = {"avg_size": (), "empty_share": ()}
    few |= dict.fromkeys(("marginal_coverage", "worst_tenth_coverage", "macro_coverage"), (labels,))
    arguments = few.get(name, (labels, 0.1))
    assert function(sets, *arguments) == record
