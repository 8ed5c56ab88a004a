"""Clusters of the tests: one for each file, with a new client for each test."""

import pytest

# _clusters is imported by fixtures alone: without Dask other tests still run.


@pytest.fixture(scope="module")
def thread_cluster():
    """Two workers that are threads of this process."""
    from _clusters import local_cluster

    with local_cluster() as cluster:
        yield cluster


@pytest.fixture
def client(thread_cluster):
    """A test that breaks its client does not break the tests after it."""
    from _clusters import new_client

    with new_client(thread_cluster) as client:
        yield client
