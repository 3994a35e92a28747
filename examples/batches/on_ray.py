"""Predict a folder of parquet files with Ray Data: python -m examples.batches.on_ray PREDICTOR LOGITS OUT."""

import sys

import ray

from thermoset.integrations.batches import Predictor


def predict(predictor: str, logits: str, out: str, workers: int = 2) -> None:
    """Write label, confidence and set of every row to a folder of parquet files."""
    rows = ray.data.read_parquet(logits)
    answers = rows.map_batches(
        Predictor,
        fn_constructor_args=[predictor],
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers),
    )
    answers.write_parquet(out)


if __name__ == "__main__":
    predict(*sys.argv[1:])
