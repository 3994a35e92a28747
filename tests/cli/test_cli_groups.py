"""Groups of rows and whole-group splits on the commands."""

import csv
import json

import numpy as np
import pytest

import thermoset as ts
from law import generated
from parts import require
from thermoset.cli.options import SplitRows
from thermoset.predictor.document import checksum_of

pytestmark = pytest.mark.slow

LOGITS, LABELS = generated(600, 4, signal=0.3)
SITES = np.array(["north", "south", "west"])[np.arange(600) % 3]
PATIENTS = np.array([f"p{i}" for i in np.random.default_rng(5).integers(0, 90, size=600)])


@pytest.fixture(scope="module")
def val(tmp_path_factory):
    """A table with a column for each class, a site and a patient."""
    path = tmp_path_factory.mktemp("val") / "val.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["patient", "site", "label", "a", "b", "c", "d"])
        rows = zip(PATIENTS.tolist(), SITES.tolist(), LABELS.tolist(), LOGITS.tolist(), strict=True)
        writer.writerows([patient, site, label, *scores] for patient, site, label, scores in rows)
    return path


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """The same rows in npz files of different sizes."""
    folder = tmp_path_factory.mktemp("shards")
    for i, (start, stop) in enumerate([(0, 100), (100, 101), (101, 350), (350, 600)]):
        rows = slice(start, stop)
        arrays = {"logits": LOGITS[rows], "labels": LABELS[rows], "classes": list("abcd")}
        np.savez(folder / f"part-{i}.npz", **arrays, site=SITES[rows], patient=PATIENTS[rows])
    return folder


def fitted(groups=True, **options):
    """What the library makes of the rows."""
    rows = ts.Logits(LOGITS, LABELS, list("abcd"), SITES if groups else None)
    return ts.TwoTemperaturePredictor(alpha="0.1", calibration_fraction="0.5").fit(rows, **options)


@pytest.mark.parametrize("source", ["val", "shards"])
def test_tune_splits_by_whole_values(call, request, tmp_path, source):
    where = request.getfixturevalue(source)
    done = call("tune", where, "--groups", "site", "--split-by", "patient", "--out", tmp_path, "--no-report")
    assert done.returncode == 0, done
    made = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    assert checksum_of(made.document_) == checksum_of(fitted(split_by=PATIENTS).document_)
    other = fitted().document_
    assert made.document_.provenance.conformal_sha256 != other.provenance.conformal_sha256


def test_report_recomputes_the_split(call, val, tmp_path):
    for module in ("vl_convert", "jinja2"):
        require(module, "report")
    by = ("--groups", "site", "--split-by", "patient")
    assert call("tune", val, *by, "--out", tmp_path / "made", "--no-report").returncode == 0
    page = tmp_path / "page.html"
    done = call("report", tmp_path / "made" / "predictor.json", val, *by, "--out", page, "--trials", 3)
    assert done.returncode == 0, done
    made = ts.TwoTemperaturePredictor.load(tmp_path / "made" / "predictor.json").document_
    assert f"{made.provenance.calibration_rows:,}" in page.read_text(encoding="utf-8")
    from thermoset.report.build import roles_of

    rows = ts.load(val, groups="site", ignore=["patient"])
    assert roles_of(rows, made, PATIENTS).origin == "calibration"
    with pytest.raises(ts.InputError, match="with the same split_by"):  # or else the split cannot be found again
        roles_of(rows, made)


def test_sweep_splits_by_whole_values(call, val, tmp_path):
    require("matplotlib", "plot")
    done = call(
        "sweep", val, "--split-by", "patient", "--groups", "site", "--out", tmp_path, "--temperatures", "1,2",
        "--trials", 3, "--methods", "aps",
    )  # fmt: skip
    assert done.returncode == 0, done
    rows = ts.Logits(LOGITS, LABELS, groups=SITES)
    want = ts.sweep(rows, temperatures=[1, 2], trials=3, methods=["aps"], split_by=PATIENTS)
    with (tmp_path / "sweep.csv").open(newline="") as stream:
        assert [float(row["value"]) for row in csv.DictReader(stream)] == want.columns()["value"]


def test_predict_writes_the_group_of_each_row(call, shards, tmp_path):
    fitted().save(tmp_path / "predictor.json")
    done = call("predict", tmp_path / "predictor.json", shards, "--groups", "site", "--out", tmp_path / "out",
                "--format", "jsonl")  # fmt: skip
    assert done.returncode == 0, done
    files = [tmp_path / "out" / f"part-{i}.jsonl" for i in range(4)]
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert [row["group"] for row in rows] == SITES.tolist()
    assert list(rows[0])[:2] == ["group", "label"]


def test_a_column_called_groups_is_used_without_asking(call, tmp_path):
    fitted().save(tmp_path / "predictor.json")
    ts.save(tmp_path / "new.npz", ts.Logits(LOGITS[:50], LABELS[:50], groups=SITES[:50]))
    done = call("predict", tmp_path / "predictor.json", tmp_path / "new.npz", "--out", tmp_path / "sets.csv")
    assert done.returncode == 0, done
    with (tmp_path / "sets.csv").open(newline="") as stream:
        assert [row["group"] for row in csv.DictReader(stream)] == SITES[:50].tolist()


@pytest.mark.parametrize("memory", [None, "16MiB"])
@pytest.mark.parametrize("source", ["val", "shards"])
def test_rows_that_commands_work_on_have_groups(request, source, memory):
    where, asked = [request.getfixturevalue(source)], SplitRows(groups="site", split_by="patient", memory=memory)
    with asked.open(where) as rows:
        assert list(rows.groups) == SITES.tolist()
        assert rows.classes == tuple("abcd")
        assert asked.values(where, len(rows)).tolist() == PATIENTS.tolist()


def test_check_reads_groups(call, val, tmp_path):
    """Without the option the site would be a class, or bad input."""
    ts.save(tmp_path / "fresh.npz", ts.load(val, groups="site", ignore=["patient"]))
    other = ts.Logits(1.1 * LOGITS, LABELS, list("abcd"))  # rows that a predictor was fitted on cannot judge it
    ts.TwoTemperaturePredictor(alpha="0.1").fit(other).save(tmp_path / "predictor.json")
    done = call("check", tmp_path / "predictor.json", tmp_path / "fresh.npz")
    assert done.returncode in (0, 1), done
    done = call("check", tmp_path / "predictor.json", tmp_path / "fresh.npz", "--groups", "city")
    done.assert_refused("there is no 'city' in the file")


@pytest.mark.parametrize(
    ("options", "because"),
    [
        (["--groups", "city", "--split-by", "patient"], "there is no 'city' in the file; it begins with 'patient'"),
        (["--groups", "site"], "column 'patient'"),  # neither a class nor named
        (["--groups", "none.txt"], "none.txt: there is no such file"),
    ],
)
def test_bad_columns_are_refused(call, val, tmp_path, options, because):
    done = call("tune", val, *options, "--out", tmp_path / "made")
    assert (done.returncode, done.stdout) == (2, ""), done
    assert because in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "made").exists()


def test_a_column_that_is_in_no_shard(call, shards, tmp_path):
    done = call("tune", shards, "--groups", "site", "--split-by", "camera", "--out", tmp_path / "made")
    done.assert_refused("part-0.npz: there is no 'camera' in the file; it begins with 'logits'")
    assert not (tmp_path / "made").exists()


def test_a_file_of_another_length(call, val, tmp_path):
    (tmp_path / "few.txt").write_text("x\ny\n")
    done = call("tune", val, "--groups", "site", "--split-by", tmp_path / "few.txt", "--out", tmp_path / "made")
    done.assert_refused("column 'patient'")
    np.savez(tmp_path / "val.npz", logits=LOGITS, labels=LABELS)
    done = call("tune", tmp_path / "val.npz", "--split-by", tmp_path / "few.txt", "--out", tmp_path / "made")
    done.assert_refused("has 2 values for 600 rows")
