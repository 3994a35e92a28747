"""What several commands take, and what they do with it."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from thermoset.errors import InputError

__all__ = ["Labelled", "Predictor", "Probabilities", "Quiet", "Seed", "check_folder", "parts", "told_warnings"]

Labelled = Annotated[Path, typer.Argument(help="Labelled logits: npz, npy, csv, parquet, safetensors or pt.")]
Predictor = Annotated[Path, typer.Argument(help="The predictor.json that `thermoset tune` wrote.")]
Probabilities = Annotated[bool, typer.Option("--probabilities", help="The file holds probabilities.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Seed = Annotated[int, typer.Option(help="Seed of the splits and of u.")]


def parts(text: str) -> list[str]:
    """Split at commas.

    >>> parts("aps, raps")
    ['aps', 'raps']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


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
def told_warnings() -> Iterator[None]:
    """Catch warnings, and tell each once on standard error, as one line, when the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        sys.stderr.write(f"thermoset: warning: {message}\n")
