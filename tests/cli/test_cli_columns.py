"""Options that say what columns are, from the first command to the last; and ids, from input to output."""

import csv
import json

import numpy as np
import pytest

import thermoset as ts
from law import generated
from parts import require

pytestmark = pytest.mark.slow

CLASSES = ("fraud", "keep, sure", "review")
LOGITS, LABELS = generated(1200, 3, signal=0.3)
IDS = [f"r-{i}" for i in range(1200)]
SITES = [("north", "south")[i % 2] for i in range(1200)]


def write(path, part, **more):
    """Rows of a part as csv: an id, a site, logits by class, the true class, and more columns."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["request", "site", *CLASSES, "truth", *more])
        for i in range(1200)[part]:
            writer.writerow(
                [IDS[i], SITES[i], *LOGITS[i].tolist(), CLASSES[LABELS[i]], *(of(i) for of in more.values())]
            )
    return path


NAMED = ("--id-column", "request", "--groups", "site", "--labels", "truth")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A predictor, and files of rows that it has not seen."""
    folder = tmp_path_factory.mktemp("columns")
    rows = ts.Logits(LOGITS[:600], LABELS[:600], CLASSES)
    ts.TwoTemperaturePredictor("aps").fit(rows).save(folder / "predictor.json")
    write(folder / "val.csv", slice(0, 600))
    write(folder / "fresh.csv", slice(600, 1200))
    return folder


def test_the_issue(call, tmp_path):
    header = ["id", *CLASSES[:1], "keep", "review", "label"]
    rows = [[i, *LOGITS[i].tolist(), LABELS[i]] for i in range(40)]
    path = tmp_path / "val.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in (header, *rows)) + "\n")
    call("tune", path, "--out", tmp_path / "made").assert_refused("column 'id' looks like ids. Add --id-column id or")
    assert not (tmp_path / "made").exists()


def test_tune_reads_what_the_options_say(call, made, tmp_path):
    asked = ("--method", "aps", "--no-report", "--quiet")
    done = call("tune", made / "val.csv", *NAMED, *asked, "--out", tmp_path)
    assert done.returncode == 0, done
    want = json.loads((made / "predictor.json").read_text())
    found = json.loads((tmp_path / "predictor.json").read_text())
    assert found["classes"] == list(CLASSES)
    assert (found["temperature"], found["thresholds"]) == (want["temperature"], want["thresholds"])
    listed = tmp_path / "names.txt"
    listed.write_text("\n".join(CLASSES) + "\n", encoding="utf-8")
    for classes in ('fraud,"keep, sure",review', listed):
        done = call(
            "tune", made / "val.csv", "--classes", classes, "--labels", "truth", *asked, "--out", tmp_path / "b"
        )
        assert done.returncode == 0, done
        assert (tmp_path / "b" / "predictor.json").read_bytes() == (tmp_path / "predictor.json").read_bytes()


COMMANDS = {
    "check": ("{predictor}", "{fresh}"),
    "adapt": ("{predictor}", "{fresh}", "--out", "{out}/renewed.json"),
    "report": ("{predictor}", "{fresh}", "--out", "{out}/report.html", "--trials", 1),
    "sweep": ("{fresh}", "--temperatures", "1", "--trials", 1, "--out", "{out}"),
    "monitor": ("{predictor}", "{fresh}", "--state", "{out}/state.json"),
    "predict": ("{predictor}", "{fresh}", "--out", "{out}/sets.csv"),
    "adapt --shift": ("{predictor}", "{fresh}", "--shift", "--out", "{out}/shifted.json", "--bootstrap", 0),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_same_options(call, made, tmp_path, name):
    if name == "report":
        require("vl_convert", "report")
    places = {"predictor": made / "predictor.json", "fresh": made / "fresh.csv", "out": tmp_path}
    asked = [str(part).format(**places) for part in COMMANDS[name]]
    call(name.split()[0], *asked, "--quiet").assert_refused("--ignore request")
    named = ["--labels", "truth", "--id-column", "request", "--ignore", "site"]
    done = call(name.split()[0], *asked, *named, "--quiet")
    assert done.returncode == 0, done


def test_a_column_that_is_none_of_the_classes_is_named(call, made, tmp_path):
    path = write(tmp_path / "new.csv", slice(600, 640), age=lambda i: 20.5 + i % 7)
    asked = ("predict", made / "predictor.json", path, *NAMED, "--out", tmp_path / "sets.csv")
    call(*asked).assert_refused("column 'age' is none of the classes it was fitted on. Add --ignore age if it is not")
    done = call(*asked, "--ignore", "age")
    assert done.returncode == 0, done


def test_a_predictor_knows_its_classes_whatever_they_are_called(call, tmp_path):
    names = ("id", "no", "y")  # languages, say
    rows = ts.Logits(np.round(LOGITS), LABELS, names)
    ts.TwoTemperaturePredictor("aps").fit(rows.take(slice(0, 600))).save(tmp_path / "predictor.json")
    ts.save(tmp_path / "new.csv", ts.Logits(rows.logits[600:], classes=names))
    done = call("predict", tmp_path / "predictor.json", tmp_path / "new.csv", "--out", tmp_path / "sets.csv")
    assert done.returncode == 0, done


def held(path, name):
    if path.suffix == ".parquet":
        return require("pyarrow.parquet", "io").read_table(path).column(name).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line)[name] for line in path.read_text(encoding="utf-8").splitlines()]
    with path.open(newline="", encoding="utf-8") as stream:
        return [row[name] for row in csv.DictReader(stream)]


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("ids", [list(range(50, 90)), [f'a "{i}", b' for i in range(40)]], ids=["numbers", "text"])
def test_ids_pass_through_to_every_kind_of_output(call, made, tmp_path, kind, ids):
    arrow = require("pyarrow", "io")
    columns = {"Request Id": ids} | {name: LOGITS[600:640, i] for i, name in enumerate(CLASSES)}
    (tmp_path / "in").mkdir()
    table = arrow.table(columns)
    for part in range(2):
        require("pyarrow.parquet", "io").write_table(table.slice(20 * part, 20), tmp_path / "in" / f"{part}.parquet")
    predictor = made / "predictor.json"
    asked = ("--id-column", "Request Id", "--quiet")
    done = call("predict", predictor, tmp_path / "in", *asked, "--out", tmp_path / "out", "--format", kind)
    assert done.returncode == 0, done
    single = tmp_path / f"first.{kind}"
    assert call("predict", predictor, tmp_path / "in" / "0.parquet", *asked, "--out", single).returncode == 0
    parts = [tmp_path / "out" / f"{part}.{kind}" for part in range(2)]
    assert single.read_bytes() == parts[0].read_bytes()
    wanted = list(map(str, ids)) if kind == "csv" else ids
    assert held(parts[0], "Request Id") + held(parts[1], "Request Id") == wanted
    sizes = ts.TwoTemperaturePredictor.load(predictor).set_sizes(LOGITS[600:640])
    assert [int(one) for part in parts for one in held(part, "size")] == sizes.tolist(), "ids change no set"


@pytest.mark.parametrize("name", ["label", "set", "p_fraud"])
def test_ids_that_are_called_like_predictions(call, made, tmp_path, name):
    path = tmp_path / "new.csv"
    path.write_text(f'{name},fraud,"keep, sure",review\nx,1.5,2.5,0.5\n')
    asked = ("--id-column", name, "--out", tmp_path / "sets.csv", "--p-values")
    done = call("predict", made / "predictor.json", path, *asked)
    done.assert_refused(f"ids cannot be called '{name}', as a column of predictions is. Rename their column.")
    assert not (tmp_path / "sets.csv").exists()


def test_u_from_ids_needs_ids(call, made, tmp_path):
    asked = ("predict", made / "predictor.json", made / "fresh.csv", "--u", "ids", "--out")
    for out in (tmp_path / "sets.csv", tmp_path / "sets"):
        call(*asked, out).assert_refused("u can only come from ids if their column is named. Add id_column")
