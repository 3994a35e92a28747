"""Importing libraries whose `import` demands packages that they do not need for what is measured here.

TorchCP and torch-uncertainty import torchvision, torch_geometric and others at the top, which cannot all be installed
on a plain CPU machine. Only names are taken from the stand-ins; the scores and predictors measured are the libraries'
own code. The stand-ins are withdrawn afterwards.
"""

import importlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

__all__ = ["imported"]

_MOST = 100  # missing modules of one library


class _StandIn(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012 (what Python looks for in a package)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def imported(module: str) -> Any:
    """A module of a library, with stand-ins for whatever the library misses while it is imported."""
    package = module.split(".", maxsplit=1)[0]
    if find_spec(package) is None:
        raise ImportError(f"{package} is not installed")
    return sys.modules.get(module) or _import(module, package)


def _import(module: str, package: str) -> Any:
    with _stand_ins() as absent:
        for _ in range(_MOST):
            try:
                return importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name is None or error.name.startswith(package):
                    raise
                _stand_in(error.name, absent)
                for name in [name for name in sys.modules if name.split(".")[0] == package]:
                    del sys.modules[name]
    raise ImportError(f"{package} misses more than {_MOST} modules")


@contextmanager
def _stand_ins() -> Iterator[list[str]]:
    absent: list[str] = []
    try:
        yield absent
    finally:
        for name in absent:
            sys.modules.pop(name, None)


def _stand_in(name: str, absent: list[str]) -> None:
    module = sys.modules[name] = _StandIn(name)
    absent.append(name)
    parent, _, own = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], own, module)
