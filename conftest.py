"""Compiled code of this run alone; examples that need PyTorch, Lightning or Altair run where these are installed."""

import os
import shutil
import tempfile
from importlib.util import find_spec

import pytest

_NEED_TORCH = [
    "src/thermoset/integrations/torch",
    "src/thermoset/integrations/models.py",
    "docs/collect.md",
    "docs/export.md",
]
collect_ignore = [] if find_spec("torch") else _NEED_TORCH
if not (find_spec("torch") and find_spec("lightning")):
    collect_ignore = [*collect_ignore, "src/thermoset/integrations/lightning.py"]
if not find_spec("altair"):
    collect_ignore = [*collect_ignore, "src/thermoset/report/charts"]


def pytest_configure(config: pytest.Config) -> None:
    """Compile afresh: no test passes on machine code that the sources no longer say. Workers inherit the folder."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        folder = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="thermoset-compiled-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lightning calls PyTorch in deprecated ways, which is no concern of this project."""
    for item in items:
        if item.path.name in {"lightning.py", "test_lightning.py"}:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
