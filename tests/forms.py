"""The same labelled rows in every form that thermoset takes: in memory, in one file, in odd-sized shards."""

from pathlib import Path

import numpy as np

import thermoset as ts

CUTS = (0.0, 0.001, 0.012, 0.27, 0.271, 0.52, 0.87, 1.0)  # seven odd-sized shards
FORMS = ("npy", "npz", "parquet", "arrow", "safetensors", "zarr", "h5", "7 npy", "7 parquet", "7 kinds")
"""Suffixes of one file, or so many shards of a kind."""


def stored(form: str, rows: ts.Logits, folder: Path) -> ts.Logits:
    """Write the rows, and open them."""
    kind = form.rsplit(maxsplit=1)[-1]
    if " " not in form:
        ts.save(folder / f"rows.{kind}", rows)
        return ts.open(folder / f"rows.{kind}")
    kinds = ("npy", "npz", "parquet", "arrow", "safetensors", "zarr", "h5") if kind == "kinds" else (kind,) * 7
    ends = (np.array(CUTS) * len(rows)).astype(int).tolist()
    for i, suffix in enumerate(kinds):
        ts.save(folder / f"part-{i}.{suffix}", rows.take(slice(ends[i], ends[i + 1])))
    return ts.open(folder)
