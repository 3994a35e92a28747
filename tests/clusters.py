"""Dask clusters on this machine. Workers begin as copies of a process that has loaded everything, each in a moment."""

import contextlib
from functools import cache

from parts import require

LOADED = ["distributed", "dask.array", "thermoset.integrations.dask", "thermoset.predictor.many_files"]


@cache
def _load_once() -> None:
    distributed = require("distributed", "dask")
    distributed.utils.get_mp_context().set_forkserver_preload(LOADED)


@contextlib.contextmanager
def local_cluster(**kind):
    """A cluster for a `with` statement; `kind` is what `LocalCluster` takes."""
    dask, distributed = require("dask", "dask"), require("distributed", "dask")
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        _load_once()
        with distributed.LocalCluster(dashboard_address=":0", **kind) as made:
            yield made
