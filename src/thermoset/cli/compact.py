"""`thermoset compact`: a file of whole rows as one of their largest logits."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thermoset.cli.options import (
    KINDS,
    Classes,
    Columns,
    Groups,
    IdColumn,
    Ignore,
    Labels,
    Probabilities,
    Quiet,
    files_in,
    parts,
    told_warnings,
)
from thermoset.cli.output import check_file, name_files
from thermoset.cli.progress import ProgressBar
from thermoset.errors import InputError

if TYPE_CHECKING:
    from thermoset.io.compacting import Compacted

__all__ = ["compact"]


def compact(
    logits: Annotated[
        list[Path], typer.Argument(help=f"Logits ({KINDS}): a file, several, a folder, or a glob in quotes.")
    ],
    out: Annotated[Path, typer.Option(help="File to write: npz or parquet.")],
    top: Annotated[
        int | None, typer.Option(help="Logits to keep of each row; by default C / 25, from 16 to 512.")
    ] = None,
    temperatures: Annotated[
        str | None,
        typer.Option(
            help="Temperatures at which to store log-sums of the other logits, comma-separated; by default 11 from "
            "0.5 to 5."
        ),
    ] = None,
    labels: Labels = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    groups: Groups = None,
    ignore: Ignore = None,
    probabilities: Probabilities = False,
    quiet: Quiet = False,
) -> None:
    """Keep the largest logits of each row: a file ten times smaller, from which sets still keep their promise."""
    from thermoset.data.compacting import TEMPERATURES
    from thermoset.io.compact import COMPACT_SUFFIXES
    from thermoset.io.compacting import compact_rows
    from thermoset.io.files import known_suffix
    from thermoset.io.opening import open as open_shards

    # Bad input is rejected before any computation.
    known_suffix(out, COMPACT_SUFFIXES)
    files = files_in(logits)
    columns = Columns(labels, classes, id_column, groups, ignore, probabilities)
    check_file(out, [*files, *columns.files])
    at = TEMPERATURES if temperatures is None else _numbers(temperatures)
    with told_warnings(), ProgressBar(quiet, "Compacting") as bar:
        rows = open_shards(list(logits), **columns.how)
        made = compact_rows(rows, out, top=top, temperatures=at, classes=rows.classes, progress=bar.tell)
    _show(made, files, out)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in parts(text)]
    except ValueError:
        raise InputError(f"--temperatures must be comma-separated numbers, such as 0.5,1,2; got {text!r}.") from None


def _show(made: "Compacted", files: Sequence[Path], out: Path) -> None:
    from rich.console import Console

    console = Console()
    known = "labelled" if made.labelled else "no labels"
    kept = f"the {made.top:,} largest of {made.n_classes:,} logits"
    console.print(f"{made.n_rows:,} rows, {kept}, {known}", highlight=False)
    before, after = sum(map(_bytes_of, files)), out.stat().st_size
    console.print(f"{before:,} bytes before, {after:,} after: {before / after:.1f} times smaller", highlight=False)
    median, most = made.rest
    share = f"{median:.2%} of a row's mass at T = 1 in the median, {most:.1%} at most"
    console.print(f"Left out: {share}", highlight=False)
    name_files(console, [out])


def _bytes_of(path: Path) -> int:
    """What a file takes; of a folder (Zarr), its files."""
    inner = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(one.stat().st_size for one in inner)
