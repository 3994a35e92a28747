"""Numbers as nobody should type them: each is read, or refused in one line. Nothing hangs or fills the memory."""

import io
import random
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from thermoset import metrics, theory
from thermoset.bounds import checked_seed, checked_temperature, exact_number
from thermoset.calibration import probabilities
from thermoset.cli import main
from thermoset.conformal import scores
from thermoset.errors import InputError
from thermoset.levels import conformal_rank, exact_level, rows_needed
from thermoset.quoting import quoted
from thermoset.scores import RAPS, SAPS
from thermoset.sweeping import temperature_grid
from thermoset.tuning import read_preference
from tiers import cases

pytestmark = [pytest.mark.long, pytest.mark.scaled]

TEXTS = [
    "1e-99999999", "1e99999999", "-1e99999999", "1e-5000", "1e400", "1e-400", "1e308", "2e308", "5e-324", "1e-310",
    "nan", "-nan", "inf", "-inf", "infinity", "0", "-0", "0.0", "1", "1.0", "-1", "0.1", ".5", "5.", "+0.1", " 0.1 ",
    "1e-9", "1e-10", "0.999999999", "0.9999999999", "0.0000000001", "1/3", "1/7", "1/0", "-1/3", "1/3e5", "2/3/4",
    "9" * 400, "9" * 5000, "0." + "1" * 5000, "1/" + "9" * 5000, "1e" + "9" * 50, "1e-" + "0" * 50 + "1",
    "0x10", "0b1", "1_0", "1e1_0", "١", "0.١", "²", "½", "1e²", "", " ", "-", "e", "e5", "1e", "1e5.5", "0.1\n",
    "0.1\0", "True", "None", "a tenth", "1,5", "1;5", "0.1%", "🎲", "\x1b[31m", "1" * 100, "1" * 101,
]  # fmt: skip
NUMBERS = [
    0, 1, -1, 2, 3, 10**6, 10**9, 10**12, 10**13, 2**31, 2**53, 2**63, 2**64 - 1, 2**64, 10**100, 10**400, 10**5000,
    -(10**400), -(10**5000), 0.0, -0.0, 0.1, 0.5, 1.0, 1.5, -0.1, 5e-324, 1e-310, 1e-300, 1e-9, 1e300, 1.7e308,
    float("nan"), float("inf"), -float("inf"), True, False, None, 1j, b"0.1", object(), [], [0.1], (0.1,), {}, set(),
    Fraction(1, 3), Fraction(1, 10**5000), Fraction(10**5000, 10**5000 + 1), Fraction(7),
    Decimal("0.1"), Decimal("1e-99999999"), Decimal("1e99999999"), Decimal("NaN"), Decimal("sNaN"),
    Decimal("-Infinity"),
    np.float16(0.1), np.float32(0.1), np.float64("nan"), np.longdouble("1e4000"), np.int8(-1), np.int64(3),
    np.uint64(2**64 - 1), np.True_, np.array(0.1), np.array(3), np.array([0.1]), np.array([3]), np.array([]),
    np.array(True), np.array("0.1"), np.array(10**400, dtype=object), np.array(None), np.complex64(1),
    np.datetime64(0, "s"),
]  # fmt: skip

ROWS = ts.Logits(*generated(90, 3, seed=0))
SETS = np.eye(3, dtype=bool)[[0, 1, 2, 0]]
PROBS = np.full((4, 2), 0.5)

READERS = {
    "alpha": exact_level,
    "rank": lambda x: conformal_rank(100, x),
    "rows needed": rows_needed,
    "temperature": checked_temperature,
    "seed": checked_seed,
    "grid": lambda x: temperature_grid(x if isinstance(x, str) else "1"),
    "grid start": lambda x: temperature_grid(f"{quoted(x)}:2:0.5"),
    "grid stop": lambda x: temperature_grid(f"0.5:{x if isinstance(x, str) else quoted(x)}:0.5"),
    "grid step": lambda x: temperature_grid(f"0.5:2:{x if isinstance(x, str) else quoted(x)}"),
    "prefer": read_preference,
    "size budget": lambda x: read_preference(f"size<={x if isinstance(x, str) else quoted(x)}"),
    "gap budget": lambda x: read_preference(f"gap<={x if isinstance(x, str) else quoted(x)}"),
    "penalty": lambda x: RAPS(penalty=x),
    "k_reg": lambda x: RAPS(k_reg=x),
    "weight": lambda x: SAPS(weight=x),
    "coverage distribution": lambda x: metrics.conformal_coverage_distribution(x, 0.1),
    "coverage law": lambda x: metrics.coverage_law(x, x, 0.1),
    "hits": lambda x: metrics.coverage_p_value(x, 100, 100, 0.1),
    "confidence": lambda x: metrics.clopper_pearson(1, 2, x),
    "half-width": lambda x: metrics.coverage_half_width(x, 0.1),
    "half-width alpha": lambda x: metrics.coverage_half_width(100, x),
    "half-width confidence": lambda x: metrics.coverage_half_width(100, 0.1, x),
    "plan": lambda x: metrics.plan(x, x),
    "plan alpha": lambda x: metrics.plan(x, 0.05),
    "plan width": lambda x: metrics.plan(0.1, x),
    "plan confidence": lambda x: metrics.plan(0.1, 0.02, x),
    "top gap": lambda x: metrics.top_gap([0.1, 0.2], x),
    "gaps": lambda x: metrics.coverage_gaps([1], [2], x),
    "floor seed": lambda x: metrics.noise_floor_of_counts([5, 5], 0.1, n_simulations=2, random_state=x),
    "floor classes": lambda x: metrics.coverage_gap_noise_floor([0, 1], x, 0.1, n_simulations=2),
    "bins": lambda x: metrics.expected_calibration_error(PROBS, [0, 1, 0, 1], x),
    "k": lambda x: metrics.top_k_accuracy(PROBS, [0, 1, 0, 1], x),
    "metric alpha": lambda x: metrics.top_coverage_gap(SETS, [0, 1, 2, 1], x),
    "split part": ROWS.split,
    "split seed": lambda x: ROWS.split(0.5, random_state=x),
    "split rows": lambda x: ts.data.split_indices(x if not isinstance(x, int) or x < 10**6 else 10**20, 0.5),
    "bound T": lambda x: theory.bound(x, 10),
    "bound C": lambda x: theory.bound(0.5, x),
    "critical": theory.critical_temperature,
    "margin": lambda x: theory.temperature_intervals(x, 10),
    "entropy": lambda x: theory.entropy(ROWS, x),
    "slope": lambda x: theory.entropy_slope(ROWS, x),
    "last index": lambda x: theory.last_index(ROWS, x),
    "paper sizes": lambda x: theory.paper_sizes(ROWS, 1.0, x),
    "row u": lambda x: theory.row_u(ROWS, x),
    "probabilities": lambda x: probabilities(ROWS, x),
    "scores": lambda x: scores("aps", ROWS, temperature=x),
    "u": lambda x: scores("aps", ROWS, u=x),
}
"""What reads a number in next to no time."""

WORKERS = {
    "classifier alpha": lambda x: ts.ConformalClassifier(alpha=x).fit(ROWS).predict_set(ROWS),
    "classifier T": lambda x: ts.ConformalClassifier(temperature=x).fit(ROWS).predict_set(ROWS),
    "classifier seed": lambda x: ts.ConformalClassifier(random_state=x).fit(ROWS).predict_set(ROWS),
    "classifier alphas": lambda x: ts.ConformalClassifier().fit(ROWS).predict_sets(ROWS, [x]),
    "scaler bins": lambda x: ts.TemperatureScaler("ece", n_bins=x).fit(ROWS.take(slice(0, 9))),
    "simulations": lambda x: metrics.noise_floor_of_counts([1], 0.1, n_simulations=x),
    "interval": lambda x: metrics.coverage_interval(100, x, 0.1),
    "p-value": lambda x: metrics.coverage_p_value(0, x, 100, 0.1),
    "predictor alpha": lambda x: ts.TwoTemperaturePredictor(alpha=x).fit(ROWS),
    "predictor prefer": lambda x: ts.TwoTemperaturePredictor(prefer=x).fit(ROWS),
    "predictor fraction": lambda x: ts.TwoTemperaturePredictor(calibration_fraction=x).fit(ROWS),
    "predictor seed": lambda x: ts.TwoTemperaturePredictor(random_state=x).fit(ROWS),
    "sweep alphas": lambda x: ts.sweep(ROWS, temperatures=[1], alphas=[x], trials=1),
    "sweep temperatures": lambda x: ts.sweep(ROWS, temperatures=[x], trials=1),
    "sweep grid": lambda x: ts.sweep(ROWS, temperatures=x, trials=1),
    "sweep fraction": lambda x: ts.sweep(ROWS, temperatures=[1], cp_fraction=x, trials=1),
    "sweep calibration": lambda x: ts.sweep(ROWS, temperatures=[1], calibration_fraction=x, trials=1),
    "sweep seed": lambda x: ts.sweep(ROWS, temperatures=[1], random_state=x, trials=1),
    "sweep trials": lambda x: ts.sweep(ROWS, temperatures=[1], methods=["lac"], trials=x),
    "sweep jobs": lambda x: ts.sweep(ROWS, temperatures=[1], trials=1, n_jobs=x),
    "choose T*": lambda x: ts.tuning.choose(ROWS, calibrated=x, temperatures=[1.0]),
    "choose n": lambda x: ts.tuning.choose(ROWS, calibrated=1.0, temperatures=[1.0], n_conformal=x),
    "routes": lambda x: theory.routes(ROWS, ROWS, x),
}
"""What does work once the number is good."""


def tried(function, value):
    """Nothing but an answer, or one line."""
    said = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(value)
        except InputError as error:
            said = str(error)
    assert not said or said.isprintable(), said
    assert len(said) < 600


@pytest.mark.parametrize("name", READERS)
def test_readers(name):
    for value in [*TEXTS, *NUMBERS]:
        tried(READERS[name], value)


def test_workers():
    rng = random.Random(0)  # noqa: S311
    for function in WORKERS.values():
        known = [
            10**9,
            10**400,
            10**5000,
            float("nan"),
            "1e-99999999",
            np.array(0.1),
            Fraction(1, 10**5000),
            True,
            None,
        ]
        for value in known + rng.sample([*TEXTS, *NUMBERS], min(cases(6), len(TEXTS) + len(NUMBERS))):
            tried(function, value)


numbers = st.one_of(
    st.text(alphabet="0123456789eE+-._/ ", max_size=20),
    st.text(max_size=10),
    st.floats().map(repr),
    st.fractions().map(str),
    st.decimals().map(str),
    st.from_regex(r"[+-]?\d{1,4}(\.\d{0,30})?([eE][+-]?\d{1,12})?", fullmatch=True),
)


@settings(max_examples=cases(400))
@given(numbers)
def test_any_text_is_a_number_or_is_not(text):
    found = exact_number(text)
    assert found is None or max(abs(found.numerator), found.denominator) < 10**600
    for name in ("alpha", "grid", "grid step", "prefer", "size budget", "gap budget"):
        tried(READERS[name], text)


@settings(max_examples=cases(300))
@given(st.integers() | st.floats() | st.fractions() | st.decimals() | st.complex_numbers() | st.booleans() | st.none())
def test_any_number_is_read_or_refused(value):
    for name in ("alpha", "temperature", "seed", "penalty", "k_reg", "prefer", "half-width", "k", "bound T", "bound C"):
        tried(READERS[name], value)


@settings(max_examples=cases(300))
@given(st.fractions(Fraction(1, 10**9), 1 - Fraction(1, 10**9), max_denominator=10**99), st.integers(0, 10**9))
def test_levels_stay_exact(alpha, n):
    assert exact_level(str(alpha)) == exact_level(alpha) == alpha  # a document holds it as text
    k = conformal_rank(n, alpha)
    assert k >= (n + 1) * (1 - alpha) > k - 1


# --- the command line -----------------------------------------------------------------------------------------------

OPTIONS = [
    ("tune", "ROWS", "--no-report", "--quiet", "--alpha"),
    ("tune", "ROWS", "--no-report", "--quiet", "--prefer"),
    ("tune", "ROWS", "--no-report", "--quiet", "--calibration-fraction"),
    ("tune", "ROWS", "--no-report", "--quiet", "--seed"),
    ("sweep", "ROWS", "--quiet", "--trials", "1", "--temperatures"),
    ("sweep", "ROWS", "--quiet", "--trials", "1", "--temperatures", "1", "--alpha"),
    ("sweep", "ROWS", "--quiet", "--trials", "1", "--temperatures", "1", "--calibration-fraction"),
    ("sweep", "ROWS", "--quiet", "--trials", "1", "--temperatures", "1", "--cp-fraction"),
    ("sweep", "ROWS", "--quiet", "--trials", "1", "--temperatures", "1", "--seed"),
    ("sweep", "ROWS", "--quiet", "--trials", "1", "--temperatures", "1", "--jobs"),
    ("sweep", "ROWS", "--quiet", "--temperatures", "1", "--methods", "lac", "--trials"),
    ("study", "NOWHERE", "--trials"),
    ("study", "NOWHERE", "--seed"),
]
HOSTILE = ["1e-99999999", "1e99999999", "0.1:1e999999:1", "1:2:1e-99999999", "9" * 5000, "1000000000", "nan", "1e400"]


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ts.save(tmp_path / "rows.npz", ROWS)
    return "rows.npz"


def run(monkeypatch, *arguments):
    """The command in this process: its exit code and what it said on standard error."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "argv", ["thermoset", *arguments])
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0, err.getvalue()


@pytest.mark.filterwarnings("ignore")
def test_commands(rows, monkeypatch):
    rng = random.Random(2)  # noqa: S311
    for option in OPTIONS:
        values = [*rng.sample(HOSTILE, 3), *rng.sample(TEXTS, min(cases(1), len(TEXTS)))]
        for value in values:
            if "\0" in value:
                continue  # no shell can pass it
            *asked, name = (rows if word == "ROWS" else word for word in option)
            code, said = run(monkeypatch, *asked, f"{name}={value}")
            assert code in (0, 2), (option, value, said)
            assert "Traceback" not in said
            assert code == 0 or said
            if code == 2 and said.startswith("thermoset: "):
                assert said.count("\n") == 1, (option, value, said)
