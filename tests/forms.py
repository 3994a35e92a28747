"""The same labelled rows in every form that thermoset takes: in memory, in one file, in odd-sized shards."""

import json
from pathlib import Path

import numpy as np

import thermoset as ts
from helpers_io import PARTS
from parts import require
from thermoset.io import FORMATS, SUFFIXES

CUTS = (0.0, 0.001, 0.012, 0.27, 0.271, 0.52, 0.87, 1.0)  # seven odd-sized shards
KINDS = tuple(suffix.removeprefix(".") for suffix in FORMATS)
TEXTS = ("csv", "jsonl")
"""Files of text are read as float64."""
FORMS = (*KINDS, "7 npy", "7 parquet", "7 kinds")
"""Every kind in the registry, and so many shards of a kind."""


def stored(form: str, rows: ts.Logits, folder: Path) -> ts.Logits:
    """Write the rows, and open them."""
    kind = form.rsplit(maxsplit=1)[-1]
    if " " not in form:
        _write(folder / f"rows.{kind}", rows)
        return ts.open(folder / f"rows.{kind}")
    kinds = [one for one in KINDS if one not in TEXTS][:7] if kind == "kinds" else (kind,) * 7
    ends = (np.array(CUTS) * len(rows)).astype(int).tolist()
    for i, suffix in enumerate(kinds):
        _write(folder / f"part-{i}.{suffix}", rows.take(slice(ends[i], ends[i + 1])))
    return ts.open(folder)


def _write(path: Path, rows: ts.Logits) -> None:
    if path.suffix in PARTS:
        require(*PARTS[path.suffix])
    if path.suffix in SUFFIXES:
        ts.save(path, rows)
        return
    columns = rows.logits.tolist(), rows.labels.tolist(), rows.groups or [None] * len(rows)
    lines = ({"logits": row, "label": label, "groups": group} for row, label, group in zip(*columns, strict=True))
    kept = ({name: value for name, value in line.items() if value is not None} for line in lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
