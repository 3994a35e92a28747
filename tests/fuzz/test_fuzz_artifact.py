"""Damaged predictors: whatever bytes a document has, it is refused in one line, or it is a predictor that answers."""

import random

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.errors import InputError
from tiers import cases

pytestmark = [pytest.mark.long, pytest.mark.scaled]

ROWS = ts.Logits(*generated(400, 4, seed=0), classes=["ant", "bée", "<c>", "d,\n"])
FRESH = ts.Logits(*generated(40, 4, seed=1))
KINDS = [
    ts.TwoTemperaturePredictor(),
    ts.TwoTemperaturePredictor("lac", grouping="class", prefer="small"),
    ts.TwoTemperaturePredictor("saps", randomized=False, prefer="size<=2", allow_empty=False),
]
TOKENS = [b"{", b"[", b'"', b"\\", b"\xff", b"\x00", b"1e999", b"-", b",", b"null", b"\\ud800", b"[" * 2000]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_damaged_bytes(kind, tmp_path):
    rng = random.Random(1)  # noqa: S311
    path = tmp_path / "p.json"
    kind.fit(ROWS).save(path)
    whole, sets = path.read_bytes(), kind.predict_set(FRESH)
    for _ in range(cases(130)):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 2, 5])):
            at = rng.randrange(len(content))
            end = at + rng.choice([0, 1, 1, 10, 1000])
            content[at:end] = rng.choice([b"", rng.randbytes(1), rng.choice(TOKENS), content[at:end] * 2])
        path.write_bytes(content)
        said, found = "", None
        try:
            found = ts.TwoTemperaturePredictor.load(path)
        except InputError as error:
            said = str(error)
        assert said == "" or (said.isprintable() and len(said) < 1000)
        if found is not None:  # the checksum holds: nothing has changed that matters
            np.testing.assert_array_equal(found.predict_set(FRESH), sets)
