"""Predictions for batches of any engine: `Predictor` for Arrow, pandas, polars, DuckDB, Ray, Spark and dicts of arrays.

`columns` says which columns of a batch are read and kept, `outputs` makes the columns that are added; `kinds` names the
kinds of batches, which are read and written by `arrow`, `frames` and `mappings`; `schemas` does the same to the schema
of a table as `Predictor` does to the table.
"""

from thermoset.integrations.batches.predictor import Predictor

__all__ = ["Predictor"]
