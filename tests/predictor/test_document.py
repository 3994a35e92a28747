"""The predictor as a file: exact floats, versions, damage, foreign files, whole writes."""

import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from thermoset.arrays import pairs
from thermoset.conformal.methods import Method
from thermoset.errors import FileFormatError, InputError
from thermoset.predictor.document import (
    SCHEMA,
    Thresholds,
    checksum_of,
    read_document,
    write_document,
)
from thermoset.predictor.leakage import fingerprint
from thermoset.scores import APS, LAC, RAPS, SAPS
from thermoset.tuning import Curve
from thermoset.tuning.aims import Small
from thermoset.tuning.budgets import GapBudget
from tiers import examples


@pytest.fixture(scope="module")
def document():
    logits, labels = generated(400, 4, seed=0)
    data = ts.Logits(logits, labels, classes=["ant", "bée", "<c>", "d,\n"])
    return ts.TwoTemperaturePredictor().fit(data).document_


@pytest.fixture
def saved(document, tmp_path):
    path = tmp_path / "predictor.json"
    write_document(path, document)
    return path


def sealed(document, **changes):
    """A document with other fields and a checksum that fits them."""
    changed = msgspec.structs.replace(document, **changes)
    return msgspec.structs.replace(changed, checksum=checksum_of(changed))


def test_a_file_comes_back_as_it_was(document, saved):
    read = read_document(saved)
    assert msgspec.structs.replace(read, checksum="") == document
    document = json.loads(saved.read_text())
    assert document["schema"] == SCHEMA == 1
    assert document["provenance"]["calibration_rows"] == 200
    assert document["classes"] == ["ant", "bée", "<c>", "d,\n"]
    assert {m["name"] for m in document["measures"]} == {
        "nll_before", "nll_after", "ece_before", "ece_after", "coverage", "avg_size", "empty_share",
            "class_gap", "top_coverage_gap",
        }  # fmt: skip


def test_the_same_rows_give_the_same_bytes(document, saved, tmp_path):
    write_document(tmp_path / "again.json", read_document(saved))
    assert (tmp_path / "again.json").read_bytes() == saved.read_bytes()


floats = st.floats(allow_nan=False)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=floats,
    refine=floats,
    temperature=st.floats(min_value=1e-300, max_value=1e300),
    seed=st.integers(0, 2**64 - 1),
)
def test_every_float_round_trips(document, tmp_path, value, refine, temperature, seed):
    path = tmp_path / "p.json"
    thresholds = Thresholds.of(pairs([[value]], [[refine]]))
    changes = {"thresholds": thresholds, "temperature": temperature, "seed": seed, "scores": None}
    write_document(path, msgspec.structs.replace(document, **changes))
    read = read_document(path)
    (q,) = read.thresholds.pairs()
    assert (q.real, q.imag) == (value, refine)
    assert math.copysign(1, q.real) == math.copysign(1, value)
    assert (read.temperature, read.seed) == (temperature, seed)


@pytest.mark.parametrize("score", [LAC(), APS(), RAPS(penalty=0.1, k_reg=3), SAPS(0.3)])
def test_scores_round_trip(score):
    assert Method.of(score).score() == score


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_damaged_byte_is_noticed(document, tmp_path, place, byte):
    """Whatever byte is changed, the file is refused or says the same (white space)."""
    path = tmp_path / "p.json"
    write_document(path, document)
    content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content)
    try:
        read = read_document(path)
    except InputError:
        return
    assert msgspec.structs.replace(read, checksum="") == document


def test_deep_nesting_is_refused(tmp_path):
    path = tmp_path / "p.json"
    path.write_text('{"a":' + "[" * 200_000 + "]" * 200_000 + "}")
    with pytest.raises(FileFormatError, match="not a JSON document, or is damaged"):
        read_document(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileFormatError, match="not a JSON document, or is damaged"):
        read_document(saved)


@pytest.mark.parametrize(
    "content", ["{}", "[1, 2]", '"text"', '{"format": "other", "schema": 1}', "null", '{"format": 3}']
)
def test_a_foreign_document_is_refused(tmp_path, content):
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(FileFormatError, match="not a predictor saved by thermoset"):
        read_document(path)


@pytest.mark.parametrize("schema", [2, 99, 0, -1])
def test_a_file_of_another_schema_asks_for_an_upgrade(document, saved, schema):
    content = json.loads(saved.read_text())
    saved.write_text(json.dumps(content | {"schema": schema, "something": "new"}))
    said = rf"newer thermoset, or is damaged \(schema {schema}; this one reads schema 1\)\. Upgrade"
    with pytest.raises(FileFormatError, match=said):
        read_document(saved)
    saved.write_bytes(msgspec.json.encode(sealed(document, schema=schema)))
    with pytest.raises(FileFormatError, match=said):
        read_document(saved)


def test_a_file_without_a_schema_is_refused(saved):
    document = json.loads(saved.read_text())
    del document["schema"]
    saved.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="this one reads schema 1"):
        read_document(saved)


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
        read_document(saved)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input_kind": "pictures"}, "input_kind must be logits or probabilities or"),
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
def test_a_forged_file_is_refused_all_the_same(document, tmp_path, changes, said):
    """The checksum fits, and the content makes no predictor."""
    path = tmp_path / "p.json"
    path.write_bytes(msgspec.json.encode(sealed(document, **changes)))
    with pytest.raises(FileFormatError, match=said):
        read_document(path)


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
def test_a_forged_choice_is_refused(document, tmp_path, changes, said):
    path = tmp_path / "p.json"
    choice = msgspec.structs.replace(document.choice, **changes)
    path.write_bytes(msgspec.json.encode(sealed(document, choice=choice)))
    with pytest.raises(FileFormatError, match=said):
        read_document(path)


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
def test_a_forged_origin_is_refused(document, tmp_path, changes, said):
    path = tmp_path / "p.json"
    came = msgspec.structs.replace(document.provenance, **changes)
    path.write_bytes(msgspec.json.encode(sealed(document, provenance=came)))
    if said is None:
        assert read_document(path).provenance == came
        return
    with pytest.raises(FileFormatError, match=said):
        read_document(path)


def test_missing_files_and_folders(document, tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_document(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder"):
        read_document(tmp_path)
    with pytest.raises(InputError, match="does not exist; create it first"):
        write_document(tmp_path / "none" / "p.json", document)
    with pytest.raises(InputError, match="is a folder"):
        write_document(tmp_path, document)


def test_a_failed_write_leaves_the_old_file(document, saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr("thermoset.io.files.os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(InputError, match="No space left"):
        write_document(saved, document)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


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


@pytest.mark.parametrize("counted", [{"calibration_zero_labels": -1}, {"conformal_zero_labels": 10**6}])
def test_more_labels_of_probability_zero_than_rows_are_refused(saved, counted):
    document = read_document(saved)
    came = msgspec.structs.replace(document.provenance, **counted)
    write_document(saved, msgspec.structs.replace(document, provenance=came))
    with pytest.raises(FileFormatError, match="zero_labels must be at most the rows"):
        read_document(saved)
