"""Plant small faults in the numeric and statistical code, one at a time, and see whether the tests catch them.

    make planted                                   # 30 faults
    python tools/planted.py --faults 60 --seed 7

Faults are drawn from the syntax tree: a comparison turned, a constant off by one, an operator or two arguments swapped,
a condition negated, a check skipped. Each is planted in a copy of the project, where the tests named after the package
run first, then those of `make test`, up to the first failure or a limit of minutes. Survivors are printed as
differences: some change nothing that anybody could see, the others want a test.
"""

import argparse
import ast
import contextlib
import copy
import difflib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"cli", "datasets", "errors", "integrations", "io", "looks", "plots", "quoting", "report"} | {
    "study",
    "testing",
    "text",
    "text_tables",
    "warming",
    "wording",
}
"""Packages and modules without numbers or statistics of their own."""

TURNED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NOT_NUMBERS = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)


@dataclass(frozen=True)
class Fault:
    """One expression of one file, and what stands there instead."""

    kind: str
    path: Path
    node: ast.expr
    instead: ast.expr

    def planted(self, source: str) -> str:
        """The file with the fault; nothing else in it changes."""
        lines = source.encode().splitlines(keepends=True)
        first, last = self.node.lineno - 1, (self.node.end_lineno or self.node.lineno) - 1
        head = b"".join(lines[:first]) + lines[first][: self.node.col_offset]
        tail = lines[last][self.node.end_col_offset :] + b"".join(lines[last + 1 :])
        return (head + f"({ast.unparse(self.instead)})".encode() + tail).decode()

    def difference(self, source: str) -> str:
        """The changed lines."""
        lines = difflib.unified_diff(source.splitlines(), self.planted(source).splitlines(), n=0, lineterm="")
        return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


def changed(node: ast.expr, **fields: object) -> ast.expr:
    """A copy of an expression with other fields."""
    copied = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(copied, name, value)
    return copied


def faults_at(node: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """The faults of one node: kind, expression, replacement."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in TURNED:
            yield "comparison turned", node, changed(node, ops=[TURNED[type(op)]()])
        case ast.BinOp(op=op) if type(op) in TURNED:
            yield "operator swapped", node, changed(node, op=TURNED[type(op)]())
        case ast.BoolOp(op=op):
            yield "and, or swapped", node, changed(node, op=TURNED[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "condition negated", node, operand
        case ast.Constant(value=value) if type(value) in (int, float):
            yield "constant off by one", node, ast.Constant(value + 1)
        case ast.Constant(value=bool() as value):
            yield "condition negated", node, ast.Constant(not value)
        case ast.Call(args=[first, second, *rest]) if not isinstance(first, ast.Starred | ast.Constant):
            if ast.dump(first) != ast.dump(second) and not isinstance(second, ast.Starred):
                yield "arguments swapped", node, changed(node, args=[second, first, *rest])
        case ast.If(test=test, body=[ast.Raise()]):
            yield "check skipped", test, ast.Constant(False)
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "branch dropped", test, ast.Constant(False)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those of messages, annotations, decorators, `__all__` and blocks for type checkers alone."""
    if isinstance(node, NOT_NUMBERS) or (isinstance(node, ast.Assign) and "__all__" in ast.dump(node.targets[0])):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "type_params"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child)


def find_faults(root: Path) -> dict[str, list[Fault]]:
    """Every fault there could be, by kind."""
    faults: dict[str, list[Fault]] = {}
    for path in sorted((root / "src/thermoset").rglob("*.py")):
        place = path.relative_to(root / "src/thermoset")
        if not LEFT_OUT.intersection(place.with_suffix("").parts):
            for node in walk(ast.parse(path.read_text())):
                for kind, where, instead in faults_at(node):
                    faults.setdefault(kind, []).append(Fault(kind, path.relative_to(root), where, instead))
    return faults


def own_tests(root: Path, path: Path) -> list[str]:
    """The tests named after the package of a file: a folder, or files at the top; else those of modules at the top."""
    place = path.relative_to("src/thermoset").with_suffix("")
    package, tests = place.parts[0], root / "tests"
    named = [test for test in (tests / package, *sorted(tests.glob(f"test_{package}*.py"))) if test.exists()]
    if not named and len(place.parts) == 1:
        named = [tests / "core"]
    return [str(test) for test in named]


def fails(root: Path, tests: list[str], minutes: float, environment: dict[str, str]) -> bool:
    """Whether a test fails within the time given."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "auto", "--dist", "worksteal", *tests]
    with subprocess.Popen(  # noqa: S603
        command, cwd=root, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            return running.wait(60 * minutes) not in (0, 5)  # 5: no test was collected
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # and its workers


def main() -> None:
    """Draw the faults, try each, and print the share that was caught and the survivors."""
    parser = argparse.ArgumentParser(description="Plant faults and see whether the tests catch them.")
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10, help="limit of each run of tests")
    arguments = parser.parse_args()
    rng, caught, survivors = random.Random(arguments.seed), 0, []  # noqa: S311
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        root = Path(folder) / "project"
        shutil.copytree(
            ROOT, root, ignore=shutil.ignore_patterns(".venv*", ".git", "site", "demo-output", "__pycache__")
        )
        # Kernels are kept from fault to fault: Numba compiles again what stands in a file that has changed.
        environment = os.environ | {"PYTHONPATH": str(root / "src"), "NUMBA_CACHE_DIR": f"{folder}/kernels"}
        possible = find_faults(root)
        for place in range(1, arguments.faults + 1):
            fault = rng.choice(possible[rng.choice(sorted(possible))])
            source, began = (root / fault.path).read_text(), time.monotonic()
            (root / fault.path).write_text(fault.planted(source))
            own = own_tests(root, fault.path)
            by = "its own tests" if own and fails(root, own, arguments.minutes, environment) else ""
            everything = ["tests"], ["--doctest-modules", "src"]
            if not by and any(fails(root, tests, arguments.minutes, environment) for tests in everything):
                by = "make test"
            (root / fault.path).write_text(source)
            caught += bool(by)
            if not by:
                survivors.append(f"{fault.path}: {fault.kind}\n{fault.difference(source)}")
            seconds = time.monotonic() - began
            end = f"caught by {by}" if by else "SURVIVED"
            print(f"{place:3} {fault.path}:{fault.node.lineno} {fault.kind}: {end} ({seconds:.0f} s)", flush=True)
    print(f"\n{caught} of {arguments.faults} faults were caught.", *survivors, sep="\n\n")


if __name__ == "__main__":
    main()
