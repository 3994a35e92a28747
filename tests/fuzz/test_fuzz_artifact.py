"""Forged predictors: whatever a document says, it is refused in one line, or it is a predictor that answers.

The checksum is no secret, so most forgeries carry one that fits.
"""

import copy
import json
import random
import subprocess
import sys
import warnings
from contextlib import suppress

import msgspec
import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.errors import InputError
from thermoset.predictor.document import Document, checksum_of
from tiers import cases

pytestmark = [pytest.mark.long, pytest.mark.scaled]

ROWS = ts.Logits(*generated(400, 4, seed=0), classes=["ant", "bée", "<c>", "d,\n"])
FRESH = ts.Logits(*generated(40, 4, seed=1))

RAW = "raw token "  # a string that begins so is written to the document as it stands, without its quotes
NASTY = [
    None, True, False, 0, -1, 1, 2, 5, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**12, 10**13,
    0.0, -0.0, 0.5, 1.5, -1.5, 5e-324, 1e-310, 1e-300, 1e300, 1.7e308,
    "", "inf", "-inf", "nan", "NaN", "0.5", "1/3", "1e-99999999", "1e99999999", "9" * 5000, "size<=1e9999", "size<=0",
    "gap<=1e-99999999", "0.25", "T*", "lac", "class", "cluster", "nll", "x" * 10_000, "\u202e\x1b[31m\n",
    [], [0], [0.5, 0.5], ["inf"], {}, {"a": 1}, [[[]]],
    f"{RAW}1e999", f"{RAW}-1e999", f"{RAW}1e-999", f"{RAW}{'9' * 400}", f"{RAW}{'9' * 5000}", f"{RAW}0.{'1' * 5000}",
    f"{RAW}1e{'9' * 30}", f"{RAW}NaN", f"{RAW}Infinity", f"{RAW}{'[' * 3000}{']' * 3000}", f"{RAW}1.0", f"{RAW}01",
    f"{RAW}\"\\ud800\"", f"{RAW}", f"{RAW}1, \"alpha\": \"0.5\"", f"{RAW}null, \"checksum\": \"\"",
]  # fmt: skip


@pytest.fixture(scope="module")
def documents():
    """For one threshold, for one of each class, for deterministic scores, for a label shift, and for weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [
            ts.TwoTemperaturePredictor(),
            ts.TwoTemperaturePredictor("lac", grouping="class", prefer="small"),
            ts.TwoTemperaturePredictor("saps", randomized=False, prefer="size<=2", allow_empty=False),
        ]
        fitted = [one.fit(ROWS) for one in made]
        fitted.append(fitted[0].shifted(FRESH.logits.repeat(2, axis=0)))
        fitted.append(ts.TwoTemperaturePredictor("aps").fit(ROWS, weights=1.0 + np.arange(len(ROWS)) % 7))
        return [json.loads(msgspec.json.encode(one.document_)) for one in fitted]


def places(document, found=()):
    """Every field and entry of a document, as a path."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*found, key)
        if isinstance(value, dict | list):
            yield from places(value, (*found, key))


def changed(rng, document):
    """One field changed, left out, added, or a list made longer or shorter."""
    *path, key = rng.choice(list(places(document)))
    held = document
    for step in path:
        held = held[step]
    act = rng.choice(["set", "set", "set", "drop", "add", "stretch", "swap"])
    if act == "set":
        held[key] = copy.deepcopy(rng.choice(NASTY))
    elif act == "drop":
        del held[key]
    elif act == "add" and isinstance(held, dict):
        held[rng.choice(["extra", "Temperature", "", "temperature_", key + " "])] = rng.choice(NASTY)
    elif act == "stretch" and isinstance(held[key], list):
        held[key] = held[key][: rng.randrange(3)] if rng.random() < 0.5 else held[key] * rng.choice([2, 3, 50])
    elif isinstance(held, dict):
        other = rng.choice(list(held))
        held[key], held[other] = held[other], held[key]


def written(document):
    """The document as bytes, with a checksum that fits if it can have one."""

    def text():
        first, *others = json.dumps(document).split(f'"{RAW}')
        for i, part in enumerate(others):
            token, end = json.JSONDecoder().raw_decode(f'"{part}')
            others[i] = token + part[end - 1 :]
        return "".join([first, *others]).encode()

    with suppress(msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError):
        document["checksum"] = checksum_of(msgspec.json.decode(text(), type=Document))
    return text()


def judged(path):
    """Refused in one line, or a predictor whose answers fit each other; whether it was one."""
    said = ""
    try:
        predictor = ts.TwoTemperaturePredictor.load(path)
    except InputError as error:
        said = str(error)
    if said:
        assert said.isprintable()
        assert len(said) < 1000
        return False
    if predictor.n_features_in_ != FRESH.n_classes:
        with pytest.raises(InputError, match="features"):
            predictor.predict_proba(FRESH)
        return True
    probs = predictor.predict_proba(FRESH)
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    own = {"weights": np.arange(len(FRESH)) / 5} if predictor.document_.is_weighted else {}
    sets = predictor.predict_set(FRESH, **own)
    np.testing.assert_array_equal(predictor.set_sizes(FRESH, **own), sets.sum(axis=1))
    assert [len(record.set) for record in predictor.predict_records(FRESH, **own)] == sets.sum(axis=1).tolist()
    with suppress(InputError):  # a broken choice is found here, and nothing else needs it
        assert predictor.choice_.why
        assert predictor._repr_html_()
    assert 0 <= predictor.check(FRESH, **own).marginal.p_value <= 1
    if predictor.document_.sizes:
        drift = ts.monitor.drift.size_drift(np.array(predictor.document_.sizes), np.bincount(sets.sum(axis=1)))
        assert drift.message
    if predictor.document_.scores is not None:
        if predictor.document_.shift is None:
            np.testing.assert_array_equal(predictor.predict_p(FRESH, **own) > float(predictor.document_.alpha), sets)
        with suppress(InputError):  # it compares levels with that of the choice
            assert predictor.at(0.5).predict_set(FRESH, **own).shape == sets.shape
    predictor.save(path)
    again = ts.TwoTemperaturePredictor.load(path)
    np.testing.assert_array_equal(again.predict_set(FRESH, **own), sets)
    again.recalibrate(FRESH)
    return True


@pytest.mark.filterwarnings("ignore")
def test_forged_documents(documents, tmp_path):
    rng = random.Random(0)  # noqa: S311
    path, good = tmp_path / "p.json", 0
    for _ in range(cases(300)):
        document = copy.deepcopy(rng.choice(documents))
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            changed(rng, document)
        path.write_bytes(written(document))
        good += judged(path)
    assert good, "some changes make another predictor"


@pytest.mark.filterwarnings("ignore")
def test_damaged_bytes(documents, tmp_path):
    rng = random.Random(1)  # noqa: S311
    path = tmp_path / "p.json"
    whole = [written(copy.deepcopy(document)) for document in documents]
    tokens = [b"{", b"[", b'"', b"\\", b"\xff", b"\x00", b"1e999", b"-", b",", b"null", b"\\ud800", b"[" * 2000]
    for _ in range(cases(400)):
        content = bytearray(rng.choice(whole))
        for _ in range(rng.choice([1, 2, 5])):
            at = rng.randrange(len(content))
            end = at + rng.choice([0, 1, 1, 10, 1000])
            content[at:end] = rng.choice([b"", rng.randbytes(1), rng.choice(tokens), content[at:end] * 2])
        path.write_bytes(content)
        judged(path)


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
import thermoset as ts
for path in sys.argv[1:]:
    try:
        ts.TwoTemperaturePredictor.load(path)
    except ts.InputError:
        continue
    sys.exit(f"{path} was read")
"""


def test_a_forgery_takes_neither_time_nor_memory(documents, tmp_path):
    """What would hang or fill the memory, in a process that may not."""
    huge = {"penalty": f"{RAW}{'9' * 4000}"}
    edits = {
        "alpha": {"alpha": "1e-99999999"},
        "fraction": {"provenance": documents[0]["provenance"] | {"calibration_fraction": "1e-99999999"}},
        "classes": {"n_classes": 10**15, "classes": None},
        "penalty": {"recipe": documents[0]["recipe"] | {"method": {"name": "raps", "parameters": huge}}},
        "pool": {"pool_rows": [2**63 - 1]},
        "rows": {
            "pool_rows": [2**31 - 1],
            "sizes": [],
            "provenance": documents[0]["provenance"] | {"conformal_rows": 2**31 - 1},
        },
    }
    paths = []
    for name, edit in edits.items():
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_bytes(written(copy.deepcopy(documents[0]) | edit))
    done = subprocess.run([sys.executable, "-c", LIMITED, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
