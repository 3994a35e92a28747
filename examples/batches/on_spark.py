"""Predict a folder of parquet files with Spark: spark-submit examples/batches/on_spark.py PREDICTOR LOGITS OUT."""

import sys

from pyspark.sql import SparkSession

from thermoset.integrations.batches import Predictor


def predict(spark: SparkSession, predictor: str, logits: str, out: str) -> None:
    """Write label, confidence and set of every row to a folder of parquet files."""
    rows = spark.read.parquet(logits)
    predict = Predictor(predictor)
    answers = rows.mapInArrow(predict, predict.schema(rows.schema))
    answers.write.parquet(out)


if __name__ == "__main__":
    predict(SparkSession.builder.getOrCreate(), *sys.argv[1:])
