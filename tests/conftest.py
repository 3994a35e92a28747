"""Shared fixtures. Real logits for development are found through THERMOSET_DATA; without it their tests skip."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]


def real_file(name: str) -> Path:
    """Path of a file of real logits; skips when no folder was named, fails when it lacks the file."""
    folder = os.environ.get("THERMOSET_DATA")
    if not folder:
        pytest.skip("THERMOSET_DATA does not name a folder of real logits")
    path = (ROOT / folder / f"{name}.npz").resolve()
    if not path.exists():
        pytest.fail(f"THERMOSET_DATA={folder} has no {name}.npz")
    return path


@pytest.fixture
def real():
    """`real(name)` gives the logits and labels of a published file."""

    def read(name: str) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        with np.load(real_file(name), allow_pickle=False) as arrays:
            return arrays["logits"], arrays["labels"].astype(np.int64)

    return read
