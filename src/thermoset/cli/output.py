"""Files that commands write: checked before the work, written whole when it is done, named at the end."""

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from thermoset.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

__all__ = ["check_folder", "made_folder", "name_files", "png", "write_files"]


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be made or written, without making it yet."""
    standing = out.absolute()
    while not standing.exists() and standing != standing.parent:
        standing = standing.parent
    if not standing.is_dir():
        raise InputError(f"--out {out} cannot be made a folder ({standing} is a file). Name another.")
    if not os.access(standing, os.W_OK | os.X_OK):
        raise InputError(f"--out {out} cannot be written ({standing}: permission denied). Name another.")


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
    for path in files:
        console.print(f"Wrote {path}", soft_wrap=True, highlight=False, markup=False)
