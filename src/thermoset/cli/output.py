"""What commands write: files, checked before the work and written whole when it is done, and lines for people."""

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from thermoset.errors import InputError
from thermoset.quoting import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

__all__ = [
    "check_file",
    "check_files",
    "made_folder",
    "missing_of",
    "name_files",
    "png",
    "tell",
    "tell_skipped",
    "undecided_line",
    "write_files",
]


def tell(message: object) -> None:
    """Say something in one line on standard error; whether anybody can hear it changes nothing."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"thermoset: {printable(str(message))}\n")
        sys.stderr.flush()


def missing_of(modules: Iterable[str]) -> list[str]:
    """Those of some optional modules that are not installed.

    >>> missing_of(["json", "nothing_called_so"])
    ['nothing_called_so']
    """
    return [module for module in modules if find_spec(module) is None]


def tell_skipped(what: str, modules: Iterable[str], extra: str) -> None:
    """Where an optional module is missing, say what was left out for want of it, and how to get it."""
    if missing := missing_of(modules):
        tell(f"skipped {what}: {missing[0]} is not installed. Run: pip install 'thermoset[{extra}]'")


def undecided_line(n_rows: int, n_undecided: int) -> str:
    """How often rows that hold only their largest logits left open whether a label belongs in the set.

    >>> undecided_line(10_000, 12)
    'Of 10,000 rows, 12 (0.1%) have labels that the bounds could not exclude; these were included.'
    """
    share = f"{n_undecided:,} ({n_undecided / max(n_rows, 1):.1%})"
    return f"Of {n_rows:,} rows, {share} have labels that the bounds could not exclude; these were included."


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


def png(figure: "Figure") -> bytes:
    """A figure as a picture."""
    stream = io.BytesIO()
    figure.savefig(stream, dpi=150)
    return stream.getvalue()


def write_files(out: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files by name, each whole or not at all."""
    from thermoset.io.files import write_all

    with made_folder(out):
        return write_all(out, contents)


def name_files(console: "Console", files: list[Path]) -> None:
    """Say what was written."""
    from rich.text import Text

    for path in files:
        console.print(Text(f"Wrote {printable(str(path))}"), soft_wrap=True)
