"""What several commands take, and what they do with it."""

import csv
import glob
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from thermoset.cli.output import tell
from thermoset.errors import InputError
from thermoset.quoting import reason

if TYPE_CHECKING:
    from thermoset.data import Logits
    from thermoset.predictor.document import Document

__all__ = [
    "KINDS",
    "Classes",
    "Columns",
    "Grouping",
    "Groups",
    "IdColumn",
    "Ignore",
    "Labelled",
    "Labels",
    "Memory",
    "Predictor",
    "Probabilities",
    "Quiet",
    "Scheduler",
    "Scores",
    "Seed",
    "SplitBy",
    "Weights",
    "files_in",
    "is_one_file",
    "kept_together",
    "on_cluster",
    "opened_logits",
    "parts",
    "title_of",
    "told_warnings",
    "weighed",
    "weights_of",
]

KINDS = "npz, npy, csv, parquet, arrow, json, safetensors, zarr, h5 or pt"

_PATIENCE = "20s"  # with a scheduler that does not answer


def _checked_memory(size: str | None) -> str | None:
    """Refuse what is no amount of memory before the work."""
    if size is not None:
        from thermoset.bounds import bytes_of

        bytes_of(size, "--memory")
    return size


Grouping = Annotated[
    Literal["class", "cluster", "group", "rc3p", "interpolated"] | None,
    typer.Option(
        help="Thresholds by class, by cluster of classes, by group of rows, by class with rank limits, or between one "
        "for all and one per class."
    ),
]
"""The names in `GROUPINGS`, typed: importing them takes longer than `--help` may."""

Groups = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column or array with the group of each row, such as a site or a language; `groups` is used if present.",
    ),
]
Labelled = Annotated[
    list[Path], typer.Argument(help=f"Labelled logits ({KINDS}): a file, several, a folder, or a glob in quotes.")
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN|FILE",
        help="Column or array with the labels; `label` or `labels` is used if present. Or a file of labels: npy, or "
        "txt with one per line.",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Which columns are the classes, with commas, in this order; other columns are left out. Or a txt file "
        "with one name per line.",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column with the id of each row, which is not a class."),
]
Ignore = Annotated[str | None, typer.Option(metavar="COLUMNS", help="Other columns that are not classes, with commas.")]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory to use in addition to loaded data, such as 1GiB or 512MB; files are then read in blocks, and "
        "what does not fit goes to the temporary folder. Results do not depend on it.",
        callback=_checked_memory,
    ),
]
Predictor = Annotated[Path, typer.Argument(help="The predictor.json that `thermoset tune` wrote.")]
Probabilities = Annotated[bool, typer.Option("--probabilities", help="The file holds probabilities, not logits.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Work on a dask cluster, such as tcp://10.0.0.1:8786; it must have access to the files."
    ),
]
Scores = Annotated[
    bool | None,
    typer.Option(
        "--scores/--no-scores",
        help="Whether to store what p-values and other levels need; by default for up to a million rows.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the splits and of u.")]
SplitBy = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column or array whose values stay on one side of a split, such as the patient or the camera of each row.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column or array with the weight of each row, for a known shift of the rows: how much likelier a row is "
        "where sets are predicted than where the conformal rows come from.",
    ),
]


def is_one_file(paths: Sequence[Path]) -> bool:
    """Whether one file was named, rather than several, a folder, or a glob that the shell has left as it is.

    >>> is_one_file([Path("val.npz")]), is_one_file([Path("part-*.npz")]), is_one_file([Path(".")])
    (True, False, False)
    """
    only = paths[0]
    return len(paths) == 1 and not only.is_dir() and (only.exists() or not glob.has_magic(str(only)))


def files_in(paths: Sequence[Path], sidecars: Sequence[str] = ()) -> list[Path]:
    """The files that LOGITS stands for: what must not be written to; `sidecars` mark npy files as beside others."""
    from thermoset.io import found_shards

    return list(paths) if is_one_file(paths) else list(found_shards(list(paths), sidecars=sidecars))


class Columns(NamedTuple):
    """What the columns of LOGITS are, as the options of a command say."""

    labels: str | None = None
    classes: str | None = None
    id_column: str | None = None
    groups: str | None = None
    ignore: str | None = None
    probabilities: bool = False
    split_by: str | None = None
    weights: str | None = None

    @property
    def files(self) -> list[Path]:
        """The files that options name: what must not be written to."""
        from thermoset.io.loading import is_value_file

        named = (self.labels, self.classes, self.groups, self.split_by, self.weights)
        return [Path(name) for name in named if name is not None and is_value_file(name)]

    @property
    def class_names(self) -> list[str] | None:
        """The columns of the classes, if they were named."""
        if self.classes is None or Path(self.classes).suffix.lower() != ".txt":
            return None if self.classes is None else parts(self.classes)
        from thermoset.io import read_values

        return [str(name) for name in read_values((), self.classes).tolist() if name]

    @property
    def ignored(self) -> list[str]:
        """Columns that were named, and are neither classes nor labels, groups or ids."""
        return [*parts(self.ignore or ""), *(name for name in (self.split_by, self.weights) if name is not None)]

    @property
    def how(self) -> dict[str, Any]:
        """How `load`, `open` and `open_blocks` are asked for the rows."""
        return {
            "labels": self.labels,
            "classes": self.class_names,
            "id_column": self.id_column,
            "groups": self.groups,
            "ignore": self.ignored,
            "probabilities": self.probabilities,
        }


@contextmanager
def opened_logits(
    paths: Sequence[Path],
    columns: Columns,
    *,
    with_labels: bool = True,
    made: "Document | None" = None,
    memory: str | None = None,
    scheduler: str | None = None,
) -> Iterator["Logits"]:
    """The rows of LOGITS, for work within a budget of memory, on a cluster if one is named.

    One file that fits is loaded whole. Several files, a file larger than half of the memory, and every file where the
    memory is bounded or a cluster works on it, are rows that stay where they are. `made` is the predictor they are for,
    which knows the classes. `split_by` and `weights` name columns that are no class; `kept_together` and `weights_of`
    read them.
    """
    from thermoset.rows import memory_budget, physical_memory

    how = columns.how
    if not with_labels:
        from thermoset.io.loading import column_named

        own = column_named(columns.labels)
        how |= {"labels": False, "ignore": [*how["ignore"], *([] if own is None else [own])]}
    if made is not None:
        how |= {"n_options": made.n_classes, "known": made.classes}
    with memory_budget(memory), on_cluster(scheduler) as client:
        whole = memory is None and client is None and is_one_file(paths)
        if whole and not (paths[0].is_file() and paths[0].stat().st_size > physical_memory() // 2):
            from thermoset.io import load

            yield load(paths[0], **how)
            return
        from thermoset.io.opening import open as open_shards

        rows = open_shards(list(paths), **how)
        if client is None:
            yield rows
            return
        from thermoset.integrations.dask import on_cluster as sent

        yield sent(rows, client=client)


def kept_together(paths: Sequence[Path], columns: Columns, n_rows: int) -> Any:
    """The values that a split keeps on one side, one for each row of LOGITS; None if no column was named."""
    return _values_of(paths, columns, ("--split-by", columns.split_by), n_rows)


def weights_of(paths: Sequence[Path], columns: Columns, n_rows: int) -> Any:
    """The weights of the rows of LOGITS; None if no column was named."""
    return _values_of(paths, columns, ("--weights", columns.weights), n_rows)


def _values_of(paths: Sequence[Path], columns: Columns, named: tuple[str, str | None], n_rows: int) -> Any:
    """The values of the column that an option names, one for each row of LOGITS; None if it names none."""
    option, column = named
    if column is None:
        return None
    from thermoset.io import read_values

    others = (columns.labels, columns.id_column, columns.groups, *columns.ignored)
    ignore = [name for name in others if name is not None]
    found = read_values(
        list(paths), column, probabilities=columns.probabilities, classes=columns.class_names, ignore=ignore
    )
    if len(found) != n_rows:
        raise InputError(f"{option} {column} has {len(found):,} values for {n_rows:,} rows. Pass one per row.")
    return found


def weighed(made: "Document") -> str | None:
    """A line about the weights of a predictor's conformal rows; None where they have none."""
    if not made.is_weighted:
        return None
    return (
        f"Conformal rows have weights: {made.provenance.conformal_rows:,} rows are worth "
        f"{made.effective_rows:,.1f} equally weighted rows (effective sample size)."
    )


@contextmanager
def on_cluster(scheduler: str | None) -> "Iterator[Any]":
    """The client of a dask cluster; None if no scheduler is named."""
    if scheduler is None:
        yield None
        return
    from thermoset.io.files import need

    distributed = need("distributed", "dask", "--scheduler")
    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"--scheduler {scheduler} does not answer ({reason(error)}). Is it the address that dask scheduler printed?"
        ) from None
    with client:
        yield client


def title_of(paths: Sequence[Path]) -> str:
    """What the screen and the page call the data: the name of the first file or folder, and how many more there are.

    >>> title_of([Path("logits/val.npz")]), title_of([Path("a.npz"), Path("b.npz"), Path("c.npz")])
    ('val.npz', 'a.npz and 2 more')
    """
    first = paths[0].name or str(paths[0])
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def parts(text: str) -> list[str]:
    """Split at commas; one inside quotes belongs to a name.

    >>> parts("aps, raps"), parts('cat, "ant, small"')
    (['aps', 'raps'], ['cat', 'ant, small'])
    """
    try:
        split = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:  # such as a line break
        split = text.split(",")
    return [part.strip() for part in split if part.strip()]


@contextmanager
def told_warnings() -> Iterator[None]:
    """Catch warnings, and tell each once on standard error, as one line, when the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        tell(f"warning: {message}")
