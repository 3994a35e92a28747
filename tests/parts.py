"""Optional parts of the test suite: skipped when absent, failures when CI says that nothing may be absent."""

import importlib
import os
from types import ModuleType
from typing import NoReturn

import pytest


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, which the extra `extra` brings; skip the test without it (fail if THERMOSET_STRICT=1)."""
    try:
        return importlib.import_module(module)
    except ImportError:
        missing(f"{module} is not installed (pip install 'thermoset[{extra}]')")


def missing(what: str) -> NoReturn:
    """Skip for want of a part; fail where nothing may be absent."""
    if os.environ.get("THERMOSET_STRICT") == "1":
        pytest.fail(what)
    pytest.skip(what, allow_module_level=True)
