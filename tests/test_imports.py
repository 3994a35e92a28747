"""What importing costs: nothing heavy is loaded before it is used."""

import json
import subprocess
import sys

import pytest

HEAVY = {"numba", "scipy", "sklearn", "matplotlib", "pandas", "polars", "pyarrow", "safetensors", "torch"}


def modules_after(code: str) -> set[str]:
    script = f"import json, sys\n{code}\nprint('\\n' + json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_thermoset_loads_nothing_heavy():
    assert not modules_after("import thermoset") & (HEAVY | {"numpy"})


def test_help_loads_nothing_heavy():
    run = "from thermoset.cli import app\ntry:\n    app(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0"
    assert not modules_after(run) & (HEAVY | {"numpy"})


@pytest.mark.parametrize(
    "name", ["Logits", "load", "ConformalClassifier", "TemperatureScaler", "metrics", "plan", "datasets"]
)
def test_names_load_when_used_and_bring_no_extra(name):
    brought = modules_after(f"import thermoset as ts; ts.{name}")
    # scikit-learn imports data-frame libraries that are installed; that is its affair
    extras = HEAVY - {"numba", "scipy", "sklearn"}
    assert not (brought - modules_after("import sklearn.base, sklearn.cluster")) & extras


def test_every_public_name_resolves():
    import thermoset

    for name in thermoset.__all__:
        assert getattr(thermoset, name) is not None
    fixed = {"Logits", "load", "TemperatureScaler", "ConformalClassifier", "LAC", "APS", "RAPS", "SAPS", "metrics"}
    assert fixed <= set(dir(thermoset))
