"""What commands show and write: sentences, tables, JSON and progress for people; files checked before the work."""

import contextlib
import io
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thermoset.errors import InputError, install_command
from thermoset.quoting import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.progress import Progress

    from thermoset.predictor.document import Document

BROKEN = 1
"""The exit code of a broken promise or an alarm; everything else that goes wrong ends otherwise."""

PAGE_MODULES = ("vl_convert", "jinja2")
"""What pages are made with."""

_SHOW_AFTER = 1.0  # seconds, until a progress bar
_LONGEST = 10_000  # characters of a paragraph


# ---- standard output -------------------------------------------------------------------------------------------------


class Screen:
    """Standard output for people: sentences that wrap at the width of the terminal, and tables that fit it."""

    def __init__(self, **options: Any) -> None:
        from rich.console import Console

        self._console = Console(emoji=False, highlight=False, markup=False, **options)

    def say(self, text: str = "", lead: str = "", style: str = "bold", *, wrap: bool = True) -> None:
        """Print a paragraph, after a word or two in bold or in colour."""
        from rich.text import Text

        line = Text.assemble((lead, style), " " if lead and text else "", printable(text, _LONGEST))
        self._console.print(line, soft_wrap=not wrap)

    def note(self, text: str) -> None:
        """Print a paragraph that stands back."""
        from rich.text import Text

        self._console.print(Text(printable(text, _LONGEST), "dim"))

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Mapping[str, str] | None = None) -> None:
        """Print a table, without its last columns where the terminal is too narrow.

        `notes` stand below it, each where its column is there.
        """
        from rich.text import Text

        from thermoset.text_tables import TextTable

        cells = tuple(tuple(printable(cell, 60) for cell in row) for row in rows)
        text = TextTable("", "", tuple(head), cells).to_text(self._console.width).splitlines()[1:]
        rule = "─" * max(map(len, text))
        for line, style in ((text[0], "bold"), (rule, "dim"), *((line, "") for line in text[1:])):
            self._console.print(Text(line, style), soft_wrap=True)
        below = " ".join(note for column, note in (notes or {}).items() if column in text[0])
        self.say()
        if below:
            self.note(below)

    def wrote(self, *paths: Path) -> None:
        """Say what was written."""
        for path in paths:
            self.say(f"Wrote {path}", wrap=False)


def print_json(record: Mapping[str, Any]) -> None:
    """Print an object for machines."""
    sys.stdout.write(json.dumps(record, indent=1, allow_nan=False) + "\n")


def undecided_line(n_rows: int, n_undecided: int) -> str:
    """How often rows that hold only their largest logits left open whether a label belongs in the set.

    >>> undecided_line(10_000, 12)
    'Of 10,000 rows, 12 (0.1%) have labels that the bounds could not exclude; these were included.'
    """
    share = f"{n_undecided:,} ({n_undecided / max(n_rows, 1):.1%})"
    return f"Of {n_rows:,} rows, {share} have labels that the bounds could not exclude; these were included."


def weights_line(document: "Document") -> str:
    """What the weights of a predictor's conformal rows are worth; nothing where they have none."""
    if not document.is_weighted:
        return ""
    return (
        f"Conformal rows have weights: {document.provenance.conformal_rows:,} rows are worth "
        f"{document.effective_rows:,.1f} equally weighted rows (effective sample size)."
    )


# ---- standard error --------------------------------------------------------------------------------------------------


def tell(message: object) -> None:
    """Say something in one line on standard error; whether anybody can hear it changes nothing."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"thermoset: {printable(str(message))}\n")
        sys.stderr.flush()


@contextmanager
def telling_warnings() -> Iterator[None]:
    """Catch warnings, and tell each once, as one line, when the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        tell(f"warning: {message}")


def can_draw(what: str, modules: Iterable[str], extra: str) -> bool:
    """Whether optional modules are installed; where one is missing, say what is left out and how to get it."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        tell(f"skipped {what}: {missing[0]} is not installed. Run: {install_command(extra)}")
    return not missing


class ProgressBar:
    """A progress bar on a terminal, for work that takes longer than a second."""

    def __init__(self, quiet: bool, doing: str) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._wanted = self._console.is_terminal and not quiet
        self._doing = doing
        self._begun = time.monotonic()
        self._shown: Progress | None = None

    def tell(self, done: int, total: int | None) -> None:
        """Take note that `done` of `total` parts of the work are finished; None: nobody knows how many there are."""
        if self._wanted and self._shown is None and time.monotonic() - self._begun > _SHOW_AFTER:
            from rich.progress import Progress

            self._shown = Progress(console=self._console, transient=True)
            self._shown.add_task(self._doing, total=None)
            self._shown.start()
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], completed=done, total=total)

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()


@contextmanager
def working(quiet: bool, doing: str) -> Iterator[None]:
    """Show on a terminal that work goes on, where nobody can say how far it is; tell its warnings at the end."""
    from rich.console import Console

    console = Console(stderr=True)
    busy = contextlib.nullcontext() if quiet or not console.is_terminal else console.status(f"{doing} ...")
    with telling_warnings(), busy:
        yield


# ---- files -----------------------------------------------------------------------------------------------------------


def check_file(out: Path, reads: Iterable[Path]) -> None:
    """Refuse, before the work, a file of logits or predictions that must not be written: see `check_targets`."""
    from thermoset.io import files_of
    from thermoset.io.files import check_targets

    check_targets(files_of(out), [part for path in reads for part in files_of(path)])


def check_files(out: Path, names: Iterable[str], reads: Iterable[Path] = ()) -> None:
    """Refuse, before the work, a folder that cannot be made, and files in it that must not be written."""
    from thermoset.io.files import check_folder

    check_folder(out)
    for name in names:
        check_file(out / name, reads)


@contextmanager
def made_folder(out: Path) -> Iterator[None]:
    """Make the folder, and say it in one line if it, or what is then written to it, cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(f"--out {out} cannot be written ({error.strerror or error}). Name another.") from None


def write_file(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all, in a folder that is made if it is not there."""
    from thermoset.io.files import write_all

    with made_folder(path.parent):
        write_all(path.parent, {path.name: content})
    return path


def png(figure: "Figure") -> bytes:
    """A figure as a picture."""
    stream = io.BytesIO()
    figure.savefig(stream, dpi=150)
    return stream.getvalue()


def promise_broken() -> typer.Exit:
    """Ends a command with the exit code of a broken promise or an alarm."""
    return typer.Exit(BROKEN)
