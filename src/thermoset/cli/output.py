"""What commands show and write: sentences, tables, JSON and progress for people; files checked before the work."""

import contextlib
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermoset.errors import InputError, install_command
from thermoset.quoting import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thermoset.predictor.document import Document

BROKEN = 1
"""The exit code of a broken promise or an alarm; everything else that goes wrong ends otherwise."""

PAGE_MODULES = ("vl_convert", "jinja2")
"""The packages that render pages."""

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
        self.say(lead=printable(text, _LONGEST), style="dim")

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Mapping[str, str] | None = None) -> None:
        """Print a table, without its last columns where the terminal is too narrow.

        `notes` stand below it, each where its column is there.
        """
        from thermoset.text_tables import TextTable

        cells = tuple(tuple(printable(cell, 60) for cell in row) for row in rows)
        text = TextTable("", "", tuple(head), cells).to_text(self._console.width).splitlines()[1:]
        self.say(lead=text[0], wrap=False)
        self.say(lead="─" * max(map(len, text)), style="dim", wrap=False)
        for line in text[1:]:
            self.say(line, wrap=False)
        self.say()
        if below := " ".join(note for column, note in (notes or {}).items() if column in text[0]):
            self.note(below)

    def wrote(self, *paths: Path) -> None:
        """Say what was written."""
        for path in paths:
            self.say(f"Wrote {path}", wrap=False)

    def say_document(self, document: "Document", indent: str = "") -> None:
        """What the weights of the conformal rows are worth, and how many of these rows were left undecided, if any."""
        self.say_weights(document)
        share = next((measure.value for measure in document.measures if measure.name == "undecided_share"), None)
        if share is not None:
            n_rows = document.provenance.conformal_rows
            self.say_undecided(n_rows, round(share * n_rows), indent)

    def say_weights(self, document: "Document") -> None:
        """What the weights of the conformal rows are worth; nothing where they have none."""
        if document.is_weighted:
            self.say(
                f"Conformal rows have weights: {document.provenance.conformal_rows:,} rows are worth "
                f"{document.effective_rows:,.1f} equally weighted rows (effective sample size)."
            )

    def say_undecided(self, n_rows: int, n_undecided: int, indent: str = "") -> None:
        """How often rows that hold only their largest logits left open whether a label belongs in the set."""
        share = f"{n_undecided:,} ({n_undecided / max(n_rows, 1):.1%})"
        self.say(
            f"{indent}Of {n_rows:,} rows, {share} have labels that the bounds could not exclude; these were included."
        )


def print_json(record: Mapping[str, Any]) -> None:
    """Print an object for machines."""
    sys.stdout.write(json.dumps(record, indent=1, allow_nan=False) + "\n")


# ---- standard error --------------------------------------------------------------------------------------------------


def tell(message: object) -> None:
    """Say something in one line on standard error; whether anybody can hear it changes nothing."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"thermoset: {printable(str(message))}\n")
        sys.stderr.flush()


@contextmanager
def print_warnings() -> Iterator[None]:
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


@contextmanager
def progress(quiet: bool, doing: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal while work goes on; yields what to call with (done, total), None where nobody knows."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda *_: None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


# ---- files -----------------------------------------------------------------------------------------------------------


def check_file(out: Path, reads: Iterable[Path]) -> None:
    """Refuse, before the work, a file of logits or predictions that must not be written: see `check_targets`."""
    from thermoset.io import files_of
    from thermoset.io.files import check_targets

    check_targets(files_of(out), [part for path in reads for part in files_of(path)])


def check_files(out: Path, names: Iterable[str], reads: Iterable[Path] = ()) -> None:
    """Refuse, before the work, a folder that cannot be created, and files in it that must not be written."""
    from thermoset.io.files import check_folder

    check_folder(out)
    for name in names:
        check_file(out / name, reads)


def need_page(purpose: str) -> None:
    """Refuse, before the work, a page that cannot be drawn."""
    from thermoset.io.files import need

    for module in PAGE_MODULES:
        need(module, "report", purpose)


@contextmanager
def make_folder(out: Path) -> Iterator[None]:
    """Make the folder, and say it in one line if it, or what is then written to it, cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(f"--out {out} cannot be written ({error.strerror or error}). Name another.") from None


def write_file(path: Path, content: "bytes | str | Figure") -> Path:
    """Write a file whole or not at all, in a folder that is created if it does not exist; a figure as a picture."""
    from thermoset.io.files import write_all

    if isinstance(content, str):
        content = content.encode()
    elif not isinstance(content, bytes):
        stream = io.BytesIO()
        content.savefig(stream, dpi=150)
        content = stream.getvalue()
    with make_folder(path.parent):
        write_all(path.parent, {path.name: content})
    return path
