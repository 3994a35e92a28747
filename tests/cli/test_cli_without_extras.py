"""Commands where Matplotlib, or what the report needs, is not installed: the work is done, and a line says so."""

import sys

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.errors import install_command

pytestmark = pytest.mark.slow

NO_FIGURE = "thermoset: skipped {}: matplotlib is not installed. Run: " + install_command("plot") + "\n"
NO_REPORT = "thermoset: skipped report.html: vl_convert is not installed. Run: " + install_command("report") + "\n"


@pytest.fixture(scope="module")
def val(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "val.npz"
    ts.save(path, ts.Logits(*generated(600, 4, signal=0.3)))
    return path


@pytest.fixture
def without(monkeypatch):
    """Make modules as good as not installed, also to what was imported already."""

    def block(*modules):
        for name in list(sys.modules):
            if name.split(".")[0] in modules or name.startswith("thermoset.plots"):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(ts, "plots", raising=False)
        for name in modules:
            monkeypatch.setitem(sys.modules, name, None)

    return block


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_sweep_writes_its_table(call, without, val, tmp_path):
    asked = ("sweep", val, "--temperatures", "0.5,1", "--trials", 2, "--out")
    drawn = call(*asked, tmp_path / "drawn")
    without("matplotlib")
    done = call(*asked, tmp_path / "made")
    assert (done.returncode, done.stderr) == (0, NO_FIGURE.format("the figure")), done
    assert names(tmp_path / "made") == ["sweep.csv"]
    assert (tmp_path / "made" / "sweep.csv").read_bytes() == (tmp_path / "drawn" / "sweep.csv").read_bytes()
    assert done.stdout.splitlines()[:-1] == drawn.stdout.splitlines()[: len(done.stdout.splitlines()) - 1]


def test_tune_says_what_it_skipped(call, without, val, tmp_path):
    without("matplotlib", "vl_convert")
    done = call("tune", val, "--out", tmp_path / "made", "--quiet")
    assert done.returncode == 0, done
    assert done.stderr == NO_REPORT
    assert names(tmp_path / "made") == ["predictor.json"]
    done = call("tune", val, "--out", tmp_path / "made", "--quiet", "--no-report")
    assert done.stderr == "", "a report that was not asked for is not missed"
    call("tune", val, "--out", tmp_path / "drawn", "--figures").assert_refused(install_command("plot"))


def test_the_report_says_what_it_needs(call, without, val, tmp_path):
    without("vl_convert")
    call("report", "predictor.json", val, "--out", tmp_path / "report.html").assert_refused(install_command("report"))


def test_the_demo_runs_where_nothing_else_is_installed(call, without, tmp_path, monkeypatch):
    glyphs = ts.datasets.load_glyphs()
    few = np.flatnonzero(glyphs.logits.labels < 10)
    logits = ts.Logits(glyphs.logits.logits[few, :10], glyphs.logits.labels[few], glyphs.logits.classes[:10])
    none = np.zeros(0, dtype=np.int64)
    cut = ts.datasets.Glyphs(logits, glyphs.family[few], glyphs.thumbnails[none], none)
    monkeypatch.setattr(ts.datasets, "load_glyphs", lambda: cut)
    without("matplotlib", "vl_convert")
    done = call("demo", "--out", tmp_path / "demo", "--quiet")
    assert done.returncode == 0, done
    assert done.stderr.splitlines(keepends=True)[0] == NO_REPORT, "warnings stand at the end"
    assert names(tmp_path / "demo") == ["predictor.json"]
