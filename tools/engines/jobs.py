"""A job in each engine: batches of a model on two workers, each on one thread.

A job returns the CPU seconds of each batch's run. Engines are started, and sessions created, before it is timed.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from . import work

N_WORKERS = 2
TOOLS = str(Path(__file__).resolve().parents[1])
#: Runs batches: their first rows and their size.
Job = Callable[[str, str, str, list[int], int], list[float]]


def _seconds(runtime: str, case: str, folder: str, n_rows: int, start: int) -> float:
    """A batch; without a model, a task that does nothing."""
    return work.run(runtime, case, folder, start, n_rows)[0] if case else 0.0


@contextlib.contextmanager
def pool() -> Iterator[Job]:
    """`ProcessPoolExecutor`."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(N_WORKERS, mp_context=context) as executor:

        def job(runtime: str, case: str, folder: str, starts: list[int], n_rows: int) -> list[float]:
            return list(executor.map(functools.partial(_seconds, runtime, case, folder, n_rows), starts))

        yield job


@contextlib.contextmanager
def dask() -> Iterator[Job]:
    """`LocalCluster`."""
    from distributed import Client, LocalCluster

    options = {"n_workers": N_WORKERS, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:

        def job(runtime: str, case: str, folder: str, starts: list[int], n_rows: int) -> list[float]:
            one = functools.partial(_seconds, runtime, case, folder, n_rows)
            return client.gather(client.map(one, starts, pure=False))

        yield job


@contextlib.contextmanager
def ray() -> Iterator[Job]:
    """Ray's actors, as `map_batches` creates them: each takes the next batch when it is free."""
    import ray
    from ray.util import ActorPool

    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    environment = {"env_vars": {"PYTHONPATH": TOOLS}}
    ray.init(num_cpus=N_WORKERS, include_dashboard=False, log_to_driver=False, runtime_env=environment)

    @ray.remote(num_cpus=1)
    class Worker:
        def run(self, *arguments):
            return _seconds(*arguments)

    actors = ActorPool([Worker.remote() for _ in range(N_WORKERS)])

    def job(runtime: str, case: str, folder: str, starts: list[int], n_rows: int) -> list[float]:
        return list(actors.map(lambda actor, start: actor.run.remote(runtime, case, folder, n_rows, start), starts))

    yield job
    ray.shutdown()


@contextlib.contextmanager
def spark() -> Iterator[Job]:
    """Spark's Python workers."""
    from pyspark.sql import SparkSession

    os.environ.update(PYTHONPATH=TOOLS, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    builder = SparkSession.builder.master(f"local[{N_WORKERS}]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def job(runtime: str, case: str, folder: str, starts: list[int], n_rows: int) -> list[float]:
        one = functools.partial(_seconds, runtime, case, folder, n_rows)
        n_tasks = N_WORKERS if case else len(starts)
        return session.sparkContext.parallelize(starts, n_tasks).map(one).collect()

    yield job
    session.stop()


ENGINES = {"pool": pool, "dask": dask, "ray": ray, "spark": spark}
