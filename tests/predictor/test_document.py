"""The predictor as a file: exact floats, versions, damage, foreign files, whole writes."""

import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import thermoset as ts
from forged import forge
from law import generated
from thermoset.arrays import pairs
from thermoset.conformal.calibration_scores import CalibrationScores
from thermoset.conformal.groupings import resolve_grouping
from thermoset.conformal.recipe import Method, Recipe
from thermoset.conformal.scoring import Scoring
from thermoset.errors import FileFormatError, InputError
from thermoset.predictor.document import SCHEMA, read_document, write_document
from thermoset.predictor.leakage import fingerprint
from thermoset.predictor.stored import StoredScores, Thresholds, pool_of_rows
from thermoset.scores import APS, LAC, RAPS, SAPS, RankLimited
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


def test_a_file_comes_back_as_it_was(document, saved):
    read = read_document(saved)
    assert read.change(checksum="") == document
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


floats = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 5e-324, np.inf, -np.inf, 1.0, 1 / 3])


def bits(values):
    return values.copy().view(np.uint64).tolist()


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=floats,
    tie=floats,
    temperature=st.floats(min_value=1e-300, max_value=1e300),
    seed=st.integers(0, 2**64 - 1),
)
def test_every_float_round_trips(document, tmp_path, value, tie, temperature, seed):
    path = tmp_path / "p.json"
    recipe = document.recipe.change(temperature=temperature, random_state=seed)
    thresholds = Thresholds.of(pairs([[value]], [[tie]]))
    write_document(path, document.change(thresholds=thresholds, scores=None, recipe=recipe, temperature=temperature))
    read = read_document(path)
    (q,) = read.thresholds.pairs()
    assert (q.real, q.imag) == (value, tie)
    assert math.copysign(1, q.real) == math.copysign(1, value)
    assert (read.temperature, read.recipe) == (temperature, recipe)


@settings(max_examples=examples(300))
@given(
    numbers=hnp.arrays(np.float64, st.tuples(st.just(2), st.integers(1, 20)), elements=floats),
    grouping=st.sampled_from([None, "class", "cluster"]),
    draw=st.data(),
)
@example(numbers=np.array([[-np.inf] * 3, [np.inf] * 3]), grouping=None, draw=None)
def test_scores_come_back_sorted_within_their_pools(numbers, grouping, draw):
    n = numbers.shape[1]
    labels = (
        np.zeros(n, int) if draw is None else np.array(draw.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    )
    groups = {None: None, "class": np.arange(4), "cluster": np.array([-1, 0, 1, 0])}[grouping]
    scoring = Scoring.of(Recipe())
    found = CalibrationScores(pairs(*numbers), labels, scoring, resolve_grouping(grouping), groups)
    stored = StoredScores.of(found, 4)
    read, pool = stored.pairs(n), pool_of_rows(found)
    rows = sorted(zip(pool.tolist(), *numbers.tolist(), strict=True))
    assert list(zip(read.real.tolist(), read.imag.tolist(), strict=True)) == [row[1:] for row in rows]
    for part, of in ((read.real, numbers[0]), (read.imag, numbers[1])):
        assert sorted(bits(part)) == sorted(bits(of))
    if grouping is None:
        told = zip(read.real.tolist(), read.imag.tolist(), stored.own_labels(n, 4).tolist(), strict=True)
        assert list(told) == sorted(zip(*numbers.tolist(), labels.tolist(), strict=True))


def test_scores_take_fewer_bytes_than_floats_and_the_order_of_rows_does_not_show():
    logits, labels = generated(5000, 10, signal=0.5)
    order = np.random.default_rng(0).permutation(5000)
    one, other = (ts.ConformalClassifier("raps").fit(logits[rows], labels[rows]) for rows in (slice(None), order))
    stored = StoredScores.of(one.calibration_, 10)
    assert len(stored.value) + len(stored.tie) < 14 * 5000
    assert len(stored.labels) == 5000
    assert StoredScores.of(other.calibration_, 10) == stored


@pytest.mark.parametrize("score", [LAC(), APS(), RAPS(penalty=0.1, k_reg=3), SAPS(0.3), RankLimited(APS(), (1, 2, 2))])
def test_scores_round_trip(score):
    assert msgspec.json.decode(msgspec.json.encode(Method.of(score)), type=Method).score == score


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
    assert read.change(checksum="") == document


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileFormatError, match="not a JSON document, or is damaged"):
        read_document(saved)


@pytest.mark.parametrize("content", ["{}", "[1, 2]", '{"format": "other", "schema": 1}', "null", '{"format": 3}'])
def test_a_foreign_document_is_refused(tmp_path, content):
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(FileFormatError, match="not a predictor saved by thermoset"):
        read_document(path)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda d: d.update(schema=2, something="new"), "schema 2;.* Upgrade"),
        (lambda d: d.pop("schema"), "this one reads schema 1"),
        (lambda d: d.update(temperature=2.0), "checksum"),
        (lambda d: d["scores"].update(value=d["scores"]["tie"]), "checksum"),
        (lambda d: d["choice"].update(extra=1), "checksum"),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d["recipe"]["method"].update(extra=1), "extra"),
        (lambda d: d.pop("alpha"), "alpha"),
        (lambda d: d.update(temperature="warm"), "float"),
    ],
)
def test_an_edited_file_is_refused(saved, edit, said):
    document = json.loads(saved.read_text())
    edit(document)
    saved.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match=said):
        read_document(saved)


ONE = {"value": [0.5], "tie": [0.5]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input_kind": "pictures"}, "input_kind"),
        ({"alpha": "1e-99999999"}, "alpha"),
        ({"alpha": "0.05"}, "at most alpha"),
        ({"recipe.alpha": "0.05"}, "set the threshold"),
        ({"temperature": 0.0}, "temperature"),
        ({"recipe.temperature": -1.0}, "temperature"),
        ({"recipe.grouping": "both"}, "grouping"),
        ({"recipe.grouping": "class"}, "pool_rows"),
        ({"recipe.grouping": "cluster"}, "group_of_class"),
        ({"recipe.grouping": "group"}, "group_names"),
        ({"recipe.fallback": "pooled"}, "fallback"),
        ({"recipe.random_state": -1}, "random_state"),
        ({"recipe.method": {"name": "best", "parameters": {}}}, "best"),
        ({"recipe.method": {"name": "raps", "parameters": {"size": 1}}}, "does not take"),
        ({"recipe.method": {"name": "raps", "parameters": {"penalty": -1}}}, "penalty"),
        ({"recipe.method": {"name": "own:mine", "parameters": {}}}, "custom"),
        ({"recipe.method": {"name": "aps", "parameters": {}, "limits": [1, 2]}}, "limits"),
        ({"recipe.method": {"name": "aps", "parameters": {}, "limits": [1, 2, 3, 5]}}, "limits"),
        ({"n_classes": 10**12, "classes": None}, "n_classes"),
        ({"n_classes": 5}, "classes"),
        ({"classes": ["a", "a", "b", "c"]}, "different"),
        ({"pool_rows": [1, 2]}, "pool_rows"),
        ({"pool_rows": [201]}, "pool_rows"),
        ({"pool_rows": [199]}, "scores"),
        ({"group_of_class": [0, 1, 2, 3]}, "group_of_class"),
        ({"group_names": ["a"]}, "group_names"),
        ({"sizes": [1]}, "sizes"),
        ({"sizes": [200] + [0] * 5}, "sizes"),
        ({"thresholds": ONE}, "not both"),
        ({"scores": None}, "not both"),
        ({"scores": None, "thresholds": {"value": [0.5, 0.5], "tie": [0.5, 0.5]}}, "one for each"),
        ({"scores": None, "thresholds": {"value": [0.5], "tie": []}}, "pairs"),
        ({"scores": None, "thresholds": {"value": ["nan"], "tie": [0.5]}}, "enum"),
        ({"scores.weights": "", "scores.largest": 0.0}, "largest"),
        ({"scores.labels": ""}, "labels"),
        ({"confidence.cuts": [0.5, 0.5]}, "confidence"),
        ({"confidence.counts": [1]}, "confidence"),
        ({"provenance.objective": "best"}, "objective"),
        ({"provenance.conformal_rows": 0}, "conformal_rows"),
        ({"provenance.calibration_fraction": "1e-99999999"}, "between 0 and 1"),
    ],
)
def test_a_forged_file_is_refused_all_the_same(document, tmp_path, changes, said):
    """The checksum fits, and the content makes no predictor."""
    assert read_document(forge(tmp_path / "p.json", document, {})).change(checksum="") == document
    with pytest.raises(FileFormatError, match=said):
        read_document(forge(tmp_path / "p.json", document, changes))


def test_damaged_scores_are_refused(document, tmp_path):
    n, kept = sum(document.pool_rows), document.scores
    assert n == 200
    broken = [{"value": b""}, {"value": kept.value[:-1]}, {"value": kept.value + b"\0"}]
    broken += [{"tie": b"\xff" * len(kept.tie)}, {"tie": b"\x99" + kept.tie[1:]}]  # fifteen bytes in a number
    scores = [msgspec.structs.replace(kept, **one) for one in broken]
    nan = document.calibration_scores().scores
    nan.imag[3] = np.nan
    scores.append(StoredScores.of(CalibrationScores(nan, np.zeros(n, int), Scoring.of(document.recipe)), 4))
    for one in scores:
        write_document(tmp_path / "p.json", document.change(scores=one))
        with pytest.raises(FileFormatError, match="scores must be"):
            read_document(tmp_path / "p.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"choice": {}},
        {"choice": [1, "two"]},
        {"choice.curve.extra": 1},
        {"choice.preference.kind": "best"},
        {"choice.outlooks": []},
        {"choice.comparisons": []},
        {"choice.curve.size": [1.0]},
    ],
)
def test_a_broken_choice_is_found_when_somebody_asks(document, saved, tmp_path, changes):
    """A server loads what it serves: predictions do not need the choice."""
    read = ts.TwoTemperaturePredictor.load(forge(tmp_path / "p.json", document, changes))
    rows = generated(50, 4, seed=1)[0]
    np.testing.assert_array_equal(read.predict_set(rows), ts.TwoTemperaturePredictor.load(saved).predict_set(rows))
    assert "choice" not in vars(read.document_)
    with pytest.raises(FileFormatError, match="choice"):
        _ = read.choice_


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
