"""Real text that every Python brings along: the docstrings of its standard library, with the package each is from."""

import ast
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGES = (
    "asyncio",
    "concurrent",
    "datetime",
    "decimal",
    "email",
    "http",
    "importlib",
    "inspect",
    "logging",
    "multiprocessing",
    "pathlib",
    "random",
    "ssl",
    "statistics",
    "subprocess",
    "tarfile",
    "threading",
    "typing",
    "unittest",
    "urllib",
    "xml",
    "zipfile",
)
LONG_ENOUGH = 40  # characters: "See above." tells nothing


class Docstring(NamedTuple):
    """A text, and the package whose source it stands in."""

    text: str
    package: str


@cache
def docstrings() -> tuple[Docstring, ...]:
    """All docstrings of these packages, each text once, in the order of files."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for text in _texts(package):
            found.setdefault(text, package)
    return tuple(Docstring(text, package) for text, package in found.items())


def _texts(package: str) -> Iterator[str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for file in [library / f"{package}.py", library / f"_py{package}.py", *sorted((library / package).rglob("*.py"))]:
        if not file.is_file() or "test" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = " ".join((ast.get_docstring(node) or "").split())
                if len(text) >= LONG_ENOUGH:
                    yield text
