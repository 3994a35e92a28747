"""Sweeps, fits, checks and predictions on a dask cluster: the same results as on one machine, bit for bit.

Rows may be a source (`thermoset.open`) or what it opens, which the workers read themselves; a dask array of logits;
delayed blocks of rows; or rows in memory, which are sent to the workers. `client=None` uses the active client, as
`xgboost.dask` does. The client holds the labels: eight bytes per row.

>>> from distributed import Client, LocalCluster
>>> import numpy as np, thermoset as ts
>>> from thermoset.integrations import dask as on_dask
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(0, 5, size=2000)
>>> logits = 3 * (rng.normal(size=(2000, 5)) + 2 * np.eye(5)[labels])
>>> with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
...     there = on_dask.fit(ts.TwoTemperaturePredictor(), logits, labels, client=client)
>>> here = ts.TwoTemperaturePredictor().fit(logits, labels)
>>> there.threshold_ == here.threshold_, there.temperature_sets_ == here.temperature_sets_
(True, True)
"""

from thermoset.integrations.dask.engine import DaskEngine
from thermoset.integrations.dask.running import check, fit, on_cluster, predict, predict_shards, run_shards, sweep

__all__ = ["DaskEngine", "check", "fit", "on_cluster", "predict", "predict_shards", "run_shards", "sweep"]
