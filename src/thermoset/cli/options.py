"""What several commands take, and the rows that they work on."""

import csv
import dataclasses
import glob
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from thermoset.errors import InputError
from thermoset.quoting import reason

if TYPE_CHECKING:
    from thermoset.data import Logits
    from thermoset.predictor.document import Document

KINDS = "npz, npy, csv, parquet, arrow, json, safetensors, zarr, h5 or pt"

_COLUMNS, _RESOURCES = "Columns of the files", "Memory and workers"
_PATIENCE = "20s"  # with a scheduler that does not answer


# ---- arguments and single options ------------------------------------------------------------------------------------


def option(
    text: str, metavar: str | None = None, *, name: str | None = None, panel: str | None = None, **more: Any
) -> Any:
    """An option with its help, and its name if that is not the parameter's; switches have one, or get a `--no-` too."""
    return typer.Option(*([] if name is None else [name]), help=text, metavar=metavar, rich_help_panel=panel, **more)


def advanced(text: str, metavar: str | None = None, *, name: str | None = None) -> Any:
    """An option that few need."""
    return option(text, metavar, name=name, panel="Advanced options")


def rows_argument(text: str) -> Any:
    """Files of rows; what rows they are."""
    return typer.Argument(metavar="LOGITS", help=text.format(f"({KINDS}): files, a folder, or a glob in quotes"))


Labelled = Annotated[list[Path], rows_argument("Labelled logits {}.")]
Predictor = Annotated[Path, typer.Argument(metavar="PREDICTOR", help="The predictor.json that `thermoset tune` wrote.")]
Json = Annotated[bool, option("Print the result as JSON.", name="--json")]
Quiet = Annotated[bool, option("No progress bar.", name="--quiet")]
Seed = Annotated[int, advanced("Seed of the random splits and of u.")]
Scores = Annotated[
    bool | None,
    advanced(
        "Store the label scores that p-values, other levels and other class shares need; by default for up to a "
        "million rows.",
        name="--scores/--no-scores",
    ),
]
Grouping = Annotated[
    Literal["class", "cluster", "group", "rc3p", "interpolated"] | None,
    option(
        "A threshold for each class, cluster of classes or group of rows; rc3p: for each class, with a limit on its "
        "rank; interpolated: between one for all and one for each class."
    ),
]
"""The names in `GROUPINGS`, typed: importing them takes longer than `--help` may."""


# ---- rows: records of options that commands share --------------------------------------------------------------------


def _column(text: str, metavar: str = "COLUMN") -> Any:
    return option(text, metavar, panel=_COLUMNS)


def _checked_memory(size: str | None) -> str | None:
    """Refuse what is no amount of memory before the work."""
    if size is not None:
        from thermoset.bounds import bytes_of

        bytes_of(size, "--memory")
    return size


@dataclass(frozen=True)
class Rows:
    """What the columns of the files are, and what the work on them may use.

    `extra` names the field of one more column, with one value for each row: see `values`.
    """

    extra: ClassVar[str | None] = None
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
        str | None, _column("The group of each row, such as a site or a language; found by itself if called `groups`.")
    ] = None
    ignore: Annotated[str | None, _column("Other columns that are not classes, with commas.", "COLUMNS")] = None
    probabilities: Annotated[
        bool, option("The classes hold probabilities, not logits.", name="--probabilities", panel=_COLUMNS)
    ] = False
    memory: Annotated[
        str | None,
        option(
            "Memory to use besides loaded data, such as 1GiB or 512MB: files are then read in blocks, and what does "
            "not fit goes to the temporary folder. Results stay the same.",
            "SIZE",
            panel=_RESOURCES,
            callback=_checked_memory,
        ),
    ] = None
    quiet: Annotated[bool, option("No progress bar.", name="--quiet", panel=_RESOURCES)] = False

    @property
    def _extra_column(self) -> str | None:
        return None if self.extra is None else getattr(self, self.extra)

    @property
    def files(self) -> list[Path]:
        """The files that options name: what must not be written to."""
        from thermoset.io.roles import is_value_file

        named = (self.labels, self.classes, self.groups, self._extra_column)
        return [Path(name) for name in named if name is not None and is_value_file(name)]

    @property
    def how(self) -> dict[str, Any]:
        """How `load`, `open` and `open_blocks` are asked for the rows."""
        from thermoset.io import read_values

        classes = None if self.classes is None else split_names(self.classes)
        if self.classes is not None and Path(self.classes).suffix.lower() == ".txt":
            classes = [str(name) for name in read_values((), self.classes).tolist() if name]
        ignore = [*split_names(self.ignore or ""), *filter(None, [self._extra_column])]
        roles = {name: getattr(self, name) for name in ("labels", "id_column", "groups", "probabilities")}
        return roles | {"classes": classes, "ignore": ignore}

    def values(self, paths: Sequence[Path], n_rows: int) -> Any:
        """The values of the extra column, one for each row; None if it is not named."""
        from thermoset.io import read_values

        if self.extra is None or (column := self._extra_column) is None:
            return None
        how = self.how
        ignore = [one for one in (self.labels, self.id_column, self.groups, *how["ignore"]) if one is not None]
        arguments = {"probabilities": self.probabilities, "classes": how["classes"], "ignore": ignore}
        values = read_values(list(paths), column, **arguments)
        if len(values) != n_rows:
            name = f"--{self.extra.replace('_', '-')} {column}"
            raise InputError(f"{name} has {len(values):,} values for {n_rows:,} rows. Pass one per row.")
        return values

    @contextmanager
    def open(
        self, paths: Sequence[Path], *, with_labels: bool = True, document: "Document | None" = None
    ) -> Iterator["Logits"]:
        """The rows of files, for work within a budget of memory, on a cluster if one is named.

        One file that fits is loaded whole. Several files, a file larger than half of the memory, and every file where
        the memory is bounded or a cluster works on it, are rows that stay where they are. `document` is that of the
        predictor they are for, which knows the classes.
        """
        from thermoset.rows import memory_budget, physical_memory

        how = self.how
        if not with_labels:
            from thermoset.io.roles import column_or_file

            own = column_or_file(self.labels)[0]
            how |= {"labels": False, "ignore": [*how["ignore"], *([] if own is None else [own])]}
        if document is not None:
            how |= {"n_options": document.n_classes, "known": document.classes}
        with memory_budget(self.memory), cluster(getattr(self, "scheduler", None)) as client:
            whole = self.memory is None and client is None and is_one_file(paths)
            if whole and not (paths[0].is_file() and paths[0].stat().st_size > physical_memory() // 2):
                from thermoset.io import load

                yield load(paths[0], **how)
                return
            from thermoset.io.loading import open as open_shards

            rows = open_shards(list(paths), **how)
            if client is None:
                yield rows
                return
            from thermoset.integrations.dask import on_cluster

            yield on_cluster(rows, client=client)


_Scheduler = Annotated[
    str | None,
    option(
        "A dask cluster to work on, such as tcp://10.0.0.1:8786; it needs access to the files.",
        "ADDRESS",
        panel=_RESOURCES,
    ),
]


@dataclass(frozen=True)
class SplitRows(Rows):
    """The same, for commands that split the rows."""

    extra = "split_by"
    split_by: Annotated[
        str | None,
        _column("Rows with the same value stay on one side of a split, such as those of one patient or camera."),
    ] = None
    scheduler: _Scheduler = None


@dataclass(frozen=True)
class WeightedRows(Rows):
    """The same, for commands whose rows may have weights."""

    extra = "weights"
    weights: Annotated[
        str | None,
        _column(
            "The weight of each row, for a known shift of the rows: how much likelier a row is where sets are "
            "predicted than where the conformal rows come from."
        ),
    ] = None
    scheduler: _Scheduler = None


def with_records(function: Callable[..., None]) -> Callable[..., None]:
    """A command for typer: parameters that are records of options become an option for each of their fields."""
    records: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(parameter.annotation):
            records[name] = parameter.annotation
            parameters += [
                inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
                for field in dataclasses.fields(parameter.annotation)
            ]
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))

    def command(**arguments: Any) -> None:
        filled = {
            name: record(**{field.name: arguments.pop(field.name) for field in dataclasses.fields(record)})
            for name, record in records.items()
        }
        function(**arguments, **filled)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


# ---- files -----------------------------------------------------------------------------------------------------------


def is_one_file(paths: Sequence[Path]) -> bool:
    """Whether one file was named, rather than several, a folder, or a glob that the shell has left as it is."""
    only = paths[0]
    return len(paths) == 1 and not only.is_dir() and (only.exists() or not glob.has_magic(str(only)))


def files_in(paths: Sequence[Path], sidecars: Sequence[str] = ()) -> list[Path]:
    """The files that are meant: what must not be written to; `sidecars` mark npy files that belong to others."""
    from thermoset.io import found_shards

    return list(paths) if is_one_file(paths) else list(found_shards(list(paths), sidecars=sidecars))


def title_of(paths: Sequence[Path]) -> str:
    """What the screen and the page call the data: the name of the first file or folder, and how many more there are."""
    first = paths[0].name or str(paths[0])
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def split_names(text: str) -> list[str]:
    """Split at commas; one inside quotes belongs to a name."""
    try:
        split = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:  # such as a line break
        split = text.split(",")
    return [part.strip() for part in split if part.strip()]


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
