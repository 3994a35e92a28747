"""The folder a study leaves, and the command."""

import csv
import itertools
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import thermoset as ts
from law import as_accurate, generated
from parts import require
from thermoset import theory
from thermoset.cli import main
from thermoset.metrics import swept_metrics
from thermoset.paper.study import Settings, _names, logits_files, recognise, study, study_logits
from thermoset.paper.study.cells import COMPARED, Cell
from thermoset.paper.study.tables import _marks, _printed_probs

require("matplotlib", "plot")
from thermoset.paper.study.figures import drawn_figures, figure_1  # noqa: E402 (needs the extra)

pytestmark = pytest.mark.slow

SETTINGS = Settings(trials=4, temperatures="0.3,0.5,1,2,5")
FIGURES = {
    "bound", "bound-share", "curves-alpha-0.1", "curves-alpha-0.05", "differences", "last-index", "low-temperatures",
    "margins", "reliability", "rules", "single-trials",
}  # fmt: skip
COSTS = ("avg_size", "marginal_coverage", "integrated_worst_tenth_coverage", "left_out_share", "top_coverage_gap")


def lines_of(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("logits")
    logits, labels = generated(600, 6, signal=0.5)
    ts.save(made / "cifar10_resnet50.npz", as_accurate(logits, labels, 0.9465))
    ts.save(made / "cifar10_resnet34.npz", ts.Logits(logits[:450], labels[:450]))  # of the name, not of the accuracy
    ts.save(made / "mine.npz", ts.Logits(logits[:500], labels[:500]))
    ts.save(made / "unlabelled.npz", ts.Logits(logits))
    (made / "README.md").write_text("no logits")
    return made


@pytest.fixture(scope="module")
def done(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "new"
    told = []
    found = study(folder, out, SETTINGS, progress=lambda *told_of: told.append(told_of))
    return found, out, told


@pytest.fixture(scope="module")
def figures(done, folder):
    """What was found of `mine.npz`, and its figures."""
    found = done[0].pairs[2]
    return found, {name: draw() for name, draw in drawn_figures(ts.load(folder / "mine.npz"), found).items()}


def test_every_file_is_studied_and_what_cannot_be_is_named(done):
    found, _, _ = done
    assert [pair.title for pair in found.pairs] == ["cifar10_resnet34", "CIFAR-10, ResNet50", "mine"]
    assert [bool(pair.remark) for pair in found.pairs] == [True, False, False]
    assert list(found.skipped) == ["unlabelled.npz"]
    assert "labels" in found.skipped["unlabelled.npz"]


def test_progress_ends_where_it_said_it_would(done):
    _, _, told = done
    steps = [step for step, _ in told]
    assert steps == sorted(steps)
    assert len({total for _, total in told}) == 1
    assert told[-1][0] == told[-1][1]


def test_figures_are_png_and_pdf(done):
    _, out, _ = done
    assert {path.name for path in out.glob("figure-1.*")} == {"figure-1.png", "figure-1.pdf"}
    for name in ("cifar10_resnet50", "mine"):
        files = list((out / "figures" / name).iterdir())
        assert {path.stem for path in files} == FIGURES
        assert len(files) == 2 * len(FIGURES)
        assert all(path.read_bytes().startswith({".png": b"\x89PNG", ".pdf": b"%PDF"}[path.suffix]) for path in files)


def test_the_first_figure_has_a_column_for_each_file(done):
    found = done[0]
    axes = figure_1(found.pairs).axes
    assert [ax.get_title(loc="left") for ax in axes[:3]] == [pair.title for pair in found.pairs]
    for i, metric in enumerate(("avg_size", "top_coverage_gap", "threshold")):
        for ax, pair in zip(axes[3 * i :], found.pairs, strict=False):
            values = pair.measured.curves[10].of_trials(metric, "aps", 0.1)
            want = values.mean(axis=-1) if metric == "threshold" else ts.sweeping.median_of_means(values)
            assert any(len(y.get_ydata()) == len(want) and np.allclose(y.get_ydata(), want) for y in ax.get_lines())


def test_figures_show_what_was_measured(figures):
    found, made = figures
    drawn = {name: figure.axes for name, figure in made.items()}
    names = ["AvgSize", "TopCovGap", "AvgCovGap", "threshold $\\hat{q}$"]
    for alpha in (0.1, 0.05):
        curves = drawn[f"curves-alpha-{alpha:g}"]
        assert [ax.get_ylabel() for ax in curves] == [name for name in names for _ in range(3)]
        assert [ax.get_title(loc="left") for ax in curves[:3]] == ["CP 5%", "CP 10%", "CP 20%"]
        for i, metric in enumerate(("avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold")):
            heights = [line.get_ydata() for line in curves[3 * i + 1].get_lines()]
            for method in ("lac", "aps", "raps"):
                values = found.measured.curves[10].of_trials(metric, method, alpha)
                want = values.mean(axis=-1) if metric == "threshold" else ts.sweeping.median_of_means(values)
                assert any(len(y) == len(want) and np.allclose(y, want) for y in heights), (metric, method)
    for ax, table in zip(drawn["reliability"][2:], found.measured.reliability, strict=True):
        heights = [bar.get_height() for bar in ax.containers[0]]
        assert heights == np.rint(table.count / SETTINGS.trials).tolist(), "rows of an average trial"
    assert [ax.get_title(loc="left") for ax in drawn["single-trials"]] == [
        f"Run {t}" for t in (1, 2, 3) for _ in range(3)
    ]
    labels = {line.get_label() for line in drawn["low-temperatures"][0].get_lines()}
    assert labels == {"plain float32", "plain float64", "thermoset"}
    for ax, one in zip(drawn["differences"], found.differences, strict=True):
        assert ax.get_title(loc="left").startswith(one.method.upper())
        np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), one.mean_sorted)
    rules = found.comparison.by_rule(10)
    for ax, metric in zip(drawn["rules"], COSTS, strict=True):
        shown = [float(bars.lines[0].get_xdata()[0]) for bars in ax.containers]
        assert shown == [cells[metric].value for cells in rules.values()]
    low = made["low-temperatures"]
    assert low.get_supxlabel().startswith("500 rows; 4 random splits")
    assert [len(ax.collections) for ax in low.axes] == [3] * 6, "bands"


def test_a_score_has_one_colour_in_every_figure_and_legends_cover_nothing(figures):
    _, made = figures
    theirs = ("margins", "last-index", "bound", "bound-share")
    ours = {name: figure for name, figure in made.items() if name not in theirs}
    assert not any(ax.get_legend() for figure in ours.values() for ax in figure.axes)
    named = {name: figure for name, figure in ours.items() if name not in ("differences", "rules")}  # without a legend
    assert all(figure.legends for figure in named.values()), "one, outside of the panels"

    def colours(name, n):
        return [line.get_color() for line in made[name].axes[n].get_lines()]

    lac, aps, raps = colours("curves-alpha-0.1", 0)[:3]
    assert colours("single-trials", 0)[:2] == [aps, raps]
    assert [colours("differences", n)[0] for n in (0, 1)] == [aps, raps]
    assert [colours("low-temperatures", n)[2] for n in (0, 1, 2)] == [lac, aps, raps]
    first = made["rules"].axes[0]
    names = [label.get_text().partition(",")[0] for label in first.get_yticklabels()]
    points = [bars.lines[0].get_color() for bars in first.containers]
    drawn = dict(zip(names, points, strict=True))
    assert {name: drawn[name] for name in ("LAC", "APS", "RAPS")} == {"LAC": lac, "APS": aps, "RAPS": raps}


def test_the_table_of_rules_shows_every_valid_rule_of_every_score(done):
    found, out, _ = done
    lines = lines_of(out / "tables" / "rules-cp-10.csv")
    for pair in found.pairs:
        mine = [line for line in lines if line["file"] == pair.title]
        rules = pair.comparison.by_rule(10)
        assert [line["score"].lower() for line in mine] == [method for method, _ in rules]
        assert {metric for cells in rules.values() for metric in cells} >= set(COSTS)
        for line, cells in zip(mine, rules.values(), strict=True):
            size = cells["avg_size"]
            assert float(line["AvgSize"].split()[0]) == pytest.approx(size.value, abs=0.005)
            left = float(line["correct top label left out (%)"].split()[0])
            assert left == pytest.approx(100 * cells["left_out_share"].value, abs=0.05)


def test_the_comparison_has_every_rule(done):
    for study_of in done[0].pairs:
        for cp in (10, 20):
            cells = [cell for cell in study_of.comparison.cells if cell.cp_percent == cp]
            exact = {(cell.method, cell.at) for cell in cells if cell.mode == "exact"}
            budget = next(at for _, at in exact if at.startswith("choose size<="))
            ours = {"choose even", "choose gap<=0.03", budget}
            raps = {"T = 1", "T*", "t_hat", "conf_ts", "mondrian", "clustered", "own tuning", *ours}
            strict = {f"T = 1, alpha {alpha:g}" for alpha in (0.08, 0.06, 0.04)}
            raps |= strict
            lac = {"T = 1", "T*", "T*, alpha 0.08", "T*, alpha 0.06", "T*, alpha 0.04", *strict}
            aps = {"T = 1", "T*", "conf_ts", *strict}
            auto = {"choose small", "choose even", "choose protect"}
            all_rules = {"raps": raps, "lac": lac, "aps": aps, "auto": auto}
            want = {(method, at) for method, rules in all_rules.items() for at in rules}
            assert exact == want
            assert {cell.at for cell in cells if cell.mode == "published"} == {"t_hat", "mondrian"}
            for _, rules in itertools.groupby(cells, key=lambda cell: (cell.mode, cell.method, cell.at)):
                assert [cell.metric for cell in rules] == list(COMPARED)


def test_the_theory_is_shown_with_the_rows_it_speaks_for(done):
    found, out, _ = done
    with (out / "tables" / "bounds.csv").open(newline="") as stream:
        lines = [line for line in csv.DictReader(stream) if line["file"] == "mine"]
    (pair,) = [pair for pair in found.pairs if pair.name == "mine"]
    logits = generated(600, 6, signal=0.5)[0][:500]
    temperatures = [0.5, pair.measured.ece, theory.critical_temperature(6), 2.0]
    assert [line["T"] for line in lines] == [f"{t:.3f}" for t in temperatures]
    assert [line["b(T)"] for line in lines] == [f"{theory.bound(t, 6):.2f}" for t in temperatures]
    assert [line["sharp b*(T)"] for line in lines] == [f"{theory.sharp_bound(t, 6):.2f}" for t in temperatures]
    for name, limit in (("margins above b(T)", theory.bound), ("margins above b*(T)", theory.sharp_bound)):
        shares = [np.mean(theory.margins(logits) > limit(t, 6)) for t in temperatures]
        assert [line[name] for line in lines] == [f"{share:.1%}" for share in shares]
    page = (out / "index.html").read_text()
    assert "Section 4. The bounds on the margin, and the rows above them" in page.split("<section id='part-theory'")[1]


def test_quantile_samples_stand_beside_the_printed_ones():
    printed = _printed_probs(SimpleNamespace(pair=recognise("cifar10_resnet34")), "T=0.5")  # appendix B.6
    assert printed == "9.9998e-01 1.1870e-05 4.1955e-06 2.0069e-06 1.9213e-06"
    assert _printed_probs(SimpleNamespace(pair=None), "T=0.5") == ""


def test_tables_come_as_csv_and_latex_with_the_printed_numbers(done):
    found, out, _ = done
    lines = lines_of(out / "tables" / "sizes-alpha-0.1-cp-10.csv")
    assert [(line["file"], line["mode"]) for line in lines][2:] == [
        *(("CIFAR-10, ResNet50", mode) for mode in ("exact", "published", "printed")),
        ("mine", "exact"), ("mine", "published"),
    ]  # fmt: skip
    assert [lines[4][name] for name in ("LAC", "APS", "RAPS")] == ["0.91", "1.04", "0.98"], "Table 1"
    assert [lines[4][f"{name} after TS"] for name in ("LAC", "APS", "RAPS")] == ["0.91", "1.13", "1.05"]
    (cell,) = [
        c for c in found.pairs[2].cells
        if (c.mode, c.metric, c.method, c.at, c.alpha, c.cp_percent) == ("exact", "avg_size", "aps", "before", 0.1, 10)
    ]  # fmt: skip
    digits = 2 if cell.standard_error >= 0.005 else 3
    assert lines[5]["APS"] == f"{cell.value:.{digits}f} ± {cell.standard_error:.{digits}f}"
    tex = {path.stem for path in (out / "tables").glob("*.tex")}
    assert all(name.startswith("paper-") for name in tex), "the paper's own tables alone"
    for path in (out / "tables").glob("*.csv"):
        with path.open(newline="") as stream:
            assert len({len(line) for line in csv.reader(stream)}) == 1, path.name
    for name, table in found.tables.items():
        words = re.sub(r"(?<!\\)\$[^$]*\$", "", table.to_latex())  # formulas have their own signs
        assert not re.search(r"(?<!\\)[%_]|[^\x00-\x7f]", words), name


def test_a_dagger_stands_on_cells_that_disagree_alone():
    def marks(agrees, note, definition=""):
        place = "published", "avg_size", "raps", "t_hat", 0.1, 10
        return _marks(Cell(*place, 2.7, 0.1, 9, 2.9, "", note, definition, agrees))

    lost = "not reproducible: a reason"
    assert [marks(agrees, lost) for agrees in (True, False)] == ["", "✗†"]
    assert marks(False, "") == "✗"
    assert marks(None, lost, "another statistic") == "‡"


def test_the_papers_tables_come_in_latex_as_it_prints_them(done):
    found, out, _ = done
    names = {path.stem for path in (out / "tables").glob("paper-*.tex")}
    assert {"paper-table-1", "paper-table-2", "paper-temperatures", "paper-appendix-d"} <= names
    assert {f"paper-{what}-alpha-0.1-cp-5" for what in ("sizes", "coverage")} <= names
    table = (out / "tables" / "paper-table-1.tex").read_text()
    assert all(rule in table for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\cmidrule(lr){5-7}"))
    (row,) = [row for row in table.splitlines() if row.startswith("CIFAR-10, ResNet50 &")]
    cells = {(c.method, c.at): c.value for c in found.pairs[1].cells
             if (c.mode, c.metric, c.alpha, c.cp_percent) == ("published", "avg_size", 0.1, 10)}  # fmt: skip
    want = [f"{cells[method, at]:.2f}" for at in ("before", "after") for method in ("lac", "aps", "raps")]
    told = row.removesuffix(r" \\").split(" & ")
    assert told[4:] == want
    assert told[2] == f"{100 * found.pairs[1].measured.top1:.1f}"
    for path in (out / "tables").glob("paper-*.tex"):
        body = [row.count(" & ") for row in path.read_text().split(r"\midrule")[1].splitlines() if " & " in row]
        assert len(set(body)) == 1, path.name


def test_statements_of_the_paper_are_shown_and_none_is_violated(done):
    found, out, _ = done
    for pair in found.pairs:
        assert {"Auxiliary lemma", "Entropy proposition", "Theorem 4.4"} <= {one.name for one in pair.statements}
        assert not any(one.violations for one in pair.statements)
        assert all(one.premise for one in pair.statements if one.name in ("Auxiliary lemma", "Entropy proposition"))
    assert "Auxiliary lemma" in (out / "index.html").read_text()


def test_csv_files_hold_every_cell_point_and_choice(done):
    found, out, _ = done
    assert len(lines_of(out / "cells.csv")) == sum(len(pair.cells) + len(pair.comparison.cells) for pair in found.pairs)
    pair = found.pairs[1]
    shown = [line for line in lines_of(out / "cells.csv") if line["file"] == pair.name]
    assert [float(line["value"]) for line in shown[: len(pair.cells)]] == [cell.value for cell in pair.cells]
    points = lines_of(out / "curves.csv")
    assert len(points) == 3 * 3 * 3 * 5 * 2 * len(swept_metrics())  # files, CP sizes, scores, temperatures, alphas
    wanted = {"file": "mine", "cp_percent": "20", "method": "aps", "alpha": "0.1", "metric": "avg_size"}
    mine = [line for line in points if wanted.items() <= line.items()]
    curves = found.pairs[2].measured.curves[20]
    np.testing.assert_array_equal([float(line["temperature"]) for line in mine], curves.temperatures)
    np.testing.assert_array_equal([float(line["mean"]) for line in mine], curves.curve("avg_size", "aps", 0.1))
    tuned = [line for line in lines_of(out / "temperatures.csv") if line["rule"] == "own tuning"]
    assert len(tuned) == 3 * 4
    assert all(line["taken"].startswith("RAPS(penalty=") and line["alpha"] == "0.1" for line in tuned)


def test_the_page_shows_all_and_asks_nobody(done):
    _, out, _ = done
    page = (out / "index.html").read_text()
    assert page.count("<img ") == 3 * len(FIGURES) + 1
    assert page.count("<table ") == len(list((out / "tables").glob("*.csv")))
    assert "Skipped unlabelled.npz: " in page
    assert not re.search(r"(src|href)='?https?:", page)


def test_figures_stand_with_their_tables_and_the_contents_lead_to_both(done):
    page = (done[1] / "index.html").read_text()
    links, ids = re.findall(r"href='#([^']+)'", page), re.findall(r" id='([^']+)'", page)
    assert len(links) == len(set(links))
    assert set(links) <= set(ids)
    assert len(ids) == len(set(ids))
    by_section = {part.split("'")[0]: part for part in page.split("<section id='part-")[1:]}
    assert list(by_section) == [
        "overview", "claims", "agreement", "calibration", "alpha-0.1", "alpha-0.05", "rows", "guideline", "rules",
        "low", "theory",
    ]  # fmt: skip
    shown = {
        "calibration": ("temperatures", "reliability"),
        "alpha-0.1": ("sizes-alpha-0.1-cp-10", "alpha = 0.1: sizes"),
    }
    for section, (table, caption) in shown.items():
        assert f"<table id='{table}'" in by_section[section]
        assert by_section[section].count("<img ") == 3 + (section == "alpha-0.1"), "a figure of each file"
        assert caption in by_section[section]


def test_claims_are_counted_by_file_and_counterexamples_are_listed(done):
    found, out, _ = done
    lines = lines_of(out / "tables" / "claims.csv")
    for pair in found.pairs:
        told = Counter(claim.text for claim in pair.claims if claim.holds)
        for line in lines:
            held = told[line["what the paper says"]]
            assert (held == 6) == (line[pair.title] == "✓ 6 of 6")
            assert ("✓" in line[pair.title]) == (held > 0)
    assert len(lines_of(out / "tables" / "claims-in-full.csv")) == sum(len(pair.claims) for pair in found.pairs)
    against = [claim for pair in found.pairs for claim in pair.claims if claim.holds is False]
    assert against, "four trials and five temperatures: some do not hold"
    assert len(lines_of(out / "tables" / "counterexamples.csv")) == len(against)


@pytest.mark.long
def test_the_same_seed_gives_the_same_bytes_whatever_the_threads(folder, tmp_path, monkeypatch):
    one = tmp_path / "one"
    one.mkdir()
    (one / "mine.npz").write_bytes((folder / "mine.npz").read_bytes())
    few = replace(SETTINGS, cp_percents=(10,), trials=2)
    written = []
    for threads in "12":
        monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
        written.append(study(one, tmp_path / threads, few).files)
    first, second = written
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name


@pytest.mark.parametrize(("make", "message"), [(False, "does not exist"), (True, "holds no file of logits")])
def test_a_folder_without_logits_is_refused(tmp_path, make, message):
    folder = tmp_path / "none"
    if make:
        folder.mkdir()
    with pytest.raises(ts.InputError, match=message):
        logits_files(folder)


def test_labels_beside_an_npy_file_are_part_of_it(tmp_path):
    ts.save(tmp_path / "val.npy", ts.Logits(*generated(50, 3, signal=0.5)))
    assert [path.name for path in logits_files(tmp_path)] == ["val.npy"]


def test_a_folder_whose_files_are_all_unusable_is_refused(tmp_path):
    ts.save(tmp_path / "val.npz", ts.Logits(generated(50, 3, signal=0.5)[0]))
    with pytest.raises(ts.InputError, match="no file could be studied"):
        study(tmp_path, tmp_path / "out", SETTINGS)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rows", [20, 100, 350, 359])
def test_a_file_with_too_few_rows_is_refused_in_words(rows):
    with pytest.raises(ts.InputError, match=r"has \d+ rows, of which 10% .* the study needs 36"):
        study_logits(ts.Logits(*generated(rows, 3, signal=0.5)), "small", SETTINGS)


@pytest.mark.usefixtures("undrawn")
def test_the_command_says_what_it_found_and_where_it_is(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv",
        ["thermoset", "study", str(folder), "--out", str(tmp_path / "o"), "--trials", "2", "--seed", "5",
         "--alpha", "0.2,0.1", "--cp", "10,30", "--temperatures", "0.5,1,2"],
    )  # fmt: skip
    monkeypatch.setenv("COLUMNS", "140")
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert not ended.value.code, told.err
    assert "CIFAR-10, ResNet50" in told.out
    assert "Skipped unlabelled.npz: " in told.out
    assert str(tmp_path / "o" / "index.html") in told.out
    page = (tmp_path / "o" / "index.html").read_text()
    assert "2 random splits, seed 5; alpha 0.2 and 0.1; CP sets of 10%, 30%; temperatures 0.5,1,2." in page
    points = lines_of(tmp_path / "o" / "curves.csv")
    assert {(line["alpha"], line["cp_percent"]) for line in points} == {
        (alpha, cp) for alpha in ("0.2", "0.1") for cp in ("10", "30")
    }
    assert {line["temperature"] for line in points} == {"0.5", "1.0", "2.0"}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("", ["--alpha", "0.1,2"], "alpha must"),
        ("", ["--alpha", ","], "alphas must be one number or more"),
        ("", ["--cp", "10%"], "--cp must be whole percentages"),
        ("", ["--cp", "95"], "none are left to evaluate"),
        ("", ["--temperatures", "1"], "temperatures must be 3 to 500"),
        ("no", [], "must be a folder"),
    ],
)
def test_the_command_refuses_before_the_work(folder, tmp_path, monkeypatch, capsys, name, options, message):
    out = tmp_path / "o"
    monkeypatch.setattr(sys, "argv", ["thermoset", "study", str(folder / name), "--out", str(out), *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["val.csv", "val.npz", "other.npz"], ["val.csv", "val.npz", "other"]),  # the ending tells them apart
        (["val.csv", "val.csv.npz", "val.npz"], ["val.csv", "val.csv (2)", "val.npz"]),
        (["a\udcff.npz", "a\\udcff.npz"], ["a\\udcff", "a\\udcff (2)"]),  # not UTF-8; and what that is written as
        (["two\nlines.npz"], ["two\\nlines"]),
        (["...npz", "..npz"], ["...npz", "..npz"]),  # no folder is called .. but the one above
    ],
)
def test_every_file_has_a_name_of_its_own_that_can_be_shown(files, names):
    found = _names([Path(name) for name in files])
    assert list(found.values()) == names
