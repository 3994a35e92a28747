"""`thermoset check` as a user runs it: its exit codes, its sentences, and its JSON."""

import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.cli.output import Screen
from thermoset.cli.promises import show_check

pytestmark = pytest.mark.slow

COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7])(?:;\d+)*m")


@pytest.fixture(scope="module")
def mondrian(command, tuned, tmp_path_factory):
    """A predictor with a threshold for each class, tuned by the command."""
    out = tmp_path_factory.mktemp("class")
    done = command("tune", tuned.val, "--out", out, "--grouping", "class", "--prefer", "small", "--no-report")
    assert done.returncode == 0, done
    return out / "predictor.json"


@pytest.fixture
def shuffled(tuned, tmp_path):
    """Fresh rows whose labels belong to other rows."""
    fresh = ts.load(tuned.fresh)
    path = tmp_path / "shuffled.npz"
    ts.save(path, ts.Logits(fresh.logits, np.random.default_rng(0).permutation(fresh.labels), fresh.classes))
    return path


def with_one_poor_class(predictor, data):
    """Rows picked so that 900 of 1,000 are covered, but of the last class 20 of 40 only."""
    hit = predictor.predict_set(data)[np.arange(len(data)), data.labels]
    poor = data.labels == data.n_classes - 1
    kinds = ((poor & hit, 20), (poor & ~hit, 20), (~poor & hit, 880), (~poor & ~hit, 80))
    return data.take(np.sort(np.concatenate([np.flatnonzero(rows)[:count] for rows, count in kinds])))


# --- rows that were used --------------------------------------------------------------------------------------------


def test_the_file_that_the_predictor_was_tuned_on_is_refused(call, tuned):
    said = (
        "2,000 of 2,000 rows were used to fit this predictor (1,000 chose the temperatures, 1,000 set the threshold), "
    )
    call("check", tuned.path, tuned.val).assert_refused(said)
    call("check", tuned.path, tuned.val, "--json").assert_refused("Check rows that were not used.")


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_so_is_a_part_of_it_in_another_order_and_form(call, tuned, tmp_path, suffix):
    some = ts.load(tuned.val).take(np.random.default_rng(0).permutation(2000)[:300])
    kind = np.float16 if suffix == "npz" else np.float32
    ts.save(tmp_path / f"some.{suffix}", ts.Logits(some.logits.astype(kind), some.labels, some.classes))
    done = call("check", tuned.path, tmp_path / f"some.{suffix}")
    done.assert_refused("of 300 rows were used to fit this predictor")


def test_a_few_used_rows_are_counted_in_a_warning(call, tuned, tmp_path):
    used, fresh = ts.load(tuned.val).take(slice(0, 4)), ts.load(tuned.fresh)
    ts.save(tmp_path / "mixed.npz", fresh.concatenate(used))
    done = call("check", tuned.path, tmp_path / "mixed.npz")
    assert done.returncode == 0
    assert done.stderr.startswith("thermoset: warning: 4 of 2,004 rows have the same logits as rows that were used")
    assert done.stderr.count("\n") == 1


# --- exit codes -----------------------------------------------------------------------------------------------------


def test_rows_like_those_of_tuning_are_covered_as_promised(command, tuned):
    done = command("check", tuned.path, tuned.fresh, "--fail-on", "classes,confidence", NO_COLOR="1")
    assert (done.returncode, done.stderr) == (0, ""), done
    report = tuned.predictor.check(ts.load(tuned.fresh))
    seen, sure = report.marginal, report.calibration
    lines = [line.split() for line in done.stdout.splitlines()]
    allowed = f"{seen.allowed.low:.4f} to {seen.allowed.high:.4f}"
    assert ["coverage", f"{seen.coverage:.4f}", *allowed.split(), f"{seen.p_value:.2g}"] in lines
    assert f"TopCovGap {report.top_gap:.4f} chance: {report.floor.top_mean:.4f}" in done.words
    assert f"ECE {sure.ece:.4f} chance: {sure.ece_mean:.4f}, 95%: {sure.ece_95:.4f} {sure.p_value:.2g}" in done.words
    assert "0 of 6 classes have coverage significantly below 0.9 (not promised for any)" in done.words
    assert "PASS: coverage is consistent with the promised 0.9." in done.stdout.splitlines()
    assert done.words.endswith("To watch a predictor over time, use thermoset monitor.")
    assert "FAIL:" not in done.stdout
    assert "\x1b" not in done.stdout


def test_shuffled_labels_break_the_promise(command, tuned, shuffled):
    done = command("check", tuned.path, shuffled)
    assert (done.returncode, done.stderr) == (1, ""), done
    (sentence,) = tuned.predictor.check(ts.load(shuffled)).broken
    assert f"FAIL: {sentence}" in done.words
    assert re.search(
        r"FAIL: Coverage is 0\.\d+ on 2,000 rows, below the promised 0\.9: the expected 95% range is", done.words
    )
    assert "PASS" not in done.stdout
    assert "\x1b" not in done.stdout


def test_a_poor_class_fails_when_asked_to(call, tuned, tmp_path):
    poor = with_one_poor_class(tuned.predictor, ts.load(tuned.fresh))
    assert len(poor) == 1000
    ts.save(tmp_path / "poor.npz", poor)
    asked = ("check", tuned.path, tmp_path / "poor.npz")
    done = call(*asked)
    assert (done.returncode, done.stderr) == (0, ""), "nothing was promised for a class"
    assert "1 of 6 classes have coverage significantly below 0.9" in done.words
    done = call(*asked, "--fail-on", "classes")
    assert (done.returncode, done.stderr) == (1, ""), done
    assert "FAIL: Coverage is below 0.9 in 1 of 6 classes, for which it was not promised" in done.words
    assert "'fox' (20 of 40 rows, p = " in done.words
    assert done.words.count("FAIL:") == 1
    assert call(*asked, "--fail-on", "confidence").words.count("FAIL:") == 0


def test_wrong_confidence_fails_when_asked_to(call, tuned, tmp_path):
    fresh = ts.load(tuned.fresh)
    flat = ts.Logits(fresh.logits / 2, fresh.labels, fresh.classes)  # less sure than it is right; sets only grow
    ts.save(tmp_path / "flat.npz", flat)
    asked = ("check", tuned.path, tmp_path / "flat.npz")
    plain = call(*asked)
    assert plain.returncode == 0
    assert f"Note {tuned.predictor.check(flat).calibration.sentence}" in plain.words
    for names in ("confidence", "classes,confidence", " confidence , classes"):
        done = call(*asked, "--fail-on", names)
        assert (done.returncode, done.stderr) == (1, ""), done
        assert f"FAIL: {tuned.predictor.check(flat).calibration.sentence}" in done.words
        assert done.words.count("FAIL:") == 1
    assert call(*asked, "--fail-on", "classes").returncode == 0


# --- promises by class ----------------------------------------------------------------------------------------------


def test_a_threshold_for_each_class_is_a_promise_for_each(call, tuned, mondrian, tmp_path):
    done = call("check", mondrian, tuned.fresh)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "0 of 6 classes have coverage significantly below 0.9 (promised for each)" in done.words
    model = ts.TwoTemperaturePredictor.load(mondrian)
    ts.save(tmp_path / "poor.npz", with_one_poor_class(model, ts.load(tuned.fresh)))
    done = call("check", mondrian, tmp_path / "poor.npz", "--json")
    assert (done.returncode, done.stderr) == (1, ""), done
    told = json.loads(done.stdout)
    assert (told["grouping"], told["class_law"]) == ("class", "beta-binomial")
    assert (told["marginal"]["hits"], told["marginal"]["rows"]) == (900, 1000)
    assert (told["classes"][5]["hits"], told["classes"][5]["rows"]) == (20, 40)
    (sentence,) = told["broken"]
    assert sentence.startswith("Coverage is below the promised 0.9 in 1 of 6 classes")
    assert "'fox' (20 of 40 rows" in sentence


# --- for machines ---------------------------------------------------------------------------------------------------


def test_json_is_the_librarys_report_and_nothing_else(command, tuned, shuffled):
    done = command("check", tuned.path, shuffled, "--json", "--fail-on", "confidence")
    assert (done.returncode, done.stderr) == (1, "")
    told = json.loads(done.stdout, parse_constant=pytest.fail)  # NaN and Infinity are not JSON
    want = tuned.predictor.check(ts.load(shuffled), fail_on="confidence")
    assert told == want.to_json_dict()
    assert (told["ok"], told["rows"], told["fail_on"], len(told["broken"])) == (False, 2000, ["confidence"], 2)
    hits = tuned.predictor.predict_set(ts.load(shuffled))[np.arange(2000), ts.load(shuffled).labels]
    assert told["marginal"]["hits"] == hits.sum()
    assert told["class_names"] == list(ts.load(tuned.fresh).classes)


def test_absent_and_masked_classes(call, tuned, tmp_path):
    fresh = ts.load(tuned.fresh)
    some = fresh.take(np.flatnonzero(fresh.labels < 2)[:50])
    masked = some.logits.copy()
    masked[:, 5] = -np.inf
    masked[0, some.labels[0]] = -np.inf  # its true class: an infinite loss
    ts.save(tmp_path / "some.npz", ts.Logits(masked, some.labels, some.classes))
    done = call("check", tuned.path, tmp_path / "some.npz", "--json")
    assert done.returncode == 0, done
    told = json.loads(done.stdout, parse_constant=pytest.fail)
    assert told["calibration"]["nll"] is None
    assert [entry["rows"] > 0 for entry in told["classes"]] == [True, True, False, False, False, False]
    assert told["classes"][5]["p_holm"] is None
    done = call("check", tuned.path, tmp_path / "some.npz")
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 of 2 classes" in done.words
    assert "nan" not in done.stdout


# --- bad input ------------------------------------------------------------------------------------------------------


def test_an_unknown_name_to_fail_on_is_refused(call, tuned):
    done = call("check", tuned.path, tuned.fresh, "--fail-on", "classes,ece")
    done.assert_refused("fail_on accepts ")
    assert "'ece'" in done.stderr


def test_rows_that_cannot_be_checked_are_refused(call, tuned, tmp_path):
    fresh = ts.load(tuned.fresh)
    narrow = {"logits": fresh.logits[:, :3], "labels": fresh.labels % 3}
    for arrays, message in (({"logits": fresh.logits}, "check needs labels"), (narrow, "X has 3 features")):
        np.savez(tmp_path / "bad.npz", **arrays)
        call("check", tuned.path, tmp_path / "bad.npz", "--json").assert_refused(message)
    call("check", tuned.path, tmp_path / "none.npz").assert_refused("there is no such file")


# --- on a terminal --------------------------------------------------------------------------------------------------


def test_no_color_is_respected(call, monkeypatch, tuned, shuffled):
    monkeypatch.setenv("FORCE_COLOR", "1")  # how one tells rich to take a pipe for a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert COLOUR.search(call("check", tuned.path, shuffled).stdout)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOUR.search(call("check", tuned.path, shuffled).stdout)


def test_names_of_classes_are_no_markup(call, tuned, tmp_path):
    names = ("[unk]", "[/INST]", ":dog:", "[bold red]", "a\\", "[link=x]")
    val, fresh = ts.load(tuned.val), ts.load(tuned.fresh)
    model = ts.TwoTemperaturePredictor(prefer="small").fit(ts.Logits(val.logits, val.labels, names))
    model.save(tmp_path / "odd.json")
    half_wrong = ts.Logits(fresh.logits, (fresh.labels + np.arange(len(fresh)) % 2) % 6, names)
    ts.save(tmp_path / "odd.npz", half_wrong)
    done = call("check", tmp_path / "odd.json", tmp_path / "odd.npz", "--fail-on", "classes")
    assert (done.returncode, done.stderr) == (1, ""), done
    for sentence in model.check(half_wrong, fail_on="classes").broken:
        assert sentence in done.words
    assert "[/INST]" in done.words
    rows = [line.strip() for line in done.stdout.splitlines()]
    shown = {name for name in names for row in rows if row.startswith(f"{name} ")}
    assert len(shown) == 5, "the five classes with the lowest coverage, by name"


def test_an_output_that_cannot_be_written_is_no_broken_promise(tuned):
    """Exit code 1 means that coverage is broken, and nothing else does."""
    program = "import sys; sys.stdout = open('/dev/full', 'w'); from thermoset.cli import main; main()"
    arguments = ["check", tuned.path, tuned.fresh, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "the output cannot be written" in done.stderr


# --- groups of rows -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_sites():
    logits, labels = generated(3000, 4, signal=0.0, seed=0)
    sites = np.array([f"site {code}\x1b[31m" for code in np.arange(3000) % 7])
    hard = np.where(np.arange(3000) % 7 == 3, 12.0, 0.0)[:, None]
    logits = logits + hard * np.random.default_rng(1).normal(size=logits.shape)
    return ts.Logits(logits, labels, groups=sites)


def shown(report):
    text = io.StringIO()
    show_check(Screen(file=text, width=100), report)
    return text.getvalue()


def test_a_check_shows_the_lowest_groups(of_sites):
    fitted, fresh = of_sites.split(0.5)
    plain = ts.TwoTemperaturePredictor("lac", 0.2, prefer="small").fit(fitted)
    text = shown(plain.check(fresh))
    assert "1 of 7 groups have coverage significantly below 0.8 (not promised for any). The lowest:" in text
    assert "site 3\\x1b[31m" in text
    assert "\x1b" not in text
    assert "PASS: coverage is consistent with the promised" in text
    by_group = ts.TwoTemperaturePredictor("lac", 0.2, prefer="small", grouping="group").fit(fitted)
    text = shown(by_group.check(fresh))
    assert "0 of 7 groups have coverage significantly below 0.8 (promised for each)" in text
    text = shown(plain.check(fresh.logits, fresh.labels))
    assert "groups" not in text


def test_a_group_that_fell_back_has_no_p_value(of_sites):
    fitted, fresh = of_sites.split(0.5)
    options = {"prefer": "small", "grouping": "group", "fallback": "pooled"}
    by_group = ts.TwoTemperaturePredictor("lac", 0.2, **options).fit(fitted)
    named = ["mars"] * 40 + np.asarray(fresh.groups)[40:].tolist()
    labels = np.where(np.arange(1500) < 40, fresh.logits.argmin(axis=1), fresh.labels)
    text = shown(by_group.check(fresh.logits, labels, groups=named))
    (line,) = [line for line in text.splitlines() if line.strip().startswith("mars")]
    assert line.split()[1] == "40"
    assert line.split()[-2] == "to", "the interval is the last column that is filled"
