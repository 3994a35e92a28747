"""The state of a monitor as a file: small, exact, and refused when it is anything else."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

import thermoset as ts
from monitored import after, drawn, reference, started, unlabelled
from thermoset.monitor.state import read_state, write_state
from thermoset.monitor.status import summarize


@pytest.fixture(scope="module")
def state():
    of = reference()
    state = started(of, run_length=1000)
    for i in range(3):
        state = after(state, of, drawn(80, i, labelled=0.5), f"day {i}")
    return state


@pytest.fixture
def path(state, tmp_path):
    write_state(tmp_path / "state.json", state)
    return tmp_path / "state.json"


def test_what_is_written_is_read_to_the_last_bit(state, path):
    read = read_state(path, reference())
    of, rows = reference(), drawn(100, 9)
    assert after(read, of, rows) == after(read, of, rows)
    assert summarize(after(read, of, rows), of) == summarize(after(state, of, rows), of)
    again = path.with_name("again.json")
    write_state(again, read)
    assert again.read_bytes() == path.read_bytes()


def test_every_damaged_byte_is_noticed(path):
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(content) - 1, 150, replace=False):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(damaged)
        with pytest.raises(ts.InputError, match=r"state\.json: ") as caught:
            read_state(path, reference())
        assert "\n" not in str(caught.value)


def test_a_truncated_file_is_refused(path):
    content = path.read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 3):
        path.write_bytes(content[:length])
        with pytest.raises(ts.FileFormatError, match="damaged"):
            read_state(path, reference())


@pytest.mark.parametrize("other", ["{}", "[]", "3", '{"format": "thermoset predictor"}', '{"format": 7}'])
def test_another_programs_file_is_refused(path, other):
    path.write_text(other)
    with pytest.raises(ts.FileFormatError, match="not a state"):
        read_state(path, reference())


def test_another_predictors_state_is_refused(path):
    with pytest.raises(ts.InputError, match="another predictor"):
        read_state(path, replace(reference(), predictor="other"))


@pytest.mark.parametrize("schema", [2, 0])
def test_another_schema_is_refused(path, schema):
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"schema": schema, "more": 1}))
    with pytest.raises(ts.FileFormatError, match=rf"newer .*schema {schema};"):
        read_state(path, reference())


def test_an_edited_file_is_refused(path):
    document = json.loads(path.read_text())
    document["crossed"] = {}
    document["batches"][0][0]["hits"] += 1
    path.write_text(json.dumps(document))
    with pytest.raises(ts.FileFormatError, match="checksum"):
        read_state(path, reference())


FORGED = {
    "a negative key": lambda state: of_batch(state, sketch=(-5,)),
    "a key that is too large": lambda state: of_batch(state, sketch=(2**48,)),
    "more hits than labels": lambda state: of_batch(state, record=replace(state.records[0], hits=80)),
    "more labels than rows": lambda state: of_batch(state, record=replace(state.records[0], labelled=81)),
    "a test of more rows": lambda state: of_batch(state, record=replace(state.records[0], rows=160)),
    "labels of other rows": lambda state: of_batch(state, labels_of=b"1"),
    "no interval": lambda state: of_batch(state, -1, record=replace(state.records[-1], coverage_low=None)),
    "fewer parts": lambda state: {"parts": set_fields(state.parts, rows=(1, 1), hits=(1, 1), peaks=(0.0, 0.0))},
    "parts of several lengths": lambda state: {"parts": set_fields(state.parts, rows=state.parts.rows[1:])},
    "an alarm in no batch": lambda state: {"crossed": {"under": 3}},
    "a change in no batch": lambda state: {"changes": {"size": (-1,)}},
    "no test of coverage": lambda state: {"coverage": None},
    "another law": lambda state: {"coverage": set_fields(state.coverage, law=set_fields(state.coverage.law, rank=899))},
    "another reference": lambda state: {"size": set_fields(state.size, reference=state.size.reference[::-1])},
    "no delta": lambda state: {"delta": 0.0},
    "no run length": lambda state: {"run_length": 0},
}


def set_fields(record, /, **fields):
    """A record with other fields, which nobody checks."""
    made = msgspec.structs.replace(record)
    for name, value in fields.items():
        msgspec.structs.force_setattr(made, name, value)
    return made


def of_batch(state, place=0, **fields):
    batches = list(state.batches)
    batches[place] = set_fields(batches[place], **fields)
    return {"batches": tuple(batches)}


@pytest.mark.parametrize("change", FORGED)
def test_a_state_that_cannot_be_is_refused(state, path, change):
    write_state(path, set_fields(state, **FORGED[change](state)))  # with a checksum that fits
    with pytest.raises(ts.FileFormatError) as caught:
        read_state(path, reference())
    assert "checksum" not in str(caught.value)


def test_a_batch_that_has_another_number_of_rows_is_another():
    of, rows = reference(), drawn(60, 1, labelled=0.0)
    state = after(started(of), of, rows)
    forged = set_fields(state, **of_batch(state, record=replace(state.records[0], rows=120)))
    with pytest.raises(ts.InputError, match="already added"):
        after(forged, of, replace(rows, label=np.zeros(60, dtype=int)))


def test_labels_that_contradict_a_state_are_refused():
    of, rows = reference(), drawn(60, 1)
    state = after(started(of), of, unlabelled(rows))
    forged = set_fields(state, **of_batch(state, record=replace(state.records[0], answered=5)))
    with pytest.raises(ts.InputError, match="counts of a batch"):
        after(forged, of, rows)


def test_a_million_rows_in_a_thousand_batches_stay_small(tmp_path):
    of = reference()
    state = after(started(of, run_length=1_000_000), of, drawn(1000, 0, labelled=0.5), "part-0000.parquet")
    state = after(state, of, drawn(1000, 1, labelled=0.5), "part-0001.parquet")
    write_state(tmp_path / "state.json", msgspec.structs.replace(state, batches=state.batches * 500))
    assert (tmp_path / "state.json").stat().st_size < 1_000_000
    assert summarize(read_state(tmp_path / "state.json", of), of).rows == 1_000_000
