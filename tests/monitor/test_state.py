"""The state of a monitor as a file: small, exact, and refused when it is anything else."""

import json

import msgspec
import numpy as np
import pytest

import thermoset as ts
from monitored import after, drawn, reference, started
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
    read = read_state(path, "sha")
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
            read_state(path, "sha")
        assert "\n" not in str(caught.value)


def test_a_truncated_file_is_refused(path):
    content = path.read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 3):
        path.write_bytes(content[:length])
        with pytest.raises(ts.FileFormatError, match="damaged"):
            read_state(path, "sha")


@pytest.mark.parametrize("other", ["{}", "[]", "3", '{"format": "thermoset predictor"}', '{"format": 7}'])
def test_another_programs_file_is_refused(path, other):
    path.write_text(other)
    with pytest.raises(ts.FileFormatError, match="not a state"):
        read_state(path, "sha")


def test_another_predictors_state_is_refused(path):
    with pytest.raises(ts.InputError, match="another predictor"):
        read_state(path, "other")


@pytest.mark.parametrize("schema", [2, 0])
def test_another_schema_is_refused(path, schema):
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"schema": schema, "more": 1}))
    with pytest.raises(ts.FileFormatError, match=rf"newer .*schema {schema};"):
        read_state(path, "sha")


def test_an_edited_file_is_refused(path):
    document = json.loads(path.read_text())
    document["crossed"] = {}
    document["batches"][0][0]["hits"] += 1
    path.write_text(json.dumps(document))
    with pytest.raises(ts.FileFormatError, match="checksum"):
        read_state(path, "sha")


def test_a_million_rows_in_a_thousand_batches_stay_small(tmp_path):
    of = reference()
    state = after(started(of, run_length=1_000_000), of, drawn(1000, 0, labelled=0.5), "part-0000.parquet")
    state = after(state, of, drawn(1000, 1, labelled=0.5), "part-0001.parquet")
    write_state(tmp_path / "state.json", msgspec.structs.replace(state, batches=state.batches * 500))
    assert (tmp_path / "state.json").stat().st_size < 1_000_000
    assert summarize(read_state(tmp_path / "state.json", "sha"), of).rows == 1_000_000
