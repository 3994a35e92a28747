"""`thermoset report` as a user runs it."""

import pytest

import thermoset as ts
from parts import require

pytestmark = pytest.mark.slow

for module in ("vl_convert", "jinja2"):
    require(module, "report")


def test_it_writes_the_page_of_the_library(tuned, command, tmp_path):
    from thermoset.report import build_report, render_page

    out = tmp_path / "fresh.html"
    done = command("report", tuned.path, tuned.fresh, "--out", out, "--trials", 3, "--name", "some <rows>", "--quiet")
    assert (done.returncode, done.stdout) == (0, f"Wrote {out}\n"), done.stderr
    report = build_report(tuned.predictor, ts.load(tuned.fresh), name="some <rows>", trials=3)
    assert out.read_text(encoding="utf-8") == render_page(report)


def test_tune_writes_it_beside_the_predictor(tuned):
    text = (tuned.folder / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert f"{tuned.predictor.temperature_sets_:.3f}" in text


def test_tune_leaves_it_out_if_asked_to(tuned, call, tmp_path):
    done = call("tune", tuned.val, "--out", tmp_path, "--no-report", "--quiet")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(("out", "because"), [("page.txt", "must be an HTML file"), (".", "must be an HTML file")])
def test_other_files_are_refused_before_the_work(tuned, call, tmp_path, out, because):
    call("report", tuned.path, tuned.fresh, "--out", tmp_path / out).assert_refused(because)


def test_the_rows_that_set_the_threshold_are_refused(tuned, call, tmp_path):
    _, conformal = ts.load(tuned.val).split("0.5", random_state=tuned.seed)
    ts.save(tmp_path / "conformal.npz", conformal)
    done = call("report", tuned.path, tmp_path / "conformal.npz", "--out", tmp_path / "r.html", "--quiet")
    done.assert_refused("rows that set the threshold")
    assert not (tmp_path / "r.html").exists()
