"""What predictions do to a schema: of Arrow, Spark or polars."""

import sys
from typing import Any

from thermoset.data.arrays import is_instance
from thermoset.errors import InputError
from thermoset.integrations.batches.arrow import arrow_schema
from thermoset.integrations.batches.columns import Asked, layout_of
from thermoset.integrations.batches.outputs import Outputs, pyarrow

__all__ = ["answered_schema"]


def answered_schema(schema: Any, asked: Asked, outputs: Outputs, classes: tuple[str, ...] | int) -> Any:
    """The schema of a batch that is answered, from that of the batch."""
    if is_instance(schema, "pyarrow", "Schema"):
        return arrow_schema(schema, layout_of(schema.names, asked, classes).kept, outputs)
    if is_instance(schema, "pyspark.sql.types", "StructType"):
        kept = layout_of(schema.names, asked, classes).kept
        types: Any = sys.modules["pyspark.sql.types"]
        made = [types.StructField(name, _spark_type(kind, types)) for name, kind in outputs.arrow_types().items()]
        return types.StructType([*(schema.fields[place] for place in kept), *made])
    if is_instance(schema, "polars", "Schema"):
        names = list(schema)
        kept = layout_of(names, asked, classes).kept
        added = sys.modules["polars"].from_arrow(pyarrow().schema(outputs.arrow_types()).empty_table()).schema
        return type(schema)({names[place]: schema[names[place]] for place in kept} | dict(added))
    raise InputError(f"schema must be an Arrow, Spark or polars schema; got {type(schema).__name__}.")


def _spark_type(kind: Any, types: Any) -> Any:
    """Spark's name for one of our types."""
    arrow = pyarrow()
    if arrow.types.is_list(kind):
        return types.ArrayType(_spark_type(kind.value_type, types))
    by_type = {
        arrow.string(): types.StringType,
        arrow.int32(): types.IntegerType,
        arrow.float64(): types.DoubleType,
    }
    return by_type[kind]()
