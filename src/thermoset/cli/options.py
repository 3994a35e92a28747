"""What several commands take, and what they do with it."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from thermoset.cli.output import tell

__all__ = ["Grouping", "Labelled", "Labels", "Predictor", "Probabilities", "Quiet", "Seed", "parts", "told_warnings"]

Grouping = Annotated[Literal["class", "cluster"] | None, typer.Option(help="Thresholds by class or cluster.")]
"""The names in `GROUPINGS`, typed: importing them takes longer than `--help` may."""

Labelled = Annotated[Path, typer.Argument(help="Labelled logits: npz, npy, csv, parquet, json, safetensors or pt.")]
Labels = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Labels in a file of their own: npy, or txt with one in each line.")
]
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


@contextmanager
def told_warnings() -> Iterator[None]:
    """Catch warnings, and tell each once on standard error, as one line, when the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        tell(f"warning: {message}")
