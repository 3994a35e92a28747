"""The predictor as a file: exact floats, versions, damage, foreign files, whole writes."""

import hashlib
import json
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from thermoset.conformal.methods import Method
from thermoset.core.scores import APS, LAC, RAPS, SAPS
from thermoset.core.thresholds import ScorePairs
from thermoset.errors import FileFormatError, InputError
from thermoset.predictor.artifact import (
    SCHEMA,
    Thresholds,
    checksum_of,
    read_artifact,
    write_artifact,
)
from thermoset.predictor.fingerprints import fingerprint
from thermoset.tuning import Curve
from thermoset.tuning.aims import Even, Small
from thermoset.tuning.budgets import GapBudget, SizeBudget


@pytest.fixture(scope="module")
def artifact():
    logits, labels = generated(400, 4, seed=0)
    data = ts.Logits(logits, labels, classes=["ant", "bée", "<c>", "d,\n"])
    return ts.TwoTemperaturePredictor().fit(data).artifact_


@pytest.fixture
def saved(artifact, tmp_path):
    path = tmp_path / "predictor.json"
    write_artifact(path, artifact)
    return path


def sealed(artifact, **changes):
    """An artifact with other fields and a checksum that fits them."""
    changed = msgspec.structs.replace(artifact, **changes)
    return msgspec.structs.replace(changed, checksum=checksum_of(changed))


def test_a_file_comes_back_as_it_was(artifact, saved):
    read = read_artifact(saved)
    assert msgspec.structs.replace(read, checksum="") == artifact
    document = json.loads(saved.read_text())
    assert document["schema"] == SCHEMA
    assert document["provenance"]["calibration_rows"] == 200
    assert document["classes"] == ["ant", "bée", "<c>", "d,\n"]
    assert {m["name"] for m in document["measures"]} == {
        "nll_before", "nll_after", "ece_before", "ece_after", "coverage", "avg_size", "empty_share",
            "class_gap", "top_coverage_gap",
        }  # fmt: skip


def test_the_same_rows_give_the_same_bytes(artifact, saved, tmp_path):
    write_artifact(tmp_path / "again.json", read_artifact(saved))
    assert (tmp_path / "again.json").read_bytes() == saved.read_bytes()


floats = st.floats(allow_nan=False)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=floats,
    refine=floats,
    temperature=st.floats(min_value=1e-300, max_value=1e300),
    seed=st.integers(0, 2**64 - 1),
)
def test_every_float_round_trips(artifact, tmp_path, value, refine, temperature, seed):
    path = tmp_path / "p.json"
    thresholds = Thresholds.of(ScorePairs(np.array([value]), np.array([refine])))
    changes = {"thresholds": thresholds, "temperature": temperature, "seed": seed, "scores": None}
    write_artifact(path, msgspec.structs.replace(artifact, **changes))
    read = read_artifact(path)
    pairs = read.thresholds.pairs()
    assert (pairs.value[0], pairs.refine[0]) == (value, refine)
    assert math.copysign(1, pairs.value[0]) == math.copysign(1, value)
    assert (read.temperature, read.seed) == (temperature, seed)


@pytest.mark.parametrize("score", [LAC(), APS(), RAPS(penalty=0.1, k_reg=3), RAPS(randomize_penalty=True), SAPS(0.3)])
def test_scores_round_trip(score):
    assert Method.of(score).score() == score


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_damaged_byte_is_noticed(artifact, tmp_path, place, byte):
    """Whatever byte is changed, the file is refused or says the same (white space)."""
    path = tmp_path / "p.json"
    write_artifact(path, artifact)
    content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content)
    try:
        read = read_artifact(path)
    except InputError:
        return
    assert msgspec.structs.replace(read, checksum="") == artifact


def test_deep_nesting_is_refused(tmp_path):
    path = tmp_path / "p.json"
    path.write_text('{"a":' + "[" * 200_000 + "]" * 200_000 + "}")
    with pytest.raises(FileFormatError, match="not a JSON document, or is damaged"):
        read_artifact(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileFormatError, match="not a JSON document, or is damaged"):
        read_artifact(saved)


@pytest.mark.parametrize(
    "content", ["{}", "[1, 2]", '"text"', '{"format": "other", "schema": 1}', "null", '{"format": 3}']
)
def test_a_foreign_document_is_refused(tmp_path, content):
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(FileFormatError, match="not a predictor saved by thermoset"):
        read_artifact(path)


def test_a_newer_file_asks_for_an_upgrade(saved):
    document = json.loads(saved.read_text())
    document.update(schema=SCHEMA + 1, something="new")
    saved.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match=rf"newer thermoset \(schema {SCHEMA + 1}.*Upgrade"):
        read_artifact(saved)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda d: d.update(temperature=2.0), "checksum does not match"),
        (lambda d: d["thresholds"]["value"].__setitem__(0, 0.5), "checksum does not match"),
        (lambda d: d.update(extra=1), "unknown field `extra`"),
        (lambda d: d["choice"].update(extra=1), "unknown field `extra`"),
        (lambda d: d["choice"]["curve"].update(extra=1), "unknown field `extra`"),
        (lambda d: d["choice"]["outlooks"][0].update(extra=1), "unknown field `extra`"),
        (lambda d: d["choice"]["comparisons"][1].update(extra=1), "unknown field `extra`"),
        (lambda d: d.pop("alpha"), "missing required field `alpha`"),
        (lambda d: d.update(temperature="warm"), "Expected `float`"),
        (lambda d: d["choice"]["preference"].update(extra=1), "unknown field `extra`"),
        (lambda d: d["choice"]["preference"].update(kind="best"), "Invalid value 'best'"),
        (lambda d: d["thresholds"]["value"].__setitem__(0, "nan"), "Invalid enum value"),
    ],
)
def test_an_edited_file_is_refused(saved, edit, said):
    document = json.loads(saved.read_text())
    edit(document)
    saved.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match=said):
        read_artifact(saved)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": 0}, "schema must be at least 1"),
        ({"input_kind": "pictures"}, "input_kind must be null, logits or probabilities or"),
        ({"alpha": "2"}, "alpha must be a number strictly between 0 and 1"),
        ({"alpha": "1e-99999999"}, "alpha must be a number strictly between 0 and 1"),
        ({"temperature": 5e-309}, "temperatures must be finite and > 0, from 1e-300 to 1e[+]300"),
        ({"grouping": "both"}, "grouping must be null, class or"),
        ({"n_classes": 10**12, "classes": None}, "n_classes must be from 2 to 10,000,000"),
        ({"pool_sizes": (10**13,)}, "pool_sizes must be from 0 to 2,147,483,647"),
        ({"sizes": (0, 0)}, "sizes must count the conformal rows, at least one"),
        ({"temperature": 0.0}, "temperatures must be finite and > 0, from 1e-300"),
        ({"temperature_sets": -1.0}, "temperatures must be finite and > 0, from 1e-300"),
        ({"n_classes": 1, "classes": None}, "n_classes must be from 2"),
        ({"n_classes": 5}, "classes must be one name per class"),
        ({"classes": ("a", "a", "b", "c")}, "all different"),
        ({"thresholds": Thresholds(value=(0.5, 0.5), refine=(0.5, 0.5))}, "thresholds must be one"),
        ({"thresholds": Thresholds(value=(0.5,), refine=())}, "thresholds must be pairs"),
        ({"grouping": "class"}, "thresholds must be one, or one per class"),
        ({"pool_sizes": (1, 2)}, "pool_sizes must have one entry"),
        ({"pool_sizes": (-1,)}, "pool_sizes must be from 0"),
        ({"group_of_class": (0, 1, 2, 3)}, "group_of_class must be used only with class-conditional sets"),
        ({"sizes": (1,)}, "sizes must count the conformal rows"),
        ({"sizes": (0,) * 6}, "sizes must count sets of 0 to n_classes labels"),
        ({"sizes": (-1, 2)}, "sizes must be from 0"),
        ({"seed": -1}, "seed must fit 64 bits"),
        ({"method": Method(name="best", parameters={})}, "unknown method 'best'; known: lac"),
        ({"method": Method(name="raps", parameters={"size": 1})}, "does not take"),
        ({"method": Method(name="raps", parameters={"penalty": -1})}, "RAPS penalty must be"),
        ({"method": Method(name="raps", parameters={"penalty": True})}, "RAPS penalty must be"),
        ({"method": Method(name="saps", parameters={"weight": 1e300})}, "SAPS weight must be"),
    ],
)
def test_a_forged_file_is_refused_all_the_same(artifact, tmp_path, changes, said):
    """The checksum fits, and the content makes no predictor."""
    path = tmp_path / "p.json"
    path.write_bytes(msgspec.json.encode(sealed(artifact, **changes)))
    with pytest.raises(FileFormatError, match=said):
        read_artifact(path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"outlooks": ()}, "choice must describe T = 1, T[*] and T-hat"),
        ({"comparisons": ()}, "choice must compare T-hat with T = 1 and T[*]"),
        ({"preference": GapBudget(1.5)}, "choice must have a preference"),
        ({"preference": Small()}, "choice must match what was requested"),
        ({"peak": -1.0}, "temperatures of choice must be finite and > 0"),
        ({"spread": (0.0, 1.0)}, "temperatures of choice must be finite and > 0"),
        ({"n_rows": -1}, "n_rows of choice must count rows"),
        ({"curve": Curve((), (), (), ())}, "curve of choice must have one entry per temperature"),
        ({"curve": Curve((1.0, 2.0), (1.0,), (0.1,), (1.0,))}, "curve of choice must have one entry"),
        ({"curve": Curve((2.0, 1.0), (1.0, 1.0), (0.1, 0.1), (1.0, 1.0))}, "temperatures of choice must increase"),
    ],
)
def test_a_forged_choice_is_refused(artifact, tmp_path, changes, said):
    path = tmp_path / "p.json"
    choice = msgspec.structs.replace(artifact.choice, **changes)
    path.write_bytes(msgspec.json.encode(sealed(artifact, choice=choice)))
    with pytest.raises(FileFormatError, match=said):
        read_artifact(path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": "best"}, "objective must be nll or ece"),
        ({"random_state": 2**64 - 1}, None),
        ({"random_state": -1}, "random_state must fit 64 bits"),
        ({"conformal_rows": -1}, "sizes must count the conformal rows"),
        ({"calibration_rows": -1}, "rows must be from 0 to 2,147,483,647"),
        ({"calibration_fraction": "1e-99999999"}, "calibration_fraction must be between 0 and 1"),
    ],
)
def test_a_forged_origin_is_refused(artifact, tmp_path, changes, said):
    path = tmp_path / "p.json"
    came = msgspec.structs.replace(artifact.provenance, **changes)
    path.write_bytes(msgspec.json.encode(sealed(artifact, provenance=came)))
    if said is None:
        assert read_artifact(path).provenance == came
        return
    with pytest.raises(FileFormatError, match=said):
        read_artifact(path)


def test_missing_files_and_folders(artifact, tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_artifact(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder"):
        read_artifact(tmp_path)
    with pytest.raises(InputError, match="does not exist; create it first"):
        write_artifact(tmp_path / "none" / "p.json", artifact)
    with pytest.raises(InputError, match="is a folder"):
        write_artifact(tmp_path, artifact)


def test_a_failed_write_leaves_the_old_file(artifact, saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr("thermoset.io.files.os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(InputError, match="No space left"):
        write_artifact(saved, artifact)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_fingerprints_of_older_versions_are_recognised():
    """They were the SHA-256 of a line about the shape, all rows at once, and the labels."""
    rows = ts.Logits(np.arange(6, dtype=np.float32).reshape(3, 2), [0, 1, 1])
    head = json.dumps(["<f4", 3, 2, None]).encode()
    old = hashlib.sha256(head + rows.logits.tobytes() + rows.labels.astype("<i8").tobytes()).hexdigest()
    assert fingerprint(rows, old) == old
    assert fingerprint(rows, fingerprint(rows)) == fingerprint(rows) != old


def test_fingerprints_tell_data_apart():
    logits, labels = generated(20, 3, seed=1)
    base = fingerprint(ts.Logits(logits, labels))
    assert base == fingerprint(ts.Logits(logits.copy(), labels.copy()))
    assert base == fingerprint(ts.Logits(np.asfortranarray(logits), labels))
    other = logits.copy()
    other[3, 1] = np.nextafter(other[3, 1], np.inf)
    for changed in (
        ts.Logits(other, labels),
        ts.Logits(logits, np.roll(labels, 1)),
        ts.Logits(logits, labels, classes=["a", "b", "c"]),
        ts.Logits(logits.astype(np.float32), labels),
        ts.Logits(logits[::-1], labels),
    ):
        assert fingerprint(changed) != base


# Documents of older schemas, and what the version that wrote them answered.
DATA = Path(__file__).parent / "old_schemas"
OLD = {
    "predictor_schema1": (1, 1, None, GapBudget(0.3)),
    "predictor_schema1_mondrian": (1, 1, "class", SizeBudget(3.0)),
    "predictor_schema2": (2, 2, None, GapBudget(0.3)),
    "predictor_schema3": (3, 2, None, Even()),
    "predictor_schema3_kept": (3, 2, None, SizeBudget(4.0)),  # the top label was patched into empty sets
    "predictor_schema4": (4, 2, "class", Small()),
    "predictor_schema4_top": (4, 2, None, Even()),  # conformal rows held their four largest logits
    "predictor_schema5": (5, 2, None, Small()),
}


@pytest.mark.parametrize("name", OLD)
def test_a_document_of_an_older_schema_answers_as_it_did(name, tmp_path):
    schema, scheme, grouping, preference = OLD[name]
    assert json.loads((DATA / f"{name}.json").read_text())["schema"] == schema
    told = json.loads((DATA / f"{name}_expected.json").read_text())
    predictor = ts.TwoTemperaturePredictor.load(DATA / f"{name}.json")
    made = predictor.artifact_
    assert (made.schema, made.scheme) == (SCHEMA, scheme)
    assert (made.grouping, made.choice.preference) == (grouping, preference)
    assert predictor.recipe == made.recipe
    assert (made.choice.outlook.class_gap is None) == (schema < 3 or grouping is not None)
    assert (made.choice.frontier == ()) == (name not in ("predictor_schema4_top", "predictor_schema5"))
    assert (made.input_kind, made.provenance.conformal_zero_labels) == (None, None)  # nobody knew
    assert made.provenance.top_rows == (name == "predictor_schema4_top")
    assert predictor.promise.exact == (not made.provenance.top_rows and made.allow_empty)
    assert made.scores is None
    assert made.alpha_sets == made.alpha == made.choice.alpha == made.choice.setting.alpha
    said = predictor.choice_.why
    for _ in range(2):
        found = predictor.answers(np.array(told["logits"]))
        assert [np.flatnonzero(row).tolist() for row in found.sets] == told["sets"]
        assert found.confidence.tolist() == told["confidence"]
        assert predictor.choice_.why == said
        predictor.save(tmp_path / "p.json")
        predictor = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")  # the same once it is written anew
    assert json.loads((tmp_path / "p.json").read_text())["schema"] == SCHEMA


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d.update(scores=None),
        lambda d: d["provenance"].update(top_rows=False),
        lambda d: d.update(measures=3),
        lambda d: d.pop("provenance"),
    ],
)
def test_a_forged_document_of_schema_4_is_refused(tmp_path, edit):
    assert_refused(tmp_path / "p.json", "predictor_schema4", edit, "not those of its schema")


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d.update(input_kind="logits"),
        lambda d: d["provenance"].update(conformal_zero_labels=0),
        lambda d: d.update(provenance=3),
    ],
)
def test_a_forged_document_of_schema_5_is_refused(tmp_path, edit):
    assert_refused(tmp_path / "p.json", "predictor_schema5", edit, "not those of its schema")


@pytest.mark.parametrize("counted", [{"calibration_zero_labels": -1}, {"conformal_zero_labels": 10**6}])
def test_more_labels_of_probability_zero_than_rows_are_refused(saved, counted):
    artifact = read_artifact(saved)
    came = msgspec.structs.replace(artifact.provenance, **counted)
    write_artifact(saved, msgspec.structs.replace(artifact, provenance=came))
    with pytest.raises(FileFormatError, match="zero_labels must be at most the rows"):
        read_artifact(saved)


def test_a_document_that_does_not_know_what_it_was_tuned_on_warns_of_probabilities():
    predictor = ts.TwoTemperaturePredictor.load(DATA / "predictor_schema5.json")
    logits = np.array(json.loads((DATA / "predictor_schema5_expected.json").read_text())["logits"])
    with pytest.warns(ts.ProbabilitiesAsLogitsWarning):
        predictor.predict_set(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))


def test_another_u_would_give_other_sets():
    """So that the test above can tell that a document keeps its scheme."""
    told = json.loads((DATA / "predictor_schema1_expected.json").read_text())
    predictor = ts.TwoTemperaturePredictor.load(DATA / "predictor_schema1.json")
    predictor._adopt(msgspec.structs.replace(predictor.artifact_, scheme=2), predictor.recipe.score)
    sets = predictor.predict_set(np.array(told["logits"]))
    assert [np.flatnonzero(row).tolist() for row in sets] != told["sets"]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda d: d.update(scheme=1), "not those of schema 1"),
        (lambda d: d.update(grouping=None), "not those of schema 1"),
        (lambda d: d.pop("class_conditional"), "not those of schema 1"),
        (lambda d: d["choice"].update(preference={"kind": "size"}), "not those of schema 1"),
        (lambda d: d["choice"].pop("prefer"), "not those of schema 1"),
        (lambda d: d["choice"].update(prefer=0.3), "not those of schema 1"),
        (lambda d: d.update(choice=[]), "not those of schema 1"),
        (lambda d: d["choice"].update(prefer="more"), "prefer must be"),
        (lambda d: d["choice"].update(prefer="gap <= 0.3"), "choice must have a preference"),
        (lambda d: d["choice"].update(prefer="small"), "choice must match what was requested"),
        (lambda d: d.update(class_conditional="class"), "grouping must be null, class or"),
        (lambda d: d.update(class_conditional=3), r"Expected `str \| null`"),
        (lambda d: d.update(extra=1), "unknown field `extra`"),
        (lambda d: d["choice"].update(extra=1), "unknown field `extra`"),
    ],
)
def test_a_forged_document_of_schema_1_is_refused(tmp_path, edit, said):
    assert_refused(tmp_path / "p.json", "predictor_schema1", edit, said)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda d: d["choice"]["outlooks"][0].pop("top_gap_error"), "does not fit its schema"),
        (lambda d: d["choice"]["outlooks"][0].update(class_gap=0.1, extra=1), "unknown field `extra`"),
        (lambda d: d["choice"]["comparisons"][0].pop("top_gap"), "does not fit its schema"),
        (lambda d: d.update(choice=3), "does not fit its schema"),
        (lambda d: d["choice"].update(extra=1), "unknown field `extra`"),
    ],
)
def test_a_forged_document_of_schema_2_is_refused(tmp_path, edit, said):
    assert_refused(tmp_path / "p.json", "predictor_schema2", edit, said)


def assert_refused(path, name, edit, said):
    """An edited document with a checksum that fits is refused all the same."""
    document = json.loads((DATA / f"{name}.json").read_text())
    edit(document)
    seal = hashlib.sha256(msgspec.json.encode(document | {"checksum": ""})).hexdigest()
    path.write_bytes(msgspec.json.encode(document | {"checksum": seal}))
    with pytest.raises(FileFormatError, match=said):
        read_artifact(path)


@pytest.mark.parametrize("name", OLD)
def test_an_edited_document_of_an_older_schema_is_refused(tmp_path, name):
    document = json.loads((DATA / f"{name}.json").read_text())
    (tmp_path / "p.json").write_text(json.dumps(document | {"temperature": 2.0}))
    with pytest.raises(FileFormatError, match="checksum does not match"):
        read_artifact(tmp_path / "p.json")
