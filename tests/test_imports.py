"""What importing costs: nothing heavy is loaded before it is used."""

import json
import subprocess
import sys
from functools import cache

import pytest

HEAVY = {"numba", "scipy", "sklearn", "matplotlib", "pandas", "polars", "pyarrow", "safetensors", "torch"}


@cache
def submodules_after(code: str) -> frozenset[str]:
    script = f"import json, sys\n{code}\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


def modules_after(code: str) -> set[str]:
    return {name.split(".")[0] for name in submodules_after(code)}


def test_import_thermoset_loads_nothing_heavy():
    assert not modules_after("import thermoset") & (HEAVY | {"numpy"})


def test_help_loads_nothing_heavy():
    run = "from thermoset.cli import app\ntry:\n    app(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0"
    assert not modules_after(run) & (HEAVY | {"numpy"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "Logits",
        "load",
        "compact",
        "ConformalClassifier",
        "TemperatureScaler",
        "metrics",
        "plan",
        "datasets",
        "theory.bound",
        "warmup",
    ],
)
def test_names_load_when_used_and_bring_no_extra(name):
    brought = modules_after(f"import thermoset as ts; ts.{name}")
    # scikit-learn imports data-frame libraries that are installed; that is its affair
    extras = HEAVY - {"numba", "scipy", "sklearn"}
    assert not (brought - modules_after("import sklearn.base, sklearn.cluster")) & extras


UNNEEDED = {"sklearn", "pandas", "pyarrow", "typer", "rich", "matplotlib"}

PREDICT = """
import numpy as np
from thermoset import TwoTemperaturePredictor
for name in {names!r}:
    predictor = TwoTemperaturePredictor.load(name)
    rows = np.eye(4, dtype=np.float32)
    predictor.predict_set(rows), predictor.predict_arrays(rows), predictor.set_sizes(rows)
    predictor.predict_records(rows)
    predictor.predict_proba(rows), predictor.predict(rows), predictor.predict_set(rows, ids=list("abcd"))
"""


@pytest.mark.slow
def test_loading_and_predicting_need_numpy_and_numba_alone(tmp_path):
    """What Numba brings by itself is its affair: with compiled code it loads the linear algebra of SciPy."""
    import numpy as np

    from thermoset import Logits, TwoTemperaturePredictor

    labels = np.arange(400) % 4
    rows = Logits(np.random.default_rng(0).normal(size=(400, 4)) + 2 * np.eye(4)[labels], labels)
    asked = ({}, {"grouping": "class", "prefer": "small"}, {"method": "margin", "prefer": "small"})
    names = [str(tmp_path / f"{i}.json") for i in range(len(asked))]
    for name, parameters in zip(names, asked, strict=True):
        TwoTemperaturePredictor(alpha=0.2, **parameters).fit(rows).save(name)
    submodules_after(PREDICT.format(names=names))  # compiles what is not compiled yet, for which Numba needs SciPy
    brought = submodules_after(PREDICT.format(names=names)) - submodules_after("import numpy, numba")
    assert "thermoset.predictor.predictor" in brought
    assert not {name for name in brought if name.split(".")[0] in UNNEEDED}
    rooms = ("predictor.fit", "monitor", "sweeping", "tuning.choose")
    assert not brought & {f"thermoset.{room}" for room in rooms}


ANSWER = """
import numpy as np, thermoset
from thermoset.integrations.numpy import to_numpy
from thermoset.predictor.document import read_document
for name in {names!r}:
    to_numpy(read_document(name))(np.eye(4, dtype=np.float32), ids=list("abcd"))
"""


@pytest.mark.slow
def test_answers_in_plain_numpy_load_no_numba(tmp_path):
    import numpy as np

    from thermoset import Logits, TwoTemperaturePredictor

    labels = np.arange(400) % 4
    rows = Logits(np.random.default_rng(0).normal(size=(400, 4)) + 2 * np.eye(4)[labels], labels)
    names = [str(tmp_path / f"{i}.json") for i in range(2)]
    TwoTemperaturePredictor("aps", alpha=0.2).fit(rows).save(names[0])
    TwoTemperaturePredictor("lac", alpha=0.2, prefer="small", grouping="class").fit(rows).save(names[1])
    assert not modules_after(ANSWER.format(names=names)) & HEAVY


@pytest.mark.parametrize(
    ("package", "name"), [("onnx", "to_onnx"), ("onnx", "id_keys"), ("torch", "to_torch"), ("torch", "save_torch")]
)
def test_exports_say_which_extra_is_missing(package, name):
    absent = f"import sys\nsys.modules[{package!r}] = None  # as if it were not installed\n"
    asked = f"from thermoset.integrations.{package} import {name}"
    done = subprocess.run([sys.executable, "-c", absent + asked], capture_output=True, text=True, check=False)
    assert f"{name} needs {package}, which is not installed. Run: pip install '{package}>=" in done.stderr


def test_every_public_name_resolves():
    import thermoset

    for name in thermoset.__all__:
        assert getattr(thermoset, name) is not None
    fixed = {"Logits", "load", "TemperatureScaler", "ConformalClassifier", "LAC", "APS", "RAPS", "SAPS", "metrics"}
    assert fixed <= set(dir(thermoset))


def test_without_numba_one_line_says_so_and_a_saved_predictor_still_answers(tmp_path):
    import numpy as np

    from thermoset import TwoTemperaturePredictor

    labels = np.arange(400) % 4
    logits = np.random.default_rng(0).normal(size=(400, 4)) + 2 * np.eye(4)[labels]
    predictor = TwoTemperaturePredictor("lac", prefer="small").fit(logits, labels)
    predictor.save(tmp_path / "p.json")
    code = f"""
import sys
sys.modules["numba"] = None
import numpy as np, thermoset as ts
name = {str(tmp_path / "p.json")!r}
try:
    ts.TwoTemperaturePredictor.load(name).set_sizes(np.eye(4))
except ts.MissingExtraError as error:
    assert "engine='numpy'" in str(error)
    print(ts.TwoTemperaturePredictor.load(name, engine="numpy").set_sizes(np.eye(4)).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == predictor.set_sizes(np.eye(4)).tolist()
