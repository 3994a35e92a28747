"""Tables of columns as files: CSV and Parquet, written whole or not at all."""

import csv
import io
import os
from collections.abc import Mapping
from typing import Any

from thermoset.errors import InputError
from thermoset.io.files import as_path, errors_about, need, write_whole

__all__ = ["write_table"]

Columns = Mapping[str, list[Any]]


def write_table(path: str | os.PathLike[str], columns: Columns) -> None:
    """Write columns of equal length to a `.csv` or `.parquet` file.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(f"{folder}/t.csv", {"T": [0.5, 1.0], "method": ["aps", "aps"]})
    ...     Path(f"{folder}/t.csv").read_text().splitlines()
    ['T,method', '0.5,aps', '1.0,aps']
    """
    target = as_path(path)
    writer = {".csv": _csv, ".parquet": _parquet}.get(target.suffix.lower())
    if writer is None:
        raise InputError(f"a table is saved as .csv or .parquet; got {target.name!r}.")
    content = writer(columns)
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(content)


def _csv(columns: Columns) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _parquet(columns: Columns) -> bytes:
    arrow, parquet = (need(name, "io", "writing parquet") for name in ("pyarrow", "pyarrow.parquet"))
    stream = io.BytesIO()
    parquet.write_table(arrow.table(dict(columns)), stream)
    return stream.getvalue()
