"""What several commands take, and the rows that they work on."""

import csv
import dataclasses
import glob
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from thermoset.errors import InputError
from thermoset.quoting import reason

if TYPE_CHECKING:
    from thermoset.data import Logits
    from thermoset.predictor.document import Document

KINDS = "npz, npy, csv, parquet, arrow, json, safetensors, zarr, h5 or pt"
ADVANCED = "Advanced options"
COLUMNS = "Columns of the files"
RESOURCES = "Memory and workers"

_PATIENCE = "20s"  # with a scheduler that does not answer


# ---- arguments and single options ------------------------------------------------------------------------------------

Labelled = Annotated[
    list[Path],
    typer.Argument(metavar="LOGITS", help=f"Labelled logits ({KINDS}): files, a folder, or a glob in quotes."),
]
Predictor = Annotated[Path, typer.Argument(help="The predictor.json that `thermoset tune` wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Seed = Annotated[int, typer.Option(help="Seed of the random splits and of u.", rich_help_panel=ADVANCED)]
Scores = Annotated[
    bool | None,
    typer.Option(
        "--scores/--no-scores",
        help="Store the label scores that p-values, other levels and other class shares need; by default for up to a "
        "million rows.",
        rich_help_panel=ADVANCED,
    ),
]
Grouping = Annotated[
    Literal["class", "cluster", "group", "rc3p", "interpolated"] | None,
    typer.Option(
        help="A threshold for each class, cluster of classes or group of rows; rc3p: for each class, with a limit on "
        "its rank; interpolated: between one for all and one for each class."
    ),
]
"""The names in `GROUPINGS`, typed: importing them takes longer than `--help` may."""


# ---- records of options that commands share --------------------------------------------------------------------------


def _column(help_text: str, metavar: str = "COLUMN") -> Any:
    return typer.Option(metavar=metavar, help=help_text, rich_help_panel=COLUMNS)


@dataclass(frozen=True)
class Columns:
    """What the columns of the files are."""

    labels: Annotated[
        str | None,
        _column(
            "The labels; found by itself if called `label` or `labels`. Or a file of them: npy, or txt with one per "
            "line.",
            "COLUMN|FILE",
        ),
    ] = None
    classes: Annotated[
        str | None,
        _column(
            "The columns that are the classes, in this order, with commas; others are left out. Or a txt file with one "
            "name per line.",
            "NAMES|FILE",
        ),
    ] = None
    id_column: Annotated[
        str | None, _column("The id of each row. `predict` writes it next to the row's prediction.")
    ] = None
    groups: Annotated[
        str | None,
        _column("The group of each row, such as a site or a language; found by itself if called `groups`."),
    ] = None
    ignore: Annotated[str | None, _column("Other columns that are not classes, with commas.", "COLUMNS")] = None
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="The classes hold probabilities, not logits.", rich_help_panel=COLUMNS),
    ] = False

    @property
    def row_values(self) -> dict[str, str]:
        """The columns that options name besides these, with one value for each row, by option."""
        return {}

    @property
    def files(self) -> list[Path]:
        """The files that options name: what must not be written to."""
        from thermoset.io.loading import is_value_file

        named = (self.labels, self.classes, self.groups, *self.row_values.values())
        return [Path(name) for name in named if name is not None and is_value_file(name)]

    @property
    def class_names(self) -> list[str] | None:
        """The columns of the classes, if they were named."""
        if self.classes is None or Path(self.classes).suffix.lower() != ".txt":
            return None if self.classes is None else split_names(self.classes)
        from thermoset.io import read_values

        return [str(name) for name in read_values((), self.classes).tolist() if name]

    @property
    def how(self) -> dict[str, Any]:
        """How `load`, `open` and `open_blocks` are asked for the rows."""
        return {
            "labels": self.labels,
            "classes": self.class_names,
            "id_column": self.id_column,
            "groups": self.groups,
            "ignore": [*split_names(self.ignore or ""), *self.row_values.values()],
            "probabilities": self.probabilities,
        }

    def read_row_values(self, paths: Sequence[Path], option: str, n_rows: int) -> Any:
        """The values of the column that an option names, one for each row; None if it names none."""
        column = self.row_values.get(option)
        if column is None:
            return None
        from thermoset.io import read_values

        how = self.how
        ignore = [name for name in (self.labels, self.id_column, self.groups, *how["ignore"]) if name is not None]
        found = read_values(
            list(paths), column, probabilities=self.probabilities, classes=how["classes"], ignore=ignore
        )
        if len(found) != n_rows:
            raise InputError(f"{option} {column} has {len(found):,} values for {n_rows:,} rows. Pass one per row.")
        return found


@dataclass(frozen=True)
class SplitColumns(Columns):
    """The same, for commands that split the rows."""

    split_by: Annotated[
        str | None,
        _column("Rows with the same value stay on one side of a split, such as those of one patient or camera."),
    ] = None

    @property
    def row_values(self) -> dict[str, str]:
        """The column of values that stay together."""
        return {} if self.split_by is None else {"--split-by": self.split_by}


@dataclass(frozen=True)
class WeightedColumns(Columns):
    """The same, for commands whose rows may have weights."""

    weights: Annotated[
        str | None,
        _column(
            "The weight of each row, for a known shift of the rows: how much likelier a row is where sets are "
            "predicted than where the conformal rows come from."
        ),
    ] = None

    @property
    def row_values(self) -> dict[str, str]:
        """The column of weights."""
        return {} if self.weights is None else {"--weights": self.weights}


def _checked_memory(size: str | None) -> str | None:
    """Refuse what is no amount of memory before the work."""
    if size is not None:
        from thermoset.bounds import bytes_of

        bytes_of(size, "--memory")
    return size


@dataclass(frozen=True)
class Work:
    """What the work may use, and whether it shows a progress bar."""

    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory to use besides loaded data, such as 1GiB or 512MB: files are then read in blocks, and what "
            "does not fit goes to the temporary folder. Results stay the same.",
            callback=_checked_memory,
            rich_help_panel=RESOURCES,
        ),
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=RESOURCES)] = False


@dataclass(frozen=True)
class ClusterWork(Work):
    """The same, for commands that can work on a cluster."""

    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A dask cluster to work on, such as tcp://10.0.0.1:8786; it needs access to the files.",
            rich_help_panel=RESOURCES,
        ),
    ] = None


def with_records(function: Callable[..., None]) -> Callable[..., None]:
    """A command for typer: parameters that are records of options become an option for each of their fields.

    >>> def show(name: str, work: Work) -> None: print(name, work.memory)
    >>> list(inspect.signature(with_records(show)).parameters)
    ['name', 'memory', 'quiet']
    >>> with_records(show)(name="a", memory="1GiB")
    a 1GiB
    """
    records: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(parameter.annotation):
            records[name] = parameter.annotation
            parameters += [
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
                )
                for field in dataclasses.fields(parameter.annotation)
            ]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def command(**given: Any) -> None:
        made = {
            name: record(**{f.name: given.pop(f.name) for f in dataclasses.fields(record) if f.name in given})
            for name, record in records.items()
        }
        function(**given, **made)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


# ---- rows ------------------------------------------------------------------------------------------------------------


def is_one_file(paths: Sequence[Path]) -> bool:
    """Whether one file was named, rather than several, a folder, or a glob that the shell has left as it is.

    >>> is_one_file([Path("val.npz")]), is_one_file([Path("part-*.npz")]), is_one_file([Path(".")])
    (True, False, False)
    """
    only = paths[0]
    return len(paths) == 1 and not only.is_dir() and (only.exists() or not glob.has_magic(str(only)))


def files_in(paths: Sequence[Path], sidecars: Sequence[str] = ()) -> list[Path]:
    """The files that are meant: what must not be written to; `sidecars` mark npy files that belong to others."""
    from thermoset.io import found_shards

    return list(paths) if is_one_file(paths) else list(found_shards(list(paths), sidecars=sidecars))


def title_of(paths: Sequence[Path]) -> str:
    """What the screen and the page call the data: the name of the first file or folder, and how many more there are.

    >>> title_of([Path("logits/val.npz")]), title_of([Path("a.npz"), Path("b.npz"), Path("c.npz")])
    ('val.npz', 'a.npz and 2 more')
    """
    first = paths[0].name or str(paths[0])
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def split_names(text: str) -> list[str]:
    """Split at commas; one inside quotes belongs to a name.

    >>> split_names("aps, raps"), split_names('cat, "ant, small"')
    (['aps', 'raps'], ['cat', 'ant, small'])
    """
    try:
        split = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:  # such as a line break
        split = text.split(",")
    return [part.strip() for part in split if part.strip()]


@contextmanager
def opened_logits(
    paths: Sequence[Path],
    columns: Columns,
    work: Work,
    *,
    with_labels: bool = True,
    document: "Document | None" = None,
) -> Iterator["Logits"]:
    """The rows of files, for work within a budget of memory, on a cluster if one is named.

    One file that fits is loaded whole. Several files, a file larger than half of the memory, and every file where the
    memory is bounded or a cluster works on it, are rows that stay where they are. `document` is that of the predictor
    they are for, which knows the classes.
    """
    from thermoset.rows import memory_budget, physical_memory

    how = columns.how
    if not with_labels:
        from thermoset.io.loading import column_or_file

        own = column_or_file(columns.labels)[0]
        how |= {"labels": False, "ignore": [*how["ignore"], *([] if own is None else [own])]}
    if document is not None:
        how |= {"n_options": document.n_classes, "known": document.classes}
    with memory_budget(work.memory), cluster(getattr(work, "scheduler", None)) as client:
        whole = work.memory is None and client is None and is_one_file(paths)
        if whole and not (paths[0].is_file() and paths[0].stat().st_size > physical_memory() // 2):
            from thermoset.io import load

            yield load(paths[0], **how)
            return
        from thermoset.io.opening import open as open_shards

        rows = open_shards(list(paths), **how)
        if client is None:
            yield rows
            return
        from thermoset.integrations.dask import on_cluster

        yield on_cluster(rows, client=client)


@contextmanager
def cluster(scheduler: str | None) -> "Iterator[Any]":
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
