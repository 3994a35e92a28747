"""Files of logits: npz, npy, csv, parquet, Arrow, Zarr, HDF5, json, safetensors and pt, by the suffix of the name.

A file is a table (`io.table`): every format is one function from a path to named columns that are read by rows, and
all else is written once on that. No code of a file is ever run, and a file is written whole or not at all. `load` and
`save` take a file at once, `open_blocks` and `open_predictions` (files of predictions) in blocks of rows;
`thermoset.open` takes many files as one set of rows.
"""

from thermoset.io.formats import FORMATS, READABLE, SUFFIXES, found_shards
from thermoset.io.loading import files_of, load, read_partial_labels, read_values, save
from thermoset.io.predictions import PREDICTION_SUFFIXES, open_predictions
from thermoset.io.source import open_blocks

__all__ = [
    "FORMATS",
    "PREDICTION_SUFFIXES",
    "READABLE",
    "SUFFIXES",
    "files_of",
    "found_shards",
    "load",
    "open_blocks",
    "open_predictions",
    "read_partial_labels",
    "read_values",
    "save",
]
