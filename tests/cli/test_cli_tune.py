"""`thermoset tune` and `thermoset report` as a user runs them, and the help of all commands."""

import io
import json
import math
import re
import sys
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from scipy.stats import beta

import thermoset as ts
from choices import made_choice, with_choice
from commands import Done
from law import generated
from parts import require
from thermoset.calibration import probabilities
from thermoset.cli.output import Screen
from thermoset.cli.tune import _figures, show_predictor
from thermoset.errors import install_command
from thermoset.metrics import negative_log_likelihood, reliability_table

pytestmark = pytest.mark.slow

COMMANDS = ("tune", "predict", "check", "adapt", "sweep", "study", "demo")


def saved(predictor, path):
    predictor.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def fitted(tuned):
    """What the library makes of the rows that the command was given."""
    return ts.TwoTemperaturePredictor(random_state=tuned.seed).fit(ts.load(tuned.val))


# --- the file -------------------------------------------------------------------------------------------------------


def test_the_predictor_is_the_librarys(tuned, fitted, tmp_path):
    made = tuned.predictor
    assert made.document_.change(checksum="") == fitted.document_
    assert made.document_.recipe.random_state == tuned.seed
    assert (made.temperature_, made.temperature_sets_, made.threshold_) == (
        fitted.temperature_,
        fitted.temperature_sets_,
        fitted.threshold_,
    )
    fresh = ts.load(tuned.fresh)
    assert made.predict_proba(fresh).tobytes() == fitted.predict_proba(fresh).tobytes()
    assert np.array_equal(made.predict_set(fresh), fitted.predict_set(fresh))
    assert made.predict_records(fresh) == fitted.predict_records(fresh)
    assert tuned.path.read_bytes() == saved(fitted, tmp_path / "api.json")


@pytest.mark.long
def test_the_seed_decides_every_byte_and_threads_none(command, tmp_path):
    # 100 classes: blocks of 655 rows, so that there is work for two threads in each half
    ts.save(tmp_path / "wide.npz", ts.Logits(*generated(1400, 100, signal=0.5)))
    for threads in (1, 2):
        asked = ("tune", tmp_path / "wide.npz", "--out", tmp_path / str(threads), "--seed", 8, "--no-report")
        done = command(*asked, THERMOSET_NUM_THREADS=str(threads))
        assert done.returncode == 0, done
    one, two = ((tmp_path / str(threads) / "predictor.json").read_bytes() for threads in (1, 2))
    assert one == two
    assert json.loads(one)["recipe"]["random_state"] == 8


# --- the screen -----------------------------------------------------------------------------------------------------


def cells(line):
    return re.split(r"\s{2,}", line.strip())


def rows_of_table(done, header):
    """Cells of the lines of a table by their first, from its header to the next empty line."""
    lines = done.stdout.splitlines()
    begin = next(i for i, line in enumerate(lines) if cells(line)[:1] == [header]) + 2
    end = next(i for i in range(begin, len(lines)) if not lines[i].strip())
    return {row[0]: row[1:] for row in map(cells, lines[begin:end])}


def test_the_screen_shows_the_data_and_both_temperatures(tuned, fitted):
    shown = tuned.done.words
    assert "Data val.npz: 6 classes; 1,000 rows for the temperatures, 1,000 for the threshold" in shown
    assert f"T* = {fitted.temperature_:.3f} (NLL)" in shown
    assert (
        f"LAC, alpha = 0.1, chosen among 4 kinds of sets, prefer small: T-hat = {fitted.temperature_sets_:.3f}" in shown
    )


def test_the_screen_shows_calibration_before_and_after(tuned):
    _, judged = ts.load(tuned.val).split("0.5", random_state=tuned.seed)
    before = probabilities(judged, 1.0)
    table = rows_of_table(tuned.done, "softmax at")
    assert list(table) == ["T = 1", "T*"]
    ece, nll = (cell.split(" (")[0] for cell in table["T = 1"])
    assert ece == f"{reliability_table(before, judged.labels).ece_estimate().value:.3f}"
    assert nll == f"{negative_log_likelihood(before, judged.labels):.3f}"
    for now, then in zip(table["T*"], table["T = 1"], strict=True):
        assert float(now.split(" (")[0]) < float(then.split(" (")[0]), "T* mends rows that are overconfident"


def test_the_screen_compares_sets_at_three_temperatures(tuned, fitted):
    table = rows_of_table(tuned.done, "sets at")
    assert list(table) == ["T = 1", "T*", "T-hat"]
    temperatures = (1.0, fitted.temperature_, fitted.temperature_sets_)
    assert [row[0] for row in table.values()] == [f"{t:.2f}" for t in temperatures]
    # the coverage of one predictor with n conformal rows follows Beta(k, n + 1 - k)
    k = math.ceil(1001 * (1 - Fraction("0.1")))
    low, high = beta(k, 1001 - k).ppf([0.025, 0.975])
    assert f"coverage {k / 1001:.3f} on average; this predictor: {low:.3f} to {high:.3f} (95%)" in tuned.done.words
    for row, seen in zip(table.values(), fitted.choice_.outlooks, strict=True):
        shares = [(seen.class_gap, seen.class_gap_ends), (seen.worst_tenth, seen.worst_tenth_ends)]
        wanted = [f"{value:.3f} ({ends[0]:.3f} to {ends[1]:.3f})" for value, ends in shares if value is not None]
        wanted += [
            f"{seen.size:.2f} ± {seen.reach * seen.size_error:.2f}",
            f"{seen.empty_share:.1%}",
            f"{seen.top_gap:.3f}",
        ]
        assert row[1:] == wanted
    assert f"by chance alone on these rows: {fitted.choice_.noise_floor:.3f}" in tuned.done.words


def printed(predictor, choice, width=100):
    """What the command prints of a choice."""
    stream = io.StringIO()
    show_predictor(Screen(file=stream, width=width), with_choice(predictor, choice), "val.npz")
    return Done(0, stream.getvalue(), "")


def test_the_screen_says_which_kind_of_sets_was_chosen_and_what_was_promised(fitted):
    done = printed(fitted, made_choice(fitted.temperature_sets_))
    hat = f"T-hat = {fitted.temperature_sets_:.3f}"
    assert f"Sets LAC, alpha = 0.06, chosen among 3 kinds of sets, prefer small: {hat}" in done.words
    assert "; promised: at least 0.9 " in done.words
    plain = printed(fitted, fitted.choice_)
    assert "chosen among 4 kinds of sets" in plain.words
    assert "promised" not in plain.words


def test_the_screen_shows_what_one_could_have_instead(fitted):
    choice = made_choice(fitted.temperature_sets_)
    table = rows_of_table(printed(fitted, choice), "What you could have instead")
    hat = f"{fitted.temperature_sets_:.2f}"
    assert table == {
        f"recommended: LAC, T = {hat}, alpha 0.06": ["2.29 ± 0.06", "0.865 (0.845 to 0.885)", "0.0%"],
        "clustered: RAPS, clustered, T = 1.00": ["3.30 ± 0.06", "0.822 (0.802 to 0.842)", "2.0%"],
        "most even T-hat: RAPS, T = 2.00": ["6.15 ± 0.06", "0.859 (0.839 to 0.879)", "6.8%"],
        "Mondrian: RAPS, Mondrian, T = 1.00": ["7.90 ± 0.06", "0.842 (0.822 to 0.862)", "2.0%"],
    }, "T = 1 and T* stand in the table of sets"


def test_a_choice_without_a_frontier_has_nothing_to_compare(fitted):
    done = printed(fitted, made_choice(fitted.temperature_sets_, frontier=()))
    assert "instead" not in done.words


def test_one_screen_is_enough(fitted):
    assert (
        len(printed(fitted, made_choice(fitted.temperature_sets_)).stdout.splitlines()) <= 42
    )  # with what hard classes get


@pytest.mark.parametrize(("width", "last"), [(100, "TopCovGap"), (90, "empty"), (80, "labels")])
def test_a_narrow_terminal_leaves_columns_out_and_cuts_none(fitted, width, last):
    choice = made_choice(fitted.temperature_sets_)
    known = tuple(msgspec.structs.replace(at, top_gap=0.1) for at in choice.outlooks)
    done = printed(fitted, msgspec.structs.replace(choice, outlooks=known), width)
    head = next(line for line in done.stdout.splitlines() if cells(line)[:1] == ["sets at"])
    assert cells(head)[-1] == last
    assert "…" not in done.stdout
    assert all(len(line.rstrip()) <= width for line in done.stdout.splitlines())
    assert ("TopCovGap by chance" in done.words) is (last == "TopCovGap")


def test_the_screen_recommends_and_names_what_was_written(tuned, fitted):
    for sentence in fitted.choice_.sentences:
        assert sentence in tuned.done.words
    assert f"Recommendation {fitted.choice_.sentences[0]}" in tuned.done.words
    written = [line for line in tuned.done.stdout.splitlines() if line.startswith("Wrote ")]
    assert sorted(written) == [f"Wrote {path}" for path in sorted(tuned.folder.iterdir())]


def test_nothing_but_text_where_there_is_no_terminal(tuned):
    assert "\x1b" not in tuned.done.stdout
    assert tuned.done.stderr == "", "no bar and no warning"


def test_figures_are_drawn_on_request(call, tuned, fitted, tmp_path):
    require("matplotlib", "plot")
    assert sorted(path.name for path in tuned.folder.iterdir()) == ["predictor.json", "report.html"]
    done = call("tune", tuned.val, "--out", tmp_path, "--seed", tuned.seed, "--no-report", "--figures", drawn=True)
    assert done.returncode == 0, done
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frontier.png", "predictor.json", "temperature.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.glob("*.png"))
    bare = with_choice(fitted, made_choice(fitted.temperature_sets_, frontier=()))
    assert list(_figures(bare)) == ["temperature.png"]


def test_the_result_is_there_before_the_page(call, tuned, tmp_path, monkeypatch):
    for module in ("vl_convert", "jinja2"):
        require(module, "report")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["thermoset.cli.tune"], "page_of", interrupt)
    done = call("tune", tuned.val, "--out", tmp_path, "--seed", tuned.seed)
    assert done.returncode == 130
    assert "Recommendation" in done.stdout
    assert (tmp_path / "predictor.json").read_bytes() == tuned.path.read_bytes()


def test_json_is_the_result_and_nothing_else(call, tuned, fitted, tmp_path):
    done = call("tune", tuned.val, "--out", tmp_path, "--seed", tuned.seed, "--no-report", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout, parse_constant=pytest.fail)
    assert (told["temperature"], told["temperature_sets"]) == (fitted.temperature_, fitted.temperature_sets_)
    assert told["recommendation"] == list(fitted.choice_.sentences)
    assert told["files"] == [str(tmp_path / "predictor.json")]
    assert [at["size"] for at in told["outlooks"]] == [at.size for at in fitted.choice_.outlooks]


def test_without_the_extras_the_figure_and_the_page_are_left_out(command, tuned, tmp_path):
    (tmp_path / "blocked").mkdir()
    blocked = "import sys\nsys.modules.update(dict.fromkeys(('matplotlib', 'jinja2', 'vl_convert')))\n"
    (tmp_path / "blocked" / "sitecustomize.py").write_text(blocked)
    out = tmp_path / "made"
    done = command(
        "tune", tuned.val, "--out", out, "--seed", tuned.seed, NO_COLOR="1", PYTHONPATH=str(tmp_path / "blocked")
    )
    assert done.returncode == 0, done
    assert done.stderr.splitlines() == [
        f"thermoset: skipped report.html: vl_convert is not installed. Run: {install_command('report')}"
    ]
    assert [path.name for path in out.iterdir()] == ["predictor.json"]
    assert (out / "predictor.json").read_bytes() == tuned.path.read_bytes()
    assert done.stdout.splitlines()[-1] == f"Wrote {out / 'predictor.json'}"
    assert ".png" not in done.stdout
    assert ".html" not in done.stdout
    assert "\x1b" not in done.stdout


# --- options --------------------------------------------------------------------------------------------------------

OPTIONS = {
    "alpha": (("--alpha", "0.25"), {"alpha": "0.25"}),
    "lac": (("--method", "lac", "--prefer", "small"), {"method": "lac", "prefer": "small"}),
    "saps": (("--method", "saps"), {"method": "saps"}),
    "size budget": (("--method", "aps", "--prefer", "size<=2"), {"method": "aps", "prefer": "size<=2"}),
    "gap budget": (("--prefer", "gap <= 0.2"), {"prefer": "gap<=0.2"}),
    "by hand": (("--temperature-sets", "2.5"), {"temperature_sets": 2.5}),
    "ece": (("--objective", "ece"), {"objective": "ece"}),
    "deterministic": (("--deterministic",), {"randomized": False}),
    "no empty": (("--no-empty", "--method", "aps"), {"allow_empty": False, "method": "aps"}),
    "class": (("--grouping", "class"), {"grouping": "class"}),
    "fraction": (("--calibration-fraction", "0.3"), {"calibration_fraction": "0.3"}),
}


WITH_A_PAGE = ("saps", "size budget")  # tests/report has a page of every other kind


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_reaches_the_predictor(call, tuned, tmp_path, option):
    arguments, asked = OPTIONS[option]
    page = () if option in WITH_A_PAGE else ("--no-report",)
    done = call("tune", tuned.val, "--out", tmp_path / "made", *arguments, *page)
    assert (done.returncode, done.stderr) == (0, ""), done
    made = (tmp_path / "made" / "predictor.json").read_bytes()
    want = ts.TwoTemperaturePredictor(**asked).fit(ts.load(tuned.val))
    assert made == saved(want, tmp_path / "api.json")
    assert want.choice_.met
    assert f"T-hat = {want.temperature_sets_:.3f}" in done.words


@pytest.mark.parametrize("budget", ["size<=0.5", "gap<=0"])
def test_a_budget_that_cannot_be_met_is_a_warning(call, tuned, tmp_path, budget):
    done = call("tune", tuned.val, "--out", tmp_path, "--prefer", budget, "--no-report")
    assert done.returncode == 0, done
    made = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    assert not made.choice_.met
    assert done.stderr.startswith("thermoset: warning: ")
    assert budget in done.stderr
    assert done.stderr.count("\n") == 1


def test_too_few_conformal_rows_are_a_warning(call, tmp_path):
    ts.save(tmp_path / "few.npz", ts.Logits(*generated(100, 4)))
    done = call("tune", tmp_path / "few.npz", "--out", tmp_path, "--calibration-fraction", "0.95")
    assert done.returncode == 0, done
    assert "thermoset: warning: alpha=0.1 needs at least 9 rows for a finite threshold; got 5." in done.stderr
    assert ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json").threshold_ == math.inf


# --- bad input ------------------------------------------------------------------------------------------------------

BAD = [
    (("--method", "apps"), "method must be a score object or one of"),
    (("--prefer", "tiny"), "prefer must be 'small', 'even', 'protect', or a bound"),
    (("--prefer", "gap<=0.1", "--grouping", "class"), "needs one threshold for all classes"),
    (("--alpha", "x"), "of at most 100 digits; got 'x'"),
    (("--alpha", "0.001"), "needs at least 1998 rows"),
    (("--calibration-fraction", "0.0001"), "has no row"),
    (("--objective", "best"), "--objective"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_options_are_one_line_exit_code_2_and_no_file(call, tuned, tmp_path, arguments, message):
    call("tune", tuned.val, "--out", tmp_path / "made", *arguments).assert_refused(message)
    assert list(tmp_path.iterdir()) == []


def test_bad_rows_are_one_line_exit_code_2_and_no_file(call, tmp_path):
    logits, labels = generated(40, 3)
    for arrays, message in (({}, "needs labels"), ({"labels": labels + 5}, "must be in 0..2")):
        np.savez(tmp_path / "bad.npz", logits=logits, **arrays)
        call("tune", tmp_path / "bad.npz", "--out", tmp_path / "made").assert_refused(message)
        assert [path.name for path in tmp_path.iterdir()] == ["bad.npz"]


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(call, tuned, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "made"):
        call("tune", tuned.val, "--out", out).assert_refused("cannot be created")
        call("tune", tmp_path / "none.npz", "--out", out).assert_refused("cannot be created")
    assert (tmp_path / "file").read_text() == "mine"


def test_bad_input_leaves_an_older_predictor_alone(call, tuned, tmp_path):
    (tmp_path / "predictor.json").write_bytes(tuned.path.read_bytes())
    call("tune", tuned.val, "--out", tmp_path, "--alpha", "0.001").assert_refused("needs at least 1998")
    assert (tmp_path / "predictor.json").read_bytes() == tuned.path.read_bytes()
    assert len(list(tmp_path.iterdir())) == 1


def test_brackets_in_names_of_files_are_no_markup(call, tuned, tmp_path):
    odd = tmp_path / "val[old].npz"
    odd.write_bytes(tuned.val.read_bytes())
    done = call("tune", odd, "--out", tmp_path / "[bold]made", "--no-report")
    assert done.returncode == 0, done
    assert "Data val[old].npz: " in done.words
    assert f"Wrote {tmp_path / '[bold]made' / 'predictor.json'}" in done.stdout


# --- help -----------------------------------------------------------------------------------------------------------

OF_HELP = {
    (): COMMANDS,
    ("sweep",): ("--alpha", "--json"),
    ("tune",): ("--alpha", "--method", "--prefer", "--out", "--grouping", "--probabilities"),
    ("predict",): ("--out", "--probabilities", "--quiet"),
    ("check",): ("--fail-on", "--json", "--probabilities"),
    ("adapt",): ("--out", "--scores", "--labels", "--quiet"),
}


@pytest.mark.parametrize("asked", OF_HELP, ids=" ".join)
def test_help_lists_everything_and_loads_nothing_heavy(command, asked):
    done = command(*asked, "--help", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert set(OF_HELP[asked]) <= set(done.stdout.split())
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in loaded, "imports are listed on standard error"
    assert not loaded & {"numpy", "numba", "scipy", "sklearn", "msgspec", "matplotlib", "pyarrow", "torch"}


def test_scores_are_kept_unless_they_are_not_wanted(call, tuned, tmp_path):
    assert tuned.predictor.document_.scores is not None
    done = call("tune", tuned.val, "--out", tmp_path, "--no-scores", "--no-report", "--prefer", "small")
    assert done.returncode == 0, done
    assert ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json").document_.scores is None


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.fixture
def drawable():
    for module in ("vl_convert", "jinja2"):
        require(module, "report")


def test_report_writes_the_page_of_the_library_and_tune_writes_one_beside_the_predictor(
    drawable, tuned, command, tmp_path
):
    from thermoset.report import build_report, render_page

    out = tmp_path / "fresh.html"
    done = command("report", tuned.path, tuned.fresh, "--out", out, "--trials", 3, "--name", "some <rows>", "--quiet")
    assert (done.returncode, done.stdout) == (0, f"Wrote {out}\n"), done.stderr
    report = build_report(tuned.predictor, ts.load(tuned.fresh), name="some <rows>", trials=3)
    assert out.read_text(encoding="utf-8") == render_page(report)
    text = (tuned.folder / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert f"{tuned.predictor.temperature_sets_:.3f}" in text


def test_other_files_and_the_rows_that_set_the_threshold_are_refused(drawable, tuned, call, tmp_path):
    call("report", tuned.path, tuned.fresh, "--out", tmp_path / "page.txt").assert_refused("must be an HTML file")
    call("report", tuned.path, tuned.fresh, "--out", tmp_path).assert_refused("must be an HTML file")
    _, conformal = ts.load(tuned.val).split("0.5", random_state=tuned.seed)
    ts.save(tmp_path / "conformal.npz", conformal)
    done = call("report", tuned.path, tmp_path / "conformal.npz", "--out", tmp_path / "r.html", "--quiet")
    done.assert_refused("rows that set the threshold")
    assert not (tmp_path / "r.html").exists()
