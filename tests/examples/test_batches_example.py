"""The examples on Ray and Spark, each in a process of its own with the real engine, and what users do beside them."""

import os
import shutil
import subprocess
import sys
import tempfile
from textwrap import indent
from typing import NamedTuple

import numpy as np
import pytest

import thermoset as ts
from conftest import ROOT
from law import generated
from parts import require
from thermoset.integrations.batches import Predictor

pytestmark = pytest.mark.long

pa = require("pyarrow", "io")
parquet = require("pyarrow.parquet", "io")

NAMES = ["ant", "bee", "cow", "dog", "eel"]


class Job(NamedTuple):
    """A predictor, a folder of shards of odd sizes (one of them empty), and the answers to expect, by id."""

    folder: str
    predictor: str
    logits: str
    answers: pa.Table

    def run(self, script, **environment):
        """Run a script, to which the paths are arguments, beside the folder for its output."""
        paths = [self.predictor, self.logits, f"{self.folder}/out"]
        known = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), "PYTHONWARNINGS": "default"}
        done = subprocess.run(
            [sys.executable, "-c", script, *paths],
            env=os.environ | known | environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def written(self, name):
        """What an engine wrote, by id."""
        return parquet.read_table(f"{self.folder}/out/{name}").sort_by("id")


@pytest.fixture
def job(tmp_path):
    logits, labels = generated(1500, 5)
    model = ts.TwoTemperaturePredictor().fit(ts.Logits(logits[:800], labels[:800], NAMES))
    model.save(tmp_path / "predictor.json")
    (tmp_path / "logits").mkdir()
    (tmp_path / "out").mkdir()
    rows = logits[800:].astype(np.float32)
    lists = pa.array(list(rows), pa.list_(pa.float32()))
    table = pa.table({"id": pa.array(np.arange(len(rows))), "logits": lists})
    for number, (first, last) in enumerate([(0, 301), (301, 302), (302, 302), (302, 700)]):
        parquet.write_table(table.slice(first, last - first), tmp_path / "logits" / f"{number}.parquet")
    predict = Predictor(model)
    answers = predict(table)
    found = model.predict_arrays(rows)
    assert answers["size"].to_pylist() == found.sets.sum(axis=1).tolist()
    return Job(str(tmp_path), str(tmp_path / "predictor.json"), str(tmp_path / "logits"), answers)


@pytest.mark.parametrize("name", ["on_ray", "on_spark"])
def test_the_page_shows_the_examples(name):
    page, code = (ROOT / "docs/deploy.md").read_text(), (ROOT / f"examples/batches/{name}.py").read_text()
    section = page.split(f"`examples/batches/{name}.py`:\n")[1]
    shown = section.split("```python\n")[1].split("```")[0]
    assert indent(shown, "    ") in code


RAY = """
import sys
import numpy as np
import ray
from examples.batches import on_ray
from thermoset.integrations.batches import Predictor

predictor, logits, out = sys.argv[1:]
limits = {"num_cpus": 4, "object_store_memory": 80 * 2**20}
ray.init(include_dashboard=False, logging_level="error", log_to_driver=False, _temp_dir=TEMPORARY, **limits)
ray.data.DataContext.get_current().enable_progress_bars = False

on_ray.predict(predictor, logits, f"{out}/class")
# Arrays become tensors of Ray, and come back as dicts of arrays.
rows, predict = ray.data.read_parquet(logits), Predictor(predictor)
tensors = rows.map_batches(lambda batch: batch | {"logits": np.stack(batch["logits"])})
tensors.map_batches(predict, batch_format="pyarrow", batch_size=64).write_parquet(f"{out}/tensors")
tensors.map_batches(predict, batch_format="numpy").write_parquet(f"{out}/dicts")
ray.shutdown()
"""


def test_ray(job):
    require("ray.data", "engines")
    short = tempfile.mkdtemp(prefix="ray")  # names of sockets below it have at most 107 characters
    try:
        job.run(RAY.replace("TEMPORARY", repr(short)), RAY_USAGE_STATS_ENABLED="0")
    finally:
        shutil.rmtree(short, ignore_errors=True)
    assert job.written("class").equals(job.answers)
    assert job.written("tensors").equals(job.answers)
    assert job.written("dicts").to_pydict() == job.answers.to_pydict()


SPARK = """
import sys
from pyspark.sql import SparkSession
from examples.batches import on_spark
from thermoset.integrations.batches import Predictor

predictor, logits, out = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
on_spark.predict(spark, predictor, logits, f"{out}/arrow")

rows, predict = spark.read.parquet(logits), Predictor(predictor)
schema = predict.schema(rows.schema)
assert schema.simpleString() == "struct<id:bigint,label:string,confidence:double,set:array<string>,size:int>"
rows.repartition(3).mapInPandas(predict, schema).write.parquet(f"{out}/pandas")
nothing = rows.filter("id < 0").mapInArrow(predict, schema)
assert nothing.count() == 0
spark.stop()
"""


def test_spark(job):
    require("pyspark", "engines")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs java, which is not installed")
    settings = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false "
        "--conf spark.sql.execution.arrow.maxRecordsPerBatch=100 pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    job.run(SPARK, **settings)
    for name in ("arrow", "pandas"):
        assert job.written(name).to_pydict() == job.answers.to_pydict(), name
