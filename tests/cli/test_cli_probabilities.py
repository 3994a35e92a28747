"""Commands on logits and on probabilities: who is warned, who is refused, and what is said of labels at zero."""

import numpy as np
import pytest

import thermoset as ts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Rows as logits and as probabilities, and a predictor that was tuned on each."""
    folder = tmp_path_factory.mktemp("kinds")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 400)
    logits = 2 * (rng.normal(size=(400, 4)) + 1.5 * np.eye(4)[labels])
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for name, values in (("logits", logits), ("probs", probs)):
        np.savez(folder / f"{name}.npz", logits=values, labels=labels)
        np.savez(folder / f"{name}_new.npz", logits=values[300:], labels=labels[300:])
    for name, data in (("logits", ts.Logits(logits, labels)), ("probs", ts.Logits.from_probabilities(probs, labels))):
        predictor = ts.TwoTemperaturePredictor("lac", 0.2, prefer="small").fit(data.take(slice(0, 300)))
        predictor.save(folder / f"{name}.json")
    return folder


COMMANDS = ["predict", "check", "adapt", "adapt --shift", "monitor", "report"]


def arguments(command, folder, predictor, rows, out):
    model, file = folder / f"{predictor}.json", folder / f"{rows}_new.npz"
    more = {
        "predict": ["--out", out / "x.csv"],
        "adapt": ["--out", out / "x.json"],
        "adapt --shift": ["--shift", "--out", out / "x.json"],
        "report": ["--out", out / "x.html"],
        "monitor": [],
        "check": [],
    }[command]
    if command == "monitor":
        return [command, model, file, "--state", out / "state.json"]
    return [command.split()[0], model, file, *more]


@pytest.mark.parametrize("command", COMMANDS)
def test_rows_of_the_other_kind_are_refused(call, files, tmp_path, command):
    """One line, exit code 2, nothing written; rows of the right kind go through."""
    of_logits = arguments(command, files, "logits", "probs", tmp_path)
    call(*of_logits).assert_refused("was fitted on logits, and these rows are probabilities")
    call(*of_logits, "--probabilities").assert_refused("was fitted on logits, and these rows come from")
    of_probs = arguments(command, files, "probs", "logits", tmp_path)
    call(*of_probs).assert_refused("was fitted on probabilities, and these rows are logits")
    as_logits = arguments(command, files, "probs", "probs", tmp_path)
    call(*as_logits).assert_refused("--probabilities for commands")
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []


def test_rows_of_its_own_kind_are_predicted(call, files, tmp_path):
    for kind, options in (("logits", ()), ("probs", ("--probabilities",))):
        done = call("predict", files / f"{kind}.json", files / f"{kind}_new.npz", "--out", tmp_path / "x.csv", *options)
        assert (done.returncode, "warning" in done.stderr) == (0, False), done


@pytest.mark.parametrize("options", [(), ("--memory", "64MiB")])
def test_sweep_warns_of_probabilities(call, files, tmp_path, options):
    asked = ("--temperatures", "1,2", "--trials", "2", "--methods", "lac", *options)
    done = call("sweep", files / "probs.npz", "--out", tmp_path, *asked)
    assert done.returncode == 0, done
    assert done.stderr.count("these logits look like probabilities") == 1
    assert "--probabilities" in done.stderr
    assert "look like" not in call("sweep", files / "probs.npz", "--out", tmp_path, *asked, "--probabilities").stderr


def test_tune_warns_and_counts_labels_of_probability_zero(call, files, tmp_path):
    rng = np.random.default_rng(1)
    whole = rng.dirichlet(np.full(4, 0.7), size=300)
    labels = (whole.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
    kept = np.where(whole < 0.1, 0.0, whole)
    kept /= kept.sum(axis=1, keepdims=True)
    n_zero = np.count_nonzero(kept[np.arange(300), labels] == 0)
    assert n_zero > 5
    np.savez(tmp_path / "votes.npz", probs=kept, labels=labels)
    asked = ("--out", tmp_path / "made", "--alpha", "0.3", "--no-report", "--probabilities")
    done = call("tune", tmp_path / "votes.npz", *asked)
    assert done.returncode == 0, done
    assert f"the labels of {n_zero} of 300 rows have probability zero" in done.stderr
    made = ts.TwoTemperaturePredictor.load(tmp_path / "made" / "predictor.json").document_
    came = made.provenance
    assert (made.input_kind, came.calibration_zero_labels + came.conformal_zero_labels) == ("probabilities", n_zero)
    assert f"NLL leaves out {came.calibration_zero_labels} of 150 rows, whose label has probability zero" in done.words
    with np.errstate(divide="ignore"):
        np.savez(tmp_path / "plain.npz", logits=kept, labels=labels)
    done = call("tune", tmp_path / "plain.npz", "--out", tmp_path / "made", "--alpha", "0.3", "--no-report")
    assert done.stderr.count("these logits look like probabilities") == 1


def test_export_says_what_to_give_the_file(call, files, tmp_path):
    pytest.importorskip("onnx")
    done = call("export", files / "probs.json", "--out", tmp_path / "p.onnx")
    assert "fitted on probabilities: give the model their logarithms as logits" in done.words
    assert "logarithms" not in call("export", files / "logits.json", "--out", tmp_path / "p.onnx").words
