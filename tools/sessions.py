"""Run what the documentation shows: Python blocks and shell sessions, in order, in one folder for each page.

Sessions of Python (```pycon) are doctests and run as such. This is for ```python and ```console:

- Python blocks of a page share their names. A comment `<!-- given ... -->` holds Python that runs and is not shown.
- A line `$ thermoset ...` runs in this process. Output that is shown must be printed (`...` stands for anything,
  and lines may break elsewhere). A command without output must end well; `tune` then does without its page, which takes
  longer than all the rest. `pip` and `make` are not run: what they name is looked up.
- `<!-- not run: why -->` before a block leaves it out, and `<!-- needs: modules -->` asks for optional packages.

Each folder begins with `val.npz`, `fresh.npz`, `new.npz` and a predictor, made from the digits of docs/command-line.md.

`python -m tools.sessions docs/command-line.md` writes the output of today into a page; tests/test_docs.py compares.
"""

import argparse
import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
COLUMNS = "100"
COMPILING = "thermoset: compiling, once for this machine ...\n"
STOPPED = (129, 130, 143)  # hung up, interrupted, terminated
SHELL_TOOLS = ("cat", "echo", "grep", "head", "jq", "ls", "tail")
SETUP_TOOLS = ("make", "pip")
MATCH = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_PART = re.compile(
    r"^<!-- (?P<mark>not run|needs|given)[:\s](?P<said>.*?)-->\n"
    r"|^(?P<tick>```+)(?P<kind>\w+)[^\n]*\n(?P<text>.*?)^(?P=tick)\n",
    flags=re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A fenced block, or hidden Python, and where its text stands in the page."""

    kind: str
    text: str
    start: int
    reason: str
    """Why it is not run; empty if it is."""
    needs: tuple[str, ...]


class Line(NamedTuple):
    """A command of a session, the output that is shown, and where that stands in the block."""

    command: str
    shown: str
    start: int


class Ran(NamedTuple):
    """What a command printed, on both streams, and its exit code."""

    output: str
    code: int


class MissingPartError(Exception):
    """A package that a page needs is not installed."""


class DiffersError(AssertionError):
    """A page shows something else than what happens."""


def blocks(page: str) -> list[Block]:
    """The blocks of a page that this runs or must be told not to run."""
    result, reason, needs = [], "", ()
    for part in _PART.finditer(page):
        if part["mark"] == "not run":
            reason = part["said"].strip()
        elif part["mark"] == "needs":
            needs = tuple(re.split(r"[ ,]+", part["said"].strip()))
        elif part["mark"] == "given":
            result.append(Block("python", part["said"], part.start("said"), "", needs))
        else:
            if part["kind"] in {"python", "console"}:
                result.append(Block(part["kind"], part["text"], part.start("text"), reason, needs))
            reason, needs = "", ()
    return result


def lines(session: str) -> list[Line]:
    """The commands of a session, with continued lines joined and comments taken off."""
    starts = [match.start() for match in re.finditer(r"^\$ ", session, flags=re.MULTILINE)]
    commands = []
    for start, end in zip(starts, [*starts[1:], len(session)], strict=True):
        whole = re.compile(r"\$ (?:.*\\\n)*.*\n").match(session, start)
        command = whole[0][2:].replace("\\\n", " ")
        commands.append(Line(re.sub(r"\s+# .*", "", command).strip(), session[whole.end() : end], whole.end()))
    return commands


def fill(folder: Path) -> None:
    """Put the digits of docs/command-line.md, and a predictor tuned on them, where pages expect such files."""
    import thermoset as ts  # noqa: PLC0415 (with the arithmetic)

    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    with contextlib.chdir(folder):
        exec(next(block.text for block in blocks(page) if block.kind == "python"), names)  # noqa: S102 (ours)
        ts.save("new.npz", ts.Logits(names["fresh"].logits, classes=names["fresh"].classes))
        predictor = ts.TwoTemperaturePredictor().fit(names["val"])
        for place in (".", "tune-output", "model"):
            Path(place).mkdir(exist_ok=True)
            predictor.save(Path(place, "predictor.json"))


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Figures are made and written but not drawn, which would take most of the time."""
    if not find_spec("matplotlib"):
        yield
        return
    with mock.patch("matplotlib.figure.Figure.savefig", lambda _, stream, **__: stream.write(b"not drawn")):
        yield


def _in_process(arguments: list[str]) -> Ran:
    from thermoset.cli import main  # noqa: PLC0415

    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", arguments),
        mock.patch.dict(os.environ, {"COLUMNS": COLUMNS}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        undrawn(),
    ):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
            if code in STOPPED:  # not what the command has to say
                raise
    return Ran(out.getvalue() + err.getvalue().replace(COMPILING, ""), code)


def _in_shell(command: str, stdin: str = "") -> Ran:
    done = subprocess.run(command, shell=True, input=stdin, capture_output=True, text=True, check=False)  # noqa: S602
    return Ran(done.stdout + done.stderr, done.returncode)


def _look_up(words: list[str]) -> None:
    """What `make` and `pip` name exists here: targets and extras."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        unknown = {word for word in words[1:] if "=" not in word} - set(targets)
    else:
        known = re.findall(r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
        wanted = re.findall(r"(?:^\.|^thermoset)\[([\w,]+)\]", "\n".join(words), flags=re.MULTILINE)
        unknown = {extra for some in wanted for extra in some.split(",")} - set(known)
    if unknown:
        raise DiffersError(f"{' '.join(words)}: there is no {', '.join(sorted(unknown))}")


def run_line(command: str, shown: str) -> Ran | None:
    """Run one command; None if it is not run."""
    first, _, rest = command.partition(" | ")
    words = shlex.split(first)
    if words[:2] == ["thermoset", "tune"] and not shown.strip():
        words.append("--no-report")
    if words[0] in SETUP_TOOLS:
        return _look_up(words)
    if words[0] == "thermoset":
        ran = _in_process(words)
        return _in_shell(rest, ran.output) if rest else ran
    if words[0] in SHELL_TOOLS:
        return _in_shell(command)
    raise DiffersError(f"nothing runs `{command}`: mark the block with <!-- not run: why -->")


def _run_session(session: str) -> str:
    """Run it; the session with the output of today, where that differs from what is shown."""
    updated, done = "", 0
    for line in lines(session):
        updated += session[done : line.start]
        done = line.start + len(line.shown)
        ran = run_line(line.command, line.shown)
        same = ran is None or doctest.OutputChecker().check_output(line.shown, ran.output, MATCH)
        if not line.shown.strip() and ran is not None:
            if ran.code:
                raise DiffersError(f"`{line.command}` ended with exit code {ran.code}: {ran.output}")
            same = True
        updated += line.shown if same else re.sub(" +$", "", ran.output, flags=re.MULTILINE)
    return updated + session[done:]


def run_page(page: Path, folder: Path) -> str:
    """Run a page in a folder that `fill` has filled; the page with the output of today."""
    text, names = page.read_text(encoding="utf-8"), {"__name__": page.stem}
    updated, done = "", 0
    with contextlib.chdir(folder):
        for block in blocks(text):
            if block.reason:
                continue
            absent = [name for name in block.needs if not find_spec(name)]
            if absent:
                raise MissingPartError(f"{page.name} needs {', '.join(absent)}")
            if block.kind == "python":
                line = text.count("\n", 0, block.start)
                exec(compile("\n" * line + block.text, str(page), "exec"), names)  # noqa: S102 (ours)
                continue
            updated += text[done : block.start] + _run_session(block.text)
            done = block.start + len(block.text)
    return updated + text[done:]


def main() -> None:
    """Write the output of today into pages."""
    parser = argparse.ArgumentParser(description="Write the output of today into pages of the documentation.")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    for page in parser.parse_args().pages:
        with tempfile.TemporaryDirectory() as filled, tempfile.TemporaryDirectory() as folder:
            fill(Path(filled))
            shutil.copytree(filled, folder, dirs_exist_ok=True)
            updated = run_page(page.resolve(), Path(folder))
        if updated != page.read_text(encoding="utf-8"):
            page.write_text(updated, encoding="utf-8")
            print(f"rewrote {page}")


if __name__ == "__main__":
    main()
