"""`thermoset answer`: from judged rows with one score to the score from which on answers may go out alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermoset.cli.options import Seed
from thermoset.cli.output import check_file, name_files
from thermoset.errors import FileFormatError, InputError
from thermoset.quoting import printable, quoted, reason

if TYPE_CHECKING:
    from rich.table import Table

    from thermoset.arrays import Bools, Floats
    from thermoset.decisions import AnswerRule

__all__ = ["answer"]

_MOST_BYTES = 2**32
_RIGHT = {"1": True, "true": True, "yes": True, "right": True, "0": False, "false": False, "no": False, "wrong": False}


def answer(
    scores: Annotated[Path, typer.Argument(help="Judged rows: csv, tsv, parquet, arrow or jsonl, one row each.")],
    score: Annotated[str, typer.Option(metavar="COLUMN", help="The score of each row, higher where it is surer.")],
    right: Annotated[str, typer.Option(metavar="COLUMN", help="Whether each answer was right: true or false, 1 or 0.")],
    error: Annotated[str, typer.Option(help="The largest share of wrong answers among those that go out alone.")],
    out: Annotated[Path, typer.Option(help="File for the rule.")] = Path("rule.json"),
    confidence: Annotated[str, typer.Option(help="How sure the claim is.")] = "0.95",
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The group of each row; each has a threshold of its own.")
    ] = None,
    joint: Annotated[
        bool, typer.Option("--joint", help="With --groups: all claims hold together; otherwise each by itself.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Find from which score on answers may go out alone, with a certified error, and write rule.json."""
    from rich.console import Console

    from thermoset.decisions import AnswerRule

    check_file(out, [scores])
    rule = AnswerRule(f"error<={error}", confidence, joint, seed)
    table = _read(scores, [score, right, *([] if groups is None else [groups])])
    rule.fit(_numbers(table[score], score), _judged(table[right], right), None if groups is None else table[groups])
    rule.save(out)
    console = Console(emoji=False)
    if rule.group_names_ is None:
        claim = rule.claims_[0]
        console.print(claim.sentence, highlight=False)
        if claim.met:
            console.print(f"Answer rows with a score of {claim.threshold:.6g} or more.", highlight=False)
    else:
        console.print(_groups_table(rule))
        each = "all hold together" if joint else "each holds by itself"
        console.print(f"Confidence {confidence}: {each}. Groups that are not listed are not answered.", highlight=False)
    name_files(console, [out])


def _groups_table(rule: "AnswerRule") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("group", "answer from", "answered", "wrong", "rows", "rows needed"):
        table.add_column(column, justify="left" if column == "group" else "right", no_wrap=column != "group")
    for name, claim in zip(rule.group_names_ or (), rule.claims_, strict=True):
        needed = "" if claim.met else "a better model" if claim.needed is None else f"about {claim.needed:,}"
        start = f"{claim.threshold:.6g}" if claim.met else "none"
        cells = start, f"{claim.share:.1%}", f"{claim.errors:,} of {claim.answered:,}", f"{claim.rows:,}", needed
        table.add_row(Text(printable(name)), *cells)
    return table


def _read(path: Path, names: list[str]) -> dict[str, list[Any]]:
    """Columns of a table by name."""
    kind = path.suffix.lower()
    if kind in (".parquet", ".arrow", ".feather"):
        from thermoset.io.files import errors_about, need

        need("pyarrow", "io", f"reading {kind}")
        from pyarrow import feather, parquet

        with errors_about(path):
            table = parquet.read_table(path) if kind == ".parquet" else feather.read_table(path)
        held = {name: table[name].to_pylist() for name in table.column_names if name in names}
        known = table.column_names
    elif kind in (".csv", ".tsv", ".jsonl"):
        rows = _text_rows(path, kind)
        known = list(rows[0]) if rows else []
        held = {name: [row.get(name) for row in rows] for name in names if name in known}
    else:
        raise InputError(f"{path}: judged rows are read from csv, tsv, jsonl, parquet or arrow; got {quoted(kind)}.")
    for name in names:
        if name not in held:
            raise InputError(f"{path}: has no column {quoted(name)}; it has {', '.join(map(quoted, known))}.")
    return held


def _text_rows(path: Path, kind: str) -> list[dict[str, Any]]:
    import csv
    import json

    from thermoset.io.files import read_at_most

    try:
        text = read_at_most(path, _MOST_BYTES).decode("utf-8-sig")
        if kind == ".jsonl":
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            rows = list(csv.DictReader(text.splitlines(), delimiter="\t" if kind == ".tsv" else ","))
    except (UnicodeDecodeError, ValueError, csv.Error, RecursionError) as error:
        raise FileFormatError(f"{path}: is not a readable {kind} file ({reason(error)}).") from None
    if not all(isinstance(row, dict) for row in rows):
        raise FileFormatError(f"{path}: every line must be an object with names and values.")
    return rows


def _numbers(cells: list[Any], name: str) -> "Floats":
    import numpy as np

    try:
        return np.asarray(cells).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"column {quoted(name)} must hold numbers, the score of each row.") from None


def _judged(cells: list[Any], name: str) -> "Bools":
    """Right or wrong as booleans, from booleans, numbers or words."""
    import numpy as np

    texts = [str(one).strip().lower().removesuffix(".0") for one in cells]
    if unknown := [text for text in texts if text not in _RIGHT]:
        raise InputError(f"column {quoted(name)} must say true or false, or 1 or 0; got {quoted(unknown[0])}.")
    return np.array([_RIGHT[text] for text in texts], dtype=np.bool_)
