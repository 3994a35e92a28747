"""Shared fixtures. Real logits for development are found through THERMOSET_DATA; without it their tests skip."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray

from parts import missing, undraw
from tiers import examples

ROOT = Path(__file__).parents[1]

# The same examples in every run: a change is green or it is not. `pytest --hypothesis-profile=explore` looks further.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=examples(100))
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("same")

REAL = (
    "cifar10_resnet50",
    "cifar100_resnet50",
    "cifar100_densenet_bc100_overconfident",
    "banking77_bert",
    "imagenet5k_efficientnet_lite0",
)
"""The published files, by name."""


def real_file(name: str) -> Path:
    """Path of a file of real logits; skips when no folder was named, fails when it lacks the file."""
    folder = os.environ.get("THERMOSET_DATA")
    if not folder:
        pytest.skip("THERMOSET_DATA does not name a folder of real logits")
    path = (ROOT / folder / f"{name}.npz").resolve()
    if not path.exists():
        pytest.fail(f"THERMOSET_DATA={folder} has no {name}.npz")
    return path


@pytest.fixture(scope="session")
def expected():
    """Measurements made by other code on the published files; they lie beside the folder of logits."""
    path = real_file("cifar10_resnet50").parents[1] / "expected.json"
    if not path.exists():
        missing("no expected.json beside the real logits")
    return json.loads(path.read_text())


@pytest.fixture
def undrawn(monkeypatch):
    """For tests that do not look at figures."""
    undraw(monkeypatch)


@pytest.fixture
def real():
    """`real(name)` gives the logits and labels of a published file."""

    def read(name: str) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        with np.load(real_file(name), allow_pickle=False) as arrays:
            return arrays["logits"], arrays["labels"].astype(np.int64)

    return read
