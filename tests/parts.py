"""Optional parts of the test suite: skipped when absent, failures when CI says that nothing may be absent."""

import importlib
import os
from importlib.util import find_spec
from types import ModuleType
from typing import NoReturn

import pytest
import sklearn

_SKLEARN = tuple(map(int, sklearn.__version__.split(".")[:2]))


def since_sklearn(major: int, minor: int) -> pytest.MarkDecorator:
    """A comparison with something that scikit-learn has since this version; the library does without."""
    return pytest.mark.skipif(
        (major, minor) > _SKLEARN, reason=f"scikit-learn before {major}.{minor} has nothing to compare with"
    )


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, which the extra `extra` brings; skip the test without it (fail if THERMOSET_STRICT=1)."""
    try:
        return importlib.import_module(module)
    except ImportError:
        missing(f"{module} is not installed (pip install 'thermoset[{extra}]')")


def undraw(patched: pytest.MonkeyPatch) -> None:
    """Let figures be made and written but not drawn, which takes most of a command's time."""
    if find_spec("matplotlib"):
        patched.setattr("matplotlib.figure.Figure.savefig", lambda _, stream, **__: stream.write(b"not drawn"))


def missing(what: str) -> NoReturn:
    """Skip for want of a part; fail where nothing may be absent."""
    if os.environ.get("THERMOSET_STRICT") == "1":
        pytest.fail(what)
    pytest.skip(what, allow_module_level=True)
