"""Dask clusters of this machine for tests, and waiting for what others do."""

import time
from contextlib import contextmanager

import pytest

distributed = pytest.importorskip("distributed")

# A limit against tests that hang. On a busy machine anything shorter may be reached.
HANGS = 600


def until(condition, what="the condition"):
    """Wait for what other threads or processes bring about."""
    deadline = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.01)


@contextmanager
def local_cluster(n_workers=2, n_threads=1, processes=False, **settings):
    """A cluster of workers that are threads of this process, or processes."""
    with distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=n_threads, processes=processes,
        dashboard_address=":0", **settings,
    ) as cluster:  # fmt: skip
        yield cluster


@contextmanager
def local_client(
    n_workers=2, n_threads=1, processes=False, default=False, memory_limit="auto",
    **settings,
):  # fmt: skip
    """A new client of a cluster, for one test."""
    with (
        local_cluster(
            n_workers, n_threads, processes, memory_limit=memory_limit
        ) as cluster,
        new_client(cluster, n_workers, default, **settings) as client,
    ):
        yield client


@contextmanager
def new_client(cluster, n_workers=2, default=True, **settings):
    """A new client, when all workers are there."""
    with distributed.Client(cluster, set_as_default=default, **settings) as client:
        client.wait_for_workers(n_workers, timeout=HANGS)
        yield client


def on_cluster(estimator=None, *, client=None, n_shards=None, folder=None, **params):
    """A `DaskLanguageModel` of an estimator, and of parameters of `LanguageModel`."""
    from sklstruct.distributed import DaskLanguageModel
    from sklstruct.language_model import LanguageModel

    model = LanguageModel(estimator, **params)
    return DaskLanguageModel(model, client=client, n_shards=n_shards, folder=folder)


def here(model):
    """The fitted `LanguageModel` in this process."""
    return model.compute() if hasattr(model, "compute") else model
